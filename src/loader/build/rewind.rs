//! The plan of a run of which there is nothing but a saved position.

use forebay_base::{Error, ErrorKind, Result};

use super::LoaderBuilder;
use crate::loader::dataset::Dataset;
use crate::loader::deny::Deny;
use crate::loader::rewind::Rewind;
use crate::loader::spec::LoaderSpec;
use crate::samples::Samples;
use crate::shard::{OrderId, Position, Shard, whole_text};

/// More than any window takes: a plan alone takes none of it.
pub(in crate::loader) const ANY_MEMORY: u64 = 1 << 50;

impl Dataset {
    /// The plan of the run that a position was saved in. `deny` is what was denied in that run.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Deny, Position};
    ///
    /// let position: Position = serde_json::from_str(&std::fs::read_to_string("state.json")?)?;
    /// let run = Dataset::open("data/train/")?.rewind(&position, Deny::default())?;
    /// for row in run.step(0, 4_000, 3)? {
    ///     println!("{row}"); // data/train/part-7.parquet, row group 3, row 12
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The position is of another data set, or does not say what batches it counts by.
    pub fn rewind(&self, position: &Position, deny: Deny) -> Result<Rewind> {
        let Some(saved) = position.split else {
            let cause = "the state does not say how large a batch is, and how many ranks there are";
            return Err(Error::new(ErrorKind::StateMismatch, cause)
                .hint("resume from it, and save again; or ask the loader itself"));
        };
        let spec = LoaderSpec {
            deny,
            shard: Shard::new(0, saved.world)?,
            global_batch_size: Some(saved.global_batch_size),
            drop_last: saved.drop_last,
            memory: Some(ANY_MEMORY),
            threads: Some(1),
            ..self.spec_of(&position.order)?
        };
        let loader = LoaderBuilder::new(self.clone()).spec(spec).plan_only().build()?;
        loader.restore(position)?;
        // Between epochs a run may deny others from there on; what is asked is the run that was.
        position.order.check_denied(&loader.order_id())?;
        Ok(loader.rewind())
    }

    /// The options of a loader that has an order, as far as that depends on them.
    pub(in crate::loader) fn spec_of(&self, order: &OrderId) -> Result<LoaderSpec> {
        let refused: Vec<_> =
            self.catalog().refused().iter().map(|error| error.place().column.clone()).collect();
        let names = self.catalog().schema.fields().iter().map(|field| field.name().clone());
        // Nothing is read of it, so that any will do.
        let column = names.into_iter().find(|name| !refused.contains(&Some(name.as_str().into())));
        let whole = |text: &Option<String>, what| -> Result<Option<String>> {
            text.as_deref().map(|text| whole_text(text, what).map(str::to_owned)).transpose()
        };
        let filter = whole(&order.filter, "filter")?.as_deref().map(serde_json::from_str).transpose();
        let samples: Option<Samples> =
            whole(&order.samples, "samples")?.as_deref().map(serde_json::from_str).transpose().map_err(
                |error| Error::new(ErrorKind::StateMismatch, format!("the state has odd samples: {error}")),
            )?;
        Ok(LoaderSpec {
            columns: Some(Vec::from_iter(column)),
            samples: samples.unwrap_or_default(),
            filter: filter
                .map_err(|error| Error::invalid(format!("the state has an odd filter: {error}")))?,
            shuffle: order.shuffle()?,
            ..LoaderSpec::default()
        })
    }
}

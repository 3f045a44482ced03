//! The plan of a mix of which there is nothing but a saved position.

use forebay_base::{Error, ErrorKind, Result};

use super::{Mix, MixPosition, MixSpec};
use crate::loader::build::rewind::ANY_MEMORY;
use crate::loader::dataset::Dataset;
use crate::loader::deny::Deny;
use crate::loader::spec::LoaderSpec;
use crate::shard::Shard;

impl Mix {
    /// The mix that a position was saved in, to be asked [which](Mix::which) rows a step has; `sources` are its data sets, in
    /// their order. Nothing is read of it: its batches have a column or none of each source.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Mix, MixPosition};
    ///
    /// let position: MixPosition = serde_json::from_str(&std::fs::read_to_string("state.json")?)?;
    /// let mix = Mix::rewind([Dataset::open("web/")?, Dataset::open("books/")?], &position)?;
    /// for (source, row) in mix.which_of_run(12_345, 3)? {
    ///     println!("source {source}: {row}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The position is of other data sets, or of another number of them; or rows of a source were denied in the run.
    pub fn rewind(sources: impl IntoIterator<Item = Dataset>, position: &MixPosition) -> Result<Mix> {
        Mix::rewind_denied(sources.into_iter().map(|source| (source, Deny::default())), position)
    }

    /// As [`rewind`](Mix::rewind), with what was denied of each source in the run.
    ///
    /// # Errors
    /// As [`rewind`](Mix::rewind); also if other rows were denied.
    pub fn rewind_denied(
        sources: impl IntoIterator<Item = (Dataset, Deny)>,
        position: &MixPosition,
    ) -> Result<Mix> {
        let (datasets, denied): (Vec<Dataset>, Vec<Deny>) = sources.into_iter().unzip();
        if datasets.len() != position.sources.len() {
            let cause = format!(
                "the state is of a mix of {} sources, and {} were given",
                position.sources.len(),
                datasets.len()
            );
            return Err(Error::new(ErrorKind::StateMismatch, cause)
                .hint("give the data sets of all sources, in the order of the mix"));
        }
        let mut schedule = position
            .schedule
            .iter()
            .map(|(step, parts)| (*step, parts.iter().map(|part| *part as f64).collect::<Vec<f64>>()));
        let (_, weights) = schedule.next().ok_or_else(super::position::damaged)?;
        let builders = datasets.iter().zip(denied).zip(&position.sources).zip(weights).enumerate();
        let sources = builders.map(|(number, (((dataset, deny), saved), weight))| {
            let mut spec = LoaderSpec { deny, ..dataset.spec_of(&saved.order)? };
            // Columns of one name would have to have one type.
            for column in spec.columns.iter().flatten() {
                spec.rename.insert(column.clone(), number.to_string());
            }
            Ok((dataset.loader().spec(spec).plan_only(), weight))
        });
        let sources = sources.collect::<Result<Vec<_>>>()?;
        let spec = MixSpec {
            schedule: schedule.collect(),
            random_shares: position.random_shares,
            stop: position.stop,
            repeat: position.repeat,
            shard: Shard::new(0, position.split.world)?,
            global_batch_size: Some(position.split.global_batch_size),
            drop_last: position.split.drop_last,
            memory: Some(ANY_MEMORY),
            threads: Some(1),
            ..MixSpec::default()
        };
        let mix = Mix::of(sources).spec(spec).build()?;
        mix.restore(position)?;
        for (number, (saved, source)) in position.sources.iter().zip(mix.sources()).enumerate() {
            let checked = saved.order.check_denied(&source.order_id());
            checked.map_err(|error| error.hint_also(&format!("it is source {number} of the mix")))?;
        }
        Ok(mix)
    }
}

//! Computes the plan of a past run from a saved position.

use forebay_base::{Error, ErrorKind, Result};

use super::LoaderBuilder;
use crate::loader::dataset::Dataset;
use crate::loader::deny::Deny;
use crate::loader::handle::{Loader, of_source};
use crate::loader::rewind::Rewind;
use crate::loader::spec::LoaderSpec;
use crate::samples::Samples;
use crate::shard::{OrderId, Position, SavedMix, Shard, damaged, whole_text};

/// More memory than any shuffle window takes. A plan that reads no rows uses none of it.
const ANY_MEMORY: u64 = 1 << 50;

impl Rewind {
    /// Computes the plan of the run in which a position was saved. `sources` are the data sets of the run, in
    /// the order of its mix if there are several, each with the rows that were denied in that run.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Deny, Position, Rewind};
    ///
    /// let position: Position = serde_json::from_str(&std::fs::read_to_string("state.json")?)?;
    /// let sources = [Dataset::open("web/")?, Dataset::open("books/")?];
    /// let sources = sources.map(|source| (source, Deny::default()));
    /// for row in Rewind::new(sources, &position)?.step_of_run(12_345, 3)? {
    ///     println!("source {}: {row}", row.source); // source 1: books/part-7.parquet, row group 3, row 12
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the position belongs to other data sets, or to another number of them, or if other rows were
    /// denied.
    pub fn new(sources: impl IntoIterator<Item = (Dataset, Deny)>, position: &Position) -> Result<Rewind> {
        let sources: Vec<(Dataset, Deny)> = sources.into_iter().collect();
        if sources.len() != position.sources.len() {
            let run = match position.is_mix() {
                true => format!("a mix of {} sources", position.sources.len()),
                false => "one data set".to_owned(),
            };
            let cause = format!("the state is of {run}, but {} were given", sources.len());
            return Err(Error::new(ErrorKind::StateMismatch, cause)
                .hint("give the data sets of all sources, in the order of the mix"));
        }
        let builders = sources.into_iter().zip(&position.sources).map(|((dataset, deny), saved)| {
            let spec = LoaderSpec { deny, ..dataset.spec_of(&saved.order)? };
            Ok(dataset.loader().spec(spec))
        });
        let mut builders: Vec<LoaderBuilder> = builders.collect::<Result<_>>()?;
        let builder = match &position.mix {
            Some(saved) => mixed(builders, saved)?,
            None => builders.swap_remove(0),
        };
        let run = LoaderSpec {
            shard: Shard::new(0, position.split.world)?,
            global_batch_size: Some(position.split.global_batch_size),
            drop_last: position.split.drop_last,
            memory: Some(ANY_MEMORY),
            threads: Some(1),
            ..builder.spec.clone()
        };
        let loader = builder.spec(run).plan_only().build()?;
        // Rows that are denied only from a step on stay in the order, so the plan contains them too.
        let mut planned = position.clone();
        planned.sources.iter_mut().for_each(|source| source.order.denied_from = None);
        loader.restore(&planned)?;
        // A new run may change its denied rows at an epoch, but here they must be the same as in the saved
        // run.
        for (number, (saved, source)) in position.sources.iter().zip(loader.sources.all()).enumerate() {
            let checked = saved.order.check_denied(&source.order_id());
            if position.is_mix() { checked.map_err(of_source(number))? } else { checked? }
        }
        loader.rewind()
    }
}

/// Builds the mix that a saved position describes.
fn mixed(sources: Vec<LoaderBuilder>, saved: &SavedMix) -> Result<LoaderBuilder> {
    let mut schedule =
        saved.schedule.iter().map(|(step, parts)| (*step, parts.iter().map(|part| *part as f64).collect()));
    let (_, weights): (u64, Vec<f64>) = schedule.next().ok_or_else(damaged)?;
    let schedule = schedule.collect();
    let sources = sources.into_iter().zip(weights).enumerate().map(|(number, (mut source, weight))| {
        // A mix requires one type for columns of one name, so the columns of each source get a different
        // name.
        for column in source.spec.columns.iter().flatten() {
            source.spec.rename.insert(column.clone(), number.to_string());
        }
        (source, weight)
    });
    let SavedMix { stop, repeat, random_shares, ref max_passes, .. } = *saved;
    Ok(Loader::mix(sources)?.spec(LoaderSpec {
        schedule,
        random_shares,
        stop,
        repeat,
        max_passes: max_passes.clone(),
        ..LoaderSpec::default()
    }))
}

impl Dataset {
    /// Computes the plan of the run in which a position was saved. `deny` has the rows that were denied in
    /// that run.
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
    /// Fails if the position belongs to another data set.
    pub fn rewind(&self, position: &Position, deny: Deny) -> Result<Rewind> {
        Rewind::new([(self.clone(), deny)], position)
    }

    /// The options of a loader over this data set that puts its rows in the order that `order` identifies.
    fn spec_of(&self, order: &OrderId) -> Result<LoaderSpec> {
        let refused: Vec<_> =
            self.catalog().refused().iter().map(|error| error.place().column.clone()).collect();
        let names = self.catalog().schema.fields().iter().map(|field| field.name().clone());
        // The options must name a column. None is read, so any column will do.
        let column = names.into_iter().find(|name| !refused.contains(&Some(name.as_str().into())));
        let whole = |text: &Option<String>, what| -> Result<Option<String>> {
            text.as_deref().map(|text| whole_text(text, what).map(str::to_owned)).transpose()
        };
        let filter = whole(&order.filter, "filter")?.as_deref().map(serde_json::from_str).transpose();
        let samples: Option<Samples> =
            whole(&order.samples, "samples")?.as_deref().map(serde_json::from_str).transpose().map_err(
                |error| {
                    Error::new(
                        ErrorKind::StateMismatch,
                        format!("the samples in the state are malformed: {error}"),
                    )
                },
            )?;
        Ok(LoaderSpec {
            columns: Some(Vec::from_iter(column)),
            samples: samples.unwrap_or_default(),
            filter: filter
                .map_err(|error| Error::invalid(format!("the filter in the state is malformed: {error}")))?,
            shuffle: order.shuffle()?,
            ..LoaderSpec::default()
        })
    }
}

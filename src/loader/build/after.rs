//! Builds loaders that continue after an epoch of another loader, over data sets that have changed since
//! then.

use forebay_base::{Error, ErrorKind, Result};

use super::LoaderBuilder;
use crate::loader::handle::{Loader, of_source};
use crate::loader::mix::{asked, schedule_after};
use crate::loader::progress::At;
use crate::shard::{Origin, Position, Run, SkippedSteps, damaged};

impl LoaderBuilder {
    /// Continues from a position at the [beginning](Loader::beginning) of an epoch, over data sets that have
    /// changed since the position was saved: a newer version of a table, or a folder with more files. The
    /// loader begins with the epoch of the position. A mix goes on counting its steps and passes, and keeps
    /// weights that were set, but the length of its epochs follows from the data sets as they are now. If the
    /// number of lanes (parallel parts of the order) is left open, it is the one in the position. Default:
    /// the loader begins with epoch 0.
    ///
    /// The loader must have the seed, shuffle, filter and samples of the position. Every rank must open the
    /// same versions of the data sets. A position of the new loader records these
    /// versions, and can be restored by a loader over them.
    ///
    /// ```no_run
    /// use forebay::{Dataset, Loader, Shuffle};
    ///
    /// let mut sources = [Dataset::open("s3://acme/clicks/")?, Dataset::open("s3://acme/views/")?];
    /// let mix = |sources: &[Dataset; 2]| {
    ///     let shuffled = |source: &Dataset| source.loader().shuffle(Shuffle::seeded(17));
    ///     Loader::mix([(shuffled(&sources[0]), 0.7), (shuffled(&sources[1]), 0.3)])
    /// };
    /// let mut loader = mix(&sources)?.build()?;
    /// for number in 0..10 {
    ///     for source in &mut sources {
    ///         if let Some(newer) = source.newest()? {
    ///             *source = newer;
    ///         }
    ///     }
    ///     loader = mix(&sources)?.after(&loader.beginning(number)?).build()?;
    ///     for batch in loader.epoch(number) {
    ///         let batch = batch?;
    ///     }
    /// }
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn after(mut self, position: &Position) -> Self {
        self.after = Some(position.clone().into());
        self
    }

    /// The number of lanes (parallel parts of the order) if the user leaves it open: one for each rank, but
    /// at most one for each sample. The sources of a mix must have equally many lanes, so they may have empty
    /// ones.
    pub(super) fn default_lanes(&self, samples: u64) -> u32 {
        let world = self.spec.shard.world();
        let most = if self.among > 1 { world } else { u32::try_from(samples.max(1)).unwrap_or(world) };
        let saved = self.after.as_ref().and_then(|position| position.sources.get(self.source as usize));
        saved.map_or(world.min(most), |saved| saved.order.lanes.max(1))
    }

    /// Checks that the position from which the loader continues is at the beginning of an epoch, and was
    /// saved by a loader with the same number of sources and the same rules. `run` is given for a mix.
    pub(super) fn check_after(&self, run: Option<&Run>) -> Result<()> {
        let Some(position) = &self.after else { return Ok(()) };
        position.check(self.mixed.len().max(1), run.map(asked).as_ref())?;
        if position.row > 0 {
            let cause = format!("the position is at row {} of epoch {}", position.row, position.epoch);
            return Err(Error::new(ErrorKind::StateMismatch, cause).hint(
                "a loader goes on after whole epochs: restore the position over the data that it was saved \
                 with, or give the beginning of an epoch",
            ));
        }
        Ok(())
    }

    /// Continues the run of a mix from the position that [`after`](Self::after) sets, if there is one.
    pub(super) fn run_after(&self, run: Run) -> Result<Run> {
        self.check_after(Some(&run))?;
        let Some(position) = &self.after else { return Ok(run) };
        let saved = position.mix.as_ref().ok_or_else(damaged)?;
        let given = if run.skipped.is_empty() { saved.skipped.clone() } else { run.skipped.to_vec() };
        let skipped: Vec<SkippedSteps> = given.into_iter().filter(|steps| steps.to > saved.step).collect();
        let sources = run.rule.rows.len();
        let mut rule = run.rule;
        rule.schedule = schedule_after(&rule.schedule, saved, sources)?;
        let origin = Origin {
            epoch: position.epoch,
            step: saved.step,
            passes: position.sources.iter().map(|source| source.first_pass).collect(),
            taken: vec![0; sources],
        };
        Ok(Run { rule, origin, skipped: skipped.into(), set_from: saved.set_from })
    }

    /// Makes the loader begin with the epoch of the position that [`after`](Self::after) sets, if there is
    /// one. Refuses a position that was saved with another seed, shuffle, filter or number of lanes.
    pub(super) fn begins_after(&self, loader: Loader) -> Result<Loader> {
        let Some(position) = &self.after else { return Ok(loader) };
        let sources = loader.sources.all().iter().zip(&position.sources).enumerate();
        for (number, (source, saved)) in sources {
            let checked = source.check_rule(saved);
            if loader.sources.mixture.is_some() {
                checked.map_err(of_source(number))?;
            } else {
                checked?;
            }
        }
        loader.sources.progress.set(At::begin(position.epoch));
        Ok(loader)
    }
}

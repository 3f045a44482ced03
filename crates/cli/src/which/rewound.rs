//! The run that a saved position belongs to: the run of a loader or of a mix.

use std::fs;
use std::path::Path;

use forebay::{Dataset, Position, Rewind};
use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::RowPlace;

use crate::deny;
use crate::location::Location;
use crate::units::count;

/// The run that a saved position belongs to, with its plan.
pub(super) struct RewoundRun {
    rewind: Rewind,
    is_mix: bool,
}

impl RewoundRun {
    /// Opens the run of a saved state over its locations. `denied` are the lists of rows that the run denied.
    pub(super) fn open(
        location: &Location,
        state: &Path,
        denied: &[String],
    ) -> Result<(Vec<Dataset>, RewoundRun)> {
        let position = read_state(state)?;
        let is_mix = position.is_mix();
        let (datasets, denied) = match is_mix {
            false => (vec![location.open()?], vec![deny::read_all(denied)?]),
            true => {
                let datasets = location.open_each()?;
                let denied = deny::read_of_sources(denied, datasets.len())?;
                (datasets, denied)
            }
        };
        let rewind = Rewind::new(datasets.iter().cloned().zip(denied), &position)?;
        Ok((datasets, RewoundRun { rewind, is_mix }))
    }

    pub(super) fn is_mix(&self) -> bool {
        self.is_mix
    }

    /// The number of ranks that share each step.
    pub(super) fn world(&self) -> u32 {
        self.rewind.world()
    }

    /// The rows of a rank's batch in step `step`, counted from the beginning of `epoch`, or of the run if
    /// there is no `epoch`. Without `step`, the rows of the next batch.
    pub(super) fn rows(&self, epoch: Option<u64>, step: Option<u64>, rank: u32) -> Result<Vec<RowPlace>> {
        match (step, epoch) {
            (None, _) => self.rewind.next(rank),
            (Some(step), None) => self.rewind.step_of_run(step, rank),
            (Some(step), Some(epoch)) => self.rewind.step(epoch, step, rank),
        }
    }

    /// The name of a step in words.
    pub(super) fn named(&self, epoch: Option<u64>, step: Option<u64>) -> Result<String> {
        Ok(match (epoch, step) {
            (_, None) => format!("epoch {}, the next step", count(self.rewind.epoch())),
            (Some(epoch), Some(step)) => format!("epoch {}, step {}", count(epoch), count(step)),
            (None, Some(step)) if self.is_mix => format!("step {} of the run", count(step)),
            (None, Some(step)) => {
                let (epoch, step) = self.rewind.locate(step)?;
                format!("epoch {}, step {}", count(epoch), count(step))
            }
        })
    }
}

fn read_state(file: &Path) -> Result<Position> {
    const SOURCE: &str = "json.dump(loader.state_dict(), file) writes one";
    let here = || Place::file(file.to_string_lossy());
    let text = fs::read_to_string(file).map_err(|error| {
        let cause = format!("no position of a loader can be read: {error}");
        Error::new(error.into_error().kind(), cause).hint(SOURCE).at(here())
    })?;
    serde_json::from_str(&text).map_err(|error| {
        Error::new(ErrorKind::StateMismatch, format!("not a position of a loader: {error}"))
            .hint(SOURCE)
            .at(here())
    })
}

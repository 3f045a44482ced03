//! The run of a saved position: of a loader, or of a mix.

use std::fs;
use std::path::Path;

use forebay::{Dataset, Mix, MixPosition, Position, Rewind};
use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::RowPlace;

use crate::deny;
use crate::location::Location;
use crate::units::count;

/// A saved position.
enum State {
    Loader(Position),
    Mix(MixPosition),
}

/// The plan of the run.
pub(super) enum Run {
    Loader(Rewind),
    Mix(Mix, MixPosition),
}

/// The source of a row, 0 where there is one alone, and its place.
pub(super) type Found = (usize, RowPlace);

impl Run {
    /// The run of a state, over the locations. `denied` are the lists of what it denied.
    pub(super) fn open(location: &Location, state: &Path, denied: &[String]) -> Result<(Vec<Dataset>, Run)> {
        match read_state(state)? {
            State::Loader(position) => {
                let dataset = location.open()?;
                let run = dataset.rewind(&position, deny::read_all(denied)?)?;
                Ok((vec![dataset], Run::Loader(run)))
            }
            State::Mix(position) => {
                let datasets = location.open_each()?;
                let denied = deny::read_of_sources(denied, datasets.len())?;
                let mix = Mix::rewind_denied(datasets.iter().cloned().zip(denied), &position)?;
                Ok((datasets, Run::Mix(mix, position)))
            }
        }
    }

    pub(super) fn is_mix(&self) -> bool {
        matches!(self, Run::Mix(..))
    }

    /// Ranks that share each step.
    pub(super) fn world(&self) -> u32 {
        match self {
            Run::Loader(run) => run.world(),
            Run::Mix(_, position) => position.split.world,
        }
    }

    /// The epoch in which it stands.
    fn epoch(&self) -> u64 {
        match self {
            Run::Loader(run) => run.epoch(),
            Run::Mix(_, position) => position.epoch,
        }
    }

    /// The rows of a rank's batch in a step, of an epoch if there is one; without a step, in the one that comes next.
    pub(super) fn rows(&self, epoch: Option<u64>, step: Option<u64>, rank: u32) -> Result<Vec<Found>> {
        let alone = |rows: Vec<RowPlace>| rows.into_iter().map(|row| (0, row)).collect();
        match (self, step) {
            (Run::Loader(run), None) => run.next(rank).map(alone),
            (Run::Loader(run), Some(step)) => {
                let steps = run.steps().max(1);
                let (epoch, step) = epoch.map_or((step / steps, step % steps), |epoch| (epoch, step));
                run.step(epoch, step, rank).map(alone)
            }
            (Run::Mix(mix, _), None) => mix.which_next(rank),
            (Run::Mix(mix, _), Some(step)) => match epoch {
                Some(epoch) => mix.which(epoch, step, rank),
                None => mix.which_of_run(step, rank),
            },
        }
    }

    /// A step in words.
    pub(super) fn named(&self, epoch: Option<u64>, step: Option<u64>) -> String {
        match (self, epoch, step) {
            (_, _, None) => format!("epoch {}, the next step", count(self.epoch())),
            (_, Some(epoch), Some(step)) => format!("epoch {}, step {}", count(epoch), count(step)),
            (Run::Loader(run), None, Some(step)) => {
                let steps = run.steps().max(1);
                format!("epoch {}, step {}", count(step / steps), count(step % steps))
            }
            (Run::Mix(..), None, Some(step)) => format!("step {} of the run", count(step)),
        }
    }
}

fn read_state(file: &Path) -> Result<State> {
    const SOURCE: &str = "json.dump(loader.state_dict(), file) writes one";
    let here = || Place::file(file.to_string_lossy());
    let text = fs::read_to_string(file).map_err(|error| {
        let cause = format!("no position of a loader can be read: {error}");
        Error::new(error.into_error().kind(), cause).hint(SOURCE).at(here())
    })?;
    if let Ok(position) = serde_json::from_str(&text) {
        return Ok(State::Mix(position));
    }
    serde_json::from_str(&text).map(State::Loader).map_err(|error| {
        Error::new(ErrorKind::StateMismatch, format!("not a position of a loader: {error}"))
            .hint(SOURCE)
            .at(here())
    })
}

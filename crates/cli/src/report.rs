//! Writes an HTML page of figures and plots about a training run, from the statistics of its loaders.
//!
//! Each rank has a [`RankReport`]. [`write()`] makes a page of one report, or collects the reports of all
//! ranks in a folder and makes one page of them.

mod figures;
mod files;
mod page;
mod plots;
mod summary;

use forebay::{Loader, Stats};
use serde::{Deserialize, Serialize};

use crate::machine;

pub use self::files::write;

/// The report of one rank on its run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RankReport {
    /// The version of the library.
    version: String,
    /// The locations of the data, as the user gave them.
    locations: Vec<String>,
    rank: u32,
    world: u32,
    /// The rows in a batch of this rank.
    batch_size: u64,
    /// Why the rates of this build mean little; `None` if the compiler optimised it.
    unoptimised: Option<String>,
    /// The largest resident memory of the rank's process so far.
    peak_rss_bytes: Option<u64>,
    stats: Stats,
}

/// The reports in a folder that belong to one run.
struct Collected {
    ranks: Vec<RankReport>,
    /// The names of files that are left out, each with the reason.
    left_out: Vec<String>,
}

impl RankReport {
    /// Reports what `loader` has measured so far. `locations` are those of its data, as the user gave them.
    pub fn new(loader: &Loader, locations: Vec<String>) -> Self {
        let spec = loader.spec();
        RankReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            locations,
            rank: spec.shard.rank(),
            world: spec.shard.world(),
            batch_size: spec.batch_size,
            unoptimised: machine::unoptimised(),
            peak_rss_bytes: machine::peak_rss(),
            stats: loader.stats(),
        }
    }

    /// Whether another report is of the same run, as far as the reports show.
    fn is_of_run(&self, other: &RankReport) -> bool {
        (&self.version, &self.locations, self.world) == (&other.version, &other.locations, other.world)
    }
}

//! Feeds GPU training straight from Parquet.

pub mod batch;
pub mod cache;
pub mod catalog;
pub mod decode;
pub mod error;
pub mod loader;
mod monitor;
#[doc(hidden)]
pub mod panics;
pub mod paths;
pub mod reader;
mod row_set;
mod samples;
pub mod shard;
mod shuffle;
pub mod sizes;
mod snapshot;
pub mod source;

pub use cache::DiskCache;
pub use catalog::Catalog;
pub use decode::{Image, Layout, PixelType};
pub use error::{Error, ErrorKind, Place, Result};
pub use loader::{BadRow, Dataset, Epoch, Loader, LoaderBuilder, OnBadRow, RankPlan, Stats, Step, Wait};
pub use reader::Filter;
pub use shard::{Position, Shard, Shuffle};

//! Feeds GPU training straight from Parquet.

pub mod batch;
pub mod cache;
pub mod catalog;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod decode;
pub mod error;
pub mod loader;
mod monitor;
#[doc(hidden)]
pub mod panics;
pub mod paths;
pub mod reader;
pub mod shard;
mod shuffle;
pub mod sizes;
pub mod source;

pub use cache::DiskCache;
pub use catalog::Catalog;
pub use decode::{Image, Layout, PixelType};
pub use error::{Error, ErrorKind, Place, Result};
pub use loader::{
    BadRow, Dataset, Epoch, Loader, LoaderBuilder, LoaderSpec, OnBadRow, RankPlan, Stats, Step, Wait,
};
pub use reader::Filter;
pub use shard::{Position, Shard, Shuffle};

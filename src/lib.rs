//! Feeds GPU training straight from Parquet.

mod batch;
pub mod error;
pub mod shard;

pub use error::{Error, ErrorKind, Place, Result};
pub use shard::{Position, Shard, Shuffle};

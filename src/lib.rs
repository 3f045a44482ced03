//! Feeds GPU training straight from Parquet.

mod batch;
pub mod catalog;
pub mod error;
pub mod reader;
pub mod shard;
pub mod source;

pub use error::{Error, ErrorKind, Place, Result};
pub use shard::{Position, Shard, Shuffle};

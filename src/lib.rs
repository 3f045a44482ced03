//! Feeds GPU training straight from Parquet.

pub mod error;

pub use error::{Error, ErrorKind, Place, Result};

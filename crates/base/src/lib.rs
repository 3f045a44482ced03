//! The types that all crates of [forebay](https://docs.rs/forebay) share: errors, caught panics, sizes and
//! paths as people write them, bitmaps of deleted rows, and the memory limit of all loaders.
//!
//! Users find these types in `forebay` itself.

#[cfg(target_endian = "big")]
compile_error!(
    "forebay does not support big-endian processors: it reads numbers of Parquet pages and cache entries in place"
);

pub mod error;
pub mod panics;
pub mod paths;
pub mod processor;
pub mod promise;
pub mod roaring;
pub mod sizes;

pub use error::{Error, ErrorKind, Place, Result};

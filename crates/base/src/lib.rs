//! The parts that all crates of [forebay](https://docs.rs/forebay) build on: its error, panics as values,
//! sizes and paths as people write them, and sets of numbers as tables store them.
//!
//! Users find these types in `forebay` itself.

pub mod error;
pub mod panics;
pub mod paths;
pub mod processor;
pub mod promise;
pub mod roaring;
pub mod sizes;

pub use error::{Error, ErrorKind, Place, Result};

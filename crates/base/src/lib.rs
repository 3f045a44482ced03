//! The parts that all crates of [forebay](https://docs.rs/forebay) build on: its error, panics as values, and
//! sizes and paths as people write them.
//!
//! Users find these types in `forebay` itself.

pub mod error;
pub mod panics;
pub mod paths;
pub mod processor;
pub mod promise;
pub mod sizes;

pub use error::{Error, ErrorKind, Place, Result};

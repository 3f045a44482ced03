//! What every part of [forebay](https://docs.rs/forebay) builds on: its error, panics as values, sizes and
//! paths as people write them.
//!
//! Users meet these types in `forebay` itself.

pub mod error;
pub mod panics;
pub mod paths;
pub mod processor;
pub mod promise;
pub mod sizes;

pub use error::{Error, ErrorKind, Place, Result};

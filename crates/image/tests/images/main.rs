//! Tests that decode encoded images: formats, hostile bytes, and other people's files. One test checks the
//! floors of the crate.

mod floors;
mod foreign;
mod formats;
mod limits;
#[path = "../../../../tests/house/paths.rs"]
mod paths;
#[path = "../../../../tests/house/skipped.rs"]
mod skipped;

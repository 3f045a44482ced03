//! Tests that decode encoded images: formats, hostile input, and files of other projects. One test checks
//! from which modules each module of the crate imports.

mod floors;
mod foreign;
mod formats;
mod limits;
#[path = "../../../../tests/house/paths.rs"]
mod paths;
#[path = "../../../../tests/house/skipped.rs"]
mod skipped;

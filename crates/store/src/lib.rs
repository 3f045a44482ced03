//! Finds and reads Parquet data sets: resolves a URL to files, reads their footers, and fetches byte ranges.
//!
//! ```text
//! URL ─ source/url, clouds ─► Store ─ list, tables ─► Snapshot ─ source/footer ─► Catalog
//!                               └─ remote/ranges ─► bytes of column chunks
//! ```
//!
//! [`source`] talks to local disks and object stores. [`snapshot`] describes the files of a location before
//! any of them is read. [`catalog`] has the files, row groups and columns of a data set. [`row_set`] is a set
//! of rows of one row group. The crate is a part of [forebay](https://docs.rs/forebay), where users find the
//! documentation.

pub mod catalog;
pub mod row_set;
pub mod snapshot;
pub mod source;

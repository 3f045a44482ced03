//! From a URL to the files, footers and byte ranges of a Parquet data set.
//!
//! ```text
//! URL ─ source/url, clouds ─► Store ─ list, tables ─► Snapshot ─ source/footer ─► Catalog
//!                               └─ remote/ranges ─► bytes of column chunks
//! ```
//!
//! [`source`] reaches the stores, [`snapshot`] is a location before its files are read, [`catalog`] has the
//! files, row groups and columns of a data set, and [`row_set`] is a set of rows of one row group. The crate
//! is a part of [forebay](https://docs.rs/forebay), whose documentation is for users.

pub mod catalog;
pub mod row_set;
pub mod snapshot;
pub mod source;

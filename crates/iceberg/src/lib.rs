//! The metadata of an [Apache Iceberg](https://iceberg.apache.org) table, read as plain values.
//!
//! An Iceberg table is a file of metadata, which names snapshots; a snapshot is a list of manifests, and
//! these are lists of files with rows and of files that delete rows. This crate reads all of them: from the
//! bytes of the metadata it chooses a snapshot, and from those of its manifests it makes a [`Table`] with the
//! live files, what deletes rows of which, values of partitions, and the columns with their numbers in the
//! files. It reads nothing itself: whoever uses it fetches the bytes, and reads the Parquet files that delete
//! rows.
//!
//! ```text
//! metadata ─► Metadata ─► Chosen ─► bytes of manifests ─► Scan ─► Table ─► bytes of vectors ─► rows
//! metadata.rs, schema.rs  choose.rs  manifest.rs, avro.rs   scan.rs  table.rs           deletes.rs
//! names.rs, default.rs                                      value.rs, location.rs
//! ```
//!
//! # What is read
//!
//! Tables of the format versions 1, 2 and 3 whose files are Parquet: columns by number, defaults of columns,
//! values of partitions, deletes by position and by equality, deletion vectors. Other formats of files, types
//! that have no columnar form, and encrypted files are refused by name. Metadata is untrusted: whatever it
//! holds gives a [`Table`] or an error with its place.

mod avro;
mod choose;
mod default;
mod deletes;
mod location;
mod manifest;
mod metadata;
mod names;
mod scan;
mod schema;
mod table;
mod value;

pub use choose::{Chosen, Wanted};
pub use deletes::{DeletionVector, POSITION_COLUMNS};
pub use location::{Where, locate};
pub use manifest::{Manifest, manifests};
pub use metadata::{Metadata, Snapshot};
pub use names::FieldName;
pub use scan::Scan;
pub use schema::Column;
pub use table::{Equality, File, Positions, Table};

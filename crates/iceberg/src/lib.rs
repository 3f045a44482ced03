//! The metadata of an [Apache Iceberg](https://iceberg.apache.org) table, read as plain values.
//!
//! An Iceberg table is a metadata file, which names snapshots; a snapshot is a list of manifests, and each
//! manifest lists files with rows or files that delete rows. This crate parses all of these: it chooses a
//! snapshot from the bytes of the metadata, and turns the bytes of the snapshot's manifests into a [`Table`]
//! with the live files, the deletes that apply to each, the values of partitions, and the columns with their
//! field ids. It does no input or output: its user fetches the bytes, and reads the Parquet files that delete
//! rows.
//!
//! ```text
//! metadata ─► Metadata ─► Chosen ─► bytes of manifests ─► Scan ─► Table ─► bytes of vectors ─► rows
//! metadata.rs, schema.rs  choose.rs  manifest.rs, avro.rs   scan.rs  table.rs           deletes.rs
//! names.rs, default.rs                    statistics.rs     value.rs, location.rs
//! ```
//!
//! # What is read
//!
//! The crate reads tables of the format versions 1, 2 and 3 whose files are Parquet, with columns that are
//! found by field id, default values of columns, values of partitions, deletes by position and by equality,
//! and deletion vectors. Other formats of files, types without an Arrow type, and encrypted files are errors.
//! The crate does not trust metadata: any content gives a [`Table`] or an error with its place.

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
mod statistics;
mod table;
mod value;

pub use choose::{Chosen, Wanted};
pub use deletes::{DeletionVector, POSITION_COLUMNS};
pub use location::{Folders, Locator, Where};
pub use manifest::{Manifest, ROW_ID_COLUMN, manifests};
pub use metadata::{Metadata, Snapshot};
pub use names::FieldName;
pub use scan::Scan;
pub use schema::TableColumn;
pub use table::{Equality, Positions, Table, TableFile};

//! Table formats such as Delta and Iceberg: folders with metadata that list the files of the current version.
//!
//! Reading every Parquet file in such a folder would bring back deleted rows. Even the current files alone
//! are not the table, because the metadata can delete single rows, rename columns and hold the values of
//! partition keys. So a format reads the metadata and returns the table's [`Snapshot`], or refuses the table
//! if it can only recognise it. A table is read if its own folder is opened; a folder above or inside it is
//! refused. Files that are named one by one are read as plain Parquet.

#[cfg(feature = "delta")]
mod checkpoint_pages;
#[cfg(feature = "delta")]
mod delta;
mod format;
#[cfg(feature = "iceberg")]
mod iceberg;
mod known;
mod refused;
mod root;

pub(super) use format::refusal;
pub use format::{FoundFile, Sign, TableFolder, TableFormat};
pub use known::register_table_format;
pub(super) use known::{is_sign, of_folder, of_parquet, opened_by, refuse, refuse_above, shown_by};
pub(super) use root::TableRoot;

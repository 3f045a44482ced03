//! Table formats: folders with their own list of live files.
//!
//! Reading every Parquet file in such a folder would bring back rows that were deleted. Even the live files
//! alone are not the table: its list may also delete rows and rename columns, and it has the partition keys.
//! So the format returns the table's [`Snapshot`], or refuses the table if it only recognises it. A table is
//! read if its own folder is opened; a folder above or inside it is refused. Files that are named one by one
//! are read without regard to the table.

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

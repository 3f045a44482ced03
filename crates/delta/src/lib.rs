//! The log of a [Delta Lake](https://delta.io) table, read as plain values.
//!
//! A Delta table is a folder of Parquet files with a log, `_delta_log`, that says which of the files belong
//! to the table. This crate reads the log: from the names of the log's files it chooses those that a version
//! needs, and from their bytes it makes a [`Table`] with the live files, their partition values and deleted
//! rows, and the columns with their names in the files. It does no I/O: its user lists the folder and fetches
//! the bytes.
//!
//! ```text
//! names of _delta_log ─► Segment ─► bytes ─► Replay ─► Table ─► bytes of deletion vectors ─► ranges of rows
//! segment.rs, name.rs               action.rs  replay.rs           deletion.rs, z85.rs
//!                                   checkpoint.rs      protocol.rs, schema.rs, partition.rs, path.rs, statistics.rs
//! ```
//!
//! # What is read
//!
//! The crate reads tables of the reader versions 1, 2 and 3 with the features in [`SUPPORTED_FEATURES`], and
//! refuses any other feature by its name. It reads commits as JSON; checkpoints in one file, in several
//! parts, and of the second version with sidecars; deletion vectors in the log and in files; and columns that
//! are found by name or by id. It does not trust the log: any content gives a [`Table`] or an error with its
//! place.

mod action;
mod checkpoint;
mod deletion;
mod name;
mod partition;
mod path;
mod protocol;
mod replay;
mod schema;
mod segment;
mod statistics;
mod table;
mod z85;

pub use deletion::{DeletedRows, DeletionVector, VectorPlace};
pub use protocol::SUPPORTED_FEATURES;
pub use replay::{Replay, commit_time};
pub use schema::{Found, StoredName, TableColumn};
pub use segment::{Commit, LogEntry, Segment, commits};
pub use table::{Table, TableFile};

/// The folder of the log within the table's folder.
pub const LOG_FOLDER: &str = "_delta_log";

/// The folder within the log's folder that holds the sidecars of checkpoints.
pub const SIDECAR_FOLDER: &str = "_sidecars";

//! Reads row groups in plan order: turns the parts of a plan (row groups, or runs of their rows) into Arrow
//! rows in memory.
//!
//! ```text
//! parts ─ budget ─ fetch ─► bytes ║ rows ─► Resident
//!          async            async ║ sync, on the loader's pool
//! ```
//!
//! [`fetch`] is the last async step: it waits for the memory budget and for the store. [`rows`] then decodes
//! the bytes to Arrow arrays: columns of numbers with [`numbers`], structures and lists with [`nested`], and
//! all others with the Parquet crate. [`pages`] checks pages before they are decoded, and [`integers`] has
//! Parquet's encodings of integers. [`row_cache`] and [`row_memory`] return rows that were kept earlier.
//! [`select`] and [`filter`] decide which rows of a row group are wanted.

pub(crate) mod budget;
mod bunches;
pub(crate) mod chunk_pages;
pub(crate) mod coded;
pub(crate) mod cost;
mod decode;
pub(crate) mod fetch;
pub(crate) mod filter;
pub(crate) mod heads;
mod held;
mod integers;
mod nested;
mod numbers;
mod pages;
pub(crate) mod pieces;
mod placed;
pub(crate) mod reads;
mod resident;
pub(crate) mod row_cache;
pub(crate) mod row_memory;
pub(crate) mod rows;
pub(crate) mod select;

pub(crate) use decode::{cut, read, read_head, read_together};
pub use filter::Filter;
pub(crate) use held::Held;
pub(crate) use placed::Rows;
pub(crate) use resident::{Copies, Renew, Resident};

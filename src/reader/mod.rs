//! Row groups in plan order: from parts of a plan to their rows.
//!
//! ```text
//! parts ─ budget ─ fetch ─► bytes ║ rows ─► Resident
//!          async            async ║ sync, on the loader's pool
//! ```
//!
//! [`fetch`] is the last async file: it waits for the budget and for the store. [`rows`] is the first one
//! that works: it turns bytes into Arrow arrays, numbers by [`numbers`], structures and lists by [`nested`],
//! everything else through the Parquet crate. [`row_cache`] and [`row_memory`] return rows that were kept
//! before. [`integers`] has Parquet's encodings of whole numbers, which [`pages`] checks before [`numbers`]
//! decodes them. [`select`] and [`filter`] decide which rows of a row group are wanted.

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
pub(crate) use resident::{Renew, Resident};

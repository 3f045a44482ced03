//! From locations to rows: which files are read, what they may contain, and which rows they give.

mod catalog;
mod column_decoder;
mod delta;
mod filters;
mod foreign;
mod iceberg;
mod laws;
mod nulls;
mod page_index;
mod places;
#[path = "../house/skipped.rs"]
mod skipped;
mod units;
mod vectors;
mod verdicts;

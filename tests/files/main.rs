//! From locations to rows: which files count, what they may hold, and what is read of them.

mod catalog;
mod column_decoder;
mod delta;
mod filters;
mod foreign;
mod nulls;
mod page_index;
mod places;

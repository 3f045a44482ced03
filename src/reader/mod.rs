//! Row groups in plan order: from bytes to rows.

pub mod filter;
mod pages;
pub mod rows;

//! Row groups in plan order: from bytes to rows.

mod pages;
pub mod rows;

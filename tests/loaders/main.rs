//! Whole loaders must obey the laws of docs/design. Each row has its id, and every other value is a function
//! of the id, which the tests know (`table`).
//!
//! `cases` drives random loaders (`case`) through the laws (`laws`). The cases are the same in every run:
//! 100, or 2,000 with `FOREBAY_LONG=1`. A failure names its seed; `FOREBAY_CASE=<seed>` runs that case alone.
//! `pinned` compares orders and pixels with `pinned.txt`, which `FOREBAY_BLESS=1` rewrites: a change there is
//! a change of the contract. Each of the other files tests one subject.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

mod case;
mod chance;
mod filters;
mod pictures;
mod run;
mod table;
#[path = "../files/vectors.rs"]
mod vectors;

mod cases;
mod columns;
mod counters;
mod images;
mod laws;
mod pinned;
mod pixels;
mod positions;
mod stacks;

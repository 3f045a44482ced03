//! Tests the reading of schemas in every form that Petastorm has written, and of other bytes.

mod bounds;
mod codecs;
mod encodings;
mod foreign;
mod memory;
mod mutants;
mod numbers;
mod recorded;
#[path = "../../../../tests/house/skipped.rs"]
mod skipped;
mod written;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

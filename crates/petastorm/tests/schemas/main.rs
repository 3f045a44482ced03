//! Schemas in every form that Petastorm has written, and bytes that are not schemas.

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

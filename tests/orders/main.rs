//! Tests the order of rows, both in plans, which read no data, and in the batches of loaders.

mod after;
mod balance;
mod kit;
mod laws;
mod loader;
mod mix;
mod mix_joint;
mod mix_left_out;
mod mix_samples;
mod models;
mod pictures;
mod rewind;
mod samples;
mod spec;
mod staying;

//! The order of rows, as plans that read nothing and as loaders deliver it.

mod after;
mod balance;
mod kit;
mod laws;
mod loader;
mod mix;
mod mix_left_out;
mod mix_samples;
mod pictures;
mod rewind;
mod samples;
mod spec;
mod staying;

//! The order of rows, as plans that read nothing and as loaders deliver it.

mod kit;
mod laws;
mod loader;
mod mix;
mod mix_samples;
mod rewind;
mod samples;
mod spec;
mod staying;

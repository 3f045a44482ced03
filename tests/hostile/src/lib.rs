//! The targets of fuzzing: functions that take hostile bytes, each with valid inputs to begin with.
//!
//! A function panics if a property that must hold for all bytes does not hold. `tools/fuzz` runs them under
//! libFuzzer and AddressSanitizer; `tests/seeded.rs` runs each on some thousand changed seeds.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is the finding; what other crates panic over is not, and files are read without a loader"
)]

mod cache;
mod documents;
mod filters;
mod images;
mod parquet_files;
mod tables;
mod turbo;

/// A target: its name, its function, valid inputs, and the number of changed inputs that the tests try.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target and of its folder in the corpus.
    pub name: &'static str,
    /// Panics if a property does not hold. Returns whether the bytes were accepted.
    pub run: fn(&[u8]) -> bool,
    /// Returns inputs that are accepted.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The number of changed inputs that the tests try; it is small if each takes milliseconds.
    pub tried: usize,
}

/// All targets.
pub const TARGETS: [Target; 16] = [
    Target { name: "jpeg", run: images::jpeg, seeds: images::jpegs, tried: 4_000 },
    Target { name: "image", run: images::image, seeds: images::others, tried: 4_000 },
    Target { name: "packed", run: images::packed, seeds: images::packed_cells, tried: 4_000 },
    Target { name: "parquet", run: parquet_files::rows, seeds: parquet_files::files, tried: 4_000 },
    Target { name: "index", run: parquet_files::index, seeds: parquet_files::indexes, tried: 400 },
    Target { name: "cache", run: cache::entry, seeds: cache::entries, tried: 200 },
    Target { name: "delta_log", run: tables::delta_log, seeds: tables::delta_logs, tried: 4_000 },
    Target { name: "deletion_vector", run: tables::deletion_vector, seeds: tables::vectors, tried: 4_000 },
    Target { name: "iceberg_metadata", run: tables::metadata, seeds: tables::metadata_files, tried: 4_000 },
    Target { name: "iceberg_manifest", run: tables::manifest, seeds: tables::manifest_files, tried: 4_000 },
    Target { name: "petastorm", run: documents::petastorm, seeds: documents::schemas, tried: 4_000 },
    Target { name: "position", run: documents::position, seeds: documents::positions, tried: 4_000 },
    Target { name: "options", run: documents::options, seeds: documents::all_options, tried: 1_000 },
    Target { name: "filter", run: filters::filter, seeds: filters::filters, tried: 300 },
    Target { name: "location", run: documents::location, seeds: documents::locations, tried: 4_000 },
    Target { name: "deny", run: documents::deny, seeds: documents::deny_lists, tried: 1_000 },
];

/// Returns the target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

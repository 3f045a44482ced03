//! Stands in for the measurement of a disk on systems whose files cannot be read past the page cache with
//! `O_DIRECT`.

use std::io;
use std::path::Path;

/// Fails: this system does not measure the speed of reading a file from the disk itself.
pub(super) fn rate(_: &Path) -> io::Result<Option<f64>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: this system does not measure the speed of a folder's disk.
pub(super) fn rate_of_new(_: &Path) -> io::Result<f64> {
    Err(io::ErrorKind::Unsupported.into())
}

//! Refuses formats that were left out of the build.

use forebay_base::{Error, ErrorKind, Result};

use super::depth::Depth;
use super::format::Format;
use super::opened::Opened;

/// Refuses an image whose format is not in this build.
pub(super) fn open(_: &[u8], format: Format, _: Depth) -> Result<Opened<'_>> {
    Err(Error::new(ErrorKind::Unsupported, format!("{format} images are not part of this build"))
        .hint("build forebay with the cargo feature `formats`"))
}

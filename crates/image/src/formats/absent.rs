//! Takes the place of the formats that were left out of the build: it reports an error for each image.

use forebay_base::{Error, ErrorKind, Result};

use super::depth::Depth;
use super::format::Format;
use super::opened::Opened;

/// Returns an error that names the format and the feature to build with.
pub(super) fn open(_: &[u8], format: Format, _: Depth) -> Result<Opened<'_>> {
    Err(Error::new(ErrorKind::Unsupported, format!("{format} images are not part of this build"))
        .hint("build forebay with the cargo feature `formats`"))
}

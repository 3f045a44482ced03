//! An image of a format that is decoded as a whole, in the state between reading its header and reading its
//! pixels.

use forebay_base::Result;
use image::metadata::Orientation;

use super::depth::Depth;
use super::format::Header;

/// An image whose header was read. It says how much memory decoding takes, and decodes the pixels.
pub(super) trait Pending {
    /// The size in bytes of the buffer into which the image is decoded: three levels for each pixel, or more
    /// if the decoder needs more.
    fn buffer_bytes(&self) -> u64;

    /// The most bytes that the decoder takes in addition to the buffer.
    fn beside_bytes(&self) -> u64;

    /// Decodes into the buffer, which need not be cleared before. Afterwards the buffer begins with all
    /// pixels as RGB, in the depth in which the image was opened.
    fn read(self: Box<Self>, buffer: &mut [u8]) -> Result<()>;
}

/// An image other than a JPEG, whose header was read.
pub(super) struct Opened<'a> {
    pub(super) header: Header,
    pub(super) orientation: Orientation,
    /// The depth in which the image is decoded.
    pub(super) depth: Depth,
    pub(super) pending: Box<dyn Pending + 'a>,
}

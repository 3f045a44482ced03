//! An image that is decoded whole, between its header and its pixels.

use forebay_base::Result;
use image::metadata::Orientation;

use super::depth::Depth;
use super::format::Header;

/// An image whose header was read: the memory that decoding it takes, and the way to decode it.
pub(super) trait Pending {
    /// The bytes of the buffer that it is decoded into: three levels for each pixel, or more.
    fn buffer_bytes(&self) -> u64;

    /// The most bytes that the decoder takes in addition to the buffer.
    fn beside_bytes(&self) -> u64;

    /// Decodes into the buffer, whose content is arbitrary before. Afterwards it begins with all pixels as
    /// RGB of the depth in which the image was opened.
    fn read(self: Box<Self>, buffer: &mut [u8]) -> Result<()>;
}

/// An image other than a JPEG, whose header was read.
pub(super) struct Opened<'a> {
    pub(super) header: Header,
    pub(super) orientation: Orientation,
    /// The depth in which it is decoded.
    pub(super) depth: Depth,
    pub(super) pending: Box<dyn Pending + 'a>,
}

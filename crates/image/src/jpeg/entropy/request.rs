//! The request to decode a JPEG: its bytes, and the scale and colours of the result.

/// A JPEG, and how to decode it.
#[derive(Clone, Copy)]
pub(in super::super) struct Request<'a> {
    pub(in super::super) encoded: &'a [u8],
    /// The most bytes of memory that libjpeg-turbo, or the coefficients of a JPEG with several scans, may
    /// take.
    pub(in super::super) memory: usize,
    /// The divisor of the image's size: 1, 2, 4 or 8.
    pub(in super::super) reduction: u32,
    /// The number of bytes of a pixel: 1 for luma, 3 for RGB.
    pub(in super::super) colours: usize,
}

//! The part of an image that a decoder is asked to decode.

/// A JPEG, and how to decode it.
#[derive(Clone, Copy)]
pub(in super::super) struct Request<'a> {
    pub(in super::super) encoded: &'a [u8],
    /// The most bytes that the library, or the coefficients of several scans, may take.
    pub(in super::super) memory: usize,
    /// The divisor of the scale: 1, 2, 4 or 8.
    pub(in super::super) reduction: u32,
    /// The number of bytes of a pixel: 1 for luma, 3 for RGB.
    pub(in super::super) colours: usize,
}

//! What is asked of a decoder.

/// A JPEG, and how to decode it.
#[derive(Clone, Copy)]
pub(in super::super) struct Request<'a> {
    pub(in super::super) encoded: &'a [u8],
    /// Most bytes that the library may take, or the coefficients of several scans.
    pub(in super::super) memory: usize,
    /// 1, 2, 4 or 8.
    pub(in super::super) reduction: u32,
    /// 1: luma, 3: RGB.
    pub(in super::super) colours: usize,
}

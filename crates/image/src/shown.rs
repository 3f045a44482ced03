//! An image to be made from a stored cell. Several images may be made from one cell, which is decoded only
//! once.

use super::frame::{Frame, FrameOf};
use super::spec::Image;

/// An image to be made from a cell: its spec, the function that gives its frame (crop, flips and other
/// changes), and the memory that its pixels are written to.
pub(super) struct Shown<'a> {
    pub(super) image: &'a Image,
    frame_of: Box<FrameOf<'a>>,
    pub(super) slot: &'a mut [u8],
}

impl<'a> Shown<'a> {
    pub(super) fn new(
        image: &'a Image,
        frame_of: impl Fn(u32, u32) -> Frame + 'a,
        slot: &'a mut [u8],
    ) -> Self {
        Shown { image, frame_of: Box::new(frame_of), slot }
    }

    /// The frames (crop, flips and other changes) of all images in `shown`, for a cell of this width and
    /// height.
    pub(super) fn frames(shown: &[Self], width: u32, height: u32) -> Vec<Frame> {
        shown.iter().map(|shown| (shown.frame_of)(width, height)).collect()
    }
}

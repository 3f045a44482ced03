//! An image that is made from a cell. Several images may be made from one cell, which is then decoded once.

use super::frame::{Frame, FrameOf};
use super::spec::Image;

/// An image that is made from a cell: its spec, what determines its frame, and its slot.
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

    /// The frames of images that are made from a cell with this width and height.
    pub(super) fn frames(shown: &[Self], width: u32, height: u32) -> Vec<Frame> {
        shown.iter().map(|shown| (shown.frame_of)(width, height)).collect()
    }
}

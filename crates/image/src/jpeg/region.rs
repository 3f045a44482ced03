//! Chooses the part of a JPEG to decode, and its scale, for one or several crops of it.

use super::super::frame::Frame;
use super::super::geometry::{Rect, Sampling};
use super::super::resample::reduced;
use super::super::spec::Size;
use super::ffi::{Info, Region};

/// The reductions that libjpeg-turbo does with SIMD instructions. Others are slower than decoding at full
/// scale.
const REDUCTIONS: [u32; 3] = [8, 4, 2];

/// A JPEG is reduced while it is decoded only as far as the reduced crop has at least this many times the
/// width and height of the target.
///
/// The reduction of libjpeg-turbo is a sharper filter than the bilinear one that it replaces. On 24
/// photographs of 768x512 at quality 92, the difference from the exact result, in levels of 255, is 2.5 on
/// average and 5.1 in the worst photograph with a ratio of 1.0; 0.9 and 1.9 with 2.0; 0.5 and 0.9 with 2.5;
/// and 0.4 and 0.7 with 3.0. The documented bound is less than 1 for photographs, and 9 for any image: black
/// and white noise has 2 to 4, and the worst stripes and chessboards 7 and 8.
///
/// The other filters are as close: with a ratio of 3.0, photographs have 0.4 and 0.9 with the bicubic filter,
/// and 0.4 and 0.9 with Lanczos; the worst stripes have 11 and 12.
const KEPT_DETAIL: f64 = 3.0;

/// The number of extra columns to decode on each side of the crop. Chroma upsampling needs neighbours up to
/// two pixels away, and at the border of the decoded region they are missing.
const MARGIN: u32 = 2;

/// The part of a JPEG to decode, and the reduction of its scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReducedRegion {
    /// The rectangle to decode, in pixels after the reduction.
    pub(super) rect: Rect,
    pub(super) reduction: u32,
    /// Whether the rectangle is less than the whole image. libjpeg-turbo can decode a part of only some
    /// JPEGs.
    cropped: bool,
}

impl ReducedRegion {
    pub(super) fn whole(info: &Info) -> ReducedRegion {
        ReducedRegion { rect: Rect::whole(info.width, info.height), reduction: 1, cropped: false }
    }

    /// A region that contains all that these frames need. Its scale is the largest that one of them needs.
    pub(super) fn covering(info: &Info, frames: &[Frame]) -> ReducedRegion {
        let reduction = frames.iter().map(|frame| reduction(&frame.sampling, frame.target)).min();
        let (Some(mcu_width), Some(reduction)) = (info.mcu_width, reduction) else {
            return ReducedRegion::whole(info);
        };
        let (width, height) = (info.width.div_ceil(reduction), info.height.div_ceil(reduction));
        let views = frames.iter().map(|frame| reduced(frame.sampling.view, reduction));
        let needed = views.reduce(Rect::around).unwrap_or(Rect::whole(width, height));
        // This is never zero: an iMCU is 8, 16 or 32 pixels wide and the reduction at most 8.
        let step = mcu_width / reduction;
        let x = needed.x.saturating_sub(MARGIN) / step * step;
        let right = (needed.x + needed.width + MARGIN).min(width);
        let bottom = (needed.y + needed.height).min(height);
        let rect = Rect { x, y: needed.y, width: right - x, height: bottom - needed.y };
        ReducedRegion { rect, reduction, cropped: rect != Rect::whole(width, height) }
    }

    pub(super) fn region(&self) -> Option<Region> {
        let Rect { x, y, width, height } = self.rect;
        self.cropped.then_some(Region { x, y, width, height })
    }
}

fn reduction(sampling: &Sampling, target: Size) -> u32 {
    let shrink = (sampling.width / f64::from(target.width)).min(sampling.height / f64::from(target.height));
    REDUCTIONS.into_iter().find(|reduction| shrink >= KEPT_DETAIL * f64::from(*reduction)).unwrap_or(1)
}

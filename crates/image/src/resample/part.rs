//! The part of the decoded pixels that is resized to the target.

use super::super::geometry::{Rect, Sampling};
#[cfg(target_arch = "x86_64")]
use super::super::spec::Size;

/// The box that is resized to the target, in pixels of the view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Part {
    pub(super) fn covering(sampling: &Sampling, reduction: u32, view: Rect) -> Part {
        let reduction = f64::from(reduction);
        let (left, top) =
            (sampling.left / reduction - f64::from(view.x), sampling.top / reduction - f64::from(view.y));
        // Rounding errors may put the box slightly outside the view, which `fast_image_resize` would refuse.
        let (left, top) = (left.max(0.0), top.max(0.0));
        let width = (sampling.width / reduction).min(f64::from(view.width) - left);
        let height = (sampling.height / reduction).min(f64::from(view.height) - top);
        Part { left, top, width, height }
    }

    /// Whether the part consists of whole pixels and already has the target's size, so that it only needs
    /// copying.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn is_copied(&self, size: Size) -> bool {
        let copied = |from: f64, extent: f64, count: u32| from == from.round() && extent == f64::from(count);
        copied(self.left, self.width, size.width) && copied(self.top, self.height, size.height)
    }
}

/// Converts `rect` to an image whose scale is reduced by `reduction`: the smallest rectangle of whole pixels
/// that covers it there.
pub(crate) fn reduced(rect: Rect, reduction: u32) -> Rect {
    let (x, y) = (rect.x / reduction, rect.y / reduction);
    Rect {
        x,
        y,
        width: (rect.x + rect.width).div_ceil(reduction) - x,
        height: (rect.y + rect.height).div_ceil(reduction) - y,
    }
}

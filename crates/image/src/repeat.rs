//! Computes which pixels of an image its padding repeats, along one axis.

use super::spec::{PaddingMode, Size};

/// Padding that repeats pixels of the image, for a part that extends beyond the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) mode: PaddingMode,
    /// The size of the image.
    pub(super) seen: Size,
}

impl Repeat {
    /// For each of `width` columns of the result, the column of the image that it shows. The first result
    /// column is at `left` in the image, which may be outside of it.
    pub(super) fn columns(&self, left: f64, width: u32) -> Vec<u32> {
        sources(left as i64, width, self.seen.width, self.mode)
    }

    /// For each of `height` rows of the result, the row of the image that it shows. The first result row is
    /// at `top` in the image, which may be outside of it.
    pub(super) fn rows(&self, top: f64, height: u32) -> Vec<u32> {
        sources(top as i64, height, self.seen.height, self.mode)
    }
}

/// The pixel that is shown at the position `at` along an axis. The image has the positions 0 to `limit` - 1,
/// and `at` may be outside of them.
fn source(at: i64, limit: u32, mode: PaddingMode) -> u32 {
    let last = i64::from(limit) - 1;
    let found = match mode {
        PaddingMode::Constant | PaddingMode::Edge => at.clamp(0, last),
        PaddingMode::Reflect if last == 0 => 0,
        PaddingMode::Reflect => last - (last - at.rem_euclid(2 * last)).abs(),
        PaddingMode::Symmetric => {
            let at = at.rem_euclid(2 * (last + 1));
            at.min(2 * last + 1 - at)
        }
    };
    found as u32
}

/// The pixels that are shown at `length` positions along an axis, beginning at `start`.
pub(super) fn sources(start: i64, length: u32, limit: u32, mode: PaddingMode) -> Vec<u32> {
    (start..start + i64::from(length)).map(|at| source(at, limit, mode)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are the results of numpy's `pad` for `[0, 1, 2, 3]`, with three values on each
    /// side.
    #[test]
    fn pixels_are_repeated_as_numpy_does() {
        for (mode, wanted) in [
            (PaddingMode::Edge, [0, 0, 0, 0, 1, 2, 3, 3, 3, 3]),
            (PaddingMode::Reflect, [3, 2, 1, 0, 1, 2, 3, 2, 1, 0]),
            (PaddingMode::Symmetric, [2, 1, 0, 0, 1, 2, 3, 3, 2, 1]),
        ] {
            assert_eq!(sources(-3, 10, 4, mode), wanted, "{mode}");
        }
        assert_eq!(sources(-5, 11, 2, PaddingMode::Reflect), [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(sources(-2, 5, 1, PaddingMode::Reflect), [0; 5]);
        assert_eq!(sources(-2, 5, 1, PaddingMode::Symmetric), [0; 5]);
    }
}

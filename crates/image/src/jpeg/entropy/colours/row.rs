//! The samples from which a row of pixels is made.

/// The number of bytes before the first sample of a row of chroma. Smoothing and whole registers read some of
/// them.
pub(in super::super) const MARGIN: usize = 64;
/// The number of bytes that must follow the last sample of a row, because whole registers are read.
pub(in super::super) const REACH: usize = 128;

/// The sampling of an image's chroma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Chroma {
    /// A grey image, without chroma.
    None,
    /// 4:4:4, with chroma at full size.
    Full,
    /// 4:2:2, with chroma halved across.
    HalfWidth,
    /// 4:4:0, with chroma halved down.
    HalfHeight,
    /// 4:2:0, with chroma halved across and down.
    Half,
}

impl Chroma {
    /// Finds the chroma sampling for the sampling factors of all components (across, down); `None` if it is
    /// not supported.
    pub(in super::super) fn from_factors(factors: &[[u32; 2]]) -> Option<Chroma> {
        match factors {
            // A single component is not interleaved, so its factors have no meaning.
            [_] => Some(Chroma::None),
            [luma, [1, 1], [1, 1]] => match luma {
                [1, 1] => Some(Chroma::Full),
                [2, 1] => Some(Chroma::HalfWidth),
                [1, 2] => Some(Chroma::HalfHeight),
                [2, 2] => Some(Chroma::Half),
                _ => None,
            },
            _ => None,
        }
    }

    /// The number of blocks of luma in an MCU, across and down.
    pub(in super::super) fn blocks_of_luma(self) -> [usize; 2] {
        [self.is_halved_across(), self.is_halved_down()].map(|halved| if halved { 2 } else { 1 })
    }

    pub(in super::super) fn is_halved_across(self) -> bool {
        matches!(self, Chroma::HalfWidth | Chroma::Half)
    }

    pub(in super::super) fn is_halved_down(self) -> bool {
        matches!(self, Chroma::HalfHeight | Chroma::Half)
    }
}

/// The samples of luma and chroma from which one row of pixels is made.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "no other processor has a function that reads it")
)]
pub(in super::super) struct Row<'a> {
    /// The samples of luma, from the first pixel on.
    pub(in super::super) luma: &'a [u8],
    /// The rows of blue and of red chroma: for each colour the nearest row, and the next nearest one. Each
    /// slice begins [`MARGIN`] bytes before its first sample.
    pub(in super::super) chroma: [[&'a [u8]; 2]; 2],
    /// Whether the next nearest row of chroma is below the nearest row rather than above it.
    pub(in super::super) is_lower: bool,
}

/// A function that makes a row of RGB pixels. It returns `None` if samples are missing.
pub(in super::super) type Colours = fn(&Row<'_>, Chroma, &mut [u8]) -> Option<()>;

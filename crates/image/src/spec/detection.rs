//! The options for crops and sizes that detection and segmentation use: padded crops, random sizes on a
//! canvas, and crops around boxes.

use std::fmt;
use std::str::FromStr;

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Framing, Image, Size};
use crate::pixel_type::by_name;

/// The default range of the scale factor in [`Image::scale_jitter`], as in torchvision.
const JITTER_SCALE: (f64, f64) = (0.1, 2.0);
/// The default range for the width and the height of a crop around boxes, as shares of the image's width and
/// height, as in torchvision.
const IOU_SCALE: (f64, f64) = (0.3, 1.0);
/// The default range for the ratio of width to height of a crop around boxes, as in torchvision.
const IOU_RATIO: (f64, f64) = (0.5, 2.0);
/// The default choices for the overlap (intersection over union) that a crop around boxes must at least have
/// with a box, as in torchvision. One is drawn for each image.
const IOU_OPTIONS: [f64; 7] = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0];
/// How many crops are tried before another minimum overlap with a box is drawn, as in torchvision.
const IOU_TRIALS: u32 = 40;
/// The largest number of crops that [`Image::trials`] accepts.
const MOST_TRIALS: u32 = 10_000;

/// The pixels in the padding of a random crop: one value, or a repetition of the image.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::image::PaddingMode;
///
/// assert_eq!("reflect".parse::<PaddingMode>()?, PaddingMode::Reflect);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaddingMode {
    /// The value of [`Image::fill`]. The default.
    #[default]
    Constant,
    /// The nearest pixel of the image.
    Edge,
    /// The image mirrored at its outermost pixel, which is not repeated.
    Reflect,
    /// The image mirrored at its border, so that the outermost pixel is repeated.
    Symmetric,
}

impl PaddingMode {
    /// Every mode.
    pub const ALL: [PaddingMode; 4] =
        [PaddingMode::Constant, PaddingMode::Edge, PaddingMode::Reflect, PaddingMode::Symmetric];

    /// The name of the mode in Python.
    pub const fn name(self) -> &'static str {
        match self {
            PaddingMode::Constant => "constant",
            PaddingMode::Edge => "edge",
            PaddingMode::Reflect => "reflect",
            PaddingMode::Symmetric => "symmetric",
        }
    }
}

impl fmt::Display for PaddingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PaddingMode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        by_name(name, "padding mode", PaddingMode::ALL, PaddingMode::name)
    }
}

/// The numbers of pixels that are added at the sides of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Padding {
    /// The number of columns that are added at the left.
    pub left: u32,
    /// The number of rows that are added at the top.
    pub top: u32,
    /// The number of columns that are added at the right.
    pub right: u32,
    /// The number of rows that are added at the bottom.
    pub bottom: u32,
}

impl From<u32> for Padding {
    fn from(each: u32) -> Self {
        Padding { left: each, top: each, right: each, bottom: each }
    }
}

impl From<(u32, u32)> for Padding {
    fn from((across, down): (u32, u32)) -> Self {
        Padding { left: across, top: down, right: across, bottom: down }
    }
}

impl From<(u32, u32, u32, u32)> for Padding {
    fn from((left, top, right, bottom): (u32, u32, u32, u32)) -> Self {
        Padding { left, top, right, bottom }
    }
}

/// The options of [`Image::random_crop`], whose crop is not resized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RandomCrop {
    pub(crate) padding: Padding,
    pub(crate) mode: PaddingMode,
}

/// The options of [`Image::random_shortest_size`], which draws the length of the shorter side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShortestSize {
    pub(crate) min_size: Vec<u32>,
}

/// The options of [`Image::random_iou_crop`], whose crop is drawn around boxes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IouCrop {
    pub(crate) boxes: String,
    pub(crate) sampler_options: Vec<f64>,
    pub(crate) trials: u32,
}

impl Image {
    /// A random box of this size, which is not resized: torchvision's `RandomCrop(size)`. The image may be
    /// [padded](Image::padding) before it is cropped. An image that is smaller than the crop is then padded
    /// on both sides by the difference, as with `pad_if_needed=True`.
    ///
    /// The padding is filled with the value of [`Image::fill`], by default 0, or with pixels of the image, as
    /// [`Image::padding_mode`] says. Flips mirror the crop together with its padding; effects and rotations
    /// change only the image.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    /// use forebay::image::PaddingMode;
    ///
    /// let cifar = Image::random_crop(32).padding(4).padding_mode(PaddingMode::Reflect).flip();
    /// # cifar.validate()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn random_crop(size: impl Into<Size>) -> Image {
        Image::new(Framing::RandomCrop(RandomCrop::default()), size.into())
    }

    /// Sets the number of pixels that are added on each side before [`Image::random_crop`]. It is one number
    /// for all sides, a pair (left and right, top and bottom), or four (left, top, right, bottom). Default:
    /// 0.
    #[must_use]
    pub fn padding(self, padding: impl Into<Padding>) -> Image {
        let padding = padding.into();
        self.with_crop("padding", |crop| crop.padding = padding)
    }

    /// Sets what the padding of [`Image::random_crop`] shows. Default: [`PaddingMode::Constant`].
    #[must_use]
    pub fn padding_mode(self, mode: PaddingMode) -> Image {
        self.with_crop("padding_mode", |crop| crop.mode = mode)
    }

    fn with_crop(mut self, option: &'static str, set: impl FnOnce(&mut RandomCrop)) -> Image {
        match &mut self.framing {
            Framing::RandomCrop(crop) => set(crop),
            _ => self.misplaced = Some(option),
        }
        self
    }

    /// The whole image, with its aspect ratio, on a canvas of `max_size`: torchvision's
    /// `RandomShortestSize(min_size, max_size)`, padded. The length of the shorter side is drawn from
    /// `min_size`; if the image then does not fit on the canvas, it is made smaller until it fits.
    ///
    /// The image is in the upper left corner or [centred](Image::centered), and the rest of the canvas has
    /// the value of [`Image::fill`]. With [`Image::ragged`] there is no canvas, and each image has its own
    /// size. The column `<column>.size` is delivered as for [`Image::fit`].
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    ///
    /// let detection = Image::random_shortest_size((480..=800).step_by(32), 1333).flip();
    /// assert_eq!(detection.shape(), [1333, 1333, 3]);
    /// ```
    pub fn random_shortest_size(min_size: impl IntoIterator<Item = u32>, max_size: impl Into<Size>) -> Image {
        let min_size = min_size.into_iter().collect();
        Image::new(Framing::RandomShortestSize(ShortestSize { min_size }), max_size.into())
    }

    /// The image resized by a random factor, on a canvas of this size (large-scale jitter): torchvision's
    /// `ScaleJitter`. With a factor of 1, the image is as large as fits on the canvas; the factor is drawn
    /// from [`Image::scale`], 0.1 to 2 by default. An image that is then larger than the canvas is cropped at
    /// random; a smaller one is in the upper left corner, and the rest has the value of [`Image::fill`].
    ///
    /// The column `<column>.size` is delivered as for [`Image::fit`].
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    ///
    /// let jitter = Image::scale_jitter(1024).scale((0.5, 1.5)).flip();
    /// assert_eq!(jitter.shape(), [1024, 1024, 3]);
    /// ```
    pub fn scale_jitter(size: impl Into<Size>) -> Image {
        Image::new(Framing::ScaleJitter, size.into())
    }

    /// A random crop around objects, stretched to this size: torchvision's `RandomIoUCrop` and `Resize`, as
    /// for SSD. The objects' boxes are in the column `boxes`, which must be decoded as boxes of this image.
    /// The crop contains the centre of a box, and overlaps that box enough.
    ///
    /// How much overlap (intersection over union) is enough is drawn from [`Image::sampler_options`]; 1 shows
    /// the whole image. Then up to [`Image::trials`] crops are tried. Their sides are drawn from
    /// [`Image::scale`], 0.3 to 1 of the image's sides, and width over height must be in [`Image::ratio`],
    /// 0.5 to 2. If no crop overlaps enough, another minimum is drawn. An image without boxes is shown as
    /// a whole.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    ///
    /// let ssd = Image::random_iou_crop(300, "objects.bbox").flip();
    /// # ssd.validate()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    pub fn random_iou_crop(size: impl Into<Size>, boxes: impl Into<String>) -> Image {
        let crop = IouCrop { boxes: boxes.into(), sampler_options: IOU_OPTIONS.to_vec(), trials: IOU_TRIALS };
        Image::new(Framing::RandomIouCrop(crop), size.into())
    }

    /// Sets the choices from which [`Image::random_iou_crop`] draws the minimum overlap with a box. Default:
    /// 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
    #[must_use]
    pub fn sampler_options(self, options: impl IntoIterator<Item = f64>) -> Image {
        let options = options.into_iter().collect();
        self.with_iou("sampler_options", |crop| crop.sampler_options = options)
    }

    /// Sets how many crops [`Image::random_iou_crop`] tries before it draws another minimum overlap.
    /// Default: 40.
    #[must_use]
    pub fn trials(self, trials: u32) -> Image {
        self.with_iou("trials", |crop| crop.trials = trials)
    }

    fn with_iou(mut self, option: &'static str, set: impl FnOnce(&mut IouCrop)) -> Image {
        match &mut self.framing {
            Framing::RandomIouCrop(crop) => set(crop),
            _ => self.misplaced = Some(option),
        }
        self
    }

    /// The name of the column of boxes that [`Image::random_iou_crop`] crops around; `None` for other crops.
    pub fn crops_around(&self) -> Option<&str> {
        match &self.framing {
            Framing::RandomIouCrop(crop) => Some(&crop.boxes),
            _ => None,
        }
    }

    /// The range from which the crop's share of the image's area is drawn. For scale jitter it is the range
    /// of the factor by which the image is resized, and for crops around boxes the range of the crop's share
    /// of each side.
    pub(crate) fn scale_range(&self) -> (f64, f64) {
        self.scale.unwrap_or(match self.framing {
            Framing::ScaleJitter => JITTER_SCALE,
            Framing::RandomIouCrop(_) => IOU_SCALE,
            _ => super::DEFAULT_SCALE,
        })
    }

    /// The range from which the ratio of width to height of a crop is drawn.
    pub(crate) fn ratio_range(&self) -> (f64, f64) {
        self.ratio.unwrap_or(match self.framing {
            Framing::RandomIouCrop(_) => IOU_RATIO,
            _ => super::DEFAULT_RATIO,
        })
    }

    /// Refuses options of random crops, random sizes and crops around boxes that cannot work, whatever other
    /// options are set later.
    pub(super) fn validate_detection(&self) -> Result<()> {
        if let Some(option) = self.misplaced {
            let of = if option.starts_with("padding") { "random_crop" } else { "random_iou_crop" };
            return Err(Error::invalid(format!("{option} is given without {of}"))
                .hint(format!("leave it out, or use {of}")));
        }
        let Size { height, width } = self.size;
        match &self.framing {
            Framing::RandomCrop(RandomCrop { padding: Padding { left, top, right, bottom }, mode }) => {
                let (across, down) = ((*left).max(*right), (*top).max(*bottom));
                if *mode == PaddingMode::Constant && (across >= width || down >= height) {
                    return Err(Error::invalid(format!(
                        "a padding of {across} columns and {down} rows for a crop of {height}x{width}"
                    ))
                    .hint("a crop may then show nothing of the image: give a smaller padding"));
                }
                if across.max(down) > Image::MAX_SIDE {
                    return Err(Error::invalid(format!("a padding of {} pixels", across.max(down)))
                        .hint(format!("give up to {} pixels", Image::MAX_SIDE)));
                }
            }
            Framing::RandomShortestSize(ShortestSize { min_size }) => {
                let wrong = min_size.iter().find(|side| !(1..=Image::MAX_SIDE).contains(side));
                if min_size.is_empty() || wrong.is_some() {
                    let cause = match wrong {
                        Some(side) => format!("a shorter side of {side} pixels"),
                        None => "no shorter side to draw".to_owned(),
                    };
                    let hint = format!("give lengths from 1 to {} pixels in min_size", Image::MAX_SIDE);
                    return Err(Error::invalid(cause).hint(hint));
                }
            }
            Framing::RandomIouCrop(IouCrop { sampler_options, trials, .. }) => {
                if sampler_options.is_empty() || !sampler_options.iter().all(|least| *least >= 0.0) {
                    return Err(Error::invalid(format!("sampler_options of {sampler_options:?}"))
                        .hint("give least overlaps from 0 on; with 1 or more the whole image is shown"));
                }
                if !(1..=MOST_TRIALS).contains(trials) {
                    return Err(Error::invalid(format!("{trials} trials of a crop"))
                        .hint(format!("give 1 to {MOST_TRIALS}")));
                }
                if self.scale_range().1 > 1.0 {
                    return Err(Error::invalid(format!("a scale of {:?}", self.scale_range()))
                        .hint("a crop around boxes has at most 1 of each side"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the constructor with its options, as in code, for the spec's [`Display`](fmt::Display).
    pub(super) fn write_detection(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { height, width } = self.size;
        let fill = |f: &mut fmt::Formatter<'_>| match self.fill {
            Some(fill) => write!(f, ", fill={fill:?})"),
            None => f.write_str(")"),
        };
        match &self.framing {
            Framing::RandomCrop(RandomCrop { padding: Padding { left, top, right, bottom }, mode }) => {
                write!(
                    f,
                    "random_crop({height}x{width}, padding=({left}, {top}, {right}, {bottom}), mode={mode}"
                )?;
                fill(f)
            }
            Framing::RandomShortestSize(ShortestSize { min_size }) => {
                write!(f, "random_shortest_size({min_size:?}, {height}x{width}")?;
                fill(f)
            }
            Framing::ScaleJitter => {
                write!(f, "scale_jitter({height}x{width}, scale={:?}", self.scale_range())?;
                fill(f)
            }
            Framing::RandomIouCrop(IouCrop { boxes, sampler_options, trials }) => {
                let (scale, ratio) = (self.scale_range(), self.ratio_range());
                write!(
                    f,
                    "random_iou_crop({height}x{width}, boxes={boxes:?}, scale={scale:?}, ratio={ratio:?}, \
                     sampler_options={sampler_options:?}, trials={trials})"
                )
            }
            _ => Ok(()),
        }
    }
}

impl Framing {
    /// Whether the image is placed on a canvas of the result's size, which may show fill values beside the
    /// image.
    pub(crate) fn has_canvas(&self) -> bool {
        match self {
            Framing::Fit | Framing::RandomShortestSize(_) | Framing::ScaleJitter => true,
            Framing::RandomCrop(crop) => crop.mode == PaddingMode::Constant,
            Framing::Resize
            | Framing::RandomResizedCrop
            | Framing::CenterCrop
            | Framing::RandomIouCrop(_) => false,
        }
    }

    /// Whether the part of the image that is shown, or its size, is random.
    pub(crate) fn is_drawn(&self) -> bool {
        !matches!(self, Framing::Resize | Framing::CenterCrop | Framing::Fit)
    }
}

//! The spec of an image: an immutable value that describes how an encoded image becomes an array. Other
//! modules do the work.

mod aug_mix;
mod augment;
mod depth;
mod detection;
mod effects;
mod following;
mod raw;
mod resampling;
mod rotation;
mod validate;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::pixel_type::{Layout, PixelType};
pub(super) use aug_mix::AugMix;
pub use augment::AutoAugment;
pub(super) use augment::{Policy, Steps};
pub(super) use detection::{IouCrop, RandomCrop, ShortestSize};
pub use detection::{Padding, PaddingMode};
pub(super) use effects::{ColorJitter, GaussianBlur, RandomErasing};
pub use raw::Raw;
pub use resampling::Resampling;
pub use rotation::Interpolation;
pub(super) use rotation::Rotation;

/// The number of channels of a colour image.
pub(super) const RGB: usize = 3;
/// The number of channels of a grey image.
pub(super) const LUMA: usize = 1;

/// The default range for the share of the image's area that a random crop covers, as in torchvision.
const DEFAULT_SCALE: (f64, f64) = (0.08, 1.0);
/// The default range for the ratio of width to height of a random crop, as in torchvision.
const DEFAULT_RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
/// The default length of the shorter side before a centre crop, which evaluations on ImageNet use with a crop
/// of 224.
const DEFAULT_SHORTER: u32 = 256;
const DEFAULT_FLIP: f64 = 0.5;
/// The default limit on pixels, above which Pillow refuses an image as a "decompression bomb": twice the
/// number of RGB pixels that fit in 256 MiB.
pub(super) const DEFAULT_MAX_PIXELS: u64 = 178_956_970;

/// Height and width in pixels. A single number gives a square.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::image::Size;
///
/// assert_eq!(Size::from(224), Size { height: 224, width: 224 });
/// assert_eq!(Size::from((224, 192)), Size { height: 224, width: 192 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// The number of rows.
    pub height: u32,
    /// The number of columns.
    pub width: u32,
}

impl From<u32> for Size {
    fn from(side: u32) -> Self {
        Size { height: side, width: side }
    }
}

impl From<(u32, u32)> for Size {
    fn from((height, width): (u32, u32)) -> Self {
        Size { height, width }
    }
}

/// The part of an image that is shown, before it is resized to the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Framing {
    /// The whole image, stretched.
    Resize,
    /// A random box, resized.
    RandomResizedCrop,
    /// The middle of the image, after its shorter side is resized.
    CenterCrop,
    /// The whole image with its aspect ratio, on a canvas.
    Fit,
    /// A random box as large as the result, which is not resized and may extend beyond the image.
    RandomCrop(RandomCrop),
    /// The whole image with its aspect ratio, in a random size, on a canvas.
    RandomShortestSize(ShortestSize),
    /// The image in a random size, on a canvas; cropped at random if it is larger than the canvas.
    ScaleJitter,
    /// A random box around objects of the image.
    RandomIouCrop(IouCrop),
}

/// A description of how an image becomes pixels: crop and size, flips, colours, number type and layout.
///
/// Names and meanings follow torchvision. A resize is antialiased, and bilinear unless [`Image::resampling`]
/// says otherwise, like torchvision's on PIL images. Build a value with a constructor, such as
/// [`Image::resize`], and change it with methods that take and return it. Defaults: uint8, RGB, NHWC, no
/// flip. No method panics; [`Image::validate`] reports settings that cannot work.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::Image;
/// use forebay::image::{Layout, PixelType};
///
/// let train = Image::random_resized_crop(224).flip();
/// let eval = Image::center_crop(224)
///     .normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
///     .dtype(PixelType::F32)
///     .layout(Layout::Nchw);
/// assert_eq!(train.shape(), [224, 224, 3]);
/// assert_eq!(eval.shape(), [3, 224, 224]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    pub(super) framing: Framing,
    pub(super) size: Size,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scale: Option<(f64, f64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<(f64, f64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) shorter: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fill: Option<[f32; RGB]>,
    #[serde(default, skip_serializing_if = "is_off")]
    pub(super) centered: bool,
    #[serde(default, skip_serializing_if = "is_off")]
    pub(super) ragged: bool,
    #[serde(default, skip_serializing_if = "Resampling::is_default")]
    pub(super) resampling: Resampling,
    /// The layout of raw pixels in a cell, if cells hold raw pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) raw: Option<Raw>,
    #[serde(default)]
    pub(super) flip: f64,
    #[serde(default, skip_serializing_if = "is_never")]
    pub(super) vertical_flip: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rotation: Option<Rotation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) normalize: Option<Normalize>,
    #[serde(default)]
    pub(super) dtype: PixelType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bit_depth: Option<u8>,
    #[serde(default)]
    pub(super) layout: Layout,
    #[serde(default)]
    pub(super) grayscale: bool,
    #[serde(default)]
    pub(super) exif_orientation: bool,
    #[serde(default = "default_max_pixels")]
    pub(super) max_pixels: u64,
    #[serde(default, skip_serializing_if = "is_off")]
    pub(super) emit_geometry: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) color_jitter: Option<ColorJitter>,
    #[serde(default, skip_serializing_if = "is_never")]
    pub(super) random_grayscale: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gaussian_blur: Option<GaussianBlur>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) random_erasing: Option<RandomErasing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) auto_augment: Option<AutoAugment>,
    #[serde(default, skip_serializing_if = "Steps::is_off")]
    pub(super) steps: Steps,
    /// The name of the column whose image this one follows: it is cropped, mirrored and rotated like that
    /// image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) of: Option<String>,
    /// The name of an option that was set although it belongs to another constructor; validation refuses it.
    #[serde(skip)]
    misplaced: Option<&'static str>,
    /// Whether a second automatic augmentation was set, which validation refuses.
    #[serde(skip)]
    is_augmented_twice: bool,
}

/// Normalisation of values in [0, 1]: the mean of each channel is subtracted, and the result divided by the
/// standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Normalize {
    pub(super) mean: [f32; RGB],
    pub(super) std: [f32; RGB],
}

fn default_max_pixels() -> u64 {
    DEFAULT_MAX_PIXELS
}

/// Whether a probability is 0. The operation is then off, and is not written to JSON.
fn is_never(p: &f64) -> bool {
    *p == 0.0
}

fn is_off(option: &bool) -> bool {
    !option
}

impl Image {
    fn new(framing: Framing, size: Size) -> Image {
        Image {
            framing,
            size,
            scale: None,
            ratio: None,
            shorter: None,
            fill: None,
            centered: false,
            ragged: false,
            resampling: Resampling::default(),
            raw: None,
            flip: 0.0,
            vertical_flip: 0.0,
            rotation: None,
            normalize: None,
            dtype: PixelType::default(),
            bit_depth: None,
            layout: Layout::default(),
            grayscale: false,
            exif_orientation: false,
            max_pixels: DEFAULT_MAX_PIXELS,
            emit_geometry: false,
            color_jitter: None,
            random_grayscale: 0.0,
            gaussian_blur: None,
            random_erasing: None,
            auto_augment: None,
            steps: Steps::default(),
            of: None,
            misplaced: None,
            is_augmented_twice: false,
        }
    }

    /// The whole image, stretched to `height` x `width` pixels: torchvision's `Resize((height, width))`.
    pub fn resize(height: u32, width: u32) -> Image {
        Image::new(Framing::Resize, Size { height, width })
    }

    /// A random box, resized: torchvision's `RandomResizedCrop(size)`. Adjusted by [`Image::scale`] and
    /// [`Image::ratio`].
    pub fn random_resized_crop(size: impl Into<Size>) -> Image {
        Image::new(Framing::RandomResizedCrop, size.into())
    }

    /// The middle of the image after resizing its shorter side to 256 pixels: torchvision's `Resize(256)` and
    /// `CenterCrop(size)` in one step. Adjusted by [`Image::resize_shorter`].
    pub fn center_crop(size: impl Into<Size>) -> Image {
        Image::new(Framing::CenterCrop, size.into())
    }

    /// The whole image with its aspect ratio, in the upper left corner of a canvas of this size, or in its
    /// [middle](Image::centered). An image that is larger than the canvas is shrunk until it fits; a smaller
    /// one keeps its size, unless [`Image::resize_shorter`] says otherwise. The rest of the canvas has the
    /// value of [`Image::fill`], by default 0.
    ///
    /// A column `<column>.size` is delivered after the stored columns. It has two int32 numbers for each row:
    /// the height and width in pixels of the image on its canvas. Boxes, points and masks are moved with the
    /// image. Flips, colour jitter, blur and erasing change only the image, and not the rest of the canvas.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    ///
    /// // torchvision's `Resize(800, max_size=1333)`, padded.
    /// let detection = Image::fit(1333).resize_shorter(800);
    /// assert_eq!(detection.shape(), [1333, 1333, 3]);
    /// ```
    pub fn fit(size: impl Into<Size>) -> Image {
        Image::new(Framing::Fit, size.into())
    }

    /// Sets the smallest and largest share of the image's area that a random crop covers. Default: (0.08, 1).
    /// For [`Image::scale_jitter`] it is the range of the factor by which the image is resized, and for
    /// [`Image::random_iou_crop`] the range of the crop's share of each side.
    #[must_use]
    pub fn scale(self, scale: (f64, f64)) -> Image {
        Image { scale: Some(scale), ..self }
    }

    /// Sets the smallest and largest ratio of width to height of a random crop, before it is resized.
    /// Default: (3/4, 4/3).
    #[must_use]
    pub fn ratio(self, ratio: (f64, f64)) -> Image {
        Image { ratio: Some(ratio), ..self }
    }

    /// Sets the length in pixels to which [`Image::center_crop`] (default: 256) or [`Image::fit`] resizes the
    /// shorter side. `fit` then shrinks the image until it fits.
    /// Without this option, `fit` never enlarges an image.
    #[must_use]
    pub fn resize_shorter(self, pixels: u32) -> Image {
        Image { shorter: Some(pixels), ..self }
    }

    /// Sets the value of the canvas beside the image, for [`Image::fit`] and other constructors with a canvas
    /// or padding. It has a number for each channel, in the delivered number type; a grey image uses the
    /// first of the three. Default: 0.
    #[must_use]
    pub fn fill(self, value: [f32; RGB]) -> Image {
        Image { fill: Some(value), ..self }
    }

    /// Puts the image in the middle of the canvas of [`Image::fit`], with one more pixel below it or to its
    /// right if the rest cannot be halved. Default: in the upper left corner.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    ///
    /// // The letterbox of YOLO, and Pillow's `ImageOps.pad`.
    /// let letterbox = Image::fit(640).resize_shorter(640).centered().fill([114.0; 3]);
    /// # letterbox.validate()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[must_use]
    pub fn centered(self) -> Image {
        Image { centered: true, ..self }
    }

    /// Removes the canvas of [`Image::fit`]: each image is delivered in its own size, and the size that is
    /// given to `fit` is the largest size of an image. A column of images then has a list of rows for each
    /// image, and each row has a list of pixels; all pixels are one block of memory. Only for
    /// [`Layout::Nhwc`]. Default: off.
    ///
    /// While a batch is being made, it takes as much memory as if all images had the largest size. A slot for
    /// a single image has room for the largest size, and begins with the image's pixels.
    ///
    /// ```
    /// # mod forebay { pub use forebay_image::{self as image, *}; }
    /// use forebay::Image;
    ///
    /// let photographs = Image::fit((1333, 1333)).resize_shorter(800).ragged();
    /// # photographs.validate()?;
    /// # Ok::<(), forebay::Error>(())
    /// ```
    #[must_use]
    pub fn ragged(self) -> Image {
        Image { ragged: true, ..self }
    }

    /// Mirrors the image left to right with probability 1/2.
    #[must_use]
    pub fn flip(self) -> Image {
        self.flip_with(DEFAULT_FLIP)
    }

    /// Mirrors the image left to right with probability `p`. Default: 0.
    #[must_use]
    pub fn flip_with(self, p: f64) -> Image {
        Image { flip: p, ..self }
    }

    /// Mirrors the image top to bottom with probability 1/2: torchvision's `RandomVerticalFlip`. Crops and
    /// horizontal flips are the same with this option as without it.
    #[must_use]
    pub fn vertical_flip(self) -> Image {
        self.vertical_flip_with(DEFAULT_FLIP)
    }

    /// Mirrors the image top to bottom with probability `p`. Default: 0.
    #[must_use]
    pub fn vertical_flip_with(self, p: f64) -> Image {
        Image { vertical_flip: p, ..self }
    }

    /// Normalises each channel: `(x / 255 - mean) / std`, torchvision's `ToTensor` and `Normalize`. It needs
    /// a float type; a grey image uses the first mean and the first deviation.
    ///
    /// Without this option, floats are `x / 255`, in [0, 1], like those of torchvision's `ToTensor`. With
    /// [`bit_depth(16)`](Image::bit_depth), 65535 replaces 255 for files of more than 8 bits.
    #[must_use]
    pub fn normalize(self, mean: [f32; RGB], std: [f32; RGB]) -> Image {
        Image { normalize: Some(Normalize { mean, std }), ..self }
    }

    /// Sets the number type. Default: [`PixelType::U8`]. For files of 16 bits, [`PixelType::U16`] keeps all
    /// bits; other types keep only the high byte, unless [`Image::bit_depth`] is 16.
    #[must_use]
    pub fn dtype(self, dtype: PixelType) -> Image {
        Image { dtype, ..self }
    }

    /// Sets the order of the axes. Default: [`Layout::Nhwc`].
    #[must_use]
    pub fn layout(self, layout: Layout) -> Image {
        Image { layout, ..self }
    }

    /// Delivers one channel: the luma of ITU-R 601, like Pillow's `convert("L")`.
    #[must_use]
    pub fn grayscale(self) -> Image {
        Image { grayscale: true, ..self }
    }

    /// Rotates and mirrors the image as its file's orientation says, like Pillow's `ImageOps.exif_transpose`.
    /// The orientation is taken from EXIF data in JPEG, WebP and PNG (the `eXIf` chunk, but not EXIF in text
    /// chunks), and from the tag of a TIFF. Default: off, as in torchvision.
    #[must_use]
    pub fn exif_orientation(self, apply: bool) -> Image {
        Image { exif_orientation: apply, ..self }
    }

    /// Sets the largest number of pixels that an image may have. An image whose header says more is refused
    /// before memory is allocated. The memory for decoding is limited too: in a loader by its memory budget,
    /// otherwise to 16 bytes for each of these pixels. Default: 178,956,970, as in Pillow.
    #[must_use]
    pub fn max_pixels(self, pixels: u64) -> Image {
        Image { max_pixels: pixels, ..self }
    }

    /// Delivers one more column after the stored ones, `<column>.geometry`: how each image was cropped and
    /// mirrored, so that other data can be transformed in the same way. Default: off.
    ///
    /// The column has eight float32 numbers for each row, or nine if images are
    /// [rotated](Image::random_rotation):
    ///
    /// * top, left, height and width of the crop, in pixels of the image before it is cropped;
    /// * 1 if the image is mirrored left to right, else 0;
    /// * 1 if it is mirrored top to bottom, else 0;
    /// * height and width of the whole image;
    /// * the angle of the rotation in degrees, counter-clockwise (only if images are rotated).
    ///
    /// With [`exif_orientation`](Image::exif_orientation), all numbers refer to the upright image. A centre
    /// crop need not begin at a whole pixel. If the delivered image has `H` x `W` pixels, a point `(x, y)` of
    /// the image is at `((x - left) * W / width, (y - top) * H / height)`, before mirroring. With
    /// [`fit`](Image::fit), `H` and `W` are the image's size on the canvas. If it is
    /// [centred](Image::centered), add the position of its upper left corner: half of the free
    /// width and height.
    #[must_use]
    pub fn emit_geometry(self) -> Image {
        Image { emit_geometry: true, ..self }
    }

    /// Whether the column `<column>.geometry` is delivered.
    pub fn emits_geometry(&self) -> bool {
        self.emit_geometry
    }

    /// The shape of one image in its layout: `[height, width, channels]` or `[channels, height, width]`.
    pub fn shape(&self) -> [usize; 3] {
        let (height, width) = (self.size.height as usize, self.size.width as usize);
        match self.layout {
            Layout::Nhwc => [height, width, self.channels()],
            Layout::Nchw => [self.channels(), height, width],
        }
    }

    /// The number of channels: 3, or 1 for a grey image.
    pub fn channels(&self) -> usize {
        if self.grayscale { LUMA } else { RGB }
    }

    /// Height and width of the result in pixels.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The number type of the result.
    pub fn pixel_type(&self) -> PixelType {
        self.dtype
    }

    /// The order of the result's axes.
    pub fn pixel_layout(&self) -> Layout {
        self.layout
    }

    /// The number of bytes of one delivered image, which is the length of the slot to decode it into.
    pub fn bytes_per_image(&self) -> usize {
        self.shape().iter().product::<usize>() * self.dtype.bytes()
    }

    /// Whether the pixels of the same row may differ between epochs.
    pub fn is_random(&self) -> bool {
        let is_drawn = |p: f64| p > 0.0 && p < 1.0;
        self.of.is_some()
            || self.framing.is_drawn()
            || is_drawn(self.flip)
            || is_drawn(self.vertical_flip)
            || self.draws_rotation()
            || self.draws_effects()
            || self.draws_operations()
    }

    /// The spec as one line of JSON, for saved positions and cache keys. Equal specs give equal text.
    pub fn canonical(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether the pixels that a cache keeps must come with the original size of the image, because the crop
    /// or the canvas depends on it. Otherwise the cache keeps just the part that is shown.
    pub fn kept_with_size(&self) -> bool {
        self.framing.is_drawn() || self.framing == Framing::Fit
    }

    /// Whether the column `<column>.size` is delivered: the size of each image on its canvas.
    pub fn emits_size(&self) -> bool {
        matches!(self.framing, Framing::Fit | Framing::RandomShortestSize(_) | Framing::ScaleJitter)
    }

    /// Whether each image is delivered in its own size.
    pub fn is_ragged(&self) -> bool {
        self.ragged
    }

    /// The same spec for an image that is resized to exactly this size, without crop or canvas.
    pub(super) fn of_size(&self, size: Size) -> Image {
        Image {
            framing: Framing::Resize,
            size,
            shorter: None,
            fill: None,
            centered: false,
            ragged: false,
            ..self.clone()
        }
    }

    pub(super) fn shorter_side(&self) -> u32 {
        self.shorter.unwrap_or(DEFAULT_SHORTER)
    }
}

impl fmt::Display for Image {
    /// Writes the spec as a chain of calls:
    /// `random_resized_crop(224x224).flip(0.5).dtype(uint8).layout(NHWC)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { height, width } = self.size;
        match &self.framing {
            Framing::Resize => write!(f, "resize({height}x{width})")?,
            Framing::RandomResizedCrop => {
                let (scale, ratio) = (self.scale_range(), self.ratio_range());
                write!(f, "random_resized_crop({height}x{width}, scale={scale:?}, ratio={ratio:.4?})")?;
            }
            Framing::CenterCrop => {
                write!(f, "center_crop({height}x{width}, resize={})", self.shorter_side())?;
            }
            Framing::Fit => {
                write!(f, "fit({height}x{width}")?;
                if let Some(shorter) = self.shorter {
                    write!(f, ", resize={shorter}")?;
                }
                if let Some(fill) = self.fill {
                    write!(f, ", fill={fill:?}")?;
                }
                f.write_str(")")?;
            }
            _ => self.write_detection(f)?,
        }
        if self.centered {
            f.write_str(".centered()")?;
        }
        if self.ragged {
            f.write_str(".ragged()")?;
        }
        if let Some(raw) = self.raw {
            write!(f, ".raw({raw})")?;
        }
        if !self.resampling.is_default() {
            write!(f, ".resampling({})", self.resampling)?;
        }
        if self.flip > 0.0 {
            write!(f, ".flip({})", self.flip)?;
        }
        if self.vertical_flip > 0.0 {
            write!(f, ".vertical_flip({})", self.vertical_flip)?;
        }
        if let Some(rotation) = self.rotation {
            write!(f, "{rotation}")?;
        }
        self.write_effects(f)?;
        if self.grayscale {
            f.write_str(".grayscale()")?;
        }
        if let Some(Normalize { mean, std }) = self.normalize {
            write!(f, ".normalize({mean:?}, {std:?})")?;
        }
        write!(f, ".dtype({}).layout({})", self.dtype, self.layout)?;
        if let Some(bits) = self.bit_depth {
            write!(f, ".bit_depth({bits})")?;
        }
        if self.emit_geometry {
            f.write_str(".emit_geometry()")?;
        }
        if let Some(of) = &self.of {
            write!(f, ".following({of:?})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_follow_the_layout() {
        let image = Image::resize(30, 20);
        assert_eq!(image.shape(), [30, 20, 3]);
        assert_eq!(image.bytes_per_image(), 30 * 20 * 3);
        let planes = image.layout(Layout::Nchw).grayscale().dtype(PixelType::F32);
        assert_eq!(planes.shape(), [1, 30, 20]);
        assert_eq!(planes.bytes_per_image(), 30 * 20 * 4);
    }

    #[test]
    fn only_a_draw_makes_an_image_random() {
        assert!(Image::random_resized_crop(8).is_random());
        assert!(Image::resize(8, 8).flip().is_random());
        assert!(Image::resize(8, 8).vertical_flip().is_random());
        assert!(!Image::resize(8, 8).flip_with(1.0).vertical_flip_with(1.0).is_random());
        assert!(!Image::center_crop(8).is_random());
    }

    #[test]
    fn the_canonical_form_is_pinned_and_read_back() {
        let image = Image::random_resized_crop((224, 192)).scale((0.25, 1.0)).flip();
        let canonical = image.canonical();
        assert_eq!(
            canonical,
            r#"{"framing":"random_resized_crop","size":{"height":224,"width":192},"scale":[0.25,1.0],"flip":0.5,"dtype":"uint8","layout":"NHWC","grayscale":false,"exif_orientation":false,"max_pixels":178956970}"#
        );
        assert_eq!(serde_json::from_str::<Image>(&canonical).unwrap(), image);
        let normalized = Image::center_crop(224).normalize([0.485; 3], [0.229; 3]).dtype(PixelType::BF16);
        assert_eq!(serde_json::from_str::<Image>(&normalized.canonical()).unwrap(), normalized);
        let later = image.vertical_flip_with(0.25).emit_geometry();
        assert_eq!(serde_json::from_str::<Image>(&later.canonical()).unwrap(), later);
        let raw = Image::fit(8).centered().raw(Raw::new(4, 1)).resampling(Resampling::Bicubic);
        let canonical = raw.canonical();
        assert!(
            canonical.contains(
                r#""centered":true,"resampling":"bicubic","raw":{"size":{"height":4,"width":4},"channels":1,"layout":"NHWC"}"#
            ),
            "{canonical}"
        );
        assert_eq!(serde_json::from_str::<Image>(&canonical).unwrap(), raw);
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let text = r#"{"framing":"resize","size":{"height":1,"width":1},"colour":true}"#;
        assert!(serde_json::from_str::<Image>(text).is_err());
    }

    #[test]
    fn it_reads_as_it_is_written() {
        assert_eq!(
            Image::center_crop(224).flip().grayscale().to_string(),
            "center_crop(224x224, resize=256).flip(0.5).grayscale().dtype(uint8).layout(NHWC)"
        );
        assert_eq!(
            Image::resize(8, 9).vertical_flip().emit_geometry().to_string(),
            "resize(8x9).vertical_flip(0.5).dtype(uint8).layout(NHWC).emit_geometry()"
        );
        let planes = Raw::new((8, 9), 3).layout(Layout::Nchw);
        assert_eq!(
            Image::fit(8).centered().raw(planes).resampling(Resampling::Lanczos).to_string(),
            "fit(8x8).centered().raw(3x8x9).resampling(lanczos).dtype(uint8).layout(NHWC)"
        );
    }
}

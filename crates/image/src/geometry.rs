//! Computes the part of an image that is sampled: arithmetic on sizes only.

use super::draws::Draws;
use super::spec::{Framing, Image, Resampling, Size};

/// The number of tries of a random crop before the fallback, as in torchvision.
const CROP_TRIES: usize = 10;

/// A rectangle of whole pixels of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Rect {
    pub(super) fn whole(width: u32, height: u32) -> Rect {
        Rect { x: 0, y: 0, width, height }
    }

    /// The smallest rectangle that covers both rectangles.
    pub(super) fn around(self, other: Rect) -> Rect {
        let (x, y) = (self.x.min(other.x), self.y.min(other.y));
        let right = (self.x + self.width).max(other.x + other.width);
        let bottom = (self.y + self.height).max(other.y + other.height);
        Rect { x, y, width: right - x, height: bottom - y }
    }
}

/// The part of an image that is resized to the target size: a box in pixels of the image, and the filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampling {
    /// The left border of the box.
    pub(super) left: f64,
    /// The upper border of the box.
    pub(super) top: f64,
    /// The width of the box.
    pub(super) width: f64,
    /// The height of the box.
    pub(super) height: f64,
    /// The pixels that the filter may read. A crop before the resize reads only the box, and a crop after it
    /// also reads pixels around the box.
    pub(super) view: Rect,
    /// The filter of the resize.
    pub(super) resampling: Resampling,
}

/// The place, in pixels, where an image begins on its canvas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Corner {
    pub(super) top: u32,
    pub(super) left: u32,
}

impl Corner {
    /// The corner of an image of the size `shown` after its whole canvas was mirrored.
    pub(super) fn mirrored(self, mirror: Mirror, shown: Size, canvas: Size) -> Corner {
        let Mirror { across, down } = mirror;
        Corner {
            top: if down { canvas.height - shown.height - self.top } else { self.top },
            left: if across { canvas.width - shown.width - self.left } else { self.left },
        }
    }
}

/// How an image is mirrored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mirror {
    /// Whether the image is mirrored left to right.
    pub(super) across: bool,
    /// Whether the image is mirrored top to bottom.
    pub(super) down: bool,
}

impl Sampling {
    /// The part of a `width` x `height` image that is sampled.
    pub(super) fn draw(image: &Image, width: u32, height: u32, draws: &mut Draws) -> Sampling {
        let cropped = |view| Sampling::cropped(view, image.resampling);
        match image.framing {
            Framing::RandomResizedCrop => cropped(random_crop(image, width, height, draws)),
            Framing::CenterCrop => center_crop(image, width, height),
            _ => cropped(Rect::whole(width, height)),
        }
    }

    /// The same part of an image of the size `from` after it was scaled to the size `to`.
    pub(super) fn scaled(self, from: Size, to: Size) -> Sampling {
        let x = f64::from(to.width) / f64::from(from.width);
        let y = f64::from(to.height) / f64::from(from.height);
        let Rect { x: left, y: top, width, height } = self.view;
        let covering = |start: u32, length: u32, scale: f64, limit: u32| {
            let first = ((f64::from(start) * scale) as u32).min(limit - 1);
            let end = (f64::from(start + length) * scale).ceil() as u32;
            (first, end.clamp(first + 1, limit) - first)
        };
        let (left, width) = covering(left, width, x, to.width);
        let (top, height) = covering(top, height, y, to.height);
        Sampling {
            left: self.left * x,
            top: self.top * y,
            width: self.width * x,
            height: self.height * y,
            view: Rect { x: left, y: top, width, height },
            ..self
        }
    }

    pub(super) fn cropped(view: Rect, resampling: Resampling) -> Sampling {
        Sampling {
            left: f64::from(view.x),
            top: f64::from(view.y),
            width: f64::from(view.width),
            height: f64::from(view.height),
            view,
            resampling,
        }
    }
}

/// Chooses a random crop like torchvision's `RandomResizedCrop.get_params`: it tries ten times with a random
/// area and a log-uniform aspect ratio, and falls back to the largest centred box within the ratios.
fn random_crop(image: &Image, width: u32, height: u32, draws: &mut Draws) -> Rect {
    let area = f64::from(width) * f64::from(height);
    let ratio = image.ratio_range();
    let log_ratio = (ratio.0.ln(), ratio.1.ln());
    for _ in 0..CROP_TRIES {
        let target = area * draws.uniform(image.scale_range());
        let aspect = draws.uniform(log_ratio).exp();
        let w = rounded((target * aspect).sqrt());
        let h = rounded((target / aspect).sqrt());
        if 0 < w && w <= width && 0 < h && h <= height {
            let y = draws.below(height - h + 1);
            let x = draws.below(width - w + 1);
            return Rect { x, y, width: w, height: h };
        }
    }
    let Size { height: h, width: w } = fallback_crop(ratio, width, height);
    Rect { x: (width - w) / 2, y: (height - h) / 2, width: w, height: h }
}

/// The size of the largest box whose width divided by its height is from `narrowest` to `widest`.
fn fallback_crop((narrowest, widest): (f64, f64), width: u32, height: u32) -> Size {
    let shape = f64::from(width) / f64::from(height);
    if shape < narrowest {
        Size { height: rounded(f64::from(width) / narrowest).clamp(1, height), width }
    } else if shape > widest {
        Size { height, width: rounded(f64::from(height) * widest).clamp(1, width) }
    } else {
        Size { height, width }
    }
}

/// The smallest width and the smallest height that a random crop of a `width` x `height` image can have.
pub(super) fn smallest_crop(image: &Image, width: u32, height: u32) -> (f64, f64) {
    let area = f64::from(width) * f64::from(height) * image.scale_range().0;
    let (narrowest, widest) = image.ratio_range();
    let fallback = fallback_crop((narrowest, widest), width, height);
    (
        (area * narrowest).sqrt().min(f64::from(fallback.width)),
        (area / widest).sqrt().min(f64::from(fallback.height)),
    )
}

/// Combines torchvision's `Resize(shorter)` and `CenterCrop(size)` into one box of the original image. The
/// box is the crop's rectangle, scaled back to the original size. As in torchvision, the filter may read
/// pixels beyond the box.
fn center_crop(image: &Image, width: u32, height: u32) -> Sampling {
    let size = image.size;
    let (resized_width, resized_height) = shorter_to(image.shorter_side(), width, height);
    let top = rounded(f64::from(resized_height.saturating_sub(size.height)) / 2.0);
    let left = rounded(f64::from(resized_width.saturating_sub(size.width)) / 2.0);
    let x_scale = f64::from(width) / f64::from(resized_width);
    let y_scale = f64::from(height) / f64::from(resized_height);
    let part = Rect { x: left, y: top, width: size.width, height: size.height };
    of_resized(part, x_scale, y_scale, Size { height, width }, image.resampling)
}

/// The box of an image of the size `from` that becomes the rectangle `part` of the resized image, each pixel
/// of which covers `x_scale` x `y_scale` pixels of the image.
pub(super) fn of_resized(
    part: Rect,
    x_scale: f64,
    y_scale: f64,
    from: Size,
    resampling: Resampling,
) -> Sampling {
    let (x, w) = with_support(part.x, part.width, x_scale, from.width, resampling);
    let (y, h) = with_support(part.y, part.height, y_scale, from.height, resampling);
    Sampling {
        left: f64::from(part.x) * x_scale,
        top: f64::from(part.y) * y_scale,
        width: f64::from(part.width) * x_scale,
        height: f64::from(part.height) * y_scale,
        view: Rect { x, y, width: w, height: h },
        resampling,
    }
}

/// Width and height after torchvision's `Resize(shorter)`: the longer side is truncated to whole pixels.
fn shorter_to(shorter: u32, width: u32, height: u32) -> (u32, u32) {
    let longer = |long: u32, short: u32| (u64::from(shorter) * u64::from(long) / u64::from(short)) as u32;
    if width <= height { (shorter, longer(height, width)) } else { (longer(width, height), shorter) }
}

/// The size to which a `width` x `height` image, or the part of it that is shown, is resized.
pub(super) fn target(image: &Image, width: u32, height: u32) -> Size {
    if image.framing != Framing::Fit {
        return image.size;
    }
    let (width, height) = image.shorter.map_or((width, height), |shorter| shorter_to(shorter, width, height));
    fitting(image.size, width, height)
}

/// Shrinks a `width` x `height` image until it fits a canvas. One side gets the length of the canvas, and the
/// other side is truncated to whole pixels, as in torchvision's `Resize(max_size=...)`.
fn fitting(canvas: Size, width: u32, height: u32) -> Size {
    let cut =
        |side: u32, to: u32, other: u32| (u64::from(other) * u64::from(to) / u64::from(side)).max(1) as u32;
    let is_wider = u64::from(width) * u64::from(canvas.height) >= u64::from(height) * u64::from(canvas.width);
    if width <= canvas.width && height <= canvas.height {
        Size { height, width }
    } else if is_wider {
        Size { height: cut(width, canvas.width, height), width: canvas.width }
    } else {
        Size { height: canvas.height, width: cut(height, canvas.height, width) }
    }
}

/// The position on the canvas of the top left corner of an image with the size `shown`.
pub(super) fn corner(image: &Image, shown: Size) -> Corner {
    let half = |canvas: u32, shown: u32| if image.centered { (canvas - shown) / 2 } else { 0 };
    Corner { top: half(image.size.height, shown.height), left: half(image.size.width, shown.width) }
}

/// Finds the source pixels that are read along one axis for `length` output pixels from `start`, and returns
/// their start and length. The filter reads `filter.reach()` output pixels around each centre, or source
/// pixels if the image is enlarged. One more pixel is added for rounding.
fn with_support(start: u32, length: u32, scale: f64, limit: u32, filter: Resampling) -> (u32, u32) {
    let reach = scale.max(1.0) * f64::from(filter.reach()) + 1.0;
    let from = (f64::from(start) * scale - reach).floor().max(0.0) as u32;
    let to = (f64::from(start + length) * scale + reach).ceil().min(f64::from(limit)) as u32;
    (from, to - from)
}

/// Rounds like Python's `int(round(x))`: halves go to the even neighbour.
fn rounded(x: f64) -> u32 {
    x.round_ties_even() as u32
}

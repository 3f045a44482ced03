//! Which part of an image is sampled: arithmetic on sizes only.

use super::draws::{Draws, Operation, RowKey};
use super::effects::Effects;
use super::rotation::Turn;
use super::spec::{Framing, Image, Size};

/// Tries of a random crop before the fallback, as torchvision's.
const CROP_TRIES: usize = 10;

/// Whole pixels of the image.
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
}

/// The frame of an image of a width and a height.
pub(super) type FrameOf<'a> = dyn Fn(u32, u32) -> Frame + 'a;

/// The box that is stretched to the target size, in pixels of the image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampling {
    /// Left border of the box.
    pub(super) left: f64,
    /// Upper border of the box.
    pub(super) top: f64,
    /// Width of the box.
    pub(super) width: f64,
    /// Height of the box.
    pub(super) height: f64,
    /// The pixels that may be read: the box itself for a crop that comes before the resize, more than it for one that
    /// comes after.
    pub(super) view: Rect,
}

/// What is drawn for one image: the part of it that is shown, how it is mirrored and turned, and what happens to its pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) sampling: Sampling,
    /// The size in which that part is shown: the whole result, or less of it where images keep their shape.
    pub(super) target: Size,
    pub(super) mirror: Mirror,
    /// How it is turned after that.
    pub(super) turn: Option<Turn>,
    pub(super) effects: Effects,
}

/// How an image is mirrored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mirror {
    /// Left to right.
    pub(super) across: bool,
    /// Top to bottom.
    pub(super) down: bool,
}

impl Frame {
    /// The frame of a `width` x `height` image, in the orientation in which it is seen. The flip is drawn first, so that
    /// adding one does not change the crops.
    pub(super) fn draw(image: &Image, width: u32, height: u32, key: RowKey) -> Frame {
        let mut draws = Draws::new(key);
        let across = draws.unit() < image.flip;
        let down = Draws::of(key, Operation::VerticalFlip).unit() < image.vertical_flip;
        let target = target(image, width, height);
        let (mirror, effects) = (Mirror { across, down }, Effects::draw(image, target, key));
        let (sampling, turn) = (Sampling::of(image, width, height, &mut draws), Turn::draw(image, key));
        Frame { sampling, target, mirror, turn, effects }
    }

    /// The same with another part of the image.
    pub(super) fn showing(self, sampling: Sampling) -> Frame {
        Frame { sampling, ..self }
    }

    /// The same for an image that has the size already in which it is shown.
    pub(super) fn of_shown(self) -> Frame {
        let Size { height, width } = self.target;
        Frame { sampling: Sampling::cropped(Rect::whole(width, height)), ..self }
    }

    /// The same part of an image of `from` (width and height) where that has the size `to`.
    pub(super) fn scaled(&self, from: (u32, u32), to: (u32, u32)) -> Frame {
        Frame { sampling: self.sampling.scaled(from, to), ..*self }
    }
}

impl Sampling {
    /// The sampling of a `width` x `height` image.
    fn of(image: &Image, width: u32, height: u32, draws: &mut Draws) -> Sampling {
        match image.framing {
            Framing::Resize | Framing::Fit => Sampling::cropped(Rect::whole(width, height)),
            Framing::RandomResizedCrop => Sampling::cropped(random_crop(image, width, height, draws)),
            Framing::CenterCrop => center_crop(image.size, image.shorter_side(), width, height),
        }
    }

    /// The same part of an image of `from` where that has the size `to`.
    pub(super) fn scaled(self, from: (u32, u32), to: (u32, u32)) -> Sampling {
        let (x, y) = (f64::from(to.0) / f64::from(from.0), f64::from(to.1) / f64::from(from.1));
        let Rect { x: left, y: top, width, height } = self.view;
        let covering = |start: u32, length: u32, scale: f64, limit: u32| {
            let first = ((f64::from(start) * scale) as u32).min(limit - 1);
            let end = (f64::from(start + length) * scale).ceil() as u32;
            (first, end.clamp(first + 1, limit) - first)
        };
        let (left, width) = covering(left, width, x, to.0);
        let (top, height) = covering(top, height, y, to.1);
        Sampling {
            left: self.left * x,
            top: self.top * y,
            width: self.width * x,
            height: self.height * y,
            view: Rect { x: left, y: top, width, height },
        }
    }

    fn cropped(view: Rect) -> Sampling {
        Sampling {
            left: f64::from(view.x),
            top: f64::from(view.y),
            width: f64::from(view.width),
            height: f64::from(view.height),
            view,
        }
    }
}

/// torchvision's `RandomResizedCrop.get_params`: ten tries of a random area and a log-uniform aspect ratio, then the
/// largest centred box within the ratios.
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
    let (w, h) = fallback_crop(ratio, width, height);
    Rect { x: (width - w) / 2, y: (height - h) / 2, width: w, height: h }
}

/// Width and height of the largest box within the ratios.
fn fallback_crop(ratio: (f64, f64), width: u32, height: u32) -> (u32, u32) {
    let shape = f64::from(width) / f64::from(height);
    if shape < ratio.0 {
        (width, rounded(f64::from(width) / ratio.0).clamp(1, height))
    } else if shape > ratio.1 {
        (rounded(f64::from(height) * ratio.1).clamp(1, width), height)
    } else {
        (width, height)
    }
}

/// Lower limits of the width and height of a random crop of a `width` x `height` image.
pub(super) fn smallest_crop(image: &Image, width: u32, height: u32) -> (f64, f64) {
    let area = f64::from(width) * f64::from(height) * image.scale_range().0;
    let (narrowest, widest) = image.ratio_range();
    let fallback = fallback_crop((narrowest, widest), width, height);
    ((area * narrowest).sqrt().min(f64::from(fallback.0)), (area / widest).sqrt().min(f64::from(fallback.1)))
}

/// torchvision's `Resize(shorter)` and `CenterCrop(size)` as one box: output pixel (i, j) of the crop is pixel
/// (i + top, j + left) of the resized image, so the box is the crop's rectangle at the resize's scale, and the filter may
/// read past it as it would in the whole image.
fn center_crop(size: Size, shorter: u32, width: u32, height: u32) -> Sampling {
    let (resized_width, resized_height) = shorter_to(shorter, width, height);
    let top = rounded(f64::from(resized_height.saturating_sub(size.height)) / 2.0);
    let left = rounded(f64::from(resized_width.saturating_sub(size.width)) / 2.0);
    let x_scale = f64::from(width) / f64::from(resized_width);
    let y_scale = f64::from(height) / f64::from(resized_height);
    let (x, w) = with_support(left, size.width, x_scale, width);
    let (y, h) = with_support(top, size.height, y_scale, height);
    Sampling {
        left: f64::from(left) * x_scale,
        top: f64::from(top) * y_scale,
        width: f64::from(size.width) * x_scale,
        height: f64::from(size.height) * y_scale,
        view: Rect { x, y, width: w, height: h },
    }
}

/// Width and height after torchvision's `Resize(shorter)`: the longer side is cut to whole pixels.
fn shorter_to(shorter: u32, width: u32, height: u32) -> (u32, u32) {
    let longer = |long: u32, short: u32| (u64::from(shorter) * u64::from(long) / u64::from(short)) as u32;
    if width <= height { (shorter, longer(height, width)) } else { (longer(width, height), shorter) }
}

/// The size in which a `width` x `height` image, or its part, is shown.
pub(super) fn target(image: &Image, width: u32, height: u32) -> Size {
    if image.framing != Framing::Fit {
        return image.size;
    }
    let (width, height) = image.shorter.map_or((width, height), |shorter| shorter_to(shorter, width, height));
    fitting(image.size, width, height)
}

/// The size of a `width` x `height` image that is shrunk until it fits a canvas: the side that fits last has the canvas's
/// length, and the other one is cut to whole pixels, as torchvision's `Resize(max_size=...)` does.
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

/// Start and length of the source pixels that `length` output pixels from `start` read along one axis: the bilinear
/// filter reaches `max(scale, 1)` pixels from each centre, and one more is kept for rounding.
fn with_support(start: u32, length: u32, scale: f64, limit: u32) -> (u32, u32) {
    let reach = scale.max(1.0) + 1.0;
    let from = (f64::from(start) * scale - reach).floor().max(0.0) as u32;
    let to = (f64::from(start + length) * scale + reach).ceil().min(f64::from(limit)) as u32;
    (from, to - from)
}

/// Python's `int(round(x))`: halves go to the even neighbour.
fn rounded(x: f64) -> u32 {
    x.round_ties_even() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(image: &Image, width: u32, height: u32, key: u64) -> Frame {
        Frame::draw(image, width, height, RowKey(key))
    }

    #[test]
    fn crops_are_pinned() {
        let image = Image::random_resized_crop(224).flip();
        let drawn: Vec<(Rect, bool)> = (0..5)
            .map(|key| frame(&image, 500, 375, key))
            .map(|frame| (frame.sampling.view, frame.mirror.across))
            .collect();
        let rect = |x, y, width, height| Rect { x, y, width, height };
        assert_eq!(drawn, GOLDEN.map(|([x, y, width, height], flip)| (rect(x, y, width, height), flip)));
    }

    /// Recomputed by an independent program (SplitMix64 and torchvision's loop in Python).
    const GOLDEN: [([u32; 4], bool); 5] = [
        ([25, 32, 261, 343], false),
        ([29, 19, 434, 331], false),
        ([34, 5, 390, 369], false),
        ([25, 1, 381, 357], true),
        ([17, 2, 456, 371], true),
    ];

    #[test]
    fn a_crop_lies_inside_and_keeps_its_area_and_ratio() {
        let image = Image::random_resized_crop(224);
        for key in 0..5_000 {
            let Rect { x, y, width, height } = frame(&image, 500, 375, key).sampling.view;
            assert!(x + width <= 500 && y + height <= 375);
            let share = f64::from(width * height) / (500.0 * 375.0);
            assert!((0.078..=1.0).contains(&share), "{share}");
            let ratio = f64::from(width) / f64::from(height);
            assert!((0.74..=1.35).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn an_impossible_ratio_falls_back_to_the_centre() {
        let image = Image::random_resized_crop(224);
        let Sampling { view, .. } = frame(&image, 1000, 10, 1).sampling;
        assert_eq!(view, Rect { x: 493, y: 0, width: 13, height: 10 });
        let Sampling { view, .. } = frame(&image, 1, 1000, 1).sampling;
        assert_eq!(view, Rect { x: 0, y: 499, width: 1, height: 1 });
    }

    #[test]
    fn a_flip_does_not_move_the_crop() {
        let plain = Image::random_resized_crop(32);
        let (flipped, both) = (plain.clone().flip(), plain.clone().flip().vertical_flip());
        let mut mirrors = std::collections::HashSet::new();
        for key in 0..100 {
            let drawn = [&plain, &flipped, &both].map(|image| frame(image, 90, 70, key));
            assert!(drawn.iter().all(|frame| frame.sampling == drawn[0].sampling));
            assert_eq!(drawn[1].mirror.across, drawn[2].mirror.across);
            mirrors.insert((drawn[2].mirror.across, drawn[2].mirror.down));
        }
        assert_eq!(mirrors.len(), 4);
    }

    #[test]
    fn a_centre_crop_is_torchvisions_box() {
        // 500x375 becomes 341x256; round(58.5) = 58 columns are cut, as Python rounds, and 16 rows.
        let Sampling { left, top, width, height, view } =
            frame(&Image::center_crop(224), 500, 375, 0).sampling;
        let (x, y) = (500.0 / 341.0, 375.0 / 256.0);
        assert_eq!((left, top, width, height), (58.0 * x, 16.0 * y, 224.0 * x, 224.0 * y));
        assert!(view.x == 82 && view.y == 20, "{view:?}");
    }

    #[test]
    fn every_target_pixel_has_a_source_in_images_of_any_shape() {
        for (width, height) in [(1, 1), (1, 3000), (3000, 1), (7, 5), (65_535, 2)] {
            for image in [Image::center_crop(224), Image::resize(3, 4), Image::random_resized_crop(5)] {
                let Sampling { left, top, width: w, height: h, view } =
                    frame(&image, width, height, 3).sampling;
                assert!(view.width > 0 && view.x + view.width <= width);
                assert!(view.height > 0 && view.y + view.height <= height);
                assert!(w > 0.0 && h > 0.0 && left >= 0.0 && top >= 0.0);
            }
        }
    }
}

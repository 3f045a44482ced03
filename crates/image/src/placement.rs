//! Computes which part of an image is shown, in which size, and where that part begins in the result.

use super::draws::Draws;
use super::geometry::{Corner, Rect, Sampling, corner, of_resized, target};
use super::repeat::Repeat;
use super::spec::{Framing, Image, IouCrop, PaddingMode, RandomCrop, Size};

/// `RandomIoUCrop` draws a minimum overlap at most this number of times, and then shows the whole image.
const IOU_ROUNDS: usize = 100;

/// The boxes of objects in an image, for crops around them. Each box is left, top, right and bottom.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BoxesOfImage<'a> {
    pub(super) corners: &'a [[f64; 4]],
    /// Whether coordinates are shares of the image's width and height, and not pixels.
    pub(super) normalized: bool,
}

/// The part of an image that is shown, and its place in the result.
pub(super) struct Placement {
    pub(super) sampling: Sampling,
    /// The size of the shown part in the result.
    pub(super) target: Size,
    /// The position in the result where the shown part begins, before mirroring.
    pub(super) corner: Corner,
    /// The size of the canvas (the result with its padding), if mirroring applies to the whole canvas.
    pub(super) canvas: Option<Size>,
    /// The padding that repeats pixels of the image, if the shown part extends beyond the image.
    pub(super) padding: Option<Repeat>,
}

impl Placement {
    /// Computes the placement of a `width` x `height` image. `draws` makes the random choices.
    pub(super) fn draw(
        image: &Image,
        width: u32,
        height: u32,
        draws: &mut Draws,
        boxes: BoxesOfImage<'_>,
    ) -> Placement {
        let seen = Size { height, width };
        match &image.framing {
            Framing::RandomCrop(crop) => padded_crop(image, *crop, seen, draws),
            Framing::RandomShortestSize(sizes) => {
                let count = sizes.min_size.len().max(1) as u32;
                let drawn = sizes.min_size.get(draws.below(count) as usize).copied().unwrap_or(1);
                let target = shortest(drawn, image.size, seen);
                let sampling = Sampling::cropped(Rect::whole(width, height), image.resampling);
                Placement { sampling, target, corner: corner(image, target), canvas: None, padding: None }
            }
            Framing::ScaleJitter => jittered(image, seen, draws),
            Framing::RandomIouCrop(crop) => {
                let view = iou_crop(image, crop, seen, draws, boxes);
                Placement::filling(image, Sampling::cropped(view, image.resampling))
            }
            Framing::Resize | Framing::RandomResizedCrop | Framing::CenterCrop | Framing::Fit => {
                let target = target(image, width, height);
                let sampling = Sampling::draw(image, width, height, draws);
                Placement { sampling, target, corner: corner(image, target), canvas: None, padding: None }
            }
        }
    }

    /// The placement of a part that is resized to fill the whole result.
    fn filling(image: &Image, sampling: Sampling) -> Placement {
        Placement { sampling, target: image.size, corner: Corner::default(), canvas: None, padding: None }
    }
}

/// Draws a crop like torchvision's `RandomCrop`. If the padded image is still smaller than the crop, it is
/// padded again by the difference on each side. All positions of the crop are equally likely.
fn padded_crop(image: &Image, crop: RandomCrop, seen: Size, draws: &mut Draws) -> Placement {
    let RandomCrop { padding, mode } = crop;
    let size = image.size;
    let start = |before: u32, side: u32, after: u32, crop: u32, draws: &mut Draws| {
        let padded = side.saturating_add(before).saturating_add(after);
        let lacking = crop.saturating_sub(padded);
        let free = padded.saturating_add(lacking).saturating_add(lacking) - crop;
        i64::from(draws.below(free + 1)) - i64::from(before) - i64::from(lacking)
    };
    let top = start(padding.top, seen.height, padding.bottom, size.height, draws);
    let left = start(padding.left, seen.width, padding.right, size.width, draws);
    let is_inside =
        |start: i64, length: u32, side: u32| start >= 0 && start + i64::from(length) <= i64::from(side);
    let all_inside = is_inside(top, size.height, seen.height) && is_inside(left, size.width, seen.width);
    if mode == PaddingMode::Constant || all_inside {
        let (y, height, above) = visible(top, size.height, seen.height);
        let (x, width, before) = visible(left, size.width, seen.width);
        let sampling = Sampling::cropped(Rect { x, y, width, height }, image.resampling);
        let corner = Corner { top: above, left: before };
        return Placement {
            sampling,
            target: Size { height, width },
            corner,
            canvas: Some(size),
            padding: None,
        };
    }
    let (left, top, repeat) = (left as f64, top as f64, Repeat { mode, seen });
    let (y, height) = extent(&repeat.rows(top, size.height));
    let (x, width) = extent(&repeat.columns(left, size.width));
    let sampling = Sampling {
        left,
        top,
        width: f64::from(size.width),
        height: f64::from(size.height),
        view: Rect { x, y, width, height },
        resampling: image.resampling,
    };
    Placement { padding: Some(repeat), ..Placement::filling(image, sampling) }
}

/// The pixels of the image that a crop shows along an axis: the first one, their number, and the position of
/// the first one within the crop.
fn visible(start: i64, length: u32, side: u32) -> (u32, u32, u32) {
    let first = start.clamp(0, i64::from(side) - 1);
    let end = (start + i64::from(length)).clamp(first + 1, i64::from(side));
    (first as u32, (end - first) as u32, (first - start).max(0) as u32)
}

/// The range of pixels along an axis that covers all of `shown`: the first pixel, and the number of pixels up
/// to the last.
fn extent(shown: &[u32]) -> (u32, u32) {
    let first = shown.iter().min().copied().unwrap_or(0);
    let last = shown.iter().max().copied().unwrap_or(0);
    (first, last - first + 1)
}

/// The size to which torchvision's `RandomShortestSize` resizes an image, computed by the same arithmetic.
fn shortest(min_size: u32, canvas: Size, seen: Size) -> Size {
    let (height, width) = (f64::from(seen.height), f64::from(seen.width));
    let fits = (f64::from(canvas.height) / height).min(f64::from(canvas.width) / width);
    scaled(seen, (f64::from(min_size) / height.min(width)).min(fits), Some(canvas))
}

/// Multiplies a size by a factor and rounds it down to whole pixels, but to at least 1 and at most `most`.
fn scaled(seen: Size, factor: f64, most: Option<Size>) -> Size {
    let side =
        |side: u32, most: Option<u32>| ((f64::from(side) * factor) as u32).clamp(1, most.unwrap_or(u32::MAX));
    Size {
        height: side(seen.height, most.map(|most| most.height)),
        width: side(seen.width, most.map(|most| most.width)),
    }
}

/// Draws a size like torchvision's `ScaleJitter`. If the resized image is larger than the canvas, draws a
/// random crop of the canvas's size.
fn jittered(image: &Image, seen: Size, draws: &mut Draws) -> Placement {
    let canvas = image.size;
    let fits = (f64::from(canvas.height) / f64::from(seen.height))
        .min(f64::from(canvas.width) / f64::from(seen.width));
    let resized = scaled(seen, fits * draws.uniform(image.scale_range()), None);
    let mut part = |resized: u32, canvas: u32| {
        let length = resized.min(canvas);
        (draws.below(resized - length + 1), length)
    };
    let ((y, height), (x, width)) = (part(resized.height, canvas.height), part(resized.width, canvas.width));
    let of = |side: u32, resized: u32| f64::from(side) / f64::from(resized);
    let (x_scale, y_scale) = (of(seen.width, resized.width), of(seen.height, resized.height));
    let part = Rect { x, y, width, height };
    Placement {
        sampling: of_resized(part, x_scale, y_scale, seen, image.resampling),
        target: Size { height, width },
        corner: Corner::default(),
        canvas: None,
        padding: None,
    }
}

/// Draws a crop like torchvision's `RandomIoUCrop`: draws a minimum overlap, and then random crops, until a
/// crop contains the centre of a box and overlaps that box by at least the minimum.
fn iou_crop(
    image: &Image,
    crop: &IouCrop,
    Size { height, width }: Size,
    draws: &mut Draws,
    boxes: BoxesOfImage<'_>,
) -> Rect {
    let whole = Rect::whole(width, height);
    if boxes.corners.is_empty() {
        return whole;
    }
    let (x_scale, y_scale) = match boxes.normalized {
        true => (f64::from(width), f64::from(height)),
        false => (1.0, 1.0),
    };
    let boxes = boxes.corners.iter().map(|[l, t, r, b]| [l * x_scale, t * y_scale, r * x_scale, b * y_scale]);
    let boxes: Vec<[f64; 4]> = boxes.collect();
    let (scale, (narrowest, widest)) = (image.scale_range(), image.ratio_range());
    let options = &crop.sampler_options;
    for _ in 0..IOU_ROUNDS {
        let least = options.get(draws.below(options.len() as u32) as usize).copied().unwrap_or(1.0);
        if least >= 1.0 {
            return whole;
        }
        for _ in 0..crop.trials {
            let w = (f64::from(width) * draws.uniform(scale)) as u32;
            let h = (f64::from(height) * draws.uniform(scale)) as u32;
            let ratio = f64::from(w) / f64::from(h);
            if w == 0 || h == 0 || !(narrowest..=widest).contains(&ratio) {
                continue;
            }
            let x = (f64::from(width - w) * draws.unit()) as u32;
            let y = (f64::from(height - h) * draws.unit()) as u32;
            let tried = Rect { x, y, width: w, height: h };
            if overlap(tried, &boxes).is_some_and(|found| found >= least) {
                return tried;
            }
        }
    }
    whole
}

/// The largest overlap (intersection over union) of a rectangle with a box whose centre is inside the
/// rectangle; `None` if there is no such box.
fn overlap(rect: Rect, boxes: &[[f64; 4]]) -> Option<f64> {
    let (left, top) = (f64::from(rect.x), f64::from(rect.y));
    let (right, bottom) = (left + f64::from(rect.width), top + f64::from(rect.height));
    let area = |l: f64, t: f64, r: f64, b: f64| (r - l).max(0.0) * (b - t).max(0.0);
    let inside = boxes.iter().filter(|[l, t, r, b]| {
        let (x, y) = ((l + r) / 2.0, (t + b) / 2.0);
        left < x && x < right && top < y && y < bottom
    });
    let overlaps = inside.map(|[l, t, r, b]| {
        let both = area(l.max(left), t.max(top), r.min(right), b.min(bottom));
        both / (area(*l, *t, *r, *b) + area(left, top, right, bottom) - both)
    });
    overlaps.reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowKey;

    const SEEN: Size = Size { height: 30, width: 40 };

    fn placed(image: &Image, key: u64, boxes: &[[f64; 4]]) -> Placement {
        let boxes = BoxesOfImage { corners: boxes, normalized: false };
        Placement::draw(image, SEEN.width, SEEN.height, &mut Draws::new(RowKey(key)), boxes)
    }

    #[test]
    fn every_place_of_a_padded_crop_is_drawn_and_it_always_shows_the_image() {
        let image = Image::random_crop((28, 36)).padding((4, 2));
        let mut starts = std::collections::BTreeSet::new();
        for key in 0..5_000 {
            let Placement { sampling, target, corner, canvas, padding } = placed(&image, key, &[]);
            let (left, top) = (sampling.left as i64, sampling.top as i64);
            let (left, top) = (left - i64::from(corner.left), top - i64::from(corner.top));
            starts.insert((top, left));
            assert_eq!((canvas, padding), (Some(image.size), None));
            assert!(corner.left + target.width <= 36 && corner.top + target.height <= 28);
            assert!(target.width >= 32 && target.height >= 26);
        }
        let all = (-2..=4).flat_map(|top| (-4..=8).map(move |left| (top, left)));
        assert!(starts.into_iter().eq(all));
    }

    #[test]
    fn a_crop_larger_than_the_image_shows_all_of_it() {
        for key in 0..200 {
            let Placement { sampling, target, corner, .. } = placed(&Image::random_crop(50), key, &[]);
            assert_eq!((sampling.view, target), (Rect::whole(40, 30), SEEN));
            assert!(corner.left <= 10 && corner.top <= 20);
            let image = Image::random_crop(50).padding_mode(PaddingMode::Reflect);
            let Placement { sampling, target, padding, .. } = placed(&image, key, &[]);
            assert_eq!(
                (target, padding.map(|repeat| repeat.mode)),
                (Size::from(50), Some(PaddingMode::Reflect))
            );
            assert_eq!(sampling.view, Rect::whole(40, 30));
        }
    }

    #[test]
    fn the_shorter_side_is_drawn_and_the_longer_one_fits() {
        let image = Image::random_shortest_size([15, 24, 60], 64);
        let sizes: std::collections::BTreeSet<(u32, u32)> = (0..200)
            .map(|key| placed(&image, key, &[]).target)
            .map(|size| (size.height, size.width))
            .collect();
        assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [(15, 20), (24, 32), (48, 64)]);
    }

    #[test]
    fn jitter_shrinks_onto_the_canvas_or_crops_a_larger_image() {
        let image = Image::scale_jitter(32);
        let (mut smaller, mut larger) = (0, 0);
        for key in 0..2_000 {
            let Placement { sampling, target, .. } = placed(&image, key, &[]);
            assert!(target.width <= 32 && target.height <= 32 && target.height >= 2);
            assert!(sampling.left >= 0.0 && sampling.left + sampling.width <= 40.0 + 1e-9);
            let is_whole = sampling.width == 40.0 && sampling.height == 30.0;
            smaller += u32::from(is_whole);
            larger += u32::from(sampling.left > 0.0);
        }
        assert!(smaller > 700 && larger > 700, "{smaller}, {larger}");
    }

    #[test]
    fn a_crop_around_boxes_holds_a_centre_and_overlaps_enough() {
        let boxes = [[2.0, 3.0, 10.0, 12.0], [20.0, 10.0, 38.0, 28.0]];
        for least in [0.0, 0.3, 0.7] {
            let image = Image::random_iou_crop(8, "boxes").sampler_options([least]);
            let mut rects = std::collections::HashSet::new();
            for key in 0..300 {
                let Rect { x, y, width, height } = placed(&image, key, &boxes).sampling.view;
                rects.insert((x, y, width, height));
                let found = overlap(Rect { x, y, width, height }, &boxes).unwrap();
                assert!(found >= least && x + width <= 40 && y + height <= 30);
                let ratio = f64::from(width) / f64::from(height);
                assert!((0.5..=2.0).contains(&ratio) && width >= 12 && height >= 9);
            }
            assert!(rects.len() > 20, "{}", rects.len());
        }
        let never = Image::random_iou_crop(8, "boxes").sampler_options([0.99]).trials(1);
        assert_eq!(placed(&never, 1, &boxes[..1]).sampling.view, Rect::whole(40, 30));
        assert_eq!(placed(&Image::random_iou_crop(8, "boxes"), 1, &[]).sampling.view, Rect::whole(40, 30));
    }
}

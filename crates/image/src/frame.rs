//! Chooses the random changes of one image: its crop, flips, rotation and changes of pixels. All random
//! numbers come from the key of the image's row.

use super::draws::{Draws, Operation, RowKey};
use super::effects::Effects;
use super::geometry::{Corner, Mirror, Rect, Sampling};
use super::placement::{BoxesOfImage, Placement};
use super::repeat::Repeat;
use super::rotation::Turn;
use super::spec::{Image, Size};

/// The changes of one image: the part that is cut out, the place of this part in the result, how it is
/// mirrored and turned, and how its pixels change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) sampling: Sampling,
    /// The size to which the part `sampling` is resized. It is smaller than the result if the rest of the
    /// result is padding, as for images that keep their aspect ratio.
    pub(super) target: Size,
    /// The position in the result of the top left corner of the resized part.
    pub(super) corner: Corner,
    /// The size of the result, if it may contain constant padding that is mirrored together with the image,
    /// as for a random crop; `None` if only the image is mirrored.
    pub(super) canvas: Option<Size>,
    /// Repeats the image's own pixels where the part `sampling` extends beyond the image; `None` if it does
    /// not, or if the padding is constant.
    pub(super) padding: Option<Repeat>,
    pub(super) mirror: Mirror,
    /// The rotation, which is applied after the flips; `None` if the image is not rotated.
    pub(super) turn: Option<Turn>,
    pub(super) effects: Effects,
}

impl Frame {
    /// Chooses the changes of an image of `width` x `height` pixels (after its EXIF orientation). The random
    /// number for the horizontal flip is always taken first, so that adding a flip does not change the crops.
    pub(super) fn draw(image: &Image, width: u32, height: u32, key: RowKey) -> Frame {
        Frame::draw_around(image, width, height, key, BoxesOfImage::default())
    }

    /// Chooses the changes like [`draw`](Self::draw), for an image whose crop may depend on the boxes of its
    /// objects.
    pub(super) fn draw_around(
        image: &Image,
        width: u32,
        height: u32,
        key: RowKey,
        boxes: BoxesOfImage<'_>,
    ) -> Frame {
        let mut draws = Draws::new(key);
        let across = draws.unit() < image.flip;
        let down = Draws::for_operation(key, Operation::VerticalFlip).unit() < image.vertical_flip;
        let Placement { sampling, target, corner, canvas, padding } =
            Placement::draw(image, width, height, &mut draws, boxes);
        let (mirror, effects) = (Mirror { across, down }, Effects::draw(image, target, key));
        let corner = canvas.map_or(corner, |canvas| corner.mirrored(mirror, target, canvas));
        Frame { sampling, target, corner, canvas, padding, mirror, turn: Turn::draw(image, key), effects }
    }

    /// The same frame, but with another part of the image. The filter of the resize is not changed.
    pub(super) fn showing(self, part: Sampling) -> Frame {
        Frame { sampling: Sampling { resampling: self.sampling.resampling, ..part }, ..self }
    }

    /// The same frame for an image that was already cropped and resized, so only the later changes remain.
    pub(super) fn of_shown(self) -> Frame {
        let Size { height, width } = self.target;
        let sampling = Sampling::cropped(Rect::whole(width, height), self.sampling.resampling);
        Frame { sampling, padding: None, ..self }
    }

    /// Whether the frame shows exactly the pixels of a rectangle, unmoved and unchanged.
    pub(super) fn keeps(&self, rect: Rect) -> bool {
        let is_whole = self.sampling == Sampling::cropped(rect, self.sampling.resampling);
        let is_unmoved = self.padding.is_none() && self.turn.is_none() && self.mirror == Mirror::default();
        is_whole && is_unmoved && self.effects.keep_pixels() && self.effects.erased.is_none()
    }

    /// The frame for the same part of an image of the size `from` after it was scaled to the size `to`.
    pub(super) fn scaled(&self, from: Size, to: Size) -> Frame {
        Frame { sampling: self.sampling.scaled(from, to), ..*self }
    }
}

/// A function that gives the frame of an image with a width and a height.
pub(super) type FrameOf<'a> = dyn Fn(u32, u32) -> Frame + 'a;

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

    /// Values that an independent program computed (SplitMix64 and torchvision's loop in Python).
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
        // An image of 500x375 is resized to 341x256, and its middle of 224x224 is kept. On the left, 58
        // columns are cut off, because Python rounds 58.5 (half of 341 - 224) to even; at the top, 16 rows.
        let Sampling { left, top, width, height, view, .. } =
            frame(&Image::center_crop(224), 500, 375, 0).sampling;
        let (x, y) = (500.0 / 341.0, 375.0 / 256.0);
        assert_eq!((left, top, width, height), (58.0 * x, 16.0 * y, 224.0 * x, 224.0 * y));
        assert!(view.x == 82 && view.y == 20, "{view:?}");
    }

    #[test]
    fn every_target_pixel_has_a_source_in_images_of_any_shape() {
        for (width, height) in [(1, 1), (1, 3000), (3000, 1), (7, 5), (65_535, 2)] {
            for image in [Image::center_crop(224), Image::resize(3, 4), Image::random_resized_crop(5)] {
                let Sampling { left, top, width: w, height: h, view, .. } =
                    frame(&image, width, height, 3).sampling;
                assert!(view.width > 0 && view.x + view.width <= width);
                assert!(view.height > 0 && view.y + view.height <= height);
                assert!(w > 0.0 && h > 0.0 && left >= 0.0 && top >= 0.0);
            }
        }
    }
}

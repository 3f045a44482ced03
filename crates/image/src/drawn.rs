//! The crop, resize and flips of one image, so that other data (boxes, points, masks) can be moved in the
//! same way.
//!
//! [`Frame::draw`] decides for the image and for all such data, so that they cannot disagree. All coordinates
//! are in the image as a viewer shows it, after its EXIF orientation was applied, if that is asked for.

use super::frame::Frame;
use super::geometry::{Corner, Mirror};
use super::rotation::Turn;
use super::spec::{Image, Size};

/// The geometry of one image: where each of its points is in the delivered pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    pub(super) frame: Frame,
    /// The size of the image before it is cropped.
    seen: Size,
    /// The size in which the image is delivered.
    target: Size,
}

impl Drawn {
    /// The number of values of [`numbers`](Drawn::numbers) for a rotated image.
    const NUMBERS: usize = 9;

    /// The number of values of [`numbers`](Drawn::numbers) for the images of a spec. The last value, the
    /// angle, exists only if the spec rotates images.
    pub fn numbers_of(image: &Image) -> usize {
        if image.rotates() { Drawn::NUMBERS } else { Drawn::NUMBERS - 1 }
    }

    /// The geometry of an image whose size is `seen` before it is cropped.
    pub(super) fn new(frame: Frame, seen: Size) -> Drawn {
        Drawn { frame, seen, target: frame.target }
    }

    /// The size of the image before it is cropped.
    pub fn seen(&self) -> Size {
        self.seen
    }

    /// The size of the image in the result. It is smaller than the result if the image is placed on a canvas
    /// that it does not fill.
    pub fn target(&self) -> Size {
        self.target
    }

    /// Moves a box (left, top, right, bottom) from the image to the delivered pixels, as they are before a
    /// random rotation. The result may extend beyond them.
    pub fn corners(&self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        let Mirror { across, down } = self.frame.mirror;
        let (width, height) = (f64::from(self.target.width), f64::from(self.target.height));
        let ((left, top), (right, bottom)) = (self.resized(left, top), self.resized(right, bottom));
        let (left, right) = if across { (width - right, width - left) } else { (left, right) };
        let (top, bottom) = if down { (height - bottom, height - top) } else { (top, bottom) };
        let (x, y) = self.begin();
        [left + x, top + y, right + x, bottom + y]
    }

    /// The visible part of a box that [`corners`](Drawn::corners) returned. A box that is not visible becomes
    /// empty, at the border.
    pub fn clipped(&self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        let (x, y) = self.begin();
        let (end_x, end_y) = (x + f64::from(self.target.width), y + f64::from(self.target.height));
        [left.clamp(x, end_x), top.clamp(y, end_y), right.clamp(x, end_x), bottom.clamp(y, end_y)]
    }

    /// Whether a point of the image is strictly inside the crop. A random rotation is not considered.
    pub fn shows(&self, x: f64, y: f64) -> bool {
        let shown = &self.frame.sampling;
        let is_inside = |at: f64, start: f64, length: f64| start < at && at < start + length;
        is_inside(x, shown.left, shown.width) && is_inside(y, shown.top, shown.height)
    }

    /// The position on the canvas of the image's upper left corner.
    fn begin(&self) -> (f64, f64) {
        let Corner { top, left } = self.frame.corner;
        (f64::from(left), f64::from(top))
    }

    /// The random rotation of the image, if it has one.
    pub(super) fn turn(&self) -> Option<&Turn> {
        self.frame.turn.as_ref()
    }

    /// The upright box around a [`clipped`](Drawn::clipped) box after the random rotation; `None` if the
    /// image is not rotated. It may extend beyond the delivered pixels.
    pub fn turned(&self, [left, top, right, bottom]: [f64; 4]) -> Option<[f64; 4]> {
        let turn = self.turn()?;
        let (x, y) = self.begin();
        let (x, y) = (x + f64::from(self.target.width) / 2.0, y + f64::from(self.target.height) / 2.0);
        let corners = [(left, top), (right, top), (left, bottom), (right, bottom)];
        let corners = corners.map(|corner| turn.point(corner.0 - x, corner.1 - y));
        let (least, most) = (|a: f64, b: f64| a.min(b), |a: f64, b: f64| a.max(b));
        let across = |of: fn(f64, f64) -> f64| corners.map(|corner| corner.0).into_iter().reduce(of);
        let down = |of: fn(f64, f64) -> f64| corners.map(|corner| corner.1).into_iter().reduce(of);
        Some([across(least)? + x, down(least)? + y, across(most)? + x, down(most)? + y])
    }

    /// Moves a point from the image to the delivered pixels, including a random rotation. Coordinates are
    /// pixel numbers, so that mirroring turns 0 into the number of the last pixel, as in torchvision.
    pub fn point(&self, x: f64, y: f64) -> (f64, f64) {
        let Mirror { across, down } = self.frame.mirror;
        let (x, y) = self.resized(x, y);
        let (last_x, last_y) = (f64::from(self.target.width) - 1.0, f64::from(self.target.height) - 1.0);
        let (x, y) = (if across { last_x - x } else { x }, if down { last_y - y } else { y });
        let (left, top) = self.begin();
        let Some(turn) = self.turn() else { return (x + left, y + top) };
        let (x, y) = turn.point(x - last_x / 2.0, y - last_y / 2.0);
        (x + last_x / 2.0 + left, y + last_y / 2.0 + top)
    }

    /// Moves a point from the image to the resized crop.
    fn resized(&self, x: f64, y: f64) -> (f64, f64) {
        let shown = &self.frame.sampling;
        (
            (x - shown.left) * (f64::from(self.target.width) / shown.width),
            (y - shown.top) * (f64::from(self.target.height) / shown.height),
        )
    }

    /// The geometry as numbers: top, left, height and width of the crop, whether it is mirrored left to right
    /// and top to bottom (0 or 1), height and width of the image, and the angle of rotation in degrees.
    pub fn numbers(&self) -> [f32; Drawn::NUMBERS] {
        let Frame { sampling: shown, mirror, target, corner, canvas, .. } = self.frame;
        // On a canvas, the numbers describe the crop together with the padding around it.
        let (corner, size) = match canvas {
            Some(canvas) => (corner.mirrored(mirror, target, canvas), canvas),
            None => (Corner::default(), target),
        };
        let across = shown.width / f64::from(target.width);
        let down = shown.height / f64::from(target.height);
        [
            (shown.top - f64::from(corner.top) * down) as f32,
            (shown.left - f64::from(corner.left) * across) as f32,
            (f64::from(size.height) * down) as f32,
            (f64::from(size.width) * across) as f32,
            f32::from(u8::from(mirror.across)),
            f32::from(u8::from(mirror.down)),
            self.seen.height as f32,
            self.seen.width as f32,
            self.turn().map_or(0.0, |turn| turn.degrees as f32),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, RowKey, encode_jpeg};

    fn jpeg(width: u32, height: u32) -> Vec<u8> {
        encode_jpeg(&vec![90; (width * height * 3) as usize], width, height, 90).unwrap()
    }

    #[test]
    fn a_stretched_and_mirrored_image_takes_its_boxes_along() {
        let image = Image::resize(20, 40).flip_with(1.0);
        let drawn = Drawn::probe(&image, &jpeg(80, 100), RowKey(1)).unwrap();
        assert_eq!(drawn.corners([0.0, 10.0, 20.0, 30.0]), [30.0, 2.0, 40.0, 6.0]);
        assert_eq!(drawn.point(0.0, 10.0), (39.0, 2.0));
        let both = Drawn::probe(&image.vertical_flip_with(1.0), &jpeg(80, 100), RowKey(1)).unwrap();
        assert_eq!(both.corners([0.0, 10.0, 20.0, 30.0]), [30.0, 14.0, 40.0, 18.0]);
        assert_eq!(both.numbers(), [0.0, 0.0, 100.0, 80.0, 1.0, 1.0, 100.0, 80.0, 0.0]);
    }

    #[test]
    fn a_point_on_the_border_of_a_crop_is_not_shown() {
        let image = Image::center_crop(20).resize_shorter(30).flip_with(1.0);
        let drawn = Drawn::probe(&image, &jpeg(40, 30), RowKey(1)).unwrap();
        // The crop is from column 10 to 30 and from row 5 to 25.
        for (x, y, shown) in [
            (10.5, 24.5, true),
            (10.0, 15.0, false),
            (30.0, 15.0, false),
            (20.0, 25.0, false),
            (9.0, 9.0, false),
        ] {
            assert_eq!(drawn.shows(x, y), shown, "{x}, {y}");
        }
    }

    #[test]
    fn boxes_and_points_are_where_a_centered_image_is() {
        let image = Image::fit((12, 21)).centered().flip_with(1.0);
        let drawn = Drawn::probe(&image, &jpeg(10, 8), RowKey(1)).unwrap();
        // The image's upper left corner is at (5, 2) of the canvas.
        assert_eq!(drawn.corners([0.0, 1.0, 4.0, 6.0]), [11.0, 3.0, 15.0, 8.0]);
        assert_eq!(drawn.point(0.0, 1.0), (14.0, 3.0));
        assert_eq!(drawn.clipped([0.0, 0.0, 30.0, 30.0]), [5.0, 2.0, 15.0, 10.0]);
        let turned = image.random_rotation((180.0, 180.0));
        let drawn = Drawn::probe(&turned, &jpeg(10, 8), RowKey(1)).unwrap();
        let (x, y) = drawn.point(0.0, 1.0);
        assert!((x - 5.0).abs() < 1e-9 && (y - 8.0).abs() < 1e-9, "{x}, {y}");
        let found = drawn.turned([11.0, 3.0, 15.0, 8.0]).unwrap();
        let wanted = [5.0, 4.0, 9.0, 9.0];
        assert!(found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn what_is_not_visible_is_empty_at_the_border() {
        let image = Image::center_crop(10).resize_shorter(20);
        let drawn = Drawn::probe(&image, &jpeg(40, 40), RowKey(1)).unwrap();
        let clipped = |corners| drawn.clipped(drawn.corners(corners));
        assert_eq!(clipped([0.0, 0.0, 40.0, 40.0]), [0.0, 0.0, 10.0, 10.0]);
        assert_eq!(clipped([12.0, 0.0, 20.0, 4.0]), [1.0, 0.0, 5.0, 0.0]);
        assert_eq!(clipped([31.0, 31.0, 40.0, 40.0]), [10.0; 4]);
    }

    #[test]
    fn an_image_that_was_kept_before_its_crop_is_drawn_alike() {
        let image = Image::random_resized_crop(16).flip().vertical_flip();
        let file = jpeg(160, 120);
        for form in [Form::Pixels, Form::Resized, Form::Coefficients] {
            let kept = image.keep(form, &file).unwrap();
            assert_ne!(&kept[..], &file[..]);
            for key in (0..50).map(RowKey) {
                let drawn = Drawn::probe(&image, &file, key).unwrap();
                assert_eq!(Drawn::probe(&image, &kept, key).unwrap(), drawn);
            }
        }
        assert!(Drawn::probe(&image, b"text", RowKey(0)).is_err());
    }
}

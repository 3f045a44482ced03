//! Rotates images at random about their centre, after they were resized and mirrored: torchvision's `rotate`
//! with `expand=False`.

use super::affine::Affine;
use super::depth::Depth;
use super::draws::{Draws, Operation, RowKey};
use super::spec::{Image, Interpolation, RGB, Rotation, Size};

/// The rotation of one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    /// The angle, counter-clockwise.
    pub(super) degrees: f64,
    interpolation: Interpolation,
    fill: [u8; RGB],
}

impl Turn {
    /// Draws the rotation of the image in the row with this key. `None` if the spec has no rotation.
    pub(super) fn draw(image: &Image, key: RowKey) -> Option<Turn> {
        let Rotation { degrees, interpolation, fill } = image.rotation?;
        let degrees = Draws::for_operation(key, Operation::Rotation).uniform(degrees);
        Some(Turn { degrees, interpolation, fill })
    }

    fn sin_cos(&self) -> (f64, f64) {
        self.degrees.to_radians().sin_cos()
    }

    /// Maps a point of the image to its position in the rotated image. Coordinates are relative to the
    /// centre.
    pub(super) fn point(&self, x: f64, y: f64) -> (f64, f64) {
        let (sin, cos) = self.sin_cos();
        (cos * x + sin * y, cos * y - sin * x)
    }

    /// The map from a pixel of the rotated image to the point of the original image that it shows.
    fn affine(&self) -> Affine {
        let (sin, cos) = self.sin_cos();
        Affine {
            rows: [[cos, -sin, 0.0], [sin, cos, 0.0]],
            interpolation: self.interpolation,
            fill: self.fill,
        }
    }

    /// Writes the rotated image to `to`. The channels of a pixel are interleaved, and
    /// their levels have this depth.
    pub(super) fn pixels(&self, from: &[u8], size: Size, channels: usize, depth: Depth, to: &mut [u8]) {
        self.affine().pixels(from, size, channels, depth, to);
    }

    /// Writes the rotated image to `to`, where each pixel is a copy of the nearest pixel of the original. A
    /// pixel consists of `LEVELS` values of type `L`.
    pub(super) fn nearest<L: Copy, const LEVELS: usize>(
        &self,
        from: &[L],
        size: Size,
        fill: [L; LEVELS],
        to: &mut [L],
    ) {
        self.affine().nearest(from, size, fill, to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::depth::WIDENING;
    use super::super::spec::LUMA;
    use super::*;

    const SIZE: Size = Size { height: 3, width: 3 };

    fn turn(degrees: f64, interpolation: Interpolation) -> Turn {
        Turn { degrees, interpolation, fill: [9; RGB] }
    }

    #[test]
    fn a_quarter_turns_counter_clockwise() {
        for interpolation in Interpolation::ALL {
            let mut to = [0; 9];
            turn(90.0, interpolation).pixels(
                &[1, 2, 3, 4, 5, 6, 7, 8, 10],
                SIZE,
                LUMA,
                Depth::Eight,
                &mut to,
            );
            assert_eq!(to, [3, 6, 10, 2, 5, 8, 1, 4, 7]);
            let (x, y) = turn(90.0, interpolation).point(1.0, 0.0);
            assert!(x.abs() < 1e-9 && (y + 1.0).abs() < 1e-9, "{x} {y}");
        }
    }

    #[test]
    fn sixteen_bits_turn_as_eight_do() {
        let eight = [1, 2, 3, 4, 5, 6, 7, 8, 10];
        let wide: Vec<u8> =
            eight.iter().flat_map(|level| (u16::from(*level) * WIDENING).to_ne_bytes()).collect();
        for interpolation in Interpolation::ALL {
            for degrees in [0.0, 90.0, 37.0] {
                let (mut to, mut wide_to) = ([0; 9], [0; 18]);
                turn(degrees, interpolation).pixels(&eight, SIZE, LUMA, Depth::Eight, &mut to);
                turn(degrees, interpolation).pixels(&wide, SIZE, LUMA, Depth::Sixteen, &mut wide_to);
                for (eight, wide) in to.iter().zip(wide_to.as_chunks().0) {
                    let wide = f32::from(u16::from_ne_bytes(*wide)) / f32::from(WIDENING);
                    assert!(
                        (wide - f32::from(*eight)).abs() <= 0.5,
                        "{interpolation}, {degrees}: {wide}, {eight}"
                    );
                }
            }
        }
    }

    #[test]
    fn corners_are_filled() {
        let size = Size { height: 1, width: 3 };
        let mut to = [0; 9];
        turn(90.0, Interpolation::Nearest).pixels(
            &[1, 2, 3, 4, 5, 6, 7, 8, 10],
            size,
            RGB,
            Depth::Eight,
            &mut to,
        );
        assert_eq!(to, [9, 9, 9, 4, 5, 6, 9, 9, 9]);
        let mut same = [0; 9];
        turn(0.0, Interpolation::Bilinear).pixels(
            &[1, 2, 3, 4, 5, 6, 7, 8, 10],
            size,
            RGB,
            Depth::Eight,
            &mut same,
        );
        assert_eq!(same, [1, 2, 3, 4, 5, 6, 7, 8, 10]);
    }

    #[test]
    fn angles_are_drawn_from_their_range_and_change_no_other_draw() {
        let image = Image::resize(8, 8).random_rotation((-10.0, 30.0));
        let drawn: Vec<f64> = (0..500).map(|key| Turn::draw(&image, RowKey(key)).unwrap().degrees).collect();
        assert!(drawn.iter().all(|degrees| (-10.0..30.0).contains(degrees)));
        assert!((drawn.iter().sum::<f64>() / 500.0 - 10.0).abs() < 2.0);
        assert!(image.is_random());
        assert!(!image.clone().random_rotation((5.0, 5.0)).is_random());
        let text = image.canonical();
        assert_eq!(serde_json::from_str::<Image>(&text).unwrap(), image);
        for degrees in [(1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert!(image.clone().random_rotation(degrees).validate().is_err());
        }
    }
}

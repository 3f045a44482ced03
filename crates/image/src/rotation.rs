//! Rotates images at random about their centre, after they were resized and mirrored.
//!
//! The formulas are those of torchvision's `rotate` on tensors, with `expand=False`.

use super::depth::{ChannelLevel, Depth, WIDENING};
use super::draws::{Draws, Operation, RowKey};
use super::spec::{Image, Interpolation, LUMA, RGB, Rotation, Size};

/// The rotation of one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    /// The angle, counter-clockwise.
    pub(super) degrees: f64,
    interpolation: Interpolation,
    fill: [u8; RGB],
}

/// The four pixels around a place of an image.
struct Corner {
    column: i64,
    row: i64,
    /// The distance of the place from the first pixel's centre towards the next one, along each axis.
    right: f32,
    down: f32,
}

impl Turn {
    /// The rotation that is drawn for the image of a row.
    pub(super) fn draw(image: &Image, key: RowKey) -> Option<Turn> {
        let Rotation { degrees, interpolation, fill } = image.rotation?;
        let degrees = Draws::for_operation(key, Operation::Rotation).uniform(degrees);
        Some(Turn { degrees, interpolation, fill })
    }

    fn sin_cos(&self) -> (f64, f64) {
        self.degrees.to_radians().sin_cos()
    }

    /// Maps a point of an image to the turned image. Both places are relative to the centre.
    pub(super) fn point(&self, x: f64, y: f64) -> (f64, f64) {
        let (sin, cos) = self.sin_cos();
        (cos * x + sin * y, cos * y - sin * x)
    }

    /// Turns interleaved pixels of an image of this size.
    pub(super) fn pixels(&self, from: &[u8], size: Size, (channels, depth): (usize, Depth), to: &mut [u8]) {
        match depth {
            Depth::Eight => self.levels(from, size, channels, self.fill, to),
            Depth::Sixteen => {
                let fill = self.fill.map(|level| (u16::from(level) * WIDENING).to_ne_bytes());
                self.levels(from.as_chunks().0, size, channels, fill, to.as_chunks_mut().0);
            }
        }
    }

    fn levels<L: ChannelLevel>(&self, from: &[L], size: Size, channels: usize, fill: [L; RGB], to: &mut [L]) {
        match (self.interpolation, channels) {
            (Interpolation::Nearest, LUMA) => self.nearest(from, size, [fill[0]], to),
            (Interpolation::Nearest, _) => self.nearest(from, size, fill, to),
            (Interpolation::Bilinear, LUMA) => self.bilinear(from, size, [fill[0]], to),
            (Interpolation::Bilinear, _) => self.bilinear(from, size, fill, to),
        }
    }

    /// Turns pixels by the nearest pixel. Pixels have as many levels, or bytes, as the fill.
    pub(super) fn nearest<L: Copy, const LEVELS: usize>(
        &self,
        from: &[L],
        size: Size,
        fill: [L; LEVELS],
        to: &mut [L],
    ) {
        let (from, _) = from.as_chunks::<LEVELS>();
        let (to, _) = to.as_chunks_mut::<LEVELS>();
        self.each(size, |at, x, y| {
            to[at] =
                pixel(from, size, x.round_ties_even() as i64, y.round_ties_even() as i64).unwrap_or(fill);
        });
    }

    /// Turns pixels with a level for each channel. Pixels outside the image count as 0, and the result is
    /// mixed with the fill by the share that is inside.
    fn bilinear<L: ChannelLevel, const CHANNELS: usize>(
        &self,
        from: &[L],
        size: Size,
        fill: [L; CHANNELS],
        to: &mut [L],
    ) {
        let (from, _) = from.as_chunks::<CHANNELS>();
        let (to, _) = to.as_chunks_mut::<CHANNELS>();
        self.each(size, |at, x, y| {
            let Corner { column, row, right, down } = Corner::around(x, y);
            let (mut sums, mut inside) = ([0f32; CHANNELS], 0f32);
            for (column, across) in [(column, 1.0 - right), (column + 1, right)] {
                for (row, along) in [(row, 1.0 - down), (row + 1, down)] {
                    let Some(pixel) = pixel(from, size, column, row) else { continue };
                    inside += across * along;
                    sums.iter_mut()
                        .zip(pixel)
                        .for_each(|(sum, value)| *sum += across * along * value.value());
                }
            }
            for ((to, sum), fill) in to[at].iter_mut().zip(sums).zip(fill) {
                let fill = fill.value();
                *to = L::from_value(((sum - fill) * inside + fill).round_ties_even());
            }
        });
    }

    /// Calls `write` with the number of each pixel of the result and the place in the image that it shows.
    fn each(&self, size: Size, mut write: impl FnMut(usize, f64, f64)) {
        let (sin, cos) = self.sin_cos();
        let (middle_x, middle_y) = (f64::from(size.width - 1) / 2.0, f64::from(size.height - 1) / 2.0);
        let mut at = 0;
        for row in 0..size.height {
            let y = f64::from(row) - middle_y;
            for column in 0..size.width {
                let x = f64::from(column) - middle_x;
                write(at, cos * x - sin * y + middle_x, sin * x + cos * y + middle_y);
                at += 1;
            }
        }
    }
}

impl Corner {
    fn around(x: f64, y: f64) -> Corner {
        let (column, row) = (x.floor(), y.floor());
        Corner { column: column as i64, row: row as i64, right: (x - column) as f32, down: (y - row) as f32 }
    }
}

fn pixel<P: Copy>(pixels: &[P], size: Size, column: i64, row: i64) -> Option<P> {
    let (column, row) = (u32::try_from(column).ok()?, u32::try_from(row).ok()?);
    let is_inside = column < size.width && row < size.height;
    is_inside.then(|| pixels[row as usize * size.width as usize + column as usize])
}

#[cfg(test)]
mod tests {
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
                (LUMA, Depth::Eight),
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
                turn(degrees, interpolation).pixels(&eight, SIZE, (LUMA, Depth::Eight), &mut to);
                turn(degrees, interpolation).pixels(&wide, SIZE, (LUMA, Depth::Sixteen), &mut wide_to);
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
            (RGB, Depth::Eight),
            &mut to,
        );
        assert_eq!(to, [9, 9, 9, 4, 5, 6, 9, 9, 9]);
        let mut same = [0; 9];
        turn(0.0, Interpolation::Bilinear).pixels(
            &[1, 2, 3, 4, 5, 6, 7, 8, 10],
            size,
            (RGB, Depth::Eight),
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

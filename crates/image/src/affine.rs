//! Rotates, shears and translates images (an affine map about the centre of the image), by the formulas of
//! torchvision's `affine` and `rotate` on tensors.

use super::depth::{ChannelLevel, Depth, WIDENING};
use super::spec::{Interpolation, LUMA, RGB, Size};

/// Maps each pixel of the result to the point of the source image that it shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Affine {
    /// The rows `[a, b, c]` and `[d, e, f]` of the map. The point is `(a * x + b * y + c, d * x + e * y +
    /// f)`, where `x` and `y` are the distances of the result's pixel from the centre.
    pub(super) rows: [[f64; 3]; 2],
    pub(super) interpolation: Interpolation,
    /// The level (0 to 255) of each channel for pixels that show a point outside the image.
    pub(super) fill: [u8; RGB],
}

/// The four pixels around a point of an image, by the column and row of the upper left one.
struct Corner {
    column: i64,
    row: i64,
    /// The distance from the centre of the upper left pixel to the point, along each axis.
    right: f32,
    down: f32,
}

impl Affine {
    /// Writes the transformed image of this size to `to`. Pixels are interleaved.
    pub(super) fn pixels(&self, from: &[u8], size: Size, channels: usize, depth: Depth, to: &mut [u8]) {
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

    /// Gives each pixel of the result the source pixel that is nearest to the point that it shows. A pixel
    /// has `LEVELS` values of type `L`.
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

    /// Gives each pixel of the result the weighted mean of the four source pixels around the point that it
    /// shows. Pixels outside the image count as 0; the larger their weights, the more fill colour is mixed
    /// in.
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

    /// Calls `write` for each pixel of the result, with its number and the point of the image that it shows.
    fn each(&self, size: Size, mut write: impl FnMut(usize, f64, f64)) {
        let [[a, b, c], [d, e, f]] = self.rows;
        let (middle_x, middle_y) = (f64::from(size.width - 1) / 2.0, f64::from(size.height - 1) / 2.0);
        let mut at = 0;
        for row in 0..size.height {
            let y = f64::from(row) - middle_y;
            for column in 0..size.width {
                let x = f64::from(column) - middle_x;
                write(at, a * x + b * y + middle_x + c, d * x + e * y + middle_y + f);
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

    #[test]
    fn a_translation_shows_the_place_to_the_left() {
        let size = Size { height: 1, width: 4 };
        for interpolation in Interpolation::ALL {
            let rows = [[1.0, 0.0, -1.0], [0.0, 1.0, 0.0]];
            let mut to = [0; 4];
            Affine { rows, interpolation, fill: [9; RGB] }.pixels(
                &[1, 2, 3, 4],
                size,
                LUMA,
                Depth::Eight,
                &mut to,
            );
            assert_eq!(to, [9, 1, 2, 3]);
        }
    }
}

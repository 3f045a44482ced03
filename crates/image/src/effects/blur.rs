//! The Gaussian blur of torchvision for interleaved 8-bit pixels. It blurs along rows, then along columns.
//! Pixels beyond a border are mirror images of the pixels inside it.

use super::super::spec::Size;

/// Buffers for the steps of a blur, which a thread reuses for each image.
#[derive(Default)]
pub(crate) struct BlurScratch {
    /// All pixels after they are blurred along their rows.
    rows: Vec<f32>,
    /// One row of the image, extended at both ends by mirrored pixels.
    padded: Vec<f32>,
    /// The weighted sums for one row of the result.
    sums: Vec<f32>,
}

/// The most bytes that the buffers take for a blur of an image of this size.
pub(super) fn bytes(size: Size, channels: usize, kernel_size: u32) -> u64 {
    let row = u64::from(size.width) * channels as u64;
    let padding = u64::from(kernel_size) * channels as u64;
    (row * u64::from(size.height) + 2 * row + padding + u64::from(kernel_size)) * size_of::<f32>() as u64
}

impl BlurScratch {
    /// The number of bytes that the buffers take.
    pub(crate) fn bytes(&self) -> u64 {
        ((self.rows.capacity() + self.padded.capacity() + self.sums.capacity()) * size_of::<f32>()) as u64
    }

    /// Blurs pixels in place. Half of `kernel_size` must be less than the width and the height of the image.
    pub(super) fn blur(
        &mut self,
        pixels: &mut [u8],
        size: Size,
        channels: usize,
        kernel_size: usize,
        sigma: f64,
    ) {
        let (width, height) = (size.width as usize, size.height as usize);
        let kernel = kernel(kernel_size, sigma);
        let reach = kernel_size / 2;
        let row = width * channels;
        let BlurScratch { rows, padded, sums } = self;
        rows.clear();
        for from in pixels.chunks_exact(row) {
            padded.clear();
            for column in -(reach as isize)..(width + reach) as isize {
                let column = mirrored(column, width);
                padded.extend(from[column * channels..][..channels].iter().map(|value| f32::from(*value)));
            }
            let start = rows.len();
            rows.resize(start + row, 0.0);
            for (at, weight) in kernel.iter().enumerate() {
                add(&mut rows[start..], &padded[at * channels..][..row], *weight);
            }
        }
        for (number, to) in pixels.chunks_exact_mut(row).enumerate() {
            sums.clear();
            sums.resize(row, 0.0);
            for (at, weight) in kernel.iter().enumerate() {
                let from = mirrored((number + at) as isize - reach as isize, height);
                add(sums, &rows[from * row..][..row], *weight);
            }
            to.iter_mut().zip(&*sums).for_each(|(to, sum)| *to = sum.round_ties_even() as u8);
        }
    }
}

fn add(sums: &mut [f32], values: &[f32], weight: f32) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
}

/// The index of the pixel to use for position `at`, which may be beyond an end of a line of `length` pixels.
/// The line is mirrored there, without repeating its last pixel.
fn mirrored(at: isize, length: usize) -> usize {
    let last = length as isize - 1;
    let at = at.abs();
    (if at > last { 2 * last - at } else { at }) as usize
}

/// The weights of the blur along one axis; their sum is 1.
fn kernel(size: usize, sigma: f64) -> Vec<f32> {
    let half = (size / 2) as f64;
    let weights: Vec<f64> = (0..size).map(|at| (-((at as f64 - half) / sigma).powi(2) / 2.0).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| (weight / sum) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_becomes_the_kernel() {
        let size = Size { height: 5, width: 5 };
        let mut pixels = [0; 25];
        pixels[12] = 255;
        BlurScratch::default().blur(&mut pixels, size, 1, 3, 1.0);
        let [edge, middle, _] = kernel(3, 1.0)[..] else { unreachable!() };
        let level = |share: f32| (255.0 * share).round() as u8;
        assert_eq!(pixels[6..9], [level(edge * edge), level(edge * middle), level(edge * edge)]);
        assert_eq!(pixels[12], level(middle * middle));
        assert_eq!(pixels[0], 0);
    }

    #[test]
    fn a_flat_image_stays_flat_to_its_border() {
        for channels in [1, 3] {
            let size = Size { height: 7, width: 6 };
            let mut pixels = vec![201; 42 * channels];
            let mut scratch = BlurScratch::default();
            scratch.blur(&mut pixels, size, channels, 11, 3.0);
            assert!(pixels.iter().all(|value| *value == 201));
            assert!(scratch.bytes() > 0 && bytes(size, channels, 11) >= 42 * channels as u64 * 4);
        }
    }

    #[test]
    fn places_are_mirrored_without_the_end() {
        assert_eq!([-2, -1, 0, 3, 4, 5].map(|at| mirrored(at, 4)), [2, 1, 0, 3, 2, 1]);
    }
}

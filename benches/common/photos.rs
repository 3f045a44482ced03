//! Photographs that the benches share: drawn ones, and the draws of their crops.

use forebay_image::encode_jpeg;

/// The shape and about the bytes of an ImageNet photograph: 100 KB.
pub(crate) const WIDTH: u32 = 500;
pub(crate) const HEIGHT: u32 = 375;
const QUALITY: u8 = 93;
/// Different photographs, so that the branch predictor does not learn one.
const PHOTOS: u64 = 32;

/// SplitMix64, as the library draws.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, below: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(below)) >> 64) as u32
    }

    /// Left, top, width and height of a random resized crop of an image.
    pub(crate) fn crop(&mut self, width: u32, height: u32) -> (u32, u32, u32, u32) {
        for _ in 0..10 {
            let area = f64::from(width * height) * (0.08 + 0.92 * self.unit());
            let (low, high) = ((3f64 / 4.0).ln(), (4f64 / 3.0).ln());
            let aspect = (low + (high - low) * self.unit()).exp();
            let (w, h) = ((area * aspect).sqrt().round() as u32, (area / aspect).sqrt().round() as u32);
            if w <= width && h <= height {
                let y = self.below(height - h + 1);
                return (self.below(width - w + 1), y, w, h);
            }
        }
        (0, 0, width, height)
    }
}

/// The photographs: those of the folder that `FOREBAY_PHOTOGRAPHS` names, or drawn ones.
pub(crate) fn photos() -> Vec<Vec<u8>> {
    let Some(folder) = std::env::var_os("FOREBAY_PHOTOGRAPHS") else {
        return (0..PHOTOS).map(photo).collect();
    };
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a photograph")).collect()
}

/// Noise of every size with amplitudes in proportion to it, as photographs have, per colour.
fn photo(seed: u64) -> Vec<u8> {
    const LARGEST: u32 = 256;
    let mut draws = Draws(seed);
    let mut levels = vec![128f64; (WIDTH * HEIGHT * 3) as usize];
    let mut cell = LARGEST;
    while cell >= 1 {
        let (columns, rows) = (WIDTH / cell + 2, HEIGHT / cell + 2);
        let amplitude = 34.0 * f64::from(cell).powf(0.2);
        for (channel, share) in [1.0, 0.95, 0.9].into_iter().enumerate() {
            let grid: Vec<f64> =
                (0..columns * rows).map(|_| (draws.unit() - 0.5) * amplitude * share).collect();
            let at = |x: u32, y: u32| grid[(y * columns + x) as usize];
            for y in 0..HEIGHT {
                let (row, down) = (y / cell, f64::from(y % cell) / f64::from(cell));
                for x in 0..WIDTH {
                    let (column, right) = (x / cell, f64::from(x % cell) / f64::from(cell));
                    let top = at(column, row) * (1.0 - right) + at(column + 1, row) * right;
                    let bottom = at(column, row + 1) * (1.0 - right) + at(column + 1, row + 1) * right;
                    levels[((y * WIDTH + x) * 3) as usize + channel] += top * (1.0 - down) + bottom * down;
                }
            }
        }
        cell /= 2;
    }
    let pixels: Vec<u8> = levels.iter().map(|level| level.clamp(0.0, 255.0) as u8).collect();
    encode_jpeg(&pixels, WIDTH, HEIGHT, QUALITY).expect("a JPEG")
}

//! The photographs that the benches share, and the random crops of them.

use forebay_image::encode_jpeg;

/// The shape of an ImageNet photograph.
pub(crate) const WIDTH: u32 = 500;
pub(crate) const HEIGHT: u32 = 375;
const QUALITY: u8 = 93;
/// The number of different photographs: enough that the branch predictor learns none of them.
const PHOTOS: u64 = 32;

/// The SplitMix64 generator, which the library uses too.
pub(crate) struct PhotoDraws(pub(crate) u64);

impl PhotoDraws {
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

    /// Draws the left, top, width and height of a random resized crop of an image.
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

/// Returns the photographs in the folder that `FOREBAY_PHOTOGRAPHS` names, or drawn ones.
pub(crate) fn photos() -> Vec<Vec<u8>> {
    let Some(folder) = std::env::var_os("FOREBAY_PHOTOGRAPHS") else {
        return (0..PHOTOS).map(photo).collect();
    };
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a photograph")).collect()
}

/// Draws discs over each other. Each size of disc covers the same area in total, and each disc has one colour
/// and its own grain. To a decoder they resemble photographs. At this quality a photograph takes 0.35 bytes a
/// pixel and a drawn image 0.31; the shares of their coefficients that are zero are 0.72 and 0.73.
fn photo(seed: u64) -> Vec<u8> {
    const LARGEST: f64 = 180.0;
    const COVER: f64 = 3.0;
    const GRAIN: f64 = 45.0;
    let mut draws = PhotoDraws(seed);
    let smallest = 6.0 + 30.0 * draws.unit();
    let mut pixels = vec![128; (WIDTH * HEIGHT * 3) as usize];
    let mut left = COVER * f64::from(WIDTH * HEIGHT);
    while left > 0.0 {
        let share = draws.unit();
        let radius = (share / smallest.powi(2) + (1.0 - share) / LARGEST.powi(2)).sqrt().recip();
        let (x, y) = (draws.unit() * f64::from(WIDTH), draws.unit() * f64::from(HEIGHT));
        let grain = GRAIN * draws.unit().powi(3);
        let colour = [0; 3].map(|_| 30.0 + 190.0 * draws.unit());
        left -= radius * radius;
        for row in (y - radius).max(0.0) as u32..((y + radius) as u32).min(HEIGHT) {
            let reach = (radius * radius - (f64::from(row) - y).powi(2)).max(0.0).sqrt();
            for column in (x - reach).max(0.0) as u32..((x + reach) as u32).min(WIDTH) {
                let light = grain * (draws.unit() - 0.5);
                let at = ((row * WIDTH + column) * 3) as usize;
                pixels[at..][..3].copy_from_slice(&colour.map(|level| (level + light) as u8));
            }
        }
    }
    encode_jpeg(&pixels, WIDTH, HEIGHT, QUALITY).expect("a JPEG")
}

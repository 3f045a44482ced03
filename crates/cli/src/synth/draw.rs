//! One picture: a scene, the things in it, and the camera that took it.

use super::canvas::Canvas;
use super::colour::Colour;
use super::material::Materials;
use super::{scene, shape};
use crate::random::Random;

/// Pictures smaller than this are drawn larger and averaged down, as a camera's optics would.
const SMALLEST_DRAWN: u32 = 128;

/// Draws the pictures of a data set.
pub(super) struct Artist {
    materials: Materials,
    seed: u64,
    width: u32,
    height: u32,
    classes: u32,
}

impl Artist {
    pub(super) fn new(seed: u64, width: u32, height: u32, classes: u32) -> Self {
        Artist { materials: Materials::new(seed), seed, width, height, classes }
    }

    /// The class of row `row`.
    pub(super) fn label(&self, row: u64) -> u32 {
        // Its own stream: the label does not depend on how the picture is drawn.
        Random::new(self.seed ^ u64::MAX, row).below(self.classes)
    }

    /// Picture `row` as RGB bytes, and the random numbers that are left, for how it is stored.
    pub(super) fn paint(&self, row: u64) -> (Vec<u8>, Random) {
        let mut random = Random::new(self.seed, row);
        let enlarged = SMALLEST_DRAWN.div_ceil(self.width.min(self.height)).max(1);
        let mut canvas = Canvas::new((self.width * enlarged) as usize, (self.height * enlarged) as usize);
        let setting = scene::paint(&mut canvas, &mut random, &self.materials);
        shape::paint(&mut canvas, &mut random, &self.materials, &setting, self.label(row));
        let rgb = Camera::new(&mut random, enlarged).expose(&canvas.reduced(enlarged as usize), &mut random);
        (rgb, random)
    }
}

/// Exposure, white balance, a lens that darkens the corners, and a sensor that is not free of noise.
struct Camera {
    gain: Colour,
    vignette: f32,
    noise: f32,
}

impl Camera {
    /// A camera whose pictures were taken `enlarged` times as large and averaged down, some of their noise with them.
    fn new(random: &mut Random, enlarged: u32) -> Self {
        let exposure = random.between(0.88, 1.08);
        let gain = [
            exposure * random.between(0.95, 1.05),
            exposure * random.between(0.98, 1.02),
            exposure * random.between(0.94, 1.06),
        ];
        let vignette = random.between(0.05, 0.30);
        // Squared, because most photographs are taken in good light. The least is what it takes for the size that
        // photographs have: about 110 KB at 500×375 and a quality of 90 to 95.
        let noise = (10.0 + 8.0 * random.unit().powi(2)) / (enlarged as f32).sqrt();
        Camera { gain, vignette, noise }
    }

    fn expose(&self, canvas: &Canvas, random: &mut Random) -> Vec<u8> {
        let mut rgb = Vec::with_capacity(canvas.pixels.len() * 3);
        let (cx, cy) = (canvas.width as f32 / 2.0, canvas.height as f32 / 2.0);
        for (y, row) in canvas.pixels.chunks_exact(canvas.width).enumerate() {
            let dy = ((y as f32 - cy) / cy).powi(2);
            for (x, pixel) in row.iter().enumerate() {
                let dx = (x as f32 - cx) / cx;
                let lens = 255.0 * (1.0 - self.vignette * 0.5 * (dx * dx + dy));
                let [luma, r, g, b] = noise(random.bits());
                let grain = |own: f32| self.noise * (luma + 0.4 * own);
                rgb.extend([
                    level(pixel[0] * self.gain[0] * lens + grain(r)),
                    level(pixel[1] * self.gain[1] * lens + grain(g)),
                    level(pixel[2] * self.gain[2] * lens + grain(b)),
                ]);
            }
        }
        rgb
    }
}

/// Four numbers of mean 0 and standard deviation 1, each the sum of two bytes: bell-shaped enough for a sensor.
fn noise(bits: u64) -> [f32; 4] {
    /// Standard deviation of the sum of two uniform bytes.
    const SPREAD: f32 = 104.5;
    const MEAN: f32 = 255.0;
    let bytes = bits.to_le_bytes();
    std::array::from_fn(|i| (f32::from(bytes[2 * i]) + f32::from(bytes[2 * i + 1]) - MEAN) / SPREAD)
}

fn level(value: f32) -> u8 {
    // `as` saturates.
    (value + 0.5) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_a_function_of_seed_and_row() {
        let paint = |seed, row| Artist::new(seed, 64, 48, 10).paint(row).0;
        assert_eq!(paint(3, 5), paint(3, 5));
        assert_ne!(paint(3, 5), paint(3, 6));
        assert_ne!(paint(3, 5), paint(4, 5));
        assert_eq!(paint(3, 5).len(), 64 * 48 * 3);
    }

    #[test]
    fn any_shape_of_picture_can_be_drawn() {
        for (width, height) in [(1, 1), (1, 300), (300, 1), (32, 32), (131, 257)] {
            for row in 0..8 {
                let (rgb, _) = Artist::new(1, width, height, 3).paint(row);
                assert_eq!(rgb.len(), (width * height * 3) as usize);
            }
        }
    }

    #[test]
    fn labels_are_spread_over_the_classes() {
        let artist = Artist::new(9, 8, 8, 4);
        let mut counts = [0; 4];
        for row in 0..4_000 {
            counts[artist.label(row) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}

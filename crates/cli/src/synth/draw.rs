//! Draws one picture: overlapping surfaces, shapes that show its class, and the effects of a camera.
//!
//! There are more small surfaces than large ones, so that those of each size cover the same area. A JPEG
//! decoder then has about the same work as with a photograph. The table gives means and standard deviations
//! over pictures of 500×375 with 4:2:0 and a quality of 90 to 95; a code is a Huffman code:
//!
//! | | Kodak's photographs and five under CC0 | drawn |
//! |---|---:|---:|
//! | bytes of a pixel | 0.35 ± 0.13 | 0.34 ± 0.09 |
//! | coefficients that are zero | 0.72 ± 0.11 | 0.73 ± 0.07 |
//! | codes of a block, without its first | 18.5 ± 6.6 | 17.7 ± 4.6 |
//! | bits of a code and its value | 5.6 ± 0.3 | 5.6 ± 0.3 |
//! | codes of 8 bits or fewer with their value | 0.87 ± 0.03 | 0.87 ± 0.02 |
//! | last coefficient of a luma block that is not zero | 35 ± 12 | 39 ± 11 |

use std::ops::Range;

use super::canvas::Canvas;
use super::colour::{Colour, hsv, mix};
use super::leaf::PaintedLeaf;
use super::material::Tile;
use crate::random::Random;

/// Pictures smaller than this are drawn larger and averaged down, as a camera's optics would.
const MIN_DRAWN_PIXELS: u32 = 128;
/// The range of the radii of surfaces, as a share of the picture's height. Only pictures with much detail
/// have the smallest ones.
const RADII: Range<f32> = 0.012..0.5;
/// How many times the surfaces together cover a picture's area.
const COVER: f32 = 3.0;
/// The contrast of a surface's texture, in pictures with the least and with the most detail.
const CONTRASTS: Range<f32> = 0.02..0.9;
/// The noise of the camera's sensor in good and in bad light, in levels of a channel (0 to 255).
const NOISE: Range<f32> = 0.3..4.0;

/// Draws the pictures of a data set.
pub(super) struct Artist {
    texture: Tile,
    seed: u64,
    width: u32,
    height: u32,
    classes: u32,
}

impl Artist {
    pub(super) fn new(seed: u64, width: u32, height: u32, classes: u32) -> Self {
        Artist { texture: Tile::new(seed), seed, width, height, classes }
    }

    /// The class of row `row`.
    pub(super) fn label(&self, row: u64) -> u32 {
        // Labels have their own random stream, so that they do not depend on how the picture is drawn.
        Random::new(self.seed ^ u64::MAX, row).below(self.classes)
    }

    /// Draws picture `row` as RGB bytes. Also returns the random stream, whose next numbers decide how the
    /// picture is stored.
    pub(super) fn paint(&self, row: u64) -> (Vec<u8>, Random) {
        let mut random = Random::new(self.seed, row);
        let enlarged = MIN_DRAWN_PIXELS.div_ceil(self.width.min(self.height)).max(1);
        let mut canvas = Canvas::new((self.width * enlarged) as usize, (self.height * enlarged) as usize);
        // The amount of detail varies more between pictures than anything else.
        let detail = random.unit();
        self.fill(&mut canvas, &mut random, detail);
        for body in 0..2 + random.below(3) {
            PaintedLeaf::of_class(&canvas, &mut random, self.label(row), body == 0)
                .paint(&mut canvas, &self.texture);
        }
        let rgb = Camera::new(&mut random, enlarged).expose(&canvas.reduced(enlarged as usize), &mut random);
        (rgb, random)
    }

    /// Draws surfaces over a background that fades from top to bottom.
    fn fill(&self, canvas: &mut Canvas, random: &mut Random, detail: f32) {
        let hue = random.unit();
        let mut shade = |value| hsv(hue + random.between(-0.1, 0.1), random.between(0.05, 0.4), value);
        let (sky, ground) = (shade(0.8), shade(0.45));
        let height = canvas.height as f32;
        for y in 0..canvas.height {
            let colour = mix(sky, ground, y as f32 / height);
            canvas.row(y).fill(colour);
        }
        let smallest = height * RADII.start.powf(0.4 + 0.6 * detail);
        let largest = height * RADII.end;
        let contrast = CONTRASTS.start + (CONTRASTS.end - CONTRASTS.start) * detail * detail;
        let mut left = COVER * (canvas.width * canvas.height) as f32;
        while left > 0.0 {
            // Surfaces of each size cover the same area, so there are four times as many of half the size.
            let share = random.unit();
            let radius = (share / smallest.powi(2) + (1.0 - share) / largest.powi(2)).sqrt().recip();
            left -= 2.0 * radius * radius;
            PaintedLeaf::any(canvas, random, radius, hue, contrast).paint(canvas, &self.texture);
        }
    }
}

/// The effects of a camera: exposure, white balance, a lens that darkens the corners, and a sensor with
/// noise.
struct Camera {
    gain: Colour,
    vignette: f32,
    noise: f32,
}

impl Camera {
    /// A camera for pictures that are drawn `enlarged` times as large and then averaged down, which removes
    /// some of their noise.
    fn new(random: &mut Random, enlarged: u32) -> Self {
        let exposure = random.between(0.88, 1.08);
        let gain = [
            exposure * random.between(0.95, 1.05),
            exposure * random.between(0.98, 1.02),
            exposure * random.between(0.94, 1.06),
        ];
        let vignette = random.between(0.05, 0.30);
        // The number is squared because most photographs are taken in good light.
        let noise = NOISE.start + (NOISE.end - NOISE.start) * random.unit().powi(2);
        let noise = noise / (enlarged as f32).sqrt();
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

/// Returns four numbers with mean 0 and standard deviation 1. Each is the sum of two random bytes, which is
/// close enough to a normal distribution for a sensor.
fn noise(bits: u64) -> [f32; 4] {
    /// The standard deviation of the sum of two uniform bytes.
    const SPREAD: f32 = 104.5;
    const MEAN: f32 = 255.0;
    let bytes = bits.to_le_bytes();
    std::array::from_fn(|i| (f32::from(bytes[2 * i]) + f32::from(bytes[2 * i + 1]) - MEAN) / SPREAD)
}

fn level(value: f32) -> u8 {
    // `as` limits the value to 0 to 255.
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

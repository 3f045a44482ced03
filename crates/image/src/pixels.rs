//! Colour conversion and orientation of whole pixels, as Pillow computes them.

use image::metadata::Orientation;

use super::geometry::Rect;
use super::spec::RGB;

/// The number of channels of a CMYK pixel.
pub(super) const CMYK: usize = 4;

/// The luma weights of ITU-R 601 in 1/65536, as in Pillow's `convert("L")`; their sum is 65536.
const LUMA_WEIGHTS: [u32; RGB] = [19_595, 38_470, 7_471];
const LUMA_SHIFT: u32 = 16;

/// Writes the luma of RGB pixels to the front of the same buffer.
pub(super) fn luma_in_place(pixels: &mut [u8], count: usize) {
    for i in 0..count {
        pixels[i] = luma([pixels[i * RGB], pixels[i * RGB + 1], pixels[i * RGB + 2]]);
    }
}

/// The luma of an RGB pixel.
#[inline(always)]
pub(super) fn luma(pixel: [u8; RGB]) -> u8 {
    let [r, g, b] = pixel.map(u32::from);
    let half = 1 << (LUMA_SHIFT - 1);
    let sum = r * LUMA_WEIGHTS[0] + g * LUMA_WEIGHTS[1] + b * LUMA_WEIGHTS[2] + half;
    (sum >> LUMA_SHIFT) as u8
}

/// Writes the luma of pixels with levels of 16 bits, in native byte order, to the front of the same buffer.
pub(super) fn wide_luma_in_place(pixels: &mut [[u8; 2]], count: usize) {
    let half = 1 << (LUMA_SHIFT - 1);
    for i in 0..count {
        let [r, g, b] = [pixels[i * RGB], pixels[i * RGB + 1], pixels[i * RGB + 2]]
            .map(|level| u32::from(u16::from_ne_bytes(level)));
        // The sum of the weights times the largest level, plus half, fits into 32 bits.
        let sum = r * LUMA_WEIGHTS[0] + g * LUMA_WEIGHTS[1] + b * LUMA_WEIGHTS[2] + half;
        pixels[i] = ((sum >> LUMA_SHIFT) as u16).to_ne_bytes();
    }
}

/// Writes the RGB of CMYK pixels to the front of the same buffer. Adobe's programs store them inverted in
/// JPEG (255 means no ink); the conversion is Pillow's, which ignores colour profiles.
pub(super) fn inverted_cmyk_to_rgb_in_place(pixels: &mut [u8], count: usize) {
    for i in 0..count {
        let [c, m, y, k] = [0, 1, 2, 3].map(|channel| 255 - u32::from(pixels[i * CMYK + channel]));
        let light = 255 - k;
        for (channel, ink) in [c, m, y].into_iter().enumerate() {
            pixels[i * RGB + channel] = light.saturating_sub(divided_by_255(ink * light)) as u8;
        }
    }
}

/// Divides a product of two bytes by 255, rounded, like Pillow's `MULDIV255`.
fn divided_by_255(product: u32) -> u32 {
    let rounded = product + 128;
    ((rounded >> 8) + rounded) >> 8
}

/// Converts `count` pixels of `channels` levels to RGB in place: keeps the first three levels of colour, or
/// repeats the level of grey.
pub(super) fn spread<L: Copy>(buffer: &mut [L], count: usize, channels: usize) {
    let copy = |buffer: &mut [L], at: usize| {
        let from = at * channels;
        let pixel = match channels {
            1 | 2 => [buffer[from]; RGB],
            _ => [buffer[from], buffer[from + 1], buffer[from + 2]],
        };
        buffer[at * RGB..(at + 1) * RGB].copy_from_slice(&pixel);
    };
    match channels {
        RGB => {}
        // Pixels of fewer than three levels grow, so the last pixel is converted first. Otherwise pixels
        // would be overwritten before they are read.
        1 | 2 => (0..count).rev().for_each(|at| copy(buffer, at)),
        _ => (0..count).for_each(|at| copy(buffer, at)),
    }
}

/// Whether an orientation exchanges width and height.
pub(super) fn transposes(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

/// Writes the pixels of `from` to `to`, turned into the orientation in which they are shown, and returns
/// their new width and height. `from` has the size of `rect`, is interleaved and has `pixel` bytes a pixel;
/// `to` has the same length.
pub(super) fn orient(
    from: &[u8],
    rect: Rect,
    pixel: usize,
    orientation: Orientation,
    to: &mut [u8],
) -> (u32, u32) {
    let (width, height) = (rect.width as usize, rect.height as usize);
    let turned = if transposes(orientation) { (height, width) } else { (width, height) };
    // Returns the position of the source pixel that the result shows at (x, y).
    let source = |x: usize, y: usize| match orientation {
        Orientation::NoTransforms => (x, y),
        Orientation::FlipHorizontal => (width - 1 - x, y),
        Orientation::Rotate180 => (width - 1 - x, height - 1 - y),
        Orientation::FlipVertical => (x, height - 1 - y),
        Orientation::Rotate90FlipH => (y, x),
        Orientation::Rotate90 => (y, height - 1 - x),
        Orientation::Rotate270FlipH => (width - 1 - y, height - 1 - x),
        Orientation::Rotate270 => (width - 1 - y, x),
    };
    for (y, row) in to.chunks_exact_mut(turned.0 * pixel).enumerate() {
        for (x, to) in row.chunks_exact_mut(pixel).enumerate() {
            let (from_x, from_y) = source(x, y);
            let start = (from_y * width + from_x) * pixel;
            to.copy_from_slice(&from[start..start + pixel]);
        }
    }
    (turned.0 as u32, turned.1 as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_is_its_own_luma_and_colours_have_itu_601_weights() {
        for level in 0..=u8::MAX {
            let mut pixel = [level; RGB];
            luma_in_place(&mut pixel, 1);
            assert_eq!(pixel[0], level);
        }
        let mut pixels = [255, 0, 0, 0, 255, 0, 0, 0, 255];
        luma_in_place(&mut pixels, 3);
        assert_eq!(pixels[..3], [76, 150, 29]);
    }

    #[test]
    fn the_luma_of_sixteen_bits_is_that_of_eight_with_more_of_it() {
        for level in [0, 1, 255, 256, 40_000, u16::MAX] {
            let mut pixel = [level.to_ne_bytes(); RGB];
            wide_luma_in_place(&mut pixel, 1);
            assert_eq!(u16::from_ne_bytes(pixel[0]), level);
        }
        let (none, all) = ([0; 2], u16::MAX.to_ne_bytes());
        let mut pixels = [all, none, none, none, all, none, none, none, all];
        wide_luma_in_place(&mut pixels, 3);
        // The luma of pure red, green and blue is 0.299, 0.587 and 0.114 of white (65,535).
        assert_eq!(
            pixels[..3].iter().map(|level| u16::from_ne_bytes(*level)).collect::<Vec<_>>(),
            [19_595, 38_469, 7_471]
        );
    }

    #[test]
    fn inverted_cmyk_without_ink_is_white_and_with_black_is_black() {
        let mut pixels = [255, 255, 255, 255, 9, 9, 9, 0, 0, 255, 255, 255];
        inverted_cmyk_to_rgb_in_place(&mut pixels, 3);
        assert_eq!(pixels[..9], [255, 255, 255, 0, 0, 0, 0, 255, 255]);
    }

    /// Each entry has one of EXIF's eight orientations, and the stored pixels of an image that is then seen
    /// as `1 2 3 / 4 5 6`.
    #[test]
    fn all_eight_orientations_are_seen_alike() {
        let seen = [1, 2, 3, 4, 5, 6];
        let stored: [(u8, u32, [u8; 6]); 8] = [
            (1, 3, [1, 2, 3, 4, 5, 6]),
            (2, 3, [3, 2, 1, 6, 5, 4]),
            (3, 3, [6, 5, 4, 3, 2, 1]),
            (4, 3, [4, 5, 6, 1, 2, 3]),
            (5, 2, [1, 4, 2, 5, 3, 6]),
            (6, 2, [3, 6, 2, 5, 1, 4]),
            (7, 2, [6, 3, 5, 2, 4, 1]),
            (8, 2, [4, 1, 5, 2, 6, 3]),
        ];
        for (exif, width, pixels) in stored {
            let orientation = Orientation::from_exif(exif).unwrap();
            let mut to = [0; 6];
            let size = orient(&pixels, Rect::whole(width, 6 / width), 1, orientation, &mut to);
            assert_eq!((size, to), ((3, 2), seen), "orientation {exif}");
        }
    }
}

//! Changes the sharpness of interleaved 8-bit pixels: torchvision's `adjust_sharpness`.

use super::super::spec::Size;

/// The weight of the pixel itself in a blurred pixel; each of its eight neighbours has the weight 1.
const MIDDLE: u32 = 5;
/// The sum of all weights.
const SUM: u32 = MIDDLE + 8;

/// Moves pixels away from their blurred form if the factor is above 1, and towards it if it is below. Pixels
/// at the borders are not changed. `still` is a buffer for a copy of the pixels.
pub(super) fn sharpen(pixels: &mut [u8], size: Size, channels: usize, factor: f64, still: &mut Vec<u8>) {
    let (width, height) = (size.width as usize, size.height as usize);
    if width <= 2 || height <= 2 {
        return;
    }
    still.clear();
    still.extend_from_slice(pixels);
    let row = width * channels;
    let rest = (1.0 - factor) as f32;
    for number in 1..height - 1 {
        let [above, middle, below] = [number - 1, number, number + 1].map(|at| &still[at * row..][..row]);
        let to = &mut pixels[number * row + channels..][..row - 2 * channels];
        for (at, to) in to.iter_mut().enumerate() {
            let across = |row: &[u8]| {
                u32::from(row[at]) + u32::from(row[at + channels]) + u32::from(row[at + 2 * channels])
            };
            let value = u32::from(middle[at + channels]);
            let sum = across(above) + across(middle) + across(below) + (MIDDLE - 1) * value;
            let (value, blurred) = (value as f32, ((sum + SUM / 2) / SUM) as f32);
            // `as` limits the value to 0 to 255.
            *to = (value + rest * (blurred - value)) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_moves_away_from_its_neighbours() {
        let size = Size { height: 3, width: 3 };
        let after = |factor| {
            let mut pixels = [13, 13, 13, 13, 26, 13, 13, 13, 13];
            sharpen(&mut pixels, size, 1, factor, &mut Vec::new());
            assert!(pixels.iter().enumerate().all(|(at, level)| at == 4 || *level == 13));
            pixels[4]
        };
        // The blurred form of the bright pixel is (8 * 13 + 5 * 26) / 13 = 18.
        assert_eq!([0.0, 1.0, 2.0, 0.5].map(after), [18, 26, 34, 22]);
        let mut small = [1, 2, 3, 4];
        sharpen(&mut small, Size { height: 2, width: 2 }, 1, 0.0, &mut Vec::new());
        assert_eq!(small, [1, 2, 3, 4]);
    }
}

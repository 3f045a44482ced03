//! Operations that replace each level of a channel by another one: invert, posterize, solarize, autocontrast
//! and equalize, by torchvision's formulas.

use super::super::spec::{LUMA, RGB};

/// The number of levels of an 8-bit channel.
const LEVELS: usize = 256;
/// The largest level.
const WHITE: u8 = 255;

/// A table with the new level for each old level.
type Table = [u8; LEVELS];
/// A histogram: the number of pixels with each level.
type Histogram = [u32; LEVELS];

pub(super) fn invert(pixels: &mut [u8]) {
    pixels.iter_mut().for_each(|level| *level = WHITE - *level);
}

/// Keeps the highest bits of each level.
pub(super) fn posterize(pixels: &mut [u8], bits: u8) {
    let mask = WHITE.checked_shl(u8::BITS - u32::from(bits).min(u8::BITS)).unwrap_or_default();
    pixels.iter_mut().for_each(|level| *level &= mask);
}

/// Inverts levels that are at least the threshold. The threshold is rounded to a 32-bit float as in
/// torchvision, so 17.0000009 inverts level 17.
pub(super) fn solarize(pixels: &mut [u8], threshold: f64) {
    let first = threshold as f32;
    let is_inverted = |level: u8| f32::from(level) >= first;
    pixels.iter_mut().for_each(|level| *level = if is_inverted(*level) { WHITE - *level } else { *level });
}

/// Stretches the levels of each channel to the whole range.
pub(super) fn autocontrast(pixels: &mut [u8], channels: usize) {
    by_channel(pixels, channels, |histogram| {
        let least = histogram.iter().position(|count| *count > 0)?;
        let most = histogram.iter().rposition(|count| *count > 0).filter(|most| *most > least)?;
        let scale = (most - least) as f32 * (1.0 / f32::from(WHITE));
        // `as` limits the value to 0 to 255.
        Some(std::array::from_fn(|level| ((level as f32 - least as f32) / scale) as u8))
    });
}

/// Equalizes the histogram of each channel, as Pillow does.
pub(super) fn equalize(pixels: &mut [u8], channels: usize) {
    by_channel(pixels, channels, |histogram| {
        let pixels: u32 = histogram.iter().sum();
        let most = histogram.iter().rfind(|count| **count > 0)?;
        let step = Some((pixels - most) / u32::from(WHITE)).filter(|step| *step > 0)?;
        let mut below = step / 2;
        Some(histogram.map(|count| {
            let level = below / step;
            below += count;
            level.min(u32::from(WHITE)) as u8
        }))
    });
}

/// Makes a table from the histogram of each channel, and replaces the channel's levels by it. If `table`
/// returns `None`, the channel is left unchanged.
fn by_channel(pixels: &mut [u8], channels: usize, table: impl Fn(&Histogram) -> Option<Table>) {
    match channels {
        LUMA => by_channels::<LUMA>(pixels, table),
        _ => by_channels::<RGB>(pixels, table),
    }
}

fn by_channels<const CHANNELS: usize>(pixels: &mut [u8], table: impl Fn(&Histogram) -> Option<Table>) {
    let (pixels, _) = pixels.as_chunks_mut::<CHANNELS>();
    let mut histograms = [[0; LEVELS]; CHANNELS];
    for pixel in pixels.iter() {
        histograms.iter_mut().zip(pixel).for_each(|(histogram, level)| histogram[usize::from(*level)] += 1);
    }
    let same: Table = std::array::from_fn(|level| level as u8);
    let tables = histograms.map(|histogram| table(&histogram).unwrap_or(same));
    for pixel in pixels {
        pixel.iter_mut().zip(&tables).for_each(|(level, table)| *level = table[usize::from(*level)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(change: impl Fn(&mut [u8])) -> [u8; 12] {
        let mut pixels = [200, 30, 90, 10, 250, 128, 77, 77, 77, 0, 0, 255];
        change(&mut pixels);
        pixels
    }

    #[test]
    fn levels_change_as_in_torchvision() {
        assert_eq!(after(invert), [55, 225, 165, 245, 5, 127, 178, 178, 178, 255, 255, 0]);
        assert_eq!(after(|p| posterize(p, 2)), [192, 0, 64, 0, 192, 128, 64, 64, 64, 0, 0, 192]);
        assert_eq!(after(|p| posterize(p, 0)), [0; 12]);
        assert_eq!(after(|p| posterize(p, 8)), after(|_| ()));
        assert_eq!(after(|p| solarize(p, 127.5)), [55, 30, 90, 10, 5, 127, 77, 77, 77, 0, 0, 0]);
        assert_eq!(after(|p| autocontrast(p, RGB)), [254, 30, 18, 12, 254, 73, 98, 78, 0, 0, 0, 255]);
        assert_eq!(after(|p| autocontrast(p, LUMA)), after(|_| ()));
    }

    #[test]
    fn equal_levels_stay() {
        for change in [autocontrast, equalize] {
            let mut flat = [77; 12];
            change(&mut flat, RGB);
            assert_eq!(flat, [77; 12]);
            change(&mut [], RGB);
        }
    }

    #[test]
    fn an_equalized_histogram_is_flat() {
        let mut pixels: Vec<u8> = (0..65_536u32).map(|at| ((at / 256).pow(2) / 300) as u8).collect();
        equalize(&mut pixels, LUMA);
        for quarter in 0..4u8 {
            let count = pixels.iter().filter(|level| **level / 64 == quarter).count();
            assert!((14_000..19_000).contains(&count), "{count}");
        }
    }
}

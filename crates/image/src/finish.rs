//! The last step: flips, normalises and converts pixels of the target size, and writes them into the slot.
//!
//! A channel of 8 bits has 256 values, so normalising and rounding are a single look-up, which is exact in
//! every number type and needs no branch or division per pixel. A channel of 16 bits is computed.

use half::{bf16, f16};

use super::depth::{Depth, WIDENING};
use super::geometry::Mirror;
use super::pixel_type::{Layout, PixelType};
use super::spec::{Image, LUMA, Normalize, RGB, Size};

/// The number of levels of an 8-bit channel.
const LEVELS: usize = 256;
/// The largest 8-bit value, which is 1.0 in floats.
const WHITE: f32 = 255.0;
/// The largest 16-bit value, which is 1.0 in floats.
const WIDE_WHITE: f32 = 65_535.0;

/// The bytes of a grey pixel of 8 bits.
const GREY: usize = LUMA * Depth::Eight.bytes();
const WIDE_GREY: usize = LUMA * Depth::Sixteen.bytes();
const COLOUR: usize = RGB * Depth::Eight.bytes();
const WIDE_COLOUR: usize = RGB * Depth::Sixteen.bytes();

/// The result for each stored level, per channel.
#[derive(Default)]
pub(super) struct ValueTable {
    made_for: Option<(PixelType, Option<Normalize>)>,
    values: FinishValues,
}

enum FinishValues {
    U16(Box<[[u16; LEVELS]; RGB]>),
    U32(Box<[[u32; LEVELS]; RGB]>),
}

impl Default for FinishValues {
    fn default() -> Self {
        FinishValues::U16(Box::new([[0; LEVELS]; RGB]))
    }
}

impl ValueTable {
    /// The results for `image`, which are computed if the last image on this thread had other ones.
    fn values(&mut self, image: &Image) -> &FinishValues {
        let wanted = (image.pixel_type(), image.normalize);
        if self.made_for != Some(wanted) {
            let normal = |channel, level: u16| normalized(wanted.1, channel, f32::from(level) / WHITE);
            self.values = match image.pixel_type() {
                PixelType::U16 => FinishValues::U16(table(|_, level| level * WIDENING)),
                PixelType::BF16 => {
                    FinishValues::U16(table(|c, level| bf16::from_f32(normal(c, level)).to_bits()))
                }
                PixelType::F16 => {
                    FinishValues::U16(table(|c, level| f16::from_f32(normal(c, level)).to_bits()))
                }
                PixelType::F32 | PixelType::U8 => {
                    FinishValues::U32(table(|c, level| normal(c, level).to_bits()))
                }
            };
            self.made_for = Some(wanted);
        }
        &self.values
    }
}

fn table<T: Copy + Default>(bits: impl Fn(usize, u16) -> T) -> Box<[[T; LEVELS]; RGB]> {
    let mut table = Box::new([[T::default(); LEVELS]; RGB]);
    for (channel, values) in table.iter_mut().enumerate() {
        values.iter_mut().zip(0..).for_each(|(value, level)| *value = bits(channel, level));
    }
    table
}

/// Converts a level between 0 and 1 to its delivered value.
fn normalized(normalize: Option<Normalize>, channel: usize, unit: f32) -> f32 {
    match normalize {
        Some(Normalize { mean, std }) => (unit - mean[channel]) / std[channel],
        None => unit,
    }
}

/// Whether pixels at the target size already are the content of the slot, except for flips.
pub(super) fn is_plain(image: &Image) -> bool {
    image.pixel_type() == PixelType::U8 && (image.pixel_layout() == Layout::Nhwc || image.channels() == LUMA)
}

/// Mirrors interleaved pixels of this many bytes, in place.
pub(super) fn mirror_in_place(mirror: Mirror, pixels: &mut [u8], size: Size, pixel: usize) {
    let row = size.width as usize * pixel;
    if mirror.down {
        let (upper, lower) = pixels.split_at_mut(size.height as usize / 2 * row);
        let (upper, lower) = (upper.chunks_exact_mut(row), lower.chunks_exact_mut(row).rev());
        upper.zip(lower).for_each(|(upper, lower)| upper.swap_with_slice(lower));
    }
    if !mirror.across {
        return;
    }
    for row in pixels.chunks_exact_mut(row) {
        match pixel {
            GREY => row.reverse(),
            WIDE_GREY => row.as_chunks_mut::<WIDE_GREY>().0.reverse(),
            WIDE_COLOUR => row.as_chunks_mut::<WIDE_COLOUR>().0.reverse(),
            _ => row.as_chunks_mut::<COLOUR>().0.reverse(),
        }
    }
}

/// Writes interleaved pixels at the target size, whose levels have this depth, into the slot.
pub(super) fn finish(
    image: &Image,
    (pixels, depth): (&[u8], Depth),
    mirror: Mirror,
    table: &mut ValueTable,
    slot: &mut [u8],
) {
    let out =
        FinishPass { size: image.size(), channels: image.channels(), layout: image.pixel_layout(), mirror };
    if depth == Depth::Sixteen {
        return out.write_wide(image, pixels, slot);
    }
    if image.pixel_type() == PixelType::U8 {
        return out.write(pixels, slot, |_, level| [level]);
    }
    match table.values(image) {
        FinishValues::U16(values) => {
            out.write(pixels, slot, |channel, level| values[channel][usize::from(level)].to_ne_bytes());
        }
        FinishValues::U32(values) => {
            out.write(pixels, slot, |channel, level| values[channel][usize::from(level)].to_ne_bytes());
        }
    }
}

struct FinishPass {
    size: Size,
    channels: usize,
    layout: Layout,
    mirror: Mirror,
}

impl FinishPass {
    /// Writes like [`finish`](Self::finish), from levels of 16 bits.
    fn write_wide(&self, image: &Image, pixels: &[u8], slot: &mut [u8]) {
        let (pixels, _) = pixels.as_chunks::<{ Depth::Sixteen.bytes() }>();
        let normal = |channel, level: [u8; 2]| {
            let unit = f32::from(u16::from_ne_bytes(level)) / WIDE_WHITE;
            normalized(image.normalize, channel, unit)
        };
        match image.pixel_type() {
            PixelType::U8 => {
                self.write(pixels, slot, |_, level| [(u16::from_ne_bytes(level) >> u8::BITS) as u8])
            }
            PixelType::U16 => self.write(pixels, slot, |_, level| level),
            PixelType::F16 => {
                self.write(pixels, slot, |c, level| f16::from_f32(normal(c, level)).to_ne_bytes())
            }
            PixelType::BF16 => {
                self.write(pixels, slot, |c, level| bf16::from_f32(normal(c, level)).to_ne_bytes());
            }
            PixelType::F32 => self.write(pixels, slot, |c, level| normal(c, level).to_ne_bytes()),
        }
    }

    fn write<L: Copy, const BYTES: usize>(
        &self,
        pixels: &[L],
        slot: &mut [u8],
        value: impl Fn(usize, L) -> [u8; BYTES],
    ) {
        let (slot, _) = slot.as_chunks_mut::<BYTES>();
        match (self.channels, self.layout) {
            (LUMA, _) => self.write_planes::<L, LUMA, BYTES>(pixels, slot, value),
            (_, Layout::Nchw) => self.write_planes::<L, RGB, BYTES>(pixels, slot, value),
            (_, Layout::Nhwc) => self.write_pixels(pixels, slot, value),
        }
    }

    /// The pixels from which a row of the slot is made.
    fn row<'a, P>(&self, pixels: &'a [P], row: usize) -> &'a [P] {
        let (width, height) = (self.size.width as usize, self.size.height as usize);
        let from = if self.mirror.down { height - 1 - row } else { row };
        &pixels[from * width..(from + 1) * width]
    }

    fn write_pixels<L: Copy, const BYTES: usize>(
        &self,
        pixels: &[L],
        slot: &mut [[u8; BYTES]],
        value: impl Fn(usize, L) -> [u8; BYTES],
    ) {
        let width = self.size.width as usize;
        let (pixels, _) = pixels.as_chunks::<RGB>();
        let (slot, _) = slot.as_chunks_mut::<RGB>();
        let convert = |pixel: &[L; RGB]| [value(0, pixel[0]), value(1, pixel[1]), value(2, pixel[2])];
        for (row, to) in slot.chunks_exact_mut(width).enumerate() {
            let from = self.row(pixels, row);
            if self.mirror.across {
                to.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = convert(from));
            } else {
                to.iter_mut().zip(from).for_each(|(to, from)| *to = convert(from));
            }
        }
    }

    fn write_planes<L: Copy, const CHANNELS: usize, const BYTES: usize>(
        &self,
        pixels: &[L],
        slot: &mut [[u8; BYTES]],
        value: impl Fn(usize, L) -> [u8; BYTES],
    ) {
        let (width, height) = (self.size.width as usize, self.size.height as usize);
        let (pixels, _) = pixels.as_chunks::<CHANNELS>();
        for (channel, plane) in slot.chunks_exact_mut(width * height).enumerate() {
            for (row, to) in plane.chunks_exact_mut(width).enumerate() {
                let from = self.row(pixels, row);
                if self.mirror.across {
                    let from = from.iter().rev();
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = value(channel, from[channel]));
                } else {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = value(channel, from[channel]));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of three pixels, with a different value in each channel.
    const PIXELS: [u8; 18] = [0, 1, 2, 10, 11, 12, 20, 21, 22, 100, 101, 102, 110, 111, 112, 253, 254, 255];

    const ACROSS: Mirror = Mirror { across: true, down: false };

    fn finished(image: &Image, across: bool) -> Vec<u8> {
        mirrored(image, Mirror { across, down: false })
    }

    fn mirrored(image: &Image, mirror: Mirror) -> Vec<u8> {
        let mut slot = vec![0; image.bytes_per_image()];
        let pixels = &PIXELS[..image.channels() * 6];
        finish(image, (pixels, Depth::Eight), mirror, &mut ValueTable::default(), &mut slot);
        slot
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|four| f32::from_ne_bytes(*four)).collect()
    }

    #[test]
    fn planes_are_the_channels_in_turn() {
        let image = Image::resize(2, 3).layout(Layout::Nchw);
        assert_eq!(finished(&image, false)[..6], [0, 10, 20, 100, 110, 253]);
        assert_eq!(finished(&image, true)[..6], [20, 10, 0, 253, 110, 100]);
        assert_eq!(finished(&image, false)[12..], [2, 12, 22, 102, 112, 255]);
    }

    #[test]
    fn a_flip_keeps_the_channels_of_a_pixel_together() {
        let mut pixels = PIXELS;
        mirror_in_place(ACROSS, &mut pixels, Size { height: 2, width: 3 }, RGB);
        assert_eq!(pixels[..9], [20, 21, 22, 10, 11, 12, 0, 1, 2]);
        let mut grey = [1, 2, 3, 4, 5, 6];
        mirror_in_place(ACROSS, &mut grey, Size { height: 2, width: 3 }, LUMA);
        assert_eq!(grey, [3, 2, 1, 6, 5, 4]);
    }

    #[test]
    fn a_vertical_flip_exchanges_rows() {
        let both = Mirror { across: true, down: true };
        let down = Mirror { across: false, down: true };
        for height in [2, 3] {
            let mut grey: Vec<u8> = (0..height * 2).collect();
            mirror_in_place(down, &mut grey, Size { height: height.into(), width: 2 }, LUMA);
            assert_eq!(grey[..2], [height * 2 - 2, height * 2 - 1]);
            mirror_in_place(both, &mut grey, Size { height: height.into(), width: 2 }, LUMA);
            assert_eq!(grey[..2], [1, 0]);
        }
        let planes = Image::resize(2, 3).layout(Layout::Nchw);
        assert_eq!(mirrored(&planes, down)[..6], [100, 110, 253, 0, 10, 20]);
        assert_eq!(mirrored(&planes, both)[..6], [253, 110, 100, 20, 10, 0]);
        let floats_of = Image::resize(2, 3).dtype(PixelType::F32);
        assert_eq!(floats(&mirrored(&floats_of, both))[0], 253.0 / 255.0);
    }

    #[test]
    fn floats_without_normalize_are_those_of_to_tensor() {
        let image = Image::resize(2, 3).dtype(PixelType::F32);
        assert_eq!(floats(&finished(&image, false)), PIXELS.map(|x| f32::from(x) / 255.0));
    }

    #[test]
    fn normalized_floats_are_torchvisions_to_the_bit() {
        let (mean, std) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
        let image = Image::resize(2, 3).dtype(PixelType::F32).normalize(mean, std);
        let expected: Vec<f32> = PIXELS
            .iter()
            .enumerate()
            .map(|(i, x)| (f32::from(*x) / 255.0 - mean[i % 3]) / std[i % 3])
            .collect();
        assert_eq!(floats(&finished(&image, false)), expected);
    }

    #[test]
    fn halves_are_the_rounded_floats() {
        for (dtype, bits) in [
            (PixelType::F16, (|x| f16::from_f32(x).to_bits()) as fn(f32) -> u16),
            (PixelType::BF16, |x| bf16::from_f32(x).to_bits()),
        ] {
            let slot = finished(&Image::resize(2, 3).dtype(dtype), false);
            let halves: Vec<u16> = slot.as_chunks().0.iter().map(|two| u16::from_ne_bytes(*two)).collect();
            assert_eq!(halves, PIXELS.map(|x| bits(f32::from(x) / 255.0)));
        }
    }

    #[test]
    fn levels_of_sixteen_bits_are_delivered_in_every_type_as_eight_are() {
        let wide: Vec<u8> =
            PIXELS.iter().flat_map(|level| (u16::from(*level) * WIDENING).to_ne_bytes()).collect();
        let both = Mirror { across: true, down: true };
        let image = Image::resize(2, 3);
        for dtype in PixelType::ALL {
            let normal = image.clone().normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
            let image = if dtype.largest_whole().is_some() { &image } else { &normal };
            for image in Layout::ALL.map(|layout| image.clone().dtype(dtype).layout(layout)) {
                for image in [image.clone(), image.grayscale()] {
                    let mut slot = vec![0; image.bytes_per_image()];
                    let pixels = &wide[..image.channels() * 12];
                    finish(&image, (pixels, Depth::Sixteen), both, &mut ValueTable::default(), &mut slot);
                    assert_eq!(slot, mirrored(&image, both), "{image}");
                }
            }
        }
    }

    #[test]
    fn pixels_of_sixteen_bits_are_mirrored_whole() {
        let size = Size { height: 1, width: 2 };
        for (pixel, mirrored) in [
            (WIDE_GREY, [3, 4, 1, 2].to_vec()),
            (WIDE_COLOUR, [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6].to_vec()),
        ] {
            let mut pixels: Vec<u8> = (1..).take(2 * pixel).collect();
            mirror_in_place(ACROSS, &mut pixels, size, pixel);
            assert_eq!(pixels, mirrored);
        }
    }

    #[test]
    fn a_table_is_made_anew_for_another_image() {
        let mut table = ValueTable::default();
        let mut slot = vec![0; 72];
        let plain = Image::resize(2, 3).dtype(PixelType::F32);
        finish(
            &plain.clone().normalize([0.5; 3], [0.5; 3]),
            (&PIXELS, Depth::Eight),
            Mirror::default(),
            &mut table,
            &mut slot,
        );
        assert_eq!(floats(&slot)[0], -1.0);
        finish(&plain, (&PIXELS, Depth::Eight), Mirror::default(), &mut table, &mut slot);
        assert_eq!(floats(&slot)[0], 0.0);
    }
}

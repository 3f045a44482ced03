//! Tests that each delivered value equals that of the formula, in whichever way it is computed.

use half::{bf16, f16};
use proptest::prelude::*;

use super::super::depth::WIDENING;
use super::super::pixel_type::PixelType;
use super::super::spec::Normalize;
use super::registers::Registers;
use super::*;

/// Two rows of three pixels, with a different value in each channel.
const PIXELS: [u8; 18] = [0, 1, 2, 10, 11, 12, 20, 21, 22, 100, 101, 102, 110, 111, 112, 253, 254, 255];

const ACROSS: Mirror = Mirror { across: true, down: false };

fn finished(image: &Image, across: bool) -> Vec<u8> {
    mirrored(image, Mirror { across, down: false })
}

fn mirrored(image: &Image, mirror: Mirror) -> Vec<u8> {
    let mut slot = vec![0; image.bytes_per_image()];
    let mut pixels = PIXELS[..image.channels() * 6].to_vec();
    mirror_in_place(mirror, &mut pixels, image.size(), image.channels());
    Finisher::default().finish(image, 0, &pixels, Depth::Eight, &mut slot);
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
    let expected: Vec<f32> =
        PIXELS.iter().enumerate().map(|(i, x)| (f32::from(*x) / 255.0 - mean[i % 3]) / std[i % 3]).collect();
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
                let mut pixels = wide[..image.channels() * 12].to_vec();
                mirror_in_place(both, &mut pixels, image.size(), image.channels() * 2);
                Finisher::default().finish(&image, 0, &pixels, Depth::Sixteen, &mut slot);
                assert_eq!(slot, mirrored(&image, both), "{image}");
            }
        }
    }
}

#[test]
fn pixels_of_sixteen_bits_are_mirrored_whole() {
    let size = Size { height: 1, width: 2 };
    for (pixel, mirrored) in
        [(WIDE_GREY, [3, 4, 1, 2].to_vec()), (WIDE_COLOUR, [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6].to_vec())]
    {
        let mut pixels: Vec<u8> = (1..).take(2 * pixel).collect();
        mirror_in_place(ACROSS, &mut pixels, size, pixel);
        assert_eq!(pixels, mirrored);
    }
}

#[test]
fn a_table_is_made_anew_for_another_image() {
    let mut finisher = Finisher::default();
    let mut slot = vec![0; 72];
    let plain = Image::resize(2, 3).dtype(PixelType::F32);
    let normal = plain.clone().normalize([0.5; 3], [0.5; 3]);
    finisher.finish(&normal, 0, &PIXELS, Depth::Eight, &mut slot);
    assert_eq!(floats(&slot)[0], -1.0);
    finisher.finish(&plain, 0, &PIXELS, Depth::Eight, &mut slot);
    assert_eq!(floats(&slot)[0], 0.0);
}

#[test]
fn registers_are_used_for_usual_constants() {
    let usual = [
        None,
        Some(([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])),
        Some(([0.5; 3], [0.5; 3])),
        Some(([0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_6, 0.275_777_1])),
    ];
    for normalize in usual.map(|both| both.map(|(mean, std)| Normalize { mean, std })) {
        for (pixel_type, layout, channels) in kinds() {
            let key = FinishKey { pixel_type, normalize, layout, channels };
            let table = ValueTable::new(key);
            assert!(Registers::all(&key).all(|registers| table.is_given_by(&registers)), "{key:?}");
        }
    }
}

/// The table is used if the standard deviation is so small that its inverse overflows a float.
#[test]
fn constants_that_registers_round_otherwise_are_looked_up() {
    let normalize = Some(Normalize { mean: [0.0; 3], std: [1e-42; 3] });
    let key = FinishKey { pixel_type: PixelType::F32, normalize, layout: Layout::Nhwc, channels: RGB };
    let table = ValueTable::new(key);
    assert!(!Registers::all(&key).any(|registers| table.is_given_by(&registers)));
}

fn kinds() -> impl Iterator<Item = (PixelType, Layout, usize)> {
    let all = PixelType::ALL.into_iter().flat_map(|dtype| Layout::ALL.map(|layout| (dtype, layout)));
    all.flat_map(|(dtype, layout)| [LUMA, RGB].map(|channels| (dtype, layout, channels)))
}

/// Writes levels to a slot, from the number of the first pixel and the number of pixels of the image.
type WriteLevels<'a> = &'a dyn Fn(usize, usize, &[u8], &mut [u8]);

proptest! {
    /// The slot is filled in two parts. The cut between them is random, so it is seldom at a pixel at which a
    /// vector instruction begins.
    #[test]
    fn registers_write_what_the_table_has(
        mean in prop::array::uniform3(0.0f32..1.0),
        std in prop::array::uniform3(0.01f32..2.0),
        levels in prop::collection::vec(any::<u8>(), 3..900),
        cut in 0usize..300,
    ) {
        for (pixel_type, layout, channels) in kinds() {
            let key = FinishKey { pixel_type, normalize: Some(Normalize { mean, std }), layout, channels };
            let table = ValueTable::new(key);
            let count = levels.len() / channels;
            let (levels, cut) = (&levels[..count * channels], cut.min(count));
            let (before, after) = levels.split_at(cut * channels);
            let mut expected = vec![0; levels.len() * pixel_type.bytes()];
            table.look_up(0, count, levels, &mut expected);
            let parts = |write: WriteLevels<'_>| {
                let mut slot = vec![0; expected.len()];
                write(cut, count, after, &mut slot);
                write(0, count, before, &mut slot);
                slot
            };
            prop_assert_eq!(&parts(&|first, count, levels, slot| table.write(first, count, levels, slot)), &expected);
            for registers in Registers::all(&key).filter(|registers| table.is_given_by(registers)) {
                let found = parts(&|first, count, levels, slot| {
                    let done = registers.write(first, count, levels, slot);
                    assert!(done <= levels.len() && levels.len() - done < 48);
                    table.look_up(first + done / channels, count, &levels[done..], slot);
                });
                prop_assert_eq!(&found, &expected, "{:?}", key);
            }
        }
    }
}

//! Tests that decoding a crop gives the same pixels as decoding the whole image, for every chroma
//! subsampling, crop and reduction.

use forebay_base::{ErrorKind, Result};

use super::decoder::{BYTES_PER_COLUMN, Decoder, bytes_of, needed};
use super::entropy::{EntropyDecoder, Facts, Request};
use super::ffi::{Info, Stored};
use super::markers::{Markers, SOS};
use super::region::ReducedRegion;
use super::*;
use crate::buffer::Buffer;
use crate::decode::{View, decode_views};
use crate::draws::{Draws, RowKey};
use crate::frame::{Frame, FrameOf};
use crate::geometry::{Rect, Sampling};
use crate::resample::reduced;
use crate::scratch::Scratch;
use crate::shown::Shown;
use crate::spec::{Image, RGB, Resampling, Size};
use crate::workspace::Workspace;

const WIDTH: u32 = 203;
const HEIGHT: u32 = 151;

/// Pixels with smooth colour, edges and noise, so that every step of decoding affects the result.
fn pixels() -> Vec<u8> {
    let mut draws = Draws::new(RowKey(5));
    let mut pixels = Vec::new();
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let edge = if (x / 13 + y / 7) % 2 == 0 { 60 } else { 0 };
            let noise = draws.below(40);
            pixels.extend([x + edge, y + noise, (x + y) / 2 + edge].map(|level| level.min(255) as u8));
        }
    }
    pixels
}

fn jpegs() -> Vec<Vec<u8>> {
    let pixels = pixels();
    (0..ffi::CHROMA_SAMPLINGS)
        .map(|sampling| [ffi::quality(90), ffi::chroma_sampling(sampling)])
        .map(|settings| ffi::compress(&pixels, WIDTH, HEIGHT, &settings).unwrap())
        .collect()
}

/// Decodes like [`Decoder::decode_into`], with memory of its own.
fn decode_alone(
    image: &Image,
    encoded: &[u8],
    frame_of: &FrameOf<'_>,
    slot: &mut [u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let Scratch { decoder, stages } = scratch;
    let shown = Shown::new(image, frame_of, slot);
    decoder.decode_into(image, encoded, &mut [shown], stages, &Workspace::of_one(image.max_pixels))
}

fn decoded(
    encoded: &[u8],
    channels: usize,
    part: impl Fn(&Info) -> ReducedRegion,
) -> (ReducedRegion, Vec<u8>) {
    let mut decoder = Decoder::default();
    let mut pixels = Buffer::default();
    let markers = Markers::read(encoded).unwrap();
    let opened = decoder.open(encoded, &markers, 1 << 20).unwrap();
    let part = part(&opened.info());
    let out = pixels.take(bytes_of(&opened.info(), &part, channels));
    if !decoder.decode_own(&opened, &part, &markers, channels, out) {
        decoder.decode_with_library(opened, &part, &markers, channels, out).unwrap();
    }
    let bytes = part.rect.width as usize * part.rect.height as usize * channels;
    (part, pixels.get(bytes).to_vec())
}

/// Cuts the pixels of `rect` out of the pixels of the larger region `part`.
fn cut(pixels: &[u8], part: &ReducedRegion, rect: Rect, channels: usize) -> Vec<u8> {
    let stride = part.rect.width as usize * channels;
    let left = (rect.x - part.rect.x) as usize * channels;
    (rect.y..rect.y + rect.height)
        .flat_map(|y| {
            let start = (y - part.rect.y) as usize * stride + left;
            &pixels[start..start + rect.width as usize * channels]
        })
        .copied()
        .collect()
}

/// A sampling of the crop `view`, and a target size for which the crop is decoded at exactly 1/`reduction` of
/// its scale.
fn sampling(view: Rect, reduction: u32) -> (Sampling, Size) {
    let (width, height) = (f64::from(view.width), f64::from(view.height));
    let target = match reduction {
        1 => Size { height: view.height, width: view.width },
        _ => {
            Size { height: 1.max(view.height / (4 * reduction)), width: 1.max(view.width / (4 * reduction)) }
        }
    };
    let (left, top) = (f64::from(view.x), f64::from(view.y));
    (Sampling { left, top, width, height, view, resampling: Resampling::Bilinear }, target)
}

/// A frame that shows `sampling` in the size `target`.
fn frame(sampling: Sampling, target: Size) -> Frame {
    Frame { sampling, target, ..Frame::draw(&Image::resize(1, 1), WIDTH, HEIGHT, RowKey(0)) }
}

/// A single view that shows the whole image is decoded directly into its slot, while two views are made from
/// a buffer.
#[test]
fn pixels_are_the_same_with_and_without_a_buffer() {
    let whole = || Image::resize(HEIGHT, WIDTH);
    let ragged = Image::fit(2 * WIDTH.max(HEIGHT)).ragged();
    for encoded in jpegs() {
        for image in
            [whole(), whole().grayscale(), ragged.clone(), whole().flip_with(1.0), whole().random_invert(1.0)]
        {
            let [mut alone, mut first, mut second] = [(); 3].map(|()| vec![0; image.bytes_per_image()]);
            let workspace = Workspace::of_one(image.max_pixels);
            let view = |slot| View::new(&image, RowKey(1), slot);
            decode_views(&workspace, &encoded, &mut [view(&mut alone)]).unwrap();
            let view = |slot| View::new(&image, RowKey(1), slot);
            decode_views(&workspace, &encoded, &mut [view(&mut first), view(&mut second)]).unwrap();
            assert!(alone == first && alone == second, "{image}");
        }
    }
}

#[test]
fn a_crop_has_the_pixels_of_the_whole() {
    let mut draws = Draws::new(RowKey(11));
    for (encoded, reduction) in jpegs().iter().flat_map(|encoded| [1, 2, 4, 8].map(|r| (encoded, r))) {
        let all = Rect::whole(WIDTH, HEIGHT);
        let (wide, target) = sampling(all, reduction);
        let (whole, expected) =
            decoded(encoded, RGB, |info| ReducedRegion::covering(info, &[frame(wide, target)]));
        for _ in 0..60 {
            let least = 8 * reduction;
            let width = least.min(WIDTH) + draws.below(WIDTH - least.min(WIDTH) + 1);
            let height = least.min(HEIGHT) + draws.below(HEIGHT - least.min(HEIGHT) + 1);
            let view = Rect {
                x: draws.below(WIDTH - width + 1),
                y: draws.below(HEIGHT - height + 1),
                width,
                height,
            };
            let (box_of, target) = sampling(view, reduction);
            let (part, pixels) =
                decoded(encoded, RGB, |info| ReducedRegion::covering(info, &[frame(box_of, target)]));
            if part.reduction != whole.reduction {
                continue;
            }
            let seen = reduced(view, part.reduction);
            assert!(
                cut(&pixels, &part, seen, RGB) == cut(&expected, &whole, seen, RGB),
                "{view:?} reduced by {reduction}: {part:?}"
            );
        }
    }
}

#[test]
fn reductions_are_taken_where_enough_is_left() {
    let encoded = &jpegs()[2];
    for (target, reduction) in [(60, 1), (26, 1), (25, 2), (13, 2), (12, 4), (6, 8)] {
        let view = Rect::whole(WIDTH, HEIGHT);
        let (sampling, _) = sampling(view, 1);
        let size = Size { height: target, width: target };
        let (part, _) = decoded(encoded, RGB, |info| ReducedRegion::covering(info, &[frame(sampling, size)]));
        assert_eq!(part.reduction, reduction, "to {target}");
    }
}

#[test]
fn only_the_needed_columns_and_rows_are_decoded() {
    let view = Rect { x: 100, y: 70, width: 20, height: 10 };
    let (sampling, target) = sampling(view, 1);
    let (part, _) =
        decoded(&jpegs()[2], RGB, |info| ReducedRegion::covering(info, &[frame(sampling, target)]));
    assert_eq!(part.rect, Rect { x: 96, y: 70, width: 26, height: 10 });
}

#[test]
fn several_frames_need_what_is_around_them_at_the_largest_scale() {
    let info =
        Info { width: WIDTH, height: HEIGHT, stored: Stored::Colour, mcu_width: Some(16), sequential: true };
    let of = |frames: &[Frame]| ReducedRegion::covering(&info, frames);
    let view = |x, y| Rect { x, y, width: 48, height: 48 };
    let small = |x, y| frame(sampling(view(x, y), 1).0, Size { height: 6, width: 6 });
    let (left, right) = (of(&[small(0, 0)]), of(&[small(150, 100)]));
    let both = of(&[small(0, 0), small(150, 100)]);
    assert_eq!((left.reduction, both.reduction), (2, 2));
    assert_eq!(both.rect, left.rect.around(right.rect));
    let (sharp, target) = sampling(view(60, 60), 1);
    assert_eq!(of(&[small(0, 0), frame(sharp, target)]).reduction, 1);
}

#[test]
fn luma_of_a_grey_jpeg_is_its_only_channel() {
    let grey = &jpegs()[3];
    let (part, rgb) = decoded(grey, RGB, ReducedRegion::whole);
    let (_, luma) = decoded(grey, 1, ReducedRegion::whole);
    assert_eq!(part.rect, Rect::whole(WIDTH, HEIGHT));
    assert!(rgb.chunks_exact(3).zip(&luma).all(|(rgb, luma)| rgb == [*luma; 3]));
}

#[test]
fn a_damaged_image_leaves_the_decoder_fit_for_the_next() {
    let encoded = &jpegs()[2];
    let image = Image::resize(20, 20);
    let mut slot = vec![0; image.bytes_per_image()];
    let mut scratch = Scratch::default();
    let mut decode = |bytes: &[u8]| {
        decode_alone(&image, bytes, &|w, h| Frame::draw(&image, w, h, RowKey(0)), &mut slot, &mut scratch)
            .map(|()| slot.clone())
    };
    let expected = decode(encoded).unwrap();
    for length in 3..encoded.len() - 1 {
        if length % 97 == 0 {
            assert_eq!(decode(&encoded[..length]).unwrap_err().kind(), ErrorKind::BadRow, "cut at {length}");
        }
    }
    assert!(decode(encoded).unwrap() == expected);
}

/// Returns `encoded` without the segments whose marker is `kind`.
fn without(encoded: &[u8], kind: u8) -> Vec<u8> {
    let scan = Markers::read(encoded).unwrap().scan;
    let mut rest = encoded[..2].to_vec();
    let mut at = 2;
    while at < scan {
        let segment = markers::segment(encoded, at).unwrap();
        if segment.marker != kind {
            rest.extend(&encoded[at..segment.end]);
        }
        at = segment.end;
    }
    rest.extend(&encoded[scan..]);
    rest
}

#[test]
fn no_image_depends_on_the_one_before() {
    use turbojpeg_sys::TJPARAM_TJPARAM_OPTIMIZE as OPTIMIZE;
    const DQT: u8 = 0xDB;
    const DHT: u8 = 0xC4;
    let settings = [ffi::quality(70), ffi::chroma_sampling(2), (OPTIMIZE, 1)];
    let before = ffi::compress(&pixels(), WIDTH, HEIGHT, &settings).unwrap();
    let image = Image::resize(HEIGHT, WIDTH);
    let mut scratch = Scratch::default();
    let mut decode = |bytes: &[u8]| {
        let mut slot = vec![0; image.bytes_per_image()];
        let frame_of = |w, h| Frame::draw(&image, w, h, RowKey(0));
        decode_alone(&image, bytes, &frame_of, &mut slot, &mut scratch).map(|()| slot)
    };
    for encoded in jpegs() {
        decode(&before).unwrap();
        assert!(decode(&without(&encoded, DQT)).unwrap_err().cause().contains("uantization table"));
        decode(&before).unwrap();
        // A file without Huffman tables of its own, like the frames of motion JPEG, uses the standard tables.
        assert!(decode(&without(&encoded, DHT)).unwrap() == decode(&encoded).unwrap());
    }
}

/// Some cameras write chroma sampling factors with a common divisor, such as 2 for all three components.
#[test]
fn sampling_factors_that_could_be_halved_do_not_upset_crops() {
    let mut encoded =
        ffi::compress(&pixels(), WIDTH, HEIGHT, &[ffi::quality(90), ffi::chroma_sampling(0)]).unwrap();
    let frame = encoded.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    let grey = jpegs().swap_remove(3);
    assert_eq!(Markers::read(&grey).unwrap().mcu_width(), 8);
    assert_eq!(Markers::read(&encoded).unwrap().mcu_width(), 8);
    for component in 0..3 {
        encoded[frame + 11 + 3 * component] = 0x21;
    }
    let image = Image::random_resized_crop(40);
    let mut slot = vec![0; image.bytes_per_image()];
    for key in 0..50 {
        let frame_of = |w, h| Frame::draw(&image, w, h, RowKey(key));
        match decode_alone(&image, &encoded, &frame_of, &mut slot, &mut Scratch::default()) {
            Ok(()) => {}
            // The scan was written for MCUs (groups of blocks) of half the width, so decoding may reach its
            // end early.
            Err(error) => assert!(!error.cause().contains("mismatch"), "{error}"),
        }
    }
}

#[test]
fn what_a_decode_takes_is_its_part_and_all_coefficients_of_several_scans() {
    let progressive = (turbojpeg_sys::TJPARAM_TJPARAM_PROGRESSIVE, 1);
    let coefficients = |sampling| {
        let settings = [ffi::quality(90), ffi::chroma_sampling(sampling), progressive];
        let encoded = ffi::compress(&pixels(), WIDTH, HEIGHT, &settings).unwrap();
        let markers = Markers::read(&encoded).unwrap();
        assert!(!markers.one_scan());
        let opened = Decoder::default().open(&encoded, &markers, 1 << 20).unwrap();
        let info = opened.info();
        let one_scan = u64::from(WIDTH * HEIGHT) * 3 + u64::from(WIDTH) * BYTES_PER_COLUMN;
        needed(&info, &ReducedRegion::whole(&info), markers.coefficients(), RGB) - one_scan
    };
    // Each of three channels has 26 x 19 blocks of 64 coefficients of two bytes. With 4:2:0 there are 13 x 10
    // MCUs (groups of blocks) of six blocks.
    assert_eq!(coefficients(0), 26 * 19 * 128 * 3);
    assert_eq!(coefficients(2), 13 * 10 * 128 * 6);
}

#[test]
fn what_comes_after_the_end_is_ignored() {
    let mut encoded = jpegs().swap_remove(2);
    let (_, expected) = decoded(&encoded, RGB, ReducedRegion::whole);
    encoded.extend([0, 0xFF, 7]);
    let (_, padded) = decoded(&encoded, RGB, ReducedRegion::whole);
    assert!(padded == expected);
}

#[test]
fn padding_before_the_end_is_harmless() {
    let encoded = jpegs().swap_remove(2);
    let image = Image::resize(HEIGHT, WIDTH);
    let (_, expected) = decoded(&encoded, RGB, ReducedRegion::whole);
    let mut padded = encoded[..encoded.len() - 2].to_vec();
    padded.extend([0x11; 40]);
    padded.extend([0xFF, 0xD9]);
    let mut slot = vec![0; image.bytes_per_image()];
    decode_alone(
        &image,
        &padded,
        &|w, h| Frame::draw(&image, w, h, RowKey(0)),
        &mut slot,
        &mut Scratch::default(),
    )
    .unwrap();
    assert!(slot == expected);
}

#[test]
fn stray_bytes_in_the_header_are_harmless_and_a_cut_behind_them_is_not() {
    let encoded = jpegs().swap_remove(2);
    let image = Image::resize(HEIGHT, WIDTH);
    let (_, expected) = decoded(&encoded, RGB, ReducedRegion::whole);
    let stray = [&encoded[..2], &[1, 2, 3], &encoded[2..]].concat();
    assert!(stray[..2] == [0xFF, 0xD8]);
    let mut slot = vec![0; image.bytes_per_image()];
    decode_alone(
        &image,
        &stray,
        &|w, h| Frame::draw(&image, w, h, RowKey(0)),
        &mut slot,
        &mut Scratch::default(),
    )
    .unwrap();
    assert!(slot == expected);
    let half = [&stray[..stray.len() / 2], &[0xFF, 0xD9]].concat();
    let error = decode_alone(
        &image,
        &half,
        &|w, h| Frame::draw(&image, w, h, RowKey(0)),
        &mut slot,
        &mut Scratch::default(),
    )
    .unwrap_err();
    assert_eq!(error.cause(), "corrupt JPEG: premature end of data segment");
}

/// Decodes the whole image without changing its size.
fn decoded_whole(encoded: &[u8]) -> Result<Vec<u8>> {
    let image = Image::resize(HEIGHT, WIDTH);
    let mut slot = vec![0; image.bytes_per_image()];
    let frame_of = |w, h| Frame::draw(&image, w, h, RowKey(0));
    decode_alone(&image, encoded, &frame_of, &mut slot, &mut Scratch::default()).map(|()| slot)
}

/// The offsets of the data of all scans.
fn scans(encoded: &[u8]) -> Vec<usize> {
    let mut scans = Vec::new();
    let mut at = 0;
    while let Some(segment) = markers::segment(encoded, at) {
        at = segment.end;
        if segment.marker == SOS {
            scans.push(at);
        }
    }
    scans
}

/// Returns `encoded` with other values at the end of each scan header: the first and last coefficient of the
/// scan, and its numbers of bits.
fn with_scan_headers(encoded: &[u8], values: [u8; 3]) -> Vec<u8> {
    let mut changed = encoded.to_vec();
    for scan in scans(encoded) {
        changed[scan - values.len()..scan].copy_from_slice(&values);
    }
    changed
}

/// Returns a baseline JPEG with one scan for each of its three components.
fn with_a_scan_for_each_component(encoded: &[u8]) -> Vec<u8> {
    let request = Request { encoded, memory: 1 << 26, reduction: 1, colours: RGB };
    let facts = Facts { width: WIDTH, height: HEIGHT, channels: RGB as u8, orientation: 1, mcu_width: None };
    let mut entropy = EntropyDecoder::default();
    let packed = entropy.pack_baseline(request, facts).unwrap().bytes;
    entropy.unpack(Request { encoded: &packed, ..request }, true, &[]).unwrap()
}

#[test]
fn scan_headers_of_a_sequential_image_may_name_any_coefficients() {
    const VALUES: [[u8; 3]; 6] =
        [[0, 0, 0], [1, 63, 0], [0, 63, 1], [0, 63, 0x10], [0, 62, 0], [63, 0, 0xFF]];
    let arithmetic = (turbojpeg_sys::TJPARAM_TJPARAM_ARITHMETIC, 1);
    let settings = [ffi::quality(90), ffi::chroma_sampling(2), arithmetic];
    let mut files = jpegs();
    files.push(with_a_scan_for_each_component(&files[2]));
    files.push(ffi::compress(&pixels(), WIDTH, HEIGHT, &settings).unwrap());
    for encoded in files {
        let expected = decoded_whole(&encoded).unwrap();
        for values in VALUES {
            let odd = with_scan_headers(&encoded, values);
            assert!(odd != encoded && decoded_whole(&odd).unwrap() == expected, "{values:?}");
        }
    }
}

#[test]
fn a_cut_behind_an_odd_scan_header_is_found() {
    let mut files = jpegs();
    files.push(with_a_scan_for_each_component(&files[2]));
    for encoded in files {
        let odd = with_scan_headers(&encoded, [0, 0, 0]);
        for scan in scans(&odd) {
            let cut = [&odd[..scan + (odd.len() - scan) / 9], &[0xFF, 0xD9]].concat();
            let error = decoded_whole(&cut).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadRow, "cut after {scan}");
        }
    }
}

#[test]
fn a_progressive_image_with_the_frame_header_of_another_kind_is_refused() {
    let progressive = (turbojpeg_sys::TJPARAM_TJPARAM_PROGRESSIVE, 1);
    for sampling in 0..ffi::CHROMA_SAMPLINGS {
        let settings = [ffi::quality(90), ffi::chroma_sampling(sampling), progressive];
        let mut encoded = ffi::compress(&pixels(), WIDTH, HEIGHT, &settings).unwrap();
        let frame = encoded.windows(2).position(|pair| pair == [0xFF, 0xC2]).unwrap();
        for marker in [0xC0, 0xC1] {
            encoded[frame + 1] = marker;
            let error = decoded_whole(&encoded).map(|_| ()).unwrap_err();
            assert_eq!(error.cause(), "corrupt JPEG: invalid SOS parameters for sequential JPEG");
        }
    }
}

#[test]
fn a_damaged_colour_profile_is_harmless() {
    let encoded = jpegs().swap_remove(2);
    let profile = |number: u8, count: u8| {
        let content = [&b"ICC_PROFILE\0"[..], &[number, count], &[7; 20]].concat();
        [&[0xFF, 0xE2, 0, 2 + content.len() as u8], &content[..]].concat()
    };
    let frame = encoded.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    let expected = decoded_whole(&encoded).unwrap();
    for (number, count) in [(0, 1), (1, 2), (3, 2)] {
        let odd = [&encoded[..frame], &profile(1, 1), &profile(number, count), &encoded[frame..]].concat();
        assert!(decoded_whole(&odd).unwrap() == expected, "segment {number} of {count}");
    }
}

//! Tests that this decoder's pixels equal those of libjpeg-turbo, and that it declines each file that
//! libjpeg-turbo refuses.

use turbojpeg_sys as tj;

use super::super::ffi::{self, Decompressor, Samples, Setting};
use super::super::markers::Markers;
use super::*;
use crate::RowKey;
use crate::draws::Draws;

const MEMORY: u32 = 64;
const SCANS: u32 = 12;
const FACTS: Facts = Facts { width: 9, height: 7, channels: 3, orientation: 1, mcu_width: None };
const REDUCTIONS: [u32; 4] = [1, 2, 4, 8];

/// The number of rounds of a random test: `few`, or `many` with `FOREBAY_LONG=1`.
fn rounds(few: usize, many: usize) -> usize {
    if std::env::var_os("FOREBAY_LONG").is_some_and(|long| long == "1") { many } else { few }
}

/// A picture that exercises all parts of a decoder: it has flat areas, slopes, edges and noise.
fn picture(width: u32, height: u32, draws: &mut Draws) -> Vec<u8> {
    let noise = 1 + draws.below(200);
    let flat = draws.below(60);
    let mut pixels = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let edge = if (x / 13 + y / 7) % 2 == 0 { 60 } else { 0 };
        let noise = if x < flat { 0 } else { draws.below(noise) };
        pixels.extend([x + edge, y + noise, (x + y) / 2 + edge + noise].map(|level| level.min(255) as u8));
    }
    pixels
}

/// A JPEG of random size, quality and chroma sampling, which may be progressive. Some have restart markers,
/// and some have Huffman tables of their own.
fn jpeg(progressive: bool, draws: &mut Draws) -> Vec<u8> {
    coded(progressive, false, draws)
}

/// A JPEG like those of [`jpeg`], which may have arithmetic codes instead of Huffman codes.
fn coded(progressive: bool, arithmetic: bool, draws: &mut Draws) -> Vec<u8> {
    let [width, height] = [(); 2].map(|()| 1 + draws.below(150));
    let restarts = [tj::TJPARAM_TJPARAM_RESTARTBLOCKS, tj::TJPARAM_TJPARAM_RESTARTROWS];
    let settings: [Setting; 6] = [
        (tj::TJPARAM_TJPARAM_PROGRESSIVE, progressive.into()),
        (tj::TJPARAM_TJPARAM_ARITHMETIC, arithmetic.into()),
        ffi::quality(1 + draws.below(100) as u8),
        ffi::chroma_sampling(draws.below(6) as i32),
        (tj::TJPARAM_TJPARAM_OPTIMIZE, draws.below(2) as i32),
        (restarts[draws.below(2) as usize], draws.below(3) as i32),
    ];
    ffi::compress(&picture(width, height, draws), width, height, &settings).unwrap()
}

/// A random part of the image to decode: the reduction, the region, the samples of a pixel, and the bytes
/// that all pixels take.
fn part(encoded: &[u8], draws: &mut Draws) -> Option<(u32, Option<Region>, Samples, usize)> {
    let info = Decompressor::new(SCANS, MEMORY).unwrap().open(encoded).ok()?.info();
    let reduction = REDUCTIONS[draws.below(4) as usize];
    let [width, height] = [info.width, info.height].map(|pixels| pixels.div_ceil(reduction));
    let mcu_width =
        info.mcu_width.filter(|mcu_width| *mcu_width == Markers::read(encoded).map_or(0, |m| m.mcu_width()));
    let region = mcu_width.filter(|_| draws.below(3) > 0).map(|mcu_width| {
        let step = mcu_width.max(reduction) / reduction;
        let x = draws.below(width) / step * step;
        let y = draws.below(height);
        Region { x, y, width: 1 + draws.below(width - x), height: 1 + draws.below(height - y) }
    });
    let samples = match info.stored {
        ffi::Stored::Luma => Samples::Luma,
        _ => Samples::Rgb,
    };
    let (width, height) = region.map_or((width, height), |region| (region.width, region.height));
    Some((reduction, region, samples, width as usize * height as usize * samples.per_pixel()))
}

/// Decodes a random part in three ways: with this crate's decoder, from packed coefficients, and with
/// libjpeg-turbo. A way that declines the file gives `None`.
fn all(decoder: &mut EntropyDecoder, encoded: &[u8], draws: &mut Draws) -> [Option<Vec<u8>>; 3] {
    let own_tables = Markers::read(encoded).is_some_and(|markers| match markers.progressive {
        true => markers.has_its_quantization(),
        false => markers.has_its_tables(),
    });
    let Some((reduction, region, samples, bytes)) = part(encoded, draws).filter(|_| own_tables) else {
        return [None, None, None];
    };
    let [mut ours, mut kept, mut theirs] = [1, 2, 3].map(|byte| vec![byte; bytes]);
    let memory = (MEMORY as usize) << 20;
    let request = Request { encoded, memory, reduction, colours: samples.per_pixel() };
    let scans = SCANS as usize;
    let progressive = Markers::read(encoded).is_some_and(|markers| markers.progressive);
    let decoded = match progressive {
        true => decoder.progressive(request, scans, region, &mut ours),
        false => decoder.baseline(request, region, &mut ours),
    };
    let packed = match progressive {
        true => decoder.pack_progressive(request, scans, FACTS),
        false => decoder.pack_baseline(request, FACTS),
    };
    let unpacked =
        packed.map(|packed| decoder.packed(Request { encoded: &packed.bytes, ..request }, region, &mut kept));
    assert_ne!(unpacked, Some(false), "what was packed is sound");
    let library = Decompressor::new(SCANS, MEMORY).unwrap().open(encoded);
    let library = library.and_then(|opened| opened.decompress(reduction, region, samples, &mut theirs));
    [decoded.then_some(ours), unpacked.map(|_| kept), library.is_ok().then_some(theirs)]
}

/// Whether this round of a random test uses a progressive image.
fn is_progressive(round: usize) -> bool {
    round % 2 == 1
}

#[test]
fn pixels_are_those_of_the_library() {
    let mut draws = Draws::new(RowKey(1));
    let mut decoder = EntropyDecoder::default();
    for round in 0..rounds(3_000, 200_000) {
        let encoded = jpeg(is_progressive(round), &mut draws);
        let [ours, kept, theirs] = all(&mut decoder, &encoded, &mut draws);
        assert!(ours.is_some(), "declined in round {round}");
        assert!(ours == theirs, "other pixels in round {round}");
        assert!(kept == theirs, "other pixels of packed coefficients in round {round}");
    }
}

#[test]
fn what_the_library_refuses_is_declined() {
    let mut draws = Draws::new(RowKey(2));
    let mut decoder = EntropyDecoder::default();
    let [mut decoded, mut declined] = [0; 2];
    for round in 0..rounds(12_000, 2_000_000) {
        let mut encoded = jpeg(is_progressive(round), &mut draws);
        damage(&mut encoded, &mut draws);
        let [ours, kept, theirs] = all(&mut decoder, &encoded, &mut draws);
        match (&ours, &theirs) {
            (Some(_), _) => decoded += 1,
            (None, None) => declined += 1,
            (None, Some(_)) => {}
        }
        assert!(ours.is_none() || ours == theirs, "round {round}");
        // Packing reads the whole file, so it may fail on damage below a crop that is decoded.
        assert!(kept.is_none() || kept == theirs, "packed in round {round}");
    }
    assert!(decoded > 0 && declined > 0, "{decoded} decoded, {declined} declined by both");
}

#[test]
fn an_image_with_its_own_tables_does_not_disturb_the_next() {
    let mut draws = Draws::new(RowKey(3));
    let mut decoder = EntropyDecoder::default();
    let settings: [Setting; 3] =
        [ffi::quality(90), ffi::chroma_sampling(2), (tj::TJPARAM_TJPARAM_OPTIMIZE, 1)];
    let own: Vec<_> =
        (0..12).map(|_| ffi::compress(&picture(90, 70, &mut draws), 90, 70, &settings).unwrap()).collect();
    for _ in 0..40 {
        let encoded = &own[draws.below(12) as usize];
        let [ours, _, theirs] = all(&mut decoder, encoded, &mut draws);
        assert!(ours.is_some() && ours == theirs);
    }
}

#[test]
fn a_buffer_of_another_size_is_declined() {
    let encoded = jpeg(false, &mut Draws::new(RowKey(5)));
    let request = Request { encoded: &encoded, memory: 1 << 26, reduction: 1, colours: 3 };
    assert!(!EntropyDecoder::default().baseline(request, None, &mut [0; 5]));
    let beyond = Region { x: 0, y: 0, width: 4000, height: 4000 };
    assert!(!EntropyDecoder::default().baseline(request, Some(beyond), &mut vec![0; 48_000_000]));
}

#[test]
fn damaged_coefficients_are_read_or_declined() {
    let mut draws = Draws::new(RowKey(6));
    let mut decoder = EntropyDecoder::default();
    let [mut read, mut declined] = [0; 2];
    for round in 0..rounds(8_000, 1_000_000) {
        let encoded = jpeg(is_progressive(round), &mut draws);
        let Some((reduction, region, samples, bytes)) = part(&encoded, &mut draws) else { continue };
        let memory = (MEMORY as usize) << 20;
        let request = Request { encoded: &encoded, memory, reduction, colours: samples.per_pixel() };
        let mut packed = match is_progressive(round) {
            true => decoder.pack_progressive(request, SCANS as usize, FACTS).unwrap().bytes,
            false => decoder.pack_baseline(request, FACTS).unwrap().bytes,
        };
        for _ in 0..=draws.below(3) {
            // Half of the damage is within the first 400 bytes, where the header is; the other half may be
            // anywhere.
            let within = if draws.below(2) == 0 { packed.len() } else { packed.len().min(400) };
            let at = draws.below(within as u32) as usize;
            match draws.below(4) {
                0 => packed.truncate(at + 1),
                1 => packed[at] = 0xFF,
                _ => packed[at] ^= 1 << draws.below(8),
            }
        }
        let mut out = vec![0; bytes];
        match decoder.packed(Request { encoded: &packed, ..request }, region, &mut out) {
            true => read += 1,
            false => declined += 1,
        }
    }
    assert!(read > 0 && declined > 0, "{read} read, {declined} declined");
}

/// Damages a file: changes bits and bytes, inserts and removes bytes, or cuts off the end.
fn damage(encoded: &mut Vec<u8>, draws: &mut Draws) {
    for _ in 0..=draws.below(3) {
        let at = draws.below(encoded.len() as u32) as usize;
        match draws.below(5) {
            0 => encoded.truncate(at + 1),
            1 => encoded.insert(at, draws.below(256) as u8),
            2 => encoded[at] = 0xFF,
            3 => drop(encoded.remove(at)),
            _ => encoded[at] ^= 1 << draws.below(8),
        }
        if encoded.is_empty() {
            break;
        }
    }
}

/// Decodes the whole image in two ways: from packed coefficients that libjpeg-turbo has read, and with
/// libjpeg-turbo alone. A way that declines the file gives `None`.
fn others(decoder: &mut EntropyDecoder, encoded: &[u8]) -> [Option<Vec<u8>>; 2] {
    let open = || Decompressor::new(SCANS, MEMORY).unwrap().open(encoded);
    let own_tables = Markers::read(encoded)
        .is_some_and(|markers| markers.has_its_quantization() && !markers.redefines_quantization(encoded));
    let Some(info) = open().ok().map(|opened| opened.info()).filter(|_| own_tables) else {
        return [None, None];
    };
    let samples = if info.stored == ffi::Stored::Luma { Samples::Luma } else { Samples::Rgb };
    let bytes = info.width as usize * info.height as usize * samples.per_pixel();
    let [mut kept, mut theirs] = [1, 2].map(|byte| vec![byte; bytes]);
    let request =
        Request { encoded, memory: (MEMORY as usize) << 20, reduction: 1, colours: samples.per_pixel() };
    let packed = decoder.pack_other(request, FACTS);
    let unpacked =
        packed.map(|packed| decoder.packed(Request { encoded: &packed.bytes, ..request }, None, &mut kept));
    assert_ne!(unpacked, Some(false), "what was packed is sound");
    let library = open().and_then(|opened| opened.decompress(1, None, samples, &mut theirs));
    [unpacked.map(|_| kept), library.is_ok().then_some(theirs)]
}

#[test]
fn arithmetic_images_are_packed_with_the_pixels_of_the_library() {
    let mut draws = Draws::new(RowKey(7));
    let mut decoder = EntropyDecoder::default();
    for round in 0..rounds(600, 40_000) {
        let encoded = coded(is_progressive(round), round % 5 != 4, &mut draws);
        let [kept, theirs] = others(&mut decoder, &encoded);
        assert!(kept.is_some(), "declined in round {round}");
        assert!(kept == theirs, "other pixels in round {round}");
    }
}

#[test]
fn what_the_library_refuses_of_other_kinds_is_not_packed() {
    let mut draws = Draws::new(RowKey(8));
    let mut decoder = EntropyDecoder::default();
    let [mut packed, mut declined] = [0; 2];
    for round in 0..rounds(3_000, 400_000) {
        let mut encoded = coded(is_progressive(round), round % 5 != 4, &mut draws);
        damage(&mut encoded, &mut draws);
        let [kept, theirs] = others(&mut decoder, &encoded);
        match (&kept, &theirs) {
            (Some(_), _) => packed += 1,
            (None, None) => declined += 1,
            (None, Some(_)) => {}
        }
        assert!(kept.is_none() || kept == theirs, "round {round}");
    }
    assert!(packed > 0 && declined > 0, "{packed} packed, {declined} declined by both");
}

#[test]
fn a_jpeg_that_is_written_has_the_same_coefficients() {
    let mut draws = Draws::new(RowKey(9));
    let mut decoder = EntropyDecoder::default();
    for round in 0..rounds(1_000, 100_000) {
        let encoded = jpeg(is_progressive(round), &mut draws);
        let memory = (MEMORY as usize) << 20;
        let request = Request { encoded: &encoded, memory, reduction: 1, colours: 3 };
        let packed = match is_progressive(round) {
            true => decoder.pack_progressive(request, SCANS as usize, FACTS).unwrap(),
            false => decoder.pack_baseline(request, FACTS).unwrap(),
        };
        assert!(packed.fits_baseline, "round {round}");
        let of_packed = Request { encoded: &packed.bytes, ..request };
        let written = decoder.unpack(of_packed, false, &[]).unwrap();
        let again = decoder.pack_baseline(Request { encoded: &written, ..request }, FACTS).unwrap();
        // Coefficients, tables, chroma sampling, size and colour space are unchanged.
        assert!(again.bytes == packed.bytes, "round {round}");
        let [ours, _, theirs] = all(&mut decoder, &written, &mut draws);
        assert!(ours.is_some() && ours == theirs, "round {round}");
        // The file is also written with a scan for each component. Then it has no blocks outside the image; a
        // file with one scan may have some.
        let mut apart = |packed: &[u8]| {
            let file = decoder.unpack(Request { encoded: packed, ..request }, true, &[]).unwrap();
            decoder.pack_other(Request { encoded: &file, ..request }, FACTS).unwrap().bytes
        };
        let once = apart(&packed.bytes);
        assert!(apart(&once) == once, "round {round}");
    }
}

//! Tests that the rows of pixels made by this crate equal those of libjpeg-turbo.

use super::super::Request;
use super::super::library::Library;
use super::*;
use crate::RowKey;
use crate::draws::Draws;
use crate::jpeg::ffi;

/// The bits of a coefficient's index that are kept, so that the index is that of one of the four lowest
/// frequencies across and down.
const LOWEST: usize = 0b011_011;

/// Every combination of a transform and a colour conversion that this processor can run.
fn ways() -> Vec<Functions> {
    let with = |transform| {
        let reduced = transform::reduced();
        colours::all().filter_map(move |colours| Some(Functions { transform, reduced: reduced?, colours }))
    };
    transform::all().flat_map(with).collect()
}

/// Fills a block with random coefficients of every size, also larger than encoders write. Some blocks have
/// only DC, or little more.
fn fill(draws: &mut Draws, block: &mut Block) {
    let most = 1 << (1 + draws.below(16));
    *block = [0; 64];
    let mut value = || (draws.below(2 * most) as i32 - most as i32) as i16;
    block[0] = value();
    let lowest = value() % 2 == 0;
    for _ in 0..[0, 1, 8, 64][value().unsigned_abs() as usize % 4] {
        let at = value().unsigned_abs() as usize % 64;
        block[if lowest { at & LOWEST } else { at }] = value();
    }
}

fn decoded(
    library: &mut Library,
    request: Request<'_>,
    functions: Option<Functions>,
    region: Region,
    seed: u64,
) -> Vec<u8> {
    let mut out = vec![0; region.width as usize * region.height as usize * request.colours];
    let mut draws = Draws::new(RowKey(seed));
    let scan = library.start(request).expect("a scan");
    let fill = |blocks: Option<&mut [&mut Block]>| {
        blocks.unwrap_or_default().iter_mut().for_each(|block| fill(&mut draws, block));
    };
    assert!(scan.read_with(functions, Some(region), fill, &mut out));
    out
}

/// Gives a JPEG quantisation steps of 16 bits, which are larger than those that encoders write.
fn with_large_steps(encoded: &[u8], draws: &mut Draws) -> Vec<u8> {
    const NARROW: [u8; 4] = [0xFF, 0xDB, 0, 67];
    const WIDE: [u8; 4] = [0xFF, 0xDB, 0, 131];
    let (mut large, mut rest) = (Vec::new(), encoded);
    while let Some(at) = rest.windows(NARROW.len()).position(|bytes| bytes == NARROW) {
        let (before, table) = rest.split_at(at);
        large.extend_from_slice(before);
        large.extend(WIDE);
        large.push(0x10 | table[NARROW.len()]);
        large.extend((0..64).flat_map(|_| ((1 + draws.below(u16::MAX.into())) as u16).to_be_bytes()));
        rest = &table[NARROW.len() + 1 + 64..];
    }
    large.extend_from_slice(rest);
    large
}

#[test]
fn pixels_are_those_of_the_library_for_any_coefficients() {
    let (mut draws, mut library) = (Draws::new(RowKey(3)), Library::new().expect("a decompressor"));
    let (mut whole, mut reduced) = (0, 0);
    for seed in 0..1600 {
        let reduction = 1 << [0, 0, 0, 1, 2, 3][draws.below(6) as usize];
        // Some images are wider than the number of pixels that any colour conversion handles at a time.
        let most = if draws.below(4) == 0 { 1200 } else { 190 };
        let (width, height) = (1 + draws.below(most * reduction), 1 + draws.below(70 * reduction));
        let rgb = vec![0; width as usize * height as usize * 3];
        let sampling = draws.below(ffi::CHROMA_SAMPLINGS as u32) as i32;
        let settings = [ffi::quality(1 + draws.below(100) as u8), ffi::chroma_sampling(sampling)];
        let mut encoded = ffi::compress(&rgb, width, height, &settings).expect("a JPEG");
        if draws.below(8) == 0 {
            encoded = with_large_steps(&encoded, &mut draws);
        }
        let colours = if draws.below(4) == 0 { 1 } else { 3 };
        let request = Request { encoded: &encoded, memory: 1 << 26, reduction, colours };
        let (width, height) = (width.div_ceil(reduction), height.div_ceil(reduction));
        let (x, y) = (draws.below(width) / (32 / reduction) * (32 / reduction), draws.below(height));
        let region = Region { x, y, width: 1 + draws.below(width - x), height: 1 + draws.below(height - y) };
        let expected = decoded(&mut library, request, None, region, seed);
        for (way, functions) in ways().into_iter().enumerate() {
            let place = format!("{region:?} of {width}x{height}, {sampling}, reduced by {reduction}");
            let scan = library.start(request).expect("a scan");
            let ours = usize::from(RegionRows::new(&scan, region, functions).is_some());
            if reduction == 1 {
                whole += ours
            } else {
                reduced += ours
            }
            drop(scan);
            let found = decoded(&mut library, request, Some(functions), region, seed);
            assert!(found == expected, "way {way}, round {seed}: {place}");
        }
    }
    let ways = ways().len();
    assert!(
        ways == 0 || whole > 250 * ways && reduced > 120 * ways,
        "{whole} and {reduced} without the library"
    );
}

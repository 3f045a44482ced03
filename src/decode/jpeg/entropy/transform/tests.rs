//! Our transform must give the pixels of the library's.

use super::super::Request;
use super::super::library::{Block, Library, Transform};
use crate::decode::draws::Draws;
use crate::decode::jpeg::ffi::Region;
use crate::decode::{RowKey, encode_jpeg};

/// The bits of the place of a coefficient that is among the first four in both directions.
const LOWEST: usize = 0b011_011;

/// The ways that this machine has.
fn ways() -> Vec<(&'static str, Transform)> {
    #[cfg(target_arch = "x86_64")]
    let ways = [("AVX2", super::avx2::transform()), ("AVX-512", super::avx512::transform())];
    #[cfg(not(target_arch = "x86_64"))]
    let ways: [(&str, Option<Transform>); 0] = [];
    ways.into_iter().filter_map(|(name, way)| Some((name, way?))).collect()
}

/// Coefficients of every size, up to those that no encoder writes, and blocks that are flat or nearly so.
fn fill(draws: &mut Draws, block: &mut Block) {
    let most = 1 << (1 + draws.below(16));
    let mut value = || (draws.below(2 * most) as i32 - most as i32) as i16;
    block[0] = value();
    let lowest = value() % 2 == 0;
    for _ in 0..[0, 1, 8, 64][value().unsigned_abs() as usize % 4] {
        let at = value().unsigned_abs() as usize % 64;
        block[if lowest { at & LOWEST } else { at }] = value();
    }
}

fn decoded(
    (library, request): (&mut Library, Request<'_>),
    transform: Option<Transform>,
    (region, seed): (Region, u64),
) -> Vec<u8> {
    let mut out = vec![0; region.width as usize * region.height as usize * request.colours];
    let mut draws = Draws::new(RowKey(seed));
    let scan = library.start(request).expect("a scan");
    let fill = |blocks: Option<&mut [&mut Block]>| {
        blocks.unwrap_or_default().iter_mut().for_each(|block| fill(&mut draws, block));
    };
    assert!(scan.read_with(transform, Some(region), fill, &mut out));
    out
}

#[test]
fn pixels_are_those_of_the_library_for_any_coefficients() {
    let (mut draws, mut library) = (Draws::new(RowKey(3)), Library::new().expect("a decompressor"));
    for seed in 0..600 {
        let (width, height) = (1 + draws.below(90), 1 + draws.below(70));
        let rgb = vec![0; width as usize * height as usize * 3];
        let encoded = encode_jpeg(&rgb, width, height, 1 + draws.below(100) as u8).expect("a JPEG");
        let colours = if draws.below(4) == 0 { 1 } else { 3 };
        let request = Request { encoded: &encoded, memory: 1 << 26, reduction: 1, colours };
        let (x, y) = (draws.below(width) / 16 * 16, draws.below(height));
        let region = Region { x, y, width: 1 + draws.below(width - x), height: 1 + draws.below(height - y) };
        let expected = decoded((&mut library, request), None, (region, seed));
        for (way, transform) in ways() {
            let found = decoded((&mut library, request), Some(transform), (region, seed));
            assert!(found == expected, "{way}, round {seed}: {region:?} of {width}x{height}");
        }
    }
}

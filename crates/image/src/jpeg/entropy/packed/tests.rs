//! Tests that the vector functions expand blocks like the plain code, and that damaged data causes an error
//! at most.

use super::expand::{self, Count, Escapes, Expand, PackedBlock};
use crate::RowKey;
use crate::draws::Draws;

const ROUNDS: u32 = if cfg!(miri) { 40 } else { 20_000 };

/// The vector functions that this machine can run.
fn ways() -> Vec<(&'static str, (Expand, Count))> {
    #[cfg(target_arch = "x86_64")]
    let ways = [("AVX2", super::avx2::ways()), ("AVX-512", super::avx512::ways())];
    #[cfg(not(target_arch = "x86_64"))]
    let ways: [(&str, Option<(Expand, Count)>); 0] = [];
    ways.into_iter().filter_map(|(name, way)| Some((name, way?))).collect()
}

#[test]
fn all_ways_expand_alike() {
    let mut draws = Draws::new(RowKey(1));
    for round in 0..ROUNDS {
        let (density, zeros) = (1 + draws.below(64), 1 + draws.below(16));
        let length = 1 + draws.below(63);
        let bitmap = (0..length).fold(0, |bits: u64, at| bits | u64::from(draws.below(64) < density) << at);
        let mut byte =
            || if draws.below(16) < zeros { draws.below(16) as u8 } else { draws.below(256) as u8 };
        let (nibbles, bytes) = (std::array::from_fn(|_| byte()), std::array::from_fn(|_| byte()));
        let packed = PackedBlock { bitmap, nibbles: &nibbles, bytes: &bytes };
        let mut plain = [1; 64];
        let escapes = expand::plain(&packed, &mut plain);
        plain[0] = 0;
        let words = escapes.words.count_ones() as usize;
        let counted = (escapes.bytes as usize, words);
        assert_eq!(expand::count(&packed), counted, "round {round}");
        for (name, (way, count)) in ways() {
            let mut block = [2; 64];
            let found: Escapes = way(&packed, &mut block);
            // The reader sets DC afterwards.
            block[0] = 0;
            assert_eq!((found, block), (escapes, plain), "{name}, round {round}");
            assert_eq!(count(&packed), counted, "{name}, round {round}");
        }
    }
}

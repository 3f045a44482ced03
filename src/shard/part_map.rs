//! Maps with parts as keys. An epoch of small row groups looks up parts about as often as it delivers rows,
//! and the default hasher would take longer than the rest of a look-up.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use super::lane::Part;

/// A map by part.
pub(crate) type PartMap<V> = HashMap<Part, V, BuildHasherDefault<PartHasher>>;

/// A set of parts.
pub(crate) type PartSet = HashSet<Part, BuildHasherDefault<PartHasher>>;

/// A hasher for the three numbers of a part. The plan makes these numbers, so the hasher needs no protection
/// against keys that were chosen to collide.
#[derive(Default)]
pub(crate) struct PartHasher(u64);

/// An odd number whose bits have no pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for PartHasher {
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(u32::BITS) ^ u64::from(number)).wrapping_mul(FACTOR);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }

    /// A hash table takes the index from the lowest bits, which a product mixes least.
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> u32::BITS)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    #[test]
    fn parts_of_neighbouring_row_groups_spread_over_a_table() {
        const PLACES: u64 = 1 << 12;
        let place = |part: Part| {
            let mut hasher = PartHasher::default();
            part.hash(&mut hasher);
            hasher.finish() % PLACES
        };
        for (start, rows, step) in [(0, 10, 1), (0, 1_000, 8), (500, 500, 64)] {
            let parts = (0..PLACES as u32).map(|at| Part { group: at * step, start, rows });
            let places: HashSet<u64> = parts.map(place).collect();
            // Random places would fill 63 % of the table.
            assert!(places.len() as u64 > PLACES / 2, "{} of {PLACES} places", places.len());
        }
    }
}

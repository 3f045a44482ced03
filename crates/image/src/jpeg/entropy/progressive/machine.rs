//! The loops over the blocks of a scan, for what the machine has.
#![allow(unsafe_code)]

use super::super::library::Block;
use super::super::sequential::NATURAL;
use super::bands::Masks;
use super::scan::{Data, Rows};
use super::tables::{First, Refine, Table};

/// The loops of scans of AC; `None` where one is not sound.
#[derive(Clone, Copy)]
pub(super) struct Machine {
    pub(super) first: fn(&mut Rows<'_>, &mut Data<'_>, &Table<First>) -> Option<()>,
    pub(super) refine: fn(&mut Rows<'_>, &mut Data<'_>, &Table<Refine>) -> Option<()>,
}

impl Machine {
    /// The fastest on this machine.
    pub(super) fn detected() -> Machine {
        #[cfg(target_arch = "x86_64")]
        if let Some(machine) = avx2::machine() {
            return machine;
        }
        Machine {
            first: |rows, data, table| rows.first(data, table),
            refine: |rows, data, table| rows.refine::<Plain>(data, table),
        }
    }
}

/// Bit by bit.
struct Plain;

impl Masks for Plain {
    fn deposit(mut bits: u64, mut mask: u64) -> u64 {
        let mut deposited = 0;
        while bits != 0 && mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            deposited |= if bits & 1 == 1 { lowest } else { 0 };
            (bits, mask) = (bits >> 1, mask ^ lowest);
        }
        deposited
    }

    fn raise(block: &mut Block, mut which: u64, negative: u64, step: i16) {
        while which != 0 {
            let lowest = which & which.wrapping_neg();
            let value = &mut block[usize::from(NATURAL[lowest.leading_zeros() as usize])];
            let falls = *value < 0 || negative & lowest != 0;
            *value = value.wrapping_add(if falls { -step } else { step });
            which ^= lowest;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{Block, Data, First, Machine, Masks, NATURAL, Refine, Rows, Table};

    pub(super) fn machine() -> Option<Machine> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        // SAFETY: the loops are only handed out where the machine has the features.
        has.then_some(Machine {
            first: |rows, data, table| unsafe { first(rows, data, table) },
            // SAFETY: as above.
            refine: |rows, data, table| unsafe { refine(rows, data, table) },
        })
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn first(rows: &mut Rows<'_>, data: &mut Data<'_>, table: &Table<First>) -> Option<()> {
        rows.first(data, table)
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn refine(rows: &mut Rows<'_>, data: &mut Data<'_>, table: &Table<Refine>) -> Option<()> {
        rows.refine::<Instructions>(data, table)
    }

    pub(super) struct Instructions;

    impl Masks for Instructions {
        #[inline(always)]
        fn deposit(bits: u64, mask: u64) -> u64 {
            // SAFETY: used where `machine` has found what it needs, by `refine` and by tests; so below.
            unsafe { _pdep_u64(bits, mask) }
        }

        #[inline(always)]
        fn raise(block: &mut Block, which: u64, negative: u64, step: i16) {
            // SAFETY: as above, and each load and store is of 16 coefficients.
            unsafe {
                let (which, negative) =
                    (_mm256_set1_epi64x(which as i64), _mm256_set1_epi64x(negative as i64));
                let (step, one) = (_mm256_set1_epi16(step), _mm256_set1_epi16(1));
                for (part, place) in block.as_chunks_mut::<16>().0.iter_mut().zip(&PLACES) {
                    let bytes = _mm256_load_si256((&raw const place.bytes).cast());
                    let bits = _mm256_load_si256((&raw const place.bits).cast());
                    // All ones where a coefficient's bit is one.
                    let spread = |mask| {
                        _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_shuffle_epi8(mask, bytes), bits), bits)
                    };
                    let values = _mm256_loadu_si256(part.as_ptr().cast());
                    let signs = _mm256_or_si256(_mm256_or_si256(values, spread(negative)), one);
                    let steps = _mm256_and_si256(_mm256_sign_epi16(step, signs), spread(which));
                    _mm256_storeu_si256(part.as_mut_ptr().cast(), _mm256_add_epi16(values, steps));
                }
            }
        }
    }

    /// Where the bits of 16 coefficients in natural order are in a mask that each half of a register has: the byte of each, and its bit
    /// in that.
    #[repr(C, align(32))]
    struct Place {
        bytes: [[u8; 2]; 16],
        bits: [u16; 16],
    }

    static PLACES: [Place; 4] = {
        /// A byte that is none of a register: zero.
        const NONE: u8 = 0x80;
        const EMPTY: Place = Place { bytes: [[NONE; 2]; 16], bits: [0; 16] };
        let mut places = [EMPTY; 4];
        let mut at = 0;
        while at < 64 {
            let natural = NATURAL[at] as usize;
            let bit = 63 - at;
            let place = &mut places[natural / 16];
            place.bytes[natural % 16] = [bit as u8 / 8, NONE];
            place.bits[natural % 16] = 1 << (bit % 8);
            at += 1;
        }
        places
    };
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::avx2::{Instructions, machine};
    use super::*;
    use crate::RowKey;
    use crate::draws::Draws;

    #[test]
    fn plain_code_does_what_the_instructions_do() {
        if machine().is_none() {
            return;
        }
        let mut draws = Draws::new(RowKey(1));
        for _ in 0..20_000 {
            let mut mask = || (0..64).fold(0, |mask, _| mask << 1 | u64::from(draws.below(3) == 0));
            let (bits, which, negative) = (mask(), mask(), mask());
            assert_eq!(Plain::deposit(bits, which), Instructions::deposit(bits, which));
            let block: Block =
                std::array::from_fn(|_| [0, 1, -1, 300, i16::MIN, i16::MAX][draws.below(6) as usize]);
            let step = 1 << draws.below(14);
            // Only what is zero can become negative.
            let of_zeros = (0..64).filter(|at| block[usize::from(NATURAL[*at])] == 0);
            let negative = negative & of_zeros.fold(0, |mask, at| mask | 1 << (63 - at));
            let [mut plain, mut instructions] = [block; 2];
            Plain::raise(&mut plain, which, negative, step);
            Instructions::raise(&mut instructions, which, negative, step);
            assert_eq!(plain, instructions);
        }
    }
}

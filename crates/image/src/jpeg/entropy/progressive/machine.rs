//! Chooses the fastest functions that decode AC scans on this processor.
#![allow(unsafe_code)]

use super::super::block::Block;
use super::super::sequential::NATURAL;
#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::bands::Masks;
use super::rows::{AcRows, Data};
use super::tables::{AcTable, First, Refine};

/// The functions that decode AC scans. They return `None` if a scan is invalid.
#[derive(Clone, Copy)]
pub(super) struct Machine {
    pub(super) first: fn(&mut AcRows<'_>, &mut Data<'_>, &AcTable<First>) -> Option<()>,
    pub(super) refine: fn(&mut AcRows<'_>, &mut Data<'_>, &AcTable<Refine>) -> Option<()>,
}

impl Machine {
    /// The fastest functions that this processor can run.
    pub(super) fn detected() -> Machine {
        #[cfg(target_arch = "x86_64")]
        if avx2::is_here() {
            return Machine {
                // SAFETY: the processor has the instructions.
                first: |rows, data, table| unsafe { avx2::first(rows, data, table) },
                // SAFETY: as above, it has the instructions.
                refine: |rows, data, table| unsafe { avx2::refine(rows, data, table) },
            };
        }
        Machine {
            first: |rows, data, table| rows.first(data, table),
            refine: |rows, data, table| rows.refine::<Plain>(data, table),
        }
    }
}

/// The operations on masks for any processor, bit by bit.
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::avx2::Instructions;
    use super::*;
    use crate::RowKey;
    use crate::draws::Draws;

    const ROUNDS: u32 = if cfg!(miri) { 40 } else { 20_000 };

    #[test]
    fn plain_code_does_what_the_instructions_do() {
        if !avx2::is_here() {
            return;
        }
        let mut draws = Draws::new(RowKey(1));
        for _ in 0..ROUNDS {
            let mut mask = || (0..64).fold(0, |mask, _| mask << 1 | u64::from(draws.below(3) == 0));
            let (bits, which, negative) = (mask(), mask(), mask());
            assert_eq!(Plain::deposit(bits, which), Instructions::deposit(bits, which));
            let block: Block =
                std::array::from_fn(|_| [0, 1, -1, 300, i16::MIN, i16::MAX][draws.below(6) as usize]);
            let step = 1 << draws.below(14);
            // Only coefficients that are zero may be in `negative`.
            let of_zeros = (0..64).filter(|at| block[usize::from(NATURAL[*at])] == 0);
            let negative = negative & of_zeros.fold(0, |mask, at| mask | 1 << (63 - at));
            let [mut plain, mut instructions] = [block; 2];
            Plain::raise(&mut plain, which, negative, step);
            Instructions::raise(&mut instructions, which, negative, step);
            assert_eq!(plain, instructions);
        }
    }
}

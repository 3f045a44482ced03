//! The loops over the blocks of a scan, for what the machine has.
#![allow(unsafe_code)]

use super::bands::Deposit;
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
        if let Some(machine) = bmi::machine() {
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

impl Deposit for Plain {
    fn deposit(mut bits: u64, mut mask: u64) -> u64 {
        let mut deposited = 0;
        while bits != 0 && mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            deposited |= if bits & 1 == 1 { lowest } else { 0 };
            (bits, mask) = (bits >> 1, mask ^ lowest);
        }
        deposited
    }
}

#[cfg(target_arch = "x86_64")]
mod bmi {
    use std::arch::x86_64::_pdep_u64;

    use super::{Data, Deposit, First, Machine, Refine, Rows, Table};

    pub(super) fn machine() -> Option<Machine> {
        let has = is_x86_feature_detected!("bmi1")
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

    struct Instruction;

    impl Deposit for Instruction {
        #[inline(always)]
        fn deposit(bits: u64, mask: u64) -> u64 {
            // SAFETY: used by `refine` alone, which is for machines that have it.
            unsafe { _pdep_u64(bits, mask) }
        }
    }

    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    fn first(rows: &mut Rows<'_>, data: &mut Data<'_>, table: &Table<First>) -> Option<()> {
        rows.first(data, table)
    }

    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    fn refine(rows: &mut Rows<'_>, data: &mut Data<'_>, table: &Table<Refine>) -> Option<()> {
        rows.refine::<Instruction>(data, table)
    }
}

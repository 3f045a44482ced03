//! The rows of a slot (rows of a lane that are mixed together) as a list that can be shuffled. Each row is
//! stored as its part and a place in the part's [deal](super::deal), the order in which the rows of the part
//! are delivered.
//!
//! If rows have few bytes, such a list could take more memory than the rows. So part and place are packed
//! into 4 bytes if they fit, and the list frees each of its [blocks](Blocks) after it has been read.

use std::ops::Range;

use super::blocks::Blocks;
use super::draw::Draws;
use super::lane::Lane;

/// The rows of a slot, each as the number of its part within the slot and a place in the part's deal.
#[derive(Debug)]
pub(super) struct Packed {
    /// The number of bits in which an item stores the place; the bits above it are the number of the part.
    bits: u32,
    list: PackedList,
}

impl Packed {
    /// Lists the rows that all parts of a slot give to it, part by part.
    pub(super) fn in_slot(lane: &Lane, slot: usize) -> Self {
        let residents = lane.residents(slot);
        let share = |part| {
            let places = lane.share(part, slot);
            ((part - residents.start) as u32, places.start as u32..places.end as u32)
        };
        Packed::new(residents.len(), residents.clone().map(share))
    }

    /// Lists the rows of a slot with `residents` parts, part by part. `shares` has the numbers of the parts
    /// that give rows, each with the places that it gives.
    pub(super) fn new(residents: usize, shares: impl Iterator<Item = (u32, Range<u32>)> + Clone) -> Self {
        let bits_of = |numbers: u64| u64::BITS - numbers.saturating_sub(1).leading_zeros();
        let places = shares.clone().map(|(_, places)| places.end).max().unwrap_or(1);
        let bits = bits_of(places.into());
        let rows = shares.clone().map(|(_, places)| places.len()).sum();
        let list = match bits + bits_of(residents as u64) <= u32::BITS {
            true => PackedList::Narrow(Blocks::with_capacity(rows)),
            false => PackedList::Wide(Blocks::with_capacity(rows)),
        };
        let mut packed = Packed { bits, list };
        for (resident, places) in shares {
            match &mut packed.list {
                PackedList::Narrow(list) => {
                    let first = resident << bits | places.start;
                    list.extend(places.len(), |at| first + at as u32);
                }
                PackedList::Wide(list) => {
                    let first = u64::from(resident) << bits | u64::from(places.start);
                    list.extend(places.len(), |at| first + at as u64);
                }
            }
        }
        packed
    }

    pub(super) fn len(&self) -> usize {
        match &self.list {
            PackedList::Narrow(list) => list.len(),
            PackedList::Wide(list) => list.len(),
        }
    }

    pub(super) fn shuffle(&mut self, draws: Draws) {
        match &mut self.list {
            PackedList::Narrow(list) => list.shuffle(draws),
            PackedList::Wide(list) => list.shuffle(draws),
        }
    }

    /// Puts all rows into another order. None may have been taken yet.
    pub(super) fn reorder(&mut self, order: impl FnOnce(&mut [(u32, u32)])) {
        let mut rows = Vec::with_capacity(self.len());
        self.take(self.len(), &mut rows, |resident, place| (resident, place));
        order(&mut rows);
        let bits = self.bits;
        match &mut self.list {
            PackedList::Narrow(list) => {
                *list = Blocks::with_capacity(rows.len());
                list.extend(rows.len(), |at| rows[at].0 << bits | rows[at].1);
            }
            PackedList::Wide(list) => {
                *list = Blocks::with_capacity(rows.len());
                list.extend(rows.len(), |at| u64::from(rows[at].0) << bits | u64::from(rows[at].1));
            }
        }
    }

    /// Takes the next `count` rows, and appends `item(part, place)` to `out` for each.
    pub(super) fn take<X>(&mut self, count: usize, out: &mut Vec<X>, mut item: impl FnMut(u32, u32) -> X) {
        let (bits, mask) = (self.bits, (1u64 << self.bits) - 1);
        match &mut self.list {
            PackedList::Narrow(list) => {
                let mask = mask as u32;
                list.take(count, |run| out.extend(run.iter().map(|one| item(one >> bits, one & mask))));
            }
            PackedList::Wide(list) => list.take(count, |run| {
                out.extend(run.iter().map(|one| item((one >> bits) as u32, (one & mask) as u32)));
            }),
        }
    }
}

#[derive(Debug)]
enum PackedList {
    Narrow(Blocks<u32>),
    Wide(Blocks<u64>),
}

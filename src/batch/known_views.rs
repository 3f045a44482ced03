//! Remembers a value for each Arrow view (Arrow's form of texts and bytes) that occurred in a column.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// The largest number of views that are remembered. A column with more distinct values seldom holds
/// categories.
const MAX_KNOWN: usize = 1 << 16;

/// The values that were found for Arrow views. `last` is the view of the latest lookup with its value, and is
/// compared first.
pub(crate) struct KnownViews<N> {
    last: Option<(u128, N)>,
    table: HashTable<(u128, N)>,
}

impl<N: Copy> KnownViews<N> {
    pub(crate) fn new() -> Self {
        KnownViews { last: None, table: HashTable::new() }
    }

    /// The value that was found for a view before, or that `find` finds now.
    pub(crate) fn get_or(&mut self, view: u128, find: impl FnOnce() -> N) -> N {
        if let Some((_, value)) = self.last.filter(|(last, _)| *last == view) {
            return value;
        }
        let is_full = self.table.len() >= MAX_KNOWN;
        let value = match self.table.entry(hash(view), |(of, _)| *of == view, |(of, _)| hash(*of)) {
            Entry::Occupied(occupied) => occupied.get().1,
            Entry::Vacant(_) if is_full => find(),
            Entry::Vacant(vacant) => vacant.insert((view, find())).get().1,
        };
        self.last = Some((view, value));
        value
    }
}

fn hash(view: u128) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = ((view as u64) ^ ((view >> 64) as u64).wrapping_mul(ODD)).wrapping_mul(ODD);
    mixed ^ mixed >> 32
}

//! The shuffle window of a rank: the parts whose rows are being mixed.
//!
//! The plan (in `shard`) decides which parts are in the window and which of their rows come next; the window
//! only keeps the parts that the plan still needs, and releases the others. It is generic in the type of a
//! part's rows.

use std::sync::Arc;

use crate::shard::{Part, PartMap, PartSet};

/// The parts that are in memory.
#[derive(Debug)]
pub(crate) struct Window<R> {
    residents: PartMap<Arc<R>>,
    /// Parts that were released before they arrived: they have no rows for this rank.
    unwanted: PartSet,
}

impl<R> Window<R> {
    pub(crate) fn new() -> Self {
        Window { residents: PartMap::default(), unwanted: PartSet::default() }
    }

    pub(crate) fn get(&self, part: &Part) -> Option<&Arc<R>> {
        self.residents.get(part)
    }

    /// The rows of all parts in the window.
    pub(crate) fn residents(&self) -> impl Iterator<Item = &R> {
        self.residents.values().map(|rows| &**rows)
    }

    /// Adds a part, unless it was released before it arrived.
    pub(crate) fn admit(&mut self, part: Part, rows: R) {
        if !self.unwanted.remove(&part) {
            self.residents.insert(part, Arc::new(rows));
        }
    }

    /// Removes a part. Its rows are freed after the last batch that uses them.
    pub(crate) fn let_go(&mut self, part: &Part) {
        if self.residents.remove(part).is_none() {
            self.unwanted.insert(*part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Part = Part { group: 0, start: 0, rows: 4 };

    #[test]
    fn a_part_that_left_before_it_arrived_is_not_kept() {
        let mut window = Window::new();
        window.let_go(&PART);
        window.admit(PART, "rows");
        assert!(window.get(&PART).is_none());
        window.admit(PART, "rows");
        assert!(window.get(&PART).is_some(), "only once");
    }
}

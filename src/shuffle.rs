//! The window: the parts whose rows are being mixed.
//!
//! Which parts those are, and which of their rows come next, is the plan's decision (`shard`); the window
//! only keeps the parts that the plan still needs, and releases the others. It is generic in the type of a
//! part's rows.

use std::sync::Arc;

use crate::shard::{Part, PartMap, PartSet};

/// Parts at hand.
#[derive(Debug)]
pub(crate) struct Window<R> {
    residents: PartMap<Arc<R>>,
    /// Parts that were released before they arrived: they have no row for this rank.
    unwanted: PartSet,
}

impl<R> Window<R> {
    pub(crate) fn new() -> Self {
        Window { residents: PartMap::default(), unwanted: PartSet::default() }
    }

    pub(crate) fn get(&self, part: &Part) -> Option<&Arc<R>> {
        self.residents.get(part)
    }

    /// The rows of all parts at hand.
    pub(crate) fn residents(&self) -> impl Iterator<Item = &R> {
        self.residents.values().map(|rows| &**rows)
    }

    /// Takes a part in, unless it was released already.
    pub(crate) fn admit(&mut self, part: Part, rows: R) {
        if !self.unwanted.remove(&part) {
            self.residents.insert(part, Arc::new(rows));
        }
    }

    /// Forgets a part; its rows end with the last batch that uses them.
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

//! The window: the parts whose rows are being mixed.
//!
//! Which parts those are, and which of their rows come next, is the plan's decision (`shard`); the window only keeps
//! what the plan still needs and lets go of the rest. It is generic in what a part's rows look like.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::shard::Part;

/// Parts at hand.
#[derive(Debug)]
pub(crate) struct Window<R> {
    residents: HashMap<Part, Arc<R>>,
    /// Parts that were let go before they arrived: no row of theirs was for this rank.
    unwanted: HashSet<Part>,
}

impl<R> Window<R> {
    pub(crate) fn new() -> Self {
        Window { residents: HashMap::new(), unwanted: HashSet::new() }
    }

    pub(crate) fn get(&self, part: &Part) -> Option<&Arc<R>> {
        self.residents.get(part)
    }

    /// Takes a part in, unless it was let go already.
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

/// The rows of one batch as sources and rows in them, while they are being listed.
#[derive(Debug)]
pub(crate) struct Picks<R> {
    pub(crate) sources: Vec<Arc<R>>,
    /// Source, and row in it.
    pub(crate) rows: Vec<(u32, u32)>,
    source_of: HashMap<Part, u32>,
}

impl<R> Picks<R> {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Picks { sources: Vec::new(), rows: Vec::with_capacity(rows), source_of: HashMap::new() }
    }

    pub(crate) fn source(&self, part: &Part) -> Option<u32> {
        self.source_of.get(part).copied()
    }

    pub(crate) fn add_source(&mut self, part: Part, rows: Arc<R>) -> u32 {
        let source = self.sources.len() as u32;
        self.sources.push(rows);
        self.source_of.insert(part, source);
        source
    }

    /// Exchanges a source for a copy of just the rows that were picked of it, which `copy` makes.
    pub(crate) fn detach<E>(
        &mut self,
        part: &Part,
        copy: impl FnOnce(&R, &[u32]) -> Result<R, E>,
    ) -> Result<(), E> {
        let Some(source) = self.source_of.remove(part) else { return Ok(()) };
        let mut picked = Vec::new();
        for pick in self.rows.iter_mut().filter(|pick| pick.0 == source) {
            picked.push(pick.1);
            pick.1 = picked.len() as u32 - 1;
        }
        let slot = &mut self.sources[source as usize];
        *slot = Arc::new(copy(slot, &picked)?);
        Ok(())
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

    #[test]
    fn a_detached_source_holds_the_picked_rows_alone() {
        let mut picks = Picks::with_capacity(3);
        let other = Part { group: 1, ..PART };
        let (first, second) = (
            picks.add_source(PART, Arc::new(vec!['a', 'b', 'c', 'd'])),
            picks.add_source(other, Arc::new(vec!['x'])),
        );
        picks.rows = vec![(first, 3), (second, 0), (first, 1)];
        let copy = |rows: &Vec<char>, picked: &[u32]| {
            Ok::<_, ()>(picked.iter().map(|&row| rows[row as usize]).collect())
        };
        picks.detach(&PART, copy).unwrap();
        let rows: String =
            picks.rows.iter().map(|&(source, row)| picks.sources[source as usize][row as usize]).collect();
        assert_eq!(rows, "dxb");
        assert_eq!(picks.sources[0].len(), 2);
        assert_eq!(picks.source(&PART), None, "a later pick of the part is another source");
    }
}

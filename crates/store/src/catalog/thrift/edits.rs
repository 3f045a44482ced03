//! Changes to encoded bytes, collected while they are read.

use std::ops::Range;

/// Replacements of byte ranges that do not overlap.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    /// Each range, with the place of its new bytes in `new`. Damaged bytes may need a change for every second
    /// byte, so each takes little memory.
    replacements: Vec<(Range<u32>, Range<u32>)>,
    new: Vec<u8>,
}

impl Edits {
    pub(crate) fn is_empty(&self) -> bool {
        self.replacements.is_empty()
    }

    /// Replaces these bytes, which are among the first 4 GiB. An empty range inserts before its place.
    pub(crate) fn replace(&mut self, place: Range<usize>, new: &[u8]) {
        let start = self.new.len() as u32;
        self.new.extend_from_slice(new);
        self.replacements.push((place.start as u32..place.end as u32, start..self.new.len() as u32));
    }

    /// Removes the bytes that were read last, whatever was to be changed in them.
    pub(crate) fn remove(&mut self, place: Range<usize>) {
        while self.replacements.pop_if(|(earlier, _)| earlier.start as usize >= place.start).is_some() {}
        self.replace(place, &[]);
    }

    /// A copy of the bytes with all changes.
    pub(crate) fn applied(mut self, bytes: &[u8]) -> Vec<u8> {
        self.replacements.sort_by_key(|(place, _)| (place.start, place.end));
        let mut made = Vec::with_capacity(bytes.len());
        let mut done = 0;
        for (place, new) in self.replacements {
            made.extend_from_slice(&bytes[done..place.start as usize]);
            made.extend_from_slice(&self.new[new.start as usize..new.end as usize]);
            done = place.end as usize;
        }
        made.extend_from_slice(&bytes[done..]);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_replaced_removed_and_inserted() {
        let mut edits = Edits::default();
        edits.replace(7..8, b"seven");
        edits.replace(5..5, b"-");
        edits.replace(10..10, b".");
        edits.replace(1..2, b"");
        assert!(!edits.is_empty());
        assert_eq!(edits.applied(b"0123456789"), b"0234-56seven89.");
    }

    #[test]
    fn a_removed_range_takes_the_changes_inside_of_it() {
        let mut edits = Edits::default();
        edits.replace(1..1, b"a");
        edits.replace(3..3, b"b");
        edits.replace(5..6, b"c");
        edits.remove(3..8);
        assert_eq!(edits.applied(b"0123456789"), b"0a1289");
    }
}

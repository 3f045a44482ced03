//! Decodes repetition and definition levels to the offsets of lists and to nulls, 64 levels at a time.
//!
//! Each bit of a word (a 64-bit integer) stands for one level. A node within `k` lists has a value at each
//! level whose repetition is at most `k` and whose definition is at least that of an item of the innermost of
//! these lists. Nulls and the lengths of lists are found by similar comparisons of whole words, without a
//! branch for each level. (The encoding is described in "Dremel: Interactive Analysis of Web-Scale Datasets",
//! Melnik and others, 2010.)

use super::mask::{HIGHEST, STEP, WIDEST, at_most, gathered, lowest, spread_eight};
use super::shape::{NodeShape, Shape};
use crate::reader::integers::{GROUP, NumberRun, Runs, bits, unpack};
use crate::reader::numbers::{KeptLevels, PageLevels, Validity};

/// The nodes on the path from the root of a column to one of its leaves, each with the definition levels at
/// which it exists.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct LeafLevels {
    pub(super) nodes: Vec<NodeLevels>,
    /// The highest repetition level and the highest definition level of the leaf.
    pub(super) repetition: u8,
    pub(super) definition: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeLevels {
    /// A structure or a leaf, which exists at this definition level and above.
    Value(u8),
    /// A list or a map, which exists at this definition level and above. It has an item only above this
    /// level.
    List(u8),
}

/// The values and nulls of a node that were decoded so far from the levels of its leaf.
struct Decoded {
    levels: NodeLevels,
    /// Whether values of the node may be null.
    has_nulls: bool,
    validity: Validity,
    /// The offsets of lists, and the number of their items.
    offsets: Vec<i32>,
    items: usize,
    /// Whether the last level that was read stands for an item of the list.
    had_item: bool,
}

/// The levels of a page, unpacked to a byte each.
#[derive(Default)]
struct Unpacked {
    repetition: Vec<u8>,
    definition: Vec<u8>,
}

impl LeafLevels {
    /// Decodes the levels of all pages to the shape of the column; `None` if levels contradict each other, or
    /// if the pages of a chunk have another number of rows than the chunk.
    pub(super) fn shape(&self, kept: &KeptLevels) -> Option<Shape> {
        i32::try_from(kept.values()).ok()?;
        (self.repetition < HIGHEST && self.definition < HIGHEST).then_some(())?;
        let mut nodes: Vec<Decoded> = self.nodes.iter().map(|levels| Decoded::new(*levels)).collect();
        let mut unpacked = Unpacked::default();
        kept.each_chunk(|rows, pages| {
            let mut found = 0;
            nodes.iter_mut().for_each(|node| node.had_item = false);
            for page in pages {
                unpacked.read(&page, self)?;
                found += self.page(&unpacked, &page, &mut nodes)?;
            }
            (found == rows).then_some(())
        })?;
        Some(Shape(nodes.into_iter().map(Decoded::finish).collect()))
    }

    /// Adds the levels of a page to all nodes, and returns the number of rows that begin in it; `None` if a
    /// level is too high, or continues a list that does not exist.
    fn page(&self, unpacked: &Unpacked, page: &PageLevels<'_>, nodes: &mut [Decoded]) -> Option<usize> {
        if self.repetition == 0 && page.definition.is_none() {
            nodes.iter_mut().for_each(|node| node.validity.append(true, page.count));
            return Some(page.count);
        }
        let mut rows = 0;
        for from in (0..page.count).step_by(STEP) {
            let all = lowest(page.count - from);
            let repeated = (self.repetition > 0).then(|| step(&unpacked.repetition, from));
            let defined = page.definition.is_some().then(|| step(&unpacked.definition, from));
            let is_repeated = |most: u8| repeated.as_ref().map_or(all, |levels| all & at_most(levels, most));
            let exists = |least: u8| match &defined {
                Some(levels) if least > 0 => all & !at_most(levels, least - 1),
                _ => all,
            };
            let are_too_high = may_exceed(self.repetition) && is_repeated(self.repetition) != all
                || may_exceed(self.definition) && defined.is_some() && exists(self.definition + 1) != 0;
            (!are_too_high).then_some(())?;
            // `begun` marks the levels that begin an item of the list around the node, and the levels that
            // stand for such a list without items. `places` marks only the items: for each, the node has a
            // value or null. Outside all lists, each row counts as an item.
            let mut begun = is_repeated(0);
            let mut places = begun;
            let mut depth = 0;
            rows += places.count_ones() as usize;
            for node in nodes.iter_mut() {
                node.append(places, &exists);
                if let NodeLevels::List(list) = node.levels {
                    depth += 1;
                    let within = if depth == self.repetition { all } else { is_repeated(depth) };
                    let has_item = exists(list + 1);
                    let before = has_item << 1 | u64::from(node.had_item);
                    let continued = within & !begun;
                    (continued & !(has_item & before) == 0).then_some(())?;
                    node.had_item = has_item & (all ^ all >> 1) != 0;
                    let items = within & has_item;
                    node.append_lists(places, items);
                    (begun, places) = (within, items);
                }
            }
        }
        Some(rows)
    }
}

/// Whether a level with as many bits as `highest` can be greater than `highest`.
fn may_exceed(highest: u8) -> bool {
    !(u32::from(highest) + 1).is_power_of_two()
}

impl Decoded {
    fn new(levels: NodeLevels) -> Self {
        let (NodeLevels::Value(least) | NodeLevels::List(least)) = levels;
        let validity = Validity::default();
        Decoded { levels, has_nulls: least > 0, validity, offsets: Vec::new(), items: 0, had_item: false }
    }

    /// Adds the validity of the values at `places`.
    fn append(&mut self, places: u64, at_least: &impl Fn(u8) -> u64) {
        let count = places.count_ones() as usize;
        let (NodeLevels::Value(least) | NodeLevels::List(least)) = self.levels;
        let valid = if self.has_nulls { places & at_least(least) } else { places };
        if valid == places {
            return self.validity.append(true, count);
        }
        let are_in_front = places & places.wrapping_add(1) == 0;
        let valid = if are_in_front { valid } else { gathered(valid, places) };
        // Levels of one bit are never too high, so this cannot fail.
        let _ones = self.validity.append_run(NumberRun::Packed(&valid.to_le_bytes(), count));
    }

    /// Adds the lists that begin at the bits of `places`; the bits of `items` are the items of these lists.
    fn append_lists(&mut self, mut places: u64, items: u64) {
        while places > 0 {
            let before = lowest(places.trailing_zeros() as usize);
            self.offsets.push((self.items + (items & before).count_ones() as usize) as i32);
            places &= places - 1;
        }
        self.items += items.count_ones() as usize;
    }

    fn finish(mut self) -> NodeShape {
        match self.levels {
            NodeLevels::Value(_) => {
                NodeShape::Values { len: self.validity.len(), nulls: self.validity.finish() }
            }
            NodeLevels::List(_) => {
                self.offsets.push(self.items as i32);
                NodeShape::Lists { offsets: self.offsets, nulls: self.validity.finish() }
            }
        }
    }
}

impl Unpacked {
    /// Unpacks the levels of a page. Repetition or definition levels that the page does not have are left
    /// empty.
    fn read(&mut self, page: &PageLevels<'_>, leaf: &LeafLevels) -> Option<()> {
        self.repetition.clear();
        self.definition.clear();
        if leaf.repetition > 0 {
            append(page.repetition, leaf.repetition, page.count, &mut self.repetition)?;
        }
        match page.definition {
            Some(runs) => append(runs, leaf.definition, page.count, &mut self.definition),
            None => Some(()),
        }
    }
}

/// Appends the first `count` levels in `runs`; `None` if there are fewer. `highest` is the highest level of
/// the leaf, which determines how many bits a level has.
fn append(runs: &[u8], highest: u8, count: usize, out: &mut Vec<u8>) -> Option<()> {
    let width = u8::BITS - highest.leading_zeros();
    out.reserve(count);
    Runs::new(runs, width)?.each(count, |run| match run {
        NumberRun::Repeated(level, count) => {
            let level = u8::try_from(level).ok().filter(|level| *level <= highest)?;
            out.resize(out.len() + count, level);
            Some(())
        }
        NumberRun::Packed(packed, count) if width <= WIDEST => {
            ((count * width as usize).div_ceil(8) <= packed.len()).then_some(())?;
            let end = out.len() + count;
            let group = GROUP * width as usize;
            for at in 0..count.div_ceil(GROUP) {
                out.extend_from_slice(&spread_eight(bits(packed, at * group), width).to_le_bytes());
            }
            out.truncate(end);
            Some(())
        }
        NumberRun::Packed(packed, count) => unpack(packed, width, count, |levels: &[u32]| {
            out.extend(levels.iter().map(|level| *level as u8));
            Some(())
        }),
    })
}

/// The next [`STEP`] levels from an index on, with zeros after the last level.
fn step(levels: &[u8], from: usize) -> [u8; STEP] {
    match levels[from..].first_chunk() {
        Some(levels) => *levels,
        None => {
            let mut some = [0; STEP];
            some[..levels.len() - from].copy_from_slice(&levels[from..]);
            some
        }
    }
}

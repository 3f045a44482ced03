//! Checks the repetition and definition levels of pages. A page must have one level of each kind for each of
//! its values, and the two must agree.
//!
//! The Parquet crate does not notice such damage. If a run claims more levels than it has, the crate reads
//! only the levels that exist, and values move to other rows. If the crate skips rows of a page that has too
//! few levels, it never returns. It drops an item whose levels continue a list that does not exist.

use forebay_base::Result;
use parquet::basic::Repetition;
use xxhash_rust::xxh3::Xxh3;

use super::refusals::corrupt;
use crate::reader::integers::{GROUP, NumberRun, Runs, unpack};

/// The number of levels that are checked together: few enough to stay in the processor's first-level cache.
const STEP: usize = 256;

/// The number of levels that are unpacked at a time: the most that one call of [`unpack`] returns.
const UNPACKED: usize = 64;

/// Splits bytes into the runs of levels and the bytes after them. The length of the runs in bytes comes
/// first.
pub(in crate::reader) fn split_levels(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(i32::from_le_bytes(*length)).ok()?)
}

/// Fails with `Corrupt` if `runs` is invalid, has fewer than `values` levels, or has a level above `max`.
/// Returns the bytes after the levels.
pub(super) fn check(runs: &[u8], max: i16, values: usize) -> Result<&[u8]> {
    let (found, behind) = count(runs, max, values);
    match found == values {
        true => Ok(behind),
        false => Err(corrupt(format!("a page of {values} values with {found} levels"))),
    }
}

/// Counts how many of the first `values` levels equal `max`, which is the level of values that are not null;
/// `None` if there are fewer than `values` levels.
pub(in crate::reader) fn highest_of(runs: &[u8], max: i16, values: usize) -> Option<usize> {
    let (width, max) = (width(max), u32::from(max.unsigned_abs()));
    let mut highest = 0;
    Runs::new(runs, width)?.each(values, |run| match run {
        NumberRun::Repeated(level, count) => {
            highest += if level == max { count } else { 0 };
            Some(())
        }
        NumberRun::Packed(packed, count) => unpack(packed, width, count, |levels: &[u32]| {
            highest += levels.iter().filter(|level| **level == max).count();
            Some(())
        }),
    })?;
    Some(highest)
}

/// Counts the levels in `runs`, up to the first invalid run or until `enough` levels were found. Also returns
/// the bytes after the runs that were read.
fn count(runs: &[u8], max: i16, enough: usize) -> (usize, &[u8]) {
    let (width, max) = (width(max), u32::from(max.unsigned_abs()));
    let mut found = 0;
    let sound = |run: NumberRun<'_>| {
        let is_sound = match run {
            NumberRun::Repeated(level, _) => level <= max,
            // Every number of this width is a valid level.
            NumberRun::Packed(..) if max + 1 == 1 << width => true,
            NumberRun::Packed(packed, count) => unpack(packed, width, count, |levels: &[u32]| {
                (levels.iter().fold(0, |most, level| most.max(*level)) <= max).then_some(())
            })
            .is_some(),
        };
        found += if is_sound { run.len() } else { 0 };
        is_sound.then_some(())
    };
    let Some(mut runs) = Runs::new(runs, width) else { return (0, runs) };
    // The result is not needed, because the number of levels that were found shows whether the runs are
    // complete.
    let _all = runs.each(enough, sound);
    (found, runs.rest())
}

/// The number of bits that a level takes if the highest level is `max`.
fn width(max: i16) -> u32 {
    i16::BITS - max.leading_zeros()
}

/// Checks that levels continue a list only where there is a list to continue.
pub(super) struct ListLevels {
    /// The number of bits of a repetition level and of a definition level.
    widths: [u32; 2],
    /// For each repetition level except 0, the lowest definition level that an item of a list at that depth
    /// has.
    items: Vec<u16>,
    /// The definition level that was read last; `u16::MAX` if that level is unknown.
    last: u16,
    /// The number of rows that begin in the pages so far; `None` if the levels of a page could not be read.
    rows: Option<usize>,
}

impl ListLevels {
    /// Makes the check for the leaf column at the end of `path`, whose nodes are optional, repeated or
    /// neither. `highest` are the highest repetition level and the highest definition level of the leaf.
    pub(super) fn from_path(highest: [i16; 2], path: impl Iterator<Item = Repetition>) -> Self {
        let mut definition = 0;
        let mut items = Vec::new();
        for node in path {
            definition += u16::from(node != Repetition::REQUIRED);
            if node == Repetition::REPEATED {
                items.push(definition);
            }
        }
        ListLevels { widths: highest.map(width), items, last: 0, rows: Some(0) }
    }

    /// Records that the levels of a page could not be read.
    pub(super) fn skip(&mut self) {
        (self.last, self.rows) = (u16::MAX, None);
    }

    /// The number of rows that begin in the pages so far; `None` if the levels of a page could not be read.
    pub(super) fn rows(&self) -> Option<usize> {
        self.rows
    }

    /// Checks the levels of a page, and adds them to `outlines`. An earlier check has found that there are
    /// enough levels.
    ///
    /// Fails with `Corrupt` if one of the levels continues a list that is null or empty.
    pub(super) fn check(
        &mut self,
        repetition: &[u8],
        definition: &[u8],
        values: usize,
        outlines: &mut [Outline],
    ) -> Result<()> {
        let mut repetitions = Levels::from_runs(repetition, self.widths[0], values);
        let mut definitions = Levels::from_runs(definition, self.widths[1], values);
        let mut repetition = [0; STEP];
        // Element 0 is the last level of the previous step or page. The levels of this step follow it.
        let mut definition = [0; 1 + STEP];
        let mut left = values;
        let (mut rows, mut is_sound) = (0, true);
        while left > 0 {
            let step = left.min(STEP);
            definition[0] = self.last;
            repetitions.read(&mut repetition[..step]);
            definitions.read(&mut definition[1..=step]);
            let (before, now) = (&definition[..step], &definition[1..=step]);
            let levels = repetition.iter().zip(before.iter().zip(now));
            is_sound &= match self.items[..] {
                [item] => levels.fold(true, |is_sound, (&repetition, (&before, &now))| {
                    is_sound & ((repetition == 0) | ((repetition == 1) & (before.min(now) >= item)))
                }),
                ref items => levels.fold(true, |is_sound, (&repetition, (&before, &now))| {
                    let item = usize::from(repetition).checked_sub(1).map(|depth| items.get(depth));
                    is_sound & item.is_none_or(|item| item.is_some_and(|&item| before.min(now) >= item))
                }),
            };
            outlines.iter_mut().for_each(|outline| outline.add(&repetition[..step], now));
            rows += repetition[..step].iter().filter(|level| **level == 0).count();
            self.last = definition[step];
            left -= step;
        }
        self.rows = self.rows.map(|before| before + rows);
        match is_sound {
            true => Ok(()),
            false => Err(corrupt("a list continues where none has begun".into())),
        }
    }
}

/// The depth of a node of the schema, as the repetition level and the definition level of its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::reader) struct Depth {
    pub(in crate::reader) repetition: u16,
    pub(in crate::reader) definition: u16,
}

/// A hash of which rows and items of a structure exist, according to the levels of one of its leaves. The
/// hash does not depend on how the rows are divided into pages.
pub(super) struct Outline {
    depth: Depth,
    repetition: Xxh3,
    definition: Xxh3,
}

impl Outline {
    pub(super) fn with_depth(depth: Depth) -> Self {
        Outline { depth, repetition: Xxh3::new(), definition: Xxh3::new() }
    }

    /// Adds at most [`STEP`] levels of a leaf with lists. Levels whose repetition is above
    /// `deepest` are left out, because they are items of lists within the structure.
    fn add(&mut self, repetition: &[u16], definition: &[u16]) {
        let Depth { repetition: deepest, definition: most } = self.depth;
        let (mut repeated, mut defined) = ([0; STEP], [0; STEP]);
        let mut count = 0;
        // Schemas with levels above 255 are not read, so every level fits into a byte.
        for (&repetition, &definition) in repetition.iter().zip(definition) {
            (repeated[count], defined[count]) = (repetition as u8, definition.min(most) as u8);
            count += usize::from(repetition <= deepest);
        }
        if deepest > 0 {
            self.repetition.update(&repeated[..count]);
        }
        self.definition.update(&defined[..count]);
    }

    /// Adds a run of levels of a leaf without lists, in which each level belongs to one row.
    fn add_run(&mut self, run: NumberRun<'_>, width: u32) -> Option<()> {
        let most = u32::from(self.depth.definition);
        let mut defined = [0; STEP];
        match run {
            NumberRun::Repeated(level, count) => {
                defined.fill(level.min(most) as u8);
                for done in (0..count).step_by(STEP) {
                    self.definition.update(&defined[..STEP.min(count - done)]);
                }
                Some(())
            }
            NumberRun::Packed(packed, count) => unpack(packed, width, count, |levels: &[u32]| {
                let defined = defined.get_mut(..levels.len())?;
                defined.iter_mut().zip(levels).for_each(|(to, level)| *to = (*level).min(most) as u8);
                self.definition.update(defined);
                Some(())
            }),
        }
    }

    pub(super) fn digest(&self) -> (Depth, u128) {
        let [repetition, definition] = [&self.repetition, &self.definition].map(|hash| hash.digest());
        (self.depth, u128::from(repetition) << u64::BITS | u128::from(definition))
    }
}

/// Adds the levels of one page to `outlines`. The page belongs to a leaf without lists, and an earlier check
/// has found that there are enough levels.
pub(super) fn outline(definition: &[u8], max: i16, values: usize, outlines: &mut [Outline]) {
    let width = width(max);
    for outline in outlines {
        // The result is not needed, because an earlier check has found that the levels are complete.
        let _is_whole = Runs::new(definition, width)
            .and_then(|mut runs| runs.each(values, |run| outline.add_run(run, width)));
    }
}

/// Reads the levels of a page in order. After the end of the runs, it reads zeros.
struct Levels<'a> {
    runs: Option<Runs<'a>>,
    width: u32,
    /// The number of levels of the page that come after the current run.
    left: usize,
    run: NumberRun<'a>,
    /// Levels of the current run that were unpacked. Those from `at` to `end` have not been read yet.
    unpacked: [u16; UNPACKED],
    at: usize,
    end: usize,
}

impl<'a> Levels<'a> {
    fn from_runs(runs: &'a [u8], width: u32, values: usize) -> Self {
        let (runs, run, unpacked) = (Runs::new(runs, width), NumberRun::Repeated(0, 0), [0; UNPACKED]);
        Levels { runs, width, left: values, run, unpacked, at: 0, end: 0 }
    }

    /// Fills `out` with the next levels.
    fn read(&mut self, mut out: &mut [u16]) {
        while !out.is_empty() {
            let left = out.len();
            let read = if self.at < self.end {
                let read = left.min(self.end - self.at);
                out[..read].copy_from_slice(&self.unpacked[self.at..][..read]);
                self.at += read;
                read
            } else {
                match self.run {
                    NumberRun::Repeated(level, count @ 1..) => {
                        let read = left.min(count);
                        out[..read].fill(level as u16);
                        self.run = NumberRun::Repeated(level, count - read);
                        read
                    }
                    NumberRun::Packed(packed, count @ 1..) => {
                        self.run = self.unpack(packed, count);
                        0
                    }
                    _ => {
                        let run = self.runs.as_mut().and_then(|runs| runs.next(self.left));
                        self.run = run.unwrap_or(NumberRun::Repeated(0, left));
                        self.left = self.left.saturating_sub(self.run.len());
                        0
                    }
                }
            };
            out = &mut out[read..];
        }
    }

    /// Unpacks the first levels of a run, and returns the rest of the run.
    fn unpack(&mut self, packed: &'a [u8], count: usize) -> NumberRun<'a> {
        (self.at, self.end) = (0, count.min(UNPACKED));
        let unpacked = &mut self.unpacked;
        // The result is not needed, because an earlier check has found that the levels are complete.
        let _is_whole = unpack(packed, self.width, self.end, |levels: &[u32]| {
            unpacked.iter_mut().zip(levels).for_each(|(unpacked, level)| *unpacked = *level as u16);
            Some(())
        });
        let rest = packed.get(UNPACKED / GROUP * self.width as usize..).unwrap_or_default();
        NumberRun::Packed(rest, count - self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts levels, like the function of this name outside of the tests, but does not return the bytes
    /// after them.
    fn count(runs: &[u8], max: i16, enough: usize) -> usize {
        super::count(runs, max, enough).0
    }

    #[test]
    fn levels_are_counted_as_far_as_their_bytes_go() {
        // The first three inputs have a run of five levels; such a run and two complete groups of eight
        // levels; and a group of levels of two bits, which lacks its second byte but does not need it. In the
        // fourth input, an empty run follows a run of five levels. In the fifth, five levels are enough.
        assert_eq!(count(&[10, 0], 1, 100), 5);
        assert_eq!(count(&[10, 0, 5, 0, 0], 1, 100), 21);
        assert_eq!(count(&[3, 0], 3, 4), 4);
        assert_eq!(count(&[10, 0, 0, 10, 0], 1, 100), 5);
        assert_eq!(count(&[10, 0, 10, 0], 1, 5), 5);
    }

    #[test]
    fn levels_that_are_not_there_do_not_count() {
        assert_eq!(count(&[], 1, 1), 0);
        // The inputs are a run without its value, a header that is cut off, a header that never ends, and
        // groups without bytes.
        for runs in [&[10][..], &[0xfe; 7], &[0xff; 20], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]]
        {
            assert_eq!(count(runs, 1, 4), 0, "{runs:?}");
        }
        assert!(check(&[6, 0], 1, 4).is_err());
        assert!(check(&[8, 0], 1, 4).is_ok());
        // Bytes after the last level are ignored, whether they are zeros, a whole run, or half a run.
        for behind in [&[0][..], &[3, 0xff], &[7]] {
            assert_eq!(check(&[&[8, 0], behind].concat(), 1, 4).unwrap(), behind);
        }
    }

    /// Most inputs have damage in one byte: a run has a level that is too high, or a packed run ends too
    /// early.
    #[test]
    fn levels_that_make_no_sense_do_not_count() {
        assert_eq!(count(&[8, 1, 8, 2], 1, 8), 4);
        assert_eq!(count(&[8, 3], 3, 4), 4);
        assert_eq!(count(&[3, 0], 3, 5), 0);
        assert_eq!(count(&[27, 0, 0], 1, 16), 0);
        assert_eq!(count(&[5, 0, 27, 0], 1, 24), 16);
        // The input has packed levels of two bits. The last of them is above 2, which is an error only if it
        // is counted.
        assert_eq!(count(&[3, 0b10_01_00_10, 0b11_10_00_01], 2, 8), 0);
        assert_eq!(count(&[3, 0b10_01_00_10, 0b11_10_00_01], 2, 7), 7);
        assert_eq!(count(&[3, 0b10_01_00_10, 0b11_10_00_01], 3, 8), 8);
    }

    #[test]
    fn levels_are_read_in_order() {
        for step in [1, 3, 100] {
            let read = |runs: &[u8], width, count| {
                let (mut levels, mut read) = (Levels::from_runs(runs, width, count), vec![9; count]);
                read.chunks_mut(step).for_each(|part| levels.read(part));
                read
            };
            let runs = [6, 2, 3, 0b11_10_01_00, 0b00_01_10_11, 4, 1];
            assert_eq!(read(&runs, 2, 13), [2, 2, 2, 0, 1, 2, 3, 3, 2, 1, 0, 1, 1]);
            // The first input has a group that is cut off. The second input has too few levels, and the
            // missing levels are read as zeros.
            assert_eq!(read(&[3, 0b11_10_01_00], 2, 4), [0, 1, 2, 3]);
            assert_eq!(read(&[4, 1], 2, 4), [1, 1, 0, 0]);
            // These inputs have levels of nine bits, first in a repeated run and then in a packed run, and
            // levels of fifteen bits in a packed run.
            assert_eq!(read(&[4, 0x2c, 1], 9, 2), [300, 300]);
            assert_eq!(read(&[3, 0x2c, 1, 0, 0, 0, 0, 0, 0, 0x80], 9, 8), [300, 0, 0, 0, 0, 0, 0, 256]);
            let packed = [&[3][..], &[0; 13], &[0xfe, 0xff]].concat();
            assert_eq!(read(&packed, 15, 8), [0, 0, 0, 0, 0, 0, 0, 0x7fff]);
        }
    }

    /// The levels are those of `list<struct<list<int32>>>`, in which everything is nullable. There is an item
    /// of the outer list from definition level 2 on, and an item of the inner list from level 5 on.
    #[test]
    fn a_list_goes_on_only_where_it_is() {
        let (optional, repeated) = (Repetition::OPTIONAL, Repetition::REPEATED);
        let path = [optional, repeated, optional, optional, repeated, optional];
        let runs = |levels: &[u8]| levels.iter().flat_map(|level| [2, *level]).collect::<Vec<u8>>();
        let check = |pages: &[(&[u8], &[u8])]| {
            let mut lists = ListLevels::from_path([2, 6], path.into_iter());
            pages.iter().all(|(repetition, definition)| {
                lists.check(&runs(repetition), &runs(definition), repetition.len(), &mut []).is_ok()
            })
        };
        for (repetition, definition, is_sound) in [
            (&[0, 0, 0, 1, 2, 1][..], &[0, 1, 2, 6, 5, 3][..], true),
            // No list can continue at the beginning of the first row, or after a null, an empty list, a null
            // item or an empty inner list.
            (&[1], &[6], false),
            (&[0, 1], &[0, 6], false),
            (&[0, 1], &[1, 6], false),
            (&[0, 2], &[2, 6], false),
            (&[0, 2], &[4, 6], false),
            // A list can continue only with an item, and only at a depth that exists.
            (&[0, 1], &[6, 1], false),
            (&[0, 2], &[6, 4], false),
            (&[0, 3], &[6, 6], false),
        ] {
            assert_eq!(check(&[(repetition, definition)]), is_sound, "{repetition:?} {definition:?}");
        }
        // A row may continue in the next page.
        assert!(check(&[(&[0, 1], &[6, 6]), (&[2, 0], &[6, 0])]));
        assert!(!check(&[(&[0], &[0]), (&[1], &[6])]));
        let mut lists = ListLevels::from_path([2, 6], path.into_iter());
        lists.skip();
        assert!(lists.check(&runs(&[1]), &runs(&[6]), 1, &mut []).is_ok(), "after a page that was left out");
    }

    /// In `struct<a, list<int32>>`, in which everything is nullable, the leaves `a` and `list` give the same
    /// hash of the structure's rows, however the rows are divided into pages.
    #[test]
    fn leaves_tell_the_same_of_the_structure_around_them() {
        let (optional, repeated) = (Repetition::OPTIONAL, Repetition::REPEATED);
        let runs = |levels: &[u8]| levels.iter().flat_map(|level| [2, *level]).collect::<Vec<u8>>();
        let shared = || vec![Outline::with_depth(Depth { repetition: 0, definition: 1 })];
        let flat = |pages: &[&[u8]]| {
            let mut outlines = shared();
            pages.iter().for_each(|page| outline(&runs(page), 2, page.len(), &mut outlines));
            outlines[0].digest()
        };
        let of_list = |pages: &[(&[u8], &[u8])]| {
            let (mut outlines, path) = (shared(), [optional, optional, repeated, optional]);
            let mut lists = ListLevels::from_path([1, 4], path.into_iter());
            for (repetition, definition) in pages {
                let (repeated, defined) = (runs(repetition), runs(definition));
                lists.check(&repeated, &defined, repetition.len(), &mut outlines).unwrap();
            }
            outlines[0].digest()
        };
        // The rows are a value, a null structure, a null field, and a value.
        let wanted = flat(&[&[2, 0, 1, 2]]);
        assert_eq!(flat(&[&[1, 0], &[2, 1]]), wanted);
        let list: (&[u8], &[u8]) = (&[0, 1, 1, 0, 0, 0], &[4, 3, 4, 0, 2, 1]);
        assert_eq!(of_list(&[list]), wanted);
        assert_eq!(of_list(&[(&[0, 1], &[4, 4]), (&[1, 0, 0, 0, 1], &[4, 0, 1, 4, 4])]), wanted);
        for other in [&[2, 1, 1, 2][..], &[0, 2, 1, 2], &[2, 0, 1], &[2, 0, 1, 2, 2]] {
            assert_ne!(flat(&[other]), wanted, "{other:?}");
        }
    }
}

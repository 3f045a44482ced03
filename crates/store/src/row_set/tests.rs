//! Compares sets of rows with plain lists of booleans.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Rows in random patterns, like those of filters and deletions: long runs, single rows, and noise.
fn chosen() -> impl Strategy<Value = Vec<bool>> {
    let stretch = prop_oneof![
        (any::<bool>(), 1usize..900).prop_map(|(value, length)| vec![value; length]),
        (2usize..5, 1usize..900).prop_map(|(step, length)| (0..length).map(|at| at % step == 0).collect()),
        vec(any::<bool>(), 1..300),
    ];
    vec(stretch, 0..6).prop_map(|stretches| stretches.concat())
}

fn listed(set: &RowSet) -> Vec<u32> {
    set.runs(0..set.count()).flatten().collect()
}

fn list(chosen: &[bool]) -> Vec<u32> {
    (0..chosen.len() as u32).filter(|&row| chosen[row as usize]).collect()
}

fn set(chosen: &[bool]) -> RowSet {
    RowSet::from_bits(&chosen.to_vec().into())
}

proptest! {
    #[test]
    fn a_set_is_read_as_it_was_written(chosen in chosen(), cut in 0usize..64) {
        let set = set(&chosen);
        let mut bytes = Vec::new();
        set.write(&mut bytes);
        let length = bytes.len();
        bytes.push(7);
        let mut rest = &bytes[..];
        prop_assert_eq!(RowSet::read(&mut rest, set.rows()), Some(set.clone()));
        prop_assert_eq!(rest, &[7]);
        let mut short = &bytes[..cut.min(length - 1)];
        prop_assert!(RowSet::read(&mut short, set.rows()).is_none());
    }

    #[test]
    fn sets_are_intersected_and_united_as_their_lists_are(one in chosen(), other in chosen()) {
        let rows = one.len().min(other.len());
        let (one, other) = (&one[..rows], &other[..rows]);
        let both: Vec<bool> = one.iter().zip(other).map(|(one, other)| *one && *other).collect();
        let either: Vec<bool> = one.iter().zip(other).map(|(one, other)| *one || *other).collect();
        prop_assert_eq!(set(one).intersection(&set(other)), set(&both));
        prop_assert_eq!(set(one).union(&set(other)), set(&either));
    }

    #[test]
    fn a_set_holds_the_rows_of_its_list(chosen in chosen()) {
        let (set, list) = (set(&chosen), list(&chosen));
        prop_assert_eq!(set.count() as usize, list.len());
        prop_assert_eq!(&listed(&set), &list);
        for (ordinal, &row) in list.iter().enumerate() {
            prop_assert_eq!(set.select(ordinal as u32), row);
        }
        for row in 0..=chosen.len() as u32 + 2 {
            prop_assert_eq!(set.rank(row) as usize, list.partition_point(|&have| have < row));
        }
        let complement: Vec<u32> = (0..chosen.len() as u32).filter(|row| !list.contains(row)).collect();
        prop_assert_eq!(listed(&set.complement()), complement);
    }

    #[test]
    fn a_set_is_the_same_however_it_is_made(chosen in chosen()) {
        let (set, list) = (set(&chosen), list(&chosen));
        let rows = chosen.len() as u32;
        prop_assert_eq!(&RowSet::from_runs(rows, list.iter().map(|&row| row..row + 1)), &set);
        prop_assert_eq!(&set.complement().complement(), &set);
        prop_assert_eq!(&RowSet::all(rows).compose(&set), &set);
    }

    #[test]
    fn slices_and_selections_are_those_of_the_list(
        chosen in chosen(),
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
    ) {
        let (set, list) = (set(&chosen), list(&chosen));
        let (from, to) = (from.index(list.len() + 1), to.index(list.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        let runs: Vec<Range<u32>> = set.runs(from as u32..to as u32).collect();
        prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", runs);
        prop_assert_eq!(runs.into_iter().flatten().collect::<Vec<_>>(), list[from..to].to_vec());
        let rows = match set.selection(from as u32..to as u32) {
            Some(selection) => {
                let mut at = 0;
                let mut rows = Vec::new();
                for part in selection.iter() {
                    if !part.skip {
                        rows.extend(at..at + part.row_count as u32);
                    }
                    at += part.row_count as u32;
                }
                rows
            }
            None => (0..chosen.len() as u32).collect(),
        };
        prop_assert_eq!(rows, list[from..to].to_vec());
    }

    #[test]
    fn a_choice_among_chosen_rows_is_that_of_the_lists(chosen in chosen(), seed in any::<u64>()) {
        let (outer, list) = (set(&chosen), list(&chosen));
        let inner: Vec<bool> = (0..list.len() as u64).map(|at| (seed ^ (at * at)) % 3 > 0).collect();
        let composed = outer.compose(&set(&inner));
        let expected: Vec<u32> = list.iter().zip(&inner).filter(|(_, wanted)| **wanted).map(|(&row, _)| row).collect();
        prop_assert_eq!(listed(&composed), expected);
        prop_assert_eq!(composed.rows() as usize, chosen.len());
    }

    #[test]
    fn rows_within_a_range_are_counted_from_its_start(chosen in chosen(), from in 0u32..2000, length in 0u32..2000) {
        let within = set(&chosen).within(from..from + length);
        let list = list(&chosen).into_iter().filter(|row| (from..from + length).contains(row));
        prop_assert_eq!(listed(&within), list.map(|row| row - from).collect::<Vec<_>>());
        prop_assert_eq!(within.rows(), length);
        let again = RowSet::from_runs(length, within.runs(0..within.count()));
        prop_assert_eq!(again, within, "in another form");
    }

    /// A set does not take much more memory than the smaller of its two forms, runs and bitmap.
    #[test]
    fn a_set_takes_the_smaller_form(chosen in chosen()) {
        let set = set(&chosen);
        let runs = set.runs(0..set.count()).count() as u64 * size_of::<runs::RowRun>() as u64;
        prop_assert!(set.bytes() <= runs.min(bitmap::bytes(set.rows())));
    }
}

#[test]
fn every_second_row_takes_a_bit_and_the_directory() {
    let rows = 10_000_000u32;
    let set = RowSet::from_runs(rows, (0..rows).step_by(2).map(|row| row..row + 1));
    assert_eq!(set.count(), rows / 2);
    let bits = u64::from(rows).div_ceil(8);
    assert!(set.bytes() <= bits + bits / 16 + 16, "{}", set.bytes());
    assert_eq!((set.select(1_234_567), set.rank(2_469_134)), (2_469_134, 1_234_567));
    assert_eq!(set.runs(4_999_999..5_000_000).next(), Some(9_999_998..9_999_999));
}

#[test]
fn all_rows_no_rows_and_few_runs_take_next_to_nothing() {
    let rows = u32::MAX;
    assert_eq!(RowSet::all(rows).bytes() + RowSet::none(rows).bytes(), 0);
    let half = RowSet::from_runs(rows, std::iter::once(0..rows / 2));
    assert_eq!(half.bytes(), 8);
    let (last, rest) = (rows - 1, half.complement());
    assert_eq!((half.rank(rows), rest.select(0), rest.rank(last)), (rows / 2, rows / 2, last - rows / 2));
}

#[test]
fn a_set_over_no_rows_is_empty_and_complete() {
    let none = RowSet::none(0);
    assert!(none.is_all() && none.count() == 0 && none == RowSet::all(0));
    assert!(none.selection(0..0).is_none());
}

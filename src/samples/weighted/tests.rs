//! Tests samples by weight: which options are refused, and how often the rows of random populations are
//! drawn.

use forebay_store::row_set::RowSet;
use proptest::prelude::*;

use super::*;
use crate::samples::{SampleIndex, SampleRows};
use crate::shard::Part;

/// Counts how often each row of each row group is drawn in an epoch. Checks that the repeats of a row are
/// numbered in order.
fn times(index: &SampleIndex, epoch: u64) -> Vec<Vec<u32>> {
    let samples = index.of_epoch(epoch);
    let counts = samples.counts.iter().enumerate();
    let of_group = |(group, count): (usize, &u32)| {
        let part = Part { group: group as u32, start: 0, rows: *count };
        let drawn = samples.samples_of(&part).unwrap();
        let mut times = vec![0; samples.decoded(&part).rows as usize];
        let mut rows = SampleRows::default();
        for sample in 0..*count {
            rows.clear();
            drawn.rows(sample, &mut rows);
            let [row] = rows.rows[..] else { panic!("a sample is a row") };
            assert_eq!(rows.repeats, [times[row as usize]], "repeats of a row are counted in order");
            times[row as usize] += 1;
        }
        times
    };
    counts.map(of_group).collect()
}

fn index(sample: &Sample, classes: usize, numbers: Vec<Vec<u32>>) -> SampleIndex {
    let rows = numbers.iter().map(|numbers| RowSet::all(numbers.len() as u32)).collect();
    let classes = (0..classes).map(|class| Class::from(class as i64)).collect();
    let (population, _) = Population::new(sample, ColumnValues { classes, numbers }).unwrap();
    SampleIndex::drawn(population, 17, rows)
}

/// Makes random row groups whose rows have up to four classes.
fn classes() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(0u32..4, 0..40), 1..8)
        .prop_filter("a row", |groups| groups.iter().any(|rows| !rows.is_empty()))
}

/// The draws of classes without replacement. Each class has a share and a number of rows: its draws rise with
/// the level of all classes, in proportion to its share, until all of its rows are drawn.
fn draws_at_a_level(classes: &[(f64, f64)], rows: f64) -> Vec<f64> {
    let draws = |level: f64| classes.iter().map(move |(share, rows)| (level * share).min(*rows));
    let (mut low, mut high) = (0.0, 1.0);
    while high < 1e12 && draws(high).sum::<f64>() < rows {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if draws(middle).sum::<f64>() < rows { low = middle } else { high = middle }
    }
    draws(high).collect()
}

fn count(numbers: &[Vec<u32>], class: u32) -> u64 {
    numbers.iter().flatten().filter(|number| **number == class).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_and_classes_come_as_often_as_their_weights_say(
        numbers in classes(),
        weights in prop::collection::vec(0.01f64..9.0, 4),
        rows in 1u64..400,
        epoch in 0u64..3,
    ) {
        let there = (0..4).filter(|class| count(&numbers, *class) > 0);
        let weighted = there.map(|class| (Class::from(i64::from(class)), weights[class as usize]));
        let sample = Sample::classes("x", weighted.collect::<Vec<_>>()).others(0.0).rows(rows);
        let index = index(&sample, 4, numbers.clone());
        let times = times(&index, epoch);
        let drawn: u64 = times.iter().flatten().map(|times| u64::from(*times)).sum();
        prop_assert_eq!((drawn, index.total()), (rows, rows));
        let all: f64 = (0..4).map(|class| count(&numbers, class) as f64 * weights[class as usize]).sum();
        for class in 0..4 {
            let of_class = |(row, times): (&u32, &u32)| (*row == class).then_some(*times);
            let of_group = |(rows, times): (&Vec<u32>, &Vec<u32>)| -> Vec<u32> {
                rows.iter().zip(times).filter_map(of_class).collect()
            };
            let found: Vec<Vec<u32>> = numbers.iter().zip(&times).map(of_group).collect();
            let draws: u32 = found.iter().flatten().sum();
            let there = count(&numbers, class) as f64;
            let expected = rows as f64 * there * weights[class as usize] / all;
            prop_assert!((f64::from(draws) - expected).abs() < 1.0001, "{} of {}", draws, expected);
            for of_group in found {
                let expected = f64::from(draws) * of_group.len() as f64 / there.max(1.0);
                prop_assert!((f64::from(of_group.iter().sum::<u32>()) - expected).abs() < 1.0001);
                let each = f64::from(draws) / there.max(1.0);
                prop_assert!(of_group.iter().all(|times| (f64::from(*times) - each).abs() < 1.0001));
            }
        }
        for (group, times) in times.iter().enumerate() {
            let draws: u32 = times.iter().sum();
            prop_assert!((index.least()[group]..=index.most()[group]).contains(&draws));
        }
    }

    #[test]
    fn without_replacement_no_row_comes_twice(
        numbers in classes(),
        share in 0.01f64..1.0,
        epoch in 0u64..3,
        balanced in any::<bool>(),
    ) {
        let there: usize = numbers.iter().map(Vec::len).sum();
        let rows = ((there as f64 * share) as u64).max(1);
        let given = [(0, 1.0), (1, 7.0), (2, 0.3), (3, 90.0)];
        let sample = if balanced { Sample::balanced("x") } else { Sample::classes("x", given).others(1.0) };
        let index = index(&sample.replacement(false).rows(rows), 4, numbers.clone());
        let times = times(&index, epoch);
        prop_assert!(times.iter().flatten().all(|times| *times <= 1));
        prop_assert_eq!(u64::from(times.iter().flatten().sum::<u32>()), rows);
        let of_class = |class: u32| count(&numbers, class) as f64;
        let share = |class: u32| match (balanced, of_class(class) > 0.0) {
            (_, false) => 0.0,
            (true, _) => 1.0,
            (false, _) => of_class(class) * given[class as usize].1,
        };
        let expected = draws_at_a_level(&[0, 1, 2, 3].map(|class| (share(class), of_class(class))), rows as f64);
        for class in 0..4 {
            let pairs = numbers.iter().flatten().zip(times.iter().flatten());
            let draws: u32 = pairs.filter(|(of, _)| **of == class).map(|(_, times)| times).sum();
            let expected = expected[class as usize];
            prop_assert!((f64::from(draws) - expected).abs() < 1.0001, "{} of {}", draws, expected);
        }
    }

    #[test]
    fn weights_of_rows_are_kept_to_within_one(
        weights in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0f32), 0.001f32..5.0], 0..30), 1..8),
        rows in 1u64..300,
        replacement in any::<bool>(),
        epoch in 0u64..3,
    ) {
        let there = weights.iter().flatten().filter(|weight| **weight > 0.0).count() as u64;
        prop_assume!(there > 0 && (replacement || rows <= there));
        let bits = |rows: &Vec<f32>| rows.iter().map(|weight| weight.to_bits()).collect();
        let sample = Sample::weights("x").rows(rows).replacement(replacement);
        let times = times(&index(&sample, 0, weights.iter().map(bits).collect()), epoch);
        prop_assert_eq!(u64::from(times.iter().flatten().sum::<u32>()), rows);
        let all: f64 = weights.iter().flatten().map(|weight| f64::from(*weight)).sum();
        for (weight, times) in weights.iter().flatten().zip(times.iter().flatten()) {
            let expected = f64::from(*weight) / all * rows as f64;
            prop_assert!(*weight > 0.0 || *times == 0);
            match replacement {
                true => prop_assert!((f64::from(*times) - expected).abs() < 1.001, "{} of {}", times, expected),
                false => prop_assert!(*times <= 1),
            }
        }
    }
}

#[test]
fn rows_come_exactly_as_often_as_their_weights_say_on_average() {
    let weights = [[1f32, 2.0, 0.5], [4.0, 0.25, 0.25]];
    let index = index(
        &Sample::weights("x").rows(5),
        0,
        weights.iter().map(|rows| rows.iter().map(|weight| weight.to_bits()).collect()).collect(),
    );
    let mut sums = [[0u32; 3]; 2];
    for epoch in 0..4_000 {
        for (sums, times) in sums.iter_mut().zip(times(&index, epoch)) {
            sums.iter_mut().zip(times).for_each(|(sum, times)| *sum += times);
        }
    }
    for (sum, weight) in sums.iter().flatten().zip(weights.iter().flatten()) {
        let expected = f64::from(*weight) * 5.0 / 8.0;
        // The standard error of the average is below 0.008, a fifth of what is allowed.
        assert!((f64::from(*sum) / 4_000.0 - expected).abs() < 0.04, "{sum} for {weight}");
    }
}

/// Tests that two neighbours can both be drawn. If rows were laid end to end in stored order, points at equal
/// distances could never fall on both.
#[test]
fn any_two_rows_may_come_together() {
    let index = index(&Sample::balanced("x").rows(4), 1, vec![vec![0; 8]]);
    let mut together = 0;
    for epoch in 0..1_000 {
        let times = &times(&index, epoch)[0];
        together += u32::from(times[0] + times[1] == 2);
    }
    // If 4 of 8 rows are drawn uniformly, two given rows are both drawn in 3 of 14 epochs.
    assert!((170..260).contains(&together), "{together}");
}

#[test]
fn balanced_classes_without_replacement_have_the_rows_of_the_rarest() {
    let numbers = vec![vec![0; 50], vec![1; 7], vec![0, 0, 2, 2, 2, 1]];
    let index = index(&Sample::balanced("x").replacement(false), 3, numbers);
    assert_eq!(index.total(), 9);
    let times = times(&index, 4);
    assert_eq!(times[2][2..5], [1, 1, 1]);
    assert_eq!(times[1].iter().sum::<u32>() + times[2][5], 3);
}

/// Draw `repeat` of the `times` draws of a row lies at `(repeat + row / rows) / times` of its row group.
#[test]
fn the_draws_of_a_row_are_spread_over_its_row_group() {
    let rare_and_common = (0..30).map(|row| u32::from(row % 10 == 3)).collect();
    let index = index(&Sample::balanced("x"), 2, vec![rare_and_common]);
    for epoch in 0..4 {
        let rows_of_sample = |sample: u32| {
            let mut rows = SampleRows::default();
            let part = Part { group: 0, start: 0, rows: 30 };
            index.of_epoch(epoch).samples_of(&part).unwrap().rows(sample, &mut rows);
            (rows.rows[0], rows.repeats[0])
        };
        let drawn: Vec<(u32, u32)> = (0..30).map(rows_of_sample).collect();
        let times = &times(&index, epoch)[0];
        assert!(times[3] > 2, "a rare row comes several times: {times:?}");
        let place = |(row, repeat): (u32, u32)| (repeat * 30 + row, times[row as usize]);
        let is_before = |one: (u32, u32), other: (u32, u32)| one.0 * other.1 <= other.0 * one.1;
        assert!(drawn.windows(2).all(|pair| is_before(place(pair[0]), place(pair[1]))), "{drawn:?}");
    }
}

#[test]
fn kept_numbers_without_a_class_are_damage() {
    let values = |classes: i64, numbers: Vec<u32>| ColumnValues {
        classes: (0..classes).map(Class::from).collect(),
        numbers: vec![vec![0], numbers],
    };
    assert!(values(2, vec![1, 0]).is_whole() && !values(2, vec![1, 2]).is_whole());
    assert!(values(0, vec![7]).is_whole(), "numbers are weights if there are no classes");
}

#[test]
fn what_an_epoch_draws_never_changes() {
    let numbers = (0..5).map(|group| (0..40).map(|row| (row * row + group) % 7 % 3).collect()).collect();
    let index = index(&Sample::balanced("x"), 3, numbers);
    let hash = |epoch: u64| {
        let times = times(&index, epoch);
        times.iter().flatten().fold(0u64, |hash, times| hash.wrapping_mul(31).wrapping_add(u64::from(*times)))
    };
    assert_eq!([hash(0), hash(1), hash(2)], GOLDEN);
}

const GOLDEN: [u64; 3] = [14589961328737287236, 7211971366896717372, 1536978061969254238];

#[test]
fn a_sample_that_can_never_be_is_refused() {
    let none: [(i64, f64); 0] = [];
    for (sample, said) in [
        (Sample::weights("w").rows(0), "a sample of 0 rows"),
        (Sample::classes("x", none), "needs a class with a weight"),
        (Sample::classes("x", [(1, 1.0), (1, 2.0)]), "class 1 has two weights"),
        (Sample::classes("x", [("a", -1.0)]), "class \"a\" is -1"),
        (Sample::classes("x", [("a", f64::NAN)]), "NaN"),
        (Sample::classes("x", [("a", 1.0)]).others(f64::INFINITY), "other classes is inf"),
        (Sample::classes("x", [("a", 0.0)]), "all classes have weight 0"),
    ] {
        let error = sample.check().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    Sample::classes("x", none).others(1.0).check().unwrap();
}

#[test]
fn a_sample_is_read_as_it_was_written() {
    for sample in [
        Sample::weights("w").rows(9),
        Sample::balanced("x").replacement(false).seed(3),
        Sample::classes("x", [(Class::from("a"), 1.5), (Class::from(7), 0.0)]).others(2.0),
    ] {
        let text = serde_json::to_string(&sample).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample, "{text}");
    }
}

//! Makes rows without pictures: a table like Criteo's click logs, and token lists.

use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, Float32Array, Int32Array, ListArray, RecordBatch};
use forebay_arrow::buffer::{OffsetBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{DataType, Field, Schema};
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use rayon::prelude::*;

use crate::random::Random;

/// The share of nulls in each of the 13 columns of numbers in Criteo's logs.
const NULLS: [f32; 13] = [0.45, 0.0, 0.21, 0.22, 0.03, 0.22, 0.04, 0.0005, 0.04, 0.45, 0.04, 0.76, 0.22];
/// The number of different values in each of the 26 columns of categories in Criteo's logs.
const CARDINALITIES: [u32; 26] = [
    1_460, 583, 8_000_000, 2_000_000, 305, 24, 12_517, 633, 3, 93_145, 5_683, 7_000_000, 3_194, 27, 14_992,
    5_000_000, 10, 5_652, 2_173, 4, 6_500_000, 18, 15, 286_181, 105, 142_572,
];
/// The number of words that the GPT-2 tokeniser knows.
const VOCABULARY: u32 = 50_257;
/// The share of tokens that follow from the token before, so that a model can learn something.
const PREDICTABLE: f32 = 0.5;

/// The schema of the table.
pub(super) fn click_schema() -> Schema {
    let label = std::iter::once(Field::new("label", DataType::Int32, false));
    let numbers = (1..=NULLS.len()).map(|i| Field::new(format!("I{i}"), DataType::Float32, true));
    let categories = (1..=CARDINALITIES.len()).map(|i| Field::new(format!("C{i}"), DataType::Int32, false));
    Schema::new(label.chain(numbers).chain(categories).collect::<Vec<_>>())
}

/// Rows `first..first + rows` of the table.
pub(super) fn clicks(seed: u64, first: u64, rows: usize, schema: &Arc<Schema>) -> Result<RecordBatch> {
    let columns = 1 + NULLS.len() + CARDINALITIES.len();
    let arrays: Vec<ArrayRef> = (0..columns)
        .into_par_iter()
        .map(|column| -> ArrayRef {
            let mut random = Random::new(seed.wrapping_add(column as u64), first);
            match column.checked_sub(1) {
                None => Arc::new(labels(seed, first, rows)),
                Some(i) if i < NULLS.len() => Arc::new(numbers(&mut random, rows, NULLS[i])),
                Some(i) => Arc::new(categories(&mut random, rows, CARDINALITIES[i - NULLS.len()])),
            }
        })
        .collect();
    RecordBatch::try_new(schema.clone(), arrays).or_fail()
}

/// Makes labels, of which about a quarter are clicks (1). A click is likelier if column `I2`, which has no
/// nulls, holds a large number.
fn labels(seed: u64, first: u64, rows: usize) -> Int32Array {
    const SECOND: u64 = 2;
    const LARGE_VALUE: f32 = 10.0;
    let mut number = Random::new(seed.wrapping_add(SECOND), first);
    let mut chance = Random::new(seed ^ u64::MAX, first);
    (0..rows)
        .map(|_| {
            let large = heavy_tailed(&mut number) > LARGE_VALUE;
            // `numbers` draws a second number for each value of `I2`, to decide whether it is null. It is
            // drawn here too, so that both streams stay in step.
            number.unit();
            i32::from(chance.chance(if large { 0.45 } else { 0.12 }))
        })
        .collect()
}

fn numbers(random: &mut Random, rows: usize, nulls: f32) -> Float32Array {
    (0..rows)
        .map(|_| {
            let value = heavy_tailed(random);
            (!random.chance(nulls)).then_some(value)
        })
        .collect()
}

/// Draws whole numbers with a long tail from a log-normal distribution.
fn heavy_tailed(random: &mut Random) -> f32 {
    const MEAN: f32 = 2.0;
    const SPREAD: f32 = 1.5;
    // The sum of twelve uniform numbers would be closer to a normal distribution. Three are faster, and `exp`
    // makes the tail long anyway.
    let bell = 2.0 * (random.unit() + random.unit() + random.unit() - 1.5);
    (MEAN + SPREAD * bell).exp().floor()
}

fn categories(random: &mut Random, rows: usize, cardinality: u32) -> Int32Array {
    (0..rows).map(|_| common_first(random, cardinality)).collect()
}

/// Draws a value from 0 to `n - 1`. The probability of value `v` is about proportional to 1 / (v + 1): a few
/// values are common and most are rare, as with words and products.
fn common_first(random: &mut Random, n: u32) -> i32 {
    ((n as f32 + 1.0).powf(random.unit()) as i32 - 1).clamp(0, n as i32 - 1)
}

/// The schema of token lists.
pub(super) fn token_schema() -> Schema {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    Schema::new(vec![Field::new("tokens", DataType::List(item), false)])
}

/// Makes the lists `first..first + rows`, each of `length` tokens.
pub(super) fn tokens(
    seed: u64,
    first: u64,
    rows: usize,
    length: usize,
    schema: &Arc<Schema>,
) -> Result<RecordBatch> {
    let values: Vec<i32> = (first..first + rows as u64)
        .into_par_iter()
        .flat_map_iter(|row| {
            let mut random = Random::new(seed, row);
            let mut token = common_first(&mut random, VOCABULARY);
            (0..length).map(move |_| {
                token = if random.chance(PREDICTABLE) {
                    follower(token)
                } else {
                    common_first(&mut random, VOCABULARY)
                };
                token
            })
        })
        .collect();
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let offsets = OffsetBuffer::from_repeated_length(length, rows);
    let values = Arc::new(Int32Array::new(ScalarBuffer::from(values), None));
    let list = ListArray::try_new(item, offsets, values, None).or_fail()?;
    RecordBatch::try_new(schema.clone(), vec![Arc::new(list)]).or_fail()
}

/// The token that comes most often after `token`.
fn follower(token: i32) -> i32 {
    const STRIDE: u32 = 31;
    ((token as u32 * STRIDE + 7) % VOCABULARY) as i32
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Array, AsArray};
    use forebay_arrow::datatypes::{Float32Type, Int32Type};

    use super::*;

    #[test]
    fn a_table_has_the_shape_of_click_logs() {
        let schema = Arc::new(click_schema());
        let batch = clicks(1, 0, 20_000, &schema).unwrap();
        assert_eq!(batch.num_columns(), 40);
        let nulls = batch.column_by_name("I12").unwrap().null_count() as f32 / 20_000.0;
        assert!((nulls - 0.76).abs() < 0.02, "{nulls}");
        let labels = batch["label"].as_primitive::<Int32Type>();
        let clicked = labels.values().iter().sum::<i32>() as f32 / 20_000.0;
        assert!((0.2..0.32).contains(&clicked), "{clicked}");
    }

    #[test]
    fn a_label_follows_from_a_number() {
        let schema = Arc::new(click_schema());
        let batch = clicks(1, 0, 20_000, &schema).unwrap();
        let (labels, numbers) =
            (batch["label"].as_primitive::<Int32Type>(), batch["I2"].as_primitive::<Float32Type>());
        let rate = |large: bool| {
            let chosen: Vec<i32> = (0..labels.len())
                .filter(|&i| (numbers.value(i) > 10.0) == large)
                .map(|i| labels.value(i))
                .collect();
            chosen.iter().sum::<i32>() as f32 / chosen.len() as f32
        };
        assert!(rate(true) > 2.0 * rate(false), "{} {}", rate(true), rate(false));
    }

    #[test]
    fn token_lists_have_one_length() {
        let schema = Arc::new(token_schema());
        let batch = tokens(1, 10, 3, 5, &schema).unwrap();
        let list = batch["tokens"].as_list::<i32>();
        assert_eq!((list.len(), list.value(2).len()), (3, 5));
        assert_eq!(batch.slice(2, 1), tokens(1, 12, 1, 5, &schema).unwrap());
    }
}

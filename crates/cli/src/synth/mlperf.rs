//! Rows in the shapes that MLPerf Storage v3.0 publishes for its Parquet workloads.
//!
//! Columns, types and lengths are those of `configs/dlio/workload/{flux,dlrm}_b200.yaml` in
//! github.com/mlcommons/storage. Its generator fills every column with random numbers, stores columns of
//! several numbers as lists of fixed length, declares columns nullable but writes no nulls, and leaves
//! dictionaries to the writer's defaults. This module does the same. The distribution of the numbers is not
//! published: here their mantissas are random.

use std::sync::Arc;

use forebay_arrow::array::{ArrayRef, FixedSizeListArray, Int8Array, PrimitiveArray, RecordBatch};
use forebay_arrow::buffer::{Buffer, ScalarBuffer};
use forebay_arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, FieldRef, Float16Type, Float32Type, Float64Type, Schema,
};
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use rayon::prelude::*;

use crate::random::Random;

/// The columns of a sample of Flux and how many float32 each holds. Flux trains on the outputs of frozen
/// encoders.
const EMBEDDINGS: [(&str, usize); 5] = [
    ("t5_encodings", 524_328),
    ("clip_encodings", 409),
    ("mean", 8_232),
    ("logvar", 8_232),
    ("timestamp", 7),
];

/// The types of the columns `feature_000` to `feature_199` of DLRM: `b` is int8; `h`, `f` and `d` are floats
/// of 16, 32 and 64 bits. Training reads the columns in capitals; the others are only stored.
const FEATURES: &str = "\
    hhddfhfbhbfFdfbhfFFhDdddhFfhhfdFdfhhdbbbhFhFdbdddF\
    fbbFffbfHFdhdbfhbFHfhFhfFDhbfdbbffhbhbFbFFHFDdFHbh\
    hdhfdhhfdfddbhhbBDfbhhbbbhbbfbhfdhhdhFddhFbbdfdFdd\
    bbbdDFfbFhFhFhdhdhfBdhbdbbbbhhBdddhdBbhFdbdfdFfddh";

/// The size of a sample of Flux, in bytes.
pub(crate) const EMBEDDING_BYTES: u64 = 2_164_832;
/// The size in bytes of the columns that training reads in a row of DLRM.
pub(crate) const FEATURE_BYTES: u64 = 160;

/// Returns the bit pattern of a random float that is at least 1 and less than 2.
fn one_to_two(random: u64, exponent: u64, mantissa_bits: u32) -> u64 {
    exponent << mantissa_bits | random >> (u64::BITS - mantissa_bits)
}

fn half(random: &mut Random) -> u16 {
    one_to_two(random.bits(), 0xf, 10) as u16
}

fn single(random: &mut Random) -> u32 {
    one_to_two(random.bits(), 0x7f, 23) as u32
}

fn double(random: &mut Random) -> u64 {
    one_to_two(random.bits(), 0x3ff, 52)
}

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Float32, true))
}

/// The schema of Flux.
pub(super) fn embedding_schema() -> Schema {
    let list = |length: usize| DataType::FixedSizeList(item(), length as i32);
    Schema::new(EMBEDDINGS.map(|(name, length)| Field::new(name, list(length), true)).to_vec())
}

/// Samples `first..first + rows` of Flux.
pub(super) fn embeddings(seed: u64, first: u64, rows: usize, schema: &Arc<Schema>) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = EMBEDDINGS
        .iter()
        .zip(1..)
        .map(|(&(_, length), column)| -> Result<ArrayRef> {
            let values: Vec<u32> = (first..first + rows as u64)
                .into_par_iter()
                .flat_map_iter(|row| {
                    let mut random = Random::new(seed.wrapping_add(column), row);
                    (0..length).map(move |_| single(&mut random))
                })
                .collect();
            let values = numbers::<Float32Type>(Buffer::from_vec(values), rows * length);
            Ok(Arc::new(
                FixedSizeListArray::try_new(item(), length as i32, Arc::new(values), None).or_fail()?,
            ))
        })
        .collect::<Result<_>>()?;
    RecordBatch::try_new(schema.clone(), columns).or_fail()
}

/// The schema of DLRM.
pub(super) fn feature_schema() -> Schema {
    let field = |(at, letter): (usize, char)| {
        let data_type = match letter.to_ascii_lowercase() {
            'b' => DataType::Int8,
            'h' => DataType::Float16,
            'f' => DataType::Float32,
            _ => DataType::Float64,
        };
        Field::new(feature(at), data_type, true)
    };
    Schema::new(FEATURES.chars().enumerate().map(field).collect::<Vec<_>>())
}

/// The columns of DLRM that training reads.
pub(crate) fn features_read() -> Vec<String> {
    let read = FEATURES.chars().enumerate().filter(|(_, letter)| letter.is_ascii_uppercase());
    read.map(|(at, _)| feature(at)).collect()
}

fn feature(at: usize) -> String {
    format!("feature_{at:03}")
}

/// Rows `first..first + rows` of DLRM.
pub(super) fn features(seed: u64, first: u64, rows: usize, schema: &Arc<Schema>) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = schema
        .fields()
        .par_iter()
        .enumerate()
        .map(|(column, field)| -> ArrayRef {
            let mut random = Random::new(seed.wrapping_add(column as u64), first);
            match field.data_type() {
                DataType::Int8 => Arc::new((0..rows).map(|_| random.bits() as i8).collect::<Int8Array>()),
                DataType::Float16 => Arc::new(numbers::<Float16Type>(drawn(rows, &mut random, half), rows)),
                DataType::Float32 => Arc::new(numbers::<Float32Type>(drawn(rows, &mut random, single), rows)),
                _ => Arc::new(numbers::<Float64Type>(drawn(rows, &mut random, double), rows)),
            }
        })
        .collect();
    RecordBatch::try_new(schema.clone(), columns).or_fail()
}

fn drawn<T: forebay_arrow::datatypes::ArrowNativeType>(
    rows: usize,
    random: &mut Random,
    draw: fn(&mut Random) -> T,
) -> Buffer {
    Buffer::from_vec((0..rows).map(|_| draw(random)).collect())
}

/// Makes an array of numbers from their bit patterns.
fn numbers<T: ArrowPrimitiveType>(patterns: Buffer, length: usize) -> PrimitiveArray<T> {
    PrimitiveArray::new(ScalarBuffer::new(patterns, 0, length), None)
}

#[cfg(test)]
mod tests {
    use forebay_arrow::array::{Array, AsArray};

    use super::*;

    #[test]
    fn samples_have_the_published_sizes() {
        let floats: usize = EMBEDDINGS.iter().map(|(_, length)| length).sum();
        assert_eq!(floats as u64 * 4, EMBEDDING_BYTES);
        let width = |letter: char| match letter.to_ascii_lowercase() {
            'b' => 1,
            'h' => 2,
            'f' => 4,
            'd' => 8,
            other => panic!("{other:?} is no type"),
        };
        assert_eq!(FEATURES.len(), 200);
        assert_eq!(FEATURES.chars().map(width).sum::<u64>(), 761);
        let read = FEATURES.chars().filter(char::is_ascii_uppercase);
        assert_eq!(read.map(width).sum::<u64>(), FEATURE_BYTES);
        assert_eq!(features_read()[..2], ["feature_011", "feature_017"]);
    }

    #[test]
    fn columns_are_random_numbers_of_their_types() {
        let schema = Arc::new(feature_schema());
        let batch = features(1, 0, 500, &schema).unwrap();
        let halves = batch["feature_000"].as_primitive::<Float16Type>();
        assert!(halves.values().iter().all(|value| (1.0..2.0).contains(&value.to_f32())));
        let doubles = batch["feature_002"].as_primitive::<Float64Type>();
        let mean = doubles.values().iter().sum::<f64>() / 500.0;
        assert!((mean - 1.5).abs() < 0.05, "{mean}");
        assert_eq!(batch, features(1, 0, 500, &schema).unwrap());
        assert_ne!(batch, features(2, 0, 500, &schema).unwrap());
    }

    #[test]
    fn embeddings_are_lists_of_fixed_length() {
        let schema = Arc::new(embedding_schema());
        let batch = embeddings(1, 4, 2, &schema).unwrap();
        let lists = batch["clip_encodings"].as_fixed_size_list();
        assert_eq!((lists.len(), lists.value_length(), lists.null_count()), (2, 409, 0));
        let values = lists.value(0);
        assert!(values.as_primitive::<Float32Type>().values().iter().all(|v| (1.0..2.0).contains(v)));
        assert_eq!(batch.slice(1, 1), embeddings(1, 5, 1, &schema).unwrap());
    }
}

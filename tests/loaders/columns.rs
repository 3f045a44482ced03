//! Columns of every width, and what the footer says about a column.

use std::fs::File;
use std::sync::Arc;

use forebay::arrow::array::*;
use forebay::arrow::buffer::Buffer;
use forebay::arrow::compute::interleave;
use forebay::arrow::datatypes::{DataType, TimeUnit, i256};
use forebay::rows::{Selection, gather};
use forebay::{Dataset, Shuffle};
use parquet::data_type::{FixedLenByteArrayType, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

/// Gathering every type of fixed width, with nulls, from slices, and with every form of selection, gives the
/// result of Arrow's `interleave`.
#[test]
fn values_of_every_width_are_gathered_with_their_nulls() {
    let types = [
        DataType::Int8,
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt16,
        DataType::Float16,
        DataType::Int32,
        DataType::UInt32,
        DataType::Float32,
        DataType::Date32,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Int64,
        DataType::UInt64,
        DataType::Float64,
        DataType::Date64,
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
        DataType::Duration(TimeUnit::Microsecond),
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, 4),
        DataType::Decimal128(38, 10),
        DataType::Decimal256(76, 20),
    ];
    let numbers =
        |from: i64| Int64Array::from_iter((from..from + 300).map(|n| (n % 5 != 1).then_some(n % 100)));
    let sources = [numbers(0), numbers(1_000), Int64Array::from_iter_values((0..300).map(|n| n % 90))];
    let selections: [Vec<(u32, u32)>; 4] = [
        (0..250).map(|at| (at % 3, at * 7 % 250)).collect(),
        (0..250).map(|row| (1, row)).chain((3..40).map(|row| (2, row))).collect(),
        (0..500).map(|at| (at / 250, at * 77 % 250)).collect(),
        vec![(2, 0), (2, 9)],
    ];
    for data_type in types {
        let columns: Vec<ArrayRef> =
            sources.iter().map(|source| stretch(source, &data_type).slice(3, 260)).collect();
        let arrays: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
        for picks in &selections {
            let indices: Vec<(usize, usize)> = picks.iter().map(|&(s, r)| (s as usize, r as usize)).collect();
            let gathered = gather(&arrays, &Selection::new(picks.clone()), None).unwrap();
            assert_eq!(gathered.data_type(), &data_type);
            assert_eq!(&gathered, &interleave(&arrays, &indices).unwrap(), "{data_type}");
        }
    }
}

fn stretch(numbers: &Int64Array, data_type: &DataType) -> ArrayRef {
    let width = data_type.primitive_width().unwrap();
    let bits = numbers.values().iter().map(|&number| i256::from_i128(number.into()).to_le_bytes());
    let bits = Buffer::from_iter(bits.flat_map(|bits| bits.into_iter().take(width)));
    let data = ArrayData::builder(data_type.clone()).len(numbers.len()).nulls(numbers.nulls().cloned());
    make_array(data.add_buffer(bits).align_buffers(true).build().unwrap())
}

/// The default window is a part of the order: it has as many rows as 1 GiB of memory holds. Here a row takes
/// 1 MiB, by its type, and a row group has 60 rows.
#[test]
fn the_default_window_is_1_gib_of_rows() {
    const ROWS: usize = 60;
    let dir = TempDir::new().unwrap();
    let schema = "message rows { required int64 id; optional fixed_len_byte_array(1048576) cell; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = File::create(dir.path().join("wide.parquet")).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    for _ in 0..40 {
        let mut group = writer.next_row_group().unwrap();
        let mut id = group.next_column().unwrap().unwrap();
        id.typed::<Int64Type>().write_batch(&[7; ROWS], None, None).unwrap();
        id.close().unwrap();
        let mut cell = group.next_column().unwrap().unwrap();
        cell.typed::<FixedLenByteArrayType>().write_batch(&[], Some(&[0; ROWS]), None).unwrap();
        cell.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    let pool = |shuffle: Shuffle| {
        let loader = Dataset::open(dir.path()).unwrap().loader().shuffle(shuffle);
        loader.batch_size(1).memory(1 << 40).threads(1).build().unwrap().plan(0).unwrap().reads.unwrap().pool
    };
    assert_eq!(pool(Shuffle::seeded(1)), 17, "row groups of 60 MiB in 1 GiB");
    assert_eq!(pool(Shuffle::seeded(1).lanes(3)), 17, "in each lane");
    assert_eq!(pool(Shuffle::seeded(1).window_rows(600)), 10);
    assert_eq!(pool(Shuffle::seeded(1).window_rows(u64::MAX)), 40, "no more than there are");
    assert_eq!(pool(Shuffle::seeded(1).window_rows(1)), 1, "and one at least");
}

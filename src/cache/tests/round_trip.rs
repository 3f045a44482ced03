//! Tests that the cache returns the rows that were put, for every supported type, as a whole and row by row.

use std::collections::HashMap;

use forebay_arrow::array::*;
use forebay_arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use forebay_arrow::compute::{concat_batches, take_record_batch};
use forebay_arrow::datatypes::*;
use proptest::prelude::*;

use super::*;

const LENGTH: usize = 37;

/// A batch of `length` rows with every type that the reader delivers. With `nulls`, every third value is
/// null.
fn every_type(length: usize, nulls: bool) -> RecordBatch {
    let valid = |row: usize| !nulls || row % 3 != 1;
    let ints = || (0..length).map(|row| valid(row).then_some(row as i64 * 3 + 1));
    let long = |row: usize| "ab\u{e9}".repeat(row % 11);
    let mask = || Some(NullBuffer::from_iter((0..length).map(valid)));
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let ends: Vec<usize> = (0..length).map(|row| if valid(row) { row % 5 } else { 0 }).collect();
    let total: usize = ends.iter().sum();
    let values = || -> ArrayRef {
        Arc::new(Int32Array::from_iter((0..total).map(|i| (i % 4 != 0).then_some(i as i32))))
    };
    let fixed: ArrayRef = Arc::new(Float32Array::from_iter_values((0..3 * length).map(|i| i as f32 / 3.0)));
    let bytes: ArrayRef = Arc::new(BinaryViewArray::from_iter(
        (0..length).map(|row| valid(row).then(|| vec![row as u8; 1 + row * 13])),
    ));
    let path: ArrayRef =
        Arc::new(StringViewArray::from_iter((0..length).map(|row| valid(row).then(|| long(row)))));
    let image = Fields::from(vec![
        Field::new("bytes", DataType::BinaryView, true),
        Field::new("path", DataType::Utf8View, true),
    ]);
    let of_bits = |data_type: DataType| {
        let width = data_type.primitive_width().unwrap();
        let bits = ints()
            .flat_map(|bits| i256::from_i128(bits.unwrap_or(0).into()).to_le_bytes().into_iter().take(width));
        let nulls = Some(NullBuffer::from_iter(ints().map(|bits| bits.is_some())));
        let data = ArrayData::builder(data_type).len(length).nulls(nulls).add_buffer(Buffer::from_iter(bits));
        make_array(data.align_buffers(true).build().unwrap())
    };
    let mut columns: Vec<(String, ArrayRef)> = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Zurich".into())),
        DataType::Duration(TimeUnit::Second),
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, 2),
        DataType::Decimal128(38, 4),
        DataType::Decimal256(60, 4),
    ]
    .into_iter()
    .map(|data_type| (data_type.to_string(), of_bits(data_type)))
    .collect();
    let fixed_binary = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        (0..length).map(|row| valid(row).then_some([row as u8; 16])),
        16,
    );
    let list =
        ListArray::new(item(DataType::Int32), OffsetBuffer::from_lengths(ends.clone()), values(), mask());
    let large =
        LargeListArray::new(item(DataType::Int32), OffsetBuffer::from_lengths(ends), values(), mask());
    columns.extend::<Vec<(String, ArrayRef)>>(vec![
        (
            "bool".into(),
            Arc::new(BooleanArray::from_iter((0..length).map(|row| valid(row).then_some(row % 2 == 0)))),
        ),
        ("fixed_binary".into(), Arc::new(fixed_binary.unwrap())),
        ("fixed_list".into(), Arc::new(FixedSizeListArray::new(item(DataType::Float32), 3, fixed, mask()))),
        ("list".into(), Arc::new(list)),
        ("large_list".into(), Arc::new(large)),
        ("image".into(), Arc::new(StructArray::new(image, vec![bytes.clone(), path.clone()], mask()))),
        ("bytes".into(), bytes),
        ("path".into(), path),
    ]);
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| {
            Field::new(name, array.data_type().clone(), nulls)
                .with_metadata(HashMap::from([("k".to_string(), name.clone())]))
        })
        .collect();
    let schema =
        Schema::new(fields).with_metadata(HashMap::from([("of".to_string(), "the schema".to_string())]));
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn key_of(batch: &RecordBatch, group: usize) -> Key {
    Key::new("every.parquet", 1, "v", group, "all", &batch.schema())
}

/// Puts `batch`, opens the cache again, and checks that it returns the same rows.
fn round_trip(batch: &RecordBatch) -> Entry {
    let dir = folder();
    assert!(open(&dir, PLENTY).put(&key_of(batch, 0), batch));
    let entry = open(&dir, PLENTY).get(&key_of(batch, 0)).expect("a hit");
    assert_eq!(&entry.read(), batch);
    assert_eq!(entry.rows(), batch.num_rows() as u64);
    entry
}

#[test]
fn every_type_comes_back_with_and_without_nulls() {
    for nulls in [true, false] {
        assert!(
            round_trip(&every_type(LENGTH, nulls)).is_mapped(),
            "the temporary folder is on a local disk"
        );
    }
}

#[test]
fn slices_come_back_as_the_rows_they_show() {
    let whole = every_type(LENGTH, true);
    for (offset, length) in [(0, 1), (1, 8), (7, 30), (36, 1), (5, 0), (9, 17)] {
        round_trip(&whole.slice(offset, length));
    }
}

#[test]
fn no_rows_and_no_columns_come_back() {
    round_trip(&every_type(0, true));
    let options = RecordBatchOptions::new().with_row_count(Some(11));
    let none = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let entry = round_trip(&none);
    assert_eq!(entry.take(&[3, 3]).unwrap().num_rows(), 2);
}

#[test]
fn rows_come_back_where_the_folder_cannot_be_mapped() {
    let dir = folder();
    let batch = every_type(LENGTH, true);
    assert!(open(&dir, PLENTY).put(&key_of(&batch, 0), &batch));
    let mut unmapped = Folder::open(dir.path()).unwrap();
    unmapped.mapped = false;
    let cache = DiskCache::new(Space::new(unmapped, PLENTY), Health::new());
    for _ in 0..2 {
        let entry = cache.get(&key_of(&batch, 0)).unwrap();
        assert!(!entry.is_mapped());
        assert_eq!(entry.read(), batch);
        assert_eq!(
            entry.take(&[4, 0]).unwrap(),
            take_record_batch(&batch, &UInt32Array::from(vec![4, 0])).unwrap()
        );
    }
}

#[test]
fn a_mapped_entry_is_read_without_a_copy_and_outlives_its_file() {
    let dir = folder();
    let cache = open(&dir, PLENTY);
    assert!(cache.put(&key(1), &rows(1)));
    let entry = cache.get(&key(1)).unwrap();
    let first = entry.read().column(0).to_data().buffers()[0].as_ptr();
    assert_eq!(first, entry.read().column(0).to_data().buffers()[0].as_ptr(), "the same memory");
    assert_eq!(first as usize % 64, 0, "aligned for any vector instruction");
    cache.clear().unwrap();
    assert_eq!(entry.read(), rows(1));
    assert!(cache.get(&key(1)).is_none());
}

#[test]
fn bytes_that_no_view_uses_are_not_written() {
    let page = Buffer::from_vec(vec![7u8; 1 << 20]);
    let mut views = BinaryViewBuilder::new();
    let block = views.append_block(page);
    for row in 0..10 {
        views.try_append_view(block, row * 100, 100).unwrap();
    }
    let few = BinaryViewArray::clone(&views.finish());
    let schema = Schema::new(vec![Field::new("blob", DataType::BinaryView, false)]);
    let entry = round_trip(&RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(few)]).unwrap());
    assert!(entry.bytes() < 4096, "{} bytes for 1,000", entry.bytes());

    // A value that many rows share is written to the file only once.
    let mut views = BinaryViewBuilder::new();
    let block = views.append_block(Buffer::from_vec(vec![7u8; 10_000]));
    for _ in 0..1000 {
        views.try_append_view(block, 0, 10_000).unwrap();
    }
    let same = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(views.finish())]).unwrap();
    assert!(round_trip(&same).bytes() < 40_000);
}

#[test]
fn a_row_that_is_not_there_is_an_error() {
    let entry = round_trip(&rows(1));
    assert_eq!(entry.take(&[0, ROWS as u32]).unwrap_err().kind(), forebay_base::ErrorKind::Internal);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn rows_are_taken_as_arrow_takes_them(
        parts in proptest::collection::vec((0usize..LENGTH, 0usize..LENGTH), 1..4),
        nulls: bool,
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..50),
    ) {
        let whole = every_type(LENGTH, nulls);
        let slices: Vec<_> = parts.iter().map(|&(a, b)| whole.slice(a.min(b), a.abs_diff(b))).collect();
        let batch = concat_batches(&whole.schema(), &slices).unwrap();
        let entry = round_trip(&batch);
        let picks: Vec<u32> = match batch.num_rows() {
            0 => vec![],
            rows => picks.iter().map(|pick| pick.index(rows) as u32).collect(),
        };
        let want = take_record_batch(&batch, &UInt32Array::from(picks.clone())).unwrap();
        prop_assert_eq!(entry.take(&picks).unwrap(), want);
    }
}

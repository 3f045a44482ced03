//! Filters as JSON, on a data set with statistics and on the same rows without any.

use std::fs;
use std::sync::{Arc, LazyLock};

use forebay::arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Float32Array, Int64Array, RecordBatch,
    StringArray, UInt64Array,
};
use forebay::arrow::datatypes::Int64Type;
use forebay::filter::{Term, col, row_fraction};
use forebay::{Dataset, Filter, Result};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use tempfile::TempDir;

/// The number of rows of each data set.
const ROWS: usize = 96;

/// Two data sets with the same rows in the same order.
struct Filtered {
    _folder: TempDir,
    /// Row groups of 24 rows and pages of 8, with statistics, page indexes and Bloom filters.
    described: Dataset,
    /// One row group of one page, without statistics.
    bare: Dataset,
}

static DATA: LazyLock<Filtered> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let described = WriterProperties::builder()
        .set_max_row_group_row_count(Some(24))
        .set_data_page_row_count_limit(8)
        .set_write_batch_size(8)
        .set_bloom_filter_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Page);
    let bare = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None);
    let open = |name: &str, properties: WriterProperties| {
        let folder = folder.path().join(name);
        fs::create_dir(&folder).unwrap();
        // Files of one name, since a share of the rows is drawn by the paths of files and the rows' places.
        let file = fs::File::create(folder.join("a.parquet")).unwrap();
        let rows = rows();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
        Dataset::open(folder).unwrap()
    };
    Filtered {
        described: open("described", described.build()),
        bare: open("bare", bare.build()),
        _folder: folder,
    }
});

/// Returns rows whose row groups differ: ascending and random values, nulls, NaN, and both ends of the types.
fn rows() -> RecordBatch {
    let mixed = |row: usize| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let present = |row: &usize| row % 5 != 2 && !(24..48).contains(row);
    let integer = |row: usize| match row {
        0 => i64::MIN,
        95 => i64::MAX,
        row => row as i64 - 40,
    };
    let float = |row: usize| match row {
        3 | 70 => f32::NAN,
        4 => f32::INFINITY,
        5 => -0.0,
        row => row as f32 / 4.0 - 9.0,
    };
    let word = |row: usize| format!("word {}", mixed(row) % 7);
    let optional = |row: usize| present(&row).then(|| mixed(row) as i64 % 10);
    let columns: [(&str, ArrayRef); 8] = [
        ("row", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("integer", Arc::new(Int64Array::from_iter_values((0..ROWS).map(integer)))),
        (
            "unsigned",
            Arc::new(UInt64Array::from_iter_values((0..ROWS as u64).map(|row| u64::MAX - row * row))),
        ),
        ("optional", Arc::new(Int64Array::from_iter((0..ROWS).map(optional)))),
        (
            "float",
            Arc::new(Float32Array::from_iter((0..ROWS).map(|row| (row % 11 != 7).then(|| float(row))))),
        ),
        ("word", Arc::new(StringArray::from_iter((0..ROWS).map(|row| present(&row).then(|| word(row)))))),
        ("bytes", Arc::new(BinaryArray::from_iter_values((0..ROWS).map(|row| vec![row as u8; row % 3])))),
        ("day", Arc::new(Date32Array::from_iter_values((0..ROWS as i32).map(|row| row * 31)))),
    ];
    let flag = BooleanArray::from_iter((0..ROWS).map(|row| (row % 4 != 0).then_some(row < 48)));
    RecordBatch::try_from_iter(columns.into_iter().chain([("flag", Arc::new(flag) as ArrayRef)])).unwrap()
}

/// Returns the numbers of the rows that a filter selects.
fn selected(dataset: &Dataset, filter: Filter) -> Result<Vec<i64>> {
    let loader = dataset.loader().columns(["row"]).filter(filter).threads(1).build()?;
    let mut rows = Vec::new();
    for batch in loader.epoch(0) {
        rows.extend_from_slice(batch?.column(0).as_primitive::<Int64Type>().values());
    }
    Ok(rows)
}

/// A filter is refused, or stays the same when it is written and read again. It selects the same rows with
/// statistics, which leave out row groups and pages, as without.
pub(crate) fn filter(data: &[u8]) -> bool {
    let Ok(filter) = serde_json::from_slice::<Filter>(data) else { return false };
    let text = serde_json::to_string(&filter).expect("a filter can be written");
    let again: Filter = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again, filter);
    match (selected(&DATA.described, filter.clone()), selected(&DATA.bare, filter)) {
        (Ok(described), Ok(bare)) => {
            assert_eq!(described, bare, "statistics change the selected rows of {text}")
        }
        (Err(described), Err(bare)) => assert_eq!(described.kind(), bare.kind(), "{described}; {bare}"),
        (described, bare) => panic!("{text}: {described:?} with statistics, {bare:?} without"),
    }
    true
}

pub(crate) fn filters() -> Vec<Vec<u8>> {
    use forebay::filter::Op::{Eq, Greater, In, LessEq, NotEq, NotIn};
    let sum = (col("integer") + col("optional")).gt_eq(10);
    let filters: Vec<Filter> = vec![
        Filter::any_of([
            vec![Term::new("integer", Greater, 3), Term::new("float", LessEq, 2.5)],
            vec![Term::new("word", In, vec!["word 1", "word 6"]), Term::new("flag", Eq, true)],
            vec![Term::new("optional", NotIn, vec![3, 4]), Term::new("day", LessEq, "1972-02-29")],
            vec![Term::new("unsigned", NotEq, u64::MAX), Term::new("bytes", Eq, "\u{3}\u{3}")],
        ]),
        (sum | !col("optional").is_null() & col("word").starts_with("word 1")).into(),
        (row_fraction(0.8, 7) & !col("float").not_eq(0.0)).into(),
        (!(col("unsigned").lt(u64::MAX - 50) | col("flag").eq(false))).into(),
    ];
    filters.iter().map(|filter| serde_json::to_vec(filter).expect("a filter can be written")).collect()
}

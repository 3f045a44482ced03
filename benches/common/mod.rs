//! The data that the benches share: tables of 40 or 1,000 numbers a row, as recommender models read them, and
//! lists of tokens, as language models read them.

use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, Float32Array, Int32Array, ListArray, RecordBatch};
use forebay::arrow::buffer::OffsetBuffer;
use forebay::arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

/// The columns of a row: every third one is a nullable float32, the others are int32.
pub(crate) const COLUMNS: usize = 40;
/// The rows of a row group.
pub(crate) const GROUP: usize = 100_000;
/// The number of columns of a wide table, and of rows in its row group.
pub(crate) const WIDE: usize = 1_000;
/// The number of lists in a row group.
const LISTS: usize = 1_000;
/// The number of tokens in a list.
pub(crate) const TOKENS: usize = 2_048;

/// Returns a number of a skewed distribution, which compresses like real data.
fn number(row: usize, column: usize) -> i32 {
    let mut z = (row * COLUMNS + column) as u64;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z >> 40) % (10 << (column % 15))) as i32
}

/// Makes the rows of one row group.
pub(crate) fn table(group: usize) -> RecordBatch {
    let rows = || group * GROUP..(group + 1) * GROUP;
    let column = |column: usize| -> (Field, ArrayRef) {
        if column.is_multiple_of(3) {
            let values =
                rows().map(|row| (number(row, column) % 5 != 0).then_some(number(row, column) as f32));
            (
                Field::new(format!("c{column}"), DataType::Float32, true),
                Arc::new(Float32Array::from_iter(values)),
            )
        } else {
            let values = rows().map(|row| number(row, column));
            (
                Field::new(format!("c{column}"), DataType::Int32, false),
                Arc::new(Int32Array::from_iter_values(values)),
            )
        }
    };
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = (0..COLUMNS).map(column).unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns of one length")
}

/// Makes one row group of [`WIDE`] columns and as many rows.
#[allow(dead_code, reason = "each bench includes this module for itself")]
pub(crate) fn wide(group: usize) -> RecordBatch {
    let rows = || group * WIDE..(group + 1) * WIDE;
    let column = |column: usize| {
        let values = rows().map(|row| number(row, column));
        (format!("c{column}"), Arc::new(Int32Array::from_iter_values(values)) as ArrayRef)
    };
    RecordBatch::try_from_iter((0..WIDE).map(column)).expect("columns of one length")
}

/// Makes one row group of lists of [`TOKENS`] numbers below 50,000.
#[allow(dead_code, reason = "each bench includes this module for itself")]
pub(crate) fn lists(group: usize) -> RecordBatch {
    let rows = group * LISTS..(group + 1) * LISTS;
    let values = rows.flat_map(|row| (0..TOKENS).map(move |at| number(row * TOKENS + at, 14) % 50_000));
    let item = Arc::new(Field::new("item", DataType::Int32, false));
    let offsets = OffsetBuffer::from_repeated_length(TOKENS, LISTS);
    let lists = ListArray::new(item, offsets, Arc::new(Int32Array::from_iter_values(values)), None);
    RecordBatch::try_from_iter([("tokens", Arc::new(lists) as ArrayRef)]).expect("one column")
}

/// Writes a snappy-compressed file of `groups` row groups; `rows` makes each of them.
#[allow(dead_code, reason = "each bench includes this module for itself")]
pub(crate) fn written(groups: usize, rows: fn(usize) -> RecordBatch) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = std::fs::File::create(dir.path().join("table.parquet")).expect("a file in it");
    let first = rows(0);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(first.num_rows()))
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer =
        ArrowWriter::try_new(file, first.schema(), Some(properties)).expect("a schema that Parquet has");
    for group in 0..groups {
        writer.write(&rows(group)).expect("room on the disk");
    }
    writer.close().expect("room on the disk");
    dir
}

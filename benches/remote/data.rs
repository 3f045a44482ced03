//! The data set: rows of noise, which no codec makes smaller.

use std::fs::File;
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use forebay::arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

pub(crate) const FILES: usize = 16;
/// The number of row groups in a file.
pub(crate) const GROUPS: usize = 8;
/// The number of rows in a row group, which takes 4 MB.
const ROWS: usize = 40;
/// The number of bytes in a row, about as many as in a photograph.
const ROW_BYTES: usize = 100_000;

/// The number of bytes in all rows together.
pub(crate) const BYTES: usize = FILES * GROUPS * ROWS * ROW_BYTES;

/// Writes the data set into a temporary folder.
pub(crate) fn written() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("payload", DataType::Binary, false),
    ]));
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    for file in 0..FILES {
        let out = File::create(dir.path().join(format!("part-{file:03}.parquet"))).expect("a file in it");
        let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties.clone()))
            .expect("a schema that Parquet has");
        for group in 0..GROUPS {
            let first = (file * GROUPS + group) * ROWS;
            let ids = || (first..first + ROWS).map(|id| id as i64);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(ids())),
                Arc::new(BinaryArray::from_iter_values(ids().map(noise))),
            ];
            let rows = RecordBatch::try_new(schema.clone(), columns).expect("columns of one length");
            writer.write(&rows).expect("room on the disk");
            writer.flush().expect("room on the disk");
        }
        writer.close().expect("room on the disk");
    }
    dir
}

/// Returns noise that depends only on the row's number.
fn noise(id: i64) -> Vec<u8> {
    let word = |at: usize| {
        let mut z = ((id as u64) << 32 | at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).to_le_bytes()
    };
    (0..ROW_BYTES / 8).flat_map(word).collect()
}

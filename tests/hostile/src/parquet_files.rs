//! Parquet files, and the index of footers beside them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use forebay::arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray,
};
use forebay::arrow::compute::concat_batches;
use forebay::arrow::datatypes::Int32Type;
use forebay::object_store::memory::InMemory;
use forebay::object_store::{ObjectStore, ObjectStoreExt};
use forebay::rows::read_part;
use forebay::{OpenOptions, Result};
use forebay_store::source::from_store;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use tempfile::TempDir;

/// The most bytes that decoding one row group may take.
const LIMIT: u64 = 16 << 20;

/// Returns the rows of a file as this library reads them: one batch for each row group.
fn ours(file: Bytes) -> Result<Vec<RecordBatch>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(InMemory::new());
        store.put(&"a.parquet".into(), file.into()).await.unwrap();
        let store: Arc<dyn ObjectStore> = store;
        let (store, catalog) = from_store(store, "").await?;
        let columns = catalog.project_readable()?;
        let mut groups = Vec::new();
        for (number, group) in catalog.groups.iter().enumerate() {
            let ranges = catalog.byte_ranges(group, &columns)?;
            let chunks = store.read_ranges(&catalog.files[0], &ranges).await?;
            let chunks = ranges.into_iter().zip(chunks).collect();
            groups.push(read_part(&catalog, &columns, number, None, chunks, LIMIT)?);
        }
        Ok(groups)
    })
}

/// The rows that the Parquet crate reads from a file. `None` if the crate fails, panics or stops too early,
/// as it does at lists that have neither an annotation nor a group.
fn theirs(file: Bytes) -> Option<RecordBatch> {
    let read = std::panic::AssertUnwindSafe(|| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).ok()?;
        // As the row groups say: the number in the footer of a whole file may be wrong.
        let rows: i64 = builder.metadata().row_groups().iter().map(|group| group.num_rows()).sum();
        if !(0..=1 << 16).contains(&rows) {
            return None;
        }
        let schema = Arc::clone(builder.schema());
        let batches = builder.build().ok()?.collect::<std::result::Result<Vec<_>, _>>().ok()?;
        let read = concat_batches(&schema, &batches).ok()?;
        (read.num_rows() as i64 == rows).then_some(read)
    });
    std::panic::catch_unwind(read).ok().flatten()
}

/// A file is refused, or its columns of numbers and texts have the values that the Parquet crate reads.
pub(crate) fn rows(data: &[u8]) -> bool {
    let file = Bytes::copy_from_slice(data);
    let Ok(groups) = ours(file.clone()) else { return false };
    let Some(theirs) = theirs(file) else { return false };
    let rows: usize = groups.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, theirs.num_rows(), "the Parquet crate reads another number of rows");
    let mut start = 0;
    for group in groups {
        for (field, column) in group.schema().fields().iter().zip(group.columns()) {
            let Some(expected) = theirs.column_by_name(field.name()) else { continue };
            let expected = expected.slice(start, group.num_rows());
            if expected.data_type() == column.data_type() {
                assert_eq!(column, &expected, "column {:?} from row {start} on", field.name());
            }
        }
        start += group.num_rows();
    }
    true
}

/// One file in a folder, and the index of its footer.
static FOLDER: LazyLock<(TempDir, Vec<u8>)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.parquet"), &files()[0]).unwrap();
    let index = OpenOptions::new().open(folder.path()).unwrap().index().unwrap();
    (folder, index)
});

/// An index is refused, ignored or used; the resulting data set can be planned.
pub(crate) fn index(data: &[u8]) -> bool {
    let opened = OpenOptions::new().index(data).open(FOLDER.0.path());
    if let Ok(dataset) = opened
        && let Ok(loader) = dataset.loader().threads(1).build()
    {
        let _ = loader.plan(0);
        return true;
    }
    false
}

pub(crate) fn indexes() -> Vec<Vec<u8>> {
    vec![FOLDER.1.clone()]
}

/// Returns files with the most common types, in each of the ways to write them.
pub(crate) fn files() -> Vec<Vec<u8>> {
    let rows = 60;
    let present = |row: &usize| row % 7 != 3;
    let optional = |row: usize| present(&row).then_some(row as i32 * 3);
    let lists =
        (0..rows).map(|row| present(&row).then(|| (0..row % 4).map(move |at| Some((row + at) as i32))));
    let columns: HashMap<&str, ArrayRef> = HashMap::from([
        ("number", Arc::new(Int64Array::from_iter_values(0..rows as i64)) as ArrayRef),
        ("optional", Arc::new(Int32Array::from_iter((0..rows).map(optional)))),
        ("share", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 8.0)))),
        ("flag", Arc::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % 3 == 0))))),
        ("word", Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("word {}", row % 5))))),
        ("bytes", Arc::new(BinaryArray::from_iter_values((0..rows).map(|row| vec![row as u8; row % 9])))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
    ]);
    let names = ["number", "optional", "share", "flag", "word", "bytes", "list"];
    let batch = RecordBatch::try_from_iter(names.map(|name| (name, Arc::clone(&columns[name])))).unwrap();
    let plain = WriterProperties::builder().set_dictionary_enabled(false);
    let delta = plain.clone().set_writer_version(WriterVersion::PARQUET_2_0);
    let ways = [
        WriterProperties::builder().set_max_row_group_row_count(Some(25)),
        plain.clone().set_compression(Compression::SNAPPY),
        delta.clone().set_column_encoding("number".into(), Encoding::DELTA_BINARY_PACKED),
        delta.set_column_encoding("share".into(), Encoding::BYTE_STREAM_SPLIT),
        WriterProperties::builder().set_data_page_row_count_limit(20).set_write_batch_size(10),
    ];
    let written = ways.map(|properties| {
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file
    });
    written.into()
}

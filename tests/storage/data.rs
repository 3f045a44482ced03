//! The data set that all of these tests read: small, uneven, and with a checksum in every page.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use forebay::arrow::array::{ArrayRef, BinaryArray, Float32Array, Int64Array, RecordBatch};
use forebay::arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::kit::ALONE;

pub(crate) const FILES: usize = 8;
pub(crate) const GROUPS: usize = 4;

/// The name of the bucket's folder before the id of the process: runs at the same time have one each.
const BUCKET_NAME: &str = "storage-";

/// The folder of the data set in the bucket.
pub(crate) const PREFIX: &str = "train/set";

/// The number of rows in a row group. They are uneven, so that batches straddle row groups.
pub(crate) fn rows_of(file: usize, group: usize) -> usize {
    24 + (file * 7 + group * 13) % 29
}

pub(crate) fn rows() -> usize {
    (0..FILES).flat_map(|file| (0..GROUPS).map(move |group| rows_of(file, group))).sum()
}

pub(crate) fn name_of(file: usize) -> String {
    format!("part-{file:03}.parquet")
}

/// The bucket as a folder, written once for all tests. Nobody changes it; a test that changes files uses a
/// [`copy`].
pub(crate) static BUCKET: LazyLock<PathBuf> = LazyLock::new(|| {
    // A test that runs in a separate process has a folder of its own.
    let folder = std::env::var_os(ALONE).unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into());
    remove_buckets_of_ended_runs(Path::new(&folder));
    let bucket = Path::new(&folder).join(format!("{BUCKET_NAME}{}", std::process::id()));
    let _ = fs::remove_dir_all(&bucket);
    fs::create_dir_all(bucket.join(PREFIX)).unwrap();
    (0..FILES).for_each(|file| write(&bucket.join(PREFIX).join(name_of(file)), file, 0));
    bucket
});

/// Removes the buckets of processes that have ended. Where processes have no folders, the buckets stay.
fn remove_buckets_of_ended_runs(folder: &Path) {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(BUCKET_NAME)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // Another process may be removing it as well.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A copy of the bucket that may be changed.
pub(crate) fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir_all(copy.path().join(PREFIX)).unwrap();
    for file in 0..FILES {
        let name = Path::new(PREFIX).join(name_of(file));
        fs::copy(BUCKET.join(&name), copy.path().join(&name)).unwrap();
    }
    copy
}

/// Replaces a file by another version with the same size and ids, but with other values.
pub(crate) fn rewrite(bucket: &Path, file: usize) {
    let path = bucket.join(PREFIX).join(name_of(file));
    let written = path.with_extension("new");
    write(&written, file, 1);
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    // The copy may be younger than one tick of the file system's clock, by which rewritten local files are
    // recognized.
    while modified(&written) == modified(&path) {
        std::thread::sleep(std::time::Duration::from_millis(1));
        write(&written, file, 1);
    }
    assert_eq!(fs::metadata(&written).unwrap().len(), fs::metadata(&path).unwrap().len());
    fs::rename(written, path).unwrap();
}

/// Writes a file. Its payloads are noise, so that bytes at the wrong place show.
fn write(path: &Path, file: usize, version: u64) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("weight", DataType::Float32, false),
        Field::new("payload", DataType::Binary, false),
    ]));
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_offset_index_disabled(true)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema.clone(), Some(properties)).unwrap();
    for group in 0..GROUPS {
        let first = file * 10_000 + group * 1_000;
        let ids: Vec<i64> = (first..first + rows_of(file, group)).map(|id| id as i64).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids.clone())),
            Arc::new(Float32Array::from_iter_values(ids.iter().map(|id| *id as f32 / 3.0))),
            Arc::new(BinaryArray::from_iter_values(ids.iter().map(|id| noise(*id as u64, version)))),
        ];
        writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    File::create(path).unwrap().write_all(&with_checksums(&bytes)).unwrap();
}

/// A payload of 2 to 4 KB.
fn noise(id: u64, version: u64) -> Vec<u8> {
    let length = 2_048 + (id * 977) % 2_048;
    let word = |at: u64| crate::kit::draw(id ^ (version << 40), at).to_le_bytes();
    (0..length.div_ceil(8)).flat_map(word).take(length as usize).collect()
}

/// The range of a column chunk's pages: it has one page and no dictionary.
pub(crate) fn chunk_range(chunk: &ColumnChunkMetaData) -> std::ops::Range<usize> {
    let start = chunk.data_page_offset() as usize;
    start..start + chunk.compressed_size() as usize
}

/// Returns the length of a page's header, and the length of its body.
pub(crate) fn page(chunk: &[u8]) -> (usize, usize) {
    let mut at = 0;
    let mut body = 0;
    // Every header begins with the type, the uncompressed size and the compressed size.
    for _ in 0..3 {
        assert_eq!(chunk[at], FIELD_I32, "the next field, an i32");
        let (value, length) = varint(&chunk[at + 1..]);
        (body, at) = (value >> 1, at + 1 + length);
    }
    (chunk.len() - body as usize, body as usize)
}

/// Headers of fields in Thrift's compact form: the next field, with this type.
const FIELD_I32: u8 = 0x15;
const FIELD_STRUCT: u8 = 0x1c;
const ONE_MORE: u8 = 0x10;

/// Returns the file with a checksum in the header of each page, because the Parquet crate writes none.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let metadata =
        ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::copy_from_slice(bytes)).unwrap();
    let mut out = bytes[..4].to_vec();
    let mut groups = Vec::new();
    for group in metadata.row_groups() {
        let mut chunks = Vec::new();
        for chunk in group.columns() {
            let pages = &bytes[chunk_range(chunk)];
            let (header, _) = page(pages);
            let (header, body) = pages.split_at(header);
            // Field 4, the checksum, comes before field 5, the struct about a data page.
            let border = (0..3).fold(0, |at, _| at + 1 + varint(&header[at + 1..]).1);
            assert_eq!(header[border], FIELD_STRUCT + ONE_MORE, "field 5 after field 3");
            let start = out.len();
            out.extend(&header[..border]);
            out.push(FIELD_I32);
            let checksum = crc32fast::hash(body) as i32;
            push_number(&mut out, ((checksum << 1) ^ (checksum >> 31)) as u32);
            out.push(FIELD_STRUCT);
            out.extend(&header[border + 1..]);
            out.extend(body);
            let builder = chunk.clone().into_builder().set_data_page_offset(start as i64);
            let grown = (out.len() - start) as i64 - chunk.compressed_size();
            let builder = builder.set_total_compressed_size(chunk.compressed_size() + grown);
            let builder = builder.set_total_uncompressed_size(chunk.uncompressed_size() + grown);
            chunks.push(builder.build().unwrap());
        }
        let group = RowGroupMetaData::builder(group.schema_descr_ptr()).set_num_rows(group.num_rows());
        let bytes = chunks.iter().map(ColumnChunkMetaData::uncompressed_size).sum();
        groups.push(group.set_column_metadata(chunks).set_total_byte_size(bytes).build().unwrap());
    }
    let metadata = ParquetMetaData::new(metadata.file_metadata().clone(), groups);
    ParquetMetaDataWriter::new(&mut out, &metadata).finish().unwrap();
    out
}

/// A number in Thrift's compact form, and its length in bytes.
fn varint(bytes: &[u8]) -> (u64, usize) {
    let length = 1 + bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let bits = bytes[..length].iter().enumerate();
    (bits.fold(0, |value, (at, byte)| value | u64::from(byte & 0x7f) << (7 * at)), length)
}

/// Writes a number in five bytes, whatever its size, so that files with other values have the same length.
fn push_number(out: &mut Vec<u8>, value: u32) {
    out.extend((0..4).map(|at| (value >> (7 * at)) as u8 | 0x80));
    out.push((value >> 28) as u8);
}

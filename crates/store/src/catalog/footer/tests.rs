//! Tests that a footer gives back the metadata it was made from, for random metadata and for the files in
//! `FOREBAY_TEST_DATA`, and that the footer of a file with many columns takes few bytes.

use std::path::{Path, PathBuf};

use parquet::basic::EncodingMask;
use parquet::file::metadata::{FileMetaData, ParquetMetaDataReader};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor};
use proptest::prelude::*;

use super::*;
use crate::catalog::KnownColumns;

#[path = "../../../../../tests/house/skipped.rs"]
mod skipped;

use self::skipped::skipped;

/// The most bytes that a footer may take for each chunk of a file with many columns.
const BYTES_A_CHUNK: usize = 10;

fn schema(message: &str) -> SchemaDescPtr {
    Arc::new(SchemaDescriptor::new(Arc::new(parse_message_type(message).unwrap())))
}

fn lean(metadata: &ParquetMetaData) -> Footer {
    let columns = KnownColumns::default().of_file(metadata.file_metadata(), false).unwrap();
    Footer::new(7, columns, metadata).unwrap()
}

/// Compares a footer with the metadata that it was made from.
fn compare(metadata: &ParquetMetaData) {
    let footer = lean(metadata);
    let rows: Vec<u64> = metadata.row_groups().iter().map(|group| unsigned(group.num_rows())).collect();
    assert_eq!(footer.row_counts().collect::<Vec<_>>(), rows);
    // The order is reversed to show that a row group can be decoded without those before it.
    for (index, group) in metadata.row_groups().iter().enumerate().rev() {
        let columns = metadata.file_metadata().schema_descr().columns().iter().zip(group.columns());
        let expected = columns.enumerate().map(|(leaf, (column, chunk))| {
            ColumnChunk::from_metadata(column, chunk).within(footer.columns.lists(leaf), chunk)
        });
        let expected: Vec<_> = expected.collect();
        assert_eq!(footer.chunks(index).collect::<Vec<_>>(), expected, "row group {index}");
        for (chunk, expected) in footer.chunks(index).zip(group.columns()) {
            let (start, length) = expected.byte_range();
            assert_eq!(chunk.range(), start..start + length);
            let parquet = chunk.to_parquet().unwrap();
            assert_eq!(parquet.byte_range(), expected.byte_range());
            assert_eq!(parquet.compression(), expected.compression());
            assert_eq!(parquet.num_values(), expected.num_values());
            assert_eq!(parquet.uncompressed_size(), expected.uncompressed_size());
            assert_eq!(
                parquet.dictionary_page_offset().is_some(),
                expected.dictionary_page_offset().is_some()
            );
        }
    }
}

/// Makes a random column chunk, and a flag that it begins where the chunk before it ends.
fn any_chunk() -> impl Strategy<Value = (bool, ColumnChunkMetaDataParts)> {
    let number = || prop_oneof![0..300i64, 0..i64::MAX / 8];
    let numbers = (number(), number(), number(), number());
    let parts = (0..CODECS.len(), 0..1u32 << 10, any::<bool>(), numbers, proptest::option::of(number()));
    (any::<bool>(), parts)
}

type ColumnChunkMetaDataParts = (usize, u32, bool, (i64, i64, i64, i64), Option<i64>);

proptest! {
    #[test]
    fn any_footer_is_kept(
        groups in proptest::collection::vec(
            (0..1_000_000i64, proptest::collection::vec(any_chunk(), 3), any::<bool>()),
            0..5,
        ),
    ) {
        let columns = schema("message m { required int64 a; optional binary b; repeated float c; }");
        let groups = groups.into_iter().map(|(rows, chunks, one_a_row)| {
            let mut end = 0;
            let chunks = chunks.into_iter().enumerate().map(|(leaf, (follows, parts))| {
                let (codec, encodings, has_dictionary, (start, length, uncompressed, values), unencoded) = parts;
                // Bit 1 is cleared, because Parquet has no encoding with the number 1.
                let encodings = EncodingMask::try_new((encodings & !2) as i32).unwrap();
                let start = if follows { end } else { start };
                end = start + length;
                ColumnChunkMetaData::builder(columns.column(leaf))
                    .set_compression_codec(CODECS[codec])
                    .set_encodings_mask(encodings)
                    .set_num_values(if one_a_row { rows } else { values })
                    .set_total_compressed_size(length)
                    .set_total_uncompressed_size(uncompressed)
                    .set_data_page_offset(start)
                    .set_dictionary_page_offset(has_dictionary.then_some(start))
                    .set_unencoded_byte_array_data_bytes(unencoded)
                    .build()
                    .unwrap()
            });
            let chunks = chunks.collect();
            let group = RowGroupMetaData::builder(columns.clone()).set_num_rows(rows);
            group.set_column_metadata(chunks).build().unwrap()
        });
        let groups = groups.collect();
        compare(&ParquetMetaData::new(FileMetaData::new(1, 0, None, None, columns.clone(), None), groups));
    }
}

#[test]
fn every_foreign_footer_is_kept() {
    let Some(data) = std::env::var_os("FOREBAY_TEST_DATA").map(PathBuf::from) else {
        return skipped("FOREBAY_TEST_DATA is not set");
    };
    let mut compared = 0;
    for path in files_below(&data).iter().filter(|path| path.extension().is_some_and(|is| is == "parquet")) {
        let bytes = bytes::Bytes::from(std::fs::read(path).unwrap());
        let metadata = forebay_base::panics::caught(|| ParquetMetaDataReader::new().parse_and_finish(&bytes));
        let Ok(Ok(metadata)) = metadata else { continue };
        // Files with negative numbers are skipped: they are refused before a footer is made.
        let columns = metadata.file_metadata().schema_descr().num_columns();
        let is_sound = |chunk: &ColumnChunkMetaData| {
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            start >= 0
                && chunk.compressed_size() >= 0
                && chunk.uncompressed_size() >= 0
                && chunk.num_values() >= 0
        };
        let mut groups = metadata.row_groups().iter();
        if groups.all(|group| group.num_columns() == columns && group.columns().iter().all(is_sound))
            && KnownColumns::default().of_file(metadata.file_metadata(), false).is_ok()
        {
            compare(&metadata);
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn a_column_chunk_takes_few_bytes() {
    const CHUNKS: usize = 200;
    let leaves: String = (0..CHUNKS).map(|leaf| format!("optional int64 column_{leaf}; ")).collect();
    let columns = schema(&format!("message m {{ {leaves} }}"));
    // Each chunk takes 30 MB in the file, and twice that decompressed.
    let chunks = (0..CHUNKS as i64).map(|leaf| {
        let start = 4 + leaf * 30_000_000;
        ColumnChunkMetaData::builder(columns.column(leaf as usize))
            .set_compression_codec(CompressionCodec::ZSTD)
            .set_num_values(8_000_000)
            .set_total_compressed_size(30_000_000)
            .set_total_uncompressed_size(60_000_000 + leaf)
            .set_data_page_offset(start + 100_000)
            .set_dictionary_page_offset(Some(start))
            .build()
            .unwrap()
    });
    let group = RowGroupMetaData::builder(columns.clone()).set_num_rows(8_000_000);
    let group = group.set_column_metadata(chunks.collect()).build().unwrap();
    let file = FileMetaData::new(1, 8_000_000, None, None, columns.clone(), None);
    let metadata = ParquetMetaData::new(file, vec![group]);
    compare(&metadata);
    let bytes = lean(&metadata).bytes() as usize;
    assert!(bytes <= CHUNKS * BYTES_A_CHUNK, "{bytes} bytes for {CHUNKS} column chunks");
}

#[test]
fn a_row_group_is_described_to_the_parquet_crate_with_the_columns_that_are_read() {
    let columns = schema("message m { required int64 a; required int64 b; required int64 c; }");
    let chunk = |leaf: usize, start| {
        ColumnChunkMetaData::builder(columns.column(leaf))
            .set_num_values(5)
            .set_total_compressed_size(40)
            .set_total_uncompressed_size(40)
            .set_data_page_offset(start)
            .build()
            .unwrap()
    };
    let group = |start| {
        let chunks = (0..3).map(|leaf| chunk(leaf, start + 40 * leaf as i64)).collect();
        RowGroupMetaData::builder(columns.clone())
            .set_num_rows(5)
            .set_column_metadata(chunks)
            .build()
            .unwrap()
    };
    let file = FileMetaData::new(1, 10, None, None, columns.clone(), None);
    let metadata = ParquetMetaData::new(file, vec![group(4), group(200)]);
    let alone = lean(&metadata).row_group(1, &[0, 2]).unwrap();
    assert_eq!((alone.num_row_groups(), alone.file_metadata().num_rows()), (1, 5));
    let range = |leaf| alone.row_group(0).column(leaf).byte_range();
    assert_eq!([range(0), range(1)], [(200, 40), (280, 40)]);
    let names = alone.file_metadata().schema_descr().columns().iter().map(|column| column.name().to_owned());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "c"]);
}

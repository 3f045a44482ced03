//! Tests that this module decodes columns itself, and to the same arrays as the Parquet crate.

use std::sync::Arc;

use bytes::Bytes;
use forebay_arrow::array::*;
use forebay_arrow::buffer::{NullBuffer, OffsetBuffer};
use forebay_arrow::datatypes::{Schema, SchemaRef, TimeUnit};
use forebay_store::catalog::ColumnChunk;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{BrotliLevel, Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::*;
use crate::reader::pages;

const ROWS: usize = 3_000;

/// Numbers that look random, but are the same each time.
pub(in crate::reader) struct RandomNumbers(pub(in crate::reader) u64);

impl RandomNumbers {
    pub(in crate::reader) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 >> 17
    }
}

/// `len` numbers of a type, of which `nulls` percent are null, sometimes in runs.
pub(in crate::reader) fn numbers_of(
    data_type: &DataType,
    len: usize,
    nulls: u64,
    random: &mut RandomNumbers,
) -> ArrayRef {
    let mut run = (0, true);
    let mut is_valid = || {
        if run.0 == 0 {
            let length = if random.next().is_multiple_of(16) { random.next() % 200 } else { 1 };
            run = (length.max(1), random.next() % 100 >= nulls);
        }
        run.0 -= 1;
        run.1
    };
    let valid: Vec<bool> = (0..len).map(|_| is_valid()).collect();
    let values: Vec<u64> = (0..len).map(|_| random.next() >> (random.next() % 40)).collect();
    let bytes: Vec<u8> = match data_type.primitive_width().unwrap() {
        1 => values.iter().map(|value| *value as u8).collect(),
        2 => values.iter().flat_map(|value| (*value as u16).to_le_bytes()).collect(),
        4 => values.iter().flat_map(|value| (*value as u32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    let array = ArrayData::builder(data_type.clone()).len(len).nulls(nulls).add_buffer(bytes.into());
    make_array(array.align_buffers(true).build().unwrap())
}

/// Lists with numbers of a type and varying lengths; some lists are empty or null.
fn lists_of(data_type: &DataType, nulls: u64, random: &mut RandomNumbers) -> ArrayRef {
    let lengths: Vec<usize> = (0..ROWS)
        .map(|row| match row {
            _ if row % 99 == 0 => random.next() as usize % 400,
            _ if row % 9 == 0 => random.next() as usize % 90,
            _ => random.next() as usize % 4,
        })
        .map(|length| if nulls == 0 { length.max(1) } else { length })
        .collect();
    let valid: Vec<bool> = (0..ROWS).map(|_| random.next() % 100 >= nulls).collect();
    let lengths: Vec<usize> =
        lengths.iter().zip(&valid).map(|(length, valid)| if *valid { *length } else { 0 }).collect();
    let items = numbers_of(data_type, lengths.iter().sum(), nulls, random);
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    let item = Arc::new(Field::new("item", data_type.clone(), items.null_count() > 0));
    Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), items, nulls))
}

fn fixed_lists_of(data_type: &DataType, length: i32, nulls: u64, random: &mut RandomNumbers) -> ArrayRef {
    let items = numbers_of(data_type, ROWS * length as usize, if nulls == 3 { 0 } else { nulls }, random);
    // The field of the items is nullable only if there are nulls.
    let item = Arc::new(Field::new("item", data_type.clone(), items.null_count() > 0));
    let valid: Vec<bool> = (0..ROWS).map(|_| random.next() % 100 >= nulls).collect();
    let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
    Arc::new(FixedSizeListArray::new(item, length, items, nulls))
}

pub(in crate::reader) fn file(
    schema: &SchemaRef,
    batch: &RecordBatch,
    properties: WriterProperties,
) -> Bytes {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema.clone(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

/// The rows of column chunks, one after the other; `None` if they are left to the Parquet crate.
fn decode(field: &Field, chunks: &[&CheckedChunk<'_>]) -> Option<ArrayRef> {
    decode_as(field, None, chunks)
}

/// The rows of column chunks, as codes if `codes` are given.
fn decode_as(
    field: &Field,
    codes: Option<&dyn CodeValues>,
    chunks: &[&CheckedChunk<'_>],
) -> Option<ArrayRef> {
    let rows = chunks.iter().map(|chunk| chunk.rows).sum();
    let mut column = NumberColumn::for_field(field, chunks[0].about.column, codes, rows)?;
    chunks.iter().try_for_each(|chunk| column.append(chunk))?;
    column.finish()
}

/// The first column as this module decodes it, and as the Parquet crate decodes it.
fn decode_first(bytes: &Bytes) -> (Field, Option<ArrayRef>, ArrayRef) {
    each_column(bytes, |_, _| ()).remove(0)
}

/// Each column of the first row group as this module decodes it, and as the Parquet crate decodes it.
fn decoded(bytes: &Bytes) -> Vec<(Field, Option<ArrayRef>, ArrayRef)> {
    // The same chunk twice gives the same rows twice.
    each_column(bytes, |twice, once| {
        let expected = forebay_arrow::compute::concat(&[once, once]).unwrap();
        assert_eq!(&twice().unwrap(), &expected);
    })
}

fn each_column(
    bytes: &Bytes,
    check: impl Fn(&dyn Fn() -> Option<ArrayRef>, &ArrayRef),
) -> Vec<(Field, Option<ArrayRef>, ArrayRef)> {
    each_chunk(bytes, |field, chunk, expected| {
        let array = decode(field, &[chunk]);
        if let Some(once) = &array {
            check(&|| decode(field, &[chunk, chunk]), once);
        }
        (field.clone(), array, expected.clone())
    })
}

/// Calls `look` for each column chunk of the first row group, with its field and with its values as the
/// Parquet crate decodes them.
fn each_chunk<T>(bytes: &Bytes, look: impl Fn(&Field, &CheckedChunk<'_>, &ArrayRef) -> T) -> Vec<T> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
    let (metadata, schema) = (builder.metadata().clone(), builder.schema().clone());
    let rows = metadata.row_group(0).num_rows() as usize;
    let expected = builder.with_batch_size(rows).build().unwrap().next().unwrap().unwrap();
    let columns = metadata.file_metadata().schema_descr_ptr();
    let chunks = columns.columns().iter().zip(metadata.row_group(0).columns()).enumerate();
    let looked = chunks.map(|(at, (column, about))| {
        let about = ColumnChunk::from_metadata(column, about);
        let range = about.range();
        let bytes = bytes.slice(range.start as usize..range.end as usize);
        let chunk = pages::Chunk {
            leaf: &pages::Leaf::for_column(column),
            about: &about,
            bytes: &bytes,
            created_by: None,
        };
        let mut pages = Vec::new();
        chunk.check(rows as u64, u64::MAX, &mut pages).unwrap();
        let chunk = CheckedChunk { about: &about, fetched: &bytes, bytes: &bytes, pages: &pages, rows };
        look(schema.field(at), &chunk, expected.column(at))
    });
    looked.collect()
}

fn check(columns: Vec<(String, ArrayRef)>, properties: WriterProperties) {
    let fields = columns
        .iter()
        .map(|(name, array)| Field::new(name, array.data_type().clone(), array.null_count() > 0));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    for (field, found, expected) in decoded(&file(&schema, &batch, properties)) {
        let found = found.unwrap_or_else(|| panic!("{field:?} was left to the Parquet crate"));
        assert_eq!(found.data_type(), expected.data_type());
        assert_eq!(&found, &expected, "{field:?}");
    }
}

pub(in crate::reader) fn types() -> Vec<DataType> {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    vec![
        DataType::Int8,
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt32,
        DataType::Float32,
        DataType::Date32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float64,
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Duration(TimeUnit::Millisecond),
        time,
    ]
}

pub(in crate::reader) fn properties(
    version: WriterVersion,
    codec: Compression,
) -> parquet::file::properties::WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(codec)
        // The limit gives a chunk several pages; the batch size makes the writer check it every 100 values.
        .set_data_page_size_limit(2_000)
        .set_write_batch_size(100)
}

#[test]
fn every_type_in_every_form_is_what_the_parquet_crate_makes_of_it() {
    let mut random = RandomNumbers(7);
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ];
    let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];
    for (at, codec) in codecs.into_iter().enumerate() {
        for version in versions {
            for (nulls, dictionary) in [(0, true), (0, false), (3, true), (30, false), (97, true)] {
                let columns = types().into_iter().flat_map(|data_type| {
                    let length = [1, 3, 64][at % 3];
                    [
                        (format!("{data_type}"), numbers_of(&data_type, ROWS, nulls, &mut random)),
                        (format!("lists of {data_type}"), lists_of(&data_type, nulls, &mut random)),
                        (
                            format!("lists of {length} {data_type}"),
                            fixed_lists_of(&data_type, length, nulls, &mut random),
                        ),
                    ]
                });
                let columns = columns.collect();
                let properties = properties(version, codec).set_dictionary_enabled(dictionary);
                check(columns, properties.build());
            }
        }
    }
}

#[test]
fn every_encoding_of_numbers_is_read() {
    let mut random = RandomNumbers(3);
    let integers = [DataType::Int32, DataType::Int64, DataType::UInt16, DataType::Date32];
    let all = [DataType::Float32, DataType::Float64, DataType::Int32, DataType::Int64];
    for (encoding, types) in [
        (Encoding::DELTA_BINARY_PACKED, &integers),
        (Encoding::BYTE_STREAM_SPLIT, &all),
        (Encoding::PLAIN, &all),
    ] {
        for nulls in [0, 20] {
            let columns = types.iter().flat_map(|data_type| {
                [
                    (format!("{data_type}"), numbers_of(data_type, ROWS, nulls, &mut random)),
                    (format!("lists of {data_type}"), lists_of(data_type, nulls, &mut random)),
                ]
            });
            let properties = properties(WriterVersion::PARQUET_2_0, Compression::SNAPPY)
                .set_dictionary_enabled(false)
                .set_encoding(encoding);
            check(columns.collect(), properties.build());
        }
    }
}

#[test]
fn what_is_not_of_the_usual_form_is_left_to_the_parquet_crate() {
    let mut random = RandomNumbers(1);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| row.to_string())));
    for (array, codec) in [
        (texts, Compression::SNAPPY),
        (numbers_of(&DataType::Int32, ROWS, 0, &mut random), Compression::BROTLI(BrotliLevel::default())),
    ] {
        let schema =
            Arc::new(Schema::new(vec![Field::new("c", array.data_type().clone(), array.null_count() > 0)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![array]).unwrap();
        let properties = properties(WriterVersion::PARQUET_1_0, codec).build();
        let decoded = decoded(&file(&schema, &batch, properties));
        assert!(decoded[0].1.is_none(), "{:?}", decoded[0].0);
    }
}

/// The code of a value is the sum of its bytes, and negative for one that begins with x.
#[derive(Debug)]
struct Sums(DataType);

impl CodeValues for Sums {
    fn data_type(&self) -> &DataType {
        &self.0
    }

    fn code(&self, value: &[u8]) -> i64 {
        let sum = value.iter().map(|byte| i64::from(*byte)).sum();
        if value.first() == Some(&b'x') { -2 - sum } else { sum }
    }
}

impl Sums {
    fn codes(&self, column: &ArrayRef) -> ArrayRef {
        let code = |row| column.is_valid(row).then(|| self.code(column.as_binary::<i32>().value(row)));
        let codes = (0..column.len()).map(code);
        match self.0 {
            DataType::Int32 => {
                Arc::new(Int32Array::from_iter(codes.map(|code| code.map(|code| code as i32))))
            }
            _ => Arc::new(Int64Array::from_iter(codes)),
        }
    }
}

#[test]
fn texts_with_codes_are_read_as_codes_in_every_encoding_but_differences() {
    let mut random = RandomNumbers(5);
    let mut values = |distinct: u64, nulls: u64| -> ArrayRef {
        let value = |at: u64| {
            if at.is_multiple_of(7) { Vec::new() } else { format!("xy{at}")[(at % 2) as usize..].into() }
        };
        let rows = (0..ROWS).map(|_| (random.next() % 100 >= nulls).then(|| value(random.next() % distinct)));
        Arc::new(BinaryArray::from_iter(rows.collect::<Vec<Option<Vec<u8>>>>()))
    };
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for (distinct, nulls) in [(1, 0), (50, 0), (50, 20), (1 << 40, 0), (1 << 40, 97), (50, 100)] {
            let array = values(distinct, nulls);
            let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Binary, nulls > 0)]));
            let batch = RecordBatch::try_new(schema.clone(), vec![array]).unwrap();
            let usual = || properties(version, Compression::SNAPPY);
            // With many distinct values the writer gives up the dictionary early, and later pages hold the
            // values themselves.
            let dictionary = usual().set_dictionary_page_size_limit(4_000);
            let plain = || usual().set_dictionary_enabled(false);
            // In version 2 the writer stores many distinct values without nulls as differences.
            let has_differences = version == WriterVersion::PARQUET_2_0 && (distinct, nulls) == (1 << 40, 0);
            for (properties, is_coded) in [
                (dictionary, !has_differences),
                (plain().set_encoding(Encoding::PLAIN), true),
                (plain().set_encoding(Encoding::DELTA_BYTE_ARRAY), nulls == 100),
            ] {
                let properties = properties.set_data_page_row_count_limit(ROWS / 5).build();
                each_chunk(&file(&schema, &batch, properties), |_, chunk, expected| {
                    for sums in [Sums(DataType::Int32), Sums(DataType::Int64)] {
                        for text in [DataType::BinaryView, DataType::Utf8View] {
                            let field = Field::new("c", text, true);
                            let found = decode_as(&field, Some(&sums), &[chunk]);
                            assert_eq!(
                                found,
                                is_coded.then(|| sums.codes(expected)),
                                "{version:?} {distinct} {nulls}"
                            );
                        }
                    }
                });
            }
        }
    }
}

#[test]
fn texts_with_codes_that_are_no_texts_are_left_to_the_parquet_crate() {
    let array: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"a", b"\xff"]));
    let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Binary, false)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![array]).unwrap();
    for dictionary in [true, false] {
        let properties = properties(WriterVersion::PARQUET_1_0, Compression::SNAPPY);
        let properties = properties.set_dictionary_enabled(dictionary).set_encoding(Encoding::PLAIN).build();
        each_chunk(&file(&schema, &batch, properties), |_, chunk, expected| {
            let sums = Sums(DataType::Int64);
            let decoded = |text| decode_as(&Field::new("c", text, false), Some(&sums), &[chunk]);
            assert_eq!(decoded(DataType::BinaryView), Some(sums.codes(expected)));
            assert_eq!(decoded(DataType::Utf8View), None);
        });
    }
}

#[test]
fn lists_of_a_fixed_length_are_read_of_which_nearly_all_are_null() {
    let items = Arc::new(Field::new("item", DataType::Int32, false));
    let nulls = NullBuffer::from_iter((0..ROWS).map(|row| row == 1));
    let values = numbers_of(&DataType::Int32, 200 * ROWS, 0, &mut RandomNumbers(1));
    let lists: ArrayRef = Arc::new(FixedSizeListArray::new(items, 200, values, Some(nulls)));
    let properties = properties(WriterVersion::PARQUET_1_0, Compression::SNAPPY).build();
    check(vec![("lists".into(), lists)], properties);
}

#[test]
fn large_cells_in_one_page_are_left_where_they_were_fetched() {
    #[derive(Debug, PartialEq)]
    enum Found {
        InPlace,
        Copied,
        Left,
    }
    const CELL: i32 = 5_000;
    let cells = |valid: &[bool]| -> ArrayRef {
        let bytes: Vec<Vec<u8>> = (0..valid.len()).map(|row| vec![row as u8 + 1; CELL as usize]).collect();
        let cells = bytes.iter().zip(valid).map(|(bytes, valid)| valid.then_some(bytes));
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, CELL).unwrap())
    };
    let (whole, with_nulls) = (cells(&[true; 7]), cells(&[true, false, true, true]));
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let usual = || {
            let usual = properties(version, Compression::UNCOMPRESSED).set_dictionary_enabled(false);
            usual.set_encoding(Encoding::PLAIN)
        };
        let one_page = || usual().set_data_page_size_limit(1 << 20);
        for (array, is_nullable, properties, wanted) in [
            (&whole, false, one_page(), Found::InPlace),
            (&whole, true, one_page(), Found::InPlace),
            (&with_nulls, true, one_page(), Found::Copied),
            (&whole, false, usual().set_write_batch_size(1), Found::Copied),
            (&whole, false, one_page().set_compression(Compression::SNAPPY), Found::Copied),
            (&whole, false, one_page().set_dictionary_enabled(true), Found::Left),
        ] {
            let field = Field::new("c", array.data_type().clone(), is_nullable);
            let schema = Arc::new(Schema::new(vec![field]));
            let batch = RecordBatch::try_new(schema.clone(), vec![array.clone()]).unwrap();
            let bytes = file(&schema, &batch, properties.build());
            let (_, found, expected) = decode_first(&bytes);
            let how = found.map_or(Found::Left, |found| {
                assert_eq!(&found, &expected);
                let at = found.to_data().buffers()[0].as_ptr();
                if bytes.as_ptr_range().contains(&at) { Found::InPlace } else { Found::Copied }
            });
            assert_eq!(how, wanted, "{version:?}, nullable: {is_nullable}");
        }
    }
}

#[test]
fn cells_of_every_length_are_read_with_and_without_nulls() {
    let mut random = RandomNumbers(8);
    for cell in [1, 3, 16, 4_096, 5_000] {
        for nulls in [0, 1, 50, 100] {
            let valid: Vec<bool> = (0..400).map(|_| random.next() % 100 >= nulls).collect();
            let cells = valid.iter().map(|valid| {
                let bytes: Vec<u8> = (0..cell).map(|_| (random.next() >> 20) as u8).collect();
                valid.then_some(bytes)
            });
            let cells = FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, cell).unwrap();
            let cells: ArrayRef = Arc::new(cells);
            for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                for codec in [
                    Compression::UNCOMPRESSED,
                    Compression::SNAPPY,
                    Compression::LZ4_RAW,
                    Compression::ZSTD(ZstdLevel::default()),
                ] {
                    for of_page in [7, 1_000] {
                        let properties = properties(version, codec)
                            .set_dictionary_enabled(false)
                            .set_encoding(Encoding::PLAIN)
                            .set_data_page_size_limit(16 << 20)
                            .set_data_page_row_count_limit(of_page)
                            .set_write_batch_size(of_page);
                        check(vec![("c".to_owned(), cells.clone())], properties.build());
                    }
                }
            }
        }
    }
}

/// If any byte is changed, the column is left to the Parquet crate or keeps its number of rows, and nothing
/// panics.
#[test]
fn damage_is_left_to_the_parquet_crate() {
    let mut random = RandomNumbers(5);
    let columns = [
        ("flat", numbers_of(&DataType::Int32, 500, 20, &mut random)),
        ("wide", numbers_of(&DataType::Float64, 500, 0, &mut random)),
    ];
    let lists = [
        lists_of(&DataType::UInt8, 10, &mut random).slice(0, 500),
        fixed_lists_of(&DataType::Int16, 3, 10, &mut random).slice(0, 500),
    ];
    let cells = (0..500).map(|row| (row % 5 != 0).then_some([row as u8; 12]));
    let cells: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, 12).unwrap());
    for array in columns.into_iter().map(|(_, array)| array).chain(lists).chain([cells]) {
        for dictionary in [true, false] {
            let field = Field::new("c", array.data_type().clone(), true);
            let schema = Arc::new(Schema::new(vec![field.clone()]));
            let batch = RecordBatch::try_new(schema.clone(), vec![array.clone()]).unwrap();
            let properties = properties(WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED)
                .set_dictionary_enabled(dictionary);
            let bytes = file(&schema, &batch, properties.build());
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
            let (metadata, stored) = (reader.metadata().clone(), reader.schema().field(0).clone());
            let column = metadata.file_metadata().schema_descr_ptr().column(0);
            let about = ColumnChunk::from_metadata(&column, metadata.row_group(0).column(0));
            let range = about.range();
            let sound = bytes.slice(range.start as usize..range.end as usize);
            let mut pages = Vec::new();
            for at in 0..sound.len() {
                let mut bytes = sound.to_vec();
                bytes[at] ^= 1 << (random.next() % 8);
                let bytes = Bytes::from(bytes);
                let chunk = pages::Chunk {
                    leaf: &pages::Leaf::for_column(&column),
                    about: &about,
                    bytes: &bytes,
                    created_by: None,
                };
                if chunk.check(500, 1 << 20, &mut pages).is_err() {
                    continue;
                }
                let chunk =
                    CheckedChunk { about: &about, fetched: &bytes, bytes: &bytes, pages: &pages, rows: 500 };
                if let Some(array) = decode(&stored, &[&chunk]) {
                    assert_eq!(array.len(), 500);
                }
            }
        }
    }
}

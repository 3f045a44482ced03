//! Tests that this module decodes nested columns itself, and to the same arrays as the Parquet crate.

use std::sync::Arc;

use bytes::Bytes;
use forebay_arrow::array::*;
use forebay_arrow::buffer::{NullBuffer, OffsetBuffer};
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use forebay_store::catalog::ColumnChunk;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::Int32Type;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnDescriptor;

use super::levels::{LeafLevels, NodeLevels};
use super::*;
use crate::reader::numbers::tests::{RandomNumbers, file, numbers_of, properties, types};
use crate::reader::numbers::{CheckedChunk, KeptLevels};
use crate::reader::pages;

const ROWS: usize = 600;

/// A random type that is nested up to this depth, with fields that are nullable or not.
fn random_type(depth: u64, random: &mut RandomNumbers) -> DataType {
    let field = |name: &str, data_type, random: &mut RandomNumbers| {
        Arc::new(Field::new(name, data_type, random.next().is_multiple_of(2)))
    };
    let inside = |random: &mut RandomNumbers| random_type(depth - 1, random);
    match random.next() % if depth == 0 { 3 } else { 12 } {
        0 => DataType::Boolean,
        1 if random.next().is_multiple_of(3) => DataType::BinaryView,
        1 => DataType::Utf8View,
        2 => types().swap_remove(random.next() as usize % types().len()),
        3..7 => {
            let fields = (0..1 + random.next() % 4).map(|at| {
                let data_type = inside(random);
                field(&format!("f{at}"), data_type, random)
            });
            DataType::Struct(fields.collect())
        }
        7..9 => DataType::List(field("element", inside(random), random)),
        9 => DataType::LargeList(field("item", inside(random), random)),
        10 => DataType::FixedSizeList(field("item", inside(random), random), 1 + (random.next() % 3) as i32),
        _ => {
            let key = Arc::new(Field::new("key", DataType::Utf8View, false));
            let value = field("value", inside(random), random);
            let entries = Field::new("key_value", DataType::Struct(Fields::from(vec![key, value])), false);
            DataType::Map(Arc::new(entries), false)
        }
    }
}

/// `len` values of a type, of which `nulls` percent are null wherever the type allows nulls.
fn values_of(field: &Field, len: usize, nulls: u64, random: &mut RandomNumbers) -> ArrayRef {
    let nulls_here = if field.is_nullable() { nulls } else { 0 };
    let valid: Vec<bool> = (0..len).map(|_| random.next() % 100 >= nulls_here).collect();
    let validity = valid.contains(&false).then(|| NullBuffer::from(valid.clone()));
    let lengths = |random: &mut RandomNumbers| -> Vec<usize> {
        let length =
            |valid: &bool| if *valid { (random.next() % 5).min(random.next() % 9) as usize } else { 0 };
        valid.iter().map(length).collect()
    };
    let text = |random: &mut RandomNumbers| {
        "né ".repeat((random.next() % 9) as usize) + &(random.next() % 40).to_string()
    };
    match field.data_type() {
        DataType::Boolean => {
            let run = 1 + random.next() % 20;
            Arc::new(BooleanArray::from_iter(
                valid
                    .iter()
                    .enumerate()
                    .map(|(at, valid)| valid.then_some((at as u64 / run).is_multiple_of(2))),
            ))
        }
        DataType::Utf8View => {
            Arc::new(StringViewArray::from_iter(valid.iter().map(|valid| valid.then(|| text(random)))))
        }
        DataType::BinaryView => Arc::new(BinaryViewArray::from_iter(
            valid.iter().map(|valid| valid.then(|| text(random).into_bytes())),
        )),
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| values_of(field, len, nulls, random)).collect();
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, validity, len).unwrap())
        }
        DataType::List(item) => {
            let lengths = lengths(random);
            let items = values_of(item, lengths.iter().sum(), nulls, random);
            Arc::new(ListArray::new(item.clone(), OffsetBuffer::from_lengths(lengths), items, validity))
        }
        DataType::LargeList(item) => {
            let lengths = lengths(random);
            let items = values_of(item, lengths.iter().sum(), nulls, random);
            Arc::new(LargeListArray::new(item.clone(), OffsetBuffer::from_lengths(lengths), items, validity))
        }
        DataType::FixedSizeList(item, length) => {
            let items = values_of(item, len * *length as usize, nulls, random);
            Arc::new(FixedSizeListArray::new(item.clone(), *length, items, validity))
        }
        DataType::Map(entries, sorted) => {
            let lengths = lengths(random);
            let items = values_of(entries, lengths.iter().sum(), nulls, random).as_struct().clone();
            Arc::new(MapArray::new(
                entries.clone(),
                OffsetBuffer::from_lengths(lengths),
                items,
                validity,
                *sorted,
            ))
        }
        number => numbers_of(number, len, nulls_here, random),
    }
}

/// The bytes of a file with one column.
fn file_of(field: &Field, array: &ArrayRef, properties: WriterProperties) -> Bytes {
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let batch = RecordBatch::try_new(schema.clone(), vec![array.clone()]).unwrap();
    file(&schema, &batch, properties)
}

/// Decodes the first column of the first row group with this module, each of its chunks `times` times in a
/// row. `damage` may change the bytes of a leaf's chunk; the result is `None` also if the check of its pages
/// refuses them. Only leaves for which `is_read` is true are read.
fn decode(
    bytes: &Bytes,
    times: usize,
    is_read: impl Fn(usize) -> bool,
    damage: impl Fn(usize, &mut Vec<u8>),
) -> Option<ArrayRef> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
    let (metadata, schema) = (builder.metadata().clone(), builder.schema().clone());
    let group = metadata.row_group(0);
    let rows = group.num_rows() as usize;
    let columns = metadata.file_metadata().schema_descr_ptr();
    let read = (0..columns.num_columns()).map(|leaf| is_read(leaf).then(|| columns.columns()[leaf].as_ref()));
    let read: Vec<Option<&ColumnDescriptor>> = read.collect();
    let root = &columns.root_schema().get_fields()[0];
    let nested = NestedColumn::for_field(schema.field(0), root, &read)?;
    let mut decoders = nested.leaves()?;
    for (decoder, leaf) in decoders.iter_mut().zip((0..read.len()).filter(|leaf| is_read(*leaf))) {
        let column = &columns.columns()[leaf];
        let about = ColumnChunk::from_metadata(column, group.column(leaf));
        let range = about.range();
        let mut chunk = bytes[range.start as usize..range.end as usize].to_vec();
        damage(leaf, &mut chunk);
        let chunk = Bytes::from(chunk);
        let facts = pages::Leaf::for_column(column);
        let to_check = pages::Chunk { leaf: &facts, about: &about, bytes: &chunk, created_by: None };
        let mut pages = Vec::new();
        to_check.check(rows as u64, 1 << 30, &mut pages).ok()?;
        let chunk = CheckedChunk { about: &about, fetched: &chunk, bytes: &chunk, pages: &pages, rows };
        (0..times).try_for_each(|_| decoder.append(&chunk))?;
    }
    nested.finish(decoders)
}

/// The first column of the first row group as the Parquet crate decodes it.
fn expected(bytes: &Bytes) -> ArrayRef {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
    let rows = builder.metadata().row_group(0).num_rows() as usize;
    let mut reader = builder.with_batch_size(rows).with_row_groups(vec![0]).build().unwrap();
    reader.next().unwrap().unwrap().column(0).clone()
}

fn check(bytes: &Bytes, field: &Field) {
    let expected = expected(bytes);
    let found = decode(bytes, 1, |_| true, |_, _| ());
    let found = found.unwrap_or_else(|| panic!("{field:?} was left to the Parquet crate"));
    assert_eq!(found.data_type(), expected.data_type());
    assert_eq!(&found, &expected, "{field:?}");
    // The same chunks twice give the same rows twice.
    let twice = decode(bytes, 2, |_| true, |_, _| ()).unwrap();
    assert_eq!(twice.len(), 2 * expected.len());
    for start in [0, expected.len()] {
        assert_eq!(&twice.slice(start, expected.len()), &expected, "{field:?}");
    }
}

/// Whether a column of the type is nested, instead of one value in each row.
fn is_nested(data_type: &DataType) -> bool {
    !matches!(data_type, DataType::Boolean | DataType::Utf8View | DataType::BinaryView)
        && !data_type.is_primitive()
}

#[test]
fn random_columns_are_what_the_parquet_crate_makes_of_them() {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ];
    let mut random = RandomNumbers(11);
    for round in 0..160 {
        let data_type = loop {
            let data_type = random_type(1 + round % 4, &mut random);
            if is_nested(&data_type) {
                break data_type;
            }
        };
        let field = Field::new("c", data_type, round % 3 > 0);
        let nulls = [0, 4, 30, 97][random.next() as usize % 4];
        let array = values_of(&field, ROWS, nulls, &mut random);
        let version = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][random.next() as usize % 2];
        let properties = properties(version, codecs[random.next() as usize % 4])
            .set_data_page_size_limit([100, 2_000, 1 << 20][random.next() as usize % 3])
            .set_write_batch_size([1, 7, 1_000][random.next() as usize % 3]);
        let properties = match random.next() % 3 {
            0 => properties.set_dictionary_enabled(false).set_encoding(Encoding::PLAIN),
            _ => properties,
        };
        check(&file_of(&field, &array, properties.build()), &field);
    }
}

/// Types that are usual in data sets: detections, chats, and lists of lists.
fn usual_types() -> [DataType; 4] {
    let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    let list = |item| DataType::List(field("element", item));
    let fields = |fields: Vec<FieldRef>| DataType::Struct(fields.into());
    let r#box = DataType::FixedSizeList(field("element", DataType::Float32), 4);
    [
        list(fields(vec![
            field("box", r#box),
            field("label", DataType::Int32),
            field("area", DataType::Float32),
        ])),
        list(fields(vec![field("role", DataType::Utf8View), field("content", DataType::Utf8View)])),
        list(list(list(DataType::Int64))),
        fields(vec![
            field("flag", DataType::Boolean),
            field("deeper", fields(vec![field("x", DataType::Int8)])),
        ]),
    ]
}

#[test]
fn leaves_with_equal_levels_share_one_shape() {
    let mut random = RandomNumbers(3);
    let [_, chats, ..] = usual_types();
    let field = Field::new("c", chats, true);
    let array = values_of(&field, ROWS, 20, &mut random);
    let bytes = file_of(&field, &array, properties(WriterVersion::PARQUET_1_0, Compression::SNAPPY).build());
    check(&bytes, &field);
    let levels = |repetition: &[u8], definition: &[u8]| {
        KeptLevels::of_pages(2, &[(2, &[(2, repetition, definition)])])
    };
    assert!(levels(&[4, 0], &[4, 2]).equal(&levels(&[4, 0], &[4, 2])));
    assert!(!levels(&[4, 0], &[4, 2]).equal(&levels(&[4, 0], &[4, 1])));
}

#[test]
fn fields_that_are_not_read_are_left_out() {
    let mut random = RandomNumbers(9);
    let field = Field::new("c", usual_types()[0].clone(), true);
    let array = values_of(&field, ROWS, 10, &mut random);
    let bytes = file_of(&field, &array, properties(WriterVersion::PARQUET_2_0, Compression::SNAPPY).build());
    let whole = expected(&bytes);
    for read in [vec![0], vec![1], vec![0, 2], vec![1, 2]] {
        let found = decode(&bytes, 1, |leaf| read.contains(&leaf), |_, _| ()).unwrap();
        let (found, whole) = (found.as_list::<i32>(), whole.as_list::<i32>());
        assert_eq!((found.offsets(), found.nulls()), (whole.offsets(), whole.nulls()));
        let (found, whole) = (found.values().as_struct(), whole.values().as_struct());
        assert_eq!((found.num_columns(), found.nulls()), (read.len(), whole.nulls()));
        for (column, leaf) in found.columns().iter().zip(read) {
            assert_eq!(column, whole.column(leaf));
        }
    }
}

/// If any byte of any leaf is changed, the column is left to the Parquet crate or keeps its number of rows,
/// and nothing panics.
#[test]
fn damage_is_left_to_the_parquet_crate() {
    let mut random = RandomNumbers(5);
    for (data_type, version) in usual_types().into_iter().zip([1, 2, 1, 2]) {
        let field = Field::new("c", data_type, true);
        let array = values_of(&field, 60, 10, &mut random);
        let version = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][version - 1];
        let bytes = file_of(&field, &array, properties(version, Compression::UNCOMPRESSED).build());
        let metadata = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap().metadata().clone();
        let mut refused = 0;
        for (leaf, about) in metadata.row_group(0).columns().iter().enumerate() {
            for at in 0..about.compressed_size() as usize {
                let bit = 1 << (random.next() % 8);
                let damage = |of: usize, chunk: &mut Vec<u8>| {
                    if of == leaf {
                        chunk[at] ^= bit;
                    }
                };
                match decode(&bytes, 1, |_| true, damage) {
                    Some(array) => assert_eq!(array.len(), 60),
                    None => refused += 1,
                }
            }
        }
        assert!(refused > 0);
    }
}

/// The bytes of a file with lists of structures of two integers. Each argument has the repetition levels and
/// the definition levels of one of the integers.
fn with_levels(one: (&[i16], &[i16]), other: (&[i16], &[i16])) -> Bytes {
    let schema = "message m { optional group c (LIST) { repeated group list { optional group element {
        optional int32 a; optional int32 b; } } } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (repetition, definition) in [one, other] {
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<i32> = (0..definition.iter().filter(|level| **level == 4).count() as i32).collect();
        column.typed::<Int32Type>().write_batch(&values, Some(definition), Some(repetition)).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes.into()
}

#[test]
fn leaves_that_disagree_on_their_structure_are_left_to_the_parquet_crate() {
    let sound: (&[i16], &[i16]) = (&[0, 1, 0, 0, 0], &[4, 3, 2, 1, 0]);
    let decoded = |other| decode(&with_levels(sound, other), 1, |_| true, |_, _| ());
    let array = decoded((&[0, 1, 0, 0, 0], &[3, 4, 2, 1, 0])).unwrap();
    let lists = array.as_list::<i32>();
    assert_eq!((&lists.offsets()[..], lists.null_count()), (&[0, 2, 3, 3, 3][..], 1));
    assert_eq!(lists.values().nulls().unwrap().iter().collect::<Vec<_>>(), [true, true, false]);
    // The other leaf has other lists, another null structure, or an empty list in place of null.
    for other in [
        (&[0, 0, 1, 0, 0], &[4, 2, 3, 1, 0]),
        (&[0, 1, 0, 0, 0], &[4, 2, 3, 1, 0]),
        (&[0, 1, 0, 0, 0], &[4, 3, 2, 1, 1]),
    ] {
        assert!(decoded((&other.0[..], &other.1[..])).is_none(), "{other:?}");
    }
}

/// In `list<struct<list<int32>>>`, with everything nullable, repetition levels go up to 2 and definition
/// levels up to 6.
#[test]
fn levels_that_make_no_sense_have_no_shape() {
    let levels = LeafLevels {
        nodes: vec![NodeLevels::List(1), NodeLevels::Value(3), NodeLevels::List(4), NodeLevels::Value(6)],
        repetition: 2,
        definition: 6,
    };
    let runs = |levels: &[u8]| levels.iter().flat_map(|level| [2, *level]).collect::<Vec<u8>>();
    let shape = |rows: usize, pages: &[(&[u8], &[u8])]| {
        let pages = pages
            .iter()
            .map(|(repetition, definition)| (repetition.len(), runs(repetition), runs(definition)));
        let pages: Vec<_> = pages.collect();
        let pages: Vec<_> = pages.iter().map(|(count, one, two)| (*count, &one[..], &two[..])).collect();
        levels.shape(&KeptLevels::of_pages(6, &[(rows, &pages)]))
    };
    let sound = shape(3, &[(&[0, 0, 0, 1, 2, 1], &[0, 1, 2, 6, 5, 3])]).unwrap();
    assert_eq!(sound.lists(0).unwrap().0, [0, 0, 0, 3]);
    assert_eq!(sound.lists(2).unwrap().0, [0, 0, 2, 2]);
    assert_eq!(sound.values(3).unwrap().0, 2);
    for (rows, repetition, definition) in [
        // The first level of a chunk continues a list although none has begun. In the others, a level
        // continues a list after null, after an empty list, after a null item and after an empty inner list.
        (1, &[1][..], &[6][..]),
        (1, &[0, 1], &[0, 6]),
        (1, &[0, 1], &[1, 6]),
        (1, &[0, 2], &[2, 6]),
        (1, &[0, 2], &[4, 6]),
        // A level continues a list, but has no item for it.
        (1, &[0, 1], &[6, 1]),
        (1, &[0, 2], &[6, 4]),
        // A level is too high, or there are more or fewer rows than the chunk has.
        (1, &[0, 3], &[6, 6]),
        (1, &[0, 2], &[6, 7]),
        (2, &[0, 2], &[6, 6]),
        (1, &[0, 0], &[6, 6]),
    ] {
        assert!(shape(rows, &[(repetition, definition)]).is_none(), "{repetition:?} {definition:?}");
    }
    // A row may continue in the next page, but not if the page before ended without an item.
    assert!(shape(2, &[(&[0, 1], &[6, 6]), (&[2, 0], &[6, 0])]).is_some());
    assert!(shape(1, &[(&[0], &[0]), (&[1], &[6])]).is_none());
    // The page has fewer levels than values.
    assert!(levels.shape(&KeptLevels::of_pages(6, &[(2, &[(2, &[2, 0], &[4, 5])])])).is_none());
}

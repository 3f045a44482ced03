//! The data set of a test: the content of each row is a function of its id, which is its ordinal.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::*;
use forebay::arrow::buffer::OffsetBuffer;
use forebay::arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int32Type, Schema, SchemaRef};
use forebay::{Dataset, Place};
use forebay_image::encode_jpeg;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use serde_json::json;
use tempfile::TempDir;

use crate::chance::mixed;
use crate::vectors::inline;

/// The names of all columns, `id` first.
pub(crate) const COLUMNS: [&str; 15] = [
    "id", "flag", "small", "real", "amount", "wide", "when", "day", "word", "kind", "blob", "cell", "list",
    "corners", "image",
];

/// The columns of a stack.
pub(crate) const STACKED: [&str; 3] = ["real", "flag", "small"];

/// The types of the columns in a Delta table, for those that it can have.
const TYPES: [Option<&str>; 15] = [
    Some("long"),
    Some("boolean"),
    Some("integer"),
    Some("double"),
    Some("decimal(20,2)"),
    None,
    Some("timestamp"),
    Some("date"),
    Some("string"),
    Some("string"),
    Some("binary"),
    None,
    None,
    None,
    Some("binary"),
];

/// The most images in a list.
pub(crate) const MAX_FRAMES: u32 = 4;

/// The number of rows in a stretch that has only nulls, or none, if nulls come in stretches.
const STRETCH: u64 = 30;

/// Which values are null.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NullPattern {
    None,
    /// One value in this many, scattered.
    OneIn(u64),
    /// All values in some stretches of rows.
    Stretches,
}

/// The layout and the options of a data set.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The number of rows in each row group of each file.
    pub(crate) files: Vec<Vec<u32>>,
    /// The number of empty row groups at the end of each file.
    pub(crate) empty_groups: usize,
    pub(crate) compression: Compression,
    pub(crate) dictionary: bool,
    pub(crate) statistics: bool,
    pub(crate) second_version: bool,
    pub(crate) page_rows: usize,
    pub(crate) nulls: NullPattern,
    /// The length of the longest blob, in bytes.
    pub(crate) blob: u64,
    /// One image in this many is broken or null.
    pub(crate) bad: Option<u64>,
    /// If the data set is a Delta table: one row in this many is deleted.
    pub(crate) deleted: Option<u64>,
    /// Whether there are the columns `frames`, lists of images, and `objects`, lists of structures.
    pub(crate) lists: bool,
}

impl Layout {
    /// Files with row groups of equal size, with everything else at its default.
    pub(crate) fn even(files: usize, groups: usize, rows: u32) -> Layout {
        Layout {
            files: vec![vec![rows; groups]; files],
            empty_groups: 0,
            compression: Compression::UNCOMPRESSED,
            dictionary: true,
            statistics: true,
            second_version: false,
            page_rows: 20_000,
            nulls: NullPattern::OneIn(4),
            blob: 40,
            bad: None,
            deleted: None,
            lists: false,
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.files.iter().flatten().map(|&rows| u64::from(rows)).sum()
    }
}

/// An object in an image: the sides of its box, in pixels, and its label. It has the shape of its box.
pub(crate) struct Object {
    pub(crate) corners: [f64; 4],
    pub(crate) label: i64,
}

/// The polygon around a box.
pub(crate) fn polygon([left, top, right, bottom]: [f64; 4]) -> [f64; 8] {
    [left, top, right, top, right, bottom, left, bottom]
}

/// A data set on disk.
pub(crate) struct TableOnDisk {
    dir: TempDir,
    pub(crate) layout: Layout,
}

impl TableOnDisk {
    pub(crate) fn write(layout: Layout) -> TableOnDisk {
        let table = TableOnDisk { dir: TempDir::new().unwrap(), layout };
        let mut first = 0;
        for (number, groups) in table.layout.files.iter().enumerate() {
            table.write_file(&table.dir.path().join(format!("part-{number:03}.parquet")), groups, &mut first);
        }
        if table.layout.deleted.is_some() {
            table.write_log();
        }
        table
    }

    /// Makes a Delta table of the files, with a deletion vector for each.
    fn write_log(&self) {
        let types = COLUMNS.iter().zip(TYPES).filter_map(|(name, data_type)| Some((name, data_type?)));
        let field = |(name, data_type): (&&str, &str)| json!({"name": name, "type": data_type, "nullable": true, "metadata": {}});
        let schema = json!({"type": "struct", "fields": types.map(field).collect::<Vec<_>>()}).to_string();
        let mut actions = vec![
            json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}}),
            json!({"metaData": {"id": "t", "schemaString": schema, "partitionColumns": [], "configuration": {}}}),
        ];
        let mut first = 0;
        for (number, groups) in self.layout.files.iter().enumerate() {
            let (name, rows) = (
                format!("part-{number:03}.parquet"),
                groups.iter().map(|&rows| u64::from(rows)).sum::<u64>(),
            );
            let size = std::fs::metadata(self.dir.path().join(&name)).unwrap().len();
            let stats = json!({"numRecords": rows, "tightBounds": false, "nullCount": {"id": 0},
                "minValues": {"id": first}, "maxValues": {"id": first + rows.saturating_sub(1)}});
            let mut add = json!({"path": name, "partitionValues": {}, "size": size, "modificationTime": 1,
                "dataChange": true, "stats": stats.to_string()});
            let deleted = (0..rows).filter(|row| self.is_deleted(first + row)).map(|row| row as u16);
            let deleted: BTreeSet<u16> = deleted.collect();
            if !deleted.is_empty() {
                add["deletionVector"] = inline(&deleted);
            }
            actions.push(json!({"add": add}));
            first += rows;
        }
        let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
        let log = self.dir.path().join("_delta_log");
        std::fs::create_dir(&log).unwrap();
        std::fs::write(log.join(format!("{:020}.json", 0)), lines).unwrap();
    }

    pub(crate) fn is_deleted(&self, id: u64) -> bool {
        self.layout.deleted.is_some_and(|n| draw(16, id).is_multiple_of(n))
    }

    fn write_file(&self, path: &Path, groups: &[u32], first: &mut u64) {
        let layout = &self.layout;
        let statistics = if layout.statistics { EnabledStatistics::Chunk } else { EnabledStatistics::None };
        let version =
            if layout.second_version { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
        let properties = WriterProperties::builder()
            .set_compression(layout.compression)
            .set_dictionary_enabled(layout.dictionary)
            .set_statistics_enabled(statistics)
            .set_writer_version(version)
            .set_data_page_row_count_limit(layout.page_rows)
            .set_write_batch_size(layout.page_rows.min(1_024))
            .build();
        let file = File::create(path).unwrap();
        let schema = schema(layout.lists);
        let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
        for &rows in groups {
            let ids: Vec<u64> = (*first..*first + u64::from(rows)).collect();
            *first += u64::from(rows);
            let columns = names(layout.lists).map(|name| self.stored(name, &ids)).collect();
            writer.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
            writer.flush().unwrap();
        }
        let (mut writer, _) = writer.into_serialized_writer().unwrap();
        for _ in 0..layout.empty_groups {
            let mut group = writer.next_row_group().unwrap();
            while let Some(column) = group.next_column().unwrap() {
                column.close().unwrap();
            }
            group.close().unwrap();
        }
        writer.close().unwrap();
    }

    pub(crate) fn open(&self) -> Dataset {
        Dataset::open(self.dir.path()).unwrap()
    }

    /// Whether a Delta table of this data set can have a column.
    pub(crate) fn is_of_delta(name: &str) -> bool {
        COLUMNS.iter().zip(TYPES).any(|(of, data_type)| *of == name && data_type.is_some())
    }

    /// The id of the row at a place.
    pub(crate) fn id_at(&self, place: &Place) -> u64 {
        let file = place.file.as_ref().unwrap().strip_suffix(".parquet").unwrap();
        let file: usize = file[file.len() - 3..].parse().unwrap();
        let before = self.layout.files[..file].iter().flatten();
        let before = before.chain(&self.layout.files[file][..place.row_group.unwrap()]);
        before.map(|&rows| u64::from(rows)).sum::<u64>() + place.row.unwrap()
    }

    fn is_null(&self, column: u64, id: u64) -> bool {
        match self.layout.nulls {
            NullPattern::None => false,
            NullPattern::OneIn(n) => draw(column, id).is_multiple_of(n),
            NullPattern::Stretches => draw(column, id / STRETCH).is_multiple_of(3),
        }
    }

    /// Returns a value of a column, or `None` if it is null for this row.
    fn some<T>(&self, column: u64, id: u64, value: impl FnOnce(u64) -> T) -> Option<T> {
        (!self.is_null(column, id)).then(|| value(draw(column + 100, id)))
    }

    pub(crate) fn small(&self, id: u64) -> Option<i32> {
        self.some(2, id, |draw| (draw % 40) as i32 - 20)
    }

    /// One value in nine is NaN.
    pub(crate) fn real(&self, id: u64) -> Option<f64> {
        self.some(
            3,
            id,
            |draw| if draw.is_multiple_of(9) { f64::NAN } else { (draw % 64) as f64 / 4.0 - 8.0 },
        )
    }

    pub(crate) fn word(&self, id: u64) -> Option<String> {
        self.some(8, id, |draw| "abcdefghijklmnopqrst".repeat(2)[..(draw % 40) as usize].to_owned())
    }

    /// The bytes do not compress, because data that expands many times over would be refused for that alone.
    fn blob(&self, id: u64) -> Option<Vec<u8>> {
        self.some(10, id, |draw| {
            let length = (draw >> 8) % (self.layout.blob + 1);
            (0..length.div_ceil(8))
                .flat_map(|at| mixed(draw ^ at).to_le_bytes())
                .take(length as usize)
                .collect()
        })
    }

    fn list(&self, id: u64) -> Option<Vec<Option<i32>>> {
        self.some(12, id, |draw| {
            let length = if draw.is_multiple_of(3) { 0 } else { draw % 7 };
            let hole = if self.layout.nulls == NullPattern::None { length } else { 2 };
            (0..length).map(|at| (at != hole).then_some((draw >> 9) as i32 % 1_000 + at as i32)).collect()
        })
    }

    pub(crate) fn is_bad(&self, id: u64) -> bool {
        self.layout.bad.is_some_and(|n| draw(14, id).is_multiple_of(n))
    }

    /// The encoded image of a row; a bad row has half of an image, or none.
    pub(crate) fn image(&self, id: u64) -> Option<Vec<u8>> {
        let whole = photograph(id);
        match (self.is_bad(id), id.is_multiple_of(2)) {
            (false, _) => Some(whole),
            (true, false) => Some(whole[..whole.len() / 2].to_vec()),
            (true, true) => None,
        }
    }

    /// The encoded images of a row's list; in a bad row, all of them are broken.
    pub(crate) fn frames(&self, id: u64) -> Option<Vec<Vec<u8>>> {
        let frames = (0..1 + draw(17, id) % u64::from(MAX_FRAMES)).map(|number| photograph(id + number));
        match (self.is_bad(id), id.is_multiple_of(2)) {
            (false, _) => Some(frames.collect()),
            (true, false) => Some(frames.map(|whole| whole[..whole.len() / 2].to_vec()).collect()),
            (true, true) => None,
        }
    }

    /// The objects in the image of a row.
    pub(crate) fn objects(&self, id: u64) -> Vec<Object> {
        let (width, height) = size_of(id);
        let object = |number: u64| {
            let draw = draw(18, id * 8 + number);
            // The sides are quarters of pixels, so that float32 has them exactly.
            let side = |draw: u64, length: u32| {
                let (from, long) = ((draw & 0xff) % 40, 8 + (draw >> 8 & 0xff) % 40);
                let start = from as f64 / 4.0;
                (start, (start + long as f64 / 4.0).min(f64::from(length)))
            };
            let ((left, right), (top, bottom)) = (side(draw, width), side(draw >> 16, height));
            Object { corners: [left, top, right, bottom], label: (draw >> 40) as i64 }
        };
        (0..draw(19, id) % 4).map(object).collect()
    }

    /// The sides of the boxes in the image of a row, if there are any in this table.
    pub(crate) fn corners(&self, id: u64) -> Vec<[f64; 4]> {
        let objects = if self.layout.lists { self.objects(id) } else { Vec::new() };
        objects.into_iter().map(|object| object.corners).collect()
    }

    /// A column as it is written.
    fn stored(&self, name: &str, ids: &[u64]) -> ArrayRef {
        let ids = ids.iter().copied();
        match name {
            "id" => Arc::new(Int64Array::from_iter_values(ids.map(|id| id as i64))),
            "flag" => Arc::new(BooleanArray::from_iter(ids.map(|id| self.some(1, id, |draw| draw % 2 == 0)))),
            "small" => Arc::new(Int32Array::from_iter(ids.map(|id| self.small(id)))),
            "real" => Arc::new(Float64Array::from_iter(ids.map(|id| self.real(id)))),
            "amount" => {
                let values = ids.map(|id| self.some(4, id, |draw| (draw >> 20) as i128 - (1 << 43)));
                Arc::new(Decimal128Array::from_iter(values).with_precision_and_scale(20, 2).unwrap())
            }
            "wide" => {
                let wide =
                    |draw: u64| forebay::arrow::datatypes::i256::from_i128(i128::from(draw) * -(1 << 60));
                let values = ids.map(|id| self.some(5, id, wide));
                Arc::new(Decimal256Array::from_iter(values).with_precision_and_scale(50, 5).unwrap())
            }
            "when" => {
                let values = ids.map(|id| self.some(6, id, |draw| (draw >> 14) as i64 - (1 << 48)));
                Arc::new(TimestampMicrosecondArray::from_iter(values).with_timezone("UTC"))
            }
            "day" => {
                Arc::new(Date32Array::from_iter(ids.map(|id| self.some(7, id, |draw| draw as u16 as i32))))
            }
            "word" => Arc::new(StringArray::from_iter(ids.map(|id| self.word(id)))),
            "kind" => {
                let names = ["cat", "", "a dog of some length, not inline"];
                let values = ids.map(|id| self.some(9, id, |draw| names[draw as usize % 3]));
                Arc::new(values.collect::<DictionaryArray<Int32Type>>())
            }
            "blob" => Arc::new(BinaryArray::from_iter(ids.map(|id| self.blob(id)))),
            "cell" => {
                let cells = ids.map(|id| self.some(11, id, |draw| [draw as u8, (draw >> 8) as u8, id as u8]));
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, 3).unwrap())
            }
            "list" => {
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(ids.map(|id| self.list(id))))
            }
            "corners" => {
                let corners =
                    |draw: u64| [draw, draw >> 8, draw >> 16, draw >> 24].map(|v| Some(v as u8 as f32));
                let values = ids.map(|id| self.some(13, id, corners));
                Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(values, 4))
            }
            "image" => Arc::new(BinaryArray::from_iter(ids.map(|id| self.image(id)))),
            "frames" => {
                let mut lists = ListBuilder::new(BinaryBuilder::new());
                for id in ids {
                    let frames = self.frames(id);
                    frames.iter().flatten().for_each(|frame| lists.values().append_value(frame));
                    lists.append(frames.is_some());
                }
                Arc::new(lists.finish())
            }
            "objects" => stored_objects(ids.map(|id| self.objects(id))),
            other => panic!("no column {other}"),
        }
    }

    /// Returns a column as a batch with these rows delivers it without decoding.
    pub(crate) fn delivered(&self, name: &str, ids: &[u64]) -> ArrayRef {
        let stored = self.stored(name, ids);
        match stored.data_type() {
            DataType::Utf8 => Arc::new(LargeStringArray::from_iter(stored.as_string::<i32>())),
            DataType::Binary => Arc::new(LargeBinaryArray::from_iter(stored.as_binary::<i32>())),
            DataType::Dictionary(_, _) => {
                let texts = stored.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
                Arc::new(LargeStringArray::from_iter(texts))
            }
            DataType::List(item) => {
                let list = stored.as_list::<i32>();
                let offsets = list.offsets().iter().map(|offset| i64::from(*offset)).collect();
                let (values, nulls) = (list.values().clone(), list.nulls().cloned());
                Arc::new(LargeListArray::new(item.clone(), OffsetBuffer::new(offsets), values, nulls))
            }
            _ => stored,
        }
    }
}

fn draw(column: u64, id: u64) -> u64 {
    mixed(mixed(column).wrapping_add(id))
}

/// A list of structures for each row.
fn stored_objects(rows: impl Iterator<Item = Vec<Object>>) -> ArrayRef {
    let rows: Vec<Vec<Object>> = rows.collect();
    let all = || rows.iter().flatten();
    let corners = all().map(|object| Some(object.corners.map(|side| Some(side as f32))));
    let labels = Int64Array::from_iter_values(all().map(|object| object.label));
    let masks = all().map(|object| Some(polygon(object.corners).map(Some)));
    let fields: [(&str, ArrayRef); 3] = [
        ("box", Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(corners, 4))),
        ("label", Arc::new(labels)),
        ("mask", Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(masks))),
    ];
    let objects = StructArray::from(RecordBatch::try_from_iter(fields).unwrap());
    let item = Arc::new(Field::new("item", objects.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(Vec::len));
    Arc::new(ListArray::new(item, offsets, Arc::new(objects), None))
}

/// The names of the stored columns.
fn names(lists: bool) -> impl Iterator<Item = &'static str> {
    COLUMNS.into_iter().chain(["frames", "objects"].into_iter().filter(move |_| lists))
}

fn schema(lists: bool) -> SchemaRef {
    let none = TableOnDisk {
        dir: TempDir::new().unwrap(),
        layout: Layout { nulls: NullPattern::None, ..Layout::even(0, 0, 0) },
    };
    let field = |name: &str| Field::new(name, none.stored(name, &[]).data_type().clone(), name != "id");
    Arc::new(Schema::new(names(lists).map(field).collect::<Vec<_>>()))
}

/// The width and height of the image of a row.
fn size_of(id: u64) -> (u32, u32) {
    let draw = draw(15, id);
    (12 + (draw % 20) as u32, 12 + ((draw >> 8) % 20) as u32)
}

/// A small image without symmetry that differs from every other row's. Every second image is a JPEG, the
/// others are PNG.
fn photograph(id: u64) -> Vec<u8> {
    let (draw, (width, height)) = (draw(15, id), size_of(id));
    let tint = (draw >> 16) as u32 % 100;
    let pixels: Vec<u8> = (0..height)
        .flat_map(|y| {
            (0..width).flat_map(move |x| [x * 155 / width + tint, y * 155 / height + tint, tint * 2])
        })
        .map(|value| value as u8)
        .collect();
    if draw & (1 << 40) == 0 {
        return encode_jpeg(&pixels, width, height, 90).unwrap();
    }
    let mut png = std::io::Cursor::new(Vec::new());
    let image = image::RgbImage::from_raw(width, height, pixels).unwrap();
    image.write_to(&mut png, image::ImageFormat::Png).unwrap();
    png.into_inner()
}

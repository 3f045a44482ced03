//! Runs a loader, and compares every value of every batch with the value that its row must have.

use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{
    Array, AsArray, BooleanArray, FixedSizeListArray, Int32Array, LargeListArray, RecordBatch, Scalar,
};
use forebay::arrow::compute::zip;
use forebay::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use forebay::column::{Stack, Views};
use forebay::plan::{column_key, column_tag, row_key, view_key};
use forebay::{DiskCache, Epoch, Image, Loader, LoaderBuilder, OnBadRow, Result, Shard, Shuffle};
use forebay_image::{Drawing, PixelType, RowKey, Workspace, decode_within};

use crate::case::Case;
use crate::pictures::{DrawnClip, OF_OBJECTS, Pictures, visible, with_objects};
use crate::table::{MAX_FRAMES, STACKED, TableOnDisk};

/// The value that replaces nulls, if that is requested.
const FILL: i32 = -7;

/// The greatest permitted mean difference of pixels, on a scale of 255, if a cache keeps images in another
/// form. A crop at another place or a flipped image differs several times as much.
const LOSS: f64 = 8.0;

/// The properties of a loader that vary within a case.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) rank: u32,
    pub(crate) world: u32,
    pub(crate) batch: u64,
    pub(crate) shuffle: Shuffle,
    pub(crate) threads: usize,
    pub(crate) memory: u64,
    pub(crate) on_bad_row: OnBadRow,
}

impl How {
    /// Returns the properties that the case has.
    pub(crate) fn for_rank(case: &Case, rank: u32) -> How {
        let on_bad_row = match case.layout.bad {
            Some(_) => OnBadRow::skip(u64::MAX),
            None => OnBadRow::Raise,
        };
        let Case { world, batch, threads, memory, .. } = *case;
        How { rank, world, batch, shuffle: case.shuffle(), threads, memory, on_bad_row }
    }
}

/// Returns the cache of a case, in a folder.
pub(crate) fn cache(case: &Case, folder: &Path) -> Option<DiskCache> {
    case.cache.map(|(max_bytes, _)| DiskCache::open(folder, max_bytes).unwrap())
}

pub(crate) fn build(case: &Case, table: &TableOnDisk, how: &How, cache: Option<DiskCache>) -> Result<Loader> {
    let mut builder: LoaderBuilder = table
        .open()
        .loader()
        .columns(case.columns.iter().copied())
        .shuffle(how.shuffle)
        .shard(Shard::new(how.rank, how.world).unwrap())
        .batch_size(how.batch)
        .drop_last(case.drop_last)
        .threads(how.threads)
        .memory(how.memory)
        .on_bad_row(how.on_bad_row);
    if let Some(views) = case.views() {
        let views = views.into_iter().fold(Views::new(), |views, (name, image, count)| match count {
            Some(count) => views.several(name, count, image),
            None => views.one(name, image),
        });
        builder = builder.views("image", views);
    } else if let Some(image) = case.decoded() {
        builder = match case.pictures {
            Pictures::Clips(drawn) => builder.clip("frames", drawn.clip(image, MAX_FRAMES)),
            Pictures::Objects => with_objects(builder, image),
            Pictures::One | Pictures::Views => builder.decode("image", image.clone()),
        };
    }
    if case.columns.iter().any(|column| OF_OBJECTS.contains(column)) {
        builder = builder.flatten(["objects"]);
    }
    if case.stack {
        let stack = Stack::new(["real", "fl*", "small"]).dtype(DataType::Float64);
        builder = builder.stack("stack", stack).fill_null("stack", f64::from(FILL)).null_mask(["stack"]);
    }
    if case.fill && case.columns.contains(&"small") {
        builder = builder.fill_null("small", f64::from(FILL));
    }
    if let Some(filter) = crate::filters::filter(&case.filter) {
        builder = builder.filter(filter);
    }
    if let (Some(cache), Some((_, tier))) = (cache, case.cache) {
        builder = builder.cache(cache).cache_tier(tier);
    }
    builder.build()
}

/// A batch: the rows that it has, and the rows that were left out of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunStep {
    pub(crate) ids: Vec<u64>,
    pub(crate) skipped: Vec<u64>,
    /// If all rows of the batch are bad: the good row that is delivered instead, in addition to its own turn.
    pub(crate) stands_in: Option<u64>,
}

impl RunStep {
    pub(crate) fn rows(&self) -> impl Iterator<Item = u64> {
        self.ids.iter().chain(&self.skipped).copied()
    }

    pub(crate) fn len(&self) -> u64 {
        (self.ids.len() + self.skipped.len()) as u64
    }
}

/// Takes at most `most` steps of an epoch, and compares their values.
pub(crate) fn take(
    case: &Case,
    table: &TableOnDisk,
    loader: &Loader,
    epoch: &mut Epoch,
    most: usize,
) -> Vec<RunStep> {
    let mut steps = Vec::new();
    while steps.len() < most {
        let (number, owed, before) = (epoch.number(), epoch.remaining(), epoch.skipped().len());
        let padded = loader.stats().padded_rows;
        let Some(batch) = epoch.next() else {
            assert_eq!(owed, 0, "an epoch ended early");
            break;
        };
        let batch = batch.unwrap_or_else(|error| panic!("epoch {number}, step {}: {error}", steps.len()));
        assert_eq!(epoch.remaining(), owed - 1);
        let skipped = &epoch.skipped()[before..];
        let mut ids = compare(case, table, number, &batch);
        assert!(!ids.is_empty(), "no batch is empty");
        let skipped: Vec<u64> = skipped.iter().map(|bad| table.id_at(bad.error().place())).collect();
        // A row that stands in for a batch of bad rows is alone in that batch, and is counted as padded.
        let is_alone = ids.len() == 1 && !skipped.is_empty() && loader.stats().padded_rows > padded;
        let stands_in = is_alone.then(|| ids.remove(0));
        steps.push(RunStep { ids, skipped, stands_in });
    }
    steps
}

/// Reads a whole epoch.
pub(crate) fn whole(case: &Case, table: &TableOnDisk, loader: &Loader, epoch: u64) -> Vec<RunStep> {
    let steps = take(case, table, loader, &mut loader.epoch(epoch), usize::MAX);
    assert_eq!(steps.len() as u64, loader.len(), "len() is exact");
    steps
}

/// The ids of a batch, after all of its columns were compared.
fn compare(case: &Case, table: &TableOnDisk, epoch: u64, batch: &RecordBatch) -> Vec<u64> {
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let views = case.views();
    let first = |name: &&'static str| if views.is_some() && *name == "image" { "image.a" } else { *name };
    let is_clip = matches!(case.pictures, Pictures::Clips(_));
    let has_sizes = is_clip && case.decoded().is_some_and(Image::emits_size);
    let others = views.iter().map(|_| "image.b").chain(has_sizes.then_some("frames.size"));
    let stacks = if case.stack { &["stack", "stack.mask"][..] } else { &[] };
    let asked = case.columns.iter().map(first).chain(others).chain(stacks.iter().copied());
    let asked: Vec<&str> = asked.collect();
    assert_eq!(names, asked, "columns come in the order asked for");
    let ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>();
    let ids: Vec<u64> = ids.values().iter().map(|&id| id as u64).collect();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let name = field.name().as_str();
        assert_eq!(field.data_type(), column.data_type());
        let decoded = case.decoded();
        if let (Some(image), true) = (decoded, name == case.pictures.column()) {
            assert!(!field.is_nullable());
            let each = ids.iter().map(|&id| (id, key_of(case, epoch, id)));
            match case.pictures {
                Pictures::Clips(drawn) => clips(drawn, table, each, column, image),
                _ => pixels(case, table, epoch, each, column, image),
            }
            continue;
        }
        if let (Some(image), "frames.size", Pictures::Clips(drawn)) = (decoded, name, case.pictures) {
            for (row, &id) in ids.iter().enumerate() {
                let expected = drawn.sizes(image, &table.frames(id).unwrap(), key_of(case, epoch, id));
                let found = match column.as_list_opt::<i64>() {
                    Some(lists) => lists.value(row),
                    None => column.as_fixed_size_list().value(row),
                };
                let bytes = expected.into_iter().flat_map(i32::to_ne_bytes).collect::<Vec<u8>>();
                assert!(bytes_of(&found) == bytes, "the sizes of the clip of row {id}");
            }
            continue;
        }
        if let (Some(image), true) = (decoded, OF_OBJECTS.contains(&name)) {
            assert!(!field.is_nullable());
            let each = ids.iter().map(|&id| (id, key_of(case, epoch, id)));
            objects(table, each, (name, column.as_list()), image);
            continue;
        }
        if let (Some(view), Some(views)) = (name.strip_prefix("image."), &views) {
            let (_, image, count) = views.iter().find(|(name, ..)| *name == view).unwrap();
            let key = |id, number| RowKey(view_key(key_of(case, epoch, id).0, column_tag(view), number));
            let each = ids.iter().flat_map(|&id| (0..count.unwrap_or(1)).map(move |number| (id, number)));
            pixels(case, table, epoch, each.map(|(id, number)| (id, key(id, number))), column, image);
            continue;
        }
        if name.starts_with("stack") {
            compare_stack(table, name, &ids, column.as_fixed_size_list());
            continue;
        }
        let mut expected = table.delivered(name, &ids);
        let filled = case.fill && name == "small";
        if filled {
            let fill = Scalar::new(Int32Array::from(vec![FILL]));
            expected = zip(&present(&expected), &expected, &fill).unwrap();
        }
        // In a Delta table, any column may hold nulls.
        let is_nullable = name != "id" || table.layout.deleted.is_some();
        assert_eq!(field.is_nullable(), is_nullable && !filled, "whether column {name:?} may hold nulls");
        assert_eq!(column, &expected, "column {name:?} of rows {ids:?}");
    }
    ids
}

/// Compares the matrix of a stack, or its mask, with the stored values of its columns.
fn compare_stack(table: &TableOnDisk, name: &str, ids: &[u64], found: &FixedSizeListArray) {
    let columns = STACKED.map(|column| table.delivered(column, ids));
    assert_eq!((found.len(), found.value_length()), (ids.len(), 3));
    for (row, id) in ids.iter().enumerate() {
        for (at, column) in columns.iter().enumerate() {
            let place = row * columns.len() + at;
            if name == "stack.mask" {
                assert_eq!(found.values().as_boolean().value(place), column.is_valid(row));
                continue;
            }
            let value = match column.data_type() {
                _ if column.is_null(row) => f64::from(FILL),
                DataType::Boolean => f64::from(u8::from(column.as_boolean().value(row))),
                DataType::Int32 => f64::from(column.as_primitive::<Int32Type>().value(row)),
                _ => column.as_primitive::<Float64Type>().value(row),
            };
            let found = found.values().as_primitive::<Float64Type>().value(place);
            assert_eq!(found.to_bits(), value.to_bits(), "column {:?} of row {id}", STACKED[at]);
        }
    }
}

/// Returns, for each row of a column, whether it has a value.
fn present(column: &dyn Array) -> BooleanArray {
    (0..column.len()).map(|row| Some(column.is_valid(row))).collect()
}

/// The key of a row's image, made of the seed, the epoch, the row's place in the data set, and the column.
fn key_of(case: &Case, epoch: u64, id: u64) -> RowKey {
    RowKey(column_key(row_key(case.shuffle().seed(), epoch, id), column_tag(case.pictures.column())))
}

/// Compares each clip with the images that are chosen from its row's list.
fn clips(
    drawn: DrawnClip,
    table: &TableOnDisk,
    each: impl Iterator<Item = (u64, RowKey)>,
    column: &Arc<dyn Array>,
    image: &Image,
) {
    assert_eq!(column.null_count(), 0);
    for (row, (id, key)) in each.enumerate() {
        let (frames, expected) = drawn.expected(image, &table.frames(id).unwrap(), key);
        let (clip, shaped) = match column.as_list_opt::<i64>() {
            Some(lists) => (lists.value(row), lists.value_length(row) as usize == frames),
            None => (column.as_fixed_size_list().value(row), true),
        };
        assert!(shaped && bytes_of(&clip) == expected, "the clip of row {id}");
    }
}

/// The bytes of an array of numbers, which may be in lists of a fixed length.
fn bytes_of(array: &dyn Array) -> Vec<u8> {
    match array.as_fixed_size_list_opt() {
        Some(lists) => {
            let each = lists.value_length() as usize;
            bytes_of(&lists.values().slice(lists.value_offset_at(0), lists.len() * each))
        }
        None => {
            let (data, width) = (array.to_data(), array.data_type().primitive_width().unwrap());
            data.buffers()[0][data.offset() * width..][..data.len() * width].to_vec()
        }
    }
}

/// Compares a field of the objects of each row.
fn objects(
    table: &TableOnDisk,
    each: impl Iterator<Item = (u64, RowKey)>,
    (name, found): (&str, &LargeListArray),
    image: &Image,
) {
    for (row, (id, key)) in each.enumerate() {
        let expected = visible(table, image, id, key);
        let found = found.value(row);
        assert_eq!(found.len(), expected.len(), "{name} of row {id}");
        let bytes: Vec<u8> = match OF_OBJECTS.iter().position(|of| *of == name) {
            Some(0) => {
                expected.iter().flat_map(|(sides, ..)| sides.map(f32::to_ne_bytes)).flatten().collect()
            }
            Some(1) => expected.iter().flat_map(|(_, label, _)| label.to_ne_bytes()).collect(),
            _ => expected.iter().flat_map(|(.., mask)| mask).copied().collect(),
        };
        assert!(bytes_of(&found) == bytes, "{name} of row {id}");
    }
}

/// Compares each image with the one that is decoded here from its row and its random key.
fn pixels(
    case: &Case,
    table: &TableOnDisk,
    epoch: u64,
    each: impl Iterator<Item = (u64, RowKey)>,
    column: &Arc<dyn Array>,
    image: &Image,
) {
    assert_eq!(column.null_count(), 0);
    let values = column.as_fixed_size_list().values().to_data();
    let bytes = values.buffers()[0].as_slice();
    let each: Vec<(u64, RowKey)> = each.collect();
    assert_eq!(bytes.len(), each.len() * image.bytes_per_image());
    let (mut expected, workspace) = (vec![0; image.bytes_per_image()], Workspace::of_loader(1 << 26, 1));
    for ((id, key), slot) in each.into_iter().zip(bytes.chunks_exact(image.bytes_per_image())) {
        let corners = table.corners(id);
        let drawing = Drawing::from(key).around(&corners, false);
        decode_within(&workspace, image, &table.image(id).unwrap(), drawing, &mut expected).unwrap();
        if !case.is_lossy() {
            assert!(slot == expected, "pixels of row {id} in epoch {epoch}");
            continue;
        }
        let off = match image.pixel_type() {
            PixelType::F32 => {
                // Pixels were normalized with a standard deviation of a quarter, so 255 levels span 4.
                let floats = |bytes: &[u8]| -> Vec<f64> {
                    let words =
                        bytes.chunks_exact(4).map(|word| f32::from_ne_bytes(word.try_into().unwrap()));
                    words.map(|value| f64::from(value) * 255.0 / 4.0).collect()
                };
                distance(&floats(slot), &floats(&expected))
            }
            _ => {
                let floats =
                    |bytes: &[u8]| -> Vec<f64> { bytes.iter().map(|&byte| f64::from(byte)).collect() };
                distance(&floats(slot), &floats(&expected))
            }
        };
        assert!(off < LOSS, "pixels of row {id} in epoch {epoch} are {off:.1} of 255 off");
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / a.len() as f64
}

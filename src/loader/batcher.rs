//! One batch: rows gathered, images decoded into the batch's own slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, RecordBatch, RecordBatchOptions, make_array,
};
use arrow::datatypes::{DataType, Field, SchemaRef};
use rayon::prelude::*;

use super::slab::Slabs;
use super::stats::Counters;
use super::{BadRow, OnBadRow};
use crate::batch::{Selection, gather};
use crate::catalog::Catalog;
use crate::decode::{Image, PixelType, RowKey, decode_into};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::reader::Resident;
use crate::shard::row_key;

/// What becomes of one column.
#[derive(Clone, Debug)]
pub(crate) enum Treatment {
    /// Gathered as it is; nulls of numeric columns are replaced where a fill is given.
    Plain { fill: Option<f64> },
    /// Decoded to pixels.
    Image(Image),
}

/// How the batches of a loader are made.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) catalog: Arc<Catalog>,
    /// One for each column of the projection.
    pub(crate) treatments: Vec<Treatment>,
    pub(crate) schema: SchemaRef,
    pub(crate) on_bad_row: OnBadRow,
    pub(crate) slabs: Slabs,
    pub(crate) counters: Arc<Counters>,
    /// Seed of the augmentation.
    pub(crate) seed: u64,
}

/// The rows of one batch.
pub(crate) struct Job {
    pub(crate) recipe: Arc<Recipe>,
    /// The parts that rows come from; each keeps its memory permit until the job is done.
    pub(crate) sources: Vec<Arc<Resident>>,
    /// Source and row in it.
    pub(crate) picks: Vec<(u32, u32)>,
    pub(crate) epoch: u64,
    pub(crate) cancelled: Arc<AtomicBool>,
}

/// A batch, and the rows that are missing from it because they were bad and the user asked to skip such rows.
pub(crate) struct Made {
    pub(crate) batch: RecordBatch,
    pub(crate) skipped: Vec<BadRow>,
}

impl Job {
    /// Makes the batch; runs on the loader's pool.
    pub(crate) fn run(mut self) -> Result<Made> {
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.recipe.treatments.len()];
        let mut pixels: Vec<(usize, Image, super::slab::Slab)> = Vec::new();
        let mut bad: Vec<Option<Error>> = vec![None; self.picks.len()];
        let recipe = self.recipe.clone();
        for (column, treatment) in recipe.treatments.iter().enumerate() {
            if let Treatment::Image(image) = treatment {
                pixels.push((column, image.clone(), self.decode(column, image, &mut bad)?));
            }
        }
        let skipped = self.drop_bad(bad, &mut pixels)?;
        for (column, image, slab) in pixels {
            columns[column] =
                Some(tensor(&self.recipe.schema.field(column).clone(), &image, slab, self.picks.len())?);
        }
        self.gather(&mut columns)?;
        let columns: Vec<ArrayRef> = columns.into_iter().flatten().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.picks.len()));
        let batch = RecordBatch::try_new_with_options(self.recipe.schema.clone(), columns, &options)?;
        Ok(Made { batch, skipped })
    }

    /// Decodes one column into a fresh slab, one slot to a row; failures go to `bad`.
    fn decode(&self, column: usize, image: &Image, bad: &mut [Option<Error>]) -> Result<super::slab::Slab> {
        let started = Instant::now();
        let slot = image.bytes_per_image();
        let mut slab = self.recipe.slabs.take(slot * self.picks.len());
        let encoded: Vec<Encoded<'_>> = self
            .sources
            .iter()
            .map(|source| Encoded::of(source.rows.column(column).as_ref()))
            .collect::<Result<_>>()?;
        let epoch = self.epoch;
        // One image per task: a slow image never has others queued behind it.
        slab.as_mut_slice()
            .par_chunks_exact_mut(slot)
            .zip(&self.picks)
            .zip(bad.par_iter_mut())
            .with_max_len(1)
            .try_for_each(|((slot, &(source, row)), bad)| {
                if self.cancelled.load(Relaxed) {
                    return Err(Error::new(ErrorKind::Closed, "the epoch was left"));
                }
                let resident = &self.sources[source as usize];
                let key = RowKey(row_key(self.recipe.seed, epoch, self.recipe.ordinal(resident, row)));
                let decoded = match encoded[source as usize].get(row as usize) {
                    Some(bytes) => decode_into(image, bytes, key, slot),
                    None => Err(Error::new(ErrorKind::BadRow, "null where an image is needed")),
                };
                if let Err(error) = decoded {
                    *bad = bad.take().or(Some(error.at(self.recipe.place(resident, row, column))));
                }
                Ok(())
            })?;
        let seconds = started.elapsed().as_secs_f64();
        self.recipe.counters.decode.add(self.picks.len() as u64, (slot * self.picks.len()) as u64, seconds);
        Ok(slab)
    }

    /// Raises the first bad row, or takes all of them out of the batch.
    fn drop_bad(
        &mut self,
        bad: Vec<Option<Error>>,
        pixels: &mut [(usize, Image, super::slab::Slab)],
    ) -> Result<Vec<BadRow>> {
        if bad.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        if matches!(self.recipe.on_bad_row, OnBadRow::Raise) {
            let first = bad.into_iter().flatten().next();
            return Err(first
                .unwrap_or_else(|| Error::new(ErrorKind::Internal, "a bad row without a cause"))
                .hint("to count and skip such rows, say so with on_bad_row"));
        }
        for (_, image, slab) in pixels {
            let slot = image.bytes_per_image();
            let mut kept = 0;
            for row in (0..bad.len()).filter(|&row| bad[row].is_none()) {
                slab.as_mut_slice().copy_within(row * slot..(row + 1) * slot, kept * slot);
                kept += 1;
            }
            slab.truncate(kept * slot);
        }
        let mut present = bad.iter().map(Option::is_none);
        self.picks.retain(|_| present.next().unwrap_or(true));
        Ok(bad.into_iter().flatten().map(|error| BadRow { error }).collect())
    }

    /// Gathers the columns that are not images, in parallel.
    fn gather(&mut self, columns: &mut [Option<ArrayRef>]) -> Result<()> {
        let started = Instant::now();
        let selection = Selection::new(self.picks.clone());
        let recipe = &self.recipe;
        let sources = &self.sources;
        columns.par_iter_mut().zip(&recipe.treatments).enumerate().with_max_len(1).try_for_each(
            |(column, (slot, treatment))| {
                if let Treatment::Plain { fill } = treatment {
                    let arrays: Vec<&dyn Array> =
                        sources.iter().map(|source| source.rows.column(column).as_ref()).collect();
                    let gathered = gather(&arrays, &selection, *fill);
                    *slot = Some(gathered.map_err(|error| {
                        error.at(Place::default().column(recipe.schema.field(column).name().as_str()))
                    })?);
                }
                Ok::<_, Error>(())
            },
        )?;
        let bytes = columns.iter().flatten().map(|column| column.get_buffer_memory_size() as u64).sum();
        recipe.counters.gather.add(self.picks.len() as u64, bytes, started.elapsed().as_secs_f64());
        Ok(())
    }
}

impl Recipe {
    /// The ordinal of a resident's row in the whole data set.
    fn ordinal(&self, resident: &Resident, row: u32) -> u64 {
        self.catalog.groups[resident.part.group as usize].first_row + resident.row_in_group(row)
    }

    fn place(&self, resident: &Resident, row: u32, column: usize) -> Place {
        let group = &self.catalog.groups[resident.part.group as usize];
        Place::file(self.catalog.files[group.file].location.clone())
            .row_group(group.index)
            .row(resident.row_in_group(row))
            .column(self.schema.field(column).name().as_str())
    }
}

/// Encoded images of one source: raw bytes, or the Hugging Face `struct<bytes, path>`.
enum Encoded<'a> {
    View(&'a arrow::array::BinaryViewArray),
    Fixed(&'a arrow::array::FixedSizeBinaryArray),
    Struct { nulls: Option<&'a arrow::buffer::NullBuffer>, bytes: &'a arrow::array::BinaryViewArray },
}

impl<'a> Encoded<'a> {
    fn of(array: &'a dyn Array) -> Result<Self> {
        let unfit =
            || Error::new(ErrorKind::Internal, format!("{} holds no encoded images", array.data_type()));
        match array.data_type() {
            DataType::BinaryView => Ok(Encoded::View(array.as_binary_view())),
            DataType::FixedSizeBinary(_) => Ok(Encoded::Fixed(array.as_fixed_size_binary())),
            DataType::Struct(_) => {
                let fields = array.as_struct();
                let bytes = fields.column_by_name("bytes").ok_or_else(unfit)?;
                Ok(Encoded::Struct {
                    nulls: fields.nulls(),
                    bytes: bytes.as_binary_view_opt().ok_or_else(unfit)?,
                })
            }
            _ => Err(unfit()),
        }
    }

    fn get(&self, row: usize) -> Option<&'a [u8]> {
        match self {
            Encoded::View(array) => array.is_valid(row).then(|| array.value(row)),
            Encoded::Fixed(array) => array.is_valid(row).then(|| array.value(row)),
            Encoded::Struct { nulls, bytes } => (nulls.is_none_or(|nulls| nulls.is_valid(row))
                && bytes.is_valid(row))
            .then(|| bytes.value(row)),
        }
    }
}

/// Whether encoded images are read from a column of this type.
pub(crate) fn holds_images(data_type: &DataType) -> bool {
    match data_type {
        DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Struct(fields) => {
            fields.find("bytes").is_some_and(|(_, f)| f.data_type() == &DataType::BinaryView)
        }
        _ => false,
    }
}

/// The field of a decoded image column: a fixed-size list with the `arrow.fixed_shape_tensor` extension type.
pub(crate) fn tensor_field(name: &str, image: &Image) -> Field {
    let shape = image.shape();
    let values: usize = shape.iter().product();
    let (item, bfloat16) = match image.pixel_type() {
        PixelType::U8 => (DataType::UInt8, false),
        PixelType::F16 => (DataType::Float16, false),
        PixelType::F32 => (DataType::Float32, false),
        // Arrow has no bfloat16: its bits travel as 16-bit words under a name of our own.
        PixelType::BF16 => (DataType::UInt16, true),
    };
    let list = DataType::FixedSizeList(Arc::new(Field::new("item", item, false)), values as i32);
    let mut metadata = std::collections::HashMap::from([
        ("ARROW:extension:name".to_string(), "arrow.fixed_shape_tensor".to_string()),
        (
            "ARROW:extension:metadata".to_string(),
            format!(r#"{{"shape":[{},{},{}]}}"#, shape[0], shape[1], shape[2]),
        ),
    ]);
    if bfloat16 {
        metadata.insert("forebay:dtype".into(), "bfloat16".into());
    }
    Field::new(name, list, false).with_metadata(metadata)
}

fn tensor(field: &Field, image: &Image, slab: super::slab::Slab, rows: usize) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, length) = field.data_type() else {
        return Err(Error::new(ErrorKind::Internal, "an image column that is no tensor"));
    };
    let values: usize = image.shape().iter().product();
    let data = arrow::array::ArrayData::builder(item.data_type().clone())
        .len(values * rows)
        .add_buffer(slab.into_buffer())
        .build()?;
    Ok(Arc::new(FixedSizeListArray::try_new(item.clone(), *length, make_array(data), None)?))
}

//! Writes the copy of one Parquet file in which the images are converted.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Place, Result};
use parquet::basic::{ColumnOrder, Encoding};
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::metadata::{FileMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use rayon::ThreadPool;
use rayon::prelude::*;

use super::chunk::{Cells, Chunk};
use super::columns::{self, ImageLeaf, Images, NewSchema};
use super::form::Repack;
use super::orders;
use super::report::{RepackReport, RepackedColumn};
use super::stored::{StoredFile, ours};

/// The number of values after which the Parquet writer checks the size of a page. With its default of 1,024,
/// pages of images would have some 100 MB.
const IMAGES_BETWEEN_CHECKS: usize = 8;
/// The size limit of a page of images. It is small, so that a reader can read a few rows without the others.
const PAGE_BYTES: usize = 256 << 10;
/// The most bytes of images that are converted at the same time, estimated from their mean size.
const BYTES_AT_ONCE: i64 = 32 << 20;
const IMAGES_AT_ONCE: i64 = 1024;

/// Converts images from JPEGs to DCT coefficients or back.
#[derive(Clone, Copy)]
pub(super) struct Converter<'a> {
    pub(super) form: Repack,
    /// The threads that convert images.
    pub(super) pool: &'a ThreadPool,
}

/// The content of a leaf column of the new file.
#[derive(Clone, Copy)]
enum NewColumn {
    /// A copy of the leaf column with this index in the stored file.
    Copied(usize),
    /// The images of this leaf column, converted.
    Made(ImageLeaf),
}

/// Writes the converted copy of the file `stored` to a local path.
pub(super) fn write(
    converter: Converter<'_>,
    images: &Images,
    stored: &StoredFile,
    metadata: &ParquetMetaData,
    path: &Path,
    report: &mut RepackReport,
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    let form = converter.form;
    let file = metadata.file_metadata();
    let leaves = images.leaves(file.schema_descr())?;
    let written = columns::written(form, file, &leaves)?;
    let made = leaves.iter().map(|image| NewColumn::Made(*image));
    let copied = (0..file.schema_descr().num_columns()).map(NewColumn::Copied);
    let columns: Vec<NewColumn> = match columns::is_beside(form) {
        true => copied.chain(made).collect(),
        false => {
            let mut all: Vec<NewColumn> = copied.collect();
            made.zip(&leaves).for_each(|(made, image)| all[image.leaf] = made);
            all
        }
    };
    let on_disk = |error: std::io::Error| error.into_error();
    let out = File::options().create(true).truncate(true).read(true).write(true).open(path);
    let out = BufWriter::new(out.map_err(on_disk)?);
    let properties = properties(metadata, &written);
    let mut writer =
        SerializedFileWriter::new(out, written.schema.clone(), Arc::new(properties)).map_err(ours)?;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let mut out = writer.next_row_group().map_err(ours)?;
        for column in &columns {
            let leaf = match column {
                NewColumn::Copied(leaf) | NewColumn::Made(ImageLeaf { leaf, .. }) => *leaf,
            };
            let place =
                || Place::default().row_group(index).column(group.column(leaf).column_path().string());
            let wrote = match column {
                NewColumn::Copied(leaf) => copy(stored, metadata, index, *leaf, &mut out),
                NewColumn::Made(image) => {
                    make(converter, stored, group, *image, &mut out, &mut report.columns[image.image])
                }
            };
            wrote.map_err(|error| error.at(place()))?;
        }
        out.close().map_err(ours)?;
        done(group.num_rows().max(0).cast_unsigned());
    }
    let out = writer.into_inner().map_err(ours)?;
    let new = out.into_inner().map_err(|error| on_disk(error.into_error()))?;
    let orders: Vec<Option<ColumnOrder>> = columns.iter().map(|column| order(file, *column)).collect();
    orders::put_right(&new, &orders).map_err(on_disk)?;
    new.sync_all().map_err(on_disk)
}

/// The column order, by which readers interpret minima and maxima, that the stored file declares for a copied
/// column; `None` for a column that is written anew.
fn order(file: &FileMetaData, column: NewColumn) -> Option<ColumnOrder> {
    let NewColumn::Copied(leaf) = column else { return None };
    let orders = file.column_orders();
    Some(orders.and_then(|orders| orders.get(leaf).copied()).unwrap_or(ColumnOrder::UNDEFINED))
}

fn properties(metadata: &ParquetMetaData, written: &NewSchema) -> WriterProperties {
    let file = metadata.file_metadata();
    let version = if file.version() == 2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
    let sorting = metadata.row_groups().first().and_then(|group| group.sorting_columns().cloned());
    let mut properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_key_value_metadata(Some(written.key_values.clone()))
        .set_sorting_columns(sorting)
        .set_write_batch_size(IMAGES_BETWEEN_CHECKS);
    if let Some(program) = file.created_by() {
        // Readers decide by the name of the writer whether to trust statistics. The statistics are copied, so
        // the name is too.
        properties = properties.set_created_by(program.to_owned());
    }
    for path in &written.paths {
        properties = properties
            .set_column_encoding(path.clone(), Encoding::PLAIN)
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_statistics_enabled(path.clone(), EnabledStatistics::None)
            .set_column_data_page_size_limit(path.clone(), PAGE_BYTES);
    }
    properties.build()
}

/// Copies a column chunk unchanged.
fn copy<W: Write + Send>(
    stored: &StoredFile,
    metadata: &ParquetMetaData,
    group: usize,
    leaf: usize,
    out: &mut SerializedRowGroupWriter<'_, W>,
) -> Result<()> {
    let about = metadata.row_group(group);
    let chunk = about.column(leaf);
    let indexes = metadata.page_index_for_row_group(group);
    let bloom_filter = match chunk.bloom_filter_offset() {
        Some(_) => Sbbf::read_from_column_chunk(chunk, stored).map_err(ours)?,
        None => None,
    };
    let close = ColumnCloseResult {
        bytes_written: chunk.compressed_size().max(0).cast_unsigned(),
        rows_written: about.num_rows().max(0).cast_unsigned(),
        metadata: chunk.clone(),
        bloom_filter,
        column_index: indexes.column_index(leaf).cloned(),
        offset_index: indexes.offset_index(leaf).cloned(),
    };
    out.append_column(stored, close).map_err(ours)
}

/// Converts the images of a column chunk, and writes them to a new chunk.
fn make<W: Write + Send>(
    converter: Converter<'_>,
    stored: &StoredFile,
    group: &RowGroupMetaData,
    image: ImageLeaf,
    out: &mut SerializedRowGroupWriter<'_, W>,
    report: &mut RepackedColumn,
) -> Result<()> {
    let about = group.column(image.leaf);
    let mut chunk = Chunk::open(stored, about, group.num_rows())?;
    let mean = about.uncompressed_size().max(1) / group.num_rows().max(1) + 1;
    let at_once = (BYTES_AT_ONCE / mean).clamp(1, IMAGES_AT_ONCE) as usize;
    let is_beside = columns::is_beside(converter.form);
    let mut column = out.next_column().map_err(ours)?.ok_or_else(|| lost("a column"))?;
    let mut rows = 0;
    loop {
        let cells = chunk.next(at_once)?;
        if cells.rows == 0 {
            break;
        }
        let values = changed(converter, &cells, rows, report)?;
        let levels = match is_beside {
            // The new column has its own nulls. A row is null in it if the image is null, or the structure
            // that contains the image.
            true if cells.levels.is_empty() => vec![1; cells.rows],
            true => cells.levels.iter().map(|level| i16::from(*level == cells.max_level)).collect(),
            false => cells.levels.clone(),
        };
        let levels = (!levels.is_empty()).then_some(&levels[..]);
        column.typed::<ByteArrayType>().write_batch(&values, levels, None).map_err(ours)?;
        rows += cells.rows;
    }
    if rows as i64 != group.num_rows() {
        let cause = format!("the pages hold {rows} rows, and the footer says {}", group.num_rows());
        return Err(Error::new(ErrorKind::Corrupt, cause));
    }
    column.close().map_err(ours)
}

/// Returns the cells that are not null. Cells of the kind to convert are converted, and others are returned
/// unchanged.
fn changed(
    converter: Converter<'_>,
    cells: &Cells,
    before: usize,
    report: &mut RepackedColumn,
) -> Result<Vec<ByteArray>> {
    let form = converter.form;
    let places = cells.places();
    if places.len() != cells.values.len() {
        return Err(Error::new(ErrorKind::Corrupt, "the pages hold another number of values than of rows"));
    }
    let made: Vec<Result<Option<Vec<u8>>>> =
        converter.pool.install(|| cells.values.par_iter().map(|cell| form.apply(cell.data())).collect());
    report.nulls += (cells.rows - places.len()) as u64;
    let all = cells.values.iter().zip(made).zip(places).map(|((cell, made), row)| {
        match made.map_err(|error| error.at(Place::default().row((before + row) as u64)))? {
            Some(bytes) => {
                report.changed += 1;
                report.bytes_before += cell.len() as u64;
                report.bytes_after += bytes.len() as u64;
                Ok(ByteArray::from(bytes))
            }
            None => {
                report.kept += 1;
                Ok(cell.clone())
            }
        }
    });
    all.collect()
}

fn lost(what: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("{what} of the new file is missing"))
}

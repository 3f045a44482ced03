//! Row groups that are written one at a time, each to a file of its own, and later joined into one file.
//!
//! Work that is interrupted keeps the row groups that it has finished. The bytes depend on the rows alone:
//! the same rows make the same file, however often the work was interrupted.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_arrow::array::RecordBatch;
use forebay_arrow::compute::concat_batches;
use forebay_arrow::datatypes::Schema;
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Place, Result};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Type};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{KeyValue, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::parquet_files::{builder, to_disk};

/// The program that wrote the files. It has no version, because files with the same bytes are the same data.
const WRITER: &str = "forebay";

/// Writes the rows of all batches as one row group to a new file, with `about` in the metadata of the file.
/// The batches must have one schema.
///
/// # Errors
/// `Io` if the disk fails or is full, and `Unsupported` for values that Parquet cannot hold.
pub fn write(path: &Path, batches: &[RecordBatch], about: &[(String, String)]) -> Result<()> {
    let write = || {
        let Some(first) = batches.first() else { return Err(Error::invalid("there are no rows to write")) };
        let rows = concat_batches(&first.schema(), batches).or_fail()?;
        let file = File::create(path).or_fail()?;
        let properties = properties(&first.schema(), about)?;
        let mut writer = to_disk(ArrowWriter::try_new(file, first.schema(), Some(properties)))?;
        to_disk(writer.write(&rows))?;
        to_disk(writer.into_inner())?.sync_all().or_fail()
    };
    write().map_err(|error: Error| placed(error, path))
}

/// Copies the row groups of `parts`, which are files that [`write()`] made, into one new file in this order.
///
/// # Errors
/// `Io` if the disk fails or is full, and `Corrupt` for a file that is damaged.
pub fn join(parts: &[PathBuf], path: &Path) -> Result<()> {
    let Some(first) = parts.first() else { return Err(Error::invalid("there are no row groups to join")) };
    let footer = footer(first)?;
    let about = footer.file_metadata();
    let properties = WriterProperties::builder()
        .set_created_by(WRITER.to_owned())
        .set_key_value_metadata(about.key_value_metadata().cloned())
        .build();
    let file = File::create(path).or_fail().map_err(|error: Error| placed(error, path))?;
    let schema = about.schema_descr().root_schema_ptr();
    let writer = SerializedFileWriter::new(file, schema, Arc::new(properties));
    let mut writer = to_disk(writer).map_err(|error| placed(error, path))?;
    for part in parts {
        copy(part, &mut writer).map_err(|error| placed(error, part))?;
    }
    let whole = to_disk(writer.into_inner()).map_err(|error| placed(error, path))?;
    whole.sync_all().or_fail().map_err(|error: Error| placed(error, path))
}

/// Copies all row groups of a file byte for byte, with their page indexes.
fn copy(part: &Path, writer: &mut SerializedFileWriter<File>) -> Result<()> {
    let (footer, file) = (footer(part)?, File::open(part).or_fail()?);
    for (number, group) in footer.row_groups().iter().enumerate() {
        let indexes = footer.page_index_for_row_group(number);
        let mut out = to_disk(writer.next_row_group())?;
        for (leaf, chunk) in group.columns().iter().enumerate() {
            let close = ColumnCloseResult {
                bytes_written: chunk.compressed_size().max(0).cast_unsigned(),
                rows_written: group.num_rows().max(0).cast_unsigned(),
                metadata: chunk.clone(),
                bloom_filter: None,
                column_index: indexes.column_index(leaf).cloned(),
                offset_index: indexes.offset_index(leaf).cloned(),
            };
            to_disk(out.append_column(&file, close))?;
        }
        to_disk(out.close())?;
    }
    Ok(())
}

fn footer(part: &Path) -> Result<ParquetMetaData> {
    let file = File::open(part).or_fail().map_err(|error: Error| placed(error, part))?;
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
    reader.parse_and_finish(&file).map_err(|error| placed(error.into_error(), part))
}

/// How the columns are laid out. Numbers in lists, such as tokens, are neither compressed nor in a
/// dictionary: a reader copies them as they are.
fn properties(schema: &Schema, about: &[(String, String)]) -> Result<WriterProperties> {
    let about = about.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    let mut properties =
        builder(schema).set_created_by(WRITER.to_owned()).set_key_value_metadata(Some(about));
    for column in to_disk(ArrowSchemaConverter::new().convert(schema))?.columns() {
        let is_number = column.physical_type() != Type::BYTE_ARRAY;
        if is_number && column.max_rep_level() > 0 {
            properties = properties
                .set_column_dictionary_enabled(column.path().clone(), false)
                .set_column_compression(column.path().clone(), Compression::UNCOMPRESSED);
        }
    }
    Ok(properties.build())
}

fn placed(error: Error, path: &Path) -> Error {
    if error.place().file.is_some() {
        return error;
    }
    let (is_disk, at) = (error.kind() == ErrorKind::Io, Place::file(path.display().to_string()));
    match is_disk {
        true => error.at(at).hint("name a folder on a disk that has room; finished row groups stay"),
        false => error.at(at),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use forebay_arrow::array::{ArrayRef, Int32Builder, ListBuilder};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    /// Makes a row for each number in `range`: the row of number `row` holds the list of 0 to `row - 1`.
    fn rows(range: std::ops::Range<i32>) -> RecordBatch {
        let mut lists = ListBuilder::new(Int32Builder::new());
        range.for_each(|row| lists.append_value((0..row).map(Some)));
        RecordBatch::try_from_iter([("tokens", Arc::new(lists.finish()) as ArrayRef)]).unwrap()
    }

    #[test]
    fn joined_row_groups_are_those_that_were_written_however_their_rows_were_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let about = [("key".to_owned(), "value".to_owned())];
        write(&path("a"), &[rows(0..700)], &about).unwrap();
        write(&path("b"), &[rows(700..900)], &about).unwrap();
        write(&path("cut"), &[rows(0..1), rows(1..300), rows(300..700)], &about).unwrap();
        assert!(fs::read(path("a")).unwrap() == fs::read(path("cut")).unwrap());

        join(&[path("a"), path("b")], &path("joined")).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path("joined")).unwrap()).unwrap();
        let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!(groups, [700, 200]);
        let found = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(found.iter().any(|entry| entry.key == "key" && entry.value.as_deref() == Some("value")));
        let read: Vec<RecordBatch> = reader.build().unwrap().map(|batch| batch.unwrap()).collect();
        assert_eq!(concat_batches(&read[0].schema(), &read).unwrap(), rows(0..900));
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let error = write(Path::new("/nowhere/a"), &[rows(0..1)], &[]).unwrap_err().to_string();
        assert!(error.contains("/nowhere/a"), "{error}");
        let error = join(&["/nowhere/a".into()], Path::new("/nowhere/b")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/a"), "{error}");
    }
}

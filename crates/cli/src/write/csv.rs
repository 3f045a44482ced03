//! CSV and TSV with a line of names.

use std::io::Read;
use std::path::Path;

use ::csv::{Reader, ReaderBuilder, StringRecord};
use forebay_arrow::array::RecordBatch;
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, ErrorKind, Place, Result};
use rayon::prelude::*;

use super::cells::{self, Column, Wanted};
use super::folder::Found;
use super::sizes::{BATCH_ROWS, decompressed, plain_name};
use super::source::{Tables, place, unreadable};
use super::values::{ValueType, from_fields};

/// The files of one table.
pub(super) struct CsvFiles {
    files: Vec<Found>,
    columns: Vec<Column>,
    schema: SchemaRef,
}

/// A column of one file, as its fields show it.
struct Seen {
    name: String,
    of: ValueType,
    /// Whether a field is empty.
    has_empty: bool,
}

impl CsvFiles {
    /// Reads all files once, for the types of the columns.
    pub(super) fn open(files: Vec<Found>, wanted: Wanted) -> Result<Self> {
        let seen: Vec<(Vec<Seen>, u64)> =
            files.par_iter().map(|file| look(&file.path, &wanted)).collect::<Result<_>>()?;
        let filled: Vec<&Vec<Seen>> =
            seen.iter().filter(|(_, rows)| *rows > 0).map(|(seen, _)| seen).collect();
        if filled.is_empty() {
            return Err(Error::invalid("the files have no rows").hint("there is nothing to write"));
        }
        let mut found: Vec<(String, ValueType, bool)> = Vec::new();
        for column in filled.iter().flat_map(|seen| seen.iter()) {
            match found.iter_mut().find(|(name, ..)| *name == column.name) {
                Some((_, of, has_empty)) => {
                    join(of, &column.of);
                    *has_empty |= column.has_empty;
                }
                None => found.push((column.name.clone(), column.of.clone(), column.has_empty)),
            }
        }
        for (name, of, has_nulls) in &mut found {
            let is_everywhere = filled.iter().all(|seen| seen.iter().any(|column| column.name == *name));
            // An empty field is an empty text.
            *has_nulls = !is_everywhere || *has_nulls && !matches!(of, ValueType::Text | ValueType::Null);
        }
        let columns = wanted.columns(found)?;
        let schema = cells::schema(&columns);
        Ok(CsvFiles { files, columns, schema })
    }
}

impl Tables for CsvFiles {
    fn kind(&self) -> &'static str {
        "CSV"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn files(&self) -> &[Found] {
        &self.files
    }

    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let path = &self.files[file].path;
        let mut reader = open(path)?;
        let names = header(&mut reader, path)?;
        let places: Vec<Option<usize>> =
            self.columns.iter().map(|column| names.iter().position(|name| *name == column.name)).collect();
        let mut records = Vec::with_capacity(BATCH_ROWS);
        let mut first = 0;
        loop {
            let mut record = StringRecord::new();
            let has_more = reader.read_record(&mut record).map_err(|error| damaged(path, &error))?;
            if has_more {
                records.push(record);
            }
            if records.len() == BATCH_ROWS || !has_more && !records.is_empty() {
                let values = self.columns.iter().zip(&places).map(|(column, at)| {
                    from_fields(records.iter().map(|record| record.get((*at)?)), &column.of)
                });
                take(cells::batch(&self.columns, &self.schema, values.collect(), path, first)?)?;
                first += records.len() as u64;
                records.clear();
            }
            if !has_more {
                return Ok(());
            }
        }
    }
}

/// Reads a file for the types of its columns and the number of its rows.
fn look(path: &Path, wanted: &Wanted) -> Result<(Vec<Seen>, u64)> {
    let mut reader = open(path)?;
    let names = header(&mut reader, path)?;
    let column = |name: String| {
        let of = if wanted.is_text(&name) { ValueType::Text } else { ValueType::Null };
        Seen { name, of, has_empty: false }
    };
    let mut seen: Vec<Seen> = names.into_iter().map(column).collect();
    let (mut record, mut rows) = (StringRecord::new(), 0);
    while reader.read_record(&mut record).map_err(|error| damaged(path, &error))? {
        rows += 1;
        for (column, field) in seen.iter_mut().zip(&record) {
            column.has_empty |= field.is_empty();
            join(&mut column.of, &ValueType::of_field(field));
        }
    }
    Ok((seen, rows))
}

/// Any two fields have a type: text if no other.
fn join(of: &mut ValueType, other: &ValueType) {
    if *of != ValueType::Text && of.join(other.clone()).is_err() {
        *of = ValueType::Text;
    }
}

fn open(path: &Path) -> Result<Reader<Box<dyn Read>>> {
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let is_tabbed = plain_name(path).ends_with(".tsv");
    let delimiter = if is_tabbed { b'\t' } else { b',' };
    Ok(ReaderBuilder::new().delimiter(delimiter).from_reader(decompressed(path, file)?))
}

/// The names in the first line.
fn header(reader: &mut Reader<Box<dyn Read>>, path: &Path) -> Result<Vec<String>> {
    let header = reader.headers().map_err(|error| damaged(path, &error))?;
    // Excel begins files with a mark of their byte order.
    let names: Vec<String> =
        header.iter().map(|name| name.trim_start_matches('\u{feff}').trim().to_owned()).collect();
    let mut sorted = names.clone();
    sorted.sort();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone());
    let problem = match twice {
        _ if names.iter().any(String::is_empty) => "a column has no name".to_owned(),
        Some(name) => format!("two columns have the name {name:?}"),
        None => return Ok(names),
    };
    Err(Error::invalid(problem).at(place(path)).hint("the first line of a CSV file names its columns"))
}

fn damaged(path: &Path, error: &::csv::Error) -> Error {
    match error.kind() {
        ::csv::ErrorKind::Io(error) => unreadable(path, error),
        _ => {
            let at = error.position().map_or(Place::default(), |position| {
                Place::default().row(position.record().saturating_sub(1))
            });
            Error::new(ErrorKind::Corrupt, error.to_string()).at(at).at(place(path))
        }
    }
}

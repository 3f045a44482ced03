//! Reads CSV and TSV files whose first line has the names of the columns.

use std::io::{self, Read};
use std::path::Path;

use csv::{Reader, ReaderBuilder, StringRecord};
use forebay_arrow::array::RecordBatch;
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, ErrorKind, Place, Result};
use rayon::prelude::*;

use super::cells::{self, NamedColumns, WrittenColumn};
use super::folder::DiskFile;
use super::read::{place, unreadable};
use super::sizes::{BATCH_ROWS, decompressed, plain_name};
use super::source::TableSource;
use super::values::{ValueType, from_fields};
use crate::units::counted;

/// The files of one table.
pub(super) struct CsvFiles {
    files: Vec<DiskFile>,
    columns: Vec<WrittenColumn>,
    schema: SchemaRef,
}

/// A column of one file, with the type that its fields have.
struct CsvColumn {
    name: String,
    of: ValueType,
    /// Whether any field of the column is empty.
    has_empty: bool,
}

impl CsvFiles {
    /// Reads all files once to find the types of their columns.
    pub(super) fn open(files: Vec<DiskFile>, wanted: NamedColumns) -> Result<Self> {
        let seen: Vec<(Vec<CsvColumn>, u64)> =
            files.par_iter().map(|file| look(&file.path, &wanted)).collect::<Result<_>>()?;
        let filled: Vec<&Vec<CsvColumn>> =
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
            // In a column of text an empty field is an empty text, not a null.
            let is_text = matches!(of, ValueType::Text | ValueType::Null) && !wanted.is_bytes(name);
            *has_nulls = !is_everywhere || *has_nulls && !is_text;
        }
        let columns = wanted.columns(found)?;
        let schema = cells::schema(&columns);
        Ok(CsvFiles { files, columns, schema })
    }
}

impl TableSource for CsvFiles {
    fn kind(&self) -> &'static str {
        "CSV"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn files(&self) -> &[DiskFile] {
        &self.files
    }

    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let path = &self.files[file].path;
        let mut records = Records::open(path)?;
        let places: Vec<Option<usize>> = self
            .columns
            .iter()
            .map(|column| records.names.iter().position(|name| *name == column.name))
            .collect();
        let mut rows: Vec<StringRecord> = Vec::with_capacity(BATCH_ROWS);
        let mut first = 0;
        loop {
            let mut row = StringRecord::new();
            let has_more = records.next(&mut row)?;
            if has_more {
                rows.push(row);
            }
            if rows.len() == BATCH_ROWS || !has_more && !rows.is_empty() {
                let values = self
                    .columns
                    .iter()
                    .zip(&places)
                    .map(|(column, at)| from_fields(rows.iter().map(|row| row.get((*at)?)), &column.of));
                take(cells::batch(&self.columns, &self.schema, values.collect(), path, first)?)?;
                first += rows.len() as u64;
                rows.clear();
            }
            if !has_more {
                return Ok(());
            }
        }
    }
}

/// Reads a file to find the types of its columns and the number of its rows.
fn look(path: &Path, wanted: &NamedColumns) -> Result<(Vec<CsvColumn>, u64)> {
    let mut records = Records::open(path)?;
    let column = |name: String| {
        let of = if wanted.is_text(&name) { ValueType::Text } else { ValueType::Null };
        CsvColumn { name, of, has_empty: false }
    };
    let mut seen: Vec<CsvColumn> = records.names.iter().cloned().map(column).collect();
    let (mut row, mut rows) = (StringRecord::new(), 0);
    while records.next(&mut row)? {
        rows += 1;
        for (column, field) in seen.iter_mut().zip(&row) {
            column.has_empty |= field.is_empty();
            join(&mut column.of, &ValueType::of_field(field));
        }
    }
    Ok((seen, rows))
}

/// Widens a column's type so that it also holds values of `other`; if no such type exists, the column becomes
/// text.
fn join(of: &mut ValueType, other: &ValueType) {
    if *of != ValueType::Text && of.join(other.clone()).is_err() {
        *of = ValueType::Text;
    }
}

/// A row that is added at the end of each file. If it is not read as a row, a quotation was not closed and
/// has swallowed it.
const END: &str = "\u{1}the end of the file\u{1}";

/// Reads the rows of a file, and refuses a row that has not as many fields as the first line has names.
struct Records<'a> {
    path: &'a Path,
    reader: Reader<Box<dyn Read>>,
    names: Vec<String>,
    /// The number of rows so far.
    rows: u64,
}

impl<'a> Records<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
        let is_tabbed = plain_name(path).ends_with(".tsv");
        let delimiter = if is_tabbed { b'\t' } else { b',' };
        let text: Box<dyn Read> =
            Box::new(decompressed(path, file)?.chain(io::Cursor::new(format!("\n{END}\n"))));
        let mut reader = ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(text);
        let names = header(&mut reader, path)?;
        Ok(Records { path, reader, names, rows: 0 })
    }

    /// Reads the next row, if there is one.
    fn next(&mut self, row: &mut StringRecord) -> Result<bool> {
        let corrupt = |cause: String| {
            Error::new(ErrorKind::Corrupt, cause).at(Place::default().row(self.rows)).at(place(self.path))
        };
        if !self.reader.read_record(row).map_err(|error| damaged(self.path, &error))? {
            let error = corrupt("a quotation is not closed before the end of the file".to_owned());
            return Err(
                error.hint("put a text with quotation marks in quotation marks, and double those in it")
            );
        }
        if row.len() == 1 && &row[0] == END {
            return Ok(false);
        }
        if row.len() != self.names.len() {
            let line = row.position().map_or(0, csv::Position::line);
            let (fields, names) =
                (counted(row.len() as u64, "field"), counted(self.names.len() as u64, "column"));
            let error = corrupt(format!("line {line} has {fields}, and the first line names {names}"));
            return Err(error.hint("fields are separated by commas, and by tabs in .tsv"));
        }
        self.rows += 1;
        Ok(true)
    }
}

/// The column names in the first line. A column without a name, such as the index that pandas writes, gets
/// the name that pandas gives it when reading, such as `Unnamed: 0`.
fn header(reader: &mut Reader<Box<dyn Read>>, path: &Path) -> Result<Vec<String>> {
    let header = reader.headers().map_err(|error| damaged(path, &error))?;
    let name = |(at, name): (usize, &str)| {
        // Excel writes a byte order mark at the beginning of a file.
        match name.trim_start_matches('\u{feff}').trim() {
            "" => format!("Unnamed: {at}"),
            name => name.to_owned(),
        }
    };
    let names: Vec<String> = header.iter().enumerate().map(name).collect();
    let mut sorted = names.clone();
    sorted.sort();
    let problem = match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        _ if names.iter().any(|name| name.contains(END)) => "the file is empty".to_owned(),
        Some(pair) => format!("two columns have the name {:?}", pair[0]),
        None => return Ok(names),
    };
    Err(Error::invalid(problem).at(place(path)).hint("the first line of a CSV file names its columns"))
}

fn damaged(path: &Path, error: &csv::Error) -> Error {
    match error.kind() {
        csv::ErrorKind::Io(error) => unreadable(path, error),
        _ => {
            let at = error.position().map_or(Place::default(), |position| {
                Place::default().row(position.record().saturating_sub(1))
            });
            Error::new(ErrorKind::Corrupt, error.to_string()).at(at).at(place(path))
        }
    }
}

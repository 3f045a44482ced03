//! Reads JSON lines, and JSON files that hold one list of objects.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use forebay_arrow::array::{ArrayRef, RecordBatch};
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, ErrorKind, Place, Result};
use rayon::prelude::*;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::cells::{self, NamedColumns, WrittenColumn};
use super::folder::DiskFile;
use super::read::{MARK, json_hint, place, unreadable};
use super::sizes::{BATCH_ROWS, decompressed};
use super::source::TableSource;
use super::values::{Clash, ValueType, from_json};

/// A row: the values of its columns.
type Object = Map<String, Value>;

/// The files of one table. Columns are in the order of their names.
pub(super) struct JsonFiles {
    files: Vec<DiskFile>,
    columns: Vec<WrittenColumn>,
    schema: SchemaRef,
}

/// A column, with the type that its values have.
#[derive(Clone, Default)]
struct JsonColumn {
    of: ValueType,
    /// The number of rows that have a value.
    values: u64,
}

impl JsonFiles {
    /// Reads all files once to find the types of their columns.
    pub(super) fn open(files: Vec<DiskFile>, wanted: NamedColumns) -> Result<Self> {
        let seen: Vec<(BTreeMap<String, JsonColumn>, u64)> =
            files.par_iter().map(|file| look(&file.path, &wanted)).collect::<Result<_>>()?;
        let rows: u64 = seen.iter().map(|(_, rows)| rows).sum();
        if rows == 0 {
            return Err(Error::invalid("the files have no rows").hint("there is nothing to write"));
        }
        let mut all: BTreeMap<String, JsonColumn> = BTreeMap::new();
        for ((columns, _), file) in seen.into_iter().zip(&files) {
            for (name, column) in columns {
                let known = all.entry(name.clone()).or_default();
                known.values += column.values;
                known.of.join(column.of).map_err(|clash| clashes(&clash, &name).at(place(&file.path)))?;
            }
        }
        let found = all.into_iter().map(|(name, column)| (name, column.of, column.values < rows));
        let columns = wanted.columns(found.collect())?;
        let schema = cells::schema(&columns);
        Ok(JsonFiles { files, columns, schema })
    }

    fn batch(&self, rows: &[Object], path: &Path, first: u64) -> Result<RecordBatch> {
        let values = self.columns.iter().map(|column| {
            let values: Vec<Option<&Value>> = rows.iter().map(|row| row.get(&column.name)).collect();
            from_json(&values, &column.of)
        });
        let values: Vec<ArrayRef> = values.collect::<Result<_>>()?;
        cells::batch(&self.columns, &self.schema, values, path, first)
    }
}

impl TableSource for JsonFiles {
    fn kind(&self) -> &'static str {
        "JSON"
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn files(&self) -> &[DiskFile] {
        &self.files
    }

    fn read(&self, file: usize, take: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let path = &self.files[file].path;
        let mut rows: Vec<Object> = Vec::with_capacity(BATCH_ROWS);
        let mut first = 0;
        each_object(path, &mut |object, _| {
            rows.push(object);
            if rows.len() == BATCH_ROWS {
                take(self.batch(&rows, path, first)?)?;
                first += rows.len() as u64;
                rows.clear();
            }
            Ok(())
        })?;
        match rows.is_empty() {
            true => Ok(()),
            false => take(self.batch(&rows, path, first)?),
        }
    }
}

/// Reads a file to find the types of its columns and the number of its rows.
fn look(path: &Path, wanted: &NamedColumns) -> Result<(BTreeMap<String, JsonColumn>, u64)> {
    let mut seen: BTreeMap<String, JsonColumn> = BTreeMap::new();
    let mut rows = 0;
    each_object(path, &mut |object, row| {
        rows += 1;
        for (name, value) in &object {
            if !seen.contains_key(name) {
                seen.insert(name.clone(), JsonColumn::default());
            }
            let Some(column) = seen.get_mut(name) else { continue };
            column.values += u64::from(!value.is_null());
            let joined = match wanted.is_text(name) {
                true => column.of.join(ValueType::Text),
                false => ValueType::of_json(value).and_then(|now| column.of.join(now)),
            };
            joined.map_err(|clash| clashes(&clash, name).at(Place::default().row(row)))?;
        }
        Ok(())
    })?;
    Ok((seen, rows))
}

fn clashes(clash: &Clash, column: &str) -> Error {
    let Clash { inside, before, now } = clash;
    Error::invalid(format!("{column}{inside} is {now} here and {before} before"))
        .at(Place::default().column(column))
        .hint(format!("--text {column} writes the column as text of JSON"))
}

/// Calls `take` with each object of a file and its ordinal.
fn each_object(path: &Path, take: &mut dyn FnMut(Object, u64) -> Result<()>) -> Result<()> {
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut reader = BufReader::new(decompressed(path, file)?);
    let head = reader.fill_buf().map_err(|error| unreadable(path, &error))?;
    let has_mark = head.starts_with(MARK);
    if has_mark {
        reader.consume(MARK.len());
    }
    let head = reader.fill_buf().map_err(|error| unreadable(path, &error))?;
    let is_list = head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let read = if is_list { each_of_list(reader, take) } else { each_line(reader, path, take) };
    read.map_err(|error| if error.place().file.is_none() { error.at(place(path)) } else { error })
}

fn each_line(
    mut reader: BufReader<Box<dyn Read>>,
    path: &Path,
    take: &mut dyn FnMut(Object, u64) -> Result<()>,
) -> Result<()> {
    let (mut line, mut row, mut number) = (Vec::new(), 0, 0_u64);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(|error| unreadable(path, &error))? == 0 {
            return Ok(());
        }
        number += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let object: Object = serde_json::from_slice(&line).map_err(|error| {
            let said = error.to_string();
            let why = said.split(" at line ").next().unwrap_or(&said);
            let cause = format!("line {number} is not an object of JSON: {why} at column {}", error.column());
            Error::new(ErrorKind::Corrupt, cause)
                .hint(json_hint(&error, "each line holds an object, or the file holds one list of them"))
        })?;
        take(object, row)?;
        row += 1;
    }
}

fn each_of_list(
    reader: BufReader<Box<dyn Read>>,
    take: &mut dyn FnMut(Object, u64) -> Result<()>,
) -> Result<()> {
    let mut failure = None;
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let read = Objects { take, failure: &mut failure }.deserialize(&mut deserializer);
    match (failure, read.and_then(|()| deserializer.end())) {
        (Some(error), _) => Err(error),
        (None, Err(error)) => {
            let cause = format!("the list is not of objects of JSON: {error}");
            Err(Error::new(ErrorKind::Corrupt, cause).hint(json_hint(&error, "mend the file there")))
        }
        (None, Ok(())) => Ok(()),
    }
}

/// Takes the objects of a list one by one, so that the list is never in memory as a whole.
struct Objects<'a> {
    take: &'a mut dyn FnMut(Object, u64) -> Result<()>,
    /// Receives the error that `take` returns. No further objects are read after it.
    failure: &'a mut Option<Error>,
}

impl<'de> DeserializeSeed<'de> for Objects<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Objects<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut row = 0;
        while let Some(object) = list.next_element::<Object>()? {
            if let Err(error) = (self.take)(object, row) {
                *self.failure = Some(error);
                return Err(serde::de::Error::custom("stopped"));
            }
            row += 1;
        }
        Ok(())
    }
}

//! Reads checkpoints: Parquet files that hold, as actions, the whole state of a Delta table at one version.

use bytes::Bytes;
use chrono::DateTime;
use forebay_arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use forebay_arrow::datatypes::*;
use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use serde_json::{Map, Number, Value};

use crate::action::{Action, Add, Metadata, Sidecar, Vector};
use crate::protocol::Protocol;

/// The columns of a checkpoint that are read: all leaves whose paths begin with one of these.
const READ: [&[&str]; 12] = [
    &["add", "path"],
    &["add", "partitionValues"],
    &["add", "size"],
    &["add", "stats"],
    &["add", "stats_parsed", "numRecords"],
    &["add", "deletionVector"],
    &["add", "baseRowId"],
    &["metaData", "id"],
    &["metaData", "schemaString"],
    &["metaData", "partitionColumns"],
    &["metaData", "configuration"],
    &["protocol"],
];

/// The path of the column that refers to sidecars (files with parts of a checkpoint). Older checkpoints lack
/// it.
const SIDECAR: &[&str] = &["sidecar", "path"];

/// The paths of the statistics of files: `TEXT` stores them as JSON, `PARSED` as columns. The columns are
/// read only if there is no text.
const TEXT: &[&str] = &["add", "stats"];
const PARSED: [&[&str]; 3] = [
    &["add", "stats_parsed", "minValues"],
    &["add", "stats_parsed", "maxValues"],
    &["add", "stats_parsed", "nullCount"],
];

/// The number of rows that are decoded at a time.
const AT_ONCE: usize = 4_096;

/// Passes each action of a checkpoint or a sidecar to `take`.
///
/// # Errors
/// `Corrupt` for a file that is damaged, or whose columns are not those of a checkpoint; errors of `take`.
pub(crate) fn each(bytes: Bytes, mut take: impl FnMut(Action) -> Result<()>) -> Result<()> {
    let length = bytes.len() as u64;
    let read = caught(|| {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options);
        let builder = builder.map_err(|error| malformed(&error.to_string()))?;
        // No two actions of a checkpoint are equal, so each takes at least one byte. A file that claims more
        // is damaged, and is refused before memory is spent on it.
        let actions = builder.metadata().file_metadata().num_rows();
        if u64::try_from(actions).map_or(true, |actions| actions > length) {
            return Err(malformed(&format!("it claims {actions} actions in {length} bytes")));
        }
        let parquet = builder.parquet_schema();
        let begins = |leaf: usize, with: &[&str]| {
            let parts = parquet.column(leaf);
            let parts = parts.path().parts().iter().map(String::as_str).collect::<Vec<&str>>();
            parts.starts_with(with)
        };
        let has_text = (0..parquet.num_columns()).any(|leaf| begins(leaf, TEXT));
        let parsed = PARSED.iter().filter(|_| !has_text);
        let read: Vec<&[&str]> = READ.iter().chain([&SIDECAR]).chain(parsed).copied().collect();
        let is_read = |leaf: &usize| read.iter().any(|read| begins(*leaf, read));
        let leaves: Vec<usize> = (0..parquet.num_columns()).filter(is_read).collect();
        let mask = ProjectionMask::leaves(parquet, leaves);
        let reader = builder.with_projection(mask).with_batch_size(AT_ONCE).build();
        for batch in reader.map_err(|error| malformed(&error.to_string()))? {
            of_batch(&batch.map_err(|error| malformed(&error.to_string()))?, &mut take)?;
        }
        Ok(())
    });
    read.unwrap_or_else(|_| Err(malformed("its pages make no sense")))
}

fn malformed(why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the checkpoint cannot be read: {why}")).hint(
        "restore the file, or move it away if the log has all commits before it; or open an older version with `version`",
    )
}

fn of_batch(batch: &RecordBatch, take: &mut impl FnMut(Action) -> Result<()>) -> Result<()> {
    let root =
        |name: &str| batch.column_by_name(name).map(|array| Members::from_array(name, array)).transpose();
    if let Some(adds) = root("add")? {
        let adds = AddColumns::from_members(&adds)?;
        adds.rows().try_for_each(|row| take(Action::Add(adds.row(row?)?)))?;
    }
    if let Some(metadata) = root("metaData")? {
        for row in metadata.rows() {
            take(Action::Metadata(Metadata {
                id: metadata.text("id", row)?.unwrap_or_default(),
                schema_string: metadata.text("schemaString", row)?,
                partition_columns: metadata.texts("partitionColumns", row)?.unwrap_or_default(),
                configuration: metadata.pairs("configuration", row)?.into_iter().collect(),
            }))?;
        }
    }
    if let Some(protocol) = root("protocol")? {
        for row in protocol.rows() {
            take(Action::Protocol(Protocol {
                min_reader_version: protocol.number("minReaderVersion", row)?.unwrap_or(1),
                reader_features: protocol
                    .texts("readerFeatures", row)?
                    .map(|names| names.into_iter().collect()),
            }))?;
        }
    }
    if let Some(sidecar) = root("sidecar")? {
        for row in sidecar.rows() {
            take(Action::Sidecar(Sidecar { path: sidecar.needed("path", row)? }))?;
        }
    }
    Ok(())
}

/// The columns of a checkpoint that describe `add` actions.
struct AddColumns<'a> {
    add: &'a Members<'a>,
    parsed: Option<Members<'a>>,
    vector: Option<Members<'a>>,
}

impl<'a> AddColumns<'a> {
    fn from_members(add: &'a Members<'a>) -> Result<Self> {
        let inner = |name: &str| add.column(name).map(|array| Members::from_array(name, array)).transpose();
        Ok(AddColumns { add, parsed: inner("stats_parsed")?, vector: inner("deletionVector")? })
    }

    fn rows(&self) -> impl Iterator<Item = Result<usize>> {
        self.add.rows().map(Ok)
    }

    fn row(&self, row: usize) -> Result<Add> {
        let AddColumns { add, parsed, vector } = self;
        let parsed = parsed.as_ref().filter(|parsed| parsed.array.is_valid(row));
        let vector = vector.as_ref().filter(|vector| vector.array.is_valid(row));
        let rows = parsed.map(|parsed| parsed.number("numRecords", row)).transpose()?.flatten();
        // For a file without a deletion vector, some writers store a struct of nulls instead of a null.
        let vector = match vector.map(|vector| vector.text("storageType", row)).transpose()?.flatten() {
            Some(storage_type) => vector.map(|vector| of_vector(vector, storage_type, row)).transpose()?,
            None => None,
        };
        Ok(Add {
            path: add.needed("path", row)?,
            partition_values: add.pairs("partitionValues", row)?.into_iter().collect(),
            size: add.size("size", row)?,
            stats: add.text("stats", row)?.or_else(|| parsed.map(|parsed| text_of(parsed.array, row))),
            deletion_vector: vector,
            base_row_id: add.number("baseRowId", row)?,
            rows: rows.and_then(|rows| u64::try_from(rows).ok()),
        })
    }
}

/// Writes statistics that are stored as columns as the JSON text that a commit would contain.
fn text_of(parsed: &StructArray, row: usize) -> String {
    Value::Object(object_of(parsed, row)).to_string()
}

fn object_of(members: &StructArray, row: usize) -> Map<String, Value> {
    let members = members.fields().iter().zip(members.columns());
    members.filter_map(|(field, array)| Some((field.name().clone(), value_of(array, row)?))).collect()
}

/// A value as the statistics' JSON writes it; `None` for null, and for types without minimum and maximum.
fn value_of(array: &ArrayRef, row: usize) -> Option<Value> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Struct(_) => Value::Object(object_of(array.as_struct_opt()?, row)),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Float32 => Number::from_f64(array.as_primitive::<Float32Type>().value(row).into())?.into(),
        DataType::Float64 => Number::from_f64(array.as_primitive::<Float64Type>().value(row))?.into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Date32 => {
            let date = array.as_primitive::<Date32Type>().value_as_date(row)?;
            date.to_string().into()
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let at =
                DateTime::from_timestamp_micros(array.as_primitive::<TimestampMicrosecondType>().value(row))?;
            let end = if zone.is_some() { "Z" } else { "" };
            format!("{}{end}", at.format("%Y-%m-%dT%H:%M:%S%.6f")).into()
        }
        _ => return None,
    })
}

fn of_vector(vector: &Members<'_>, storage_type: String, row: usize) -> Result<Vector> {
    let offset = vector.number("offset", row)?;
    Ok(Vector {
        storage_type,
        path_or_inline_dv: vector.needed("pathOrInlineDv", row)?,
        offset: offset.and_then(|offset| u64::try_from(offset).ok()),
        size_in_bytes: vector.size("sizeInBytes", row)?,
        cardinality: vector.size("cardinality", row)?,
    })
}

/// A struct column of the checkpoint. Its methods return fields by name.
struct Members<'a> {
    name: String,
    array: &'a StructArray,
}

impl<'a> Members<'a> {
    fn from_array(name: &str, array: &'a ArrayRef) -> Result<Self> {
        let array = array.as_struct_opt().ok_or_else(|| malformed(&format!("{name} is not a structure")))?;
        Ok(Members { name: name.to_owned(), array })
    }

    /// The rows in which the struct is not null.
    fn rows(&self) -> impl Iterator<Item = usize> + use<'a> {
        let array = self.array;
        (0..array.len()).filter(|row| array.is_valid(*row))
    }

    fn column(&self, field: &str) -> Option<&'a ArrayRef> {
        self.array.column_by_name(field)
    }

    /// The column of a field, if it exists and is not null in the row.
    fn at(&self, field: &str, row: usize) -> Option<&'a ArrayRef> {
        self.column(field).filter(|column| column.is_valid(row))
    }

    fn odd(&self, field: &str) -> Error {
        malformed(&format!("{}.{field} has another type or no value", self.name))
    }

    fn text(&self, field: &str, row: usize) -> Result<Option<String>> {
        let Some(column) = self.at(field, row) else { return Ok(None) };
        let texts = column.as_string_opt::<i32>().ok_or_else(|| self.odd(field))?;
        Ok(Some(texts.value(row).to_owned()))
    }

    fn needed(&self, field: &str, row: usize) -> Result<String> {
        self.text(field, row)?.ok_or_else(|| self.odd(field))
    }

    fn number(&self, field: &str, row: usize) -> Result<Option<i64>> {
        let Some(column) = self.at(field, row) else { return Ok(None) };
        let long = column.as_primitive_opt::<Int64Type>().map(|column| column.value(row));
        let short = || column.as_primitive_opt::<Int32Type>().map(|column| i64::from(column.value(row)));
        long.or_else(short).map(Some).ok_or_else(|| self.odd(field))
    }

    fn size(&self, field: &str, row: usize) -> Result<u64> {
        let number = self.number(field, row)?.and_then(|number| u64::try_from(number).ok());
        number.ok_or_else(|| self.odd(field))
    }

    fn texts(&self, field: &str, row: usize) -> Result<Option<Vec<String>>> {
        let Some(column) = self.at(field, row) else { return Ok(None) };
        let items = column.as_list_opt::<i32>().ok_or_else(|| self.odd(field))?.value(row);
        let items = items.as_string_opt::<i32>().ok_or_else(|| self.odd(field))?;
        Ok(Some(items.iter().flatten().map(str::to_owned).collect()))
    }

    fn pairs(&self, field: &str, row: usize) -> Result<Vec<(String, Option<String>)>> {
        let Some(column) = self.at(field, row) else { return Ok(Vec::new()) };
        let map = column.as_map_opt().ok_or_else(|| self.odd(field))?;
        let entries = map.value(row);
        let texts = |at: usize| entries.column(at).as_string_opt::<i32>().ok_or_else(|| self.odd(field));
        let (keys, values) = (texts(0)?, texts(1)?);
        let pairs = keys.iter().zip(values.iter());
        Ok(pairs.filter_map(|(key, value)| Some((key?.to_owned(), value.map(str::to_owned)))).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_arrow::array::{Int64Array, StringArray};
    use parquet::arrow::ArrowWriter;

    use super::*;

    fn written(fields: Vec<(Field, ArrayRef)>) -> Bytes {
        let add: ArrayRef = Arc::new(StructArray::from(
            fields.into_iter().map(|(field, array)| (Arc::new(field), array)).collect::<Vec<_>>(),
        ));
        let schema = Arc::new(Schema::new(vec![Field::new("add", add.data_type().clone(), true)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![add]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap().into()
    }

    fn paths() -> (Field, ArrayRef) {
        (Field::new("path", DataType::Utf8, true), Arc::new(StringArray::from(vec!["a", "b"])))
    }

    fn sizes(sizes: Vec<i64>) -> (Field, ArrayRef) {
        (Field::new("size", DataType::Int64, true), Arc::new(Int64Array::from(sizes)))
    }

    fn read(bytes: Bytes) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        each(bytes, |action| {
            if let Action::Add(add) = action {
                found.push((add.path, add.size));
            }
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn files_have_the_ids_of_their_first_rows() {
        let bases: ArrayRef = Arc::new(Int64Array::from(vec![Some(70), None]));
        let bases = (Field::new("baseRowId", DataType::Int64, true), bases);
        let mut found = Vec::new();
        each(written(vec![paths(), sizes(vec![1, 2]), bases]), |action| {
            if let Action::Add(add) = action {
                found.push(add.base_row_id);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(found, [Some(70), None]);
    }

    #[test]
    fn files_are_read_from_what_columns_there_are() {
        let found = read(written(vec![paths(), sizes(vec![1, 2])])).unwrap();
        assert_eq!(found, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
    }

    #[test]
    fn statistics_that_are_columns_are_those_of_a_text() {
        let numbers = |name: &str, numbers: [Option<i64>; 2]| {
            let array: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
            (Arc::new(Field::new(name, DataType::Int64, true)), array)
        };
        let least = StructArray::from(vec![numbers("x", [Some(3), None])]);
        let parsed: ArrayRef = Arc::new(StructArray::from(vec![
            numbers("numRecords", [Some(7), None]),
            (Arc::new(Field::new("minValues", least.data_type().clone(), true)), Arc::new(least) as ArrayRef),
        ]));
        let parsed = (Field::new("stats_parsed", parsed.data_type().clone(), true), parsed);
        let mut found = Vec::new();
        each(written(vec![paths(), sizes(vec![1, 2]), parsed]), |action| {
            if let Action::Add(add) = action {
                found.push((add.row_count(), add.stats.unwrap_or_default()));
            }
            Ok(())
        })
        .unwrap();
        let first = r#"{"minValues":{"x":3},"numRecords":7}"#.to_owned();
        assert_eq!(found, [(Some(7), first), (None, r#"{"minValues":{}}"#.to_owned())]);
    }

    /// Bytes are changed, cut off or inserted at random. The reader may accept or refuse the result, but must
    /// not panic.
    #[test]
    fn mutants_of_a_checkpoint_are_read_or_refused() {
        let sound = written(vec![paths(), sizes(vec![1, 2])]);
        let mut state = 17u64;
        let mut below = |most: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % most
        };
        for _ in 0..2_000 {
            let mut bytes = sound.to_vec();
            for _ in 0..=below(4) {
                let at = below(bytes.len());
                match below(3) {
                    0 => bytes[at] = below(256) as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, 0xff),
                }
            }
            drop(read(bytes.into()));
        }
    }

    #[test]
    fn a_checkpoint_with_more_actions_than_bytes_is_refused() {
        let paths: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; 100_000]));
        let error = read(written(vec![(Field::new("path", DataType::Utf8, true), paths)])).unwrap_err();
        assert!(error.to_string().contains("it claims 100000 actions in"), "{error}");
    }

    #[test]
    fn checkpoints_that_are_damaged_or_of_other_columns_are_refused() {
        let refused = |bytes: Bytes| read(bytes).unwrap_err().to_string();
        let sound = written(vec![paths(), sizes(vec![1, 2])]);
        assert!(refused(sound.slice(..sound.len() - 1)).contains("cannot be read"));
        assert!(refused(written(vec![paths(), sizes(vec![1, -2])])).contains("add.size has another type"));
        assert!(refused(written(vec![sizes(vec![1, 2])])).contains("add.path has another type or no value"));
        // Changing any byte gives an error or other values, and no panic.
        for at in 0..sound.len() {
            let mut bytes = sound.to_vec();
            bytes[at] ^= 0x55;
            drop(read(bytes.into()));
        }
    }
}

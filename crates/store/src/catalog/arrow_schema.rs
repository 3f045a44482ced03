//! Gives the columns of a file their Arrow types. They follow the Arrow schema that the writer stored in the
//! file's metadata, unless it does not fit the columns. A column without an Arrow type is refused, and the
//! other columns can still be read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flatbuffers::InvalidFlatbuffer;
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Metadata, Schema, TimeUnit};
use forebay_arrow::fail::OrFail;
use forebay_arrow::ipc::convert::try_fb_to_schema;
use forebay_arrow::ipc::{self, root_as_message};
use forebay_arrow::nested::{with_fields, with_times};
use forebay_base::{Error, ErrorKind, Result};
use parquet::arrow::{encode_arrow_schema, parquet_to_arrow_schema};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{SchemaDescriptor, Type};

/// The key under which Arrow writers keep their schema.
pub const ARROW_SCHEMA: &str = "ARROW:schema";

/// The time zone that timestamps written by Spark get.
const UTC: &str = "UTC";

/// The prefix of the metadata keys that Spark writes.
const SPARK: &str = "org.apache.spark.";

/// Parts of the error messages of the Parquet crate about a stored Arrow schema that does not fit the
/// columns, or that is nested too deeply.
const MISFITS: [&str; 3] = ["incompatible arrow schema", "expected field named", "DepthLimitReached"];

/// The length of the marker and the schema's length, four bytes each, that precede the schema in newer files.
const PREFIX: usize = 8;
const MARKER: [u8; 4] = [0xff; 4];

/// The most texts in a stored schema that may be invalid UTF-8. The schema is parsed again for each of them.
const ODD_TEXTS: usize = 1000;

/// The reason why a column of 128-bit integers is refused.
const WIDE: &str = "integers of more than 64 bits are not read";
/// The hint for a column of 128-bit integers.
const WIDE_HINT: &str =
    "choose other columns with `columns`, or write it as integers of 64 bits, decimals or text";

/// The columns that cannot be read, by name, each with the reason and a hint.
pub type Refusals = BTreeMap<String, Error>;

/// The Arrow schema of a file's columns. A stored Arrow schema is ignored if it does not fit the columns, for
/// example because a program dropped or renamed columns and did not change the stored schema.
pub fn arrow_schema(parquet: &SchemaDescriptor, key_values: Option<&Vec<KeyValue>>) -> Result<Schema> {
    let schema = as_written(parquet, key_values)?;
    Ok(match is_of_spark(key_values) {
        true => in_microseconds(parquet, schema),
        false => schema,
    })
}

fn as_written(parquet: &SchemaDescriptor, key_values: Option<&Vec<KeyValue>>) -> Result<Schema> {
    let error = match parquet_to_arrow_schema(parquet, key_values) {
        Ok(schema) => return Ok(schema),
        Err(error) => error,
    };
    let said = error.to_string();
    if MISFITS.iter().any(|words| said.contains(words)) {
        return parquet_to_arrow_schema(parquet, None).or_fail();
    }
    // Any other failure may come from texts in the stored schema that are not UTF-8: try again without them.
    match writers_schema(key_values) {
        Some(WriterSchema { schema, is_mended: true }) => {
            let others = key_values.into_iter().flatten().filter(|pair| pair.key != ARROW_SCHEMA);
            as_written(parquet, Some(&others.cloned().chain([pair(&schema)]).collect()))
        }
        _ => Err(error).or_fail(),
    }
}

/// Gives the columns types as [`arrow_schema`] does. If that fails, it separates the columns that have no
/// Arrow type: they get the type `Null`, and are returned with the reason.
///
/// Fails if no column can be read.
pub(super) fn readable(
    parquet: &SchemaDescriptor,
    key_values: Option<&Vec<KeyValue>>,
) -> Result<(Schema, Refusals)> {
    let count = parquet.root_schema().get_fields().len();
    let error = match arrow_schema(parquet, key_values) {
        Ok(schema) if schema.fields().len() == count => return Ok((schema, Refusals::new())),
        Ok(_) => no_values(),
        Err(error) => error,
    };
    let written = writers_schema(key_values).map(|written| written.schema);
    let written = written.filter(|schema| schema.fields().len() == count);
    let wide = wide_integers(key_values);
    let mut found = FoundSchema { parquet, written, wide, fields: Vec::new(), refused: Refusals::new() };
    found.add(0..count)?;
    let schema = Schema::new(found.fields);
    match found.refused.len() == count {
        true => Err(error),
        false if is_of_spark(key_values) => Ok((in_microseconds(parquet, schema), found.refused)),
        false => Ok((schema, found.refused)),
    }
}

/// The entries of a file's metadata on which the Arrow types of its columns depend.
pub(super) fn type_hints(key_values: Option<&Vec<KeyValue>>) -> Vec<KeyValue> {
    let of = |wanted: &dyn Fn(&str) -> bool| key_values.into_iter().flatten().find(|pair| wanted(&pair.key));
    let arrow = of(&|key| key == ARROW_SCHEMA).cloned();
    let spark = of(&|key| key.starts_with(SPARK)).map(|_| KeyValue::new(SPARK.to_owned(), None));
    arrow.into_iter().chain(spark).collect()
}

/// Stands for [`type_hints`] in the files of a table: their columns get Spark's types, even if
/// another program wrote them.
pub(super) fn hints_of_table() -> Vec<KeyValue> {
    vec![KeyValue::new(SPARK.to_owned(), None)]
}

/// Whether a file has the metadata of Spark, and none of a writer that uses Arrow.
fn is_of_spark(key_values: Option<&Vec<KeyValue>>) -> bool {
    let has = |start: &str| key_values.into_iter().flatten().any(|pair| pair.key.starts_with(start));
    has(SPARK) && !has(ARROW_SCHEMA)
}

/// Gives columns with 96-bit times the type of microseconds in UTC, as Spark does. Nanoseconds could not hold
/// times after 2262, but the year 9999 often stands for "no end". Spark's 64-bit times already are in UTC.
fn in_microseconds(parquet: &SchemaDescriptor, schema: Schema) -> Schema {
    let int96 = int96_roots(parquet);
    if int96.is_empty() {
        return schema;
    }
    let times = DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
    let fields = schema.fields().iter().enumerate().map(|(root, field)| match int96.contains(&root) {
        true => Arc::new(with_times(field, &times)),
        false => field.clone(),
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}

/// The indices of the top-level columns that hold 96-bit times.
pub fn int96_roots(parquet: &SchemaDescriptor) -> HashSet<usize> {
    let leaves = parquet.columns().iter().enumerate();
    let int96 = leaves.filter(|(_, column)| column.physical_type() == PhysicalType::INT96);
    int96.map(|(leaf, _)| parquet.get_column_root_idx(leaf)).collect()
}

struct FoundSchema<'a> {
    parquet: &'a SchemaDescriptor,
    /// The writer's schema, if it has as many columns as the file.
    written: Option<Schema>,
    /// The names of columns with integers of more than 64 bits, which Arrow lacks, in the stored schema.
    wide: HashSet<String>,
    fields: Vec<FieldRef>,
    refused: Refusals,
}

impl FoundSchema<'_> {
    /// Adds a range of columns. If they cannot be typed together, it divides the range until only the columns
    /// that cannot be read are refused.
    fn add(&mut self, columns: Range<usize>) -> Result<()> {
        let root = self.parquet.root_schema();
        let some = root.get_fields()[columns.clone()].to_vec();
        if some.iter().any(|column| self.wide.contains(column.name())) {
            return match columns.len() {
                1 => self.refuse(columns.start, Error::new(ErrorKind::Unsupported, WIDE).hint(WIDE_HINT)),
                _ => self.halve(columns),
            };
        }
        let message = Type::group_type_builder(root.name()).with_fields(some).build().or_fail()?;
        let written = self.written.as_ref().map(|schema| {
            let fields = schema.fields()[columns.clone()].to_vec();
            vec![pair(&Schema::new(fields))]
        });
        let error = match as_written(&SchemaDescriptor::new(Arc::new(message)), written.as_ref()) {
            Ok(schema) if schema.fields().len() == columns.len() => {
                self.fields.extend(schema.fields().iter().cloned());
                return Ok(());
            }
            Ok(_) => no_values(),
            Err(error) => error,
        };
        match columns.len() {
            0 => Ok(()),
            1 => self.refuse(columns.start, error.hint("choose other columns with `columns`")),
            _ => self.halve(columns),
        }
    }

    /// Adds the columns of each half of a range separately.
    fn halve(&mut self, columns: Range<usize>) -> Result<()> {
        let middle = columns.start + columns.len() / 2;
        self.add(columns.start..middle)?;
        self.add(middle..columns.end)
    }

    /// Adds a column that cannot be read, with the type `Null`.
    fn refuse(&mut self, column: usize, error: Error) -> Result<()> {
        let name = self.parquet.root_schema().get_fields()[column].name();
        self.fields.push(Arc::new(Field::new(name, DataType::Null, true)));
        self.refused.insert(name.to_owned(), error);
        Ok(())
    }
}

/// The error for a column without leaves, such as a structure without fields, which the Parquet crate leaves
/// out of the schema.
fn no_values() -> Error {
    Error::new(ErrorKind::Unsupported, "the column has no values")
}

/// The Arrow schema that the writer of a file stored in its metadata.
struct WriterSchema {
    schema: Schema,
    /// Whether texts that are not UTF-8 were removed from it.
    is_mended: bool,
}

/// The names of columns that hold integers of more than 64 bits at any depth. Only the stored Arrow schema
/// says so; in Parquet they are plain bytes.
fn wide_integers(key_values: Option<&Vec<KeyValue>>) -> HashSet<String> {
    let Some(bytes) = written_bytes(key_values) else { return HashSet::new() };
    let Some(schema) = root_as_message(&bytes).ok().and_then(|message| message.header_as_schema()) else {
        return HashSet::new();
    };
    let fields = schema.fields().into_iter().flatten().filter(|field| is_wide(*field));
    fields.filter_map(|field| field.name().map(str::to_owned)).collect()
}

fn is_wide(field: ipc::Field<'_>) -> bool {
    field.type_as_int().is_some_and(|int| int.bitWidth() > i32::try_from(u64::BITS).unwrap_or(i32::MAX))
        || field.children().into_iter().flatten().any(is_wide)
}

/// The bytes of the Arrow schema that the writer of a file stored in its metadata.
fn written_bytes(key_values: Option<&Vec<KeyValue>>) -> Option<Vec<u8>> {
    let pair = key_values?.iter().find(|pair| pair.key == ARROW_SCHEMA)?;
    let mut bytes = BASE64_STANDARD.decode(pair.value.as_ref()?).ok()?;
    if bytes.len() > PREFIX && bytes.starts_with(&MARKER) {
        bytes.drain(..PREFIX);
    }
    Some(bytes)
}

/// The Arrow schema that the writer stored in a file, without texts that are not UTF-8; `None` if it is
/// missing or invalid.
fn writers_schema(key_values: Option<&Vec<KeyValue>>) -> Option<WriterSchema> {
    let mut bytes = written_bytes(key_values)?;
    let mut odd_texts = 0;
    // Texts that are not UTF-8 are overwritten with zeros, which are valid UTF-8, until the schema parses.
    while let Err(InvalidFlatbuffer::Utf8Error { range, .. }) = root_as_message(&bytes) {
        odd_texts += 1;
        if odd_texts > ODD_TEXTS {
            return None;
        }
        bytes.get_mut(range)?.fill(0);
    }
    let schema = try_fb_to_schema(root_as_message(&bytes).ok()?.header_as_schema()?).ok()?;
    let is_mended = odd_texts > 0;
    let schema = if is_mended {
        let fields: Vec<Field> = schema.fields().iter().map(|field| with_texts(field)).collect();
        Schema::new_with_metadata(fields, texts(schema.metadata()))
    } else {
        schema
    };
    Some(WriterSchema { schema, is_mended })
}

fn pair(schema: &Schema) -> KeyValue {
    KeyValue { key: ARROW_SCHEMA.to_owned(), value: Some(encode_arrow_schema(schema)) }
}

/// The field without its metadata entries that were overwritten with zeros, in all nested fields too.
fn with_texts(field: &Field) -> Field {
    let data_type = with_fields(field.data_type(), with_texts);
    let metadata = texts(field.metadata());
    field.clone().with_data_type(data_type).with_metadata(metadata)
}

/// The metadata entries whose key and value were not overwritten with zeros.
fn texts(metadata: &Metadata) -> HashMap<String, String> {
    let is_text = |text: &str| text.is_empty() || text.bytes().any(|byte| byte != 0);
    let texts = metadata.iter().filter(|(key, value)| is_text(key) && is_text(value));
    texts.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use parquet::basic::Repetition;

    use super::*;

    #[test]
    fn a_structure_without_fields_is_refused_and_the_columns_beside_it_are_read() {
        let group = |name: &str, fields: Vec<Type>| {
            let fields = fields.into_iter().map(Arc::new).collect();
            let group = Type::group_type_builder(name).with_fields(fields);
            group.with_repetition(Repetition::OPTIONAL).build().unwrap()
        };
        let leaf = |name| {
            let leaf = Type::primitive_type_builder(name, PhysicalType::INT32);
            leaf.with_repetition(Repetition::OPTIONAL).build().unwrap()
        };
        for odd in [group("odd", Vec::new()), group("odd", vec![group("inner", Vec::new())])] {
            let root = group("m", vec![leaf("a"), odd, leaf("b")]);
            let (schema, refused) = readable(&SchemaDescriptor::new(Arc::new(root)), None).unwrap();
            let types = schema.fields().iter().map(|field| (field.name().as_str(), field.data_type()));
            let int = &DataType::Int32;
            assert_eq!(types.collect::<Vec<_>>(), [("a", int), ("odd", &DataType::Null), ("b", int)]);
            assert_eq!(refused.keys().collect::<Vec<_>>(), ["odd"]);
            assert_eq!(refused["odd"].cause(), "the column has no values");
        }
    }
}

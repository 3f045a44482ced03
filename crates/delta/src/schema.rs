//! The columns of a Delta table: their delivered names and types, and their names and ids in the table's
//! files.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use forebay_base::{Error, ErrorKind, Place, Result};
use serde_json::{Map, Value};

/// The key, in a column's metadata, of its id in the files.
const ID: &str = "delta.columnMapping.id";
/// The key, in a column's metadata, of its name in the files.
const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";

/// How a column of the table is matched with a column of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// By the same names as in the table.
    AsNamed,
    /// By a separate name in the files, which the schema gives.
    ByName,
    /// By a field id in the files, which the schema gives.
    ById,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// The field as it is delivered. Strings and binary are views; everything except the keys of maps may be
    /// null.
    pub field: FieldRef,
    /// The name of the column in the files.
    pub stored: StoredName,
    /// Whether this is a partition column, whose values are in the log and not in the files.
    pub is_partition: bool,
}

/// The name and id of a field in the files of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredName {
    /// The name in the table.
    pub name: String,
    /// The name in the files.
    pub stored: String,
    /// The id of the field in the files, if the schema gives one.
    pub id: Option<i32>,
    /// The names inside the field: the fields of a structure, the item of a list, the key and the value of a
    /// map.
    pub inner: Vec<StoredName>,
}

impl Found {
    /// Parses the value of the table property `delta.columnMapping.mode`.
    pub(crate) fn from_mode(mode: Option<&str>) -> Result<Self> {
        match mode {
            None | Some("none") => Ok(Found::AsNamed),
            Some("name") => Ok(Found::ByName),
            Some("id") => Ok(Found::ById),
            Some(other) => {
                let cause = format!("column mapping of mode {other:?} is not read");
                Err(Error::new(ErrorKind::Unsupported, cause))
            }
        }
    }
}

/// Parses the columns of a table's schema, which the log stores as JSON text.
///
/// # Errors
/// `Corrupt` for a text that is not a schema; `Unsupported`, with the column, for types that are not
/// supported.
pub(crate) fn columns(text: &str, partition: &[String], found: Found) -> Result<Vec<TableColumn>> {
    let schema: Value = serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
    let fields = fields_of(&schema).ok_or_else(|| malformed("it has no fields"))?;
    let columns = fields.iter().map(|field| {
        let (field, stored) = member(field, found)?;
        let is_partition = partition.contains(field.name());
        Ok(TableColumn { field, stored, is_partition })
    });
    let columns = columns.collect::<Result<Vec<TableColumn>>>()?;
    let unknown = partition.iter().find(|name| !columns.iter().any(|column| column.field.name() == *name));
    match unknown {
        Some(name) => Err(malformed(&format!("it lacks the partition column {name:?}"))),
        None => Ok(columns),
    }
}

fn malformed(why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the schema of the table cannot be read: {why}"))
}

fn fields_of(structure: &Value) -> Option<&Vec<Value>> {
    structure.get("fields")?.as_array()
}

/// Parses a field of the schema or of a struct in it.
fn member(field: &Value, found: Found) -> Result<(FieldRef, StoredName)> {
    let name = field.get("name").and_then(Value::as_str).ok_or_else(|| malformed("a field has no name"))?;
    let data_type = field.get("type").ok_or_else(|| malformed("a field has no type"))?;
    let of = data_type_of(data_type, found).map_err(|error| error.at(Place::default().column(name)))?;
    let empty = Map::new();
    let metadata = field.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let is_mapped = found != Found::AsNamed;
    let physical = metadata.get(PHYSICAL_NAME).and_then(Value::as_str).filter(|_| is_mapped);
    let id = metadata.get(ID).and_then(Value::as_i64).filter(|_| is_mapped);
    let id = id.and_then(|id| i32::try_from(id).ok());
    if is_mapped && physical.is_none() || found == Found::ById && id.is_none() {
        return Err(malformed("a field of a table with mapped columns has no physical name or id")
            .at(Place::default().column(name)));
    }
    let stored = StoredName {
        name: name.to_owned(),
        stored: physical.unwrap_or(name).to_owned(),
        id,
        inner: of.inner,
    };
    Ok((Arc::new(Field::new(name, of.data_type, true)), stored))
}

/// A data type, and the stored names of the fields inside it.
struct TypedNames {
    data_type: DataType,
    inner: Vec<StoredName>,
}

fn data_type_of(of: &Value, found: Found) -> Result<TypedNames> {
    let part = |key: &str| of.get(key).ok_or_else(|| malformed(&format!("a type has no {key}")));
    let item = |key: &str, name: &str| {
        let TypedNames { data_type, inner } = data_type_of(part(key)?, found)?;
        let stored = StoredName { name: name.to_owned(), stored: name.to_owned(), id: None, inner };
        Ok::<_, Error>((data_type, stored))
    };
    let kind = match of {
        Value::String(name) => {
            return Ok(TypedNames { data_type: primitive(name)?, inner: Vec::new() });
        }
        Value::Object(_) => part("type")?.as_str().unwrap_or_default(),
        _ => return Err(malformed("a type is neither a name nor an object")),
    };
    match kind {
        "struct" => {
            let fields = fields_of(of).ok_or_else(|| malformed("a structure has no fields"))?;
            let members = fields.iter().map(|field| member(field, found)).collect::<Result<Vec<_>>>()?;
            let (fields, inner): (Vec<FieldRef>, Vec<StoredName>) = members.into_iter().unzip();
            Ok(TypedNames { data_type: DataType::Struct(Fields::from(fields)), inner })
        }
        "array" => {
            let (data_type, inner) = item("elementType", "element")?;
            let element = Arc::new(Field::new("element", data_type, true));
            Ok(TypedNames { data_type: DataType::List(element), inner: vec![inner] })
        }
        "map" => {
            let ((key, key_name), (value, value_name)) =
                (item("keyType", "key")?, item("valueType", "value")?);
            let pair = vec![Field::new("key", key, false), Field::new("value", value, true)];
            let entries = Field::new("key_value", DataType::Struct(pair.into()), false);
            let data_type = DataType::Map(Arc::new(entries), false);
            Ok(TypedNames { data_type, inner: vec![key_name, value_name] })
        }
        "udt" => data_type_of(part("sqlType")?, found),
        other => Err(unread(other)),
    }
}

fn primitive(name: &str) -> Result<DataType> {
    Ok(match name {
        "string" => DataType::Utf8View,
        "long" => DataType::Int64,
        "integer" => DataType::Int32,
        "short" => DataType::Int16,
        "byte" => DataType::Int8,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "boolean" => DataType::Boolean,
        "binary" => DataType::BinaryView,
        "date" => DataType::Date32,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "void" | "null" => DataType::Null,
        "decimal" => DataType::Decimal128(10, 0),
        other => decimal(other).or_else(|| text(other)).ok_or_else(|| unread(other))?,
    })
}

/// Parses a decimal type, such as `decimal(10,2)`.
fn decimal(name: &str) -> Option<DataType> {
    let (digits, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (digits, scale) = (digits.trim().parse().ok()?, scale.trim().parse().ok()?);
    ((1..=38).contains(&digits) && (0..=digits as i8).contains(&scale))
        .then_some(DataType::Decimal128(digits, scale))
}

/// Parses a string type with a maximum length, such as `varchar(20)`. The length is not kept.
fn text(name: &str) -> Option<DataType> {
    let is_text = name.starts_with("char(") || name.starts_with("varchar(");
    is_text.then_some(DataType::Utf8View)
}

fn unread(name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the table declares the type {name}, which is not read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &str) -> String {
        format!(r#"{{"type":"struct","fields":[{fields}]}}"#)
    }

    fn field(name: &str, of: &str, metadata: &str) -> String {
        format!(r#"{{"name":"{name}","type":{of},"nullable":true,"metadata":{{{metadata}}}}}"#)
    }

    #[test]
    fn types_are_those_that_are_delivered() {
        let nested =
            r#"{"type":"struct","fields":[{"name":"x","type":"short","nullable":false,"metadata":{}}]}"#;
        let list = format!(r#"{{"type":"array","elementType":{nested},"containsNull":true}}"#);
        let map = r#"{"type":"map","keyType":"string","valueType":"date","valueContainsNull":true}"#;
        let udt = format!(r#"{{"type":"udt","class":"org.apache","sqlType":{nested}}}"#);
        let each = [
            ("a", "\"decimal(10,2)\""),
            ("b", "\"timestamp\""),
            ("c", "\"timestamp_ntz\""),
            ("d", &list),
            ("e", map),
            ("f", &udt),
            ("g", "\"varchar(3)\""),
        ];
        let text = schema(&each.map(|(name, of)| field(name, of, "")).join(","));
        let columns = columns(&text, &["b".to_owned()], Found::AsNamed).unwrap();
        let shown: Vec<String> = columns.iter().map(|column| column.field.data_type().to_string()).collect();
        assert_eq!(shown[0], "Decimal128(10, 2)");
        assert_eq!(shown[1], "Timestamp(µs, \"UTC\")");
        assert_eq!(shown[2], "Timestamp(µs)");
        assert_eq!(shown[5], "Struct(\"x\": Int16)");
        assert_eq!(shown[6], "Utf8View");
        assert!(columns[1].is_partition && !columns[0].is_partition);
        assert_eq!(columns[3].stored.inner[0].inner[0].name, "x");
        assert_eq!(columns[4].stored.inner.len(), 2);
    }

    #[test]
    fn mapped_columns_have_names_and_numbers_of_their_own_at_every_depth() {
        let of = |name: &str, id: u8| {
            format!(r#""delta.columnMapping.id":{id},"delta.columnMapping.physicalName":"{name}""#)
        };
        let inner = format!(r#"{{"type":"struct","fields":[{}]}}"#, field("x", "\"long\"", &of("col-2", 2)));
        let text = schema(&field("a", &inner, &of("col-1", 1)));
        let mapped = columns(&text, &[], Found::ByName).unwrap();
        let StoredName { name, stored, id, inner } = &mapped[0].stored;
        assert_eq!((name.as_str(), stored.as_str(), *id), ("a", "col-1", Some(1)));
        assert_eq!((inner[0].stored.as_str(), inner[0].id), ("col-2", Some(2)));
        let plain = columns(&text, &[], Found::AsNamed).unwrap();
        assert_eq!((plain[0].stored.stored.as_str(), plain[0].stored.id), ("a", None));
    }

    #[test]
    fn schemas_that_are_none_are_refused_with_their_column() {
        let refused = |text: &str, found| columns(text, &["p".to_owned()], found).unwrap_err().to_string();
        let of = |of: &str| refused(&schema(&field("v", of, "")), Found::AsNamed);
        assert_eq!(of("\"variant\""), "column \"v\": the table declares the type variant, which is not read");
        assert!(of("\"decimal(39,2)\"").contains("the type decimal(39,2)"));
        assert!(of("7").contains("neither a name nor an object"));
        assert!(of("\"long\"").contains("lacks the partition column \"p\""));
        assert!(refused("{}", Found::AsNamed).contains("it has no fields"));
        assert!(
            refused(&schema(&field("v", "\"long\"", "")), Found::ByName).contains("no physical name or id")
        );
        assert!(Found::from_mode(Some("other")).unwrap_err().to_string().contains("\"other\""));
    }
}

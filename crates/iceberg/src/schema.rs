//! The columns of an Iceberg table: their delivered types, and the names and field ids that identify them in
//! files.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_arrow::array::ArrayRef;
use forebay_arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use forebay_base::{Error, ErrorKind, Place, Result};
use serde_json::Value as Json;

use crate::names::{FieldName, NameMapping};
use crate::{default, value};

/// A column of a table.
#[derive(Clone, Debug)]
pub struct TableColumn {
    /// The field as it is delivered. Strings and binary values are views; everything but the keys of maps may
    /// be null.
    pub field: FieldRef,
    /// The name of the column, with the field id and the names by which it is found in files.
    pub name: FieldName,
    /// The value of the column in files that lack it, as an array of one row; `None` if it is null there.
    pub default: Option<ArrayRef>,
}

/// Parses the columns of a schema from the JSON of the metadata.
///
/// # Errors
/// `Corrupt` for a malformed schema; `Unsupported`, with the column, for a type that is not read.
pub(crate) fn columns(schema: &Json, mapping: &NameMapping) -> Result<Vec<TableColumn>> {
    let fields = fields_of(schema).ok_or_else(|| malformed("it has no fields"))?;
    let columns = fields.iter().map(|json| {
        let (field, name) = member(json, mapping)?;
        let default = default_of(json, field.data_type()).map_err(|error| at(error, field.name()))?;
        Ok(TableColumn { field, name, default })
    });
    let columns = columns.collect::<Result<Vec<TableColumn>>>()?;
    let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
    match columns.iter().find(|column| !names.insert(&column.name.name) | !ids.insert(column.name.id)) {
        Some(twice) => Err(at(malformed("it has a column twice"), &twice.name.name)),
        None => Ok(columns),
    }
}

/// The column with the field id `id`, if it is a top-level field of the schema.
///
/// # Errors
/// The errors of [`columns`].
pub(crate) fn column(schema: &Json, id: i32, mapping: &NameMapping) -> Result<Option<TableColumn>> {
    let is_it = |field: &&Json| field.get("id").and_then(Json::as_i64) == Some(id.into());
    let Some(json) = fields_of(schema).and_then(|fields| fields.iter().find(is_it)) else { return Ok(None) };
    let (field, name) = member(json, mapping)?;
    let default = default_of(json, field.data_type()).map_err(|error| at(error, field.name()))?;
    Ok(Some(TableColumn { field, name, default }))
}

fn at(error: Error, name: &str) -> Error {
    error.at(Place::default().column(name))
}

fn malformed(why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the schema of the table cannot be read: {why}"))
}

fn fields_of(structure: &Json) -> Option<&Vec<Json>> {
    structure.get("fields")?.as_array()
}

fn id_of(json: &Json, key: &str) -> Result<i32> {
    let id = json.get(key).and_then(Json::as_i64).and_then(|id| i32::try_from(id).ok());
    id.ok_or_else(|| malformed(&format!("a field has no {key}")))
}

fn default_of(json: &Json, data_type: &DataType) -> Result<Option<ArrayRef>> {
    let Some(given) = json.get("initial-default").filter(|given| !given.is_null()) else { return Ok(None) };
    let array = default::value(data_type, given).and_then(|value| value::array(data_type, &value));
    match array {
        Some(array) => Ok(Some(array)),
        None => {
            let cause = format!("the table has the default {given}, which is not read as one of {data_type}");
            Err(Error::new(ErrorKind::Unsupported, cause))
        }
    }
}

/// Parses a field of the schema or of a struct in it.
fn member(json: &Json, mapping: &NameMapping) -> Result<(FieldRef, FieldName)> {
    let name = json.get("name").and_then(Json::as_str).ok_or_else(|| malformed("a field has no name"))?;
    let named = |error| at(error, name);
    let id = id_of(json, "id").map_err(named)?;
    let of = json.get("type").ok_or_else(|| malformed("a field has no type")).map_err(named)?;
    let Typed { data_type, inner } = data_type_of(of, mapping).map_err(named)?;
    let field = Arc::new(Field::new(name, data_type, true));
    Ok((field, FieldName { name: name.to_owned(), id, stored: mapping.names_of(id), inner }))
}

/// A data type, and the names of the fields inside it.
struct Typed {
    data_type: DataType,
    inner: Vec<FieldName>,
}

fn data_type_of(of: &Json, mapping: &NameMapping) -> Result<Typed> {
    if let Json::String(name) = of {
        return Ok(Typed { data_type: primitive(name)?, inner: Vec::new() });
    }
    let part = |key: &str| of.get(key).ok_or_else(|| malformed(&format!("a type has no {key}")));
    let item = |key: &str, name: &str| {
        let Typed { data_type, inner } = data_type_of(part(key)?, mapping)?;
        let id = id_of(of, &format!("{key}-id"))?;
        Ok::<_, Error>((
            data_type,
            FieldName { name: name.to_owned(), id, stored: vec![name.to_owned()], inner },
        ))
    };
    match part("type")?.as_str().unwrap_or_default() {
        "struct" => {
            let fields = fields_of(of).ok_or_else(|| malformed("a structure has no fields"))?;
            let has_default =
                |field: &&Json| field.get("initial-default").is_some_and(|given| !given.is_null());
            if let Some(field) = fields.iter().find(has_default) {
                let cause = format!(
                    "its field {} has a default, which is read of whole columns alone",
                    field["name"]
                );
                return Err(Error::new(ErrorKind::Unsupported, cause));
            }
            let members = fields.iter().map(|field| member(field, mapping)).collect::<Result<Vec<_>>>()?;
            let (fields, inner): (Vec<FieldRef>, Vec<FieldName>) = members.into_iter().unzip();
            Ok(Typed { data_type: DataType::Struct(Fields::from(fields)), inner })
        }
        "list" => {
            let (data_type, inner) = item("element", "element")?;
            let element = Arc::new(Field::new("element", data_type, true));
            Ok(Typed { data_type: DataType::List(element), inner: vec![inner] })
        }
        "map" => {
            let ((key, key_name), (value, value_name)) = (item("key", "key")?, item("value", "value")?);
            let pair = vec![Field::new("key", key, false), Field::new("value", value, true)];
            let entries = Field::new("key_value", DataType::Struct(pair.into()), false);
            let data_type = DataType::Map(Arc::new(entries), false);
            Ok(Typed { data_type, inner: vec![key_name, value_name] })
        }
        other => Err(unread(other)),
    }
}

fn primitive(name: &str) -> Result<DataType> {
    let moment = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
    Ok(match name {
        "boolean" => DataType::Boolean,
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "string" => DataType::Utf8View,
        "binary" => DataType::BinaryView,
        "uuid" => DataType::FixedSizeBinary(16),
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" => moment(TimeUnit::Microsecond, None),
        "timestamptz" => moment(TimeUnit::Microsecond, Some("UTC")),
        "timestamp_ns" => moment(TimeUnit::Nanosecond, None),
        "timestamptz_ns" => moment(TimeUnit::Nanosecond, Some("UTC")),
        "unknown" => DataType::Null,
        other => decimal(other).or_else(|| fixed(other)).ok_or_else(|| unread(other))?,
    })
}

/// Parses a decimal type, such as `decimal(10,2)`.
fn decimal(name: &str) -> Option<DataType> {
    let (digits, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (digits, scale) = (digits.trim().parse().ok()?, scale.trim().parse().ok()?);
    let is_one = (1..=38).contains(&digits) && (0..=digits as i8).contains(&scale);
    is_one.then_some(DataType::Decimal128(digits, scale))
}

/// Parses a type of binary values of one length, such as `fixed[16]`.
fn fixed(name: &str) -> Option<DataType> {
    let size: i32 = name.strip_prefix("fixed[")?.strip_suffix(']')?.trim().parse().ok()?;
    (size > 0).then_some(DataType::FixedSizeBinary(size))
}

fn unread(name: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the table declares the type {name}, which is not read"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn columns_of(fields: Json) -> Result<Vec<TableColumn>> {
        columns(&json!({"type": "struct", "fields": fields}), &NameMapping::default())
    }

    #[test]
    fn types_are_those_that_are_delivered() {
        let structure =
            json!({"type": "struct", "fields": [{"id": 9, "name": "x", "type": "int", "required": true}]});
        let of = columns_of(json!([
            {"id": 1, "name": "a", "type": "decimal(10, 2)", "required": false},
            {"id": 2, "name": "b", "type": "timestamptz", "required": true},
            {"id": 3, "name": "c", "type": "timestamp_ns", "required": false},
            {"id": 4, "name": "d", "type": {"type": "list", "element-id": 5, "element": structure, "element-required": false}},
            {"id": 6, "name": "e", "type": {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": "date"}},
            {"id": 10, "name": "f", "type": "fixed[4]", "initial-default": "01020304"},
            {"id": 11, "name": "g", "type": "uuid"},
        ]))
        .unwrap();
        let shown: Vec<String> = of.iter().map(|column| column.field.data_type().to_string()).collect();
        assert_eq!(shown[0], "Decimal128(10, 2)");
        assert_eq!(shown[1], "Timestamp(µs, \"UTC\")");
        assert_eq!(shown[2], "Timestamp(ns)");
        assert_eq!(shown[5], "FixedSizeBinary(4)");
        assert_eq!(of[3].name.inner[0].inner[0].id, 9);
        assert_eq!(of[4].name.inner.len(), 2);
        assert!(of[5].default.is_some() && of[6].default.is_none());
    }

    #[test]
    fn schemas_that_are_none_are_refused_with_their_column() {
        let refused = |fields: Json| columns_of(fields).unwrap_err().to_string();
        let variant = refused(json!([{"id": 1, "name": "v", "type": "variant"}]));
        assert_eq!(variant, "column \"v\": the table declares the type variant, which is not read");
        assert!(refused(json!([{"name": "v", "type": "int"}])).contains("a field has no id"));
        assert!(refused(json!([{"id": 1, "name": "v", "type": "decimal(39,2)"}])).contains("decimal(39,2)"));
        let twice = json!([{"id": 1, "name": "v", "type": "int"}, {"id": 2, "name": "v", "type": "int"}]);
        assert!(refused(twice).contains("it has a column twice"));
        let default = json!([{"id": 1, "name": "v", "type": "int", "initial-default": "x"}]);
        assert!(refused(default).contains("the default \"x\""));
        let inside = json!({"type": "struct", "fields": [{"id": 2, "name": "x", "type": "int", "initial-default": 1}]});
        assert!(refused(json!([{"id": 1, "name": "v", "type": inside}])).contains("of whole columns alone"));
        assert!(refused(json!(7)).contains("it has no fields"));
    }
}

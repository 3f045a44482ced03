//! Renames the columns in a file of a table, because the table may have renamed its columns since the file
//! was written.

use std::sync::Arc;

use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

use crate::snapshot::{ColumnName, ColumnNames, FoundBy};

/// The prefix that is put before the name of a field that the table does not have. Without it, the name could
/// equal that of another field.
const DROPPED: &str = "(not in the table) ";

/// The schema of a file, with all fields renamed to their names in the table.
pub(super) fn renamed(schema: &SchemaDescriptor, names: &ColumnNames) -> Result<SchemaDescPtr> {
    let root = schema.root_schema();
    let has_ids = root.get_fields().iter().any(|field| field.get_basic_info().has_id());
    if names.found == FoundBy::IdAlone && !has_ids {
        let cause = "the columns of the file have no numbers, and the table has no names for them";
        return Err(Error::new(ErrorKind::Unsupported, cause)
            .hint("set the property `schema.name-mapping.default` of the table"));
    }
    let by_id = names.found != FoundBy::Name && has_ids;
    let fields = members(root.get_fields(), &names.columns, by_id)?;
    let message = Type::group_type_builder(root.name()).with_fields(fields).build().or_fail()?;
    Ok(Arc::new(SchemaDescriptor::new(Arc::new(message))))
}

/// The fields of a structure, renamed to their names in the table. `by_id` says that field ids identify them.
fn members(fields: &[TypePtr], names: &[ColumnName], by_id: bool) -> Result<Vec<TypePtr>> {
    let each = fields.iter().map(|field| {
        let info = field.get_basic_info();
        let is_it = |name: &&ColumnName| match by_id {
            true => info.has_id() && name.id == Some(info.id()),
            false => name.stored == field.name(),
        };
        match names.iter().find(is_it) {
            Some(name) => with_name(field, &name.name, &name.inner, by_id),
            None => with_name(field, &format!("{DROPPED}{}", field.name()), &[], by_id),
        }
    });
    each.collect()
}

/// Gives a field the name `name`, and the fields inside it the names in `inner`.
fn with_name(field: &TypePtr, name: &str, inner: &[ColumnName], by_id: bool) -> Result<TypePtr> {
    let is_same = field.name() == name && inner.iter().all(is_plain) && !by_id;
    if is_same && (inner.is_empty() || field.is_primitive()) {
        return Ok(field.clone());
    }
    let info = field.get_basic_info();
    let id = info.has_id().then(|| info.id());
    let repetition = info.has_repetition().then(|| info.repetition());
    if let Type::PrimitiveType { physical_type, type_length, scale, precision, .. } = field.as_ref() {
        let builder = Type::primitive_type_builder(name, *physical_type)
            .with_repetition(repetition.unwrap_or(Repetition::OPTIONAL))
            .with_converted_type(info.converted_type())
            .with_logical_type(info.logical_type_ref().cloned())
            .with_length(*type_length)
            .with_scale(*scale)
            .with_precision(*precision)
            .with_id(id);
        return Ok(Arc::new(builder.build().or_fail()?));
    }
    let fields = inside(field, inner, by_id)?;
    let builder = Type::group_type_builder(name)
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_fields(fields)
        .with_id(id);
    let builder = match repetition {
        Some(repetition) => builder.with_repetition(repetition),
        None => builder,
    };
    Ok(Arc::new(builder.build().or_fail()?))
}

/// The renamed members of a group: the fields of a structure, or the repeated field of a list or a map.
fn inside(group: &Type, inner: &[ColumnName], by_id: bool) -> Result<Vec<TypePtr>> {
    let info = group.get_basic_info();
    let annotation = (info.logical_type_ref(), info.converted_type());
    let is_list = matches!(annotation, (Some(LogicalType::List), _) | (_, ConvertedType::LIST));
    let is_map = matches!(
        annotation,
        (Some(LogicalType::Map), _) | (_, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE)
    );
    let ([repeated], true) = (group.get_fields(), (is_list || is_map) && !inner.is_empty()) else {
        return members(group.get_fields(), inner, by_id);
    };
    // The item of a list and the key and value of a map keep their names; fields inside them are renamed.
    let as_named = |fields: &[TypePtr]| {
        let pairs = fields.iter().zip(inner);
        pairs
            .map(|(field, name)| with_name(field, field.name(), &name.inner, by_id))
            .collect::<Result<Vec<_>>>()
    };
    let fields = match (is_map, repeated.is_group()) {
        (true, true) if repeated.get_fields().len() == inner.len() => as_named(repeated.get_fields())?,
        (false, true) if repeated.get_fields().len() == 1 && !is_item(repeated.name()) => {
            as_named(repeated.get_fields())?
        }
        (false, true) => members(repeated.get_fields(), &inner[0].inner, by_id)?,
        _ => return Ok(group.get_fields().to_vec()),
    };
    let info = repeated.get_basic_info();
    let builder = Type::group_type_builder(repeated.name())
        .with_repetition(Repetition::REPEATED)
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_fields(fields)
        .with_id(info.has_id().then(|| info.id()));
    Ok(vec![Arc::new(builder.build().or_fail()?)])
}

/// Whether the repeated group of a list is itself the item, as older writers wrote it, and not a wrapper.
fn is_item(name: &str) -> bool {
    name == "array" || name.ends_with("_tuple")
}

/// Whether a field, and everything inside it, has the same name in the table and in the files.
fn is_plain(name: &ColumnName) -> bool {
    name.name == name.stored && name.inner.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use parquet::schema::parser::parse_message_type;

    use super::*;

    fn name(name: &str, stored: &str, id: i32, inner: Vec<ColumnName>) -> ColumnName {
        ColumnName { name: name.to_owned(), stored: stored.to_owned(), id: Some(id), inner }
    }

    fn paths(message: &str, found: FoundBy, columns: Vec<ColumnName>) -> Vec<String> {
        let schema = SchemaDescriptor::new(Arc::new(parse_message_type(message).unwrap()));
        let renamed = renamed(&schema, &ColumnNames { found, columns }).unwrap();
        renamed.columns().iter().map(|column| column.path().string()).collect()
    }

    #[test]
    fn columns_have_the_names_of_the_table_at_every_depth() {
        let message = "message m {
            optional int32 c1;
            optional group c2 (LIST) { repeated group list { optional group element { optional int64 c3; } } }
            optional group c4 (MAP) {
                repeated group key_value {
                    required binary key (UTF8);
                    optional group value { optional int64 c5; optional int64 old; }
                }
            }
            optional int32 a;
        }";
        let item = name("element", "element", 0, vec![name("x", "c3", 3, vec![])]);
        let value = name("value", "value", 0, vec![name("y", "c5", 5, vec![])]);
        let columns = vec![
            name("a", "c1", 1, vec![]),
            name("b", "c2", 2, vec![item]),
            name("m", "c4", 4, vec![name("key", "key", 0, vec![]), value]),
        ];
        assert_eq!(
            paths(message, FoundBy::Name, columns),
            [
                "a",
                "b.list.element.x",
                "m.key_value.key",
                "m.key_value.value.y",
                "m.key_value.value.(not in the table) old",
                "(not in the table) a",
            ]
        );
    }

    #[test]
    fn columns_are_found_by_number_in_files_that_have_some() {
        let columns = || vec![name("a", "c1", 1, vec![]), name("b", "c2", 2, vec![])];
        let numbered = "message m { optional int32 c2 = 1; optional int32 x = 2; optional int32 c1; }";
        assert_eq!(paths(numbered, FoundBy::Id, columns()), ["a", "b", "(not in the table) c1"]);
        assert_eq!(paths(numbered, FoundBy::Name, columns())[0], "b");
        let without = "message m { optional int32 c2; optional int32 c1; }";
        assert_eq!(paths(without, FoundBy::Id, columns()), ["b", "a"]);
        let schema = SchemaDescriptor::new(Arc::new(parse_message_type(without).unwrap()));
        let refused = renamed(&schema, &ColumnNames { found: FoundBy::IdAlone, columns: columns() });
        assert!(refused.unwrap_err().to_string().contains("have no numbers"));
    }
}

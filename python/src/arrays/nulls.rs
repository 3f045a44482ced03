//! Refuses nulls in columns whose arrays cannot hold them. The error says the row and the remedies.

use forebay::arrow::array::Array;
use forebay::arrow::datatypes::{DataType, Field};
use forebay::bindings::{null_field, null_rows};
use forebay::{Error, ErrorKind, Place};
use pyo3::prelude::*;

use super::kind::KIND;
use crate::errors;

const LEAVE_OUT: &str = "leave such rows out with `on_bad_row`";

/// Says where a batch comes from, which decides the remedies for its nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchOrigin {
    Loader,
    /// A mix of several sources. Options against nulls are given to the loaders of the sources, and a column
    /// is null in the rows of a source that does not have it.
    Mix,
}

/// Returns a value, as Python code, that `fill_null` can put in place of nulls of this type, if there is one.
fn fill(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::LargeUtf8 => Some("\"\""),
        DataType::LargeBinary => Some("b\"\""),
        DataType::LargeList(item) => fill(item.data_type()),
        DataType::FixedSizeList(item, _) => match item.data_type() {
            DataType::Boolean | DataType::FixedSizeBinary(_) => Some("0.0"),
            other => other.primitive_width().map(|_| "0.0"),
        },
        DataType::Struct(_) | DataType::Map(..) | DataType::Null => None,
        _ => Some("0.0"),
    }
}

/// Refuses a column if a row is null, or has a null within it, although the column's array needs a value
/// there.
pub(crate) fn refuse(py: Python<'_>, field: &Field, array: &dyn Array, of: BatchOrigin) -> PyResult<()> {
    let Some(row) = null_rows(array).first().copied() else { return Ok(()) };
    let name = field.name();
    let path = null_field(array, row);
    let what = match (array.is_null(row), path.is_empty()) {
        (true, _) => "is null".to_owned(),
        (false, true) => "holds a null".to_owned(),
        (false, false) => format!("holds a null in its field \"{name}.{}\"", path.join(".")),
    };
    let error =
        Error::new(ErrorKind::BadRow, format!("row {row} of this batch {what}, and an array has no nulls"))
            .at(Place::default().column(name.as_str()));
    let moves = match of {
        BatchOrigin::Loader if !path.is_empty() => moves_of_a_field(field, &path),
        BatchOrigin::Loader => moves_of_a_loader(field, array.is_null(row)),
        BatchOrigin::Mix => moves_of_a_mix(field),
    };
    let hint =
        format!("{moves}, or read the batch with its nulls through Arrow: pyarrow.record_batch(batch)");
    Err(errors::null(py, &error.hint(hint)))
}

/// The remedies for a null in a batch of a loader. `null_mask` can mark a whole row that is null, but not a
/// null within a row.
fn moves_of_a_loader(field: &Field, is_row: bool) -> String {
    let Some(fill) = fill(field.data_type()) else { return LEAVE_OUT.into() };
    let name = field.name();
    let mask = match field.data_type() {
        DataType::LargeList(_) => String::new(),
        _ if !is_row => String::new(),
        _ => format!(" or null_mask=[{name:?}]"),
    };
    format!("pass fill_null={{{name:?}: {fill}}}{mask}, {LEAVE_OUT}")
}

/// The remedies for nulls in a field of a structure, which can be filled once it is a column of its own.
fn moves_of_a_field(field: &Field, path: &[String]) -> String {
    let mut inside = field;
    for name in path {
        let fields = match inside.data_type() {
            DataType::Struct(fields) => fields,
            // A field of structures that are in a list cannot become a column.
            _ => return LEAVE_OUT.into(),
        };
        let Some((_, found)) = fields.find(name) else { return LEAVE_OUT.into() };
        inside = found;
    }
    let (column, name) = (field.name(), format!("{}.{}", field.name(), path.join(".")));
    match fill(inside.data_type()) {
        Some(fill) => format!("pass flatten=[{column:?}] and fill_null={{{name:?}: {fill}}}, {LEAVE_OUT}"),
        None => LEAVE_OUT.into(),
    }
}

/// Whether each value of a column was decoded to an array, as images are.
fn is_tensor(field: &Field) -> bool {
    field.extension_type_name().is_some() || field.metadata().contains_key(KIND)
}

fn moves_of_a_mix(field: &Field) -> String {
    if field.name() == "row_id" {
        return "set row_id=True in the loaders of all sources, or of none".to_owned();
    }
    let is_mask = *field.data_type() == DataType::Boolean;
    let name = field.name().strip_suffix(".mask").filter(|_| is_mask).unwrap_or(field.name());
    // A name with a dot may be that of a view of an image, which `columns` cannot leave out.
    let views = if is_tensor(field) && name.contains('.') { ", or out of forebay.Views" } else { "" };
    let columns = format!(
        "leave {name:?} out with columns= of the sources' loaders{views}, if a source does not have it"
    );
    // Images and other tensors are never null in the source that has them.
    match fill(field.data_type()).filter(|_| !is_tensor(field)) {
        Some(_) => format!("{columns}; give nulls of a source a value with fill_null= of its loader"),
        None => columns,
    }
}

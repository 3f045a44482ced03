//! Columns of a file in the order and the types of the projection.

use super::RowGroupReader;
use crate::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, make_array};
use crate::arrow::compute::take;
use crate::arrow::datatypes::DataType;
use crate::arrow::widen::widen;
use crate::catalog::Origin;
use crate::error::{Error, ErrorKind, OrFail, Result};

impl RowGroupReader<'_> {
    /// Brings the file's columns into the projection's order and types, with its constants among them.
    pub(super) fn arrange(&self, arrays: &[ArrayRef], roots: &[usize], rows: usize) -> Result<RecordBatch> {
        let schema = self.projection.schema();
        let columns = self.projection.selected().iter().zip(schema.fields()).map(|(selected, field)| {
            let root = match self.footer.columns.origin(selected.column) {
                Origin::Stored(root) => root,
                Origin::Constant(constant) => {
                    let value = repeated(&self.file.constants[constant].value, rows)?;
                    return renamed(&selected.of(&value, field.data_type())?, field.data_type());
                }
            };
            let at = roots.binary_search(&root).map_err(|_| {
                Error::new(ErrorKind::Internal, format!("column {:?} was not decoded", field.name()))
            })?;
            renamed(&selected.of(&arrays[at], field.data_type())?, field.data_type())
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<_>>()?, &options).or_fail()
    }
}

/// The same array under a type that differs in nothing but the names and nullability of nested fields, or its numbers in a
/// wider type.
fn renamed(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    if let Some(wide) = widen(array, to) {
        return Ok(wide);
    }
    let children = array.to_data().child_data().to_vec();
    let fields: Vec<&DataType> = match to {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => Vec::new(),
    };
    let children = children
        .into_iter()
        .zip(fields)
        .map(|(child, to)| Ok(renamed(&make_array(child), to)?.to_data()))
        .collect::<Result<_>>()?;
    Ok(make_array(
        array.to_data().into_builder().data_type(to.clone()).child_data(children).build().or_fail()?,
    ))
}

/// A column with the value in each of `rows` rows.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    take(value, &UInt32Array::from(vec![0; rows]), None).or_fail()
}

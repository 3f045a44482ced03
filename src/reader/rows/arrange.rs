//! Brings the decoded columns of a file into the order and the types of the projection.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use forebay_arrow::compute::take;
use forebay_arrow::convert::{Misfit, Trouble, converted};
use forebay_arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::Origin;

use super::RowGroupReader;

impl RowGroupReader<'_> {
    /// Brings the decoded columns into the projection's order and types, and inserts columns that are
    /// constant in the file. Columns that were read as integer codes stay codes.
    pub(super) fn arrange(&self, arrays: &[ArrayRef], roots: &[usize], rows: usize) -> Result<RecordBatch> {
        let schema = self.projection.schema();
        let mut fields = Vec::new();
        let each = self.projection.selected().iter().zip(schema.fields()).enumerate();
        let columns = each.map(|(column, (selected, field))| {
            let root = match self.footer.columns.origin(selected.column) {
                Origin::Stored(root) => root,
                Origin::Constant(constant) => {
                    let value = repeated(&self.file.constants[constant].value, rows)?;
                    return self.in_common(&selected.values(&value, field.data_type())?, field);
                }
                Origin::Absent => return Ok(new_null_array(field.data_type(), rows)),
            };
            let at = roots.binary_search(&root).map_err(|_| not_there(field))?;
            if self.is_coded(column, root, &arrays[at]) {
                let coded = field.as_ref().clone().with_data_type(arrays[at].data_type().clone());
                fields.push((column, Arc::new(coded)));
                return Ok(arrays[at].clone());
            }
            self.in_common(&selected.values(&arrays[at], field.data_type())?, field)
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(with_fields(schema, fields), columns, &options).or_fail()
    }

    /// Whether a column was read as integer codes, so that the type of its array differs from that in the
    /// file.
    fn is_coded(&self, column: usize, root: usize, array: &ArrayRef) -> bool {
        let codes = self.coded.and_then(|coded| coded.of_column(column));
        let stored = self.footer.columns.schema.field(root).data_type();
        codes.is_some_and(|codes| array.data_type() == codes.data_type() && array.data_type() != stored)
    }

    /// Converts a column from the type that it has in this file to its type in the data set.
    fn in_common(&self, array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        let Misfit { row, cause, is_length } = match converted(array, field.data_type()) {
            Ok(array) => return Ok(array),
            Err(Trouble::Types(error)) => return Err(error).or_fail(),
            Err(Trouble::Value(misfit)) => misfit,
        };
        let place = Place::default().column(field.name().as_str());
        let place = match self.row_of(row) {
            Some(row) => place.row(row),
            None => place,
        };
        Err(Error::new(ErrorKind::Unsupported, cause).at(place).hint(match is_length {
            true => "open the files with `merge_schema`, which takes lists of any length, or open those that agree",
            false => "open the files that agree, or choose other columns with `columns`",
        }))
    }

    /// The row of this row group that was decoded as row `decoded`; `None` if that row belongs to another row
    /// group, which was decoded together with this one.
    fn row_of(&self, decoded: usize) -> Option<u64> {
        let Some(selection) = &self.selection else {
            return u64::try_from(decoded).ok().filter(|row| *row < self.stored.rows);
        };
        let (mut row, mut left) = (0, decoded);
        for run in selection.iter() {
            match run.skip {
                false if left < run.row_count => return Some((row + left) as u64),
                false => left -= run.row_count,
                true => {}
            }
            row += run.row_count;
        }
        None
    }
}

/// Replaces fields of a schema by those in `others`, each at the given index.
fn with_fields(schema: &SchemaRef, others: Vec<(usize, FieldRef)>) -> SchemaRef {
    if others.is_empty() {
        return schema.clone();
    }
    let mut fields = schema.fields().to_vec();
    others.into_iter().for_each(|(place, field)| fields[place] = field);
    Arc::new(Schema::new(fields))
}

fn not_there(field: &Field) -> Error {
    Error::new(ErrorKind::Internal, format!("column {:?} was not decoded", field.name()))
}

/// A column that repeats `value` in each of `rows` rows.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    take(value, &UInt32Array::from(vec![0; rows]), None).or_fail()
}

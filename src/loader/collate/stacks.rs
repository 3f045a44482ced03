//! Stacked columns: a matrix whose rows contain the values of several stored columns side by side.

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result};

use super::{Collation, View};
use crate::batch::Selection;
use crate::column::{GatheredRows, STACKED_TOGETHER, StackColumns, StackedColumn, tensor};

/// The advice for a null in a column of a stack.
const NULL_HINT: &str = "give a value with `fill_null`, or a mask with `null_mask`";

impl Collation {
    /// The matrix of a stack, in a buffer of the loader's pool, and the bad rows by their indices among all
    /// picked rows.
    pub(super) fn stack(
        &self,
        column: usize,
        view: &View,
        stack: &dyn StackColumns,
    ) -> Result<(ArrayRef, Vec<(usize, Error)>)> {
        let (collator, rows) = (&self.request.collator, view.picks.len());
        let mut matrix = collator.buffers.take(stack.row_bytes() * rows);
        let mut bad = Vec::new();
        for (turn, members) in stack.members().chunks(STACKED_TOGETHER).enumerate() {
            let mut columns = Vec::with_capacity(members.len());
            for member in members {
                let (values, mut refused) = self.member(member, view)?;
                refused.extend(nulls(values.as_ref()));
                bad.extend(self.request.refused((member.place, view), refused));
                columns.push(values);
            }
            stack.write(turn * STACKED_TOGETHER, &columns, matrix.rows())?;
        }
        let matrix = tensor(collator.row_field(column), matrix.into_buffer(), rows)?;
        Ok((matrix, view.bad_among_all(bad).collect()))
    }

    /// The values of one of the columns that a stack combines.
    fn member(&self, member: &StackedColumn, view: &View) -> Result<GatheredRows> {
        let arrays = self.rows.rows.iter().map(|rows| rows.batch.column(member.place).as_ref());
        let arrays: Vec<&dyn Array> = arrays.collect();
        if let Some(keys) = self.keys(member.place, &arrays)? {
            let of_source = || Selection::of_one(self.picked_sources(view).collect());
            return member.gather.gather(&[&keys], view.of_source.get_or_init(of_source));
        }
        let data_type = arrays.first().map_or(&DataType::Null, |array| array.data_type());
        member.gather.gather(&arrays, self.selection(view, data_type))
    }
}

/// The rows that are null.
fn nulls(values: &dyn Array) -> Vec<(usize, Error)> {
    let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) else { return Vec::new() };
    let missing = (0..values.len()).filter(|row| nulls.is_null(*row));
    let error = || Error::new(ErrorKind::BadRow, "null where a value is stacked").hint(NULL_HINT);
    missing.map(|row| (row, error())).collect()
}

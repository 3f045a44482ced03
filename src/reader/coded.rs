//! Columns of texts that are read as integer codes, without making the texts.

use std::sync::Arc;

use forebay_arrow::datatypes::DataType;
use forebay_store::catalog::{FileColumns, Origin, Projection, Reads};

use crate::column::CodeValues;

/// For each column of a projection, how its values become codes; `None` for columns that are read as values.
#[derive(Debug)]
pub(crate) struct CodedColumns(Vec<Option<Arc<dyn CodeValues>>>);

impl CodedColumns {
    /// Creates the list from one entry for each column of the projection; `None` if no column is read as
    /// codes.
    pub(crate) fn new(columns: Vec<Option<Arc<dyn CodeValues>>>) -> Option<Self> {
        columns.iter().any(Option::is_some).then_some(CodedColumns(columns))
    }

    /// How the values of a column of the projection become codes; `None` if they are read as values.
    pub(super) fn of_column(&self, column: usize) -> Option<&dyn CodeValues> {
        self.0.get(column)?.as_deref()
    }

    /// For each of the file's columns at `roots`, which must ascend, how its values become codes. `None` for
    /// a column that is not read as codes, or that the file stores in another type than the projection has.
    pub(super) fn of_roots(
        &self,
        projection: &Projection,
        file: &FileColumns,
        roots: &[usize],
    ) -> Vec<Option<&dyn CodeValues>> {
        let mut of_roots = vec![None; roots.len()];
        for (column, (selected, field)) in
            projection.selected().iter().zip(projection.schema().fields()).enumerate()
        {
            let (Some(codes), Origin::Stored(root)) = (self.of_column(column), file.origin(selected.column))
            else {
                continue;
            };
            let stored = file.schema.field(root).data_type();
            let are_texts = matches!(stored, DataType::Utf8View | DataType::BinaryView);
            if let (Reads::Whole, true, Ok(at)) =
                (&selected.of, are_texts && stored == field.data_type(), roots.binary_search(&root))
            {
                of_roots[at] = Some(codes);
            }
        }
        of_roots
    }
}

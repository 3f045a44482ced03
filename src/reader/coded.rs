//! Columns of texts that are read as codes.

use std::sync::Arc;

use forebay_arrow::datatypes::DataType;
use forebay_store::catalog::{FileColumns, Origin, Projection, Reads};

use crate::column::CodeValues;

/// The codes of the columns of a projection that are read as codes.
#[derive(Debug)]
pub(crate) struct CodedColumns(Vec<Option<Arc<dyn CodeValues>>>);

impl CodedColumns {
    /// The codes of each column of the projection; `None` if no column has codes.
    pub(crate) fn new(columns: Vec<Option<Arc<dyn CodeValues>>>) -> Option<Self> {
        columns.iter().any(Option::is_some).then_some(CodedColumns(columns))
    }

    /// The codes of a column of the projection.
    pub(super) fn of_column(&self, column: usize) -> Option<&dyn CodeValues> {
        self.0.get(column)?.as_deref()
    }

    /// The codes of each of the file's columns at `roots`, which must ascend; `None` if the column is not
    /// read as codes, or if the file stores it in another type than the projection has.
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

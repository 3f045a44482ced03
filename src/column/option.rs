//! The interface of a column's options.

use forebay_arrow::datatypes::Field;
use forebay_base::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Column, NullOptions};
use crate::batch::Fill;

/// An option of a column: the value of one field of [`ColumnSpec`](super::ColumnSpec).
pub(crate) trait ColumnOption {
    /// The keyword that gives the option in Python, by default the name of its `field`.
    fn keyword(field: &'static str) -> &'static str
    where
        Self: Sized,
    {
        field
    }

    /// Whether the option decides how the column is delivered. A column has at most one such option.
    fn delivers() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Whether the option reads the column as a whole, as images read a `struct<bytes, path>`.
    fn takes_whole() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Whether a spec is written with the option even if no column has it.
    fn is_always_written() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// The column as it is delivered; `None` if the loader makes it, because that needs more than the column
    /// itself.
    ///
    /// # Errors
    /// The column does not hold the content that the option expects, or its nulls cannot be handled as
    /// `nulls` says.
    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        let _ = (stored, nulls);
        Ok(None)
    }

    /// Whether a value can stand for nulls of the delivered column.
    fn takes_fill(&self, stored: &Field, fill: &Fill) -> bool {
        self.column(stored, NullOptions { fill: Some(fill), is_masked: false }).is_ok()
    }
}

/// An option of a known type, which can be copied, compared and serialized.
pub(crate) trait TypedOption:
    ColumnOption + Clone + PartialEq + Serialize + DeserializeOwned + 'static
{
}

impl<V> TypedOption for V where V: ColumnOption + Clone + PartialEq + Serialize + DeserializeOwned + 'static {}

/// A fill does not deliver a column: it changes how the option that does handles nulls.
impl ColumnOption for Fill {
    fn delivers() -> bool {
        false
    }

    fn is_always_written() -> bool {
        true
    }
}

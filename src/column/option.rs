//! The interface that all options of a column implement.

use forebay_arrow::datatypes::Field;
use forebay_base::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Column, NullOptions};
use crate::batch::Fill;

/// An option of a column: the value of one field of [`ColumnSpec`](super::ColumnSpec).
pub(crate) trait ColumnOption {
    /// The Python keyword that sets the option, which is by default the name of its `field`.
    fn keyword(field: &'static str) -> &'static str
    where
        Self: Sized,
    {
        field
    }

    /// Whether the option determines the codec of the column. A column has at most one such option.
    fn delivers() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Whether the option reads a structure as one column, as images read a `struct<bytes, path>`.
    fn takes_whole() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Whether a serialized spec contains the option even if no column uses it.
    fn is_always_written() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Creates the delivered column. `None` if only the loader can create it, because it depends on other
    /// columns.
    ///
    /// # Errors
    /// Fails if the stored column does not have the content that the option expects, or if its nulls cannot
    /// be handled as `nulls` says.
    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        let _ = (stored, nulls);
        Ok(None)
    }

    /// Whether `fill` can replace nulls of the delivered column.
    fn takes_fill(&self, stored: &Field, fill: &Fill) -> bool {
        self.column(stored, NullOptions { fill: Some(fill), is_masked: false }).is_ok()
    }
}

/// A [`ColumnOption`] that can also be copied, compared and serialized.
pub(crate) trait TypedOption:
    ColumnOption + Clone + PartialEq + Serialize + DeserializeOwned + 'static
{
}

impl<V> TypedOption for V where V: ColumnOption + Clone + PartialEq + Serialize + DeserializeOwned + 'static {}

/// A fill does not determine the codec of a column: it changes how the codec handles nulls.
impl ColumnOption for Fill {
    fn delivers() -> bool {
        false
    }

    fn is_always_written() -> bool {
        true
    }
}

//! What each option of a column answers.

use forebay_arrow::datatypes::Field;
use forebay_base::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Column, NullOptions};
use crate::batch::Fill;

/// What the value of one field of [`ColumnSpec`](super::ColumnSpec) says of its column.
pub(crate) trait ColumnOption {
    /// The keyword of Python that it is given with, where that is not the name of its `field`.
    fn keyword(field: &'static str) -> &'static str
    where
        Self: Sized,
    {
        field
    }

    /// Whether it says how the column is delivered. A column has one such option.
    fn delivers() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Whether values are made of the column as a whole, as images are of `struct<bytes, path>`.
    fn takes_whole() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Whether a spec has the option even where no column does.
    fn is_always_written() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// The column as it is delivered; `None` where that takes more than the column itself.
    ///
    /// # Errors
    /// The column does not hold what the option says, or its nulls cannot be as `nulls` says.
    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        let _ = (stored, nulls);
        Ok(None)
    }

    /// Whether a value can stand for nulls of the column, as it is delivered.
    fn takes_fill(&self, stored: &Field, fill: &Fill) -> bool {
        self.column(stored, NullOptions { fill: Some(fill), is_masked: false }).is_ok()
    }
}

/// An option of a known type: one that is copied, compared, written and read.
pub(crate) trait TypedOption:
    ColumnOption + Clone + PartialEq + Serialize + DeserializeOwned + 'static
{
}

impl<V> TypedOption for V where V: ColumnOption + Clone + PartialEq + Serialize + DeserializeOwned + 'static {}

/// It changes what the other options say of nulls.
impl ColumnOption for Fill {
    fn delivers() -> bool {
        false
    }

    fn is_always_written() -> bool {
        true
    }
}

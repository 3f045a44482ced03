//! A form in which the row cache may keep the cells of a column instead of as they are stored.

use std::borrow::Cow;
use std::fmt;

use forebay_base::Result;
use forebay_image::Workspace;

use crate::cache::Tier;

/// A form in which the row cache can keep the cells of one column.
pub(crate) trait KeptForm: fmt::Debug + Send + Sync {
    /// The tier by which users select the form.
    fn tier(&self) -> Tier;

    /// A line that says how cells are kept, as a part of the cache's key; it is equal for codecs that can
    /// share cells.
    fn key(&self) -> String;

    /// The cost of a cell in this form, estimated from its header alone.
    ///
    /// # Errors
    /// The cell cannot be decoded.
    fn cost(&self, cell: &[u8]) -> Result<Cost>;

    /// Converts a cell to this form, which the codec of the column can decode as well.
    ///
    /// # Errors
    /// The cell cannot be decoded.
    fn make<'a>(&self, cell: &'a [u8], workspace: &Workspace) -> Result<Cow<'a, [u8]>>;
}

/// The cost of a cell in a form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// The number of bytes of the cell in the form, as an approximate upper limit.
    pub(crate) bytes: f64,
    /// The share of the work of decoding a stored cell that is left for a cell in the form.
    pub(crate) decoding: f64,
}

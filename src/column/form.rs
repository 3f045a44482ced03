//! The interface of the forms in which the row cache can keep cells instead of the stored bytes, such as
//! resized images.

use std::borrow::Cow;
use std::fmt;

use forebay_base::Result;
use forebay_image::Workspace;

use crate::cache::Tier;

/// A form in which the row cache can keep the cells of a column, such as decoded pixels.
pub(crate) trait KeptForm: fmt::Debug + Send + Sync {
    /// The cache tier with which users select this form.
    fn tier(&self) -> Tier;

    /// A text that describes how cells are kept, and that becomes a part of the cache's key. Codecs that can
    /// share cells return the same text.
    fn key(&self) -> String;

    /// Estimates the cost of a cell in this form from the cell's header.
    ///
    /// # Errors
    /// Fails if the cell cannot be decoded.
    fn cost(&self, cell: &[u8]) -> Result<Cost>;

    /// Converts a cell to this form. The codec of the column decodes it like a stored cell.
    ///
    /// # Errors
    /// Fails if the cell cannot be decoded.
    fn make<'a>(&self, cell: &'a [u8], workspace: &Workspace) -> Result<Cow<'a, [u8]>>;
}

/// The cost of keeping and decoding a cell in a form.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// An approximate upper limit of the cell's bytes in this form.
    pub(crate) bytes: f64,
    /// The work of decoding the cell in this form, as a fraction of the work of decoding the stored cell.
    pub(crate) decoding: f64,
}

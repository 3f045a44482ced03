//! Arrays in cells whose shape differs from row to row, and arrays of text. They become lists before the
//! other options of the column apply.
//!
//! ```text
//! cells ─ read ─► shapes and values ─ lists ─► lists, or fixed lists, or scalars ─► every other codec
//! ```
//!
//! Row groups in memory and in the row cache keep the stored cells. Arrays are read only after the cells of a
//! batch were gathered.

mod layout;
mod lists;
mod read;

use std::sync::Arc;

use forebay_arrow::array::{Array, AsArray};
use forebay_arrow::datatypes::{Field, FieldRef};
use forebay_base::{Error, ErrorKind, Result};

use super::codec::after_making;
use super::{Codec, Gather, GatheredRows, RowSize};
use crate::batch::{Selection, delivered, gather};
pub(crate) use layout::{Arrays, CellFormat, Item};
use lists::ArrayLists;

/// Turns the arrays of a column into lists, which the codec `inner` then delivers.
#[derive(Debug)]
pub(crate) struct ArraysCodec {
    arrays: Arrays,
    /// The codec that delivers the lists.
    inner: Arc<dyn Gather>,
}

impl ArraysCodec {
    /// Creates the codec for `arrays`. The codec `inner` delivers their lists. It must be a `Codec::Gather`
    /// that was made for the [field](Arrays::field) of the lists.
    ///
    /// Fails with `Invalid` for any other codec, such as the codec of boxes that are cropped together with an
    /// image.
    pub(crate) fn new(arrays: Arrays, inner: Codec) -> Result<Self> {
        match inner {
            Codec::Gather(inner) => Ok(ArraysCodec { arrays, inner }),
            _ => Err(Error::invalid("holds arrays in cells, which do not follow images")
                .hint("write them as lists of numbers")),
        }
    }

    /// Creates the codec of the mask that marks padding. The codec `inner` computes the mask from the lists.
    pub(crate) fn of_mask(arrays: Arrays, inner: Arc<dyn Gather>) -> Self {
        ArraysCodec { arrays, inner }
    }
}

impl Gather for ArraysCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let listed = self.arrays.field(stored)?;
        let field = self.inner.delivered(&listed)?;
        match field.data_type() == delivered(&listed).data_type() {
            true => Ok(Arc::new(field.as_ref().clone().with_metadata(self.arrays.metadata()))),
            false => Ok(field),
        }
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let cells = gather(sources, selection, None)?;
        let mut lists = ArrayLists::new(&self.arrays, cells.len())?;
        let mut bad = Vec::new();
        for row in 0..cells.len() {
            let cell = match cells.as_binary_opt::<i64>() {
                Some(cells) => cells.is_valid(row).then(|| cells.value(row)),
                None => {
                    let cells = cells.as_fixed_size_binary_opt().ok_or_else(no_cells)?;
                    cells.is_valid(row).then(|| cells.value(row))
                }
            };
            match cell.map(|cell| self.arrays.read(cell).and_then(|array| lists.add(array))) {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    lists.add_none(true)?;
                    bad.push((row, error));
                }
                None => lists.add_none(false)?,
            }
        }
        after_making(lists.finish()?, bad, self.inner.as_ref(), matches!(self.arrays.item, Item::Number(_)))
    }

    fn size(&self) -> RowSize {
        RowSize { is_by_cell: true, ..self.inner.size() }
    }

    fn cell_bytes(&self, cell: &[u8]) -> u64 {
        let growth = self.inner.size().growth.saturating_mul(self.arrays.growth());
        (self.arrays.bytes_in(cell) as u64).saturating_mul(growth as u64)
    }

    fn unknown_values(&self) -> u64 {
        self.inner.unknown_values()
    }
}

fn no_cells() -> Error {
    Error::new(ErrorKind::Internal, "arrays in a column of no cells")
}

#[cfg(test)]
mod tests;

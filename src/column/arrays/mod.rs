//! Arrays in cells whose sides differ from row to row, and arrays of text: made lists before all that is done
//! with them.
//!
//! ```text
//! cells ─ read ─► shapes and values ─ lists ─► lists, or fixed lists, or scalars ─► every other codec of the column
//! ```
//!
//! Cells are kept as they are stored, in the window and in a row cache, and are read once they are gathered,
//! batch by batch.

mod lists;
mod read;

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::array::{Array, AsArray};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, ErrorKind, Result};

use super::codec::after_making;
use super::exact::Pixels;
use super::ragged::{IMAGES, KIND};
use super::{Codec, Gather, GatheredRows, RowSize, TensorFormat};
use crate::batch::{Selection, delivered, gather};
use lists::Lists;

/// What the field of arrays with several open sides, or with several sides of one length behind an open one,
/// says of itself.
pub(super) const ARRAYS: &str = "arrays";
/// The name under which the field of such a column has the shape of a row, with `null` for a side that
/// differs.
const SHAPE: &str = "forebay:shape";

/// What the cells of a column hold: an array each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arrays {
    item: Item,
    /// The length of each side; `None` where it differs from row to row.
    shape: Vec<Option<usize>>,
    cells: CellFormat,
}

/// What the values of an array are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// Numbers or booleans of a type.
    Number(DataType),
    Text,
    Bytes,
}

/// How a cell holds an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CellFormat {
    /// A file of numpy.
    Numpy(TensorFormat),
    /// An encoded image.
    Image(Pixels),
}

impl Arrays {
    pub(crate) fn new(item: Item, shape: Vec<Option<usize>>, cells: CellFormat) -> Self {
        // A side of length 0 is none of a list of one length.
        let shape = shape.into_iter().map(|side| side.filter(|length| *length > 0)).collect();
        Arrays { item, shape, cells }
    }

    /// How many sides, from the first, are lists. Those behind them, all of one length, are together a list
    /// of one length.
    fn open(&self) -> usize {
        match self.item {
            Item::Number(_) => self.shape.iter().rposition(Option::is_none).map_or(0, |last| last + 1),
            Item::Text | Item::Bytes => self.shape.len(),
        }
    }

    /// The sides of one length behind those that are lists.
    fn fixed(&self) -> Vec<usize> {
        self.shape[self.open()..].iter().copied().flatten().collect()
    }

    /// The shape of a row, where all rows have one and it has sides.
    pub(crate) fn one_shape(&self) -> Option<Vec<usize>> {
        (self.open() == 0 && !self.shape.is_empty()).then(|| self.fixed())
    }

    /// The field that other codecs see.
    ///
    /// Fails with `Invalid` for more values than a list of one length can hold.
    pub(crate) fn field(&self, stored: &Field) -> Result<Field> {
        let mut data_type = match &self.item {
            Item::Number(dtype) => dtype.clone(),
            Item::Text => DataType::Utf8View,
            Item::Bytes => DataType::BinaryView,
        };
        let fixed = self.fixed();
        if !fixed.is_empty() {
            data_type = DataType::FixedSizeList(item(data_type), self.fixed_length()?);
        }
        for _ in 0..self.open() {
            data_type = DataType::LargeList(item(data_type));
        }
        Ok(Field::new(stored.name(), data_type, stored.is_nullable()))
    }

    /// Values of the sides of one length.
    fn fixed_length(&self) -> Result<i32> {
        let values = self.fixed().iter().try_fold(1usize, |values, side| values.checked_mul(*side));
        values.and_then(|values| i32::try_from(values).ok()).ok_or_else(|| {
            let shape = self.shape_text();
            Error::invalid(format!("an array of shape [{shape}] has more than 2^31 values"))
        })
    }

    /// The shape as errors have it: "?, 4".
    fn shape_text(&self) -> String {
        let side = |side: &Option<usize>| side.map_or_else(|| "?".to_owned(), |side| side.to_string());
        self.shape.iter().map(side).collect::<Vec<_>>().join(", ")
    }

    /// The metadata of the field of a column that is delivered as these lists are.
    fn metadata(&self) -> HashMap<String, String> {
        let kind = match (&self.cells, self.open(), self.fixed().len()) {
            (CellFormat::Image(_), 2, 1) => IMAGES,
            // One list for each row says all.
            (_, 0, _) | (_, 1, 0 | 1) => return HashMap::new(),
            _ => ARRAYS,
        };
        let side = |side: &Option<usize>| side.map_or_else(|| "null".to_owned(), |side| side.to_string());
        let shape = self.shape.iter().map(side).collect::<Vec<_>>().join(",");
        HashMap::from([(KIND.to_owned(), kind.to_owned()), (SHAPE.to_owned(), format!("[{shape}]"))])
    }

    /// How many times the bytes of its values an array takes as lists, at most: offsets are beside them.
    fn growth(&self) -> usize {
        match self.item {
            Item::Text | Item::Bytes => 3,
            Item::Number(_) if self.open() > 1 => 2,
            Item::Number(_) => 1,
        }
    }
}

fn item(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, false))
}

/// Delivers a column whose arrays are made lists first.
#[derive(Debug)]
pub(crate) struct ArraysCodec {
    arrays: Arrays,
    /// What becomes of the lists.
    inner: Arc<dyn Gather>,
}

impl ArraysCodec {
    /// `inner` gathers, and was made for the [field](Arrays::field) of lists.
    ///
    /// Fails with `Invalid` for a column that goes along with images.
    pub(crate) fn new(arrays: Arrays, inner: Codec) -> Result<Self> {
        match inner {
            Codec::Gather(inner) => Ok(ArraysCodec { arrays, inner }),
            _ => Err(Error::invalid("holds arrays in cells, which do not follow images")
                .hint("write them as lists of numbers")),
        }
    }

    /// The mask of padded lists, which is made of their column.
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
        let mut lists = Lists::new(&self.arrays, cells.len())?;
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

//! What the cells of a column of arrays hold, and the lists that are made of them.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, Result};

use crate::column::TensorFormat;
use crate::column::exact::Pixels;
use crate::column::ragged::{IMAGES, KIND};

/// What the field of arrays with several open sides, or with several sides of one length behind an open one,
/// says of itself.
pub(super) const ARRAYS: &str = "arrays";
/// The name under which the field of such a column has the shape of a row, with `null` for a side that
/// differs.
pub(super) const SHAPE: &str = "forebay:shape";

/// What the cells of a column hold: an array each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arrays {
    pub(super) item: Item,
    /// The length of each side; `None` where it differs from row to row.
    pub(super) shape: Vec<Option<usize>>,
    pub(super) cells: CellFormat,
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
    pub(super) fn open(&self) -> usize {
        match self.item {
            Item::Number(_) => self.shape.iter().rposition(Option::is_none).map_or(0, |last| last + 1),
            Item::Text | Item::Bytes => self.shape.len(),
        }
    }

    /// The sides of one length behind those that are lists.
    pub(super) fn fixed(&self) -> Vec<usize> {
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
    pub(super) fn fixed_length(&self) -> Result<i32> {
        let values = self.fixed().iter().try_fold(1usize, |values, side| values.checked_mul(*side));
        values.and_then(|values| i32::try_from(values).ok()).ok_or_else(|| {
            let shape = self.shape_text();
            Error::invalid(format!("an array of shape [{shape}] has more than 2^31 values"))
        })
    }

    /// The shape as errors have it: "?, 4".
    pub(super) fn shape_text(&self) -> String {
        let side = |side: &Option<usize>| side.map_or_else(|| "?".to_owned(), |side| side.to_string());
        self.shape.iter().map(side).collect::<Vec<_>>().join(", ")
    }

    /// The metadata of the field of a column that is delivered as these lists are.
    pub(super) fn metadata(&self) -> HashMap<String, String> {
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
    pub(super) fn growth(&self) -> usize {
        match self.item {
            Item::Text | Item::Bytes => 3,
            Item::Number(_) if self.open() > 1 => 2,
            Item::Number(_) => 1,
        }
    }
}

/// The field of the items of a list.
pub(super) fn item(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, false))
}

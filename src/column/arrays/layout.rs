//! The types and shapes of the arrays that a column has in its cells, and the types of the lists that they
//! become.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, Result};

use crate::column::TensorFormat;
use crate::column::exact::Pixels;
use crate::column::ragged::{IMAGES, KIND};

/// The value of [`KIND`] in a field's metadata for arrays with several dimensions of varying length, or with
/// one dimension of varying length before several fixed ones.
pub(super) const ARRAYS: &str = "arrays";
/// The key in a field's metadata for the shape of its arrays. A `null` in the shape is a dimension whose
/// length varies.
pub(super) const SHAPE: &str = "forebay:shape";

/// The type, shape and format of the arrays in a column, whose cells hold one array each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arrays {
    pub(super) item: Item,
    /// The length of each dimension; `None` if it differs from row to row.
    pub(super) shape: Vec<Option<usize>>,
    pub(super) cells: CellFormat,
}

/// The type of the values in an array.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// Numbers of this type, or booleans.
    Number(DataType),
    Text,
    Bytes,
}

/// The format in which a cell holds an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CellFormat {
    /// The bytes of a `.npy` or `.npz` file.
    Numpy(TensorFormat),
    /// An encoded image.
    Image(Pixels),
}

impl Arrays {
    pub(crate) fn new(item: Item, shape: Vec<Option<usize>>, cells: CellFormat) -> Self {
        // A list of a fixed length must not be empty, so a dimension of length 0 counts as one whose length
        // varies.
        let shape = shape.into_iter().map(|side| side.filter(|length| *length > 0)).collect();
        Arrays { item, shape, cells }
    }

    /// The number of leading dimensions that become lists of any length. The dimensions after them have fixed
    /// lengths, and together become one list of a fixed length.
    pub(super) fn open(&self) -> usize {
        match self.item {
            Item::Number(_) => self.shape.iter().rposition(Option::is_none).map_or(0, |last| last + 1),
            Item::Text | Item::Bytes => self.shape.len(),
        }
    }

    /// The lengths of the last dimensions, which become one list of a fixed length.
    pub(super) fn fixed(&self) -> Vec<usize> {
        self.shape[self.open()..].iter().copied().flatten().collect()
    }

    /// The shape of every row; `None` if it differs from row to row, or if rows are scalars, text or bytes.
    pub(crate) fn one_shape(&self) -> Option<Vec<usize>> {
        (self.open() == 0 && !self.shape.is_empty()).then(|| self.fixed())
    }

    /// The field of the column after its arrays became lists. The other codecs of the column see this field.
    ///
    /// Fails with `Invalid` if a list of a fixed length cannot hold the values.
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

    /// The number of values in the list of a fixed length that the last dimensions become.
    pub(super) fn fixed_length(&self) -> Result<i32> {
        let values = self.fixed().iter().try_fold(1usize, |values, side| values.checked_mul(*side));
        values.and_then(|values| i32::try_from(values).ok()).ok_or_else(|| {
            let shape = self.shape_text();
            Error::invalid(format!("an array of shape [{shape}] has more than 2^31 values"))
        })
    }

    /// The shape as error messages show it, such as "?, 4".
    pub(super) fn shape_text(&self) -> String {
        let side = |side: &Option<usize>| side.map_or_else(|| "?".to_owned(), |side| side.to_string());
        self.shape.iter().map(side).collect::<Vec<_>>().join(", ")
    }

    /// The metadata of the delivered field. It tells the readers of a batch which shape the arrays had before
    /// they became lists.
    pub(super) fn metadata(&self) -> HashMap<String, String> {
        let kind = match (&self.cells, self.open(), self.fixed().len()) {
            (CellFormat::Image(_), 2, 1) => IMAGES,
            // The data type alone describes rows that are single lists or that have one shape.
            (_, 0, _) | (_, 1, 0 | 1) => return HashMap::new(),
            _ => ARRAYS,
        };
        let side = |side: &Option<usize>| side.map_or_else(|| "null".to_owned(), |side| side.to_string());
        let shape = self.shape.iter().map(side).collect::<Vec<_>>().join(",");
        HashMap::from([(KIND.to_owned(), kind.to_owned()), (SHAPE.to_owned(), format!("[{shape}]"))])
    }

    /// The factor by which the lists of an array may take more bytes than its values, because lists also have
    /// offsets.
    pub(super) fn growth(&self) -> usize {
        match self.item {
            Item::Text | Item::Bytes => 3,
            Item::Number(_) if self.open() > 1 => 2,
            Item::Number(_) => 1,
        }
    }
}

/// The field of a list's items.
pub(super) fn item(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, false))
}

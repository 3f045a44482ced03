//! Casts the values of a column after its codec has made them.

use std::sync::Arc;

use forebay_arrow::array::{Array, ArrayRef};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, Result};

use super::{cast, cast_field, leaves, refusal, row_width};
use crate::batch::Selection;
use crate::column::{Codec, Column, Gather, GatheredRows, Held, RowSize};

/// Casts the values that the codec `inner` delivers to the type `to`.
#[derive(Debug)]
struct CastAfter {
    inner: Arc<dyn Gather>,
    to: DataType,
}

/// Adds a cast to `to` as the last step of a column. A column is returned unchanged if it has this type
/// already, or if its codec is neither `Codec::Gather` nor `Codec::GatherOf`.
///
/// # Errors
/// `Invalid` for a column that cannot be cast.
pub(crate) fn cast_after(column: Column, to: &DataType) -> Result<Column> {
    let Column { codec, field } = column;
    if field.data_type() == to {
        return Ok(Column { codec, field });
    }
    let of = |inner: Arc<dyn Gather>| -> Arc<dyn Gather> { Arc::new(CastAfter { inner, to: to.clone() }) };
    let codec = match codec {
        Codec::Gather(inner) => Codec::Gather(of(inner)),
        Codec::GatherOf(place, inner) => Codec::GatherOf(place, of(inner)),
        other => return Ok(Column { codec: other, field }),
    };
    Ok(Column { codec, field: Arc::new(cast_field(&field, to)?) })
}

impl Gather for CastAfter {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        Ok(Arc::new(cast_field(self.inner.delivered(stored)?.as_ref(), &self.to)?))
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let (made, mut refused) = self.inner.gather(sources, selection)?;
        let (values, unfit) = cast(&made, &self.to)?;
        // A row that `inner` refused has an arbitrary value, so an error of its cast means nothing.
        let is_known = |row: usize| refused.binary_search_by_key(&row, |(row, _)| *row).is_ok();
        let of_cast: Vec<(usize, Error)> = unfit
            .iter()
            .filter(|unfit| !is_known(unfit.row))
            .map(|unfit| (unfit.row, refusal(leaves(&made), unfit.leaf, &self.to)))
            .collect();
        refused.extend(of_cast);
        refused.sort_by_key(|(row, _)| *row);
        Ok((values, refused))
    }

    fn size(&self) -> RowSize {
        let inner = self.inner.size();
        RowSize { bytes: row_width(&self.to).or(inner.bytes), ..inner }
    }

    fn takes_mask(&self) -> bool {
        self.inner.takes_mask()
    }

    fn prepare(&self, column: ArrayRef) -> Result<ArrayRef> {
        self.inner.prepare(column)
    }

    fn held(&self) -> Option<&dyn Held> {
        self.inner.held()
    }

    fn unknown_values(&self) -> u64 {
        self.inner.unknown_values()
    }
}

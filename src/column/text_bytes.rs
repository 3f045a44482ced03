//! Delivers a column of text as binary, if the schema of Petastorm declares it as bytes. Spark stores such a
//! field as text.

use std::sync::Arc;

use forebay_arrow::array::{Array, AsArray, LargeBinaryArray};
use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::Result;

use super::{Column, Gather, GatheredRows, NullOptions};
use crate::batch::{Fill, Selection, gather};

/// Delivers the bytes of stored text. The fill, which must be bytes, replaces nulls.
#[derive(Debug)]
pub(crate) struct TextBytesCodec {
    fill: Option<Fill>,
}

impl TextBytesCodec {
    /// Makes the column that delivers the text's bytes.
    ///
    /// Fails with `Invalid` for a fill that is not bytes.
    pub(crate) fn column(stored: &Field, nulls: NullOptions<'_>) -> Result<Column> {
        if let Some(value) = nulls.fill {
            value.check(&DataType::BinaryView)?;
        }
        Column::gathered(TextBytesCodec { fill: nulls.fill.cloned() }, stored)
    }
}

impl Gather for TextBytesCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let is_nullable = self.fill.is_none() && stored.is_nullable();
        Ok(Arc::new(Field::new(stored.name(), DataType::LargeBinary, is_nullable)))
    }

    fn gather(&self, sources: &[&dyn Array], selection: &Selection) -> Result<GatheredRows> {
        let (offsets, bytes, nulls) =
            gather(sources, selection, None)?.as_string::<i64>().clone().into_parts();
        let column = LargeBinaryArray::new(offsets, bytes, nulls);
        let Some(Fill::Bytes(value)) = &self.fill else { return Ok((Arc::new(column), Vec::new())) };
        let filled = column.iter().map(|cell| cell.unwrap_or(value));
        Ok((Arc::new(LargeBinaryArray::from_iter_values(filled)), Vec::new()))
    }

    fn takes_mask(&self) -> bool {
        true
    }

    fn may_refuse(&self) -> bool {
        false
    }
}

//! Columns of categories, delivered as integer codes.

mod choice;
mod codec;
mod counts;
mod held;
mod items;
mod vocabulary;

use std::sync::Arc;

pub use choice::{Encoding, Hash};
pub use counts::CategoryCounts;
pub(crate) use held::CodeValues;
pub use vocabulary::{Categories, Vocabulary};

use forebay_arrow::datatypes::{DataType, Field};
use forebay_base::Result;

use super::{Codec, Column, ColumnOption, Gather, NullOptions};
use crate::batch::Fill;
use codec::EncodeCodec;

impl Encoding {
    /// Creates the codec for a stored column; `fill` replaces nulls.
    ///
    /// # Errors
    /// Fails if the column's values cannot be encoded, if the fill is not such a value, or if the encoding is
    /// invalid in itself.
    pub(crate) fn codec(&self, stored: &Field, fill: Option<&Fill>) -> Result<Arc<dyn Gather>> {
        let values = match stored.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                item.data_type()
            }
            other => other,
        };
        // Nulls alone have any type: the vocabulary decides whether it has the fill.
        if let Some(fill) = fill.filter(|_| *values != DataType::Null) {
            fill.check(values)?;
        }
        Ok(Arc::new(EncodeCodec::new(self, stored.data_type(), fill)?))
    }
}

impl ColumnOption for Encoding {
    fn takes_whole() -> bool {
        true
    }

    fn column(&self, stored: &Field, nulls: NullOptions<'_>) -> Result<Option<Column>> {
        Column::with_codec(Codec::Gather(self.codec(stored, nulls.fill)?), stored).map(Some)
    }
}

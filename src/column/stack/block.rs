//! Columns of a stack that row groups hold as lists of their values, one list for each row.

use std::sync::Arc;

use forebay_arrow::array::{
    Array, ArrayData, ArrayRef, BooleanBufferBuilder, FixedSizeListArray, NullArray, make_array,
    new_null_array,
};
use forebay_arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use forebay_arrow::datatypes::DataType;
use forebay_arrow::fail::OrFail;
use forebay_base::Result;

use super::write::{STACKED_TOGETHER, stacked_bytes, write_blocks};
use crate::batch::narrow_bits;
use crate::column::StackBlock;

/// The most bytes that a row of a block may have. Longer rows are hardly copied any faster, and they make the
/// block larger. A large block gets fresh memory from the system each time, whereas a small one gets memory
/// that other columns have just freed.
const BLOCK_BYTES: usize = 256;

/// The most bytes that the columns written together may have in a row group, so that they fit in a
/// second-level cache.
const MAX_TOGETHER_BYTES: u64 = 1 << 20;

impl StackBlock {
    /// Whether columns of this type can be in a block: their values must have 1, 2, 4 or 8 bytes each.
    pub(crate) fn takes(stored: &DataType) -> bool {
        stored.primitive_width().is_some_and(|width| matches!(width, 1 | 2 | 4 | 8))
    }

    /// The most columns of this type in a block, if row groups have up to `rows` rows.
    pub(crate) fn most_columns(stored: &DataType, rows: u64) -> usize {
        // `counted` limits the columns so that a row group of the block has fewer than 2^31 values, because
        // the values are counted in 32 bits.
        let counted = usize::try_from(u64::from(u32::MAX) / 2 / rows.max(1)).unwrap_or(usize::MAX);
        (BLOCK_BYTES / stored.primitive_width().unwrap_or(1)).min(counted).max(1)
    }

    /// Whether row groups of up to `rows` rows are so small that the columns that are written together stay
    /// in the processor's cache. If they do not, a block is only worthwhile if it is used for several epochs.
    pub(crate) fn is_quickly_made(&self, rows: u64) -> bool {
        rows.saturating_mul((STACKED_TOGETHER * self.width()) as u64) <= MAX_TOGETHER_BYTES
    }

    /// The number of columns.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The type in which row groups hold the block, in place of its first column.
    pub(crate) fn data_type(&self) -> DataType {
        DataType::FixedSizeList(self.item.clone(), self.len() as i32)
    }

    /// The number of bits that a row of the block takes, with the validity of its values.
    pub(crate) fn row_bits(&self) -> u64 {
        self.len() as u64 * narrow_bits(self.item.data_type()).unwrap_or(0)
    }

    /// Nulls in place of the values of `rows` rows.
    pub(crate) fn no_values(&self, rows: usize) -> ArrayRef {
        new_null_array(self.item.data_type(), self.len() * rows)
    }

    /// For each array in `values`, the bytes of its values, in the same order. `None` if the block's codec
    /// changes stored values, or if an array contains a null.
    ///
    /// # Errors
    /// [`forebay_base::ErrorKind::Internal`] if an array's type is neither primitive nor boolean.
    pub(crate) fn bytes(&self, values: &[ArrayRef]) -> Result<Option<Vec<Buffer>>> {
        let are_delivered =
            self.gather.keeps_values() && values.iter().all(|values| values.null_count() == 0);
        are_delivered
            .then(|| values.iter().map(|values| stacked_bytes(values.as_ref())).collect())
            .transpose()
    }

    /// The number of bytes of a stored value.
    fn width(&self) -> usize {
        self.item.data_type().primitive_width().unwrap_or(1)
    }

    /// Puts the block in the place of its first column, and nothing in the places of the others.
    ///
    /// # Errors
    /// [`forebay_base::ErrorKind::Internal`] if the columns do not have the type of the block.
    pub(crate) fn hold(&self, columns: &mut [ArrayRef], rows: usize) -> Result<()> {
        let row = self.len() * self.width();
        let nothing: ArrayRef = Arc::new(NullArray::new(rows));
        let taken = self.places.iter().map(|place| {
            let column = std::mem::replace(&mut columns[*place], nothing.clone());
            self.gather.prepare(column)
        });
        let taken = taken.collect::<Result<Vec<_>>>()?;
        let mut matrix = MutableBuffer::from_len_zeroed(row * rows);
        write_blocks(self.width(), &taken, matrix.as_slice_mut())?;
        let nulls = self.nulls(&taken, rows);
        drop(taken);
        let values = ArrayData::builder(self.item.data_type().clone()).len(self.len() * rows).nulls(nulls);
        let values = make_array(values.add_buffer(matrix.into()).build().or_fail()?);
        let lists = FixedSizeListArray::try_new(self.item.clone(), self.len() as i32, values, None);
        columns[self.places[0]] = Arc::new(lists.or_fail()?);
        Ok(())
    }

    /// The validity of the values of all columns, row by row; `None` if all values are present.
    fn nulls(&self, columns: &[ArrayRef], rows: usize) -> Option<NullBuffer> {
        let mut valid: Option<BooleanBufferBuilder> = None;
        for (at, column) in columns.iter().enumerate() {
            let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else { continue };
            let valid = valid.get_or_insert_with(|| all_valid(self.len() * rows));
            let missing = !nulls.inner();
            missing.set_indices().for_each(|row| valid.set_bit(row * self.len() + at, false));
        }
        valid.map(|mut valid| NullBuffer::new(valid.finish()))
    }
}

/// Bits that say of each value that it is present.
fn all_valid(values: usize) -> BooleanBufferBuilder {
    let mut valid = BooleanBufferBuilder::new(values);
    valid.append_n(values, true);
    valid
}

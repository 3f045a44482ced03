//! Decodes tensors that are stored as bytes: as raw values, or as `.npy` or `.npz` files.

use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{RowKey, Workspace};

use super::spec::{ByteOrder, Tensor, TensorFormat};
use super::{npy, npz};
use crate::column::codec::copied_per_task;
use crate::column::tensor::tensor_field;
use crate::column::{Cell, DecodeCells, Noun, NullOptions, NullSlot, RowCells};

/// Decodes a stored cell into its slot, the piece of the batch's buffer that holds the row's tensor.
#[derive(Debug)]
pub(super) struct BytesCodec {
    tensor: Tensor,
    slot: usize,
    /// The value that fills the tensor of a null row; `None` if a null is a bad row.
    null: Option<NullSlot>,
}

impl BytesCodec {
    pub(super) fn new(tensor: Tensor, stored: &DataType, nulls: NullOptions<'_>) -> Result<Self> {
        let null = NullSlot::new(nulls, &tensor.dtype)?;
        // A product that overflows becomes `usize::MAX`. This is harmless, because `tensor_field` later
        // refuses a tensor of such a size.
        let slot = tensor.shape.iter().fold(tensor.width(), |bytes, side| bytes.saturating_mul(*side));
        match stored {
            DataType::FixedSizeBinary(bytes)
                if tensor.format == TensorFormat::Raw && usize::try_from(*bytes) != Ok(slot) =>
            {
                let described = tensor.described();
                Err(Error::invalid(format!("holds cells of {bytes} bytes, and {described} takes {slot}")))
            }
            _ => Ok(BytesCodec { tensor, slot, null }),
        }
    }

    fn raw(&self, cell: &[u8], slot: &mut [u8]) -> Result<()> {
        if cell.len() != slot.len() {
            let described = self.tensor.described();
            let cause = format!("{} bytes where {described} takes {}", cell.len(), slot.len());
            let error = Error::new(ErrorKind::BadRow, cause);
            return Err(match cell {
                cell if cell.starts_with(npy::MAGIC) => {
                    error.hint("it looks like a .npy file: say format=\"npy\"")
                }
                cell if cell.starts_with(npz::MAGIC) => {
                    error.hint("it looks like a .npz file: say format=\"npz\"")
                }
                _ => error,
            });
        }
        slot.copy_from_slice(cell);
        if (self.tensor.byte_order == ByteOrder::Big) != cfg!(target_endian = "big") {
            npy::swap(slot, self.tensor.width());
        }
        Ok(())
    }
}

impl DecodeCells for BytesCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        let Tensor { shape, dtype, .. } = &self.tensor;
        Ok(Arc::new(tensor_field(stored.name(), shape, dtype.clone())?))
    }

    fn slot(&self) -> usize {
        self.slot
    }

    fn decode(
        &self,
        cell: Cell<'_>,
        _: RowCells<'_>,
        _: RowKey,
        _: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        match self.tensor.format {
            // Raw bytes are read only once, so they need no copy even if another process changes them
            // meanwhile.
            TensorFormat::Raw => self.raw(cell.stable_if(|_| false), slot),
            TensorFormat::Npy => npy::read(&mut cell.stable(), &self.tensor, slot),
            TensorFormat::Npz => npz::read(cell.stable(), &self.tensor, slot),
        }
    }

    fn decode_null(&self, _: RowCells<'_>, slot: &mut [u8]) -> Result<bool> {
        self.null.iter().for_each(|null| null.write(slot));
        Ok(self.null.is_some())
    }

    /// Decoding a cell is little more than a copy, so a task gets as many cells as a task that copies.
    fn cells_per_task(&self) -> usize {
        copied_per_task(self.slot)
    }

    fn noun(&self) -> Noun {
        Noun { one: "a tensor", several: "tensors" }
    }
}

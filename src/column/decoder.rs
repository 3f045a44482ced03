//! Columns whose cells are decoded by a user's function.

use std::fmt;
use std::sync::Arc;

use forebay_arrow::datatypes::{DataType, Field, FieldRef};
use forebay_arrow::names::TypeName;
use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_image::{RowKey, Workspace};

use super::cell::holds_bytes;
use super::tensor::tensor_field;
use super::{Cell, DecodeCells, Noun, NullOptions, NullSlot, RowCells};

/// Decodes the cells of a column into tensors of one shape: audio, tokens, point clouds, formats of your own.
///
/// Pass it to a loader with [`LoaderBuilder::decode_with`](crate::LoaderBuilder::decode_with). The column is
/// delivered as images are: a `FixedSizeList` with Arrow's extension type `arrow.fixed_shape_tensor`, of
/// shape `[rows, shape...]`. Cells are decoded on the loader's threads, into the batch's own buffer; the time
/// counts for the stage `decode`.
///
/// ```
/// use std::sync::Arc;
///
/// use forebay::arrow::datatypes::DataType;
/// use forebay::{Error, ErrorKind, Result};
/// use forebay::column::Decoder;
/// use forebay::image::RowKey;
///
/// /// 16-bit samples in little-endian order, as amplitudes from -1 to 1.
/// #[derive(Debug)]
/// struct Pcm {
///     samples: usize,
/// }
///
/// impl Decoder for Pcm {
///     fn shape(&self) -> Vec<usize> {
///         vec![self.samples]
///     }
///
///     fn data_type(&self) -> DataType {
///         DataType::Float32
///     }
///
///     fn decode(&self, cell: &[u8], _: RowKey, slot: &mut [u8]) -> Result<()> {
///         if cell.len() != 2 * self.samples {
///             let cause = format!("{} bytes for {} samples", cell.len(), self.samples);
///             return Err(Error::new(ErrorKind::BadRow, cause));
///         }
///         for (sample, value) in cell.chunks_exact(2).zip(slot.chunks_exact_mut(4)) {
///             let amplitude = f32::from(i16::from_le_bytes([sample[0], sample[1]])) / 32_768.0;
///             value.copy_from_slice(&amplitude.to_ne_bytes());
///         }
///         Ok(())
///     }
/// }
///
/// # fn build(dataset: forebay::Dataset) -> Result<forebay::Loader> {
/// dataset.loader().decode_with("audio", Arc::new(Pcm { samples: 16_000 })).build()
/// # }
/// ```
pub trait Decoder: fmt::Debug + Send + Sync {
    /// The shape of a row: at least one side, each of length 1 or more, and at most 2^31 - 1 values. Called
    /// once, when the loader is built.
    fn shape(&self) -> Vec<usize>;

    /// The type of a value: an integer or a floating-point number of 8 to 64 bits. Called once, when the
    /// loader is built.
    fn data_type(&self) -> DataType;

    /// Decodes a cell into its slot.
    ///
    /// `cell` has the bytes of one binary value or text. `slot` takes the values of one row, in row-major
    /// order and native byte order, and has exactly their length; it holds bytes of an earlier batch, so all
    /// of it must be written. It need not be aligned. `key` differs from row to row, from column to column
    /// and from epoch to epoch: seed a generator with it, so that random choices do not depend on thread or
    /// rank. The rows of a window share a key, except with [`Frames::Alone`](crate::samples::Frames::Alone).
    ///
    /// Several threads call it at once. Its allocations do not count in the loader's memory budget.
    ///
    /// # Errors
    /// An error of any kind, or a panic, makes a bad row: `on_bad_row` decides whether the row ends the epoch
    /// with an error that names its file and row, or is counted and skipped. If the error names a file or a
    /// row itself, they become a part of its text.
    fn decode(&self, cell: &[u8], key: RowKey, slot: &mut [u8]) -> Result<()>;
}

/// Decodes cells with a [`Decoder`].
#[derive(Debug)]
pub(crate) struct DecoderCodec {
    decoder: Arc<dyn Decoder>,
    shape: Vec<usize>,
    data_type: DataType,
    slot: usize,
    /// The value that stands for nulls; `None` if a null is a bad row.
    null: Option<NullSlot>,
}

impl DecoderCodec {
    /// Fails if the decoder panics, or if its type cannot hold the value that fills null rows.
    pub(crate) fn new(decoder: Arc<dyn Decoder>, nulls: NullOptions<'_>) -> Result<Self> {
        let (shape, data_type) = caught(|| (decoder.shape(), decoder.data_type()))
            .map_err(|panic| Error::invalid(format!("the decoder panicked: {panic}")))?;
        let null = NullSlot::new(nulls, &data_type)?;
        let width = data_type.primitive_width().unwrap_or(0);
        // The size of a shape that is too large saturates here. Such a shape is refused when the field is
        // made.
        let slot = shape.iter().fold(width, |bytes, side| bytes.saturating_mul(*side));
        Ok(DecoderCodec { decoder, shape, data_type, slot, null })
    }
}

/// Turns an error of the user's decoder into a `BadRow` error without file and row, which the caller adds.
fn of_this_row(error: Error) -> Error {
    if error.kind() == ErrorKind::BadRow && *error.place() == Place::default() {
        return error;
    }
    Error::new(ErrorKind::BadRow, error.to_string()).caused_by(error)
}

impl DecodeCells for DecoderCodec {
    fn delivered(&self, stored: &Field) -> Result<FieldRef> {
        if !self.data_type.is_integer() && !self.data_type.is_floating() {
            return Err(Error::invalid(format!("a decoder of {} values", self.data_type))
                .hint("values are integers or floating-point numbers"));
        }
        if self.shape.is_empty() || self.shape.contains(&0) {
            return Err(Error::invalid(format!("a decoder of shape {:?}", self.shape))
                .hint("a row has one side or more, each of 1 or more"));
        }
        if !holds_bytes(stored.data_type()) && stored.data_type() != &DataType::Utf8View {
            return Err(Error::invalid(format!(
                "holds {}, not cells to decode",
                TypeName(stored.data_type())
            ))
            .hint("a decoder takes binary values, text, or struct<bytes, path>"));
        }
        Ok(Arc::new(tensor_field(stored.name(), &self.shape, self.data_type.clone())?))
    }

    fn slot(&self) -> usize {
        self.slot
    }

    fn decode(
        &self,
        cell: Cell<'_>,
        _: RowCells<'_>,
        key: RowKey,
        _: &Workspace,
        slot: &mut [u8],
    ) -> Result<()> {
        let cell = cell.stable();
        match caught(|| self.decoder.decode(cell, key, slot)) {
            Ok(decoded) => decoded.map_err(of_this_row),
            Err(panic) => Err(Error::new(ErrorKind::BadRow, format!("the decoder panicked: {panic}"))),
        }
    }

    fn decode_null(&self, _: RowCells<'_>, slot: &mut [u8]) -> Result<bool> {
        self.null.iter().for_each(|null| null.write(slot));
        Ok(self.null.is_some())
    }

    fn noun(&self) -> Noun {
        Noun { one: "a cell to decode", several: "cells to decode" }
    }
}

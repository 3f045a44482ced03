//! Reads a cell as an array: its shape, and its values in row-major order.

use std::io::Read;

use forebay_base::{Error, ErrorKind, Result};
use forebay_image::{RowKey, probe};

use super::layout::{Arrays, CellFormat, Item};
use crate::column::TensorFormat;
use crate::column::tensors::name_of;
use crate::column::tensors::npy::{Header, Values, header, read_all};
use crate::column::tensors::npz::{unpacked, unpacked_bytes};

/// An array that was read from a cell.
pub(super) struct ReadArray {
    pub(super) shape: Vec<usize>,
    /// The values in native byte order; a boolean has one byte, and a text has four bytes for each character.
    pub(super) values: Vec<u8>,
    /// The number of bytes of a value.
    pub(super) width: usize,
}

impl Arrays {
    /// Reads the array in a cell.
    ///
    /// Fails with `BadRow` if the cell does not hold an array of the expected type and shape.
    pub(super) fn read(&self, cell: &[u8]) -> Result<ReadArray> {
        match self.cells {
            CellFormat::Image(pixels) => {
                let image = pixels.as_stored(cell)?.decode(cell, RowKey(0))?;
                let (height, width) = (image.height() as usize, image.width() as usize);
                let sides = [height, width, image.channels()];
                let array = ReadArray {
                    shape: sides[..self.shape.len().min(sides.len())].to_vec(),
                    values: image.into_bytes(),
                    width: pixels.bytes(),
                };
                match self.fits(&array.shape) {
                    true => Ok(array),
                    false => Err(self.refused(&format!("an image of {height} x {width} pixels"))),
                }
            }
            CellFormat::Numpy(TensorFormat::Npz) => unpacked(cell, |file| self.read_file(file)),
            CellFormat::Numpy(_) => self.read_file(&mut &*cell),
        }
    }

    /// The number of bytes that the array of a cell takes according to its header. The result is never less
    /// than the length of the cell, which is also the result for a bad cell.
    pub(super) fn bytes_in(&self, cell: &[u8]) -> usize {
        let unpacked = match self.cells {
            CellFormat::Image(pixels) => probe(cell).ok().map(|header| {
                let sides =
                    [header.height as usize, header.width as usize, pixels.channels(), pixels.bytes()];
                sides.into_iter().fold(1usize, usize::saturating_mul)
            }),
            CellFormat::Numpy(TensorFormat::Npz) => unpacked_bytes(cell).ok(),
            CellFormat::Numpy(_) => None,
        };
        unpacked.unwrap_or(0).max(cell.len())
    }

    fn read_file(&self, file: &mut impl Read) -> Result<ReadArray> {
        let header = header(file)?;
        if !self.is_of_type(&header) || !self.fits(&header.shape) {
            return Err(self.refused(&format!("a numpy file of {}", header.described())));
        }
        let values = read_all(file, &header)?;
        let width = header.values.width();
        Ok(ReadArray { shape: header.shape, values, width })
    }

    fn is_of_type(&self, header: &Header) -> bool {
        match (&self.item, &header.values) {
            (Item::Number(wanted), Values::Numbers(held)) => wanted == held,
            (Item::Text, Values::Texts(_)) | (Item::Bytes, Values::Bytes(_)) => true,
            _ => false,
        }
    }

    fn fits(&self, shape: &[usize]) -> bool {
        let mut sides = self.shape.iter().zip(shape);
        self.shape.len() == shape.len() && sides.all(|(side, held)| side.is_none_or(|side| side == *held))
    }

    fn refused(&self, held: &str) -> Error {
        let item = match &self.item {
            Item::Number(dtype) => name_of(dtype).unwrap_or_default(),
            Item::Text => "str",
            Item::Bytes => "bytes",
        };
        Error::new(ErrorKind::BadRow, format!("{held} where {item}[{}] is wanted", self.shape_text()))
    }
}

//! The form in which `forebay pack` and `forebay unpack` write images.

use forebay_base::Result;
use forebay_image as decode;

/// The form in which `forebay pack` and `forebay unpack` write images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repack {
    /// JPEGs become DCT coefficients, which decode faster.
    Pack {
        /// Whether the coefficients are written to a new column and the images are kept. Otherwise they
        /// replace the images.
        beside: bool,
    },
    /// Coefficients become JPEGs again.
    Unpack,
}

impl Repack {
    /// Converts an image to this form; `None` if it stays unchanged.
    pub(super) fn apply(self, cell: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Repack::Pack { .. } => Ok(decode::pack(cell)),
            Repack::Unpack if decode::is_packed(cell) => decode::unpack(cell).map(Some),
            Repack::Unpack => Ok(None),
        }
    }

    /// Whether a cell is of the kind to convert: a JPEG to pack, or coefficients to unpack.
    pub(super) fn is_for(self, cell: &[u8]) -> bool {
        match self {
            Repack::Pack { .. } => decode::is_jpeg(cell),
            Repack::Unpack => decode::is_packed(cell),
        }
    }
}

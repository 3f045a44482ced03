//! The number type of a mask.

use serde::{Deserialize, Serialize};

/// The number type in which a mask is delivered.
///
/// ```
/// # mod forebay { pub use forebay_image::{self as image, *}; }
/// use forebay::image::MaskType;
///
/// assert_eq!(MaskType::default().name(), "uint8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum MaskType {
    /// `uint8`, for PNG of up to 8 bits. The default.
    #[default]
    #[serde(rename = "uint8")]
    U8,
    /// `uint16`, for PNG of up to 16 bits.
    #[serde(rename = "uint16")]
    U16,
}

impl MaskType {
    /// Every mask type.
    pub const ALL: [MaskType; 2] = [MaskType::U8, MaskType::U16];

    /// The number of bytes of one pixel.
    pub const fn bytes(self) -> usize {
        match self {
            MaskType::U8 => size_of::<u8>(),
            MaskType::U16 => size_of::<u16>(),
        }
    }

    /// The name of the type in numpy and torch.
    pub const fn name(self) -> &'static str {
        match self {
            MaskType::U8 => "uint8",
            MaskType::U16 => "uint16",
        }
    }
}

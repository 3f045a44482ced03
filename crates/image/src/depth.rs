//! The number of bits of a channel while an image is cropped, resized and rotated: 16 for a file with more
//! than 8, otherwise 8.
//!
//! An 8-bit file is processed in 8 bits, whatever the number type of the result. If 16 bits are asked for,
//! its levels are widened at the end: 255 becomes 65535. So a column may hold files of both kinds, and a JPEG
//! takes no more time or memory.

/// The factor from an 8-bit level to a 16-bit level: it maps black (0) to 0, and white (255) to 65535.
pub(super) const WIDENING: u16 = 257;

/// The number of bits of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Eight,
    /// Sixteen bits in native byte order.
    Sixteen,
}

impl Depth {
    /// The number of bytes of one channel of one pixel.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Depth::Eight => size_of::<u8>(),
            Depth::Sixteen => size_of::<u16>(),
        }
    }
}

/// The level of a channel of one pixel, as buffers store it.
pub(super) trait ChannelLevel: Copy {
    /// The level as a number.
    fn value(self) -> f32;

    /// The level for a whole number, which must be in the level's range.
    fn from_value(value: f32) -> Self;
}

impl ChannelLevel for u8 {
    fn value(self) -> f32 {
        f32::from(self)
    }

    fn from_value(value: f32) -> Self {
        value as u8
    }
}

/// A 16-bit level as two bytes, because buffers need not be aligned.
impl ChannelLevel for [u8; 2] {
    fn value(self) -> f32 {
        f32::from(u16::from_ne_bytes(self))
    }

    fn from_value(value: f32) -> Self {
        (value as u16).to_ne_bytes()
    }
}

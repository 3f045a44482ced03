//! The numbers of the conversion from YCbCr (JFIF 1.02), as the library rounds them.

/// The level of chroma that means no colour.
pub(super) const CENTRE: i16 = 128;

/// Red is `luma + red + RED * red`, and blue is `luma + blue + BLUE * blue`, where `red` and `blue` on the
/// right are the chroma values around zero. `RED` (0.402) and `BLUE` (0.772) are in units of 2^-15. They are
/// chosen so that the rounded results equal the library's, which multiplies by 91881 and 116130 in units of
/// 2^-16.
pub(super) const RED: i16 = 13_173;
pub(super) const BLUE: i16 = 25_297;
/// Green is `luma - red + GREEN_OF_BLUE * blue + GREEN_OF_RED * red`, rounded. The two factors are -0.34414
/// and 1 - 0.71414, in units of 2^-16.
pub(super) const GREEN_OF_BLUE: i16 = -22_554;
pub(super) const GREEN_OF_RED: i16 = 18_734;
pub(super) const GREEN_BITS: u32 = 16;
/// Half a unit, which is added so that shifting by `GREEN_BITS` rounds to the nearest number.
pub(super) const GREEN_HALF: i32 = 1 << (GREEN_BITS - 1);

/// The numbers that are added before sums of 4 or 16 parts are divided. They differ for even and odd columns,
/// because the library rounds in alternating directions.
pub(super) const EVEN_OF_4: i16 = 1;
pub(super) const ODD_OF_4: i16 = 2;
pub(super) const EVEN_OF_16: i16 = 8;
pub(super) const ODD_OF_16: i16 = 7;

//! The coefficients of a JPEG in a form that is read faster than Huffman codes, without loss.
//!
//! With Huffman codes, the position of a value is known only after the value before it was decoded. In this
//! form, a reader needs only the lengths of a block's parts to find the next block, and it puts many values
//! in place at once.
//! All numbers are little-endian:
//!
//! | part | bytes | content |
//! |---|---|---|
//! | [`Facts`] | 48 | the mark, and the sizes of all parts |
//! | header | | that of a baseline JPEG of the same coefficients ([`BaselineHeader`](super::frame::BaselineHeader)) |
//! | index | 16 for each row of MCUs | the offsets at which the row begins in bitmaps, nibbles, bytes and words |
//! | blocks | 1 for each block | low half: the number of bytes of its bitmap; high half: its DC minus the DC of its component's previous block in the row, -7 to 7, or -8 if the difference is in `bytes` |
//! | bitmaps | 0 to 8 for each block | a bit for each AC coefficient in zigzag order, which is set if the coefficient is not zero; zero bytes at the end are left out |
//! | nibbles | half for each AC coefficient that is not zero | its value, -8 to 7, or 0 if the value is in `bytes`; each block begins at a whole byte |
//! | bytes | 1 for each number | for each block the difference of DC that does not fit a nibble, or -128 if it is in `words`; then the values of AC that do not fit a nibble, or 0 if a value is in `words` |
//! | words | 2 for each number | numbers that do not fit a byte |
//! | end | 64 | zeros, so that a whole register can be loaded anywhere |
//!
//! Blocks are in the order of MCUs. A region is read from the row in which it begins; the blocks before it in
//! that row are counted but not expanded.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod expand;
mod machine;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub(super) use machine::reader;
pub(super) use read::header;
pub(in crate::jpeg) use write::PackedImage;
pub(super) use write::Writer;

/// The first bytes of packed coefficients, which differ from those of any image file, and from text.
const MARK: [u8; 8] = *b"\xF4fbco\r\n\x01";
/// The number of bytes of the facts at the beginning.
const FACTS: usize = 48;
/// The number of zero bytes at the end of packed coefficients.
const PADDING: usize = 64;
/// The nibble that means that the difference of DC is stored as a byte.
const BYTE_DC: i8 = -8;
/// The byte that means that the difference of DC is stored as a word.
const WORD_DC: i8 = i8::MIN;
/// The number of streams: bitmaps, nibbles, bytes and words. The index says where each row begins in them.
const STREAMS: usize = 4;

/// The facts that a reader needs before it reads coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jpeg) struct Facts {
    /// The width of the image as stored, before any orientation.
    pub(in crate::jpeg) width: u32,
    pub(in crate::jpeg) height: u32,
    /// The number of channels: 1 for grey, 3 for colour.
    pub(in crate::jpeg) channels: u8,
    /// The EXIF orientation, 1 to 8.
    pub(in crate::jpeg) orientation: u8,
    /// The width of an MCU in pixels; `None` if the image must be decoded as a whole.
    pub(in crate::jpeg) mcu_width: Option<u8>,
}

/// Whether bytes are packed coefficients.
pub(in crate::jpeg) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MARK)
}

impl Facts {
    /// The facts of packed coefficients; `None` if they are damaged.
    pub(in crate::jpeg) fn read(packed: &[u8]) -> Option<Facts> {
        let head = packed.strip_prefix(&MARK)?.first_chunk::<{ FACTS - MARK.len() }>()?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let [channels, orientation, mcu_width] = [head[8], head[9], head[10]];
        let sound = matches!(channels, 1 | 3) && (1..=8).contains(&orientation);
        let mcu_width = match mcu_width {
            0 => None,
            8 | 16 | 32 => Some(mcu_width),
            _ => return None,
        };
        sound.then(|| Facts { width: number(0), height: number(4), channels, orientation, mcu_width })
    }
}

//! The encodings of whole numbers in Parquet. [`pages`](super::pages) checks the stored bytes,
//! [`numbers`](super::numbers) decodes them.

mod deltas;
mod packed;
mod runs;

pub(super) use deltas::Deltas;
pub(super) use packed::{GROUP, Word, bits, unpack};
pub(super) use runs::{NumberRun, Runs};

/// The most bytes that an integer of variable length takes.
const LONGEST_VARINT: u32 = 10;

/// Reads an integer of variable length: seven bits in each byte, the lowest first.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..LONGEST_VARINT {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads a signed integer of variable length, whose encoding is small if it is near zero.
fn zigzag(rest: &mut &[u8]) -> Option<u64> {
    let number = varint(rest)?;
    Some((number >> 1) ^ (number & 1).wrapping_neg())
}

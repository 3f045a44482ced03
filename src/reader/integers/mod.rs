//! The encodings of integers in Parquet. [`pages`](super::pages) uses them to check stored bytes, and
//! [`numbers`](super::numbers) to decode values.

mod deltas;
mod packed;
mod runs;

pub(super) use deltas::Deltas;
pub(super) use packed::{GROUP, Word, bits, unpack};
pub(super) use runs::{NumberRun, Runs};

/// The most bytes that a variable-length integer takes.
const LONGEST_VARINT: u32 = 10;

/// Reads a variable-length integer (LEB128): seven bits in each byte, the lowest first.
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

/// Reads a variable-length signed integer in zigzag encoding, which is short for numbers near zero.
fn zigzag(rest: &mut &[u8]) -> Option<u64> {
    let number = varint(rest)?;
    Some((number >> 1) ^ (number & 1).wrapping_neg())
}

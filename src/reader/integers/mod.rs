//! How Parquet writes whole numbers. [`pages`](super::pages) checks what is stored, [`numbers`](super::numbers) decodes it.

mod deltas;
mod packed;
mod runs;

pub(super) use deltas::Deltas;
pub(super) use packed::{GROUP, Word, bits, unpack};
pub(super) use runs::{Run, Runs};

/// The most bytes that an integer of variable length takes.
const LONGEST_VARINT: u32 = 10;

/// An integer of variable length: seven bits a byte, the lowest first.
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

/// An integer of variable length and either sign, where a short distance from zero is a small number.
fn zigzag(rest: &mut &[u8]) -> Option<u64> {
    let number = varint(rest)?;
    Some((number >> 1) ^ (number & 1).wrapping_neg())
}

//! Decodes the values of a page, for each encoding in which Parquet stores numbers. Returns `None` for
//! anything unusual.

use forebay_arrow::datatypes::ArrowNativeType;

use super::scratch::{Inflater, Memory, Scratch};
use crate::reader::integers::{Deltas, NumberRun, Runs, Word, unpack};
use crate::reader::pages::split_levels;

/// An unsigned integer of as many bytes as the values of a column have, whatever the type of these values.
pub(super) trait Value: ArrowNativeType {
    /// The number of bytes in which the value is stored: Parquet stores numbers in at least four.
    const STORED: usize = if size_of::<Self>() < 4 { 4 } else { size_of::<Self>() };

    /// The value from the little-endian bytes in which it is stored.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// The value in the lowest bits of `bits`.
    fn from_bits(bits: u64) -> Self;
    /// This value if `is_kept` is 1, or zero.
    fn kept_if(self, is_kept: u64) -> Self;
    /// This value with the byte at `place` set, which was zero; unchanged if the value has fewer bytes.
    fn with_byte(self, place: usize, byte: u8) -> Self;
    /// The decompressor, and the memory for values of this type.
    fn memory(scratch: &mut Scratch) -> (&mut Inflater, &mut Memory<Self>);
}

/// The number of values that a byte can have.
const BYTES: usize = 1 << u8::BITS;

/// The number of values that are assembled at a time, so that they stay in the first-level cache.
const SPLIT_STEP: usize = 1 << 10;

macro_rules! value {
    ($($native:ident of $memory:ident)*) => { $(
        impl Value for $native {
            fn from_bytes(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(0, |bytes| $native::from_le_bytes(*bytes))
            }

            fn from_bits(bits: u64) -> Self {
                bits as $native
            }

            fn kept_if(self, is_kept: u64) -> Self {
                self & (is_kept as $native).wrapping_neg()
            }

            fn with_byte(self, place: usize, byte: u8) -> Self {
                self | (u64::from(byte) << (8 * place)) as $native
            }

            fn memory(scratch: &mut Scratch) -> (&mut Inflater, &mut Memory<Self>) {
                (&mut scratch.inflater, &mut scratch.$memory)
            }
        }
    )* };
}

value!(u8 of one u16 of two u32 of four u64 of eight);

/// Appends `count` values that are stored unchanged; `None` if `bytes` hold fewer or more.
pub(super) fn plain<T: Value>(bytes: &[u8], count: usize, out: &mut Vec<T>) -> Option<()> {
    if count.checked_mul(T::STORED)? != bytes.len() {
        return None;
    }
    out.extend(bytes.chunks_exact(T::STORED).map(T::from_bytes));
    Some(())
}

/// Appends `count` bits that are stored side by side; `None` if `bytes` hold fewer or more.
pub(super) fn plain_bits<T: Value>(bytes: &[u8], count: usize, out: &mut Vec<T>) -> Option<()> {
    (count.div_ceil(8) == bytes.len()).then_some(())?;
    out.extend((0..count).map(|at| T::from_bits((bytes[at / 8] >> (at % 8) & 1).into())));
    Some(())
}

/// Appends `count` bits that are stored in runs, after the number of bytes that the runs take.
pub(super) fn bits_in_runs<T: Value>(bytes: &[u8], count: usize, out: &mut Vec<T>) -> Option<()> {
    let (runs, _) = split_levels(bytes)?;
    Runs::new(runs, 1)?.each(count, |run| match run {
        NumberRun::Repeated(bit @ (0 | 1), count) => {
            out.resize(out.len() + count, T::from_bits(bit.into()));
            Some(())
        }
        NumberRun::Repeated(..) => None,
        NumberRun::Packed(packed, count) => plain_bits(packed.get(..count.div_ceil(8))?, count, out),
    })
}

/// Appends the values of the dictionary to which `count` indices refer. The indices are stored in runs, after
/// a byte that says how many bits an index has.
pub(in crate::reader) fn indexed<T: Copy + Default>(
    bytes: &[u8],
    count: usize,
    dictionary: &[T],
    out: &mut Vec<T>,
) -> Option<()> {
    let Some((&width, runs)) = bytes.split_first() else { return (count == 0).then_some(()) };
    let width = u32::from(width);
    out.reserve(count);
    // If indices take one byte and there are many of them, they need no unpacking, and one check covers a
    // whole run.
    let of_bytes = (width == u8::BITS && count >= BYTES).then(|| {
        let mut of_bytes = [T::default(); BYTES];
        let known = dictionary.len().min(BYTES);
        of_bytes[..known].copy_from_slice(&dictionary[..known]);
        of_bytes
    });
    Runs::new(runs, width)?.each(count, |run| {
        match run {
            NumberRun::Repeated(index, count) => {
                let value = *dictionary.get(index as usize)?;
                out.resize(out.len() + count, value);
            }
            NumberRun::Packed(packed, count) => match &of_bytes {
                Some(of_bytes) => {
                    let indices = packed.get(..count)?;
                    let most = indices.iter().fold(0, |most, index| most.max(*index));
                    (usize::from(most) < dictionary.len()).then_some(())?;
                    out.extend(indices.iter().map(|index| of_bytes[usize::from(*index)]));
                }
                None if width <= u32::WIDEST => {
                    unpack(packed, width, count, |indices: &[u32]| look_up(indices, dictionary, out))?;
                }
                None => unpack(packed, width, count, |indices: &[u64]| look_up(indices, dictionary, out))?,
            },
        }
        Some(())
    })
}

/// Appends the values of a dictionary at these indices; `None` if it does not have them all.
fn look_up<T: Copy, I: Word + Ord + Into<u64>>(
    indices: &[I],
    dictionary: &[T],
    out: &mut Vec<T>,
) -> Option<()> {
    // One check of the largest index covers all of them.
    let most = indices.iter().fold(I::default(), |most, index| most.max(*index));
    if most.into() >= dictionary.len() as u64 {
        return None;
    }
    out.extend(indices.iter().map(|index| dictionary[(*index).into() as usize]));
    Some(())
}

/// Appends `count` values whose first bytes are stored side by side, then their second bytes, and so on
/// (`BYTE_STREAM_SPLIT`).
pub(super) fn split<T: Value>(bytes: &[u8], count: usize, out: &mut Vec<T>) -> Option<()> {
    if count.checked_mul(T::STORED)? != bytes.len() {
        return None;
    }
    let begin = out.len();
    out.resize(begin + count, T::default());
    for (step, values) in out[begin..].chunks_mut(SPLIT_STEP).enumerate() {
        for place in 0..T::STORED {
            let bytes = &bytes[place * count + step * SPLIT_STEP..][..values.len()];
            values.iter_mut().zip(bytes).for_each(|(value, byte)| *value = value.with_byte(place, *byte));
        }
    }
    Some(())
}

/// Appends `count` values that are stored as the differences between them, packed in blocks
/// (`DELTA_BINARY_PACKED`).
pub(super) fn differences<T: Value>(bytes: &[u8], count: usize, out: &mut Vec<T>) -> Option<()> {
    let deltas = Deltas::parse(bytes).filter(|deltas| deltas.count == count)?;
    out.reserve(count);
    deltas.each(|number| out.push(T::from_bits(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_values_are_as_many_as_their_bytes() {
        let mut out: Vec<u32> = vec![9];
        assert_eq!(plain(&[1, 0, 0, 0, 0, 0, 0, 2], 2, &mut out), Some(()));
        assert_eq!(out, [9, 1, 2 << 24]);
        let mut bytes: Vec<u8> = vec![9];
        assert_eq!(plain(&[1, 0, 0, 0, 255, 0, 0, 0], 2, &mut bytes), Some(()));
        assert_eq!(bytes, [9, 1, 255]);
        assert_eq!(plain(&[1, 0, 0, 0, 0], 1, &mut out), None);
        assert_eq!(plain::<u64>(&[0; 8], usize::MAX, &mut Vec::new()), None);
    }

    #[test]
    fn indices_name_values_of_the_dictionary_or_none() {
        let mut out: Vec<u64> = Vec::new();
        // The runs are index 1 three times, then a group of which the first three indices count. The others
        // are past the end of the dictionary.
        let runs = [2, 6, 1, 3, 0b11_10_01_00, 0xff];
        assert_eq!(indexed(&runs, 6, &[7, 8, 9], &mut out), Some(()));
        assert_eq!(out, [8, 8, 8, 7, 8, 9]);
        assert_eq!(indexed(&runs, 7, &[7, 8, 9], &mut out), None);
        assert_eq!(indexed(&[2, 6, 3], 3, &[7, 8, 9], &mut out), None);
        // The indices take one byte each: there are few of them, then many.
        for groups in [2u8, 40] {
            let indices: Vec<u8> = (0..usize::from(groups) * 8).map(|at| (at % 3) as u8).collect();
            let runs = [&[8, groups << 1 | 1][..], &indices].concat();
            let (mut bytes, count) = (Vec::new(), indices.len() - 1);
            assert_eq!(indexed(&runs, count, &[7u8, 8, 9], &mut bytes), Some(()));
            assert_eq!(bytes, indices[..count].iter().map(|index| 7 + index).collect::<Vec<_>>());
            assert_eq!(indexed(&runs, count, &[7u8, 8], &mut bytes), None);
            assert_eq!(indexed(&runs[..count], count, &[7u8, 8, 9], &mut bytes), None);
        }
        assert_eq!(indexed(&[], 0, &[7u32], &mut Vec::new()), Some(()));
        assert_eq!(indexed(&[], 1, &[7u32], &mut Vec::new()), None);
    }

    #[test]
    fn bytes_that_were_split_are_joined() {
        let mut out: Vec<u32> = Vec::new();
        assert_eq!(split(&[1, 2, 3, 4, 5, 6, 7, 8], 2, &mut out), Some(()));
        assert_eq!(out, [u32::from_le_bytes([1, 3, 5, 7]), u32::from_le_bytes([2, 4, 6, 8])]);
        assert_eq!(split(&[0; 9], 2, &mut out), None);
        let mut shorts: Vec<u16> = Vec::new();
        assert_eq!(split(&[1, 2, 3, 4, 0, 0, 0, 0], 2, &mut shorts), Some(()));
        assert_eq!(shorts, [u16::from_le_bytes([1, 3]), u16::from_le_bytes([2, 4])]);
    }

    #[test]
    fn differences_are_added_up() {
        // The blocks have 32 numbers in 4 miniblocks. The values are 7, 5, 3 ... with differences of -2,
        // except for one that is larger by 1, so the first miniblock has a width of 1.
        let mut bytes = vec![32, 4, 10, 14, 3, 1, 0, 9, 9, 0b0000_0100];
        let mut out: Vec<u32> = Vec::new();
        assert_eq!(differences(&bytes, 10, &mut out), Some(()));
        let expected: Vec<u32> = [7i32, 5, 3, 2, 0, -2, -4, -6, -8, -10].map(|value| value as u32).into();
        assert_eq!(out, expected);
        for count in [0, 9, 11] {
            assert_eq!(differences(&bytes, count, &mut out), None);
        }
        bytes.pop();
        assert_eq!(differences(&bytes, 10, &mut out), None);
        assert_eq!(differences::<u32>(&[0, 4, 0, 0], 0, &mut Vec::new()), None);
    }
}

//! Strings whose lengths come first (`DELTA_LENGTH_BYTE_ARRAY`, `DELTA_BYTE_ARRAY`): the number of lengths that each
//! page claims.
//!
//! The Parquet crate reserves memory for that many, and the number is in the page's body, not in its header. So the pages
//! of such columns are decompressed in addition, one after the other, and checked. So are those of version 1 whose
//! compressed repetition levels are to be counted.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::corrupt;
use super::levels::{self, split_levels};
use crate::catalog::ColumnChunk;
use crate::error::{OrFail, Result};

/// The most bytes that an integer of variable length takes.
const LONGEST_VARINT: u32 = 10;

/// Fails with `Corrupt` if a page of the chunk has more lengths than values, or, where rows of it are skipped, fewer
/// repetition levels. Its headers must have been checked.
pub(super) fn check(about: &ColumnChunk<'_>, bytes: &Bytes, skips: bool) -> Result<()> {
    let descriptor = about.column;
    let has_lengths = matches!(descriptor.physical_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY);
    let counts_levels = skips && descriptor.max_rep_level() > 0;
    if !has_lengths && !counts_levels {
        return Ok(());
    }
    let most = [descriptor.max_rep_level(), descriptor.max_def_level()];
    let chunk = Arc::new(Chunk { start: about.range().start, bytes: bytes.clone() });
    let about = about.to_parquet()?;
    let mut pages = SerializedPageReader::new(chunk, &about, 0, None).or_fail()?;
    while let Some(page) = pages.get_next_page().or_fail()? {
        let (body, values) = match &page {
            Page::DataPage { buf, num_values, rep_level_encoding, def_level_encoding, .. } => {
                let encodings = [*rep_level_encoding, *def_level_encoding];
                // Levels that are bit-packed throughout are as many as the values, or the decoder fails.
                if counts_levels && encodings[0] == Encoding::RLE {
                    let (runs, _) = split_levels(buf).unwrap_or_default();
                    levels::check(runs, most[0], u64::from(*num_values))?;
                }
                (without_levels(buf, *num_values, most, encodings), *num_values)
            }
            Page::DataPageV2 { buf, num_values, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                (buf.get(levels..), *num_values)
            }
            Page::DictionaryPage { .. } => continue,
        };
        if !has_lengths {
            continue;
        }
        let is_sound = body.is_some_and(|body| match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => deltas(body, values).is_some(),
            Encoding::DELTA_BYTE_ARRAY => {
                let prefixes = deltas(body, values);
                prefixes.and_then(|end| deltas(body.get(end..)?, values)).is_some()
            }
            _ => true,
        });
        if !is_sound {
            return Err(corrupt(format!("the lengths of the {values} values of a page are malformed")));
        }
    }
    Ok(())
}

/// The bytes after the repetition and definition levels of a page of version 1.
fn without_levels(page: &Bytes, values: u32, levels: [i16; 2], encodings: [Encoding; 2]) -> Option<&[u8]> {
    let mut rest = &page[..];
    for (most, encoding) in levels.into_iter().zip(encodings).filter(|(most, _)| *most > 0) {
        rest = match encoding {
            Encoding::RLE => split_levels(rest)?.1,
            // Bit-packed, which is deprecated.
            _ => {
                let bits = u64::from(values) * u64::from(i16::BITS - most.leading_zeros());
                rest.get(usize::try_from(bits.div_ceil(8)).ok()?..)?
            }
        };
    }
    Some(rest)
}

/// The end of numbers of the encoding `DELTA_BINARY_PACKED`; `None` if there are more than `most`, or some are missing.
fn deltas(bytes: &[u8], most: u32) -> Option<usize> {
    let mut rest = bytes;
    let block = usize::try_from(varint(&mut rest)?).ok()?;
    let miniblocks = usize::try_from(varint(&mut rest)?).ok()?;
    let count = varint(&mut rest)?;
    if count > u64::from(most) || miniblocks == 0 {
        return None;
    }
    let _first = varint(&mut rest)?;
    let values = block / miniblocks;
    let mut left = (count as usize).saturating_sub(1);
    while left > 0 {
        let _least = varint(&mut rest)?;
        let (widths, packed) = rest.split_at_checked(miniblocks)?;
        rest = packed;
        for &bits in widths {
            // Widths of miniblocks after the last value have no meaning.
            if left == 0 {
                break;
            }
            let length = values.checked_mul(usize::from(bits))? / 8;
            rest = rest.get(length..)?;
            left = left.saturating_sub(values);
        }
        if values == 0 {
            return None;
        }
    }
    Some(bytes.len() - rest.len())
}

/// An integer of variable length: seven bits a byte, the lowest first.
pub(in crate::reader) fn varint(rest: &mut &[u8]) -> Option<u64> {
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

/// The bytes of a column chunk at their place in the file.
struct Chunk {
    start: u64,
    bytes: Bytes,
}

impl Chunk {
    fn from(&self, start: u64) -> ParquetResult<Bytes> {
        let at = start.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        match at.filter(|&at| at <= self.bytes.len()) {
            Some(at) => Ok(self.bytes.slice(at..)),
            None => Err(ParquetError::EOF(format!("byte {start} is not in the column chunk"))),
        }
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Chunk {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF(format!("{length} bytes at {start} are not in the column chunk"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 128 numbers in 4 miniblocks: how many numbers, their first, and what follows.
    fn packed(count: u64, blocks: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80, 1, 4];
        let mut rest = count;
        while rest > 0x7f {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.extend([rest as u8, 0]);
        bytes.extend(blocks);
        bytes
    }

    #[test]
    fn numbers_end_where_their_last_miniblock_does() {
        assert_eq!(deltas(&packed(0, &[9, 9]), 10), Some(5));
        assert_eq!(deltas(&packed(1, &[9, 9]), 10), Some(5));
        // 33 more numbers: a miniblock of two bits each, one without, and two that do not count.
        let blocks = [&[0, 2, 0, 7, 7][..], &[1; 8], &[9; 9]].concat();
        assert_eq!(deltas(&packed(34, &blocks), 34), Some(5 + 5 + 8));
        assert_eq!(deltas(&packed(34, &blocks), 33), None);
        assert_eq!(deltas(&packed(34, &blocks[..12]), 34), None);
    }

    #[test]
    fn numbers_without_end_are_refused() {
        for count in [1 << 32, u64::MAX >> 1, u64::MAX] {
            assert_eq!(deltas(&packed(count, &[0; 50]), u32::MAX), None);
        }
        // No miniblocks; blocks of none.
        assert_eq!(deltas(&[0x80, 1, 0, 5, 0, 0, 0, 0, 0, 0], 5), None);
        assert_eq!(deltas(&[0, 4, 5, 0, 0, 0, 0, 0, 0], 5), None);
    }
}

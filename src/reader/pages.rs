//! A look at every page header of a column chunk before it is decoded: how much memory the decoder will take.
//!
//! The Parquet crate believes a page header's sizes and allocates, and its Gzip and Brotli decoders write as much as the
//! stream gives. A few bytes can thus become gigabytes, so what the headers claim is added up first, and a stream that
//! could break its claim is run once into nothing.

use std::io::Read;

use parquet::basic::{Compression, Encoding, Type};
use parquet::file::metadata::ColumnChunkMetaData;

use crate::catalog::leaf_width;
use crate::catalog::thrift::Compact;
use crate::error::{Error, ErrorKind, Result};

/// Bytes that one byte of Deflate expands to at most.
const GZIP_RATIO: u64 = 1032;

/// Bytes that one byte of LZ4 expands to at most.
const LZ4_RATIO: u64 = 255;

/// How a page of LZ4 in its frame format begins. Such a page's real size is not in its page header.
const LZ4_FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Bytes that a decompressor is asked for at a time when its output is only counted.
const COUNTING_STEP: usize = 64 << 10;

/// Definition and repetition levels, 16 bits each, that the decoder keeps for each value of a nested column.
const LEVEL_BYTES: u64 = 4;

/// The fewest bytes that a value in a dictionary page takes, if its width is not of a fixed number of bytes: those of a
/// 32-bit number, or of the length of a string.
const SMALLEST_DICTIONARY_VALUE: u64 = 4;

/// What decoding one column chunk takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Bytes of memory, if every value is as long as its page suggests.
    pub(super) bytes: u64,
    /// The longest that one value can be that repeats a part of the value before it (`DELTA_BYTE_ARRAY`), else 0. The
    /// bytes of such values are not in `bytes`: pages do not tell them.
    pub(super) longest_repeated: u64,
}

/// One page header.
#[derive(Debug, Default)]
struct Page {
    kind: i64,
    uncompressed: u64,
    compressed: u64,
    values: u64,
    encoding: i64,
    /// Bytes of levels that stand uncompressed in front of the values, and whether the values are compressed (version 2).
    levels: u64,
    stored_plain: bool,
}

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

/// Adds up what decoding `rows` rows from a chunk's `bytes` takes.
///
/// Fails with `TooLarge` if one page alone takes more than `limit` bytes, and with `Corrupt` for headers that contradict
/// the bytes or themselves.
pub(super) fn demand(chunk: &ColumnChunkMetaData, bytes: &[u8], rows: u64, limit: u64) -> Result<Demand> {
    let descriptor = chunk.column_descr();
    let is_bytes = descriptor.physical_type() == Type::BYTE_ARRAY;
    let is_nested = descriptor.max_rep_level() > 0;
    let compression = chunk.compression();
    let mut demand = Demand::default();
    let mut values = 0u64;
    let mut rest = bytes;
    while !rest.is_empty() {
        // A reader stops when it has the values that the footer promises: some writers pad what follows.
        if values >= u64::try_from(chunk.num_values()).unwrap_or(0) {
            break;
        }
        let (page, header) = page_header(rest)?;
        rest = &rest[header..];
        let length = usize::try_from(page.compressed).ok().filter(|&length| length <= rest.len());
        let Some(length) = length else {
            return Err(corrupt(format!(
                "a page of {} bytes, where {} are left",
                page.compressed,
                rest.len()
            )));
        };
        let (body, after) = rest.split_at(length);
        rest = after;
        if page.uncompressed > limit && compression != Compression::UNCOMPRESSED {
            return Err(too_large(page.uncompressed, limit));
        }
        match page.kind {
            DICTIONARY_PAGE => {
                let smallest = match descriptor.physical_type() {
                    Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(descriptor.type_length()).unwrap_or(0).max(1),
                    _ => SMALLEST_DICTIONARY_VALUE,
                };
                if page.values.saturating_mul(smallest) > page.uncompressed {
                    let cause =
                        format!("a dictionary of {} values in {} bytes", page.values, page.uncompressed);
                    return Err(corrupt(cause));
                }
                let kept = page.values.saturating_mul(leaf_width(descriptor));
                demand.bytes = demand.bytes.saturating_add(kept.saturating_add(page.uncompressed));
            }
            DATA_PAGE | DATA_PAGE_V2 => {
                values = values.saturating_add(page.values);
                if is_bytes {
                    let delta = page.encoding == Encoding::DELTA_BYTE_ARRAY as i64;
                    let is_copied = compression != Compression::UNCOMPRESSED || delta;
                    let kept = if is_copied { page.uncompressed } else { 0 };
                    demand.bytes = demand.bytes.saturating_add(kept);
                    if delta {
                        demand.longest_repeated = demand.longest_repeated.max(page.uncompressed);
                    }
                }
            }
            _ => continue,
        }
        if !page.stored_plain {
            let levels = usize::try_from(page.levels).unwrap_or(usize::MAX).min(body.len());
            let claimed = page.uncompressed.saturating_sub(page.levels);
            check_stream(compression, &body[levels..], claimed, limit)?;
        }
    }
    let mut each = leaf_width(descriptor);
    let mut decoded = rows.min(values);
    if is_nested {
        each += LEVEL_BYTES;
        decoded = values;
    }
    demand.bytes = demand.bytes.saturating_add(decoded.saturating_mul(each));
    Ok(demand)
}

/// Makes sure that a stream gives no more than it claims, unless it is so short that this cannot matter.
fn check_stream(compression: Compression, body: &[u8], claimed: u64, limit: u64) -> Result<()> {
    let length = body.len() as u64;
    let worst = |ratio| length.saturating_mul(ratio);
    let given = match compression {
        Compression::GZIP(_) if worst(GZIP_RATIO) > limit => {
            counted(flate2::read::MultiGzDecoder::new(body), claimed)
        }
        Compression::BROTLI(_) if !body.is_empty() => {
            counted(brotli::Decompressor::new(body, COUNTING_STEP), claimed)
        }
        Compression::LZ4 if body.starts_with(&LZ4_FRAME) && worst(LZ4_RATIO) > limit => {
            return Err(too_large(worst(LZ4_RATIO), limit));
        }
        _ => return Ok(()),
    };
    if given > claimed {
        return Err(corrupt(format!("a page decompresses to more than the {claimed} bytes that it claims")));
    }
    Ok(())
}

/// How many bytes a stream gives, up to one more than `claimed`. A stream that breaks is left for the decoder to refuse.
fn counted(stream: impl Read, claimed: u64) -> u64 {
    let mut stream = stream.take(claimed + 1);
    let mut step = vec![0; COUNTING_STEP];
    let mut total = 0;
    loop {
        match stream.read(&mut step) {
            Ok(0) | Err(_) => return total,
            Ok(read) => total += read as u64,
        }
    }
}

/// Reads a page header, and says how many bytes it takes.
fn page_header(bytes: &[u8]) -> Result<(Page, usize)> {
    let mut page = Page { kind: -1, ..Page::default() };
    let mut input = Compact::new(bytes);
    let size = |value: i64| u64::try_from(value).ok();
    let read = input.structure(&mut |input, id, kind| {
        match (id, kind) {
            (1, _) => page.kind = input.int()?,
            (2, _) => page.uncompressed = size(input.int()?)?,
            (3, _) => page.compressed = size(input.int()?)?,
            // Data page, dictionary page: the number of values, then the encoding.
            (5 | 7, _) => input.structure(&mut |input, id, kind| {
                match id {
                    1 => page.values = size(input.int()?)?,
                    2 => page.encoding = input.int()?,
                    _ => input.skip(kind)?,
                }
                Some(())
            })?,
            (8, _) => input.structure(&mut |input, id, kind| {
                match id {
                    1 => page.values = size(input.int()?)?,
                    4 => page.encoding = input.int()?,
                    5 | 6 => page.levels = page.levels.saturating_add(size(input.int()?)?),
                    // A boolean's value is in its type: 2 is false.
                    7 => page.stored_plain = kind == 2,
                    _ => input.skip(kind)?,
                }
                Some(())
            })?,
            _ => input.skip(kind)?,
        }
        Some(())
    });
    match read {
        Some(()) => Ok((page, bytes.len() - input.remaining())),
        None => Err(corrupt("a page header is malformed".into())),
    }
}

fn corrupt(cause: String) -> Error {
    Error::new(ErrorKind::Corrupt, cause)
}

/// The refusal of what would take more memory than allowed.
pub(super) fn too_large(bytes: u64, limit: u64) -> Error {
    Error::new(ErrorKind::TooLarge, format!("decoding takes {bytes} bytes, {limit} are allowed"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parquet::basic::{BrotliLevel, GzipLevel};
    use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type as SchemaType};

    use super::*;

    fn chunk(compression: Compression, values: i64) -> ColumnChunkMetaData {
        let of = SchemaType::primitive_type_builder("c", Type::BYTE_ARRAY).build().unwrap();
        let descriptor = ColumnDescriptor::new(Arc::new(of), 0, 0, ColumnPath::from("c"));
        ColumnChunkMetaData::builder(Arc::new(descriptor))
            .set_compression(compression)
            .set_num_values(values)
            .build()
            .unwrap()
    }

    fn varint(out: &mut Vec<u8>, value: u64) {
        let mut rest = value << 1;
        while rest > 0x7f {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    /// A page of one kind with sizes as claimed.
    fn page(kind: u64, uncompressed: u64, values: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in [kind, uncompressed, body.len() as u64] {
            bytes.push(0x15);
            varint(&mut bytes, value);
        }
        bytes.push(if kind == DICTIONARY_PAGE as u64 { 0x4c } else { 0x2c });
        bytes.push(0x15);
        varint(&mut bytes, values);
        bytes.extend([0x15, 0, 0, 0]);
        bytes.extend(body);
        bytes
    }

    fn kind(compression: Compression, bytes: &[u8], limit: u64) -> ErrorKind {
        demand(&chunk(compression, 1), bytes, 1, limit).unwrap_err().kind()
    }

    #[test]
    fn a_stream_that_gives_more_than_it_claims_is_refused() {
        let zeros = vec![0; 8 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&zeros).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut brotli = Vec::new();
        brotli::CompressorWriter::new(&mut brotli, 4096, 5, 22).write_all(&zeros).unwrap();
        let limit = 1 << 20;
        for (compression, body) in [
            (Compression::GZIP(GzipLevel::default()), gzip),
            (Compression::BROTLI(BrotliLevel::default()), brotli),
        ] {
            assert_eq!(kind(compression, &page(0, 100, 1, &body), limit), ErrorKind::Corrupt);
            let honest = page(0, zeros.len() as u64, 1, &body);
            assert_eq!(kind(compression, &honest, limit), ErrorKind::TooLarge);
            assert!(demand(&chunk(compression, 1), &honest, 1, 16 << 20).is_ok());
        }
        let lz4 = [&LZ4_FRAME[..], &[0; 10_000]].concat();
        assert_eq!(kind(Compression::LZ4, &page(0, 100, 1, &lz4), limit), ErrorKind::TooLarge);
    }

    #[test]
    fn a_dictionary_cannot_have_more_values_than_bytes() {
        let bytes = page(2, 100, 1 << 30, &[0; 100]);
        assert_eq!(kind(Compression::UNCOMPRESSED, &bytes, u64::MAX), ErrorKind::Corrupt);
    }

    #[test]
    fn a_page_that_is_longer_than_its_chunk_is_refused() {
        let bytes = page(0, 100, 1, &[0; 100]);
        assert_eq!(kind(Compression::UNCOMPRESSED, &bytes[..50], u64::MAX), ErrorKind::Corrupt);
        assert_eq!(kind(Compression::UNCOMPRESSED, &bytes[..4], u64::MAX), ErrorKind::Corrupt);
    }
}

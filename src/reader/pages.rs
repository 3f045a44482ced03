//! Reads every page header of a column chunk before it is decoded, to check that the pages agree with the
//! footer, and to compute how much memory the decoder will take.
//!
//! The Parquet crate trusts a page header's sizes and allocates that much, and its Gzip and Brotli decoders
//! write as much as the stream contains. A few bytes can thus become gigabytes. So the sizes in the headers
//! are added up first, and a stream that could exceed its claim is decompressed once without keeping the
//! output. Every byte of a chunk is checked, except bytes after its last page that have to be fetched because
//! of an old writer.
//!
//! If a header states something that the data also show, the data decide: rows and nulls of pages of version
//! 2 are counted by their levels ([`body`]).

mod body;
mod lengths;
mod levels;
mod refusals;

use std::io::Read;
use std::ops::Range;

use bytes::Bytes;
use forebay_base::{Error, Result};
use forebay_store::catalog::page_header::{self, Page, PageKind};
use forebay_store::catalog::{ColumnChunk, LEVEL_BYTES, leaf_width, value_width, writers};
use parquet::basic::{Compression, Encoding, Type};
use parquet::schema::types::ColumnDescriptor;

pub(super) use self::body::Bodies;
pub(super) use self::lengths::whole_deltas;
pub(super) use self::levels::{Depth, highest_of, split_levels};
pub(super) use self::refusals::too_large;

use self::refusals::corrupt;

/// The most bytes to which one byte of Deflate expands.
const GZIP_RATIO: u64 = 1032;

/// The most bytes to which one byte of LZ4 expands.
const LZ4_RATIO: u64 = 255;

/// The most bytes that the length at the beginning of a Snappy stream takes.
const SNAPPY_LENGTH_BYTES: usize = 5;

/// The first bytes of a page of LZ4 in its frame format. The page header does not have the real size of such
/// a page.
const LZ4_FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// The number of bytes that a decompressor delivers at a time when its output is only counted.
const COUNTING_STEP: usize = 64 << 10;

/// The bytes of the widest stored number.
const WIDEST_NUMBER: u64 = 16;

/// The fewest bytes of a value in a dictionary page, unless the schema fixes its length: those of a 32-bit
/// number, or of the length before a string.
const SMALLEST_DICTIONARY_VALUE: u64 = 4;

/// The memory that decoding one column chunk takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// The bytes of memory, without those of values that repeat a part of the value before them.
    pub(super) bytes: u64,
    /// The most bytes of a value that repeats a part of the value before it (`DELTA_BYTE_ARRAY`), or 0 if the
    /// chunk has no such values. Their bytes are not in `bytes`, because pages do not state them.
    pub(super) longest_repeated: u64,
}

/// The application name of Arrow's C++ library before 3.0, which compressed all pages of version 2 and
/// flagged each as uncompressed (ARROW-10353).
const WRONG_FLAGS: &str = "parquet-cpp version";

/// The properties of a leaf column that each of its pages is checked against.
pub(super) struct Leaf {
    physical: Type,
    /// The fewest bytes of a value in a dictionary.
    smallest: u64,
    /// The number of bytes of a decoded value, in a dictionary and in a row.
    width: u64,
    of_row: u64,
    /// The highest repetition level.
    max_repetition: i16,
    /// The highest definition level.
    max_definition: i16,
}

impl Leaf {
    pub(super) fn for_column(column: &ColumnDescriptor) -> Self {
        let (physical, width) = (column.physical_type(), leaf_width(column));
        let smallest = match physical {
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or(0).max(1),
            _ => SMALLEST_DICTIONARY_VALUE,
        };
        let of_row = value_width(column);
        let [max_repetition, max_definition] = [column.max_rep_level(), column.max_def_level()];
        Leaf { physical, smallest, width, of_row, max_repetition, max_definition }
    }
}

/// A column chunk that will be decoded.
pub(super) struct Chunk<'a> {
    /// The column of the chunk.
    pub(super) leaf: &'a Leaf,
    pub(super) about: &'a ColumnChunk<'a>,
    pub(super) bytes: &'a [u8],
    /// The program that wrote the file.
    pub(super) created_by: Option<&'a str>,
}

/// The number of values that the headers of data pages state, up to a header that is malformed.
pub(super) fn value_count(pages: &[u8]) -> u64 {
    let (mut rest, mut values) = (pages, 0u64);
    while let Ok((page, header)) = page_header::read(rest) {
        if page.kind != PageKind::Dictionary {
            values = values.saturating_add(page.values.into());
        }
        let Some(after) = rest.get(header.saturating_add(page.compressed as usize)..) else { break };
        rest = after;
    }
    values
}

/// A page, and the place of its content in its chunk.
#[derive(Debug)]
pub(super) struct StoredPage {
    pub(super) page: Page,
    /// The offset at which the page's content begins.
    begin: usize,
    /// Whether the page's values are compressed, whatever its flag says.
    pub(super) is_compressed: bool,
}

impl StoredPage {
    /// The range of the page's content in its chunk.
    #[inline]
    pub(super) fn body(&self) -> Range<usize> {
        self.begin..self.begin + self.page.compressed as usize
    }

    /// Whether the page stores byte arrays in an encoding that puts all lengths before them.
    pub(super) fn has_lengths_in_front(&self) -> bool {
        let encodings = [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY];
        encodings.iter().any(|encoding| *encoding as i32 == self.page.encoding)
    }
}

/// The result of checking a chunk.
pub(super) struct Checked {
    pub(super) demand: Demand,
    /// The same chunk with correct compression flags, if some of its own flags were wrong.
    pub(super) mended: Option<Bytes>,
}

/// Sums over the pages of a chunk.
#[derive(Default)]
struct Sum {
    demand: Demand,
    values: u64,
    uncompressed: u64,
    /// The offsets of flags that wrongly say that a page is uncompressed.
    wrong_flags: Vec<usize>,
}

impl Chunk<'_> {
    /// Checks the pages and stores them in `pages`, and adds up the memory that decoding `rows` rows takes.
    ///
    /// Fails with `TooLarge` if one page by itself takes more than `limit` bytes, and with `Corrupt` for
    /// headers that contradict the bytes, the footer or themselves, and for pages of a kind that cannot be
    /// among pages of values.
    pub(super) fn check(&self, rows: u64, limit: u64, pages: &mut Vec<StoredPage>) -> Result<Checked> {
        let mut sum = Sum::default();
        pages.clear();
        let mut at = 0;
        let is_padded = writers::leaves_out_dictionary_header(self.created_by);
        while at < self.bytes.len() {
            // Some writers count bytes behind the last page to the chunk.
            let is_complete = sum.values >= self.about.values;
            if is_complete && (is_padded || page_header::read(&self.bytes[at..]).is_err()) {
                break;
            }
            let page = self.page(at, limit, &mut sum)?;
            at = page.body().end;
            pages.push(page);
        }
        self.compare(&sum)?;
        let decoded = if self.leaf.max_repetition > 0 { sum.values } else { rows.min(sum.values) };
        let mut demand = sum.demand;
        demand.bytes = demand.bytes.saturating_add(decoded.saturating_mul(self.leaf.of_row));
        // The estimate from the footer counts levels and padding in the same way, so a row group that was
        // admitted by it is not refused here.
        demand.bytes =
            demand.bytes.saturating_add(self.about.levels()).saturating_add(self.about.padding(rows));
        // The uncompressed size that the footer states was counted before, so only the bytes beyond it are
        // added.
        let said = self.about.uncompressed.max(self.bytes.len() as u64);
        demand.bytes = demand.bytes.saturating_add(sum.uncompressed.saturating_sub(said));
        let mended = (!sum.wrong_flags.is_empty()).then(|| {
            let mut bytes = self.bytes.to_vec();
            for at in sum.wrong_flags {
                bytes[at] = page_header::compressed(bytes[at]);
            }
            Bytes::from(bytes)
        });
        Ok(Checked { demand, mended })
    }

    /// Checks the page whose header begins at byte `at` of the chunk.
    #[inline(always)]
    fn page(&self, at: usize, limit: u64, sum: &mut Sum) -> Result<StoredPage> {
        let (page, header) = page_header::read(&self.bytes[at..])?;
        let begin = at + header;
        let left = self.bytes.len() - begin;
        if page.compressed as usize > left {
            return Err(corrupt(format!("a page of {} bytes, where {left} are left", page.compressed)));
        }
        let body = &self.bytes[begin..begin + page.compressed as usize];
        let compression = self.about.compression();
        let uncompressed = u64::from(page.uncompressed);
        if uncompressed > limit && compression != Compression::UNCOMPRESSED {
            // A page that exceeds the footer's size of all pages together is damaged, so no larger limit
            // would help.
            return Err(match uncompressed > self.most_uncompressed() {
                true => self.other_bytes(uncompressed),
                false => too_large(uncompressed, limit),
            });
        }
        let is_compressed = self.is_compressed(at, &page, sum)?;
        if !is_compressed && page.uncompressed != page.compressed {
            let cause =
                format!("a page of {} bytes, of which {} are stored", page.uncompressed, page.compressed);
            return Err(corrupt(cause));
        }
        match page.kind {
            PageKind::Dictionary => self.dictionary(&page, sum)?,
            PageKind::Data => self.values(&page, is_compressed, sum),
            PageKind::DataV2 => {
                self.check_v2(&page, body)?;
                self.values(&page, is_compressed, sum);
            }
        }
        if is_compressed {
            // The index is in bounds, since levels are no longer than the page.
            let stream = &body[page.levels as usize..];
            check_stream(compression, stream, (page.uncompressed - page.levels).into(), limit)?;
        }
        Ok(StoredPage { page, begin, is_compressed })
    }

    /// Whether a page's values are compressed. In a compressed column, a page of version 2 may be flagged as
    /// uncompressed. The flag is wrong if the page's stored and uncompressed sizes differ, or if its writer
    /// is known to flag all pages so.
    fn is_compressed(&self, at: usize, page: &Page, sum: &mut Sum) -> Result<bool> {
        if self.about.compression() == Compression::UNCOMPRESSED {
            return Ok(false);
        }
        let Some(flag) = page.not_compressed else {
            return Ok(true);
        };
        let always = self.created_by.is_some_and(|name| name.starts_with(WRONG_FLAGS));
        if page.uncompressed == page.compressed && !always {
            return Ok(false);
        }
        sum.wrong_flags.push(at + flag as usize);
        Ok(true)
    }

    fn dictionary(&self, page: &Page, sum: &mut Sum) -> Result<()> {
        let (values, uncompressed) = (u64::from(page.values), u64::from(page.uncompressed));
        if values.saturating_mul(self.leaf.smallest) > uncompressed {
            return Err(corrupt(format!("a dictionary of {values} values in {uncompressed} bytes")));
        }
        // Dictionaries have no other encodings.
        if ![Encoding::PLAIN as i32, Encoding::PLAIN_DICTIONARY as i32].contains(&page.encoding) {
            return Err(corrupt(format!(
                "a dictionary in encoding {}, which dictionaries do not have",
                page.encoding
            )));
        }
        let kept = values.saturating_mul(self.leaf.width);
        sum.uncompressed = sum.uncompressed.saturating_add(uncompressed);
        sum.demand.bytes = sum.demand.bytes.saturating_add(kept.saturating_add(uncompressed));
        Ok(())
    }

    fn check_v2(&self, page: &Page, body: &[u8]) -> Result<()> {
        if page.levels > page.compressed.min(page.uncompressed) {
            return Err(corrupt(format!(
                "{} bytes of levels in a page of {} bytes, of which {} are stored",
                page.levels, page.uncompressed, page.compressed
            )));
        }
        let Leaf { max_repetition, max_definition, .. } = *self.leaf;
        // Both kinds of levels are in bounds, since the sum of their lengths is.
        let (levels, values) = (&body[..page.levels as usize], page.values as usize);
        let (repetition, definition) = levels.split_at(page.repetition as usize);
        for (runs, max) in [(repetition, max_repetition), (definition, max_definition)] {
            // For levels that the column does not need, some writers store runs of zeros with no bits.
            if max == 0 && !runs.is_empty() {
                levels::check(runs, max, values)?;
            }
        }
        Ok(())
    }

    /// Counts the values of a data page.
    fn values(&self, page: &Page, is_compressed: bool, sum: &mut Sum) {
        let uncompressed = u64::from(page.uncompressed);
        sum.values = sum.values.saturating_add(page.values.into());
        sum.uncompressed = sum.uncompressed.saturating_add(uncompressed);
        let is_delta = page.encoding == Encoding::DELTA_BYTE_ARRAY as i32;
        if self.leaf.physical == Type::BYTE_ARRAY {
            let kept = if is_compressed || is_delta { uncompressed } else { 0 };
            sum.demand.bytes = sum.demand.bytes.saturating_add(kept);
            if is_delta {
                sum.demand.longest_repeated = sum.demand.longest_repeated.max(uncompressed);
            }
        }
    }

    /// Checks that the pages together agree with the footer.
    fn compare(&self, sum: &Sum) -> Result<()> {
        let values = self.about.values;
        if sum.values != values {
            return Err(corrupt(format!("the pages hold {} values, the footer says {values}", sum.values)));
        }
        match sum.uncompressed > self.most_uncompressed() {
            true => Err(self.other_bytes(sum.uncompressed)),
            false => Ok(()),
        }
    }

    /// The most bytes that the pages may have together when decompressed. The share of the memory budget that
    /// a row group is granted relies on it.
    fn most_uncompressed(&self) -> u64 {
        let most = match self.leaf.physical {
            Type::BYTE_ARRAY => 0,
            // The bytes of numbers follow from their count, whatever the footer says.
            _ => self.about.values.saturating_mul(2 * self.leaf.width.max(WIDEST_NUMBER) + LEVEL_BYTES),
        };
        self.about.uncompressed.max(self.bytes.len() as u64).max(most)
    }

    fn other_bytes(&self, bytes: u64) -> Error {
        corrupt(format!("the pages hold {bytes} bytes, the footer says {}", self.about.uncompressed))
    }
}

/// Checks that a stream does not decompress to more bytes than it claims, unless it is too short for this to
/// matter. A Snappy stream must not decompress to fewer either, because the Parquet crate would fill the rest
/// with zeros.
fn check_stream(compression: Compression, body: &[u8], claimed: u64, limit: u64) -> Result<()> {
    let length = body.len() as u64;
    let worst = |ratio| length.saturating_mul(ratio);
    let given = match compression {
        // A Snappy stream begins with its length, and the decoder relies on that alone.
        Compression::SNAPPY if claimed > 0 => {
            let length = snappy_length(body).unwrap_or(0);
            if length < claimed {
                let cause = format!("a page decompresses to {length} of the {claimed} bytes that it claims");
                return Err(corrupt(cause));
            }
            length
        }
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

/// The decompressed length that a Snappy stream states.
fn snappy_length(stream: &[u8]) -> Option<u64> {
    let mut length = 0;
    for (place, byte) in stream.iter().take(SNAPPY_LENGTH_BYTES).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(length);
        }
    }
    None
}

/// The number of bytes to which a stream decompresses, counted up to `claimed + 1`. Errors in the stream are
/// ignored here, because the decoder will refuse it.
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use forebay_base::ErrorKind;
    use parquet::basic::{BrotliLevel, GzipLevel, ZstdLevel};
    use parquet::file::metadata::ColumnChunkMetaData;
    use parquet::schema::types::{ColumnPath, Type as SchemaType};

    use super::*;

    fn about(
        physical: Type,
        compression: Compression,
        values: i64,
        uncompressed: i64,
    ) -> ColumnChunkMetaData {
        let of = SchemaType::primitive_type_builder("c", physical).build().unwrap();
        let descriptor = ColumnDescriptor::new(Arc::new(of), 0, 0, ColumnPath::from("c"));
        ColumnChunkMetaData::builder(Arc::new(descriptor))
            .set_compression(compression)
            .set_num_values(values)
            .set_total_uncompressed_size(uncompressed)
            .build()
            .unwrap()
    }

    /// Checks a chunk with `values` texts, one in each row.
    fn look(compression: Compression, values: i64, bytes: &[u8], limit: u64) -> Result<Checked> {
        let about = about(Type::BYTE_ARRAY, compression, values, 16 << 20);
        let bytes = Bytes::copy_from_slice(bytes);
        let rows = values as u64;
        let column = about.column_descr_ptr();
        let about = ColumnChunk::from_metadata(&column, &about);
        Chunk { leaf: &Leaf::for_column(&column), about: &about, bytes: &bytes, created_by: None }.check(
            rows,
            limit,
            &mut Vec::new(),
        )
    }

    fn kind(compression: Compression, bytes: &[u8], limit: u64) -> ErrorKind {
        look(compression, 1, bytes, limit).err().unwrap().kind()
    }

    fn varint(out: &mut Vec<u8>, value: u64) {
        let mut rest = value;
        while rest > 0x7f {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    /// The Thrift bytes of 32-bit integer fields with the ids 1, 2 and so on.
    fn integers(values: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in values {
            bytes.push(0x15);
            varint(&mut bytes, value << 1);
        }
        bytes
    }

    /// A page of this kind, whose header claims these numbers of bytes and values.
    fn page(kind: u64, uncompressed: u64, values: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = integers(&[kind, uncompressed, body.len() as u64]);
        bytes.push(if kind == DICTIONARY { 0x4c } else { 0x2c });
        bytes.extend(integers(&[values, 0, 3, 3]));
        bytes.extend([0, 0]);
        bytes.extend(body);
        bytes
    }

    /// A data page of version 2. `flag` is the Thrift type of its compression flag, which is also the flag's
    /// value.
    fn page_v2(uncompressed: u64, [values, nulls, rows]: [u64; 3], flag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = integers(&[3, uncompressed, body.len() as u64]);
        bytes.push(0x5c);
        bytes.extend(integers(&[values, nulls, rows, 0, 0, 0]));
        bytes.extend([0x10 | flag, 0, 0]);
        bytes.extend(body);
        bytes
    }

    const DICTIONARY: u64 = 2;
    const TRUE: u8 = 1;
    const FALSE: u8 = 2;

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
            assert!(look(compression, 1, &honest, 16 << 20).is_ok());
        }
        let lz4 = [&LZ4_FRAME[..], &[0; 10_000]].concat();
        assert_eq!(kind(Compression::LZ4, &page(0, 100, 1, &lz4), limit), ErrorKind::TooLarge);
    }

    /// The Parquet crate would use zeros for the missing bytes.
    #[test]
    fn a_snappy_stream_that_gives_less_than_it_claims_is_refused() {
        // The length, then a literal of 8 bytes.
        let stream = [&[8, 7 << 2][..], &[1; 8]].concat();
        assert!(look(Compression::SNAPPY, 1, &page(0, 8, 1, &stream), u64::MAX).is_ok());
        for claimed in [7, 9, 16] {
            assert_eq!(
                kind(Compression::SNAPPY, &page(0, claimed, 1, &stream), u64::MAX),
                ErrorKind::Corrupt,
                "{claimed}"
            );
        }
        assert_eq!(kind(Compression::SNAPPY, &page(0, 8, 1, &[0x80; 6]), u64::MAX), ErrorKind::Corrupt);
    }

    #[test]
    fn a_dictionary_cannot_have_more_values_than_bytes() {
        let bytes = page(DICTIONARY, 100, 1 << 30, &[0; 100]);
        assert_eq!(kind(Compression::UNCOMPRESSED, &bytes, u64::MAX), ErrorKind::Corrupt);
    }

    #[test]
    fn a_dictionary_in_an_encoding_that_none_has_is_damage() {
        let chunk = |encoding| {
            let mut bytes = integers(&[DICTIONARY, 8, 8]);
            bytes.push(0x4c);
            bytes.extend(integers(&[1, encoding]));
            bytes.extend([0, 0]);
            bytes.extend([0; 8]);
            bytes.extend(page(0, 8, 1, &[0; 8]));
            bytes
        };
        let sound = look(Compression::UNCOMPRESSED, 1, &chunk(Encoding::PLAIN as u64), u64::MAX);
        assert!(sound.is_ok(), "{:?}", sound.err());
        let error = look(Compression::UNCOMPRESSED, 1, &chunk(8), u64::MAX).err().unwrap();
        let said = "a dictionary in encoding 8, which dictionaries do not have";
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Corrupt, said.to_owned()));
    }

    #[test]
    fn a_page_that_is_longer_than_its_chunk_is_refused() {
        let bytes = page(0, 100, 1, &[0; 100]);
        assert_eq!(kind(Compression::UNCOMPRESSED, &bytes[..50], u64::MAX), ErrorKind::Corrupt);
        assert_eq!(kind(Compression::UNCOMPRESSED, &bytes[..4], u64::MAX), ErrorKind::Corrupt);
    }

    #[test]
    fn a_number_of_more_than_32_bits_is_refused() {
        let much = (1 << 32) + 1;
        for bytes in [
            page(much - 1, 8, 1, &[0; 8]),
            page(0, much + 7, 1, &[0; 8]),
            page(0, 8, much, &[0; 8]),
            page(DICTIONARY, 8, much, &[0; 8]),
            page_v2(8, [much, 0, 1], TRUE, &[0; 8]),
            page_v2(8, [1, much, 1], TRUE, &[0; 8]),
            page_v2(8, [1, 0, much], TRUE, &[0; 8]),
        ] {
            let error = look(Compression::UNCOMPRESSED, 1, &bytes, u64::MAX).err().unwrap();
            assert_eq!(error.to_string(), "a page header is malformed");
        }
    }

    /// The Parquet crate reads on as long as there are bytes.
    #[test]
    fn a_page_behind_the_values_that_the_footer_tells_of_is_refused() {
        let limit = 1 << 20;
        let honest = page(0, 8, 1, &[0; 8]);
        let zstd = Compression::ZSTD(ZstdLevel::default());
        assert!(look(Compression::UNCOMPRESSED, 1, &honest, limit).is_ok());
        for (claimed, refused) in [(8 << 20, ErrorKind::TooLarge), (1 << 30, ErrorKind::Corrupt)] {
            let bomb = page(0, claimed, 1, &[0; 8]);
            assert_eq!(kind(zstd, &[&honest[..], &bomb].concat(), limit), refused, "{claimed}");
        }
        assert_eq!(kind(Compression::UNCOMPRESSED, &honest.repeat(2), limit), ErrorKind::Corrupt);
        // Other bytes behind the last page are ignored, as all readers do.
        let followed = look(Compression::UNCOMPRESSED, 1, &[&honest[..], &[0x15; 9]].concat(), limit);
        assert!(followed.is_ok());
        let before = [&[0x15; 9], &honest[..]].concat();
        assert_eq!(kind(Compression::UNCOMPRESSED, &before, limit), ErrorKind::Corrupt);
    }

    #[test]
    fn pages_with_other_values_than_the_footer_says_are_refused() {
        let few = look(Compression::UNCOMPRESSED, 1 << 31, &page(0, 8, 15, &[0; 8]), u64::MAX);
        let error = few.err().unwrap();
        assert_eq!(error.to_string(), "the pages hold 15 values, the footer says 2147483648");
        for counts in [[1, 0, 1], [3, 0, 3], [3, 0, 2]] {
            let bytes = page_v2(8, counts, TRUE, &[0; 8]);
            let error = look(Compression::UNCOMPRESSED, 2, &bytes, u64::MAX).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{counts:?}");
        }
        // Wrong numbers of rows and nulls in the header are accepted, because the levels decide.
        for counts in [[2, 1, 2], [2, 0, 1], [2, 0, 0], [2, 0, 3], [2, 3, 2]] {
            let bytes = page_v2(8, counts, TRUE, &[0; 8]);
            assert!(look(Compression::UNCOMPRESSED, 2, &bytes, u64::MAX).is_ok(), "{counts:?}");
        }
    }

    #[test]
    fn a_page_with_the_header_of_another_kind_is_refused() {
        let header = integers(&[1, 0, 3, 3]);
        let two =
            [&integers(&[0, 8, 8])[..], &[0x2c], &header, &[0, 0x2c], &header, &[0, 0], &[0; 8]].concat();
        assert_eq!(kind(Compression::UNCOMPRESSED, &two, u64::MAX), ErrorKind::Corrupt);
        let other = [&integers(&[0, 8, 8])[..], &[0x4c], &header, &[0, 0], &[0; 8]].concat();
        assert_eq!(kind(Compression::UNCOMPRESSED, &other, u64::MAX), ErrorKind::Corrupt);
        let none = [&integers(&[0, 8, 8])[..], &[0], &[0; 8]].concat();
        assert_eq!(kind(Compression::UNCOMPRESSED, &none, u64::MAX), ErrorKind::Corrupt);
        let index = [&integers(&[1, 8, 8])[..], &[0x3c, 0, 0], &[0; 8]].concat();
        assert_eq!(kind(Compression::UNCOMPRESSED, &index, u64::MAX), ErrorKind::Corrupt);
    }

    #[test]
    fn a_page_of_two_sizes_without_a_codec_is_refused() {
        for uncompressed in [7, 9] {
            let bytes = page(0, uncompressed, 1, &[0; 8]);
            assert_eq!(kind(Compression::UNCOMPRESSED, &bytes, u64::MAX), ErrorKind::Corrupt);
        }
    }

    /// Arrow before 3.0 flagged every page of version 2 as uncompressed.
    #[test]
    fn a_flag_that_denies_a_compression_is_mended() {
        let stream = [&[8, 7 << 2][..], &[1; 8]].concat();
        let mended = |bytes: &[u8], created_by| {
            let about = about(Type::INT64, Compression::SNAPPY, 1, 100);
            let (column, bytes) = (about.column_descr_ptr(), Bytes::copy_from_slice(bytes));
            let about = ColumnChunk::from_metadata(&column, &about);
            Chunk { leaf: &Leaf::for_column(&column), about: &about, bytes: &bytes, created_by }
                .check(1, u64::MAX, &mut Vec::new())
                .unwrap()
                .mended
        };
        let denied = page_v2(8, [1, 0, 1], FALSE, &stream);
        let right = page_v2(8, [1, 0, 1], TRUE, &stream);
        assert_eq!(mended(&denied, None).as_deref(), Some(&right[..]));
        assert_eq!(mended(&right, None), None);
        // A page with exactly the claimed number of bytes counts as uncompressed, except from the writer with
        // wrong flags.
        let same = page_v2(10, [1, 0, 1], FALSE, &[&[10, 7 << 2][..], &[1; 8]].concat());
        assert_eq!(mended(&same, Some("parquet-cpp-arrow version 3.0.0")), None);
        assert!(mended(&same, Some("parquet-cpp version 1.5.1-SNAPSHOT")).is_some());
    }

    /// The memory that a row group is granted follows from the footer.
    #[test]
    fn more_bytes_than_the_footer_says_are_refused() {
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let bytes = Bytes::from(page(0, 1 << 20, 1, &[0; 8]));
        for (said, holds) in [(1 << 20, true), ((1 << 20) - 1, false), (0, false)] {
            let about = about(Type::BYTE_ARRAY, zstd, 1, said);
            let column = about.column_descr_ptr();
            let about = ColumnChunk::from_metadata(&column, &about);
            let chunk =
                Chunk { leaf: &Leaf::for_column(&column), about: &about, bytes: &bytes, created_by: None };
            assert_eq!(chunk.check(1, u64::MAX, &mut Vec::new()).is_ok(), holds, "{said}");
        }
    }
}

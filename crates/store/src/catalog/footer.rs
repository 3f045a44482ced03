//! The part of a file's footer that stays in memory: the number of rows in each row group, and where and how
//! the column chunks are stored.
//!
//! It takes about eight bytes for each column chunk, where the Parquet crate's own form takes a kilobyte.
//! Statistics, page indexes and the names of encodings are not kept: code that needs them reads the footer
//! again ([`source`](crate::source)).
//!
//! ```text
//! row group      rows, then its column chunks in the order of the schema
//! column chunk   flags, start, length, uncompressed length, values, unencoded length, nulls
//!                       └ unless it follows the chunk before ┘       └ if not one for each row; if the footer tells it
//!
//! The number of nulls is kept if a list of a fixed length is in one of varying length, because the number of
//! values in Arrow then depends on the nulls.
//! ```
//!
//! Each number takes as many bytes as it needs. Each row group can be decoded by itself.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use parquet::basic::{Compression, CompressionCodec, Encoding};
use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::{ColumnDescPtr, SchemaDescPtr};

use super::FileColumns;
use super::lists::LeafLists;

/// The compression codecs in the order of their numbers in Parquet. The lowest three flag bits are the
/// number.
const CODECS: [CompressionCodec; 8] = [
    CompressionCodec::UNCOMPRESSED,
    CompressionCodec::SNAPPY,
    CompressionCodec::GZIP,
    CompressionCodec::LZO,
    CompressionCodec::BROTLI,
    CompressionCodec::LZ4,
    CompressionCodec::ZSTD,
    CompressionCodec::LZ4_RAW,
];

const CODEC: u8 = 0b111;
/// The flag of a chunk that begins with a dictionary page.
const DICTIONARY: u8 = 1 << 3;
/// The flag of a chunk in which one of the encodings may store repeated values only once.
const REPEATS: u8 = 1 << 4;
/// The flag of a chunk that begins where the one before it ends.
const FOLLOWS: u8 = 1 << 5;
/// The flag of a chunk with one value for each row.
const ONE_A_ROW: u8 = 1 << 6;
/// The flag of a chunk whose footer entry gives the size of its texts before they were encoded.
const UNENCODED: u8 = 1 << 7;

/// The footer of a file, without the parts that only filters and reports need.
#[derive(Clone, Debug)]
pub struct Footer {
    /// The xxh3-64 hash of the footer's bytes: of its schema, statistics and offsets.
    pub(crate) hash: u64,
    /// The columns of the file, and their positions among the catalogue's columns.
    pub columns: Arc<FileColumns>,
    /// The encoded row groups, one after the other.
    bytes: Box<[u8]>,
    /// The offsets in `bytes` at which the row groups begin, except the first.
    starts: Box<[u32]>,
}

/// Describes how a column chunk is stored: its position in the file, its sizes and its encoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnChunk<'a> {
    /// The leaf column of the file's schema whose values the chunk holds.
    pub column: &'a ColumnDescPtr,
    pub(super) codec: CompressionCodec,
    /// Whether the chunk begins with a dictionary page.
    pub has_dictionary: bool,
    /// Whether one of its encodings may store repeated values only once.
    pub(crate) repeats: bool,
    start: u64,
    /// The number of bytes that the chunk takes in the file.
    pub length: u64,
    /// The number of bytes of the chunk's pages once they are decompressed.
    pub uncompressed: u64,
    /// The number of values, including nulls.
    pub values: u64,
    /// The bytes of the chunk's texts or binary values before they were encoded, with each repetition
    /// counted; `None` if the footer does not say.
    pub(crate) unencoded: Option<u64>,
    /// The nested lists that the chunk's values are in, if one of these has a fixed length.
    pub(super) lists: Option<&'a LeafLists>,
    /// The number of values that are null or inside a null list or structure. `None` if the footer does not
    /// say, or if the values in [`lists`](Self::lists) can be counted without this number.
    pub(super) nulls: Option<u64>,
}

impl Footer {
    /// Encodes the part of `metadata` that is kept. The numbers in `metadata` must have been checked.
    ///
    /// Fails with `TooLarge` if the encoded part takes more than 4 GiB.
    pub(crate) fn new(hash: u64, columns: Arc<FileColumns>, metadata: &ParquetMetaData) -> Result<Self> {
        let (mut bytes, mut starts) = (Vec::new(), Vec::new());
        for group in metadata.row_groups() {
            if !bytes.is_empty() {
                let start = u32::try_from(bytes.len());
                starts.push(start.map_err(|_| Error::new(ErrorKind::TooLarge, "too many column chunks"))?);
            }
            let rows = unsigned(group.num_rows());
            write(&mut bytes, rows);
            let mut end = 0;
            let chunks = columns.parquet.columns().iter().zip(group.columns()).enumerate();
            for (leaf, (column, chunk)) in chunks {
                let chunk = ColumnChunk::from_metadata(column, chunk).within(columns.lists(leaf), chunk);
                chunk.write(&mut bytes, rows, end);
                end = chunk.end();
            }
        }
        Ok(Footer { hash, columns, bytes: bytes.into(), starts: starts.into() })
    }

    /// The footer with other `columns`, which are mapped to those of a catalogue.
    pub(crate) fn with_columns(self, columns: Arc<FileColumns>) -> Self {
        Footer { columns, ..self }
    }

    /// The number of rows in each row group, in order.
    pub(crate) fn row_counts(&self) -> impl Iterator<Item = u64> {
        let groups = if self.bytes.is_empty() { 0 } else { self.starts.len() + 1 };
        (0..groups).map(|group| Varints(self.of_group(group)).next())
    }

    /// The number of rows in the file.
    pub(crate) fn rows(&self) -> u64 {
        self.row_counts().fold(0, u64::saturating_add)
    }

    /// The column chunks of a row group, in the order of the file's leaf columns.
    #[inline]
    pub(crate) fn chunks(&self, group: usize) -> impl Iterator<Item = ColumnChunk<'_>> {
        let mut numbers = Varints(self.of_group(group));
        let rows = numbers.next();
        let mut end = 0;
        self.columns.parquet.columns().iter().enumerate().map(move |(leaf, column)| {
            let lists = self.columns.lists(leaf);
            let chunk = ColumnChunk::read(column, lists, &mut numbers, rows, end);
            end = chunk.end();
            chunk
        })
    }

    /// The column chunks of a row group for the leaf columns `leaves`, whose indices must ascend.
    #[inline]
    pub fn chunks_at(
        &self,
        group: usize,
        leaves: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = (usize, ColumnChunk<'_>)> {
        let mut chunks = self.chunks(group).enumerate();
        leaves.into_iter().map_while(move |wanted| chunks.find(|(leaf, _)| *leaf == wanted))
    }

    /// The Parquet crate's metadata of a file that consists of one row group and of the top-level columns
    /// `roots`, in ascending order. The crate visits all columns in the metadata, so unread ones cost time.
    pub fn row_group(&self, group: usize, roots: &[usize]) -> Result<ParquetMetaData> {
        let parquet = self.columns.parquet_of(roots)?;
        let rows = Varints(self.of_group(group)).next();
        let chunks = self.chunks_at(group, self.columns.leaves_of(roots)).zip(parquet.columns());
        let chunks = chunks.map(|((_, chunk), column)| ColumnChunk { column, ..chunk });
        to_parquet(&parquet, rows, chunks)
    }

    /// Metadata like that of [`row_group`](Self::row_group), for some pages of one leaf column: they have
    /// `rows` rows and `values` values, and are the bytes `range` of the file.
    pub fn row_group_of_pages(
        &self,
        group: usize,
        leaf: usize,
        range: Range<u64>,
        rows: u64,
        values: u64,
    ) -> Result<ParquetMetaData> {
        let root = self.columns.parquet.get_column_root_idx(leaf);
        let parquet = self.columns.parquet_of(&[root])?;
        let chunks = self.chunks_at(group, self.columns.leaves_of(&[root])).zip(parquet.columns());
        let chunks = chunks.map(|((at, chunk), column)| match at == leaf {
            true => ColumnChunk { column, ..chunk.of_pages(range.clone(), values) },
            false => ColumnChunk { column, ..chunk },
        });
        to_parquet(&parquet, rows, chunks)
    }

    /// The bytes of memory that the footer takes, without its `columns`, which several files share.
    pub(crate) fn bytes(&self) -> u64 {
        (self.bytes.len() + size_of_val(&*self.starts)) as u64
    }

    fn of_group(&self, group: usize) -> &[u8] {
        let start = group.checked_sub(1).map_or(Some(0), |before| self.starts.get(before).copied());
        start.and_then(|start| self.bytes.get(start as usize..)).unwrap_or_default()
    }
}

/// The Parquet crate's metadata of a file with a single row group, which has `rows` rows and these chunks.
fn to_parquet<'a>(
    schema: &SchemaDescPtr,
    rows: u64,
    chunks: impl Iterator<Item = ColumnChunk<'a>>,
) -> Result<ParquetMetaData> {
    let rows = rows.cast_signed();
    let chunks = chunks.map(ColumnChunk::to_parquet).collect::<Result<Vec<_>>>()?;
    let group = RowGroupMetaData::builder(schema.clone()).set_num_rows(rows).set_column_metadata(chunks);
    // The decoder stops after the number of rows in the file metadata, so it must equal the row group's.
    let file = FileMetaData::new(1, rows, None, None, schema.clone(), None);
    Ok(ParquetMetaData::new(file, vec![group.build().or_fail()?]))
}

impl<'a> ColumnChunk<'a> {
    /// A chunk of only some of this chunk's pages: they have `values` values, and are the bytes `range` of
    /// the file.
    pub fn of_pages(self, range: Range<u64>, values: u64) -> Self {
        ColumnChunk { start: range.start, length: range.end - range.start, values, ..self }
    }

    /// A chunk that stands for `length` bytes and `values` values of this one when costs are computed. All
    /// pages are assumed to be compressed equally well.
    pub fn share(self, length: u64, values: u64) -> Self {
        let share = u128::from(self.uncompressed) * u128::from(length) / u128::from(self.length.max(1));
        ColumnChunk { length, values, uncompressed: u64::try_from(share).unwrap_or(u64::MAX), ..self }
    }

    /// Takes the properties that are kept from the footer's entry for a chunk. Negative numbers, which a
    /// checked footer does not have, become zero.
    pub fn from_metadata(column: &'a ColumnDescPtr, about: &ColumnChunkMetaData) -> Self {
        let repeats = |encoding| {
            matches!(
                encoding,
                Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY | Encoding::DELTA_BYTE_ARRAY
            )
        };
        let dictionary = about.dictionary_page_offset();
        ColumnChunk {
            column,
            codec: about.compression_codec(),
            has_dictionary: dictionary.is_some(),
            repeats: about.encodings().any(repeats),
            start: unsigned(dictionary.unwrap_or(about.data_page_offset())),
            length: unsigned(about.compressed_size()),
            uncompressed: unsigned(about.uncompressed_size()),
            values: unsigned(about.num_values()),
            unencoded: about.unencoded_byte_array_data_bytes().and_then(|bytes| u64::try_from(bytes).ok()),
            lists: None,
            nulls: None,
        }
    }

    /// Adds `lists` (the nested lists that the values are in, if one has a fixed length). Adds the number of
    /// nulls too, if the values in these lists cannot be counted without it.
    pub(super) fn within(self, lists: Option<&'a LeafLists>, about: &ColumnChunkMetaData) -> Self {
        let counted = lists.filter(|lists| lists.are_counted_by_nulls());
        let nulls = counted.and_then(|_| about.statistics()?.null_count_opt());
        ColumnChunk { lists, nulls, ..self }
    }

    /// The codec that the chunk's pages are compressed with.
    pub fn compression(&self) -> Compression {
        self.codec.into()
    }

    /// The byte range of the chunk in its file. It was checked when the footer was read.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end()
    }

    /// Converts the chunk to the Parquet crate's metadata, with the properties that decoding needs.
    pub(crate) fn to_parquet(self) -> Result<ColumnChunkMetaData> {
        let start = self.start.cast_signed();
        ColumnChunkMetaData::builder(self.column.clone())
            .set_compression_codec(self.codec)
            .set_num_values(self.values.cast_signed())
            .set_total_compressed_size(self.length.cast_signed())
            .set_total_uncompressed_size(self.uncompressed.cast_signed())
            .set_data_page_offset(start)
            .set_dictionary_page_offset(self.has_dictionary.then_some(start))
            .build()
            .or_fail()
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    fn write(&self, bytes: &mut Vec<u8>, rows: u64, end: u64) {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let (follows, one_a_row) = (self.start == end, self.values == rows);
        bytes.push(
            self.codec as u8 & CODEC
                | flag(self.has_dictionary, DICTIONARY)
                | flag(self.repeats, REPEATS)
                | flag(follows, FOLLOWS)
                | flag(one_a_row, ONE_A_ROW)
                | flag(self.unencoded.is_some(), UNENCODED),
        );
        if !follows {
            write(bytes, self.start);
        }
        write(bytes, self.length);
        write_near(bytes, self.uncompressed, self.length);
        if !one_a_row {
            write_near(bytes, self.values, rows);
        }
        if let Some(unencoded) = self.unencoded {
            write_near(bytes, unencoded, self.uncompressed);
        }
        if self.lists.is_some_and(LeafLists::are_counted_by_nulls) {
            write(bytes, self.nulls.map_or(0, |nulls| nulls.saturating_add(1)));
        }
    }

    #[inline]
    fn read(
        column: &'a ColumnDescPtr,
        lists: Option<&'a LeafLists>,
        numbers: &mut Varints<'_>,
        rows: u64,
        end: u64,
    ) -> Self {
        let flags = numbers.flags();
        let has = |flag: u8| flags & flag != 0;
        let start = if has(FOLLOWS) { end } else { numbers.next() };
        let length = numbers.next();
        let uncompressed = numbers.near(length);
        ColumnChunk {
            column,
            codec: CODECS[usize::from(flags & CODEC)],
            has_dictionary: has(DICTIONARY),
            repeats: has(REPEATS),
            start,
            length,
            uncompressed,
            values: if has(ONE_A_ROW) { rows } else { numbers.near(rows) },
            unencoded: has(UNENCODED).then(|| numbers.near(uncompressed)),
            lists,
            nulls: lists
                .filter(|lists| lists.are_counted_by_nulls())
                .and_then(|_| numbers.next().checked_sub(1)),
        }
    }
}

/// Reads numbers of variable length from the front of a slice. Beyond the end it gives zeros, which does not
/// happen with a footer that [`Footer::new`] wrote.
struct Varints<'a>(&'a [u8]);

impl Varints<'_> {
    #[inline]
    fn flags(&mut self) -> u8 {
        let Some((&flags, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        flags
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let (mut value, mut place) = (0, 0);
        while let Some((&byte, rest)) = self.0.split_first() {
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << place;
            place += 7;
            if byte & 0x80 == 0 || place >= u64::BITS {
                break;
            }
        }
        value
    }

    /// Reads a number that was written as its difference from another.
    #[inline]
    fn near(&mut self, other: u64) -> u64 {
        let zigzag = self.next();
        other.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg())
    }
}

/// Writes a number with seven bits in each byte, beginning with the lowest bits.
fn write(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Writes a number as its difference from `other`, which takes few bytes if the two are close.
fn write_near(bytes: &mut Vec<u8>, value: u64, other: u64) {
    let distance = value.wrapping_sub(other).cast_signed();
    write(bytes, ((distance << 1) ^ (distance >> 63)).cast_unsigned());
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

//! Where the pages of a column chunk are: the result of reading its offset index or its page headers.
//!
//! Source: [Parquet's page index](https://parquet.apache.org/docs/file-format/pageindex/). The index is only
//! there to save reads, so an index that is inconsistent is ignored.

use std::ops::Range;

use parquet::file::metadata::ColumnChunkMetaData;

use super::ColumnChunk;
use super::thrift::Compact;

/// The size in bytes of the largest index that is read. An index of a million pages takes about a quarter of
/// this size.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// The position and the rows of each data page of a column chunk. There is at least one page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageLocations {
    /// The number, within the row group, of the first row of each page. The numbers ascend from 0.
    first_rows: Vec<u32>,
    /// The byte range of each page in its file. The ranges ascend and are within the range of the column
    /// chunk.
    ranges: Vec<Range<u64>>,
    /// The number of rows in the row group.
    rows: u32,
    /// The pages with this index and all higher ones are known not to refer to the dictionary. It is the
    /// number of pages if this is known of no page.
    plain_from: usize,
}

impl PageLocations {
    /// Reads the offset index of `chunk`, whose row group has `rows` rows; `None` if it is malformed.
    pub fn read(bytes: &[u8], chunk: &ColumnChunk<'_>, rows: u64) -> Option<Self> {
        let rows = u32::try_from(rows).ok()?;
        let mut pages = None;
        Compact::new(bytes).structure(|input, id, kind| match id {
            1 => {
                pages = Some(input.list_of(kind, |input, _| page(input))?);
                Some(())
            }
            _ => input.skip(kind),
        })?;
        // Pages have no gaps between them and end with their chunk. If an index says otherwise, one of its
        // lengths is wrong.
        PageLocations::new(pages?, chunk, rows).filter(|pages| pages.are_without_gaps(chunk))
    }

    /// Creates the locations from the first row and the byte range of each page, in a chunk whose row group
    /// has `rows` rows. Returns `None` if they are inconsistent.
    pub fn new(pages: Vec<(u32, Range<u64>)>, chunk: &ColumnChunk<'_>, rows: u32) -> Option<Self> {
        let (first_rows, ranges): (Vec<u32>, Vec<Range<u64>>) = pages.into_iter().unzip();
        let of_chunk = chunk.range();
        let ascend = first_rows.windows(2).all(|pair| pair[0] < pair[1]);
        let follow = ranges.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let within = ranges.first()?.start >= of_chunk.start && ranges.last()?.end <= of_chunk.end;
        let begins = *first_rows.first()? == 0 && *first_rows.last()? < rows;
        let plain_from = first_rows.len();
        let is_sound = ascend && follow && within && begins;
        is_sound.then_some(PageLocations { first_rows, ranges, rows, plain_from })
    }

    fn are_without_gaps(&self, chunk: &ColumnChunk<'_>) -> bool {
        let ends_with = self.ranges.last().is_some_and(|last| last.end == chunk.range().end);
        ends_with && self.ranges.windows(2).all(|pair| pair[0].end == pair[1].start)
    }

    /// The same locations, with the knowledge that `page` and all later pages do not need the dictionary.
    pub fn plain_from(self, page: usize) -> Self {
        PageLocations { plain_from: page, ..self }
    }

    /// Whether a page may refer to the dictionary.
    pub fn may_need_dictionary(&self, page: usize) -> bool {
        page < self.plain_from
    }

    /// The number of pages.
    #[allow(clippy::len_without_is_empty, reason = "a chunk without pages has no locations")]
    pub fn len(&self) -> usize {
        self.first_rows.len()
    }

    /// The number, within the row group, of each page's first row.
    pub fn first_rows(&self) -> &[u32] {
        &self.first_rows
    }

    /// The rows of a page, as numbers within the row group.
    pub fn rows_of(&self, page: usize) -> Range<u32> {
        self.first_rows[page]..self.first_rows.get(page + 1).copied().unwrap_or(self.rows)
    }

    /// The index of the page that has the row `row` of the row group.
    pub fn page_of(&self, row: u32) -> usize {
        self.first_rows.partition_point(|first| *first <= row).saturating_sub(1)
    }

    /// The byte range of a page in its file.
    pub fn range(&self, page: usize) -> Range<u64> {
        self.ranges[page].clone()
    }
}

/// Reads one page's entry of an offset index: its first row and its byte range.
fn page(input: &mut Compact<'_>) -> Option<(u32, Range<u64>)> {
    let (mut offset, mut length, mut first) = (None, None, None);
    input.structure(|input, id, kind| {
        match id {
            1 => offset = Some(u64::try_from(input.i64(kind)?).ok()?),
            2 => length = Some(u64::try_from(input.i32(kind)?).ok()?),
            3 => first = Some(u32::try_from(input.i64(kind)?).ok()?),
            _ => input.skip(kind)?,
        }
        Some(())
    })?;
    let offset = offset?;
    Some((first?, offset..offset.checked_add(length?.max(1))?))
}

/// The byte range of a column chunk's offset index in the file; `None` if there is none or the range is not
/// valid.
pub fn offset_index(chunk: &ColumnChunkMetaData, file_bytes: u64) -> Option<Range<u64>> {
    within(chunk.offset_index_offset()?, chunk.offset_index_length()?, file_bytes)
}

/// The byte range of a column chunk's column index in the file; `None` if there is none or the range is not
/// valid.
pub fn column_index(chunk: &ColumnChunkMetaData, file_bytes: u64) -> Option<Range<u64>> {
    within(chunk.column_index_offset()?, chunk.column_index_length()?, file_bytes)
}

/// The byte range of a column chunk's Bloom filter in the file; `None` if there is none or the range is not
/// valid.
pub fn bloom_filter(chunk: &ColumnChunkMetaData, file_bytes: u64) -> Option<Range<u64>> {
    within(chunk.bloom_filter_offset()?, chunk.bloom_filter_length()?, file_bytes)
}

fn within(offset: i64, length: i32, file_bytes: u64) -> Option<Range<u64>> {
    let (start, length) = (u64::try_from(offset).ok()?, u64::try_from(length).ok()?);
    let end = start.checked_add(length)?;
    (length > 0 && length <= MAX_INDEX_BYTES && end <= file_bytes).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::Type;
    use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type as Node};

    use super::*;
    use crate::catalog::thrift::write::int;

    /// Writes an offset index from the offset, the length and the first row of each page.
    fn index(pages: &[(i64, i64, i64)]) -> Vec<u8> {
        let mut bytes = vec![0x19, (pages.len() as u8) << 4 | 0x0c];
        for (offset, length, first) in pages {
            for (header, value) in [(0x16, offset), (0x15, length), (0x16, first)] {
                bytes.push(header);
                bytes.extend(int(*value));
            }
            bytes.push(0);
        }
        bytes.push(0);
        bytes
    }

    fn read(bytes: &[u8]) -> Option<PageLocations> {
        let of = Node::primitive_type_builder("c", Type::INT32).build().unwrap();
        let column = Arc::new(ColumnDescriptor::new(Arc::new(of), 0, 0, ColumnPath::from("c")));
        let about = ColumnChunkMetaData::builder(column.clone())
            .set_data_page_offset(100)
            .set_total_compressed_size(50)
            .build()
            .unwrap();
        PageLocations::read(bytes, &ColumnChunk::from_metadata(&column, &about), 30)
    }

    #[test]
    fn pages_are_found_by_their_rows() {
        let pages = read(&index(&[(110, 10, 0), (120, 5, 12), (125, 25, 20)])).unwrap();
        assert_eq!(pages.len(), 3);
        assert_eq!((pages.rows_of(0), pages.rows_of(2)), (0..12, 20..30));
        assert_eq!([0, 11, 12, 29].map(|row| pages.page_of(row)), [0, 0, 1, 2]);
        assert_eq!(pages.range(2), 125..150);
    }

    #[test]
    fn an_index_that_makes_no_sense_is_none() {
        for pages in [
            &[][..],
            &[(110, 10, 1)],
            &[(99, 10, 0)],
            &[(110, 41, 0)],
            &[(110, 10, 0), (119, 5, 12)],
            &[(110, 10, 0), (120, 30, 0)],
            &[(110, 10, 0), (120, 30, 30)],
            &[(110, 9, 0), (120, 30, 12)],
            &[(110, 10, 0), (120, 29, 12)],
        ] {
            assert!(read(&index(pages)).is_none(), "{pages:?}");
        }
        let whole = index(&[(110, 10, 0), (120, 30, 12)]);
        assert!((0..whole.len()).all(|end| read(&whole[..end]).is_none()));
        // The index says that it has more pages than it has bytes.
        assert!(read(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0x0f]).is_none());
    }
}

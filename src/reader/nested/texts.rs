//! Decodes texts and binary values within nested columns to Arrow's views, which point into the pages, as the
//! Parquet crate does.

use std::sync::Arc;

use bytes::Bytes;
use forebay_arrow::array::{ArrayRef, BinaryViewArray, MAX_INLINE_VIEW_LEN, StringViewArray};
use forebay_arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use forebay_arrow::datatypes::{DataType, Field};
use forebay_store::catalog::page_header::PageKind;
use parquet::basic::{Encoding, Type};
use parquet::schema::types::ColumnDescriptor;

use crate::reader::numbers::{
    CheckedChunk, DataPage, Inflater, KeptLevels, indexed, is, spread, with_scratch,
};
use crate::reader::pages::StoredPage;

/// A column of texts or binary values.
pub(super) struct TextColumn<'a> {
    column: &'a ColumnDescriptor,
    are_texts: bool,
    levels: KeptLevels,
    /// The view of each stored value.
    views: Vec<u128>,
    /// The pages that views point into.
    pages: Vec<Buffer>,
}

impl<'a> TextColumn<'a> {
    pub(super) fn for_leaf(field: &Field, column: &'a ColumnDescriptor) -> Option<Self> {
        (column.physical_type() == Type::BYTE_ARRAY).then_some(())?;
        Some(TextColumn {
            column,
            are_texts: *field.data_type() == DataType::Utf8View,
            levels: KeptLevels::for_column(column)?,
            views: Vec::new(),
            pages: Vec::new(),
        })
    }

    pub(super) fn levels(&self) -> &KeptLevels {
        &self.levels
    }

    pub(super) fn append(&mut self, chunk: &CheckedChunk<'_>) -> Option<()> {
        if self.views.capacity() == 0 {
            self.views.reserve_exact(usize::try_from(chunk.about.values).ok()?);
        }
        self.levels.begin(chunk.rows);
        with_scratch(|scratch| {
            let mut dictionary = Vec::new();
            for (at, stored) in chunk.pages.iter().enumerate() {
                match stored.page.kind {
                    PageKind::Dictionary if at > 0 => return None,
                    PageKind::Dictionary => {
                        self.dictionary(chunk, stored, &mut scratch.inflater, &mut dictionary)?;
                    }
                    _ if is(stored.page.encoding, Encoding::PLAIN) => {
                        self.plain(chunk, stored, &mut scratch.inflater)?;
                    }
                    _ => self.indexed(chunk, stored, &mut scratch.inflater, &dictionary)?,
                }
            }
            scratch.inflater.trim();
            Some(())
        })
    }

    /// Reads the dictionary page of a chunk.
    fn dictionary(
        &mut self,
        chunk: &CheckedChunk<'_>,
        stored: &StoredPage,
        inflater: &mut Inflater,
        dictionary: &mut Vec<u128>,
    ) -> Option<()> {
        let encoding = stored.page.encoding;
        (is(encoding, Encoding::PLAIN) || is(encoding, Encoding::PLAIN_DICTIONARY)).then_some(())?;
        let page = inflated(chunk, stored, inflater)?;
        let count = stored.page.values as usize;
        self.views_of(&page, 0, count, dictionary)
    }

    /// Reads a page that stores its values one after the other.
    fn plain(
        &mut self,
        chunk: &CheckedChunk<'_>,
        stored: &StoredPage,
        inflater: &mut Inflater,
    ) -> Option<()> {
        let (levels, _) = chunk.body(stored)?;
        let bytes = inflated(chunk, stored, inflater)?;
        let page = DataPage::parse(stored, self.column, levels, &bytes)?;
        let count = self.levels.page(&page)?;
        let from = bytes.len() - page.values.len();
        let mut views = std::mem::take(&mut self.views);
        let appended = self.views_of(&bytes, from, count, &mut views);
        self.views = views;
        appended
    }

    /// Reads a page of indices into the dictionary.
    fn indexed(
        &mut self,
        chunk: &CheckedChunk<'_>,
        stored: &StoredPage,
        inflater: &mut Inflater,
        dictionary: &[u128],
    ) -> Option<()> {
        let encoding = stored.page.encoding;
        (is(encoding, Encoding::RLE_DICTIONARY) || is(encoding, Encoding::PLAIN_DICTIONARY)).then_some(())?;
        let (levels, values) = chunk.body(stored)?;
        let values = match stored.is_compressed {
            true => inflater.inflate(chunk.about.compression(), values, length(stored))?,
            false => values,
        };
        let page = DataPage::parse(stored, self.column, levels, values)?;
        match self.levels.page(&page)? {
            0 => Some(()),
            count => indexed(page.values, count, dictionary, &mut self.views),
        }
    }

    /// Appends views of the `count` values that the page stores from byte `from` on, each after its length;
    /// `None` if the page holds fewer values or other bytes. The page is kept if one of the values is too
    /// long to be stored in its view.
    fn views_of(&mut self, page: &Bytes, from: usize, count: usize, views: &mut Vec<u128>) -> Option<()> {
        let buffer = u32::try_from(self.pages.len()).ok()?;
        u32::try_from(page.len()).ok()?;
        let (mut at, mut is_kept) = (from, false);
        for _ in 0..count {
            let length = u32::from_le_bytes(*page.get(at..)?.first_chunk()?);
            at += size_of::<u32>();
            let value = page.get(at..at.checked_add(length as usize)?)?;
            let is_inline = length <= MAX_INLINE_VIEW_LEN;
            views.push(match is_inline {
                true => inline(value),
                false => outside(value, buffer, at as u32)?,
            });
            is_kept |= !is_inline;
            at += value.len();
        }
        (at == page.len()).then_some(())?;
        if is_kept {
            self.pages.push(Buffer::from(page.clone()));
        }
        Some(())
    }

    /// The array of `len` values, including nulls; `None` if a text is not UTF-8.
    pub(super) fn finish(mut self, len: usize, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
        spread(&mut self.views, len, nulls.as_ref())?;
        let views = ScalarBuffer::from(self.views);
        Some(match self.are_texts {
            true => Arc::new(StringViewArray::try_new(views, self.pages, nulls).ok()?),
            false => Arc::new(BinaryViewArray::try_new(views, self.pages, nulls).ok()?),
        })
    }
}

/// The number of bytes of a page without its uncompressed levels, after decompression.
fn length(stored: &StoredPage) -> usize {
    (stored.page.uncompressed - stored.page.levels) as usize
}

/// The bytes of a page for views to point into: the fetched bytes if they are not compressed, or else
/// decompressed bytes in new memory.
fn inflated(chunk: &CheckedChunk<'_>, stored: &StoredPage, inflater: &mut Inflater) -> Option<Bytes> {
    let (_, stream) = chunk.body(stored)?;
    if !stored.is_compressed {
        return Some(chunk.fetched.slice_ref(stream));
    }
    let mut page = vec![0; length(stored)];
    inflater.inflate_into(chunk.about.compression(), stream, &mut page)?;
    Some(page.into())
}

/// The view of a value that is short enough to lie within the view: its length, then its bytes.
fn inline(value: &[u8]) -> u128 {
    let mut view = [0; size_of::<u128>()];
    view[..size_of::<u32>()].copy_from_slice(&(value.len() as u32).to_le_bytes());
    view[size_of::<u32>()..][..value.len()].copy_from_slice(value);
    u128::from_le_bytes(view)
}

/// The view of a longer value: its length and first bytes, then the index of a buffer and the offset in it.
fn outside(value: &[u8], buffer: u32, offset: u32) -> Option<u128> {
    let prefix = u32::from_le_bytes(*value.first_chunk()?);
    let words = [value.len() as u32, prefix, buffer, offset];
    Some(words.iter().rev().fold(0, |view, word| view << u32::BITS | u128::from(*word)))
}

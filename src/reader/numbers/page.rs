//! Splits the pages of a column chunk into levels and values, and decodes the values.

use bytes::Bytes;
use forebay_store::catalog::ColumnChunk;
use forebay_store::catalog::page_header::PageKind;
use parquet::basic::{Encoding, Type};
use parquet::schema::types::ColumnDescriptor;

use super::form::Form;
use super::scratch::Memory;
use super::validity::Validity;
use super::values::{self, Value};
use crate::reader::pages::{StoredPage, split_levels, whole_deltas};

/// A column chunk whose pages were checked.
pub(in crate::reader) struct CheckedChunk<'a> {
    pub(in crate::reader) about: &'a ColumnChunk<'a>,
    /// The bytes that were fetched together with the chunk.
    pub(in crate::reader) fetched: &'a Bytes,
    /// The bytes of the chunk, which are a part of `fetched`.
    pub(in crate::reader) bytes: &'a [u8],
    pub(in crate::reader) pages: &'a [StoredPage],
    /// The number of rows of the chunk's row group.
    pub(in crate::reader) rows: usize,
}

impl<'a> CheckedChunk<'a> {
    /// Splits the content of a page into the uncompressed levels at its beginning, which only pages of
    /// version 2 have, and the rest, which may be compressed. `None` if its checksum is wrong.
    pub(in crate::reader) fn body(&self, stored: &StoredPage) -> Option<(&'a [u8], &'a [u8])> {
        let body = self.bytes.get(stored.body())?;
        if stored.page.crc.is_some_and(|crc| crc32fast::hash(body) != crc) {
            return None;
        }
        body.split_at_checked(stored.page.levels as usize)
    }
}

/// The levels and values of one data page.
pub(in crate::reader) struct DataPage<'a> {
    /// The number of values, including nulls.
    pub(super) count: usize,
    pub(in crate::reader) encoding: i32,
    pub(super) repetition: &'a [u8],
    pub(super) definition: &'a [u8],
    pub(in crate::reader) values: &'a [u8],
    /// Whether the page has version 2, whose header says where the values begin. The header has no checksum,
    /// so this may be wrong.
    is_v2: bool,
}

impl<'a> DataPage<'a> {
    /// Splits a page of either version into its parts; `values` are not compressed.
    pub(in crate::reader) fn parse(
        stored: &StoredPage,
        column: &ColumnDescriptor,
        levels: &'a [u8],
        values: &'a [u8],
    ) -> Option<Self> {
        let count = stored.page.values as usize;
        // Only whole numbers are stored as differences.
        let is_float = matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE);
        (!is_float || !is(stored.page.encoding, Encoding::DELTA_BINARY_PACKED)).then_some(())?;
        if stored.page.kind == PageKind::Data {
            return DataPage::of_v1(stored, [column.max_rep_level(), column.max_def_level()], values, count);
        }
        let (repetition, definition) = levels.split_at_checked(stored.page.repetition as usize)?;
        Some(DataPage { count, encoding: stored.page.encoding, repetition, definition, values, is_v2: true })
    }

    /// A page of levels alone.
    #[cfg(test)]
    pub(super) fn of_levels(count: usize, repetition: &'a [u8], definition: &'a [u8]) -> Self {
        DataPage { count, encoding: 0, repetition, definition, values: &[], is_v2: false }
    }

    /// Splits a page of version 1, in which the repetition levels and then the definition levels precede the
    /// values, each kind after its length.
    fn of_v1(stored: &StoredPage, most: [i16; 2], body: &'a [u8], count: usize) -> Option<Self> {
        let mut rest = body;
        let mut levels = [&[][..]; 2];
        for ((levels, most), encoding) in levels.iter_mut().zip(most).zip(stored.page.level_encodings) {
            if most == 0 {
                continue;
            }
            if !is(encoding, Encoding::RLE) {
                return None;
            }
            (*levels, rest) = split_levels(rest)?;
        }
        let [repetition, definition] = levels;
        let encoding = stored.page.encoding;
        Some(DataPage { count, encoding, repetition, definition, values: rest, is_v2: false })
    }

    /// Appends the values of the page, one for each index from `from` on in `validity`. `there` of them are
    /// stored; the others are null and become zeros.
    pub(super) fn values<T: Value>(
        &self,
        form: Form<'_>,
        there: usize,
        from: usize,
        validity: &Validity,
        Memory { dictionary, dense }: &mut Memory<T>,
        out: &mut Vec<T>,
    ) -> Option<()> {
        let has_nulls = there < validity.len() - from;
        dense.clear();
        let target = if has_nulls { &mut *dense } else { &mut *out };
        match self.encoding {
            _ if there == 0 => {}
            encoding if is(encoding, Encoding::PLAIN) => form.plain(self.values, there, target)?,
            encoding
                if is(encoding, Encoding::RLE_DICTIONARY) || is(encoding, Encoding::PLAIN_DICTIONARY) =>
            {
                values::indexed(self.values, there, dictionary, target)?;
            }
            encoding if is(encoding, Encoding::RLE) && matches!(form, Form::Booleans) => {
                values::bits_in_runs(self.values, there, target)?;
            }
            _ if !form.are_numbers() => return None,
            encoding if is(encoding, Encoding::BYTE_STREAM_SPLIT) => {
                values::split(self.values, there, target)?
            }
            encoding if is(encoding, Encoding::DELTA_BINARY_PACKED) => {
                values::differences(self.values, there, target)?;
            }
            _ => return None,
        }
        if has_nulls {
            validity.spread(from, dense, out);
        }
        Some(())
    }

    /// Whether a page whose values could not be decoded is damaged, and not merely unusual: values are
    /// missing, refer to entries that the dictionary lacks, or may begin at another byte.
    pub(super) fn ends_early<T: Value>(&self, there: usize) -> bool {
        let stored = there.saturating_mul(T::STORED);
        match self.encoding {
            encoding if is(encoding, Encoding::PLAIN) && self.is_v2 => self.values.len() != stored,
            encoding if is(encoding, Encoding::PLAIN) => self.values.len() < stored,
            encoding if is(encoding, Encoding::BYTE_STREAM_SPLIT) => self.values.len() != stored,
            encoding if is(encoding, Encoding::DELTA_BINARY_PACKED) => {
                whole_deltas(self.values, there as u32).is_none_or(|count| count < there)
            }
            encoding => is(encoding, Encoding::RLE_DICTIONARY) || is(encoding, Encoding::PLAIN_DICTIONARY),
        }
    }
}

/// Whether a number stands for the encoding `of`.
pub(in crate::reader) fn is(encoding: i32, of: Encoding) -> bool {
    encoding == of as i32
}

//! The levels of a leaf of a nested column, kept as they are stored until all leaves of the column are read.

use parquet::schema::types::ColumnDescriptor;

use super::page::DataPage;
use super::validity::Validity;
use crate::reader::pages::highest_of;

/// The levels of a leaf's pages. If they are equal for two leaves, the leaves have their values, and the
/// lists and nulls around these, in the same places.
#[derive(Default)]
pub(in crate::reader) struct KeptLevels {
    /// The highest definition level.
    highest: i16,
    chunks: Vec<KeptChunk>,
    pages: Vec<KeptPage>,
    /// The stored levels of all pages: repetition levels, then definition levels, page by page.
    bytes: Vec<u8>,
    stored: Validity,
}

/// A column chunk: its rows, and the number of pages before its first one.
#[derive(PartialEq, Eq)]
struct KeptChunk {
    rows: usize,
    first: usize,
}

#[derive(PartialEq, Eq)]
struct KeptPage {
    /// The number of values, including nulls.
    values: usize,
    /// Whether the page has neither nulls nor empty lists. Its definition levels are then not kept.
    are_stored: bool,
    /// The number of bytes of the page's repetition levels, then of its definition levels.
    repetition: usize,
    definition: usize,
}

/// The number of a page's values, its repetition levels and its definition levels.
#[cfg(test)]
type TestPage<'a> = (usize, &'a [u8], &'a [u8]);

/// The levels of a page.
pub(in crate::reader) struct PageLevels<'a> {
    /// The number of definition levels, and of repetition levels if there are any.
    pub(in crate::reader) count: usize,
    pub(in crate::reader) repetition: &'a [u8],
    /// The definition levels; `None` if all of them are the highest.
    pub(in crate::reader) definition: Option<&'a [u8]>,
}

impl KeptLevels {
    pub(in crate::reader) fn for_column(column: &ColumnDescriptor) -> Option<Self> {
        let highest = column.max_def_level();
        (highest >= 0).then(|| KeptLevels { highest, ..KeptLevels::default() })
    }

    /// Begins a chunk of this many rows.
    pub(in crate::reader) fn begin(&mut self, rows: usize) {
        self.chunks.push(KeptChunk { rows, first: self.pages.len() });
    }

    /// Keeps the levels of a page, and returns the number of stored values.
    pub(in crate::reader) fn page(&mut self, page: &DataPage<'_>) -> Option<usize> {
        let stored = match self.highest {
            0 => page.count,
            highest => highest_of(page.definition, highest, page.count)?,
        };
        self.keep(page, stored == page.count);
        self.stored.append(true, stored);
        Some(stored)
    }

    /// Keeps the levels of a page. If all of its values are stored, its definition levels are left out.
    fn keep(&mut self, page: &DataPage<'_>, are_stored: bool) {
        let definition = if are_stored { &[] } else { page.definition };
        self.bytes.extend_from_slice(page.repetition);
        self.bytes.extend_from_slice(definition);
        self.pages.push(KeptPage {
            values: page.count,
            are_stored,
            repetition: page.repetition.len(),
            definition: definition.len(),
        });
    }

    /// The validity of the stored values. Nulls are not stored, so all of them are valid.
    pub(in crate::reader) fn stored(&self) -> &Validity {
        &self.stored
    }

    /// The number of values in all pages, including nulls.
    pub(in crate::reader) fn values(&self) -> usize {
        self.pages.iter().map(|page| page.values).sum()
    }

    /// Whether the levels of another leaf are the same.
    pub(in crate::reader) fn equal(&self, other: &Self) -> bool {
        self.chunks == other.chunks && self.pages == other.pages && self.bytes == other.bytes
    }

    /// Calls `each` for each column chunk, with its number of rows and the levels of its pages.
    pub(in crate::reader) fn each_chunk(
        &self,
        mut each: impl FnMut(usize, &mut dyn Iterator<Item = PageLevels<'_>>) -> Option<()>,
    ) -> Option<()> {
        let mut rest = &self.bytes[..];
        for (at, chunk) in self.chunks.iter().enumerate() {
            let end = self.chunks.get(at + 1).map_or(self.pages.len(), |next| next.first);
            let mut pages = self.pages[chunk.first..end].iter().map(|page| {
                let (repetition, after) = rest.split_at(page.repetition);
                let (definition, after) = after.split_at(page.definition);
                rest = after;
                let definition = (!page.are_stored).then_some(definition);
                PageLevels { count: page.values, repetition, definition }
            });
            each(chunk.rows, &mut pages)?;
        }
        Some(())
    }

    /// Keeps the levels of test pages. `chunks` has the number of rows and the pages of each column chunk;
    /// `highest` is the highest definition level.
    #[cfg(test)]
    pub(in crate::reader) fn of_pages(highest: i16, chunks: &[(usize, &[TestPage<'_>])]) -> Self {
        let mut levels = KeptLevels { highest, ..KeptLevels::default() };
        for (rows, pages) in chunks {
            levels.begin(*rows);
            for (count, repetition, definition) in *pages {
                let page = DataPage::of_levels(*count, repetition, definition);
                if levels.page(&page).is_none() {
                    levels.keep(&page, false);
                }
            }
        }
        levels
    }
}

//! Gives fetched column chunks to the Parquet crate page by page. Each page is checked after it is
//! decompressed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use forebay_arrow::error::ArrowError;
use forebay_base::{Error, ErrorKind, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Repetition;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::reader::held::Held;
use crate::reader::pages::{Bodies, Depth};

/// The prefix of the Parquet crate's messages about features that it does not support.
const NOT_READ: &str = "NYI: ";

/// The column chunks of a row group.
pub(super) struct FetchedChunks {
    /// The metadata of the row group alone.
    metadata: ParquetMetaData,
    /// One chunk for each leaf column; `None` for those that are not read.
    chunks: Vec<Option<CheckedChunk>>,
    /// Leaves that follow each other in a structure, and the depth of the structure.
    siblings: Vec<Siblings>,
    /// The pages of each leaf that is being decoded.
    begun: Mutex<Vec<Arc<Mutex<CheckedPages>>>>,
    /// The structures around each leaf, known after all pages of the leaf have been read.
    outlines: Arc<Mutex<HashMap<usize, Outlines>>>,
    /// The first error that was found in a page, because the Parquet crate passes on only the text of an
    /// error.
    wrong: Arc<OnceLock<Error>>,
}

/// The pages of a leaf column, which were checked.
#[derive(Clone)]
struct CheckedChunk {
    held: Arc<Held>,
    /// The number of pages.
    pages: usize,
}

/// Two leaves of one structure.
struct Siblings {
    leaves: [usize; 2],
    depth: Depth,
}

/// For each structure around a leaf, its depth and a summary of its rows and items.
type Outlines = Vec<(Depth, u128)>;

impl FetchedChunks {
    /// Takes the chunks of the leaf columns of `mask` from `bytes`, which has them by their ranges in the
    /// file. `pages` has the number of pages of each leaf.
    pub(super) fn new(
        metadata: ParquetMetaData,
        mask: &ProjectionMask,
        bytes: impl Fn(&Range<u64>) -> Result<Bytes>,
        pages: impl Fn(usize) -> Result<usize>,
    ) -> Result<Self> {
        let chunks = metadata.row_group(0).columns().iter().enumerate().map(|(leaf, about)| {
            let (start, length) = about.byte_range();
            let chunk = || {
                let bytes = bytes(&(start..start.saturating_add(length)))?;
                Ok(CheckedChunk { held: Arc::new(Held { start, bytes }), pages: pages(leaf)? })
            };
            mask.leaf_included(leaf).then(chunk).transpose()
        });
        let chunks = chunks.collect::<Result<_>>()?;
        let siblings = siblings(metadata.file_metadata().schema_descr(), mask);
        let begun = Mutex::default();
        Ok(FetchedChunks {
            metadata,
            chunks,
            siblings,
            begun,
            outlines: Arc::default(),
            wrong: Arc::default(),
        })
    }

    /// Checks the pages that the decoder did not read, after the last selected row. The rows that were read
    /// may not be those that were meant, and only all pages of a chunk show that.
    ///
    /// # Errors
    /// `Corrupt` if all pages of a leaf together have another number of rows than its row group, or if leaves
    /// of one structure disagree on which of its rows or items exist.
    pub(super) fn finish(&self) -> Result<()> {
        for pages in self.begun.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let read = lock(pages).read_rest();
            read.map_err(|error| self.failure(error.into()))?;
        }
        self.compare()
    }

    /// Fails with `Corrupt` if leaves of one structure, whose pages were all read, disagree on which of its
    /// rows or items exist.
    fn compare(&self) -> Result<()> {
        let outlines = self.outlines.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |leaf: usize, depth: Depth| {
            let mut outlines = outlines.get(&leaf)?.iter();
            outlines.find_map(|(of, outline)| (*of == depth).then_some(*outline))
        };
        let differ = |siblings: &&Siblings| {
            let [one, other] = siblings.leaves.map(|leaf| of(leaf, siblings.depth));
            one.zip(other).is_some_and(|(one, other)| one != other)
        };
        let Some(siblings) = self.siblings.iter().find(differ) else { return Ok(()) };
        let columns = self.metadata.row_group(0).columns();
        let [one, other] = siblings.leaves.map(|leaf| columns[leaf].column_path().string());
        let cause = format!("{one} and {other} disagree which values of the structure around them are there");
        Err(Error::new(ErrorKind::Corrupt, cause))
    }

    /// The error of a decoder of these chunks.
    pub(super) fn failure(&self, error: ArrowError) -> Error {
        if let Some(wrong) = self.wrong.get() {
            return wrong.clone();
        }
        let text = match &error {
            ArrowError::ParquetError(text) => text.clone(),
            other => other.to_string(),
        };
        match text.strip_prefix(NOT_READ) {
            Some(what) => Error::new(ErrorKind::Unsupported, what),
            None => Error::new(ErrorKind::Corrupt, text),
        }
        .caused_by(error)
    }
}

impl RowGroups for FetchedChunks {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(0).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let chunk = self.chunks.get(leaf).cloned().flatten();
        let chunk =
            chunk.ok_or_else(|| ParquetError::General(format!("leaf column {leaf} was not fetched")))?;
        let about = self.metadata.row_group(0).column(leaf);
        let path = path(self.metadata.file_metadata().schema_descr(), leaf);
        let mut shared: Vec<Depth> = Vec::new();
        for siblings in self.siblings.iter().filter(|siblings| siblings.leaves.contains(&leaf)) {
            if !shared.contains(&siblings.depth) {
                shared.push(siblings.depth);
            }
        }
        let CheckedChunk { held, pages } = chunk;
        let pages = Arc::new(Mutex::new(CheckedPages {
            pages: SerializedPageReader::new(held, about, self.num_rows(), None)?,
            left: pages,
            rows: self.num_rows(),
            bodies: Bodies::for_column(about.column_descr(), path.into_iter(), &shared),
            leaf,
            outlines: self.outlines.clone(),
            wrong: self.wrong.clone(),
        }));
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(pages.clone());
        Ok(Box::new(OneChunk(Some(SharedPages(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The nodes from a column down to one of its leaves.
fn path(schema: &SchemaDescriptor, leaf: usize) -> Vec<Repetition> {
    let column = schema.column(leaf);
    let mut node = schema.get_column_root(leaf);
    let mut path = vec![node.get_basic_info().repetition()];
    for name in column.path().parts().iter().skip(1) {
        let Some(child) = node.get_fields().iter().find(|child| child.name() == name) else { break };
        node = child;
        path.push(node.get_basic_info().repetition());
    }
    path
}

/// The pairs of neighbouring leaves of `mask` that lie in one structure or list whose rows or items may be
/// missing. Leaves further apart need no pair: all leaves between them lie in the same structure.
fn siblings(schema: &SchemaDescriptor, mask: &ProjectionMask) -> Vec<Siblings> {
    let is_read = |leaf: &usize| mask.leaf_included(*leaf);
    let is_nested = |leaf: usize| schema.column(leaf).path().parts().len() > 1;
    if !(0..schema.num_columns()).filter(is_read).any(is_nested) {
        return Vec::new();
    }
    let (mut paths, mut around) = (Vec::new(), Vec::new());
    let mut seen = 0;
    schema.root_schema().get_fields().iter().for_each(|root| walk(root, &mut around, &mut seen, &mut paths));
    let leaves: Vec<usize> = (0..paths.len()).filter(is_read).collect();
    let pairs = leaves.windows(2).filter_map(|pair| {
        let common = paths[pair[0]].iter().zip(&paths[pair[1]]).take_while(|(one, other)| one.0 == other.0);
        let mut depth = Depth::default();
        for ((_, repetition), _) in common {
            depth.repetition += u16::from(*repetition == Repetition::REPEATED);
            depth.definition += u16::from(*repetition != Repetition::REQUIRED);
        }
        (depth.definition > 0).then_some(Siblings { leaves: [pair[0], pair[1]], depth })
    });
    pairs.collect()
}

/// Appends the path of each leaf of a node: the nodes down to it, each with its number.
fn walk(
    node: &Type,
    around: &mut Vec<(usize, Repetition)>,
    seen: &mut usize,
    paths: &mut Vec<Vec<(usize, Repetition)>>,
) {
    *seen += 1;
    around.push((*seen, node.get_basic_info().repetition()));
    match node {
        Type::PrimitiveType { .. } => paths.push(around.clone()),
        Type::GroupType { fields, .. } => fields.iter().for_each(|field| walk(field, around, seen, paths)),
    }
    around.pop();
}

/// The only chunk of a column, as the Parquet crate asks for it.
struct OneChunk(Option<SharedPages>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}

/// The pages of a chunk, whose rest is read when the decoder has what it needs.
struct SharedPages(Arc<Mutex<CheckedPages>>);

impl Iterator for SharedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for SharedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        lock(&self.0).next_with_values()
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        lock(&self.0).peek()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        lock(&self.0).skip()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        lock(&self.0).pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> ParquetResult<Option<Page>> {
        lock(&self.0).pages.take_deferred_dictionary()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        // In either version of pages, a row may continue in the next page.
        Ok(lock(&self.0).left == 0)
    }
}

fn lock(pages: &Mutex<CheckedPages>) -> MutexGuard<'_, CheckedPages> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pages of a chunk.
struct CheckedPages {
    pages: SerializedPageReader<Held>,
    /// The number of pages that are left. Bytes after them are not pages.
    left: usize,
    /// The number of rows of the row group.
    rows: usize,
    bodies: Bodies,
    leaf: usize,
    outlines: Arc<Mutex<HashMap<usize, Outlines>>>,
    wrong: Arc<OnceLock<Error>>,
}

impl CheckedPages {
    /// The next page, checked; `None` after the last one.
    fn step(&mut self) -> ParquetResult<Option<Page>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let Some(page) = self.pages.get_next_page()? else {
            self.left = 0;
            return Ok(None);
        };
        let page = self.check(page).map_err(|error| {
            let text = error.to_string();
            // Only the first error is kept.
            let _ = self.wrong.set(error);
            ParquetError::General(text)
        })?;
        Ok(Some(page))
    }

    /// Checks a page, and returns it as it is to be decoded.
    fn check(&mut self, page: Page) -> Result<Page> {
        let page = self.bodies.check(page)?;
        if let Some(rows) = self.bodies.rows() {
            let cause = match self.rows {
                all if rows > all => format!("the pages hold more rows than the {all} that the footer says"),
                all if rows < all && self.left == 0 => format!("the pages hold {rows} of {all} rows"),
                _ => String::new(),
            };
            if !cause.is_empty() {
                return Err(Error::new(ErrorKind::Corrupt, cause));
            }
        }
        if self.left == 0 {
            let outlines = self.bodies.outlines();
            self.outlines.lock().unwrap_or_else(PoisonError::into_inner).insert(self.leaf, outlines);
        }
        Ok(page)
    }

    fn next_with_values(&mut self) -> ParquetResult<Option<Page>> {
        while let Some(page) = self.step()? {
            // The Parquet crate would treat a page without values as the end.
            if page.is_dictionary_page() || page.num_values() > 0 {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    fn peek(&mut self) -> ParquetResult<Option<PageMetadata>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut peeked = self.pages.peek_next_page()?;
        // The number of rows in a header may be wrong, and a row may continue in the next page, so the levels
        // decide.
        if let Some(page) = &mut peeked {
            page.num_rows = None;
        }
        Ok(peeked)
    }

    /// Skips a page, unless only all pages together show whether the chunk is valid. The dictionary may be
    /// read later.
    fn skip(&mut self) -> ParquetResult<()> {
        let is_dictionary = self.pages.peek_next_page()?.is_some_and(|page| page.is_dict);
        if !is_dictionary && self.bodies.are_together() {
            return self.step().map(drop);
        }
        self.left = self.left.saturating_sub(1);
        self.pages.skip_next_page()
    }

    /// Reads the remaining pages, if only all of them together show whether the chunk is valid.
    fn read_rest(&mut self) -> ParquetResult<()> {
        while self.bodies.are_together() && self.step()?.is_some() {}
        Ok(())
    }
}

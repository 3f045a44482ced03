//! Gives fetched column chunks to the Parquet crate page by page. Each page is checked after decompression.

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

/// The beginning of the Parquet crate's messages about features that it does not support.
const NOT_READ: &str = "NYI: ";

/// The fetched column chunks of a row group, in the form in which the Parquet crate reads them.
pub(super) struct FetchedChunks {
    /// The metadata of a file that has only this row group.
    metadata: ParquetMetaData,
    /// The chunk of each leaf column; `None` for leaf columns that are not read.
    chunks: Vec<Option<CheckedChunk>>,
    /// Pairs of neighbouring leaves of one structure, each with the depth of the structure.
    siblings: Vec<Siblings>,
    /// The pages of each leaf whose decoding has begun.
    begun: Mutex<Vec<Arc<Mutex<CheckedPages>>>>,
    /// For each leaf whose pages were all read, summaries of the structures around it.
    outlines: Arc<Mutex<HashMap<usize, Outlines>>>,
    /// The first error that was found in a page. It is kept here because the Parquet crate passes on only the
    /// text of an error.
    wrong: Arc<OnceLock<Error>>,
}

/// The bytes of a leaf column's chunk, and the number of its pages, which an earlier check counted.
#[derive(Clone)]
struct CheckedChunk {
    held: Arc<Held>,
    /// The number of pages.
    pages: usize,
}

/// Two neighbouring leaves of one structure, which must agree on which of its rows and items exist.
struct Siblings {
    leaves: [usize; 2],
    depth: Depth,
}

/// For each structure around a leaf, its depth and a hash of which of its rows and items exist.
type Outlines = Vec<(Depth, u128)>;

impl FetchedChunks {
    /// Takes the chunks of the leaf columns in `mask`. `bytes` returns the bytes of a range of the file, and
    /// `pages` the number of pages of a leaf column.
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

    /// Checks the pages after the last selected row, which the decoder has not read. Only all pages of a
    /// chunk together show whether the decoded rows are those that were selected.
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

    /// Fails with `Corrupt` if two leaves of one structure disagree on which of its rows or items exist.
    /// Leaves whose pages were not all read are left out.
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

    /// Turns an error of the decoder into the error of the page that caused it, if such an error was found.
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

/// For each node from a column down to one of its leaves, whether it is required, optional or repeated.
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

/// The pairs of neighbouring leaves in `mask` that lie in one structure or list whose rows or items may be
/// missing. Leaves further apart are not paired, because all leaves between them lie in the same structure.
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

/// Appends the path of each leaf below a node: the nodes from the root down to the leaf, each with its
/// number.
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

/// Iterates over the chunks of a column, as the Parquet crate expects it. There is only one chunk.
struct OneChunk(Option<SharedPages>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}

/// The pages of a chunk as the decoder reads them. They are shared, because the remaining pages are checked
/// after the decoder has read the pages that it needs.
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
        // A row may continue in the next page, in both versions of pages, so only the last page surely ends
        // with a row.
        Ok(lock(&self.0).left == 0)
    }
}

fn lock(pages: &Mutex<CheckedPages>) -> MutexGuard<'_, CheckedPages> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads and checks the pages of a chunk.
struct CheckedPages {
    pages: SerializedPageReader<Held>,
    /// The number of pages that have not been read. Bytes after the last page are ignored.
    left: usize,
    /// The number of rows of the row group.
    rows: usize,
    bodies: Bodies,
    leaf: usize,
    outlines: Arc<Mutex<HashMap<usize, Outlines>>>,
    wrong: Arc<OnceLock<Error>>,
}

impl CheckedPages {
    /// Reads the next page and checks it; `None` after the last page.
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

    /// Checks a page, and returns it in a form that the Parquet crate decodes correctly.
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
            // A page without values is left out, because the Parquet crate would treat it as the end of the
            // chunk.
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
        // The number of rows in a page header may be wrong, and a row may continue in the next page. Without
        // this number, the Parquet crate counts rows by their levels.
        if let Some(page) = &mut peeked {
            page.num_rows = None;
        }
        Ok(peeked)
    }

    /// Skips a page. If damage shows only in all pages together, the page is read and checked nevertheless,
    /// except a dictionary page, which the Parquet crate may read later.
    fn skip(&mut self) -> ParquetResult<()> {
        let is_dictionary = self.pages.peek_next_page()?.is_some_and(|page| page.is_dict);
        if !is_dictionary && self.bodies.are_together() {
            return self.step().map(drop);
        }
        self.left = self.left.saturating_sub(1);
        self.pages.skip_next_page()
    }

    /// Reads and checks the remaining pages, if damage shows only in all pages of the chunk together.
    fn read_rest(&mut self) -> ParquetResult<()> {
        while self.bodies.are_together() && self.step()?.is_some() {}
        Ok(())
    }
}

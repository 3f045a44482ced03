//! Fetched column chunks as the Parquet crate reads them: page by page, each checked once it is decompressed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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

/// What the Parquet crate puts before the name of something that it does not read.
const NOT_READ: &str = "NYI: ";

/// The column chunks of a row group.
pub(super) struct FetchedChunks {
    /// Of the row group alone.
    metadata: ParquetMetaData,
    /// One for each leaf column; `None` for those that are not read.
    chunks: Vec<Option<Chunk>>,
    /// Leaves that follow each other in a structure, and how deep that is.
    siblings: Vec<Siblings>,
    /// What the leaves tell of their structures, once all of their pages were read.
    outlines: Arc<Mutex<HashMap<usize, Outlines>>>,
    /// The first that is wrong with a page: of an error the Parquet crate passes on the text alone.
    wrong: Arc<OnceLock<Error>>,
}

/// The pages of a leaf column, which were checked.
#[derive(Clone)]
struct Chunk {
    held: Arc<Held>,
    /// How many pages it has.
    pages: usize,
}

/// Two leaves of one structure.
struct Siblings {
    leaves: [usize; 2],
    depth: Depth,
}

/// What a leaf tells of the structures around it, by their depth.
type Outlines = Vec<(Depth, u128)>;

impl FetchedChunks {
    /// Takes the chunks of the leaf columns of `mask` from `bytes`, which has them by their ranges in the file. `pages` has how
    /// many pages a leaf has.
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
                Ok(Chunk { held: Arc::new(Held { start, bytes }), pages: pages(leaf)? })
            };
            mask.leaf_included(leaf).then(chunk).transpose()
        });
        let chunks = chunks.collect::<Result<_>>()?;
        let siblings = siblings(metadata.file_metadata().schema_descr(), mask);
        Ok(FetchedChunks { metadata, chunks, siblings, outlines: Arc::default(), wrong: Arc::default() })
    }

    /// Fails with `Corrupt` if leaves of one structure, all of whose pages were read, disagree which rows or items of it are there.
    pub(super) fn compare(&self) -> Result<()> {
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

    /// The failure of a decoder of these chunks.
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
        let Chunk { held, pages } = chunk;
        Ok(Box::new(OneChunk(Some(CheckedPages {
            pages: SerializedPageReader::new(held, about, self.num_rows(), None)?,
            left: pages,
            rows: self.num_rows(),
            bodies: Bodies::of(about.column_descr(), path.into_iter(), &shared),
            leaf,
            outlines: self.outlines.clone(),
            wrong: self.wrong.clone(),
        }))))
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

/// The leaves of `mask` that follow each other in one structure, which may have missing rows or items. Of leaves further apart the
/// structure around them is larger, and what it has follows from their neighbours.
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

/// The only chunk of a column.
struct OneChunk(Option<CheckedPages>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}

/// The pages of a chunk.
struct CheckedPages {
    pages: SerializedPageReader<Held>,
    /// Those to come. What may be behind them is none.
    left: usize,
    /// Rows of the row group.
    rows: usize,
    bodies: Bodies,
    leaf: usize,
    outlines: Arc<Mutex<HashMap<usize, Outlines>>>,
    wrong: Arc<OnceLock<Error>>,
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl CheckedPages {
    /// A page as it is to be decoded.
    fn check(&mut self, page: Page) -> Result<Page> {
        let page = self.bodies.check(page)?;
        if self.bodies.rows().is_some_and(|rows| rows > self.rows) {
            let cause = format!("the pages hold more rows than the {} that the footer says", self.rows);
            return Err(Error::new(ErrorKind::Corrupt, cause));
        }
        if self.left == 0 {
            let outlines = self.bodies.outlines();
            self.outlines.lock().unwrap_or_else(PoisonError::into_inner).insert(self.leaf, outlines);
        }
        Ok(page)
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        while self.left > 0 {
            self.left -= 1;
            let Some(page) = self.pages.get_next_page()? else { break };
            let page = self.check(page).map_err(|error| {
                let text = error.to_string();
                // The first counts.
                let _ = self.wrong.set(error);
                ParquetError::General(text)
            })?;
            // The Parquet crate takes a page without values for the end.
            if page.is_dictionary_page() || page.num_values() > 0 {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut peeked = self.pages.peek_next_page()?;
        // What a header says of rows may be wrong, and a row may go on in the next page: the levels decide.
        if let Some(page) = &mut peeked {
            page.num_rows = None;
        }
        Ok(peeked)
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.left = self.left.saturating_sub(1);
        self.bodies.skip();
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> ParquetResult<Option<Page>> {
        self.pages.take_deferred_dictionary()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        // A row may go on in the next page, whatever version that has.
        Ok(self.left == 0)
    }
}

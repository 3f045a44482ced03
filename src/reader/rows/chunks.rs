//! Fetched column chunks as the Parquet crate reads them: page by page, each checked once it is decompressed.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Repetition;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::SchemaDescriptor;

use crate::arrow::error::ArrowError;
use crate::error::{Error, ErrorKind, Result};
use crate::reader::held::Held;
use crate::reader::pages::Bodies;

/// What the Parquet crate puts before the name of something that it does not read.
const NOT_READ: &str = "NYI: ";

/// The column chunks of a row group.
pub(super) struct FetchedChunks {
    /// Of the row group alone.
    metadata: ParquetMetaData,
    /// One for each leaf column; `None` for those that are not read.
    chunks: Vec<Option<Arc<Held>>>,
    /// The first that is wrong with a page: of an error the Parquet crate passes on the text alone.
    wrong: Arc<OnceLock<Error>>,
}

impl FetchedChunks {
    /// Takes the chunks of the leaf columns of `mask` from `bytes`, which has them by their ranges in the file.
    pub(super) fn new(
        metadata: ParquetMetaData,
        mask: &ProjectionMask,
        bytes: impl Fn(&Range<u64>) -> Result<Bytes>,
    ) -> Result<Self> {
        let chunks = metadata.row_group(0).columns().iter().enumerate().map(|(leaf, about)| {
            let (start, length) = about.byte_range();
            let chunk =
                || Ok(Arc::new(Held { start, bytes: bytes(&(start..start.saturating_add(length)))? }));
            mask.leaf_included(leaf).then(chunk).transpose()
        });
        let chunks = chunks.collect::<Result<_>>()?;
        Ok(FetchedChunks { metadata, chunks, wrong: Arc::default() })
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
        Ok(Box::new(OneChunk(Some(CheckedPages {
            pages: SerializedPageReader::new(chunk, about, self.num_rows(), None)?,
            bodies: Bodies::of(about.column_descr(), path.into_iter()),
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
    bodies: Bodies,
    wrong: Arc<OnceLock<Error>>,
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.bodies.check(page).map_err(|error| {
                let text = error.to_string();
                // The first counts.
                let _ = self.wrong.set(error);
                ParquetError::General(text)
            })?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
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
        self.pages.at_record_boundary()
    }
}

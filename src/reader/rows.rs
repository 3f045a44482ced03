//! Decodes the fetched bytes of row groups to rows. Nothing in this file waits for I/O.

mod arrange;
mod chunks;
mod decoders;
mod int96;
mod texts;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use forebay_arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use forebay_arrow::compute::concat_batches;
use forebay_arrow::datatypes::SchemaRef;
use forebay_arrow::fail::OrFail;
use forebay_arrow::nested::united;
use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Place, Result};
use forebay_store::catalog::{self, Catalog, File, Footer, Origin, Projection, StoredGroup};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::file::metadata::ParquetMetaData;

use self::chunks::FetchedChunks;
use self::decoders::Decoders;
use super::chunk_pages::{ChunkPages, GroupPages, StoredPages};
use super::coded::CodedColumns;
use super::numbers::CheckedChunk;
use super::pages::{self, Checked, Leaf, StoredPage};

/// The advice for a damaged row group.
const IF_DAMAGED: &str = "write or copy the file again, or leave out what cannot be read with `on_bad_row`";

/// The fetched bytes of a row group, and the rows to decode from them.
pub(super) struct FetchedRows<'a> {
    /// The index of the row group in [`Catalog::groups`].
    pub(super) group: usize,
    /// The rows to decode; `None` for all.
    pub(super) selection: Option<&'a RowSelection>,
    /// The fetched bytes, by their ranges in the file. If all pages were fetched, the ranges are those of
    /// [`Catalog::byte_ranges`] for the group and the projection, some of them joined; otherwise those of
    /// [`GroupPages::ranges`].
    pub(super) chunks: Vec<(Range<u64>, Bytes)>,
    /// The pages that were fetched, which contain the rows to decode; `None` if all pages were fetched.
    pub(super) pages: Option<&'a GroupPages>,
    /// The columns of text that may be read as integer codes.
    pub(super) coded: Option<&'a CodedColumns>,
}

/// Decodes one row group to one batch with the projected columns, in the projection's order.
///
/// `group` is an index into [`Catalog::groups`]. `chunks` must be exactly the bytes of
/// [`Catalog::byte_ranges`] for the same group and projection. Rows outside of `selection` are not decoded;
/// `None` selects all. Views into pages that are stored without compression point into `chunks`, and keep
/// them alive.
///
/// Fails with `TooLarge`, before it allocates, if decoding would take more than `limit_bytes`; with
/// `Corrupt`, naming the column, if the bytes are damaged; with `Unsupported` for an encoding that is not
/// supported.
pub fn read_part(
    catalog: &Catalog,
    projection: &Projection,
    group: usize,
    selection: Option<&RowSelection>,
    chunks: Vec<(Range<u64>, Bytes)>,
    limit_bytes: u64,
) -> Result<RecordBatch> {
    let rows = FetchedRows { group, selection, chunks, pages: None, coded: None };
    read_fetched(catalog, projection, rows, limit_bytes)
}

/// Decodes a row group like [`read_part`], even if only some of its pages were fetched.
pub(super) fn read_fetched(
    catalog: &Catalog,
    projection: &Projection,
    rows: FetchedRows<'_>,
    limit_bytes: u64,
) -> Result<RecordBatch> {
    let readers = readers(catalog, projection, rows)?;
    let has_pages = readers.iter().any(|reader| reader.pages.is_some());
    let read = match readers.len() {
        0 => empty(projection, 0),
        2.. if !has_pages => read(readers.clone(), limit_bytes).or_else(|_| read_each(readers, limit_bytes)),
        _ => read_each(readers, limit_bytes),
    };
    read.map_err(|error| error.hint_if_damaged(IF_DAMAGED))
}

/// Decodes several row groups to one batch, one after the other. Together they may take at most
/// `limit_bytes`.
///
/// Fails if one of them cannot be decoded; [`read_part`] then gives a better error for that one. Fails with
/// `Internal` if they are not stored in the same way.
pub(super) fn read_parts(
    catalog: &Catalog,
    projection: &Projection,
    parts: Vec<FetchedRows<'_>>,
    limit_bytes: u64,
) -> Result<RecordBatch> {
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        all.extend(readers(catalog, projection, part)?);
    }
    let readers = all;
    let columns = |reader: &RowGroupReader<'_>| Arc::as_ptr(&reader.footer.columns);
    let are_alike = readers.iter().all(|reader| columns(reader) == columns(&readers[0]));
    let have_equal_constants = readers.iter().all(|reader| {
        let (one, first) = (&reader.file.constants, &readers[0].file.constants);
        one.is_empty() || Arc::ptr_eq(one, first)
    });
    if !are_alike || !have_equal_constants {
        return Err(Error::new(ErrorKind::Internal, "row groups that are not stored alike"));
    }
    read(readers, limit_bytes)
}

/// Makes a reader for each stored row group of which `rows.group` consists, except those without a selected
/// row. If there is only one stored row group, it gets a reader in any case.
fn readers<'a>(
    catalog: &'a Catalog,
    projection: &'a Projection,
    rows: FetchedRows<'a>,
) -> Result<Vec<RowGroupReader<'a>>> {
    let FetchedRows { group, selection, mut chunks, pages, coded } = rows;
    let group = catalog.groups.get(group).ok_or_else(|| {
        Error::new(ErrorKind::Internal, format!("row group {group} of {}", catalog.groups.len()))
    })?;
    let file = &catalog.files[group.file];
    let footer = file.footer()?;
    chunks.sort_by_key(|(range, _)| range.start);
    let leaves = pages.map_or(0, |_| footer.columns.leaves(projection).len());
    let reader = |at, stored, selection, chunks| RowGroupReader {
        catalog,
        projection,
        stored,
        file,
        footer,
        selection,
        chunks,
        pages: pages.map(|pages| pages.of_stored(at, leaves)).filter(|pages| !pages.is_whole()),
        coded,
        damaged: None,
        page_counts: Vec::new(),
        has_unseen_texts: false,
    };
    let mut stored = catalog.stored(group).enumerate().peekable();
    let mut rest = selection.cloned();
    let mut readers = Vec::with_capacity(1);
    while let Some((at, of_stored)) = stored.next() {
        if at == 0 && stored.peek().is_none() {
            return Ok(vec![reader(at, of_stored, rest, chunks)]);
        }
        let own = rest.as_mut().map(|rest| rest.split_off(of_stored.rows as usize));
        let count = own.as_ref().map_or(of_stored.rows, |own| own.row_count() as u64);
        if count > 0 {
            let own = own.filter(|_| count < of_stored.rows);
            let ranges = catalog::chunks(footer, of_stored.index, projection).map(|(_, chunk)| chunk.range());
            let ends = |(start, end): (u64, u64), one: Range<u64>| (one.start.min(start), one.end.max(end));
            let (start, end) = ranges.fold((u64::MAX, 0), ends);
            let overlaps = |(range, _): &&(Range<u64>, Bytes)| range.start < end && range.end > start;
            readers.push(reader(at, of_stored, own, chunks.iter().filter(overlaps).cloned().collect()));
        }
    }
    Ok(readers)
}

/// Decodes row groups with the same columns one by one, and joins their rows. An error says in which row
/// group it occurred.
fn read_each(readers: Vec<RowGroupReader<'_>>, limit: u64) -> Result<RecordBatch> {
    let is_one = readers.len() == 1;
    let mut batches = Vec::with_capacity(readers.len());
    let mut left = limit;
    for reader in readers {
        let place = Place::file(reader.file.location.clone()).row_group(reader.stored.index);
        // A column must be read as codes from all joined row groups or from none, so codes are read only if
        // there is a single row group.
        let coded = reader.coded.filter(|_| is_one);
        let batch = read(vec![RowGroupReader { coded, ..reader }], left).map_err(|error| error.at(place))?;
        left = left.saturating_sub(batch.get_array_memory_size() as u64);
        batches.push(batch);
    }
    match is_one {
        true => Ok(batches.remove(0)),
        false => concat_batches(&batches[0].schema(), &batches).or_fail(),
    }
}

/// Decodes row groups with the same columns to one batch.
fn read(mut readers: Vec<RowGroupReader<'_>>, limit: u64) -> Result<RecordBatch> {
    let mut rows = 0;
    for reader in &readers {
        rows += reader.rows()?;
    }
    let Some(&RowGroupReader { projection, footer, .. }) = readers.first() else {
        return Err(Error::new(ErrorKind::Internal, "no row groups"));
    };
    let columns = &footer.columns;
    let roots = columns.roots(projection.columns());
    let leaves = columns.leaves(projection);
    // If only some rows are selected, the Parquet crate decodes them, because they are few or the row group
    // is divided between two parts.
    let are_whole = readers.iter().all(|reader| reader.selection.is_none());
    let codes = readers[0].coded.map(|coded| coded.of_roots(projection, columns, &roots));
    let codes = |root: usize| codes.as_ref()?[roots.binary_search(&root).ok()?];
    let mut decoders = match are_whole {
        true => Decoders::new(columns, &roots, &leaves, codes, rows),
        false => Decoders::none(columns, &roots, &leaves),
    };
    let checked = leaves.iter().map(|&leaf| (leaf, Leaf::for_column(&columns.parquet.columns()[leaf])));
    let checked: Vec<(usize, Leaf)> = checked.collect();
    let mut steps = Vec::with_capacity(readers.len());
    let mut taken = 0;
    for reader in &mut readers {
        let step;
        (step, taken) = guarded(|| reader.check(&checked, taken, limit, &mut decoders))?;
        steps.push(step);
    }
    // A row group of which only some pages were fetched is always read alone.
    let by_pages = readers[0].pages.filter(|_| readers.len() == 1);
    if by_pages.is_none() && readers.iter().any(|reader| reader.pages.is_some()) {
        return Err(Error::new(ErrorKind::Internal, "row groups of some pages are read together"));
    }
    if rows == 0 || projection.columns().is_empty() {
        return empty(projection, rows);
    }
    let mut arrays = decoders.finish(|finish| guarded(|| Ok(finish())))?;
    let mut last_root = None;
    for (chunk, leaf) in leaves.iter().enumerate() {
        let root = columns.parquet.get_column_root_idx(*leaf);
        let Some((pages, Ok(at))) =
            by_pages.and_then(|pages| pages.chunk(chunk)).zip(Some(roots.binary_search(&root)))
        else {
            continue;
        };
        let array = readers[0].pages_of(*leaf, pages, steps[0], limit);
        let array = array.map_err(|error| error.at(readers[0].column_place(*leaf)))?;
        // The array of a structure is put together leaf by leaf.
        arrays[at] = Some(match arrays[at].take().filter(|_| last_root == Some(root)) {
            Some(before) => united(&before, &array).map_err(|error| {
                let cause = "fields of a structure disagree which of its values are there";
                Error::new(ErrorKind::Corrupt, cause).caused_by(error).at(readers[0].column_place(*leaf))
            })?,
            None => array,
        });
        last_root = Some(root);
    }
    let left = roots.iter().zip(&arrays).filter(|(_, array)| array.is_none());
    let left: Vec<usize> = left.map(|(root, _)| *root).collect();
    if !left.is_empty() {
        let batches = readers.iter().zip(&steps).map(|(reader, step)| reader.others(&left, *step, limit));
        let mut batches = batches.collect::<Result<Vec<_>>>()?;
        // The error for a damaged leaf is returned only here, because `others` gives a better one if it can.
        if let Some((reader, leaf)) = readers.iter().find_map(|reader| Some((reader, reader.damaged?))) {
            let cause = "its levels or values end early, or make no sense";
            return Err(Error::new(ErrorKind::Corrupt, cause).at(reader.column_place(leaf)));
        }
        let batch = match batches.len() {
            1 => batches.remove(0),
            _ => concat_batches(&batches[0].schema(), &batches).or_fail()?,
        };
        let mut columns = batch.columns().iter();
        for array in arrays.iter_mut().filter(|array| array.is_none()) {
            *array = columns.next().cloned();
        }
    }
    readers[0].arrange(&arrays.into_iter().flatten().collect::<Vec<_>>(), &roots, rows)
}

/// A stored row group with everything that is needed to decode it.
#[derive(Clone)]
struct RowGroupReader<'a> {
    catalog: &'a Catalog,
    projection: &'a Projection,
    stored: StoredGroup,
    file: &'a File,
    footer: &'a Footer,
    selection: Option<RowSelection>,
    /// The fetched bytes by their ranges in the file. Pages of a chunk that were joined have the range of the
    /// first page.
    chunks: Vec<(Range<u64>, Bytes)>,
    pages: Option<StoredPages<'a>>,
    coded: Option<&'a CodedColumns>,
    /// A leaf column that is known to be damaged, although the Parquet crate may decode it without an error.
    damaged: Option<usize>,
    /// For each leaf column that is read, its index and the number of its pages.
    page_counts: Vec<(usize, usize)>,
    /// Whether there are texts in an encoding for which the Parquet crate does not check that texts are
    /// UTF-8.
    has_unseen_texts: bool,
}

impl<'a> RowGroupReader<'a> {
    /// The number of rows to decode.
    fn rows(&self) -> Result<usize> {
        match &self.selection {
            Some(selection) => Ok(selection.row_count()),
            None => usize::try_from(self.stored.rows)
                .map_err(|_| Error::new(ErrorKind::TooLarge, format!("{} rows", self.stored.rows))),
        }
    }

    /// Checks all pages of the column chunks at `leaves`, and appends them to `decoders`. If a check corrects
    /// a wrong flag in a chunk, the corrected bytes replace the chunk's.
    ///
    /// Returns two numbers. The first is how many rows to decode at a time: all, unless repeated values could
    /// then exceed `limit`. The second is how many bytes of `limit` are taken, including the `taken` bytes.
    fn check(
        &mut self,
        leaves: &[(usize, Leaf)],
        taken: u64,
        limit: u64,
        decoders: &mut Decoders<'_>,
    ) -> Result<(usize, u64)> {
        let rows = self.rows()?;
        let mut total = taken;
        let mut step = rows.max(1);
        let mut pages = Vec::new();
        let mut mended = Vec::new();
        let (mut damaged, mut has_unseen_texts) = (None, false);
        let mut page_counts = Vec::with_capacity(leaves.len());
        let chunks =
            self.footer.chunks_at(self.stored.index, leaves.iter().map(|(leaf, _)| *leaf)).zip(leaves);
        for (at, ((leaf, about), (_, facts))) in chunks.enumerate() {
            let some = self.pages.and_then(|pages| pages.chunk(at));
            let (joined, of_pages);
            let (about, range, (fetched, bytes)) = match some {
                Some(some) => {
                    joined = self.joined(some)?;
                    let first = some.pieces()[0].clone();
                    let range = first.start..first.start + joined.len() as u64;
                    of_pages = about.of_pages(range, some.value_count(&joined));
                    (&of_pages, first, (&joined, &joined[..]))
                }
                None => (&about, about.range(), self.fetched(&about.range())?),
            };
            let chunk = pages::Chunk {
                leaf: facts,
                about,
                bytes,
                created_by: self.footer.columns.created_by.as_deref(),
            };
            let checked = chunk.check(rows as u64, limit, &mut pages);
            let checked = checked.and_then(|checked| {
                some.map_or(Ok(()), |some| some.check(&pages))?;
                Ok(checked)
            });
            let Checked { demand, mended: mut bytes_mended } =
                checked.map_err(|error| error.at(self.column_place(leaf)))?;
            page_counts.push((leaf, pages.len()));
            if some.is_some() {
                bytes_mended.get_or_insert_with(|| fetched.clone());
            }
            total = total.saturating_add(demand.bytes);
            if total > limit {
                return Err(pages::too_large(total, limit).at(self.column_place(leaf)));
            }
            if let Some(rows) = (limit - total).checked_div(demand.longest_repeated) {
                step = step.min(usize::try_from(rows).unwrap_or(usize::MAX).max(1));
            }
            has_unseen_texts |= pages.iter().any(StoredPage::has_lengths_in_front);
            let chunk = CheckedChunk { about, fetched, bytes, pages: &pages, rows };
            if decoders.append(at, &chunk) {
                damaged = damaged.or(Some(leaf));
            }
            if let Some(bytes) = bytes_mended {
                mended.push((range, bytes));
            }
        }
        (self.damaged, self.has_unseen_texts) = (damaged, has_unseen_texts);
        self.page_counts = page_counts;
        for (range, bytes) in mended {
            match self.chunks.iter_mut().find(|(have, _)| *have == range) {
                Some(chunk) => chunk.1 = bytes,
                // The chunk is a part of a larger range that was fetched, so it is inserted after that range.
                None => {
                    let after = self.chunks.partition_point(|(have, _)| have.start <= range.start);
                    self.chunks.insert(after, (range, bytes));
                }
            }
        }
        // Pages that were joined are now in `chunks` under the range of the first page, so the separate
        // ranges are removed.
        let joined = self.pages.map(StoredPages::joined).into_iter().flatten();
        joined.for_each(|piece| self.chunks.retain(|(have, _)| have != piece));
        Ok((step, total))
    }

    /// Joins the fetched pages of a chunk to one buffer.
    fn joined(&self, pages: &ChunkPages) -> Result<Bytes> {
        let pieces = pages.pieces().iter().map(|piece| self.bytes(piece));
        let mut pieces = pieces.collect::<Result<Vec<_>>>()?;
        match pieces.len() {
            1 => Ok(pieces.remove(0)),
            _ => Ok(pieces.concat().into()),
        }
    }

    /// Decodes those pages of a leaf column that were fetched, with the Parquet crate. The result is the
    /// column with this leaf alone.
    fn pages_of(&self, leaf: usize, pages: &ChunkPages, step: usize, limit: u64) -> Result<ArrayRef> {
        let columns = &self.footer.columns;
        let root = columns.parquet.get_column_root_idx(leaf);
        let first = pages.pieces()[0].start;
        let bytes = self.chunks.iter().find(|(range, _)| range.start == first);
        let bytes = bytes.map(|(_, bytes)| bytes.clone()).unwrap_or_default();
        let rows = self.rows()?;
        let decode = || {
            let row_group = self.footer.row_group_of_pages(
                self.stored.index,
                leaf,
                first..first + bytes.len() as u64,
                pages.row_count(),
                pages.value_count(&bytes),
            )?;
            let selection = self.selection.as_ref().map(|rows| pages.selection(rows));
            let bytes = |range: &Range<u64>| {
                let at = |byte: u64| usize::try_from(byte.checked_sub(first)?).ok();
                let found = at(range.start).zip(at(range.end)).filter(|(_, to)| *to <= bytes.len());
                found.map(|(from, to)| bytes.slice(from..to)).ok_or_else(|| not_fetched(range))
            };
            let leaves = columns.leaves_of(&[root]);
            let place =
                leaves.binary_search(&leaf).ok().filter(|_| leaves.len() > 1).map(|place| vec![place]);
            let chunks = |row_group, mask: &_| {
                FetchedChunks::new(row_group, mask, bytes, |at| self.page_count(leaves[at]))
            };
            let steps = DecodeSteps { rows, step, limit };
            decode(row_group, &columns.schema, &[root], place, selection, steps, chunks)
        };
        let batch = guarded(decode)?;
        if batch.num_rows() != rows {
            let cause = format!("the pages hold {} of {rows} rows", batch.num_rows());
            return Err(Error::new(ErrorKind::Corrupt, cause));
        }
        if self.has_unseen_texts {
            texts::check(batch.column(0))?;
        }
        Ok(batch.column(0).clone())
    }

    /// Decodes the columns at `roots` with the Parquet crate, and checks them.
    fn others(&self, roots: &[usize], step: usize, limit: u64) -> Result<RecordBatch> {
        let rows = self.rows()?;
        let batch = self.decode(roots, step, limit).map_err(|error| self.blame(error, roots, step, limit))?;
        self.check_int96(&batch, roots, step, limit)?;
        if batch.num_rows() != rows {
            let cause = format!("the pages hold {} of {rows} rows", batch.num_rows());
            return Err(Error::new(ErrorKind::Corrupt, cause));
        }
        if self.has_unseen_texts {
            for (column, field) in batch.columns().iter().zip(batch.schema_ref().fields()) {
                let place = || Place::default().column(field.name().as_str());
                texts::check(column).map_err(|error| error.at(place()))?;
            }
        }
        Ok(batch)
    }

    /// Decodes the file's columns at `roots`, in ascending order.
    fn decode(&self, roots: &[usize], step: usize, limit: u64) -> Result<RecordBatch> {
        guarded(|| self.decode_as(&self.footer.columns.schema, roots, step, limit))
    }

    fn decode_as(&self, schema: &SchemaRef, roots: &[usize], step: usize, limit: u64) -> Result<RecordBatch> {
        let row_group = self.footer.row_group(self.stored.index, roots)?;
        let steps = DecodeSteps { rows: self.stored.rows as usize, step, limit };
        let fields = self.fields_of(roots);
        let leaves = self.footer.columns.leaves_of(roots);
        let chunks = |row_group, mask: &_| {
            FetchedChunks::new(row_group, mask, |range| self.bytes(range), |at| self.page_count(leaves[at]))
        };
        decode(row_group, schema, roots, fields, self.selection.clone(), steps, chunks)
    }

    /// The leaf columns to decode, as indices into the leaves of the columns at `roots`; `None` for all
    /// leaves.
    fn fields_of(&self, roots: &[usize]) -> Option<Vec<usize>> {
        if self.projection.is_whole() {
            return None;
        }
        let columns = &self.footer.columns;
        let read = columns.read_of(roots, self.projection);
        let all = columns.leaves_of(roots).into_iter().enumerate();
        Some(all.filter(|(_, leaf)| read.binary_search(leaf).is_ok()).map(|(place, _)| place).collect())
    }

    /// The number of pages of a leaf column.
    fn page_count(&self, leaf: usize) -> Result<usize> {
        let found = self.page_counts.binary_search_by_key(&leaf, |(of, _)| *of);
        let found = found.map(|at| self.page_counts[at].1);
        found.map_err(|_| Error::new(ErrorKind::Internal, format!("leaf column {leaf} was not checked")))
    }

    /// The bytes of a range of the file, which must have been fetched.
    fn bytes(&self, range: &Range<u64>) -> Result<Bytes> {
        let (fetched, bytes) = self.fetched(range)?;
        Ok(fetched.slice_ref(bytes))
    }

    /// Finds a range of the file in the fetched bytes. Returns the buffer that contains the range, and the
    /// range's own bytes.
    fn fetched(&self, range: &Range<u64>) -> Result<(&Bytes, &[u8])> {
        let part = |(have, bytes): &'_ (Range<u64>, Bytes)| {
            let from = usize::try_from(range.start.checked_sub(have.start)?).ok()?;
            let to = usize::try_from(range.end.checked_sub(have.start)?).ok()?;
            (to <= bytes.len()).then_some(from..to)
        };
        // The range is in the last chunk that begins early enough or, if chunks overlap, in a chunk before
        // that.
        let after = self.chunks.partition_point(|(have, _)| have.start <= range.start);
        let found = self.chunks[..after].iter().rev().find_map(|chunk| Some((&chunk.1, part(chunk)?)));
        found.map(|(fetched, part)| (fetched, &fetched[part])).ok_or_else(|| not_fetched(range))
    }

    /// Finds the first column at `roots` that cannot be decoded by itself, and returns its error, with its
    /// name. If there is none, returns `error`.
    fn blame(&self, error: Error, roots: &[usize], step: usize, limit: u64) -> Error {
        let columns = self.projection.columns().iter();
        let columns =
            columns.filter(|column| matches!(self.footer.columns.origin(**column), Origin::Stored(_)));
        let guilty = columns.copied().find_map(|column| {
            let of_column = self.footer.columns.roots(&[column]);
            // Columns outside of `roots` are not tried, because some of their pages may not have been
            // fetched.
            of_column.iter().all(|root| roots.contains(root)).then_some(())?;
            let alone = self.decode(&of_column, step, limit).err()?;
            let name = self.catalog.schema.field(column).name().as_str();
            Some(alone.at(Place::default().column(name)))
        });
        guilty.unwrap_or(error)
    }

    fn column_place(&self, leaf: usize) -> Place {
        let parquet = &self.footer.columns.parquet;
        Place::default().column(parquet.get_column_root(leaf).name())
    }
}

/// The steps in which the rows of a row group are decoded.
struct DecodeSteps {
    /// The number of rows of the row group.
    rows: usize,
    /// The number of rows that are decoded at a time.
    step: usize,
    /// The most bytes that rows may take if they are decoded in several steps.
    limit: u64,
}

/// Decodes the selected rows of the only row group of `metadata`. The row group has only the columns at
/// `roots` of `schema`. If `leaves` is given, only these leaves of the columns are decoded. Fails if rows
/// that are decoded in several steps take more than `limit` bytes.
fn decode(
    metadata: ParquetMetaData,
    schema: &SchemaRef,
    roots: &[usize],
    leaves: Option<Vec<usize>>,
    selection: Option<RowSelection>,
    DecodeSteps { rows, step, limit }: DecodeSteps,
    chunks: impl FnOnce(ParquetMetaData, &ProjectionMask) -> Result<FetchedChunks>,
) -> Result<RecordBatch> {
    let fields = schema.project(roots).or_fail()?.fields;
    let columns = metadata.file_metadata().schema_descr_ptr();
    let mask = leaves.map_or_else(ProjectionMask::all, |leaves| ProjectionMask::leaves(&columns, leaves));
    let levels = parquet_to_arrow_field_levels(&columns, mask.clone(), Some(&fields)).or_fail()?;
    let chunks = chunks(metadata, &mask)?;
    let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &chunks, step, selection);
    let mut batches = Vec::with_capacity(1);
    let mut held = 0u64;
    for batch in reader.map_err(|error| chunks.failure(error.into()))? {
        let batch = batch.map_err(|error| chunks.failure(error))?;
        if step < rows {
            held = held.saturating_add(batch.get_array_memory_size() as u64);
            if held > limit {
                return Err(pages::too_large(held, limit));
            }
        }
        batches.push(batch);
    }
    chunks.finish()?;
    match batches.len() {
        1 => Ok(batches.remove(0)),
        0 => Err(Error::new(ErrorKind::Corrupt, "the pages hold no rows")),
        _ => Ok(concat_batches(&batches[0].schema(), &batches).or_fail()?),
    }
}

fn not_fetched(range: &Range<u64>) -> Error {
    Error::new(ErrorKind::Internal, format!("bytes {}..{} were not fetched", range.start, range.end))
}

/// Runs a decoder. Malformed bytes can make it panic, which is returned as an error.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(work).unwrap_or_else(|_| Err(Error::new(ErrorKind::Corrupt, "the pages are malformed")))
}

fn empty(projection: &Projection, rows: usize) -> Result<RecordBatch> {
    if !projection.columns().is_empty() {
        return Ok(RecordBatch::new_empty(projection.schema().clone()));
    }
    without_columns(projection.schema().clone(), rows)
}

fn without_columns(schema: SchemaRef, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, Vec::new(), &options).or_fail()
}

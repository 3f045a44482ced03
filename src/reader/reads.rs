//! Describes reads of row groups: what is read, from where, and at what cost.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use forebay_base::panics::{Panic, caught_future};
use forebay_base::{Error, Result};
use forebay_store::catalog::{Catalog, Projection};
use forebay_store::source::Store;

use super::budget::Budget;
use super::chunk_pages::GroupPages;
use super::coded::CodedColumns;
use super::cost::Cost;
use super::heads::Heads;
use super::pieces::{Piece, Pieces};
use super::row_cache::RowCache;
use super::row_memory::{RowMemory, Staying};
use crate::batch::{NUMBER_BYTES, may_be_numbered};
use crate::shard::Part;

/// The bytes that are counted for each row that is kept in memory between epochs, in addition to its values:
/// an entry of the epoch's deal (the order in which rows are taken).
const STAYING_ROW_BYTES: u64 = 4;
/// The bytes that are counted for each column of a row group that is kept in memory between epochs, in
/// addition to its values.
const STAYING_COLUMN_BYTES: u64 = 512;

/// The bytes of column chunks, each with its range in the file.
pub(crate) type Chunks = Vec<(Range<u64>, Bytes)>;

/// Reads columns of row groups, as a whole or in pieces.
#[derive(Clone)]
pub(crate) struct Reads {
    pub(crate) store: Store,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) projection: Arc<Projection>,
    /// The cache of decoded rows, in which rows are looked up before the store is read.
    pub(crate) row_cache: Option<RowCache>,
    /// The memory in which all rows that are read are kept between epochs, if they are few. If there is such
    /// a memory, there are no pieces and no heads.
    pub(crate) row_memory: Option<Arc<RowMemory>>,
    /// The row groups that are read in pieces. The row cache does not keep them.
    pub(crate) pieces: Arc<Pieces>,
    /// The heads: the first rows of row groups, if samples that begin in an earlier row group need them. They
    /// are read with that earlier row group.
    pub(crate) heads: Arc<Heads>,
    /// The number of bits per row that the copy takes while a column is copied into the order of a shuffle; 0
    /// if no column is copied.
    pub(crate) dealt_bits: u64,
    /// While a block of stacked columns is made, each row takes this number of bits a second time. The column
    /// chunks have been freed before. 0 if no block is made.
    pub(crate) block_bits: u64,
    /// The costs of row groups in this projection that are known.
    pub(crate) known: KnownCosts,
    /// The columns that are read as integer codes; `None` if there are none.
    pub(crate) coded: Option<Arc<CodedColumns>>,
}

/// The costs of row groups whose footers have been read. They are remembered because planning asks for them
/// many times, and computing a cost takes a sum over all columns.
#[derive(Clone, Default)]
pub(crate) struct KnownCosts(Arc<OnceLock<Box<[KnownCost]>>>);

/// The cost of a row group, if it is known. It consists of three numbers only, because there may be a million
/// row groups.
struct KnownCost {
    stored: AtomicU64,
    decoding: AtomicU64,
    /// The bytes of the rows. This field is written last, and shows that the other two are valid.
    held: AtomicU64,
}

impl KnownCost {
    /// The value of `held` while the cost is unknown. A cost that has this value itself is computed again
    /// each time.
    const UNKNOWN: u64 = u64::MAX;

    /// Returns the cost, and computes it with `find` if it is unknown. Threads that do so at the same time
    /// compute equal costs.
    fn get_or_init(&self, find: impl FnOnce() -> Cost) -> Cost {
        let held = self.held.load(Acquire);
        if held != Self::UNKNOWN {
            return Cost { stored: self.stored.load(Relaxed), decoding: self.decoding.load(Relaxed), held };
        }
        let cost = find();
        self.stored.store(cost.stored, Relaxed);
        self.decoding.store(cost.decoding, Relaxed);
        self.held.store(cost.held, Release);
        cost
    }
}

impl Default for KnownCost {
    fn default() -> Self {
        let unknown = AtomicU64::new(Self::UNKNOWN);
        KnownCost { stored: AtomicU64::new(0), decoding: AtomicU64::new(0), held: unknown }
    }
}

/// The memory that a row group takes while no other row group is in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone {
    group: usize,
    /// The number of bytes, including lists of row numbers such as the order of a shuffle.
    pub(crate) bytes: u64,
    is_piece: bool,
    is_shuffled: bool,
}

impl Reads {
    /// Makes reads of whole row groups, without a cache.
    pub(crate) fn whole(store: Store, catalog: Arc<Catalog>, projection: Arc<Projection>) -> Self {
        Reads {
            store,
            catalog,
            projection,
            row_cache: None,
            row_memory: None,
            pieces: Arc::default(),
            heads: Arc::default(),
            dealt_bits: 0,
            block_bits: 0,
            known: KnownCosts::default(),
            coded: None,
        }
    }

    /// Makes reads of the columns of `projection` from the same data set, of whole row groups and without a
    /// cache.
    pub(crate) fn of_columns(&self, projection: Arc<Projection>) -> Self {
        Reads::whole(self.store.clone(), self.catalog.clone(), projection)
    }

    /// The memory that is reserved to read a part: for its column chunks and decoded rows, and for those of
    /// its heads.
    pub(crate) fn cost(&self, part: &Part) -> Cost {
        self.own_cost(part).with(self.heads.cost(part.group))
    }

    /// The rows of a part's row group, if they are already kept in memory between epochs.
    pub(crate) fn staying(&self, part: &Part) -> Option<Staying> {
        self.row_memory.as_ref()?.get(part.group)
    }

    /// The number of bytes that is set aside to keep the selected rows of all row groups in memory between
    /// epochs: their expected size and a quarter more.
    pub(crate) fn staying_bytes(&self, counts: &[u32]) -> u64 {
        let columns = self.projection.schema().flattened_fields().len() as u64;
        let of_group = |(group, &rows): (usize, &u32)| {
            let all = self.catalog.groups[group].rows.max(1);
            let values = u128::from(self.held(group)) * u128::from(rows) / u128::from(all);
            let lists = u64::from(rows) * STAYING_ROW_BYTES + columns * STAYING_COLUMN_BYTES;
            (values as u64).saturating_add(lists)
        };
        let read = counts.iter().enumerate().filter(|(_, rows)| **rows > 0);
        let bytes = read.map(of_group).fold(0, u64::saturating_add);
        bytes.saturating_add(bytes / 4)
    }

    /// The memory that a part takes at present. Rows that are kept between epochs have memory of their own,
    /// so a part needs none for them. Only if they are many, it needs memory for a copy in the epoch's order.
    pub(crate) fn cost_now(&self, part: &Part) -> Cost {
        let cost = self.cost(part);
        match self.row_memory.as_ref().filter(|row_memory| row_memory.has(part.group)) {
            Some(row_memory) if row_memory.is_little() => Cost::default(),
            Some(_) => Cost { stored: 0, decoding: 0, ..cost },
            None => cost,
        }
    }

    /// The memory that a part takes, without its heads.
    pub(crate) fn own_cost(&self, part: &Part) -> Cost {
        self.pieces
            .piece_of(part)
            .map_or_else(|| self.group_cost(part.group as usize), |piece| self.piece_cost(piece))
    }

    /// The memory that a piece of a row group takes while it is read.
    pub(crate) fn piece_cost(&self, piece: &Piece) -> Cost {
        self.dealt(piece.cost, piece.rows.into())
    }

    /// The cost, with more memory for decoding if copying `rows` rows into the order of a shuffle, or making
    /// blocks of them, takes more. Blocks are made after the column chunks were freed.
    fn dealt(&self, cost: Cost, rows: u64) -> Cost {
        let copy = |bits: u64| rows.saturating_mul(bits).div_ceil(u8::BITS.into());
        let decoding = copy(self.dealt_bits).max(copy(self.block_bits).saturating_sub(cost.stored));
        Cost { decoding: cost.decoding.max(decoding), ..cost }
    }

    /// The memory that a row group takes while it is read as a whole, with its heads.
    pub(crate) fn whole_cost(&self, group: usize) -> Cost {
        self.group_cost(group).with(self.heads.cost(group as u32))
    }

    /// The memory that a row group of `rows` rows, or the largest of its pieces, takes while no other row
    /// group is in memory. Lists of row numbers take `listed` bytes for
    /// each row.
    pub(crate) fn alone(&self, group: usize, rows: u32, listed: u64) -> Alone {
        let with_lists =
            |cost: Cost, rows: u32| cost.total().saturating_add(listed.saturating_mul(rows.into()));
        let of_piece = |piece: &Piece| with_lists(self.piece_cost(piece), piece.rows);
        let pieces = self.pieces.of_group(group);
        let piece = pieces.and_then(|pieces| pieces.iter().map(of_piece).max());
        Alone {
            group,
            bytes: piece.unwrap_or_else(|| with_lists(self.whole_cost(group), rows)),
            is_piece: piece.is_some(),
            is_shuffled: listed > 0,
        }
    }

    /// Fails if a row group, or the largest of its pieces, does not fit into a budget. See [`Budget::admit`].
    pub(crate) fn admit(
        &self,
        alone: &Alone,
        budget: &Budget,
        memory_for: impl FnOnce(u64) -> u64,
    ) -> Result<()> {
        let what = if alone.is_piece { "a piece of the row group" } else { "the row group" };
        let purpose = match alone.is_shuffled {
            true => "to fetch, to decode and to shuffle",
            false => "to fetch and to decode",
        };
        let admitted = budget.admit(what, purpose, alone.bytes, memory_for);
        admitted.map_err(|error| error.at(self.catalog.place(&self.catalog.groups[alone.group])))
    }

    /// The least number of bytes that every piece of a row group takes, because the pages of some columns
    /// cannot be read one by one; `None` if this holds for all columns, so that the row group cannot be cut.
    pub(crate) fn in_each_piece(&self, group: usize) -> Option<u64> {
        let Reads { catalog, projection, .. } = self;
        let at = &catalog.groups[group];
        // Nothing is known about the pages before the footer has been read.
        let Some(footer) = catalog.files[at.file].footer.get() else { return Some(0) };
        let of_stored = |stored| GroupPages::least_cost(footer, projection, stored).map(Cost::total);
        // If the row group joins several stored ones, all rows of a piece may be from the costliest of them.
        catalog.stored(at).map(of_stored).max().flatten()
    }

    /// The bytes of a row group's column chunks.
    pub(crate) fn stored(&self, group: usize) -> u64 {
        self.group_cost(group).stored
    }

    /// The most bytes that a row group's rows take in memory.
    pub(crate) fn held(&self, group: usize) -> u64 {
        self.group_cost(group).held
    }

    /// The most bytes that a row group's rows take in a cache, with the numbers of their texts.
    pub(crate) fn kept(&self, group: usize) -> u64 {
        let fields = self.projection.schema().fields().iter();
        let numbered = fields.filter(|field| may_be_numbered(field.data_type())).count() as u64;
        let numbers = numbered * NUMBER_BYTES * self.catalog.groups[group].rows;
        self.held(group).saturating_add(numbers)
    }

    /// The memory that a row group takes while it is read as a whole, without heads.
    pub(crate) fn group_cost(&self, group: usize) -> Cost {
        let Reads { catalog, projection, .. } = self;
        let of_group = &catalog.groups[group];
        let cost = || Cost {
            stored: catalog.stored_bytes(of_group, projection),
            decoding: catalog.decoding_bytes(of_group, projection),
            held: catalog.held_bytes(of_group, projection),
        };
        if catalog.files[of_group.file].footer.get().is_none() {
            return self.dealt(cost(), of_group.rows);
        }
        let known = || catalog.groups.iter().map(|_| KnownCost::default()).collect();
        self.dealt(self.known.0.get_or_init(known)[group].get_or_init(cost), of_group.rows)
    }

    /// Turns an error into the reason why no row of a row group can be read. If the row group joins several
    /// stored ones, the error concerns the whole file.
    pub(crate) fn of_all_rows(&self, group: u32, error: Error) -> Error {
        match self.catalog.stored(&self.catalog.groups[group as usize]).nth(1) {
            Some(_) => error.of_whole_file(),
            None => error,
        }
    }

    /// Reads the footer of a row group's file, unless that was done before.
    ///
    /// Also fails if the file has a column that cannot be read.
    pub(crate) async fn read_footer(&self, group: usize) -> Result<()> {
        let file = self.catalog.groups[group].file;
        let read = caught_future(self.store.read_footer(&self.catalog, file)).await;
        read.unwrap_or_else(|panic| Err(panicked(&panic)))?;
        self.catalog.check_file(file, &self.projection)
    }

    /// Reads all pages of a row group's column chunks, or only the given ones. Takes no memory from the
    /// budget.
    pub(crate) async fn read_pages(&self, group: usize, pages: Option<&GroupPages>) -> Result<Chunks> {
        self.read_footer(group).await?;
        let ranges = self.ranges(group, pages)?;
        let group = &self.catalog.groups[group];
        let file = &self.catalog.files[group.file];
        // The store may be the user's own, so panics are caught.
        let read = caught_future(self.store.read_ranges(file, &ranges)).await;
        let read = read.unwrap_or_else(|panic| Err(panicked(&panic)));
        let bytes = read.map_err(|error| error.at(self.catalog.place(group)))?;
        Ok(ranges.into_iter().zip(bytes).collect())
    }

    /// The ranges of the file to read for a row group. Its footer must have been read.
    fn ranges(&self, group: usize, pages: Option<&GroupPages>) -> Result<Vec<Range<u64>>> {
        let whole = self.catalog.byte_ranges(&self.catalog.groups[group], &self.projection)?;
        Ok(match pages {
            Some(pages) => pages.ranges(whole),
            None => whole,
        })
    }
}

/// The error for a panic of the store, which may be the user's own.
fn panicked(panic: &Panic) -> Error {
    Error::panicked("forebay or in what it reads from", panic)
}

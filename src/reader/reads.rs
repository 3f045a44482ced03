//! What is read of row groups, from where, and what that costs.

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
use crate::shard::Part;

/// Column chunks: their ranges in the file, and their bytes.
pub(crate) type Chunks = Vec<(Range<u64>, Bytes)>;

/// Columns of row groups, whole or in pieces.
#[derive(Clone)]
pub(crate) struct Reads {
    pub(crate) store: Store,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) projection: Arc<Projection>,
    /// The cache of rows, which is looked up first.
    pub(crate) row_cache: Option<RowCache>,
    /// The row groups that are read in pieces. A cache does not keep them.
    pub(crate) pieces: Arc<Pieces>,
    /// The rows that are read with the row group before.
    pub(crate) heads: Arc<Heads>,
    /// Bits of a row that it takes a second time while a column is brought into the order of a shuffle; 0 where none is.
    pub(crate) dealt_bits: u64,
    /// Of the projection.
    pub(crate) known: KnownCosts,
    /// The columns that are read as codes.
    pub(crate) coded: Option<Arc<CodedColumns>>,
}

/// What row groups cost, once their footers were read: planning asks for it many times, and it is a sum over all columns.
#[derive(Clone, Default)]
pub(crate) struct KnownCosts(Arc<OnceLock<Box<[KnownCost]>>>);

/// What a row group costs, once that is known: three numbers, of a million row groups if need be.
struct KnownCost {
    stored: AtomicU64,
    decoding: AtomicU64,
    /// Written last.
    held: AtomicU64,
}

impl KnownCost {
    /// Is in `held` before it is known; a row group that costs so much is asked for again.
    const UNKNOWN: u64 = u64::MAX;

    /// All who find it unknown find the same.
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

/// What a row group takes by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone {
    group: usize,
    /// With lists.
    pub(crate) bytes: u64,
    is_piece: bool,
    is_shuffled: bool,
}

impl Reads {
    /// Row groups as a whole, and none of them from a cache.
    pub(crate) fn whole(store: Store, catalog: Arc<Catalog>, projection: Arc<Projection>) -> Self {
        Reads {
            store,
            catalog,
            projection,
            row_cache: None,
            pieces: Arc::default(),
            heads: Arc::default(),
            dealt_bits: 0,
            known: KnownCosts::default(),
            coded: None,
        }
    }

    /// Row groups as a whole, with other columns.
    pub(crate) fn of_columns(&self, projection: Arc<Projection>) -> Self {
        Reads::whole(self.store.clone(), self.catalog.clone(), projection)
    }

    /// What a part's permit covers: its column chunks, and the rows that they become, with those of its heads.
    pub(crate) fn cost(&self, part: &Part) -> Cost {
        self.own_cost(part).with(self.heads.cost(part.group))
    }

    /// The same without heads.
    pub(crate) fn own_cost(&self, part: &Part) -> Cost {
        self.pieces
            .of(part)
            .map_or_else(|| self.group_cost(part.group as usize), |piece| self.piece_cost(piece))
    }

    /// What it takes to read a piece of a row group.
    pub(crate) fn piece_cost(&self, piece: &Piece) -> Cost {
        self.dealt(piece.cost, piece.rows.into())
    }

    /// The same cost with that of bringing so many rows into the order of a shuffle: pages are no longer needed by then.
    fn dealt(&self, cost: Cost, rows: u64) -> Cost {
        let copy = rows.saturating_mul(self.dealt_bits).div_ceil(u8::BITS.into());
        Cost { decoding: cost.decoding.max(copy), ..cost }
    }

    /// What it takes to read a row group whole, with its heads.
    pub(crate) fn whole_cost(&self, group: usize) -> Cost {
        self.group_cost(group).with(self.heads.cost(group as u32))
    }

    /// What a row group of `rows` rows takes by itself, or the largest of its pieces, beside lists with
    /// `listed` bytes for each row.
    pub(crate) fn alone(&self, (group, rows): (usize, u32), listed: u64) -> Alone {
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

    /// Refuses a row group of which not even one piece would keep the bound of a budget; see
    /// [`Budget::admit`].
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
        let admitted = budget.admit((what, purpose), alone.bytes, memory_for);
        admitted.map_err(|error| error.at(self.catalog.place(&self.catalog.groups[alone.group])))
    }

    /// Bytes that each piece of a row group takes at least, for columns that have no pages of their own for
    /// its rows; `None` if no column has any, so that the row group cannot be cut.
    pub(crate) fn in_each_piece(&self, group: usize) -> Option<u64> {
        let Reads { catalog, projection, .. } = self;
        let at = &catalog.groups[group];
        // Where the footer was not read yet, nothing is known.
        let Some(footer) = catalog.files[at.file].footer.get() else { return Some(0) };
        GroupPages::least_cost(footer, projection, at).map(Cost::total)
    }

    /// Bytes of a row group's column chunks.
    pub(crate) fn stored(&self, group: usize) -> u64 {
        self.group_cost(group).stored
    }

    /// Bytes that a row group's rows take in memory, at most.
    pub(crate) fn held(&self, group: usize) -> u64 {
        self.group_cost(group).held
    }

    /// What it takes to read a row group whole, without heads.
    pub(crate) fn group_cost(&self, group: usize) -> Cost {
        let Reads { catalog, projection, .. } = self;
        let of_group = &catalog.groups[group];
        let cost = || Cost {
            stored: catalog.stored_bytes(of_group, projection),
            decoding: catalog.page_bytes(of_group, projection),
            held: catalog.held_bytes(of_group, projection),
        };
        if catalog.files[of_group.file].footer.get().is_none() {
            return self.dealt(cost(), of_group.rows);
        }
        let known = || catalog.groups.iter().map(|_| KnownCost::default()).collect();
        self.dealt(self.known.0.get_or_init(known)[group].get_or_init(cost), of_group.rows)
    }

    /// Reads the footer of a row group's file, unless it was read before.
    pub(crate) async fn read_footer(&self, group: usize) -> Result<()> {
        let read = self.store.read_footer(&self.catalog, self.catalog.groups[group].file);
        caught_future(read).await.unwrap_or_else(|panic| Err(panicked(&panic)))
    }

    /// Reads all pages of a row group's column chunks, or some, without a permit.
    pub(crate) async fn read_pages(&self, group: usize, pages: Option<&GroupPages>) -> Result<Chunks> {
        self.read_footer(group).await?;
        let ranges = self.ranges(group, pages)?;
        let group = &self.catalog.groups[group];
        let file = &self.catalog.files[group.file];
        // The store may be the user's own.
        let read = caught_future(self.store.read_ranges(file, &ranges)).await;
        let read = read.unwrap_or_else(|panic| Err(panicked(&panic)));
        let bytes = read.map_err(|error| error.at(self.catalog.place(group)))?;
        Ok(ranges.into_iter().zip(bytes).collect())
    }

    /// The bytes to read of a row group, whose footer was read.
    fn ranges(&self, group: usize, pages: Option<&GroupPages>) -> Result<Vec<Range<u64>>> {
        let whole = self.catalog.byte_ranges(&self.catalog.groups[group], &self.projection)?;
        Ok(match pages {
            Some(pages) => pages.ranges(whole),
            None => whole,
        })
    }
}

/// The store may be the user's own.
fn panicked(panic: &Panic) -> Error {
    Error::panicked("forebay or in what it reads from", panic)
}

//! What this process has opened: maps that are kept, and files that were found right.

use std::collections::HashMap;
use std::fs::Metadata;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::RecordBatch;
use lru::LruCache;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};

use super::format::Body;
use super::key::Name;

/// Maps that are kept at most; Linux allows a process 65,530 in all.
const MAPS: NonZeroUsize = NonZeroUsize::new(16_384).expect("a number above 0");
/// Columns of all kept batches at most: some 300 bytes each.
const COLUMNS: usize = 1 << 17;

/// Rows at hand.
#[derive(Clone)]
pub(super) struct Slot {
    pub(super) batch: RecordBatch,
    /// Length of the file.
    pub(super) bytes: u64,
}

/// Entries that this process has opened.
pub(super) struct Index(Mutex<State>);

struct State {
    open: LruCache<Name, (Slot, u64)>,
    columns: usize,
    verified: HashMap<Name, (Stamp, Body)>,
    epoch: u64,
}

/// Which file was found right. The time of modification is not in it: it tells the last use.
#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp { device: metadata.dev(), inode: metadata.ino(), length: metadata.len() }
    }
}

impl Default for Index {
    fn default() -> Self {
        Index(Mutex::new(State { open: LruCache::new(MAPS), columns: 0, verified: HashMap::new(), epoch: 0 }))
    }
}

impl Index {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn epoch_begins(&self) {
        self.state().epoch += 1;
    }

    /// Rows that were opened before. The first time in each epoch their file, at `path`, is marked as used.
    pub(super) fn get(&self, name: Name, path: &Path) -> Option<Slot> {
        let mut state = self.state();
        let epoch = state.epoch;
        let (slot, used) = state.open.get_mut(&name)?;
        let (slot, unmarked) = (slot.clone(), *used != epoch);
        *used = epoch;
        if unmarked && mark_used(path) == Marked::Gone {
            // Handed out this once; kept any longer, its map would keep the disk full.
            state.forget(name);
        }
        Some(slot)
    }

    /// The body of an entry whose file was found right before.
    pub(super) fn verified(&self, name: Name, metadata: &Metadata) -> Option<Body> {
        let state = self.state();
        let (stamp, body) = state.verified.get(&name)?;
        (*stamp == Stamp::of(metadata)).then_some(*body)
    }

    /// Keeps what was found right, and its map if there is one.
    pub(super) fn remember(
        &self,
        name: Name,
        metadata: &Metadata,
        body: Body,
        slot: Option<&Slot>,
        path: &Path,
    ) {
        mark_used(path);
        let mut state = self.state();
        state.verified.insert(name, (Stamp::of(metadata), body));
        let Some(slot) = slot else { return };
        let epoch = state.epoch;
        state.forget(name);
        state.columns += slot.batch.num_columns();
        while state.columns > COLUMNS || state.open.len() == MAPS.get() {
            let Some((_, (old, _))) = state.open.pop_lru() else { break };
            state.columns -= old.batch.num_columns();
        }
        state.open.put(name, (slot.clone(), epoch));
    }

    pub(super) fn clear(&self) {
        let mut state = self.state();
        state.open.clear();
        state.columns = 0;
        state.verified.clear();
    }
}

impl State {
    fn forget(&mut self, name: Name) {
        if let Some((old, _)) = self.open.pop(&name) {
            self.columns -= old.batch.num_columns();
        }
    }
}

#[derive(PartialEq, Eq)]
enum Marked {
    Done,
    Gone,
}

/// Sets the time of last use, for all processes to see. Where that cannot be done the entry only seems less used.
fn mark_used(path: &Path) -> Marked {
    // Not the kernel's own "now", which lags behind the clock that epochs are timed by.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let last_modification =
        Timespec { tv_sec: now.as_secs().cast_signed(), tv_nsec: now.subsec_nanos().into() };
    let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification };
    match utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::NOENT) => Marked::Gone,
        _ => Marked::Done,
    }
}

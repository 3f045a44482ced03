//! Whether an entry is still the one that was found right: what an entry's times say.
//!
//! An entry is written once, and its times then mean something of our own:
//!
//! | time | says | set by |
//! |---|---|---|
//! | of modification | [`SEALED`], a constant, until somebody writes to the file, cuts it or maps it to write | us once, before it is published or checked; else the kernel |
//! | of access | the last use | us, for each epoch that uses it; our files are opened so that reading does not |
//! | of change | equal to that of access after we marked a use; another one when anything else was done to the file | the kernel |
//!
//! A constant and not the time of writing, because the kernel's clock for files ticks in steps of some milliseconds: two
//! writes within one step have the same time. The time of change shows also those who put the time of modification back.
//!
//! What is not seen: a program that keeps an entry mapped for writing since before it was checked, and writes to a page
//! that it had written to before.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens, utimensat};

use super::guard::Guarded;

/// The time of modification of an entry that nobody wrote to: the first second of the year 2000.
const SEALED: Timespec = Timespec { tv_sec: 946_684_800, tv_nsec: 0 };
const OMITTED: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// A file as its metadata show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    length: u64,
    sealed: bool,
    /// Nanoseconds since 1970.
    changed: i64,
    used: i64,
}

impl Stamp {
    pub(super) fn of(found: &Metadata) -> Stamp {
        let nanos = |seconds: i64, nanos: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos);
        Stamp {
            file: (found.dev(), found.ino()),
            length: found.len(),
            sealed: (found.mtime(), found.mtime_nsec()) == (SEALED.tv_sec, 0),
            changed: nanos(found.ctime(), found.ctime_nsec()),
            used: nanos(found.atime(), found.atime_nsec()),
        }
    }

    /// Whether `later` is the same file, to which nothing was done but to mark it as used.
    pub(super) fn admits(&self, later: &Stamp) -> bool {
        let is_same = (self.file, self.length, true) == (later.file, later.length, later.sealed);
        is_same && self.sealed && (later.changed == self.changed || later.changed == later.used)
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }
}

/// Watches over a mapped entry.
pub(super) struct Seal {
    path: PathBuf,
    stamp: Stamp,
    /// When the file was changed last, by a mark.
    changed: AtomicI64,
    map: Arc<Guarded>,
}

impl Seal {
    pub(super) fn new(path: PathBuf, stamp: Stamp, map: Arc<Guarded>) -> Seal {
        Seal { path, changed: stamp.changed.into(), stamp, map }
    }

    /// Whether all that was read from the map up to now was what had been checked: nobody changed, cut, exchanged or
    /// removed the file, and all of it could be read.
    pub(super) fn is_intact(&self) -> bool {
        let Ok(found) = self.path.symlink_metadata() else { return false };
        let found = Stamp::of(&found);
        let known = Stamp { changed: self.changed.load(Relaxed), ..self.stamp };
        let is_intact = known.admits(&found) && !self.map.is_broken();
        if is_intact {
            self.changed.store(found.changed, Relaxed);
        }
        is_intact
    }
}

/// Seals a file that was written, and marks it as used.
pub(super) fn seal_new(file: &File) -> io::Result<()> {
    Ok(futimens(file, &Timestamps { last_access: NOW, last_modification: SEALED })?)
}

/// Seals a file that lost its seal. Must come before a look at what is in it, so that it shows what is done after that.
pub(super) fn seal_again(file: &File) -> io::Result<()> {
    Ok(futimens(file, &Timestamps { last_access: OMITTED, last_modification: SEALED })?)
}

/// Sets the time of last use, for all processes to see. Where that cannot be done the entry only seems less used.
pub(super) fn mark_used(path: &Path) {
    let times = Timestamps { last_access: NOW, last_modification: OMITTED };
    let _ = utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
}

//! Detects changes of an entry by the metadata of its file.
//!
//! An entry is written once, sealed (its time of modification is set to a constant) and published. After
//! that, the cache only unlinks it, so two times of its file stay as they are:
//!
//! | time | is | until |
//! |---|---|---|
//! | of modification | [`SEALED`], a constant | a program writes to the file, truncates it or maps it for writing |
//! | of change | when it was published or sealed again | anything is done to the file, even setting its times |
//!
//! The time of modification is a constant and not the time of writing, because older kernels (before Linux
//! 6.13) count the times of files in steps of some milliseconds: two writes within one step would have the
//! same time. The time of change also reveals programs that put back the time of modification; no program can
//! put back the time of change. The last use is therefore noted in another file:
//! [`last_use`](super::last_use).
//!
//! Not detected: a program that has kept an entry mapped for writing since before it was checked, and writes
//! to a page that it had written to before; with an older kernel, also one that writes and puts back the time
//! of modification within the clock's step in which the entry was published.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};

use super::guard::Guarded;

/// The time of modification of an unchanged entry: the first second of the year 2000.
const SEALED: Timespec = Timespec { tv_sec: 946_684_800, tv_nsec: 0 };
const OMITTED: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
/// For this time after a file was last modified, a program may still be writing to it, because the kernel
/// sets the time of modification when a write begins.
const UNTRUSTED_TIME: Duration = Duration::from_secs(1);

/// The metadata of a file, without its time of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    length: u64,
    /// The times of modification and change, in seconds and nanoseconds since 1970.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn from_metadata(found: &Metadata) -> Stamp {
        Stamp {
            file: (found.dev(), found.ino()),
            length: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.modified == (SEALED.tv_sec, SEALED.tv_nsec)
    }
}

/// Whether a program may be writing to the file now.
pub(super) fn may_be_written(found: &Metadata) -> bool {
    // A time in the future was set by some program, and does not show that the file is being written.
    let age = found.modified().map(|modified| SystemTime::now().duration_since(modified));
    age.is_ok_and(|age| age.is_ok_and(|age| age < UNTRUSTED_TIME))
}

/// Detects changes of a mapped entry.
pub(super) struct Seal {
    path: PathBuf,
    stamp: Stamp,
    map: Arc<Guarded>,
}

impl Seal {
    pub(super) fn new(path: PathBuf, stamp: Stamp, map: Arc<Guarded>) -> Seal {
        Seal { path, stamp, map }
    }

    /// Whether everything read from the map so far is what was verified: no program changed, truncated,
    /// exchanged or removed the file, and all of it could be read.
    pub(super) fn is_intact(&self) -> bool {
        let found = self.path.symlink_metadata();
        found.is_ok_and(|found| Stamp::from_metadata(&found) == self.stamp) && !self.map.is_broken()
    }
}

/// Seals a file that was just written or that lost its seal. A lost seal must be renewed before the file is
/// read, so that later changes show.
pub(super) fn seal(file: &File) -> io::Result<()> {
    Ok(futimens(file, &Timestamps { last_access: OMITTED, last_modification: SEALED })?)
}

//! Detects changes of an entry by its file times.
//!
//! An entry is written once, and its times then have a meaning of our own:
//!
//! | time | says | set by |
//! |---|---|---|
//! | of modification | [`SEALED`], a constant, until a program writes to the file, truncates it or maps it for writing | us once, before it is published or checked; else the kernel |
//! | of access | the last use | us, for each epoch that uses it; our files are opened so that reading does not |
//! | of change | equal to that of access after we marked a use; different after anything else was done to the file | the kernel |
//!
//! A constant and not the time of writing, because the kernel's clock for files ticks in steps of some milliseconds: two
//! writes within one step have the same time. The time of change also reveals programs that restore the time of
//! modification.
//!
//! Not detected: a program that has kept an entry mapped for writing since before it was checked, and writes to a page
//! that it had written to before.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens, utimensat};

use super::guard::Guarded;
use super::pause::Pause;

/// The time of modification of an unchanged entry: the first second of the year 2000.
const SEALED: Timespec = Timespec { tv_sec: 946_684_800, tv_nsec: 0 };
/// Looks at times that may be half set, with naps from the third one on: 43 ms in all.
const LOOKS: usize = 11;
const OMITTED: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// The metadata of a file.
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

    /// Whether `later` is the same file, changed by nothing but marks of use.
    pub(super) fn admits(&self, later: &Stamp) -> bool {
        self.is_same_but_for_times(later)
            && self.sealed
            && (later.changed == self.changed || later.changed == later.used)
    }

    fn is_same_but_for_times(&self, later: &Stamp) -> bool {
        (self.file, self.length, self.sealed) == (later.file, later.length, later.sealed)
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }
}

/// Detects changes of a mapped entry.
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

    /// Whether everything read from the map so far was what had been checked: no program changed, truncated,
    /// exchanged or removed the file, and all of it could be read.
    ///
    /// The kernel neither sets nor reads the times of a file at once, so that a mark of another thread may be seen half
    /// made, for as long as that thread does not run. Times that look wrong are therefore looked at again.
    pub(super) fn is_intact(&self) -> bool {
        let pause = Pause::default();
        let mut naps = pause.naps();
        for look in 0..LOOKS {
            if look > 1 {
                naps.nap();
            }
            let Ok(found) = self.path.symlink_metadata() else { return false };
            let found = Stamp::of(&found);
            let known = Stamp { changed: self.changed.load(Relaxed), ..self.stamp };
            if known.admits(&found) {
                self.changed.store(found.changed, Relaxed);
                return !self.map.is_broken();
            }
            if !known.is_same_but_for_times(&found) {
                return false;
            }
        }
        false
    }
}

/// Seals a file that was written, and marks it as used.
pub(super) fn seal_new(file: &File) -> io::Result<()> {
    Ok(futimens(file, &Timestamps { last_access: NOW, last_modification: SEALED })?)
}

/// Seals a file that lost its seal. Must happen before its content is read, so that later changes show.
pub(super) fn seal_again(file: &File) -> io::Result<()> {
    Ok(futimens(file, &Timestamps { last_access: OMITTED, last_modification: SEALED })?)
}

/// Sets the time of last use, for all processes to see. If this fails, the entry only seems less used.
pub(super) fn mark_used(path: &Path) {
    let times = Timestamps { last_access: NOW, last_modification: OMITTED };
    let _ = utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::map;

    #[test]
    fn marks_of_other_threads_are_no_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entry");
        std::fs::write(&path, [7; 4096]).unwrap();
        let file = File::open(&path).unwrap();
        seal_new(&file).unwrap();
        let (_, map) = map::map(&file, 4096).unwrap().unwrap();
        let seal = Seal::new(path.clone(), Stamp::of(&file.metadata().unwrap()), map);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Relaxed) {
                        mark_used(&path);
                    }
                });
            }
            let changed = (0..50_000).filter(|_| !seal.is_intact()).count();
            done.store(true, Relaxed);
            assert_eq!(changed, 0);
        });
    }
}

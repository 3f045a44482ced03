//! How many files of the local disk stay open, and how many sockets: a share of what the process may have, for
//! all data sets together.
//!
//! The limit is the process's own (`ulimit -n`), as it is at the moment. What others take of it, such as
//! threads and the user's own files, has the rest.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Result};
use rustix::process::{Resource, getrlimit};

/// Files that one data set keeps open. More would be opened less often, and take handles from the rest of the
/// process.
const MOST_OF_ONE: usize = 64;

/// The part of the process's limit that files which stay open may take.
const PART: usize = 4;

/// The part of the process's limit that requests to object stores may take.
const PART_OF_SOCKETS: usize = 2;

/// Handles that a run takes beside the files that stay open: those of reads that are under way, and a few of
/// its caches.
const SPARE: usize = 8;

/// How often a file is opened again where the process has no handle left, and how long it is waited for one
/// each time: a read gives its own back within milliseconds.
const TRIES: usize = 20;
const WAIT: Duration = Duration::from_millis(50);

/// Files that are kept open, and data sets that are read from.
static KEPT: AtomicUsize = AtomicUsize::new(0);
static READERS: AtomicUsize = AtomicUsize::new(0);

/// Object stores that are connected to.
static STORES: AtomicUsize = AtomicUsize::new(0);

/// Where those wait for whom no handle is left.
static WAITING: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// A place among the files that the process keeps open.
#[derive(Debug)]
pub(super) struct Kept(());

impl Kept {
    /// A place, if one is free.
    pub(super) fn take() -> Option<Self> {
        let most = most_kept();
        let more = |kept: usize| (kept < most).then_some(kept + 1);
        KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Kept(()))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One of those that share what the process may have open.
#[derive(Debug)]
pub(super) struct Sharer(&'static AtomicUsize);

impl Sharer {
    /// A data set that is read from: it has a share of the files that stay open.
    pub(super) fn of_files() -> Self {
        Sharer::among(&READERS)
    }

    /// A store that is connected to: it has a share of the sockets.
    pub(super) fn of_sockets() -> Self {
        Sharer::among(&STORES)
    }

    fn among(sharers: &'static AtomicUsize) -> Self {
        sharers.fetch_add(1, Ordering::Relaxed);
        Sharer(sharers)
    }
}

impl Drop for Sharer {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Files that each data set that is read from may keep open.
pub(super) fn share() -> usize {
    (most_kept() / READERS.load(Ordering::Relaxed).max(1)).clamp(1, MOST_OF_ONE)
}

/// Requests that each store may have under way by the process's limit.
pub(super) fn sockets() -> usize {
    limit().map_or(usize::MAX, |limit| sockets_of(limit, STORES.load(Ordering::Relaxed)))
}

fn sockets_of(limit: usize, stores: usize) -> usize {
    (limit / PART_OF_SOCKETS / stores.max(1)).max(1)
}

/// Opens a file. Where the process has no handle left, `give_back` closes what can be closed, and then it is
/// waited for other reads to end.
///
/// # Errors
/// Those of the system. Where there is no handle still, the error names the limit.
pub(super) fn open(path: &Path, give_back: impl Fn()) -> Result<File> {
    for attempt in 0..TRIES {
        match File::open(path) {
            Err(error) if is_out_of_handles(&error) => {
                if attempt > 0 {
                    let waiting = WAITING.0.lock().unwrap_or_else(PoisonError::into_inner);
                    drop(WAITING.1.wait_timeout(waiting, WAIT));
                }
                give_back();
            }
            opened => return opened.map_err(|error| error.into_error()),
        }
    }
    Err(none_left())
}

/// Says that a file was closed.
pub(super) fn closed() {
    WAITING.1.notify_all();
}

/// Makes sure that the process can open what a run takes beside the files that stay open.
///
/// # Errors
/// `Io` where it cannot.
pub fn check() -> Result<()> {
    let opened: io::Result<Vec<File>> = (0..SPARE).map(|_| File::open("/dev/null")).collect();
    match opened {
        Err(error) if is_out_of_handles(&error) => Err(none_left()),
        _ => Ok(()),
    }
}

/// Files that stay open, at most, in the whole process.
fn most_kept() -> usize {
    limit().map_or(usize::MAX, |limit| limit / PART).max(1)
}

/// Files and sockets that this process may have open.
fn limit() -> Option<usize> {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok())
}

fn is_out_of_handles(error: &io::Error) -> bool {
    let of_process_or_machine = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    of_process_or_machine.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn none_left() -> Error {
    let most = limit().map_or_else(String::new, |limit| format!(": it may have {limit}"));
    Error::new(ErrorKind::Io, format!("this process cannot open more files{most}")).hint(
        "allow it more with `ulimit -n`, or close some; each data set takes a few beside those that it reads",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_share_the_sockets_of_a_process() {
        assert_eq!(sockets_of(1024, 1), 512);
        assert_eq!(sockets_of(1024, 16), 32);
        assert_eq!(sockets_of(1024, 0), 512, "before the first is counted");
        assert_eq!(sockets_of(64, 100), 1, "each store can be read from");
    }
}

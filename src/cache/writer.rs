//! The writer of an entry: the one thread of one process that fetches the rows of the entry and writes them.
//!
//! The file `….part` is both the temporary file and the lock. The lock ends with its owner, however that
//! ends; a file without a lock is an orphan, and the process that finds it removes it. An orphan is never
//! taken over: its finder creates a new file, so that no file is ever written by two processes.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind as Io};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::{self, FolderScan};
use super::key::Name;
use super::last_use;
use super::ledger::Ledger;
use super::points::{self, Point};
use super::seal;
use super::space::{Declined, Space};

/// How often another process may interfere before the entry counts as being written by others.
const ATTEMPTS: usize = 8;

/// The writer of one entry. Dropping it removes the partial file, then the lock.
pub(super) struct Writer {
    space: Arc<Space>,
    name: Name,
    pub(super) file: File,
    /// The path of the partial file; `None` once it became an entry.
    path: Option<PathBuf>,
    /// The length of the partial file that the ledger counts; `None` before it is reserved.
    reserved: Option<u64>,
}

impl Writer {
    /// Begins to write an entry. Declines as busy if another thread or process is writing it.
    pub(super) fn begin(space: &Arc<Space>, name: Name) -> Result<Writer, Declined> {
        let path = space.folder.partial(name);
        let is_blocked = space.folder.make_room_for(name)?
            || folder::clear(&path)?
            || folder::clear(&space.folder.entry(name))?;
        if is_blocked {
            return Err(Declined::Blocked);
        }
        for _ in 0..ATTEMPTS {
            match folder::create(&path, false) {
                Ok(file) => match lock(&file, &path)? {
                    Lock::Ours => {
                        points::pass(Point::Created);
                        let (space, path) = (space.clone(), Some(path));
                        return Ok(Writer { space, name, file, path, reserved: None });
                    }
                    Lock::Theirs => return Err(Declined::Busy),
                    Lock::Gone => {}
                },
                Err(error) if error.kind() == Io::AlreadyExists => {
                    if !remove_orphan(space, &path)? {
                        return Err(Declined::Busy);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Declined::Busy)
    }

    /// Gives the file its length, which the ledger already counts.
    pub(super) fn grow(&mut self, bytes: u64) -> io::Result<()> {
        self.reserved = Some(bytes);
        self.file.set_len(bytes)?;
        points::pass(Point::Reserved);
        Ok(())
    }

    /// Turns the partial file into an entry, and notes that it is used now.
    pub(super) fn publish(mut self) -> Result<(), Declined> {
        points::pass(Point::Written);
        seal::seal(&self.file)?;
        if let Some(path) = &self.path {
            // This happens under the lock of the ledger, so that no count misses the entry or sees it twice.
            let _ledger = Ledger::lock(&self.space.folder, &self.space.pause)?;
            let entry = self.space.folder.entry(self.name);
            match fs::rename(path, &entry) {
                Err(error) if folder::is_in_the_way(&error) && entry.is_dir() => {
                    return Err(Declined::Blocked);
                }
                renamed => renamed?,
            }
            points::pass(Point::Renamed);
            self.path = None;
            last_use::mark(&self.space.folder, self.name);
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            let _ = match self.reserved {
                Some(bytes) => self.space.remove(&path, bytes),
                None => fs::remove_file(path),
            };
        }
        let _ = self.file.unlock();
        self.space.pause.wake();
    }
}

enum Lock {
    Ours,
    Theirs,
    /// The file is no longer at its path.
    Gone,
}

fn lock(file: &File, path: &Path) -> io::Result<Lock> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Lock::Theirs),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let own = file.metadata()?;
    match path.symlink_metadata() {
        Ok(found) if (found.dev(), found.ino()) == (own.dev(), own.ino()) => Ok(Lock::Ours),
        Ok(_) => Ok(Lock::Gone),
        Err(error) if error.kind() == Io::NotFound => Ok(Lock::Gone),
        Err(error) => Err(error),
    }
}

/// Removes a half-written file. Returns `false` if the file is locked and so stays.
fn remove_orphan(space: &Space, path: &Path) -> io::Result<bool> {
    let file = match folder::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == Io::NotFound => return Ok(true),
        // A file that cannot be read counts as foreign to the cache.
        Err(error) if folder::is_in_the_way(&error) && path.symlink_metadata().is_ok() => {
            return fs::remove_file(path).map(|()| true);
        }
        Err(error) => return Err(error),
    };
    match lock(&file, path)? {
        Lock::Theirs => Ok(false),
        Lock::Gone => Ok(true),
        Lock::Ours => {
            match file.metadata()?.len() {
                0 => fs::remove_file(path)?,
                reserved => space.remove(path, reserved)?,
            }
            Ok(true)
        }
    }
}

/// Removes all half-written files whose owners are gone, and notes of the last use of removed entries.
pub(super) fn remove_orphans(space: &Space, scan: &FolderScan) {
    for name in &scan.left_behind {
        let note = space.folder.last_use(*name);
        let _ = folder::clear(&note).and_then(|_| fs::remove_file(&note));
    }
    for part in &scan.partials {
        let _ = remove_orphan(space, &space.folder.partial(part.name));
    }
}

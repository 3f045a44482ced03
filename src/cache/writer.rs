//! The writer of an entry: the one thread of one process that fetches the rows of the entry and writes them.
//!
//! The file `….part` is both the temporary file and the lock. The system releases the lock when its process
//! ends, even if it is killed. A file without a lock is an orphan, and the next process that finds it removes
//! it and creates a new file. No process continues an orphan, so no file is ever written by two processes.

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

/// How many times [`Writer::begin`] tries again because another process created or removed the file
/// meanwhile. After that, the entry counts as being written by others.
const ATTEMPTS: usize = 8;

/// The writer of one entry. Dropping it removes the partial file (unless it was published), then releases the
/// lock.
pub(super) struct Writer {
    space: Arc<Space>,
    name: Name,
    pub(super) file: File,
    /// The path of the partial file; `None` after it was renamed to an entry.
    path: Option<PathBuf>,
    /// The bytes that the ledger counts for the partial file; `None` before they are reserved.
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

    /// Extends the file to `bytes`, which the ledger counts already.
    pub(super) fn grow(&mut self, bytes: u64) -> io::Result<()> {
        self.reserved = Some(bytes);
        self.file.set_len(bytes)?;
        points::pass(Point::Reserved);
        Ok(())
    }

    /// Turns the partial file into an entry, and marks the entry as used now.
    pub(super) fn publish(mut self) -> Result<(), Declined> {
        points::pass(Point::Written);
        seal::seal(&self.file)?;
        if let Some(path) = &self.path {
            // Other processes count entries under the same lock, so they neither miss this entry nor count it
            // twice.
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
    /// Another process removed or replaced the file at the path after this process opened it.
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

/// Removes a partial file that no process is writing. Returns `false`, and leaves the file, if another
/// process has locked it.
fn remove_orphan(space: &Space, path: &Path) -> io::Result<bool> {
    let file = match folder::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == Io::NotFound => return Ok(true),
        // A link or an unreadable file at this path is not a partial file that the cache made, so no process
        // has locked it.
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

/// Removes all partial files that no process is writing, and the last-use notes of entries that were removed.
pub(super) fn remove_orphans(space: &Space, scan: &FolderScan) {
    for name in &scan.left_behind {
        let note = space.folder.last_use(*name);
        let _ = folder::clear(&note).and_then(|_| fs::remove_file(&note));
    }
    for part in &scan.partials {
        let _ = remove_orphan(space, &space.folder.partial(part.name));
    }
}

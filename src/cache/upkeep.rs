//! Maintenance of a whole cache: removes orphans, verifies all entries, empties the cache.

use std::fs;
use std::io;

use forebay_base::{Error, Place, Result};
use serde::Serialize;

use super::folder::{self, ScannedFile};
use super::format::{self, Integrity};
use super::key::Name;
use super::{DiskCache, writer};

/// The result of verifying every entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The number of entries that are whole and have the right name.
    pub sound: u64,
    /// The size of the sound entries, in bytes.
    pub bytes: u64,
    /// The number of rows in the sound entries.
    pub rows: u64,
    /// The number of entries that were damaged, and so were removed.
    pub damaged: u64,
    /// The number of entries that could not be read, and were left.
    pub unreadable: u64,
    /// The number of entries that are being fetched or written now.
    pub parts: u64,
    /// The number of files that do not belong to a cache, and were left.
    pub strange: u64,
}

/// The result of emptying a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cleared {
    /// The number of entries removed.
    pub entries: u64,
    /// The size of the entries removed, in bytes.
    pub bytes: u64,
}

impl DiskCache {
    /// Reads every entry, compares its checksum, and removes the entry if it is damaged. Other processes may
    /// use the cache meanwhile.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn verify(&self) -> Result<Report> {
        self.remove_orphans();
        let scan = self.scan()?;
        let (parts, strange) = (scan.partials.len() as u64, scan.strange);
        let mut report = Report { parts, strange, ..Report::default() };
        for found in &scan.entries {
            self.verify_one(found, &mut report);
        }
        Ok(report)
    }

    fn verify_one(&self, found: &ScannedFile, report: &mut Report) {
        let space = &self.0.space;
        let path = space.folder.entry(found.name);
        let verdict = folder::open(&path)
            .and_then(|file| format::check(&file, |text| Name::from_key(text) == found.name));
        match verdict {
            Ok(Integrity::Sound(body)) => {
                report.sound += 1;
                report.bytes += body.bytes;
                report.rows += body.rows;
            }
            Ok(Integrity::Damaged) if space.remove(&path, found.length).is_ok() => report.damaged += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(Integrity::Damaged) | Err(_) => report.unreadable += 1,
        }
    }

    /// Removes all entries. Rows that the cache has returned before stay readable, and entries that are being
    /// written now are kept.
    ///
    /// # Errors
    /// An entry cannot be removed. The entries after it are then kept.
    pub fn clear(&self) -> Result<Cleared> {
        self.0.index.clear();
        let space = &self.0.space;
        let (mut scan, mut cleared) = (self.scan()?, Cleared::default());
        for found in scan.entries.drain(..) {
            match space.remove(&space.folder.entry(found.name), found.length) {
                Ok(()) => {
                    cleared.entries += 1;
                    cleared.bytes += found.length;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.failed("emptied", &error)),
            }
            scan.left_behind.push(found.name);
        }
        for note in scan.notes.drain(..) {
            let _ = fs::remove_file(space.folder.note(note));
        }
        writer::remove_orphans(space, &scan);
        Ok(cleared)
    }

    /// Removes the unfinished files of processes that have ended, and the last-use notes of entries that were
    /// removed.
    pub(super) fn remove_orphans(&self) {
        if let Ok(scan) = self.0.space.folder.scan() {
            writer::remove_orphans(&self.0.space, &scan);
        }
    }

    fn scan(&self) -> Result<folder::FolderScan> {
        self.0.space.folder.scan().map_err(|error| self.failed("read", &error))
    }

    fn failed(&self, done: &str, error: &io::Error) -> Error {
        let folder = self.folder().to_string_lossy();
        let hint = format!("make it and its contents writable for this user: chmod -R u+rwX {folder}");
        folder::failed(done, error).at(Place::file(folder)).hint(hint)
    }
}

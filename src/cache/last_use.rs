//! Records when an entry was used last, for all processes, as the time of modification of an empty file
//! beside the entry.
//!
//! The times of the entry's own file cannot be used: the kernel records the setting of a time as a change of
//! the file, which would hide changes by other programs. If a folder or a link is in the place of the empty
//! file, its time of modification is used in the same way.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use rustix::io::Errno;

use super::folder::{self, Folder};
use super::key::Name;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// Notes that an entry is used now. If this fails, the entry only seems less used than it is.
pub(super) fn mark(folder: &Folder, name: Name) {
    let path = folder.last_use(name);
    let times = Timestamps { last_access: NOW, last_modification: NOW };
    if utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW) == Err(Errno::NOENT) {
        let _ = folder::create(&path, true);
    }
}

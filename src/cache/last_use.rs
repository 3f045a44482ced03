//! Notes when an entry was used last, as the time of modification of an empty file beside it, which all
//! processes share.
//!
//! The times of the entry's own file cannot serve: the kernel notes the setting of a time as a change, which
//! would hide changes by other programs. A folder or a link in the place of the empty file has a time of
//! modification too, which serves as well.

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

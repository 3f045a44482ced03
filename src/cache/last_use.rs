//! When an entry was used last: the time of modification of an empty file beside it, which all processes share.
//!
//! Not a time of the entry's own file: the kernel notes the setting of a time as a change, and could then not tell what
//! others did to the entry since.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use rustix::io::Errno;

use super::folder;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// Sets the time of last use, noted at `path`, to now. If this fails, the entry only seems less used.
pub(super) fn mark(path: &Path) {
    let times = Timestamps { last_access: NOW, last_modification: NOW };
    if utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) == Err(Errno::NOENT) {
        let _ = folder::create(path, true);
    }
}

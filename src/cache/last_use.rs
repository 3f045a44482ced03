//! When an entry was used last: the time of modification of an empty file beside it, which all processes
//! share.
//!
//! Not a time of the entry's own file: the kernel notes the setting of a time as a change, and could then not
//! tell what others did to the entry since. A folder or a link in the place of the empty file has such a time
//! too, which serves as well.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use rustix::io::Errno;

use super::folder::{self, Folder};
use super::key::Name;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };

/// Notes that an entry is used now. If this fails, it only seems less used.
pub(super) fn mark(folder: &Folder, name: Name) {
    let path = folder.last_use(name);
    let times = Timestamps { last_access: NOW, last_modification: NOW };
    if utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW) == Err(Errno::NOENT) {
        let _ = folder::create(&path, true);
    }
}

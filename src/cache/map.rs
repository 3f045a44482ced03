//! The bytes of an entry as one Arrow buffer: mapped, or read.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use arrow::buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use memmap2::MmapOptions;

/// The first `length` bytes of `file` without reading them: all processes that map it share one copy in the page cache.
///
/// Only for entries, in a folder where [`Folder`](super::folder::Folder) allows it, and only after their checksum was
/// found right.
pub(super) fn map(file: &File, length: usize) -> io::Result<Buffer> {
    // SAFETY: the mapped bytes must not change while the map lives, and must stay there. The folder is on a local disk
    // and writable by our user alone; an entry is written under another name, renamed when it is whole, and from then on
    // neither written nor truncated by any process of this library, only unlinked, which leaves the map as it is. The
    // caller checked that the file is at least `length` long.
    let map = unsafe { MmapOptions::new().len(length).map(file) }?;
    Ok(Buffer::from(Bytes::from_owner(map)))
}

/// The first `length` bytes of `file`, in memory of our own.
pub(super) fn read(file: &File, length: usize) -> io::Result<Buffer> {
    let mut bytes = MutableBuffer::from_len_zeroed(length);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes.into())
}

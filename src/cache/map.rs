//! The bytes of an entry as an Arrow buffer, either mapped or read into memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use forebay_arrow::buffer::{Buffer, MutableBuffer};

use super::guard::Guarded;

/// Maps the first `length` bytes of `file` without reading them; all processes that map the file share one
/// copy in the page cache. `None` if no more maps can be guarded. Use it only where
/// [`Folder`](super::folder::Folder) allows mapping.
pub(super) fn map(file: &File, length: usize) -> io::Result<Option<(Buffer, Arc<Guarded>)>> {
    let Some(guarded) = Guarded::new(file, length)? else { return Ok(None) };
    let guarded = Arc::new(guarded);
    Ok(Some((Buffer::from(Bytes::from_owner(SharedMap(guarded.clone()))), guarded)))
}

/// Reads the first `length` bytes of `file` into private memory.
pub(super) fn read(file: &File, length: usize) -> io::Result<Buffer> {
    let mut bytes = MutableBuffer::from_len_zeroed(length);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes.into())
}

/// A memory map that an entry and the Arrow buffers over it share.
struct SharedMap(Arc<Guarded>);

impl AsRef<[u8]> for SharedMap {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

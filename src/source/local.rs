//! Positioned reads of local files.

use std::fmt;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::buffers::Buffers;
use super::remote::{Pin, changed};
use super::shown::shown;
use crate::catalog::FileVersion;
use crate::error::{Error, ErrorKind, OrFail, Place, Result};
use crate::paths;

const NANOSECONDS_A_SECOND: i128 = 1_000_000_000;

/// What distinguishes one version of a local file from the next.
pub(super) fn version(metadata: &fs::Metadata) -> FileVersion {
    let seconds = i128::from(metadata.mtime()) * NANOSECONDS_A_SECOND;
    FileVersion::Modified(seconds + i128::from(metadata.mtime_nsec()))
}

/// Reads ranges, then makes sure that they came from the pinned writing.
///
/// Fails with `DatasetChanged` if the file has another size or time of change after the read, with `NotFound` if it is
/// gone, and with `Io` if it cannot be read. A file that is rewritten in place within one tick of the file system's
/// clock, to the same size, goes unnoticed here.
pub(super) fn read(pin: &Pin, ranges: &[Range<u64>], buffers: &Arc<Buffers>) -> Result<Vec<Bytes>> {
    let (path, size) = (filesystem_path(&pin.path), pin.size);
    if let Some(beyond) = ranges.iter().find(|range| range.end > size) {
        let cause = format!("bytes {}..{} were requested from a file of {size}", beyond.start, beyond.end);
        return Err(Error::new(ErrorKind::Internal, cause));
    }
    let file = fs::File::open(path).or_fail()?;
    let read = ranges.iter().map(|range| read_range(&file, range, buffers)).collect::<Result<Vec<_>>>();
    // After the read, so that a change during it is seen as well.
    let metadata = file.metadata().or_fail()?;
    if metadata.len() != size {
        return Err(changed(&format!("{size} bytes then, {} now", metadata.len())));
    }
    let now = version(&metadata);
    if now != pin.version {
        return Err(changed(&format!("{} then, {now} now", pin.version)));
    }
    read
}

fn read_range(mut file: &fs::File, range: &Range<u64>, buffers: &Arc<Buffers>) -> Result<Bytes> {
    let length = range.end.saturating_sub(range.start);
    let length = usize::try_from(length)
        .map_err(|_| Error::new(ErrorKind::TooLarge, format!("{length} bytes in one read")))?;
    let failed = |error: &dyn fmt::Display| {
        Error::new(ErrorKind::Io, format!("reading bytes {}..{}: {error}", range.start, range.end))
    };
    // Into room that is not zeroed first: this is every byte of the data set.
    let mut lent = buffers.take(length)?;
    file.seek(SeekFrom::Start(range.start)).map_err(|error| failed(&error))?;
    file.take(length as u64).read_to_end(&mut lent.buffer).map_err(|error| failed(&error))?;
    if lent.buffer.len() < length {
        return Err(failed(&format!("the file ends after {} of them", lent.buffer.len())));
    }
    Ok(lent.into_bytes())
}

/// The path on disk of a catalogued file.
fn filesystem_path(path: &object_store::path::Path) -> PathBuf {
    Path::new("/").join(path.as_ref())
}

/// An absolute path as an object store names it: with `/`, without a root.
pub(super) fn object_path(absolute: &Path) -> Result<object_store::path::Path> {
    paths::text(absolute).map_err(|error| error.at(place(absolute)))?;
    object_store::path::Path::from_absolute_path(absolute)
        .map_err(|error| Error::invalid(error.to_string()).at(place(absolute)))
}

/// A local path as a place. It may be a URL that was mistyped.
pub(super) fn place(path: &Path) -> Place {
    Place::file(shown(&path.to_string_lossy()))
}

//! Positioned reads of catalogued files.

use std::fmt;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::catalog::{File, FileVersion};
use crate::error::{Error, ErrorKind, Place, Result};

const NANOSECONDS_A_SECOND: i128 = 1_000_000_000;

/// Where the bytes of a data set are. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    /// The local disk, on threads of the runtime's blocking pool.
    Local,
}

impl Store {
    pub(super) fn local() -> Self {
        Store { kind: Kind::Local }
    }

    /// Reads the byte ranges of a file, in the order given.
    ///
    /// Every range has its full length, and all are of the writing that was catalogued: fails with `DatasetChanged` if
    /// the file has another size or time of change after the read, or is gone, and with `Io` if it cannot be read. A file
    /// that is rewritten in place within one tick of the file system's clock, to the same size, goes unnoticed here.
    pub async fn read_ranges(&self, file: &File, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.kind {
            Kind::Local => {
                let path = filesystem_path(&file.path);
                let (size, version) = (file.size, file.version.clone());
                let ranges = ranges.to_vec();
                self.blocking(move || read_checked(&path, size, &version, &ranges))
                    .await
                    .map_err(|error| error.at(Place::file(file.location.clone())))
            }
        }
    }

    /// Runs blocking work on the runtime's own threads for it.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match tokio::task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) if error.is_cancelled() => {
                Err(Error::new(ErrorKind::Closed, "the runtime was shut down"))
            }
            Err(error) => Err(Error::new(ErrorKind::Internal, error.to_string())),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Local => f.write_str("Store(local)"),
        }
    }
}

/// What tells this writing of a local file from the next.
pub(super) fn version(metadata: &fs::Metadata) -> Result<FileVersion> {
    let seconds = i128::from(metadata.mtime()) * NANOSECONDS_A_SECOND;
    Ok(FileVersion::Modified(seconds + i128::from(metadata.mtime_nsec())))
}

/// Reads ranges, then makes sure that they came from the expected writing.
pub(super) fn read_checked(
    path: &Path,
    size: u64,
    expected: &FileVersion,
    ranges: &[Range<u64>],
) -> Result<Vec<Bytes>> {
    let changed = |what: String| {
        Error::new(
            ErrorKind::DatasetChanged,
            format!("the file has changed since the data set was opened: {what}"),
        )
        .hint("open the data set again")
    };
    if let Some(beyond) = ranges.iter().find(|range| range.end > size) {
        let cause = format!("bytes {}..{} were asked of a file of {size}", beyond.start, beyond.end);
        return Err(Error::new(ErrorKind::Internal, cause));
    }
    let file = fs::File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => changed("it is gone".into()),
        _ => Error::from(error),
    })?;
    let read = ranges.iter().map(|range| read_range(&file, range)).collect::<Result<Vec<_>>>();
    // After the read, so that a change during it is seen as well.
    let metadata = file.metadata()?;
    if metadata.len() != size {
        return Err(changed(format!("{size} bytes then, {} now", metadata.len())));
    }
    let now = version(&metadata)?;
    if now != *expected {
        return Err(changed(format!("{expected} then, {now} now")));
    }
    read
}

fn read_range(mut file: &fs::File, range: &Range<u64>) -> Result<Bytes> {
    let length = range.end.saturating_sub(range.start);
    let length = usize::try_from(length)
        .map_err(|_| Error::new(ErrorKind::TooLarge, format!("{length} bytes in one read")))?;
    let failed = |error: &dyn fmt::Display| {
        Error::new(ErrorKind::Io, format!("reading bytes {}..{}: {error}", range.start, range.end))
    };
    // Into room that is not zeroed first: this is every byte of the data set.
    let mut buffer = Vec::with_capacity(length);
    file.seek(SeekFrom::Start(range.start)).map_err(|error| failed(&error))?;
    file.take(length as u64).read_to_end(&mut buffer).map_err(|error| failed(&error))?;
    if buffer.len() < length {
        return Err(failed(&format!("the file ends after {} of them", buffer.len())));
    }
    Ok(buffer.into())
}

/// The path on disk of a catalogued local file.
fn filesystem_path(path: &object_store::path::Path) -> PathBuf {
    Path::new("/").join(path.as_ref())
}

//! Reads byte ranges of local files. Files are kept open for further reads, as long as the data set is being
//! read.

use std::fmt;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Place, Result, paths};
use lru::LruCache;
use rustix::buffer::spare_capacity;

use super::buffers::Buffers;
use super::handles::{self, KeptHandle, Sharer};
use super::remote::{Pin, changed};
use super::shown::shown;
use crate::catalog::FileVersion;

const NANOSECONDS_A_SECOND: i128 = 1_000_000_000;

/// The version of a local file. It changes if the file is written again or replaced.
pub(super) fn version(metadata: &fs::Metadata) -> FileVersion {
    let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * NANOSECONDS_A_SECOND + i128::from(rest);
    FileVersion::Local {
        modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        inode: metadata.ino(),
    }
}

/// The version of the file at `path`. It has no inode number if the file system may change these numbers.
pub(super) fn version_at(path: &Path, metadata: &fs::Metadata) -> FileVersion {
    match (version(metadata), numbers_anew(path, metadata.dev())) {
        (FileVersion::Local { modified, changed, .. }, true) => {
            FileVersion::Local { modified, changed, inode: 0 }
        }
        (version, _) => version,
    }
}

/// Whether the file system may give the same file another inode number later, as file systems in user space
/// (FUSE) do. The result is remembered for each file system.
#[cfg(target_os = "linux")]
fn numbers_anew(path: &Path, device: u64) -> bool {
    static KNOWN: Mutex<Vec<(u64, bool)>> = Mutex::new(Vec::new());
    const FUSE: u64 = 0x6573_5546;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = known.iter().find(|(of, _)| *of == device) {
        return *found;
    }
    let found = rustix::fs::statfs(path).is_ok_and(|about| about.f_type as u64 == FUSE);
    known.push((device, found));
    found
}

/// Whether the file system may give the same file another inode number later. This is not known on this
/// platform, so the answer is no.
#[cfg(not(target_os = "linux"))]
fn numbers_anew(_path: &Path, _device: u64) -> bool {
    false
}

/// Ranges are read together only if there are at most this many bytes from the start of the first to the end
/// of the last one.
const JOINED_BYTES: u64 = 256 << 10;
/// Ranges are read together only if there are at most this many bytes between two of them. A system call
/// takes as long as copying some ten thousand bytes.
const JOINED_GAP: u64 = 16 << 10;

/// The local disk, with files that are kept open, and buffers for large reads.
#[derive(Debug)]
pub(super) struct Local {
    buffers: Arc<Buffers>,
    open: Mutex<OpenFiles>,
}

/// The files that are kept open for further reads, as long as the data set is being read.
#[derive(Debug)]
struct OpenFiles {
    files: LruCache<String, KeptFile>,
    /// The number of [`Reading`] values that exist.
    readers: usize,
    /// The data set's share of the process's file handles, as long as it is being read.
    sharer: Option<Sharer>,
}

/// A value that a reader of the data set holds. As long as one exists, files are kept open for further reads.
#[derive(Debug)]
pub struct Reading(Arc<Local>);

impl Reading {
    pub(super) fn begin(local: &Arc<Local>) -> Self {
        let mut open = local.lock();
        open.readers += 1;
        open.sharer.get_or_insert_with(Sharer::of_files);
        drop(open);
        Reading(local.clone())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut open = self.0.lock();
        open.readers -= 1;
        if open.readers == 0 {
            open.sharer = None;
            let closed = open.take_all();
            // The lock is released before the files are closed.
            drop(open);
            drop(closed);
        }
    }
}

/// A file that is kept open, with the permission to do so.
#[derive(Debug)]
struct KeptFile {
    file: Arc<OpenFile>,
    place: KeptHandle,
}

/// An open file, with an identity that distinguishes it from other files that had the same path.
#[derive(Debug)]
struct OpenFile {
    file: fs::File,
    /// The numbers of the device and of the inode.
    identity: (u64, u64),
}

impl OpenFiles {
    /// Keeps a file open, if the data set is being read and the limits allow it. Returns the files that are
    /// not kept (any longer), for the caller to close after it has released the lock.
    fn keep(&mut self, name: &str, file: OpenFile) -> Vec<Arc<OpenFile>> {
        if self.readers == 0 {
            return vec![Arc::new(file)];
        }
        let mut closed = Vec::new();
        let most = handles::share();
        while self.files.len() > most
            && let Some((_, oldest)) = self.files.pop_lru()
        {
            closed.push(oldest.file);
        }
        let free = if self.files.len() < most { KeptHandle::take() } else { None };
        let place = free.or_else(|| {
            let (_, oldest) = self.files.pop_lru()?;
            closed.push(oldest.file);
            Some(oldest.place)
        });
        let file = Arc::new(file);
        match place {
            Some(place) => {
                let replaced = self.files.push(name.to_owned(), KeptFile { file, place });
                closed.extend(replaced.map(|(_, replaced)| replaced.file));
            }
            None => closed.push(file),
        }
        closed
    }

    fn take_all(&mut self) -> LruCache<String, KeptFile> {
        std::mem::replace(&mut self.files, LruCache::unbounded())
    }
}

impl Default for Local {
    fn default() -> Self {
        let open = OpenFiles { files: LruCache::unbounded(), readers: 0, sharer: None };
        Local { buffers: Arc::default(), open: Mutex::new(open) }
    }
}

impl Local {
    /// Reads ranges of a file, and checks afterwards that the file is still at the version in `pin`.
    ///
    /// Fails with `DatasetChanged` if the file has another size or modification time after the read, with
    /// `NotFound` if it no longer exists, and with `Io` if it cannot be read. One change is not noticed here:
    /// the file is rewritten in place with the same size, so soon that the file system gives it the same
    /// time.
    pub(super) fn read(&self, pin: &Pin, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.read_file(pin, |file| self.read_from(file, pin.size, ranges))
    }

    /// Makes several reads, each of ranges of one file, and checks each file for changes once. `wanted` has
    /// the index of a file in `pins` and the ranges. The results share memory, unless `are_kept` says that
    /// some will be kept longer than others.
    pub(super) fn read_all(
        &self,
        pins: &[Pin],
        wanted: Vec<(usize, Vec<Range<u64>>)>,
        are_kept: bool,
    ) -> Result<Vec<ReadRanges>> {
        let mut by_file: Vec<usize> = (0..wanted.len()).collect();
        by_file.sort_by_key(|at| wanted[*at].0);
        let reads: Vec<Read<'_>> =
            by_file.iter().map(|&at| (&pins[wanted[at].0], &wanted[at].1[..])).collect();
        let each = match are_kept {
            true => self.read_apart(&reads)?,
            false => self.read_together(&reads)?,
        };
        let mut read = vec![Vec::new(); wanted.len()];
        by_file.into_iter().zip(each).for_each(|(at, each)| read[at] = each);
        let read = wanted.into_iter().zip(read);
        Ok(read.map(|((_, ranges), bytes)| ranges.into_iter().zip(bytes).collect()).collect())
    }

    /// Makes several reads, and gives each result memory of its own.
    fn read_apart(&self, reads: &[Read<'_>]) -> Result<Vec<Vec<Bytes>>> {
        let mut read = Vec::with_capacity(reads.len());
        for of_file in reads.chunk_by(are_of_one_file) {
            let pin = of_file[0].0;
            read.extend(self.read_file(pin, |file| {
                let each = of_file.iter().map(|(_, ranges)| self.read_from(file, pin.size, ranges));
                each.collect::<Result<Vec<_>>>()
            })?);
        }
        Ok(read)
    }

    /// Makes several reads into one buffer, which is reused for later reads.
    fn read_together(&self, reads: &[Read<'_>]) -> Result<Vec<Vec<Bytes>>> {
        reads.iter().try_for_each(|(pin, ranges)| check_size(pin.size, ranges))?;
        let spans = |reads: &[Read<'_>]| -> Vec<Range<u64>> {
            reads.iter().flat_map(|(_, ranges)| joined(ranges)).map(span).collect()
        };
        let length = |spans: &[Range<u64>]| spans.iter().map(|span| span.end - span.start).sum::<u64>();
        let mut lent = self.buffers.take_filled(length(&spans(reads)))?;
        let mut rest = &mut lent.buffer[..];
        for of_file in reads.chunk_by(are_of_one_file) {
            let spans = spans(of_file);
            let (room, after) = rest.split_at_mut(length(&spans) as usize);
            self.read_file(of_file[0].0, |file| fill_all(file, &spans, room))?;
            rest = after;
        }
        let bytes = lent.into_bytes();
        let mut at = 0;
        let read = reads.iter().map(|(_, ranges)| {
            let mut read = Vec::with_capacity(ranges.len());
            for together in joined(ranges) {
                let span = span(together);
                let end = at + (span.end - span.start) as usize;
                let of_span = bytes.slice(at..end);
                read.extend(together.iter().map(|range| of_span.slice(within(&span, range))));
                at = end;
            }
            read
        });
        Ok(read.collect())
    }

    /// Calls `read_from` with the open file, and returns its result. Fails if the file is not at the version
    /// in `pin`.
    fn read_file<T>(&self, pin: &Pin, mut read_from: impl FnMut(&fs::File) -> Result<T>) -> Result<T> {
        let (path, name) = (filesystem_path(&pin.path), pin.path.as_ref());
        let known = self.lock().files.get(name).map(|kept| kept.file.clone());
        if let Some(known) = known {
            let read = read_from(&known.file);
            // The metadata is read after the data, so that a change during the read is noticed, too.
            let metadata = fs::metadata(&path).or_fail()?;
            if identity(&metadata) == known.identity {
                check(pin, &metadata)?;
                return read;
            }
            // The path now leads to another file, so the open one is closed.
            let closed = self.lock().files.pop(name);
            drop(closed);
        }
        let close_all = || {
            let closed = self.lock().take_all();
            drop(closed);
        };
        let file = handles::open(&path, close_all)?;
        let read = read_from(&file);
        let metadata = file.metadata().or_fail()?;
        check(pin, &metadata)?;
        let closed = self.lock().keep(name, OpenFile { file, identity: identity(&metadata) });
        drop(closed);
        handles::closed();
        read
    }

    fn lock(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads ranges of a file, several at once if they are close together. Each result has memory of its own,
    /// so that keeping one does not keep the others.
    fn read_from(&self, file: &fs::File, size: u64, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        check_size(size, ranges)?;
        let mut read = Vec::with_capacity(ranges.len());
        let mut scratch = Vec::new();
        for together in joined(ranges) {
            if let [alone] = together {
                read.push(self.read_range(file, alone)?);
                continue;
            }
            let span = span(together);
            scratch.clear();
            read_exactly(file, &span, &mut scratch)?;
            let own = |range: &Range<u64>| Bytes::copy_from_slice(&scratch[within(&span, range)]);
            read.extend(together.iter().map(own));
        }
        Ok(read)
    }

    fn read_range(&self, file: &fs::File, range: &Range<u64>) -> Result<Bytes> {
        let length = range.end.saturating_sub(range.start);
        let length = usize::try_from(length)
            .map_err(|_| Error::new(ErrorKind::TooLarge, format!("{length} bytes in one read")))?;
        let mut lent = self.buffers.take(length)?;
        read_exactly(file, range, &mut lent.buffer)?;
        Ok(lent.into_bytes())
    }
}

/// Ranges of a file, each with the bytes that were read.
pub(super) type ReadRanges = Vec<(Range<u64>, Bytes)>;

/// A read: a file, and the ranges to read from it.
type Read<'a> = (&'a Pin, &'a [Range<u64>]);

fn are_of_one_file(one: &Read<'_>, other: &Read<'_>) -> bool {
    std::ptr::eq(one.0, other.0)
}

/// Fails if the metadata does not have the size and version in `pin`.
fn check(pin: &Pin, metadata: &fs::Metadata) -> Result<()> {
    if metadata.len() != pin.size {
        return Err(changed(&format!("it had {} bytes, and has {} now", pin.size, metadata.len())));
    }
    let now = version(metadata);
    if !now.is_content_of(&pin.version) {
        let (then, now) = (pin.version.to_string(), now.to_string());
        return Err(changed(&match then == now {
            true => "another file of the same size and time took its place".to_owned(),
            false => format!("it was {then}, and is {now} now"),
        }));
    }
    Ok(())
}

/// Fails if one of the ranges ends after the end of a file of this size.
fn check_size(size: u64, ranges: &[Range<u64>]) -> Result<()> {
    let Some(beyond) = ranges.iter().find(|range| range.end > size) else { return Ok(()) };
    let cause = format!("bytes {}..{} were requested from a file of {size}", beyond.start, beyond.end);
    Err(Error::new(ErrorKind::Internal, cause))
}

/// The number of system calls that reading these ranges takes, if each call reads all it is asked for.
pub(super) fn reads(ranges: &[Range<u64>]) -> u64 {
    joined(ranges).count() as u64
}

/// Divides ranges into groups that are read together.
fn joined(mut ranges: &[Range<u64>]) -> impl Iterator<Item = &[Range<u64>]> + Clone {
    std::iter::from_fn(move || {
        (!ranges.is_empty()).then(|| ranges.split_off(..neighbours(ranges)).unwrap_or_default())
    })
}

/// The range from the start of the first of these ranges to the largest end.
fn span(together: &[Range<u64>]) -> Range<u64> {
    let start = together.first().map_or(0, |first| first.start);
    start..together.iter().map(|range| range.end).max().unwrap_or(start)
}

/// The position of a range within the range `span`.
fn within(span: &Range<u64>, range: &Range<u64>) -> Range<usize> {
    (range.start - span.start) as usize..(range.end - span.start) as usize
}

/// The number of ranges at the front that are read together. It is at least one.
fn neighbours(ranges: &[Range<u64>]) -> usize {
    let start = ranges[0].start;
    let follows = |pair: &[Range<u64>]| {
        let gap = pair[1].start.checked_sub(pair[0].end);
        gap.is_some_and(|gap| gap <= JOINED_GAP) && pair[1].end - start <= JOINED_BYTES
    };
    1 + ranges.windows(2).take_while(|pair| follows(pair)).count()
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Appends the bytes of a range to `buffer`. The memory is not filled with zeros first, which would take time
/// for every byte of the data set.
fn read_exactly(file: &fs::File, range: &Range<u64>, buffer: &mut Vec<u8>) -> Result<()> {
    let length = (range.end - range.start.min(range.end)) as usize;
    buffer.reserve_exact(length);
    while buffer.len() < length {
        let have = buffer.len();
        match rustix::io::pread(file, spare_capacity(buffer), range.start + have as u64) {
            Ok(0) => return Err(ended(range, have)),
            // A buffer with more room than the range may get more bytes than wanted.
            Ok(_) => buffer.truncate(length),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(range, &error)),
        }
    }
    Ok(())
}

/// Fills `buffer` with the bytes of all `spans`, one after the other.
fn fill_all(file: &fs::File, spans: &[Range<u64>], mut buffer: &mut [u8]) -> Result<()> {
    for span in spans {
        let (room, rest) = buffer.split_at_mut((span.end - span.start) as usize);
        fill(file, span.start, room)?;
        buffer = rest;
    }
    Ok(())
}

/// Fills `buffer` with the bytes of a file, beginning at `start`.
fn fill(file: &fs::File, start: u64, buffer: &mut [u8]) -> Result<()> {
    let range = start..start + buffer.len() as u64;
    let mut have = 0;
    while have < buffer.len() {
        match rustix::io::pread(file, &mut buffer[have..], start + have as u64) {
            Ok(0) => return Err(ended(&range, have)),
            Ok(read) => have += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(&range, &error)),
        }
    }
    Ok(())
}

fn ended(range: &Range<u64>, have: usize) -> Error {
    failed(range, &format!("the file ends after {have} of them"))
}

fn failed(range: &Range<u64>, error: &dyn fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("reading bytes {}..{}: {error}", range.start, range.end))
}

/// Writes a file, and replaces an existing one. Like any new file of this user, it can be read by others as
/// the user's umask allows.
pub(super) fn write(path: &object_store::path::Path, bytes: &[u8]) -> Result<()> {
    let path = filesystem_path(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The name begins with a dot, so that an unfinished file is not taken for data.
    let unfinished = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = || {
        let mut file = fs::File::create(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)
    };
    written().map_err(|error| {
        let _ = fs::remove_file(&unfinished);
        error.into_error()
    })
}

/// Converts a path in the form of object stores into a path on the local disk.
fn filesystem_path(path: &object_store::path::Path) -> PathBuf {
    Path::new("/").join(path.as_ref())
}

/// Converts an absolute local path into the form of object stores: with `/` between names, and none at the
/// front.
pub(super) fn object_path(absolute: &Path) -> Result<object_store::path::Path> {
    paths::text(absolute).map_err(|error| error.at(place(absolute)))?;
    if absolute.to_string_lossy().contains(|c: char| c.is_ascii_control()) {
        let error = Error::invalid("the path holds a control character").at(place(absolute));
        return Err(error.hint("rename it, or open it by a link"));
    }
    object_store::path::Path::from_absolute_path(absolute)
        .map_err(|error| Error::invalid(error.to_string()).at(place(absolute)))
}

/// A local path as a place in error messages. Secrets are hidden, because the path may be a mistyped URL.
pub(super) fn place(path: &Path) -> Place {
    Place::file(shown(&path.to_string_lossy()))
}

//! One interface to all stores of a data set: the local disk and object stores.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Place, Result};
use object_store::path::Path;

use super::clouds::MetadataCache;
use super::footer::FooterTurns;
use super::index::Index;
use super::local::{self, Local, Reading};
use super::remote::{Pin, Remote};
use super::traffic::{Ahead, Traffic, TrafficStats};
use crate::catalog::{File, FileVersion};
use crate::snapshot::{IndexPlace, MetadataFile};

/// The number of row groups of local files that are read at once. It suffices to hide the latency of a disk;
/// more row groups would only hold memory while they wait for the disk.
const LOCAL_AT_ONCE: usize = 4;

/// The stores that hold the bytes of a data set. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    volumes: Arc<[Volume]>,
    traffic: Arc<Traffic>,
    /// Counts the bytes that were read, if this handle reads ahead for an epoch that may never begin.
    ahead: Option<Arc<Ahead>>,
    local: Arc<Local>,
    /// The setting for the metadata cache, which keeps footers of remote files on local disk.
    pub(super) metadata_cache: Option<MetadataCache>,
    /// Limits how many tasks read footers at the same time.
    pub(super) footer_turns: Arc<FooterTurns>,
    /// The index files in the folders that were opened.
    pub(super) indexes: Arc<[IndexPlace]>,
    /// The files `_common_metadata` of the folders that were opened.
    pub(super) common_metadata: Arc<[MetadataFile]>,
    /// The locations, besides a table's own folder, in which the user allows files of the table.
    pub(super) allowed: Arc<[AllowedLocation]>,
    /// An index of footers: one that another process handed on, or one that this process made for others.
    pub(super) handed_on: Option<Arc<Index>>,
    /// Warnings that the user has not been given yet.
    warnings: Arc<Mutex<Vec<String>>>,
}

/// A location, besides a table's own folder, in which the user allows files of the table.
#[derive(Clone, Debug)]
pub(super) struct AllowedLocation {
    /// The index of the volume (the store) that the location is in.
    pub(super) volume: usize,
    /// The location, as an absolute path or a URL.
    pub(super) location: String,
}

/// One of the stores that hold the files of a data set.
#[derive(Clone, Debug)]
pub(super) enum Volume {
    /// The local disk, read on threads of the runtime's blocking pool.
    Local,
    /// An object store.
    Remote(Remote),
}

impl Store {
    pub(super) fn new(
        volumes: Vec<Volume>,
        traffic: Arc<Traffic>,
        metadata_cache: Option<MetadataCache>,
    ) -> Self {
        Store {
            volumes: volumes.into(),
            traffic,
            ahead: None,
            local: Arc::default(),
            metadata_cache,
            footer_turns: Arc::default(),
            indexes: Arc::new([]),
            common_metadata: Arc::new([]),
            allowed: Arc::new([]),
            handed_on: None,
            warnings: Arc::default(),
        }
    }

    /// Returns the same stores with new connections, for use by new threads or in a forked process.
    pub fn connect_again(&self) -> Result<Self> {
        let volumes = self.volumes.iter().map(|volume| match volume {
            Volume::Local => Ok(Volume::Local),
            Volume::Remote(remote) => remote.connect_again().map(Volume::Remote),
        });
        let volumes = volumes.collect::<Result<_>>()?;
        let store = Store::new(volumes, self.traffic.clone(), self.metadata_cache.clone());
        Ok(Store {
            indexes: self.indexes.clone(),
            common_metadata: self.common_metadata.clone(),
            allowed: self.allowed.clone(),
            handed_on: self.handed_on.clone(),
            ..store
        })
    }

    /// Sets the index files in the folders that were opened.
    pub(super) fn with_indexes(self, indexes: Vec<IndexPlace>) -> Self {
        Store { indexes: indexes.into(), ..self }
    }

    /// Sets the files `_common_metadata` of the folders that were opened.
    pub(super) fn with_common_metadata(self, files: Vec<MetadataFile>) -> Self {
        Store { common_metadata: files.into(), ..self }
    }

    /// Sets the locations, besides a table's own folder, in which the user allows files of the table.
    pub(super) fn with_allowed(self, allowed: Vec<AllowedLocation>) -> Self {
        Store { allowed: allowed.into(), ..self }
    }

    /// Sets the index of footers that another process handed on, or that was made for others.
    pub(super) fn with_handed_on(self, index: Index) -> Self {
        Store { handed_on: Some(Arc::new(index)), ..self }
    }

    /// Stores a warning for the user, until [`take_warning`](Self::take_warning) returns it.
    pub(super) fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// Returns the warnings since the last call, joined to one text; `None` if there are none.
    pub fn take_warning(&self) -> Option<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *warnings);
        (!all.is_empty()).then(|| all.join("; "))
    }

    pub(super) fn volume(&self, volume: usize) -> Result<&Volume> {
        self.volumes.get(volume).ok_or_else(|| Error::new(ErrorKind::Internal, "a file of no volume"))
    }

    /// Reads the byte ranges of a file, in the order given.
    ///
    /// Every range has its full length, and all are from the version of the file in the catalogue. Fails with
    /// `DatasetChanged` if the file was replaced, with `NotFound` if it no longer exists, and with `Io` if it
    /// cannot be read. Requests to an unreachable object store are retried for three minutes by default.
    pub async fn read_ranges(&self, file: &File, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = self.read(file.volume as usize, &file.pin(), ranges).await;
        read.map_err(|error| error.at(Place::file(file.location.clone())))
    }

    /// Reads byte ranges of several local files together, each as in [`read_ranges`](Self::read_ranges). An
    /// entry of `reads` is the index of a file in `files` and its ranges. `are_kept` says that some of the
    /// bytes are kept longer than others, so that the results must not share memory.
    ///
    /// Fails if one of the reads fails; the error does not name the file.
    pub async fn read_local(
        &self,
        files: &[&File],
        reads: Vec<(usize, Vec<Range<u64>>)>,
        are_kept: bool,
    ) -> Result<Vec<local::ReadRanges>> {
        let requests = reads.iter().map(|(_, ranges)| local::reads(ranges)).sum();
        let bytes = reads.iter().map(|(_, ranges)| total(ranges)).sum();
        let pins: Vec<Pin> = files.iter().map(|file| file.pin()).collect();
        let local = self.local.clone();
        let read = self.blocking(move || local.read_all(&pins, reads, are_kept)).await?;
        self.traffic.requests.add(requests);
        self.traffic.received.add(bytes);
        self.needed(bytes);
        Ok(read)
    }

    /// Reads byte ranges of a file. Fails with `Corrupt` if a range ends beyond the end of the file.
    pub(super) async fn read_within(
        &self,
        volume: usize,
        pin: &Pin,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        if let Some(beyond) = ranges.iter().find(|range| range.end > pin.size) {
            let cause = format!("it ends at byte {}, before byte {}", pin.size, beyond.end);
            return Err(Error::new(ErrorKind::Corrupt, cause));
        }
        self.read(volume, pin, ranges).await
    }

    pub(super) async fn read(&self, volume: usize, pin: &Pin, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.read_pinned(volume, pin, ranges).await.map_err(|error| of_table(error, pin))
    }

    async fn read_pinned(&self, volume: usize, pin: &Pin, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.volume(volume)? {
            Volume::Remote(remote) => {
                let read = remote.read(pin, ranges).await?;
                // The gaps that were read together with the ranges are not counted as needed.
                self.needed(total(ranges));
                Ok(read)
            }
            Volume::Local => {
                let bytes = total(ranges);
                self.traffic.requests.add(local::reads(ranges));
                let (pin, ranges, local) = (pin.clone(), ranges.to_vec(), self.local.clone());
                let read = self.blocking(move || local.read(&pin, &ranges)).await?;
                self.traffic.received.add(bytes);
                self.needed(bytes);
                Ok(read)
            }
        }
    }

    /// Adds bytes to the count of needed bytes. Bytes that were read ahead for an epoch are added only once
    /// that epoch begins.
    fn needed(&self, bytes: u64) {
        let is_later = self.ahead.as_ref().is_some_and(|ahead| ahead.waits(bytes));
        if !is_later {
            self.traffic.wanted.add(bytes);
        }
    }

    /// The absolute path or URL of a file, which is the same in every process of a node and contains no
    /// secrets.
    pub fn address(&self, file: &File) -> String {
        self.shown(file.volume as usize, &file.path)
    }

    /// The absolute path or URL of a path in a volume, without secrets.
    pub(super) fn shown(&self, volume: usize, path: &Path) -> String {
        match self.volume(volume) {
            Ok(Volume::Remote(remote)) => remote.shown(path.as_ref()),
            _ => format!("/{path}"),
        }
    }

    /// Writes a file, replacing an existing one atomically: readers see the old file or the new one.
    pub(super) async fn write(&self, volume: usize, path: &Path, bytes: Bytes) -> Result<()> {
        match self.volume(volume)? {
            Volume::Remote(remote) => remote.write(path, bytes).await,
            Volume::Local => {
                let path = path.clone();
                self.blocking(move || local::write(&path, &bytes)).await
            }
        }
    }

    /// Makes reads keep their local files open, until the returned value is dropped.
    pub fn reading(&self) -> Reading {
        Reading::begin(&self.local)
    }

    /// Whether all volumes are the local disk.
    pub fn is_local(&self) -> bool {
        self.volumes.iter().all(|volume| matches!(volume, Volume::Local))
    }

    /// The number of row groups to read concurrently. An object store limits its concurrent requests
    /// separately.
    pub fn row_groups_at_once(&self) -> usize {
        let at_once = |volume: &Volume| match volume {
            Volume::Local => LOCAL_AT_ONCE,
            Volume::Remote(remote) => remote.most_at_once(),
        };
        self.volumes.iter().map(at_once).max().unwrap_or(LOCAL_AT_ONCE)
    }

    /// Returns a handle for reading ahead for an epoch that may never begin. Its bytes count as needed only
    /// after [`begin`](Self::begin).
    pub fn ahead(&self) -> Self {
        Store { ahead: Some(Arc::default()), ..self.clone() }
    }

    /// Reports that the epoch that this handle reads ahead for has begun: all bytes that it read or will read
    /// count as needed.
    pub fn begin(&self) {
        if let Some(ahead) = &self.ahead {
            self.traffic.wanted.add(ahead.begin());
        }
    }

    /// The numbers of requests and bytes so far.
    pub fn traffic(&self) -> TrafficStats {
        self.traffic.read()
    }

    /// Runs blocking work on the async runtime's pool of blocking threads.
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

/// Adapts the error of a read, if the file belongs to a table. Tables never rewrite a file, so one that
/// changed is reported as damaged.
fn of_table(error: Error, pin: &Pin) -> Error {
    let FileVersion::OfTable(mark) = &pin.version else { return error };
    match error.kind() {
        ErrorKind::NotFound => mark.gone().at(error.place().clone()),
        ErrorKind::DatasetChanged => {
            let how =
                error.cause().rsplit_once(": ").map_or_else(String::new, |(_, how)| format!(" ({how})"));
            let bytes = pin.size;
            let cause = format!(
                "{mark} of the table says that this file has {bytes} bytes, and it is another one{how}"
            );
            Error::new(ErrorKind::Corrupt, cause)
                .at(error.place().clone())
                .hint("restore the file that the table's engine wrote, or open another version")
        }
        _ => error,
    }
}

/// The number of bytes of all ranges.
fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum()
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.volumes.iter()).finish()
    }
}

//! The stores of a data set, behind one interface.

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

/// The number of row groups of local files that are read at once. It hides a disk's latency; with more, only
/// permits would wait.
const LOCAL_AT_ONCE: usize = 4;

/// The stores that hold the bytes of a data set. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    volumes: Arc<[Volume]>,
    traffic: Arc<Traffic>,
    /// The bytes that were read ahead, if this handle is for an epoch that may never begin.
    ahead: Option<Arc<Ahead>>,
    local: Arc<Local>,
    /// The place where footers of remote files are kept.
    pub(super) metadata_cache: Option<MetadataCache>,
    /// The limits for tasks that read footers.
    pub(super) footer_turns: Arc<FooterTurns>,
    /// The indexes of the folders that were opened.
    pub(super) indexes: Arc<[IndexPlace]>,
    /// The files `_common_metadata` of the folders that were opened.
    pub(super) common_metadata: Arc<[MetadataFile]>,
    /// The locations outside of tables' folders that the user allows for their files.
    pub(super) allowed: Arc<[AllowedLocation]>,
    /// The index that another process handed on, or that was packed for others.
    pub(super) handed_on: Option<Arc<Index>>,
    /// Warnings that have not been returned yet.
    warnings: Arc<Mutex<Vec<String>>>,
}

/// A location outside of a table's folder that the user allows for the table's files.
#[derive(Clone, Debug)]
pub(super) struct AllowedLocation {
    /// The index of the volume that the location is in.
    pub(super) volume: usize,
    /// An absolute path or a URL.
    pub(super) location: String,
}

/// One of the places that hold files.
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

    /// The same stores over new connections.
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

    /// The same stores, with the indexes of the folders that were opened.
    pub(super) fn with_indexes(self, indexes: Vec<IndexPlace>) -> Self {
        Store { indexes: indexes.into(), ..self }
    }

    /// The same stores, with the files `_common_metadata` of the folders that were opened.
    pub(super) fn with_common_metadata(self, files: Vec<MetadataFile>) -> Self {
        Store { common_metadata: files.into(), ..self }
    }

    /// The same stores, with the locations outside of tables' folders that the user allows for their files.
    pub(super) fn with_allowed(self, allowed: Vec<AllowedLocation>) -> Self {
        Store { allowed: allowed.into(), ..self }
    }

    /// The same stores, with an index that holds footers of their files.
    pub(super) fn with_handed_on(self, index: Index) -> Self {
        Store { handed_on: Some(Arc::new(index)), ..self }
    }

    /// Keeps a warning until it is taken.
    pub(super) fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// The warnings that have not been returned yet, as one.
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
    /// Every range has its full length, and all are from the catalogued version. Fails with `DatasetChanged`
    /// if the file is another one now, with `NotFound` if it no longer exists, and with `Io` if it cannot be
    /// read. An unreachable object store is retried for three minutes before that is an error.
    pub async fn read_ranges(&self, file: &File, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = self.read(file.volume as usize, &file.pin(), ranges).await;
        read.map_err(|error| error.at(Place::file(file.location.clone())))
    }

    /// Reads byte ranges of several local files in one go, each like [`read_ranges`](Self::read_ranges): each
    /// read has the index of its file among `files`, and the ranges. `are_kept` says whether some of the
    /// bytes are kept longer than others.
    ///
    /// Fails if one of the reads fails, without saying which.
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

    /// Reads byte ranges of a file, each in full; `Corrupt` for a range that is not within the file.
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

    /// Counts bytes that were read and are needed, now or when their epoch begins.
    fn needed(&self, bytes: u64) {
        let is_later = self.ahead.as_ref().is_some_and(|ahead| ahead.waits(bytes));
        if !is_later {
            self.traffic.wanted.add(bytes);
        }
    }

    /// The address of a file, which is the same in each process of a node and contains no secrets.
    pub fn address(&self, file: &File) -> String {
        self.shown(file.volume as usize, &file.path)
    }

    /// The address of a path, without secrets.
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

    /// Keeps local files open between reads, for as long as the result is kept.
    pub fn reading(&self) -> Reading {
        Reading::begin(&self.local)
    }

    /// Whether all volumes are the local disk.
    pub fn is_local(&self) -> bool {
        self.volumes.iter().all(|volume| matches!(volume, Volume::Local))
    }

    /// The number of row groups that may be in flight at once. Each store chooses its number of concurrent
    /// requests itself.
    pub fn row_groups_at_once(&self) -> usize {
        let at_once = |volume: &Volume| match volume {
            Volume::Local => LOCAL_AT_ONCE,
            Volume::Remote(remote) => remote.most_at_once(),
        };
        self.volumes.iter().map(at_once).max().unwrap_or(LOCAL_AT_ONCE)
    }

    /// A handle for reads for an epoch that may never begin.
    pub fn ahead(&self) -> Self {
        Store { ahead: Some(Arc::default()), ..self.clone() }
    }

    /// Reports that everything that is read through this handle is needed, so far and from now on.
    pub fn begin(&self) {
        if let Some(ahead) = &self.ahead {
            self.traffic.wanted.add(ahead.begin());
        }
    }

    /// The requests and bytes so far.
    pub fn traffic(&self) -> TrafficStats {
        self.traffic.read()
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

/// The error for a failed read of a table's file. Tables never rewrite files, so a changed one is damaged.
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

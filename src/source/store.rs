//! The stores of a data set, behind one interface.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::buffers::Buffers;
use super::local;
use super::remote::{Pin, Remote};
use super::traffic::{Traffic, TrafficStats};
use crate::catalog::File;
use crate::error::{Error, ErrorKind, Place, Result};

/// Row groups of local files that are read at once: enough to hide a disk's latency; more only makes permits wait.
const LOCAL_AT_ONCE: usize = 4;

/// Where the bytes of a data set are. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    volumes: Arc<[Volume]>,
    traffic: Arc<Traffic>,
    /// For reads of the local disk.
    buffers: Arc<Buffers>,
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
    pub(super) fn new(volumes: Vec<Volume>, traffic: Arc<Traffic>) -> Self {
        Store { volumes: volumes.into(), traffic, buffers: Arc::default() }
    }

    /// The same stores over new connections.
    pub(crate) fn connect_again(&self) -> Result<Self> {
        let volumes = self.volumes.iter().map(|volume| match volume {
            Volume::Local => Ok(Volume::Local),
            Volume::Remote(remote) => remote.connect_again().map(Volume::Remote),
        });
        Ok(Store::new(volumes.collect::<Result<_>>()?, self.traffic.clone()))
    }

    pub(super) fn volume(&self, volume: usize) -> Result<&Volume> {
        self.volumes.get(volume).ok_or_else(|| Error::new(ErrorKind::Internal, "a file of no volume"))
    }

    /// Reads the byte ranges of a file, in the order given.
    ///
    /// Every range has its full length, and all are of the writing that was catalogued. Fails with `DatasetChanged` if
    /// the file is another one now, with `NotFound` if it is gone, and with `Io` if it cannot be read. An object store
    /// that is out of reach is asked for three minutes before that is an error.
    pub async fn read_ranges(&self, file: &File, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let pin = Pin { path: file.path.clone(), size: file.size, version: file.version.clone() };
        let read = self.read(file.volume as usize, &pin, ranges).await;
        read.map_err(|error| error.at(Place::file(file.location.clone())))
    }

    pub(super) async fn read(&self, volume: usize, pin: &Pin, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.volume(volume)? {
            Volume::Remote(remote) => remote.read(pin, ranges).await,
            Volume::Local => {
                let bytes = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
                self.traffic.requests.add(ranges.len() as u64);
                self.traffic.wanted.add(bytes);
                let (pin, ranges, buffers) = (pin.clone(), ranges.to_vec(), self.buffers.clone());
                let read = self.blocking(move || local::read(&pin, &ranges, &buffers)).await?;
                self.traffic.received.add(bytes);
                Ok(read)
            }
        }
    }

    /// The address of a file, the same in each process of a node, without secrets.
    pub(crate) fn address(&self, file: &File) -> String {
        match self.volume(file.volume as usize) {
            Ok(Volume::Remote(remote)) => remote.shown(file.path.as_ref()),
            _ => format!("/{}", file.path),
        }
    }

    /// Whether all of it is on the local disk.
    pub(super) fn is_local(&self) -> bool {
        self.volumes.iter().all(|volume| matches!(volume, Volume::Local))
    }

    /// Row groups that may be in flight at once; how many requests a store gets at once, it settles by itself.
    pub(crate) fn row_groups_at_once(&self) -> usize {
        let at_once = |volume: &Volume| match volume {
            Volume::Local => LOCAL_AT_ONCE,
            Volume::Remote(remote) => remote.most_at_once(),
        };
        self.volumes.iter().map(at_once).max().unwrap_or(LOCAL_AT_ONCE)
    }

    /// Counts bytes that were read as not needed yet: they are for an epoch that has not begun.
    pub(crate) fn may_need(&self, bytes: u64) {
        self.traffic.ahead.add(bytes);
    }

    /// Counts such bytes as needed after all.
    pub(crate) fn needs(&self, bytes: u64) {
        self.traffic.ahead.take_off(bytes);
    }

    /// What went to and fro so far.
    pub(crate) fn traffic(&self) -> TrafficStats {
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

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.volumes.iter()).finish()
    }
}

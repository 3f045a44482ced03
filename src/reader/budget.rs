//! One number bounds the bytes in flight.
//!
//! A permit is taken in plan order before a request starts and rides with its rows until the last one has left the
//! window: whoever holds rows holds their permit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that one semaphore permit stands for: fine enough for small row groups, coarse enough that 16 TiB fit a u32.
const UNIT: u64 = 4096;

/// The bytes that row groups in flight may take.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    semaphore: Arc<Semaphore>,
    units: u32,
    /// The most bytes that were granted at once.
    peak: Arc<AtomicU64>,
}

/// Bytes of the budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    permit: OwnedSemaphorePermit,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX).max(1);
        Budget { semaphore: Arc::new(Semaphore::new(units as usize)), units, peak: Arc::default() }
    }

    /// Waits for `bytes`. More than the whole budget is granted alone, once everything else has been given back.
    pub(crate) async fn acquire(&self, bytes: u64) -> Option<Permit> {
        let permit = self.semaphore.clone().acquire_many_owned(self.units_of(bytes)).await;
        self.peak.fetch_max(self.used(), Relaxed);
        permit.ok().map(|permit| Permit { permit })
    }

    /// Takes `bytes` if they are free.
    pub(crate) fn take(&self, bytes: u64) -> Option<Permit> {
        let permit = self.semaphore.clone().try_acquire_many_owned(self.units_of(bytes)).ok()?;
        self.peak.fetch_max(self.used(), Relaxed);
        Some(Permit { permit })
    }

    /// Bytes that are granted at present.
    pub(crate) fn used(&self) -> u64 {
        (self.units as usize - self.semaphore.available_permits().min(self.units as usize)) as u64 * UNIT
    }

    /// The most bytes that were granted at once so far.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// The bytes that a permit for `bytes` takes.
    pub(crate) fn rounded(bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(UNIT)
    }

    fn units_of(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).clamp(1, self.units)
    }
}

impl Permit {
    /// Gives back all but `bytes`: what decoding turned out to need less than the estimate.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let keep = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX).max(1);
        let surplus = self.permit.num_permits().saturating_sub(keep);
        drop(self.permit.split(surplus));
    }
}

//! The budget: one number that limits the bytes in flight.
//!
//! A permit is taken in plan order before a request starts, and stays with its rows until the last one has
//! left the window: a holder of rows holds their permit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

use forebay_base::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of bytes that one semaphore permit stands for: small enough for small row groups, and large
/// enough that 16 TiB fit into a u32.
const UNIT_BYTES: u64 = 4096;

/// How many bytes a row group may take beyond the whole budget when it is granted alone. More than half of
/// the 150 MiB that a loader may take beyond its budget is left for its own code, stacks and buffers.
pub(crate) const ALONE_BEYOND: u64 = 64 << 20;

/// Limits the bytes that row groups in flight take.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    semaphore: Arc<Semaphore>,
    units: u32,
    books: Arc<Books>,
}

/// The units that were granted. The semaphore cannot tell their number, because it also subtracts units that
/// are only promised to a waiter.
#[derive(Debug, Default)]
struct Books {
    granted: AtomicU32,
    peak: AtomicU32,
    /// The number of units that are set aside for something else, and cannot be granted.
    aside: AtomicU32,
}

/// Bytes of the budget, which are returned when the permit is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    permit: OwnedSemaphorePermit,
    books: Arc<Books>,
}

/// Bytes of the budget that are reserved for something other than row groups in flight, until this is
/// dropped. They count neither as granted nor as a part of the budget.
#[derive(Debug)]
pub(crate) struct Aside {
    units: u32,
    budget: Budget,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        Budget { semaphore: Arc::new(Semaphore::new(units as usize)), units, books: Arc::default() }
    }

    /// Waits for `bytes`. A request for more than the whole budget is granted alone, once everything else has
    /// been returned.
    pub(crate) async fn acquire(&self, bytes: u64) -> Option<Permit> {
        let permit = self.semaphore.clone().acquire_many_owned(self.units_of(bytes)).await;
        permit.ok().map(|permit| self.granted(permit))
    }

    fn granted(&self, permit: OwnedSemaphorePermit) -> Permit {
        let units = permit.num_permits() as u32;
        let granted = self.books.granted.fetch_add(units, SeqCst) + units;
        self.books.peak.fetch_max(granted, Relaxed);
        Permit { permit, books: self.books.clone() }
    }

    /// A permit for `bytes`, if they are free at present.
    pub(crate) fn take(&self, bytes: u64) -> Option<Permit> {
        let permit = self.semaphore.clone().try_acquire_many_owned(self.units_of(bytes)).ok()?;
        Some(self.granted(permit))
    }

    /// Sets `bytes` aside; `None` if they are not free, or if nothing would be left.
    pub(crate) fn set_aside(&self, bytes: u64) -> Option<Aside> {
        let units = self.units_of(bytes);
        if units >= self.units() {
            return None;
        }
        self.semaphore.try_acquire_many(units).ok()?.forget();
        self.books.aside.fetch_add(units, SeqCst);
        Some(Aside { units, budget: self.clone() })
    }

    /// The bytes that are granted at present.
    pub(crate) fn used(&self) -> u64 {
        u64::from(self.books.granted.load(SeqCst)) * UNIT_BYTES
    }

    /// The largest number of bytes that were granted at the same time.
    pub(crate) fn peak(&self) -> u64 {
        u64::from(self.books.peak.load(Relaxed)) * UNIT_BYTES
    }

    /// Whether `bytes` more could be granted at present.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.units_of(bytes) <= self.units().saturating_sub(self.books.granted.load(SeqCst))
    }

    /// All bytes that can be granted.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.units()) * UNIT_BYTES
    }

    /// The units that can be granted.
    fn units(&self) -> u32 {
        self.units - self.books.aside.load(SeqCst)
    }

    /// The most bytes that one row group may take.
    pub(crate) fn largest(&self) -> u64 {
        self.bytes() + ALONE_BEYOND
    }

    /// Refuses a row group, or the part of one that `what` names, if it takes `bytes` for its `purpose` and
    /// would exceed the limit even if it were granted alone. `memory_for` returns the budget that is enough
    /// for a number of bytes.
    ///
    /// # Errors
    /// Fails with `TooLarge` if it would exceed the limit.
    pub(crate) fn admit(
        &self,
        (what, purpose): (&str, &str),
        bytes: u64,
        memory_for: impl FnOnce(u64) -> u64,
    ) -> Result<()> {
        if bytes <= self.largest() {
            return Ok(());
        }
        let cause = format!(
            "{what} takes {} {purpose}, over the {} that one of them may take",
            words(bytes),
            words(self.largest())
        );
        let hint = format!(
            "raise `memory` to {}, leave columns out, or rewrite the file with smaller row groups",
            words(memory_for(bytes))
        );
        Err(Error::new(ErrorKind::TooLarge, cause).hint(hint))
    }

    /// The bytes that a permit for `bytes` takes.
    pub(crate) fn rounded(bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(UNIT_BYTES)
    }

    fn units_of(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.units())
    }
}

impl Permit {
    /// Returns all but `bytes` to the budget, if decoding needs less than the estimate.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let keep = usize::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(usize::MAX).max(1);
        self.give_back(self.permit.num_permits().saturating_sub(keep));
    }

    /// Splits off a permit for `bytes`, or for nearly all bytes if this permit has fewer.
    pub(crate) fn split(&mut self, bytes: u64) -> Option<Permit> {
        let units = usize::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(usize::MAX);
        let units = units.min(self.permit.num_permits().saturating_sub(1));
        let permit = self.permit.split(units).filter(|_| units > 0)?;
        Some(Permit { permit, books: self.books.clone() })
    }

    /// The bytes that the permit stands for.
    pub(crate) fn bytes(&self) -> u64 {
        self.permit.num_permits() as u64 * UNIT_BYTES
    }

    fn give_back(&mut self, units: usize) {
        // The order of these steps ensures that no byte is counted as granted twice.
        self.books.granted.fetch_sub(units as u32, SeqCst);
        drop(self.permit.split(units));
    }
}

impl Aside {
    /// The bytes that are set aside.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT_BYTES
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.budget.books.aside.fetch_sub(self.units, SeqCst);
        self.budget.semaphore.add_permits(self.units as usize);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give_back(self.permit.num_permits());
    }
}

/// Formats bytes in words, rounded up, so that a user who copies the number into an option gives enough.
pub(crate) fn words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            return format!("{:.1} {name}", (bytes as f64 / unit as f64 * 10.0).ceil() / 10.0);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// A permit for `bytes`; `None` if it would have to wait.
    fn take(budget: &Budget, bytes: u64) -> Option<Permit> {
        futures::FutureExt::now_or_never(budget.acquire(bytes)).flatten()
    }

    #[test]
    fn bytes_set_aside_are_no_part_of_the_budget_until_they_are_returned() {
        let budget = Budget::new(64 * KIB);
        let aside = budget.set_aside(24 * KIB).unwrap();
        assert_eq!((budget.bytes(), budget.used()), (40 * KIB, 0));
        let all = take(&budget, 1 << 30).unwrap();
        assert_eq!(all.bytes(), 40 * KIB, "more than all is granted alone");
        assert!(budget.set_aside(KIB).is_none(), "it is in use");
        drop((all, aside));
        assert_eq!(take(&budget, 64 * KIB).unwrap().bytes(), 64 * KIB);
        assert!(budget.set_aside(64 * KIB).is_none(), "nothing would be left");
    }

    #[test]
    fn a_permit_takes_what_was_asked_for_and_gives_it_back() {
        let budget = Budget::new(64 * KIB);
        let mut first = take(&budget, 40 * KIB).unwrap();
        assert_eq!((budget.used(), budget.has(24 * KIB), budget.has(25 * KIB)), (40 * KIB, true, false));
        assert!(take(&budget, 28 * KIB).is_none(), "it has to wait");
        first.shrink(32 * KIB);
        assert_eq!((first.bytes(), budget.used()), (32 * KIB, 32 * KIB));
        let second = take(&budget, 28 * KIB).unwrap();
        drop(first);
        assert_eq!((budget.used(), budget.peak()), (28 * KIB, 60 * KIB));
        assert!(take(&budget, 1 << 30).is_none(), "more than all is granted alone");
        drop(second);
        assert_eq!(take(&budget, 1 << 30).unwrap().bytes(), 64 * KIB);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_permit_is_split_and_no_byte_counts_twice() {
        let budget = Budget::new(64 * KIB);
        let mut first = take(&budget, 40 * KIB).unwrap();
        let second = first.split(10 * KIB).unwrap();
        assert_eq!((first.bytes(), second.bytes(), budget.used()), (28 * KIB, 12 * KIB, 40 * KIB));
        assert_eq!(first.split(1 << 30).unwrap().bytes(), 24 * KIB, "something is left of the first one");
        assert!(first.split(1).is_none() && first.split(0).is_none());
        drop(first);
        assert_eq!(budget.used(), 12 * KIB);
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_a_waiter_was_promised_is_not_granted_yet() {
        let budget = Budget::new(64 * KIB);
        let first = take(&budget, 40 * KIB).unwrap();
        let mut waiting = Box::pin(budget.acquire(60 * KIB));
        assert!(futures::FutureExt::now_or_never(&mut waiting).is_none());
        assert_eq!(budget.used(), 40 * KIB);
        drop(first);
        assert_eq!((budget.used(), budget.has(60 * KIB)), (0, true), "on its way");
        assert_eq!(futures::FutureExt::now_or_never(waiting).flatten().unwrap().bytes(), 60 * KIB);
    }

    #[test]
    fn a_row_group_passes_alone_up_to_what_is_set_aside_for_it() {
        let budget = Budget::new(1 << 20);
        let memory_for = |bytes: u64| bytes + (1 << 20);
        let what = ("the row group", "to fetch");
        budget.admit(what, ALONE_BEYOND + (1 << 20), memory_for).unwrap();
        let refused = budget.admit(what, 1 << 30, memory_for).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        let words = refused.to_string();
        assert!(words.contains("takes 1.0 GiB to fetch, over") && words.contains("the 65.0 MiB"), "{words}");
        assert!(words.contains("raise memory to 1.1 GiB"), "{words}");
    }
}

//! The memory budget for row groups that are being fetched, or are in the shuffle window: one limit in bytes.
//!
//! A permit stands for a part of the budget. It is taken before a row group is requested, in the order of the
//! plan, and returned when the last rows of the row group have left the window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

use forebay_base::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of bytes that one permit of the semaphore stands for: small enough for small row groups, and
/// large enough that a `u32` can count the units of 16 TiB.
const UNIT_BYTES: u64 = 4096;

/// How many bytes a row group may take beyond the whole budget if no other row group has a permit. A loader
/// may take 150 MiB beyond its budget; more than half of that is left for its own code, stacks and buffers.
pub(crate) const ALONE_BEYOND: u64 = 64 << 20;

/// Limits the bytes that row groups take while they are fetched or in the shuffle window.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    semaphore: Arc<Semaphore>,
    units: u32,
    books: Arc<Books>,
}

/// Counts the units that permits hold. The semaphore cannot tell this number, because it also subtracts units
/// that it has promised to a waiting request.
#[derive(Debug, Default)]
struct Books {
    granted: AtomicU32,
    peak: AtomicU32,
    /// The number of units that are reserved for another purpose, and that no permit can get.
    aside: AtomicU32,
}

/// Bytes of the budget, which are returned when the permit is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    permit: OwnedSemaphorePermit,
    books: Arc<Books>,
}

/// Bytes of the budget that are reserved for something other than row groups in flight, until this value is
/// dropped. Meanwhile they count neither as used nor as a part of the budget.
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

    /// Waits until `bytes` are free, and takes them. A request for more than the whole budget gets all of it,
    /// after every other permit has been returned. Returns `None` if the budget was closed.
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

    /// Takes `bytes` if they are free now; `None` otherwise.
    pub(crate) fn take(&self, bytes: u64) -> Option<Permit> {
        let permit = self.semaphore.clone().try_acquire_many_owned(self.units_of(bytes)).ok()?;
        Some(self.granted(permit))
    }

    /// Reserves `bytes` for another purpose; `None` if they are not free, or if nothing would be left of the
    /// budget.
    pub(crate) fn set_aside(&self, bytes: u64) -> Option<Aside> {
        let units = self.units_of(bytes);
        if units >= self.units() {
            return None;
        }
        self.semaphore.try_acquire_many(units).ok()?.forget();
        self.books.aside.fetch_add(units, SeqCst);
        Some(Aside { units, budget: self.clone() })
    }

    /// The bytes that permits hold now.
    pub(crate) fn used(&self) -> u64 {
        u64::from(self.books.granted.load(SeqCst)) * UNIT_BYTES
    }

    /// The largest number of bytes that permits held at the same time.
    pub(crate) fn peak(&self) -> u64 {
        u64::from(self.books.peak.load(Relaxed)) * UNIT_BYTES
    }

    /// Whether a permit for `bytes` more would fit in the budget now.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.units_of(bytes) <= self.units().saturating_sub(self.books.granted.load(SeqCst))
    }

    /// The size of the budget in bytes, without bytes that are set aside.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.units()) * UNIT_BYTES
    }

    /// The size of the budget in units, without units that are set aside.
    fn units(&self) -> u32 {
        self.units - self.books.aside.load(SeqCst)
    }

    /// The most bytes that one row group may take, as the only one with a permit.
    pub(crate) fn largest(&self) -> u64 {
        self.bytes() + ALONE_BEYOND
    }

    /// Refuses a row group, or the part of a row group that `what` names, if the `bytes` that it takes for
    /// its `purpose` exceed the limit for a single row group. `memory_for` returns the memory budget that is
    /// enough for a number of bytes.
    ///
    /// # Errors
    /// Fails with `TooLarge` if it would exceed the limit.
    pub(crate) fn admit(
        &self,
        what: &str,
        purpose: &str,
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

    /// The bytes that a permit for `bytes` takes, which are a multiple of the unit.
    pub(crate) fn rounded(bytes: u64) -> u64 {
        bytes.max(1).next_multiple_of(UNIT_BYTES)
    }

    fn units_of(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.units())
    }
}

impl Permit {
    /// Returns all bytes except `bytes` to the budget, after an estimate was too high.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let keep = usize::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(usize::MAX).max(1);
        self.give_back(self.permit.num_permits().saturating_sub(keep));
    }

    /// Splits off a permit for `bytes`. If this permit has too few, it keeps one unit, and the new permit
    /// gets all others.
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
        // The count goes down first, so that bytes that another permit takes at once are not counted twice.
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

/// Formats a number of bytes with a unit, rounded up, so that a user who copies the number into an option
/// gives enough memory.
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

    /// Takes a permit for `bytes`; `None` if the request would have to wait.
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
        let admit = |bytes: u64| budget.admit("the row group", "to fetch", bytes, memory_for);
        admit(ALONE_BEYOND + (1 << 20)).unwrap();
        let refused = admit(1 << 30).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        let words = refused.to_string();
        assert!(words.contains("takes 1.0 GiB to fetch, over") && words.contains("the 65.0 MiB"), "{words}");
        assert!(words.contains("raise memory to 1.1 GiB"), "{words}");
    }

    #[test]
    fn threads_together_never_hold_more_than_the_budget() {
        let budget = Budget::new(64 * KIB);
        std::thread::scope(|scope| {
            for bytes in [16 * KIB, 24 * KIB, 40 * KIB] {
                let budget = &budget;
                scope.spawn(move || {
                    for _ in 0..5 {
                        let Some(mut permit) = budget.take(bytes) else { continue };
                        let part = permit.split(8 * KIB);
                        permit.shrink(12 * KIB);
                        drop(part);
                    }
                });
            }
        });
        assert!(budget.peak() <= 64 * KIB, "{}", budget.peak());
        assert_eq!((budget.used(), budget.take(64 * KIB).unwrap().bytes()), (0, 64 * KIB));
    }
}

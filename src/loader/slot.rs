//! A slot is the memory of a buffer that batches use again and again. It can be registered with the driver of
//! a device such as a GPU.
//!
//! A device can copy directly from registered memory, which the driver knows to stay in place. Registering
//! memory takes longer than copying it once, so it pays only for memory that many batches use. A slot is
//! registered at most once.
//!
//! Drivers register whole pages, and no page twice. So a slot that is large enough to be registered shares
//! its pages with nothing else. When the slot is no longer used, its memory goes to the [`Registration`],
//! which ends itself and then frees the memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;

/// Slots of at least this size have their own pages and may be registered. Copying from smaller slots is
/// cheap anyway.
pub(super) const MIN_OF_PAGES: usize = 1 << 20;

/// The size of the largest memory page that a machine with a device may have: 64 KiB on some aarch64
/// machines.
const PAGE: usize = 64 << 10;

/// The registration of a slot's memory with the driver of a device.
pub trait Registration: fmt::Debug + Send + Sync {
    /// Ends the registration, and then frees the memory. It is called once, on any thread, when the slot is
    /// no longer used.
    fn retire(self: Box<Self>, memory: SlotMemory);
}

/// The memory of a slot that is no longer used. Dropping this frees the memory.
#[derive(Debug, Default)]
pub struct SlotMemory {
    _anchor: BytesMut,
    _bytes: BytesMut,
}

/// Memory to which the values of successive batches are written.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) bytes: BytesMut,
    /// A part of the same allocation as `bytes`. It keeps the allocation alive while `bytes` is split up.
    anchor: BytesMut,
    pages: Option<Arc<Pages>>,
}

/// The memory pages of a slot. While the slot exists, any address inside them identifies the slot.
#[derive(Debug)]
pub struct Pages {
    address: usize,
    bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    New,
    /// The pages are being registered, or could not be.
    Claimed,
    Registered(Box<dyn Registration>),
    /// The slot no longer exists.
    Ended,
}

impl Slot {
    /// Allocates a slot of `bytes` bytes, which are all zero.
    pub(super) fn new(bytes: usize) -> Self {
        if bytes < MIN_OF_PAGES {
            return Slot { bytes: BytesMut::zeroed(bytes), anchor: BytesMut::new(), pages: None };
        }
        let whole = bytes.next_multiple_of(PAGE);
        let mut memory = BytesMut::zeroed(whole + PAGE);
        let address = memory.as_ptr() as usize;
        let anchor = memory.split_to((address + 1).next_multiple_of(PAGE) - address);
        let pages = Pages { address: memory.as_ptr() as usize, bytes: whole, state: Mutex::new(State::New) };
        memory.truncate(bytes);
        Slot { bytes: memory, anchor, pages: Some(Arc::new(pages)) }
    }

    /// The slot's pages, if it has its own; `None` for a small slot.
    pub(super) fn pages(&self) -> Option<&Arc<Pages>> {
        self.pages.as_ref()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(pages) = self.pages.take() else { return };
        let state = std::mem::replace(&mut *pages.state(), State::Ended);
        if let State::Registered(registration) = state {
            registration.retire(SlotMemory {
                _anchor: std::mem::take(&mut self.anchor),
                _bytes: std::mem::take(&mut self.bytes),
            });
        }
    }
}

impl Pages {
    /// The address of the first page.
    pub fn address(&self) -> usize {
        self.address
    }

    /// The total size of the pages in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the pages contain an address.
    pub(super) fn hold(&self, address: usize) -> bool {
        (self.address..self.address + self.bytes).contains(&address)
    }

    /// Whether the pages are registered.
    pub fn are_registered(&self) -> bool {
        matches!(*self.state(), State::Registered(_))
    }

    /// Whether the caller should register the pages. This is true only for the first call, so that they are
    /// registered once.
    pub fn claim(&self) -> bool {
        let mut state = self.state();
        let is_new = matches!(*state, State::New);
        if is_new {
            *state = State::Claimed;
        }
        is_new
    }

    /// Records that the pages are registered. If the slot no longer exists, or is registered already, ends
    /// the new registration at once.
    pub fn registered(&self, registration: Box<dyn Registration>) {
        let mut state = self.state();
        match *state {
            State::New | State::Claimed => *state = State::Registered(registration),
            State::Registered(_) | State::Ended => {
                drop(state);
                registration.retire(SlotMemory::default());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Log = Arc<Mutex<Vec<(&'static str, usize)>>>;

    #[derive(Debug)]
    struct Fake {
        log: Log,
        address: usize,
    }

    impl Registration for Fake {
        fn retire(self: Box<Self>, memory: SlotMemory) {
            self.log.lock().unwrap().push(("end", self.address));
            drop(memory);
        }
    }

    fn register(pages: &Pages, log: &Log) {
        assert!(pages.claim());
        log.lock().unwrap().push(("register", pages.address()));
        pages.registered(Box::new(Fake { log: log.clone(), address: pages.address() }));
    }

    #[test]
    fn a_large_slot_has_its_pages_to_itself() {
        let slots: Vec<Slot> = (0..20).map(|more| Slot::new(MIN_OF_PAGES + more * 1000)).collect();
        let mut ranges: Vec<(usize, usize)> = slots
            .iter()
            .map(|slot| {
                let pages = slot.pages().unwrap();
                assert_eq!((pages.address() % PAGE, pages.bytes() % PAGE), (0, 0));
                assert_eq!(pages.address(), slot.bytes.as_ptr() as usize);
                assert!(pages.bytes() >= slot.bytes.len());
                assert!(pages.hold(pages.address() + slot.bytes.len() - 1));
                (pages.address(), pages.address() + pages.bytes())
            })
            .collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:?}");
        assert!(Slot::new(MIN_OF_PAGES - 1).pages().is_none());
    }

    #[test]
    fn a_registration_ends_with_its_slot_and_once() {
        let log = Log::default();
        let slot = Slot::new(MIN_OF_PAGES);
        let pages = slot.pages().unwrap().clone();
        assert!(!pages.are_registered());
        register(&pages, &log);
        assert!(pages.are_registered() && !pages.claim());
        assert_eq!(log.lock().unwrap().len(), 1);
        drop(slot);
        let address = pages.address();
        assert_eq!(*log.lock().unwrap(), [("register", address), ("end", address)]);
        assert!(!pages.are_registered() && !pages.claim());
    }

    #[test]
    fn slots_that_were_taken_apart_keep_their_memory_until_the_registration_has_ended() {
        let log = Log::default();
        let mut slot = Slot::new(MIN_OF_PAGES);
        register(slot.pages().unwrap(), &log);
        let piece = slot.bytes.split_to(100);
        let rest = std::mem::take(&mut slot.bytes);
        drop((piece, rest));
        assert_eq!(log.lock().unwrap().len(), 1, "its anchor keeps it");
        drop(slot);
        assert_eq!(log.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_slot_that_could_not_be_registered_is_not_tried_again() {
        let slot = Slot::new(MIN_OF_PAGES);
        let pages = slot.pages().unwrap();
        assert!(pages.claim());
        assert!(!pages.claim() && !pages.are_registered());
    }

    #[test]
    fn a_registration_of_a_slot_that_is_gone_ends_at_once() {
        let log = Log::default();
        let slot = Slot::new(MIN_OF_PAGES);
        let pages = slot.pages().unwrap().clone();
        assert!(pages.claim());
        drop(slot);
        pages.registered(Box::new(Fake { log: log.clone(), address: 7 }));
        assert_eq!(*log.lock().unwrap(), [("end", 7)]);
    }

    #[test]
    fn a_registration_ends_once_if_its_slot_ends_on_another_thread() {
        let log = Log::default();
        let slot = Slot::new(MIN_OF_PAGES);
        let pages = slot.pages().unwrap().clone();
        assert!(pages.claim());
        let registration = Box::new(Fake { log: log.clone(), address: 7 });
        let registering = std::thread::spawn(move || pages.registered(registration));
        drop(slot);
        registering.join().unwrap();
        assert_eq!(*log.lock().unwrap(), [("end", 7)]);
    }
}

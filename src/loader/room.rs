//! Room for batches that are made ahead of the consumer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks at whether a place is free.
const GLANCE: Duration = Duration::from_millis(2);

/// How many batches may be made or waiting at once, of the epoch under way and the one after it together.
///
/// Who waits for a place looks for one now and then; it is woken only when most of them are free. A consumer whose steps
/// wake other threads is one whose processor they take, for a time slice of milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<Places>);

#[derive(Debug)]
struct Places {
    free: Mutex<usize>,
    /// So many free ones wake who waits.
    many: usize,
    bell: Condvar,
}

impl Places {
    fn free(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among them, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Places>);

impl Room {
    pub(crate) fn new(places: usize) -> Self {
        let many = (places * 3).div_ceil(4);
        Room(Arc::new(Places { free: places.into(), many, bell: Condvar::new() }))
    }

    /// A place, if one is free.
    pub(crate) fn take(&self) -> Option<Place> {
        self.taken(&mut self.0.free())
    }

    /// Waits a moment for a place.
    pub(crate) fn wait(&self) -> Option<Place> {
        let free = self.0.free();
        let waited = self.0.bell.wait_timeout_while(free, GLANCE, |free| *free < self.0.many);
        self.taken(&mut waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn taken(&self, free: &mut usize) -> Option<Place> {
        *free = free.checked_sub(1)?;
        Some(Place(self.0.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut free = self.0.free();
        *free += 1;
        let rings = *free == self.0.many;
        drop(free);
        if rings {
            self.0.bell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_come_back() {
        let room = Room::new(2);
        let (first, second) = (room.take(), room.take());
        assert!(first.is_some() && second.is_some() && room.take().is_none() && room.wait().is_none());
        drop(first);
        assert!(room.wait().is_some());
    }

    #[test]
    fn who_waits_gets_a_place_though_few_are_free() {
        let room = Room::new(8);
        let mut taken: Vec<Place> = std::iter::from_fn(|| room.take()).collect();
        assert_eq!(taken.len(), 8);
        let waiting = {
            let room = room.clone();
            std::thread::spawn(move || std::iter::repeat_with(|| room.wait()).find_map(|place| place))
        };
        taken.pop();
        assert!(waiting.join().unwrap().is_some(), "one is free");
        drop(taken);
        let again: Vec<Place> = std::iter::from_fn(|| room.take()).collect();
        assert_eq!(again.len(), 8);
    }
}

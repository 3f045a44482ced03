//! Catches panics without printing them, so that they become errors.
//!
//! Decoders may panic on malformed bytes, and a store may be the user's own code. A caught panic becomes an
//! error with a place, so Rust's own message on standard error would only confuse. Rust prints that message
//! before the panic can be caught, from a hook that the whole process shares. The hook in this file is silent
//! on a thread that is inside [`caught`], and passes every other panic to the previous hook.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;

static HOOK: Once = Once::new();

thread_local! {
    /// How many nested calls of [`caught`] the thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The source location of the last panic that was not printed.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught.
pub struct Panic {
    words: String,
    place: Option<String>,
}

impl fmt::Display for Panic {
    /// Writes the message of the panic, followed by its place in the source code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{} (at {place})", self.words),
            None => f.write_str(&self.words),
        }
    }
}

impl Panic {
    /// The message of the panic.
    pub(crate) fn words(&self) -> &str {
        &self.words
    }

    fn new(payload: &(dyn Any + Send)) -> Self {
        let words = payload.downcast_ref::<&str>().copied();
        let words = words.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Panic { words: words.unwrap_or("a panic").to_owned(), place: PLACE.with_borrow_mut(Option::take) }
    }
}

/// Runs `work`. Returns a panic as a value and prints nothing.
#[allow(clippy::disallowed_methods, reason = "this is the one place")]
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    // Setting a hook while the thread is already panicking would abort the process.
    if !std::thread::panicking() {
        HOOK.call_once(install);
    }
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    done.map_err(|payload| Panic::new(&*payload))
}

/// Polls a future inside [`caught`] until it ends or panics.
pub async fn caught_future<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| match caught(|| future.as_mut().poll(context)) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

#[allow(clippy::disallowed_methods, reason = "this is the one place")]
fn install() {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        // A thread that is ending may have lost its thread-local values already; it is not inside `caught`.
        if DEPTH.try_with(Cell::get).is_ok_and(|depth| depth > 0) {
            let place = panic.location().map(ToString::to_string);
            let _thread_ends = PLACE.try_with(|cell| *cell.borrow_mut() = place);
        } else {
            before(panic);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caught_panic_says_what_and_where() {
        let panic =
            caught(|| -> () { panic!("index {} out of bounds", 3) }).map_err(|panic| panic.to_string());
        let said = panic.unwrap_err();
        assert!(said.starts_with("index 3 out of bounds (at crates/base/src/panics.rs:"), "{said}");
        assert_eq!(caught(|| 5).map_err(|panic| panic.to_string()), Ok(5));
    }

    #[test]
    fn catching_within_catching_stays_silent_to_the_end() {
        let outer = caught(|| {
            assert!(caught(|| -> () { panic!("inner") }).is_err());
            assert_eq!(DEPTH.get(), 1);
        });
        assert!(outer.is_ok());
        assert_eq!(DEPTH.get(), 0);
    }
}

//! Reads one range of a file until it is complete. A late request is repeated by a second one beside it
//! (hedged), and a failed request is retried. Each request is a leg of the transfer.
//!
//! ```text
//! first leg ──────────── bytes ───────► slot ─► complete
//!     │ late           │ broken              ▲
//!     │                └► wait, a new leg from where it broke
//!     └► second leg ──── bytes ───────────┘   whichever is ahead stays
//! ```
//!
//! Both legs read the same version of the file, so every byte can be taken from either of them.

use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use forebay_base::Error;
use tokio::time::{Instant, sleep_until};

use super::connection::Remote;
use super::leg::Leg;
use super::pace::Late;
use super::trouble::{Outage, Trouble};
use crate::snapshot::Pin;
use crate::source::clouds::Client;

/// If the allowance for second requests is used up, a late request waits this long before it asks again.
const HEDGE_RETRY: Duration = Duration::from_millis(20);

/// A range of a file that is being read into memory reserved for it.
pub(super) struct Transfer<'a> {
    remote: &'a Remote,
    pin: &'a Pin,
    range: Range<u64>,
    /// The bytes received so far, from the start of the range. It has the capacity for the whole range.
    slot: BytesMut,
}

impl<'a> Transfer<'a> {
    /// Prepares to read `range` into `slot`, which must be empty and have the capacity for the range.
    pub(super) fn new(remote: &'a Remote, pin: &'a Pin, range: Range<u64>, slot: BytesMut) -> Self {
        Transfer { remote, pin, range, slot }
    }

    /// Reads until the range is complete. Fails if no byte arrives for longer than an outage may last.
    pub(super) async fn run(mut self) -> Result<BytesMut, Error> {
        // The permission to send requests is kept during waits after failures, so that a failing store gets
        // few requests.
        let _slot = self.remote.pace.slot().await;
        let mut outage = Outage::new(self.remote.limits.retry);
        while self.missing() > 0 {
            let (before, client) = (self.slot.len(), self.remote.client());
            let Err(trouble) = self.attempt(&client, outage.silence(self.remote.limits.stall)).await else {
                continue;
            };
            if self.slot.len() > before {
                outage.over();
            }
            self.remote.recover(trouble, &client, &mut outage).await?;
        }
        Ok(self.slot)
    }

    /// The offset in the file of the next missing byte.
    fn at(&self) -> u64 {
        self.range.start + self.slot.len() as u64
    }

    fn missing(&self) -> u64 {
        self.range.end - self.at()
    }

    /// Requests the missing bytes, and requests them a second time if the first request is late. A request is
    /// abandoned if no byte arrives for the time `stall`.
    async fn attempt(&mut self, client: &Client, stall: Duration) -> Result<(), Trouble> {
        let mut first = self.leg(client, stall);
        let mut second: Option<(Leg, Late)> = None;
        let mut may_hedge = true;
        let mut ask_from = Instant::now();
        while self.missing() > 0 {
            let (mut due, why) = first.late();
            let mut may_ask = may_hedge;
            if let Some((leg, _)) = &second {
                // A second request is replaced if it gets no byte either: its connection may be dead too.
                let (also, how) = leg.late();
                due = due.max(also);
                may_ask &= how == Late::Silent;
            }
            tokio::select! {
                biased;
                came = first.next() => match came {
                    Ok(Some((at, bytes))) => {
                        self.keep(at, &bytes);
                        // The first request gets bytes now, so a second one for its silence is cancelled.
                        second.take_if(|(_, why)| *why == Late::Silent);
                    }
                    ended => match second.take() {
                        Some((leg, _)) => first = leg,
                        None => return Err(ended.err().unwrap_or_else(ended_early)),
                    },
                },
                came = next_of(&mut second) => match came {
                    Ok(Some((at, bytes))) if self.keep(at, &bytes) => {
                        self.remote.traffic.hedges_won.add(1);
                        first = second.take().map_or(first, |(leg, _)| leg);
                    }
                    Ok(Some(_)) => {}
                    // The second request failed. No third one is sent, because it would be a retry without a
                    // wait, and the first request may still succeed.
                    _ => (second, may_hedge) = (None, false),
                },
                () = sleep_until(due.max(ask_from)), if may_ask => match self.remote.pace.may_hedge(why) {
                    true => {
                        self.remote.traffic.hedges.add(1);
                        second = Some((self.leg(client, stall), why));
                    }
                    // The allowance is used up by other requests: ask again later.
                    false => ask_from = Instant::now() + HEDGE_RETRY,
                },
            }
        }
        self.remote.pace.finished(self.slot.len() as u64, first.reading());
        Ok(())
    }

    fn leg(&self, client: &Client, stall: Duration) -> Leg {
        Leg::start(self.remote, client, self.pin, self.at()..self.range.end, stall)
    }

    /// Appends the part of `bytes` that is still missing, and returns whether there was such a part. `at` is
    /// the offset in the file at which `bytes` begin.
    fn keep(&mut self, at: u64, bytes: &Bytes) -> bool {
        // A leg begins at the first byte that is missing at that time, so its bytes leave no gap.
        let known =
            self.at().checked_sub(at).and_then(|known| usize::try_from(known).ok()).unwrap_or(usize::MAX);
        match bytes.get(known..) {
            Some(new) if !new.is_empty() => {
                self.slot.extend_from_slice(new);
                true
            }
            _ => false,
        }
    }
}

fn ended_early() -> Trouble {
    Trouble::passing("the response ended early")
}

/// The next bytes of a second request. If there is no second request, the future never completes.
async fn next_of(leg: &mut Option<(Leg, Late)>) -> Result<Option<(u64, Bytes)>, Trouble> {
    match leg {
        Some((leg, _)) => leg.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::path::Path;

    use super::*;
    use crate::catalog::FileVersion;

    #[test]
    fn of_two_legs_each_byte_is_kept_once_and_in_its_place() {
        let remote = Remote::of_user(Arc::new(InMemory::new()), Arc::default());
        let pin = Pin { path: Path::from("x"), size: 100, version: FileVersion::Modified(0) };
        let mut transfer = Transfer::new(&remote, &pin, 10..20, BytesMut::with_capacity(10));
        let mut keep = |at, bytes: &'static str| transfer.keep(at, &Bytes::from_static(bytes.as_bytes()));
        assert!(keep(10, "abcd"));
        // A second request from the start of the range brings the same bytes again.
        assert!(!keep(10, "ab"));
        assert!(!keep(12, "cd"));
        assert!(keep(10, "abcdef"));
        assert!(keep(14, "efg"));
        assert!(!keep(14, ""));
        // Bytes that would leave a gap are not kept.
        assert!(!keep(18, "ij"));
        assert!(keep(17, "hij"));
        assert_eq!((transfer.missing(), &transfer.slot[..]), (0, &b"abcdefghij"[..]));
    }
}

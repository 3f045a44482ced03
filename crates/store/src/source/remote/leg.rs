//! One request for one range of a file, from sending it to its last byte. It notices if the store stops
//! sending.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::{GetOptions, GetRange, GetResult};
use tokio::time::{Instant, timeout_at};

use super::connection::Remote;
use super::pace::{Late, Pace};
use super::trouble::{Trouble, changed};
use super::version::version_of;
use crate::snapshot::Pin;
use crate::source::clouds::Client;
use crate::source::traffic::Traffic;
use crate::source::wire::{EXCHANGE, Exchange};

/// A response is silent if no byte arrives for this many times the delay after which a first byte is late,
/// but at least for `MIN_SILENCE`.
const SILENCE_TIMES: u32 = 4;
const MIN_SILENCE: Duration = Duration::from_millis(500);

/// A response is slow if it takes this many times the expected time, but at least `MIN_SLOW`.
const SLOW_TIMES: u32 = 4;
const MIN_SLOW: Duration = Duration::from_secs(2);

/// A request in progress. A range may be requested by several of these, if one is late.
pub(super) struct Leg {
    pace: Arc<Pace>,
    traffic: Arc<Traffic>,
    state: LegState,
    exchange: Exchange,
    pin: Pin,
    range: Range<u64>,
    /// The file offset of the next byte to arrive.
    at: u64,
    sent: Instant,
    first_byte: Option<Instant>,
    last_byte: Instant,
    /// The time at which the request is given up if no byte arrives before.
    deadline: Instant,
    stall: Duration,
}

enum LegState {
    Asking(BoxFuture<'static, object_store::Result<GetResult>>),
    Reading(BoxStream<'static, object_store::Result<Bytes>>),
}

impl Leg {
    /// Requests `range` of a file. The request is given up if no byte arrives for the time `stall`.
    pub(super) fn start(
        remote: &Remote,
        client: &Client,
        pin: &Pin,
        range: Range<u64>,
        stall: Duration,
    ) -> Self {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: remote.origin.takes_if_match().then(|| pin.if_match()).flatten(),
            ..GetOptions::default()
        };
        let exchange = Exchange::default();
        let (store, path, watched) = (client.clone(), pin.path.clone(), exchange.clone());
        let asking = EXCHANGE.scope(watched, async move { store.get_opts(&path, options).await }).boxed();
        remote.traffic.requests.add(1);
        let sent = Instant::now();
        Leg {
            pace: remote.pace.clone(),
            traffic: remote.traffic.clone(),
            state: LegState::Asking(asking),
            exchange,
            pin: pin.clone(),
            at: range.start,
            range,
            sent,
            first_byte: None,
            last_byte: sent,
            deadline: sent + stall,
            stall,
        }
    }

    /// The next bytes, with their offset in the file; `None` at the end of the response. If the future is
    /// dropped before it is ready, the method can be called again.
    pub(super) async fn next(&mut self) -> Result<Option<(u64, Bytes)>, Trouble> {
        loop {
            let came = match &mut self.state {
                LegState::Asking(asking) => {
                    let answer = timeout_at(self.deadline, asking).await.map_err(|_| self.stalled())?;
                    let answer = answer.map_err(|error| Trouble::from_store_error(&error, &self.exchange))?;
                    self.check(&answer)?;
                    self.deadline = Instant::now() + self.stall;
                    self.state = LegState::Reading(answer.into_stream());
                    continue;
                }
                LegState::Reading(body) => {
                    timeout_at(self.deadline, EXCHANGE.scope(self.exchange.clone(), body.next())).await
                }
            };
            let now = Instant::now();
            return match came.map_err(|_| self.stalled())? {
                Some(Ok(bytes)) if bytes.is_empty() => continue,
                Some(Ok(bytes)) => {
                    if self.first_byte.is_none() {
                        self.first_byte = Some(now);
                        self.pace.first_byte(now - self.sent);
                    }
                    (self.last_byte, self.deadline) = (now, now + self.stall);
                    self.traffic.received.add(bytes.len() as u64);
                    let at = self.at;
                    self.at += bytes.len() as u64;
                    match self.at > self.range.end {
                        true => Err(Trouble::odd("the response is longer than the requested range")),
                        false => Ok(Some((at, bytes))),
                    }
                }
                Some(Err(error)) => Err(Trouble::passing(broken(&error, &self.exchange))),
                None => Ok(None),
            };
        }
    }

    /// Fails if the response has another range than requested, or comes from another version of the file than
    /// the catalogue has.
    fn check(&self, answer: &GetResult) -> Result<(), Trouble> {
        self.pin.check(&answer.meta).map_err(Trouble::Final)?;
        match answer.range == self.range {
            true => Ok(()),
            false => Err(Trouble::odd("the response is not the requested range")),
        }
    }

    fn stalled(&self) -> Trouble {
        let what = match self.state {
            LegState::Asking(_) => "no response came",
            LegState::Reading(_) => "the response stalled",
        };
        Trouble::Stalled(format!("{what} for {:.0} s", self.stall.as_secs_f64()))
    }

    /// The time since the first byte.
    pub(super) fn reading(&self) -> Duration {
        self.first_byte.map_or(Duration::ZERO, |first| first.elapsed())
    }

    /// When a second request for the same range should be sent, and why.
    pub(super) fn late(&self) -> (Instant, Late) {
        let on_time = self.pace.late_after();
        let Some(first) = self.first_byte else { return (self.sent + on_time, Late::Silent) };
        let silent = self.last_byte + MIN_SILENCE.max(on_time * SILENCE_TIMES);
        let expected = self.pace.expected(self.range.end - self.range.start);
        let slow = first + MIN_SLOW.max(expected * SLOW_TIMES);
        if silent < slow { (silent, Late::Silent) } else { (slow, Late::Slow) }
    }
}

/// The reason why a response broke off, without the URL that the error may contain.
fn broken(error: &object_store::Error, exchange: &Exchange) -> String {
    match exchange.failure() {
        Some(failure) => failure.words,
        None if matches!(error, object_store::Error::Generic { .. }) => "the connection was lost".into(),
        None => "the response could not be read".into(),
    }
}

impl Pin {
    /// Fails if a response is not about the version of the file that is in the catalogue.
    pub(super) fn check(&self, meta: &object_store::ObjectMeta) -> Result<(), forebay_base::Error> {
        if meta.size != self.size {
            return Err(changed(&format!("it had {} bytes, and has {} now", self.size, meta.size)));
        }
        match self.agrees(meta) {
            true => Ok(()),
            false => Err(changed(&format!("it was {}, and is {} now", self.version, version_of(meta)))),
        }
    }
}

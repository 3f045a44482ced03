//! The log of requests, and its sums.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::fault::Fault;
use crate::held;
use crate::request::Operation;

/// One request and what became of it. As JSON, durations are seconds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Exchange {
    /// Counted from one, in the order in which the requests were read. Connections with a fault count, too.
    pub number: u64,
    /// When the request was read, since the server was started.
    #[serde(with = "crate::seconds")]
    pub since_start: Duration,
    /// From the request to the last byte handed to the socket; so far, if it still goes on.
    #[serde(with = "crate::seconds")]
    pub took: Duration,
    /// Whether nothing more will come of it.
    pub done: bool,
    /// The connection it came by, counted from one in the order of accepting.
    pub connection: u64,
    /// What was asked for.
    pub operation: Operation,
    /// The key, or the prefix of a list.
    pub key: String,
    /// Which bytes of the object were asked for, if they were and there are such bytes.
    pub range: Option<Range<u64>>,
    /// Whether the request named the version that it wants (`If-Match`).
    pub if_match: Option<String>,
    /// Who asked.
    pub access_key_id: Option<String>,
    /// None as long as no head was sent.
    pub status: Option<u16>,
    /// Bytes of the body handed to the socket.
    pub bytes_sent: u64,
    /// What went wrong on command.
    pub fault: Option<Fault>,
}

impl Exchange {
    fn new(number: u64, since_start: Duration, connection: u64, operation: Operation, key: &str) -> Exchange {
        Exchange {
            number,
            since_start,
            took: Duration::ZERO,
            done: false,
            connection,
            operation,
            key: key.to_string(),
            range: None,
            if_match: None,
            access_key_id: None,
            status: None,
            bytes_sent: 0,
            fault: None,
        }
    }
}

/// Sums since the server was started or the log was reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Connections accepted, those that were reset at once included.
    pub connections: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Requests of every kind.
    pub requests: u64,
    /// Of these, for an object or a part of it.
    pub gets: u64,
    /// Of these, for an object's size and version.
    pub heads: u64,
    /// Of these, for a page of keys.
    pub lists: u64,
    /// Bytes of bodies.
    pub bytes_sent: u64,
    /// Requests and connections that a rule chose.
    pub faults: u64,
}

/// The number of no exchange.
const UNLISTED: u64 = 0;

pub(crate) struct Log {
    started: Instant,
    kept: Mutex<Kept>,
    sink: Option<Mutex<File>>,
}

#[derive(Default)]
struct Kept {
    /// The next number. Numbers go on when the log is reset, so that what still runs finds that its place is
    /// gone.
    next: u64,
    /// Exchanges in order, the last one with the number before `next`.
    exchanges: Vec<Exchange>,
    stats: Stats,
}

impl Kept {
    fn place(&mut self, number: u64) -> Option<&mut Exchange> {
        let first = self.next - self.exchanges.len() as u64;
        self.exchanges.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }
}

impl Log {
    /// Exchanges are also written to `file` as they end, one line of JSON each.
    pub(crate) fn new(file: Option<&Path>) -> std::io::Result<Log> {
        let sink = file.map(File::create).transpose()?.map(Mutex::new);
        let kept = Mutex::new(Kept { next: 1, ..Kept::default() });
        Ok(Log { started: Instant::now(), kept, sink })
    }

    pub(crate) fn connected(&self) {
        let mut kept = held(&self.kept);
        kept.stats.connections += 1;
        kept.stats.open += 1;
    }

    pub(crate) fn disconnected(&self) {
        let mut kept = held(&self.kept);
        kept.stats.open = kept.stats.open.saturating_sub(1);
    }

    /// A connection turned out to be its owner's, and is not counted.
    pub(crate) fn not_a_client(&self) {
        let mut kept = held(&self.kept);
        kept.stats.connections = kept.stats.connections.saturating_sub(1);
    }

    /// An exchange begins. It ends when the handle is dropped.
    pub(crate) fn begin(&self, connection: u64, operation: Operation, key: &str) -> Open<'_> {
        let mut kept = held(&self.kept);
        let since_start = self.started.elapsed();
        let exchange = Exchange::new(kept.next, since_start, connection, operation, key);
        kept.next += 1;
        kept.exchanges.push(exchange.clone());
        match operation {
            Operation::Connect => return Open { log: self, exchange },
            Operation::Get => kept.stats.gets += 1,
            Operation::Head => kept.stats.heads += 1,
            Operation::List => kept.stats.lists += 1,
            Operation::Put | Operation::Other => {}
        }
        kept.stats.requests += 1;
        Open { log: self, exchange }
    }

    /// An exchange that leaves no trace.
    pub(crate) fn unlisted(&self) -> Open<'_> {
        Open { log: self, exchange: Exchange::new(UNLISTED, Duration::ZERO, 0, Operation::Other, "") }
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        held(&self.kept).exchanges.clone()
    }

    pub(crate) fn stats(&self) -> Stats {
        held(&self.kept).stats
    }

    pub(crate) fn reset(&self) {
        let mut kept = held(&self.kept);
        kept.exchanges.clear();
        kept.stats = Stats { open: kept.stats.open, ..Stats::default() };
    }
}

/// An exchange that goes on.
pub(crate) struct Open<'a> {
    log: &'a Log,
    pub(crate) exchange: Exchange,
}

impl Open<'_> {
    /// So many bytes more of the body were handed to the socket.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.exchange.bytes_sent += bytes;
        let mut kept = held(&self.log.kept);
        if let Some(shown) = kept.place(self.exchange.number) {
            shown.bytes_sent += bytes;
            kept.stats.bytes_sent += bytes;
        }
    }

    /// What is known by now is shown.
    pub(crate) fn show(&mut self) {
        self.exchange.took = self.log.started.elapsed().saturating_sub(self.exchange.since_start);
        let mut kept = held(&self.log.kept);
        let Some(shown) = kept.place(self.exchange.number) else { return };
        let known = shown.fault.is_some();
        *shown = self.exchange.clone();
        kept.stats.faults += u64::from(self.exchange.fault.is_some() && !known);
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.exchange.done = true;
        self.show();
        if self.exchange.number == UNLISTED {
            return;
        }
        let Some(sink) = &self.log.sink else { return };
        if let Ok(mut line) = serde_json::to_vec(&self.exchange) {
            line.push(b'\n');
            // Nobody is left to tell, and the log in memory is whole.
            let _ = held(sink).write_all(&line);
        }
    }
}

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

/// One request and its outcome. In JSON, durations are seconds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LoggedExchange {
    /// The number of the exchange, counted from one in the order in which requests were read. Connections
    /// with a fault count, too.
    pub number: u64,
    /// When the request was read, since the server was started.
    #[serde(with = "crate::seconds")]
    pub since_start: Duration,
    /// The time from the request to the last byte that was passed to the socket; the time so far if the
    /// exchange goes on.
    #[serde(with = "crate::seconds")]
    pub took: Duration,
    /// Whether the exchange has ended.
    pub done: bool,
    /// The number of the connection, counted from one in the order of accepting.
    pub connection: u64,
    /// The operation of the request.
    pub operation: Operation,
    /// The key, or the prefix of a list.
    pub key: String,
    /// The requested bytes of the object, if the request had a range and the object has such bytes.
    pub range: Option<Range<u64>>,
    /// The version that the request requires (`If-Match`).
    pub if_match: Option<String>,
    /// The access key id of the request.
    pub access_key_id: Option<String>,
    /// The status of the answer; `None` while no head was sent.
    pub status: Option<u16>,
    /// The number of bytes of the body that were passed to the socket.
    pub bytes_sent: u64,
    /// The fault that the exchange met.
    pub fault: Option<Fault>,
}

impl LoggedExchange {
    fn new(
        number: u64,
        since_start: Duration,
        connection: u64,
        operation: Operation,
        key: &str,
    ) -> LoggedExchange {
        LoggedExchange {
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
    /// The number of connections that were accepted, including those that were reset at once.
    pub connections: u64,
    /// The number of connections that are open now.
    pub open: u64,
    /// The number of requests of every kind.
    pub requests: u64,
    /// The number of requests for an object or a part of it.
    pub gets: u64,
    /// The number of requests for an object's size and version.
    pub heads: u64,
    /// The number of requests for a page of keys.
    pub lists: u64,
    /// The number of bytes in bodies.
    pub bytes_sent: u64,
    /// The number of requests and connections that a rule chose.
    pub faults: u64,
}

/// The exchange number that marks an exchange as not logged.
const UNLISTED: u64 = 0;

pub(crate) struct Log {
    started: Instant,
    kept: Mutex<KeptLog>,
    sink: Option<Mutex<File>>,
}

#[derive(Default)]
struct KeptLog {
    /// The number of the next exchange. Numbers continue when the log is reset, so that an exchange in
    /// progress finds that its place is gone.
    next: u64,
    /// The exchanges in order; the last one has the number `next - 1`.
    exchanges: Vec<LoggedExchange>,
    stats: Stats,
}

impl KeptLog {
    fn place(&mut self, number: u64) -> Option<&mut LoggedExchange> {
        let first = self.next - self.exchanges.len() as u64;
        self.exchanges.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }
}

impl Log {
    /// A log that also writes each exchange to `file` when it ends, one line of JSON each.
    pub(crate) fn new(file: Option<&Path>) -> std::io::Result<Log> {
        let sink = file.map(File::create).transpose()?.map(Mutex::new);
        let kept = Mutex::new(KeptLog { next: 1, ..KeptLog::default() });
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

    /// Takes back the count of a connection, because it serves the control interface and not a client.
    pub(crate) fn not_a_client(&self) {
        let mut kept = held(&self.kept);
        kept.stats.connections = kept.stats.connections.saturating_sub(1);
    }

    /// Begins an exchange, which ends when the returned handle is dropped.
    pub(crate) fn begin(&self, connection: u64, operation: Operation, key: &str) -> Open<'_> {
        let mut kept = held(&self.kept);
        let since_start = self.started.elapsed();
        let exchange = LoggedExchange::new(kept.next, since_start, connection, operation, key);
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

    /// An exchange that is not logged.
    pub(crate) fn unlisted(&self) -> Open<'_> {
        Open { log: self, exchange: LoggedExchange::new(UNLISTED, Duration::ZERO, 0, Operation::Other, "") }
    }

    pub(crate) fn exchanges(&self) -> Vec<LoggedExchange> {
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

/// An exchange in progress.
pub(crate) struct Open<'a> {
    log: &'a Log,
    pub(crate) exchange: LoggedExchange,
}

impl Open<'_> {
    /// Counts bytes of the body that were passed to the socket.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.exchange.bytes_sent += bytes;
        let mut kept = held(&self.log.kept);
        if let Some(shown) = kept.place(self.exchange.number) {
            shown.bytes_sent += bytes;
            kept.stats.bytes_sent += bytes;
        }
    }

    /// Writes what is known so far into the log.
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
            // There is nobody to report a failure to, and the log in memory is complete.
            let _ = held(sink).write_all(&line);
        }
    }
}

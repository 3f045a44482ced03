//! An object store on loopback that serves local folders the way S3 does, and misbehaves on command.
//!
//! It lists (ListObjectsV2), serves whole objects and ranges, answers conditional requests, and accepts whole
//! objects. It does not check signatures. It implements HTTP/1.1 itself, because an HTTP library cannot
//! misbehave on purpose: for example, reset a connection after 4,096 bytes, or send a `Content-Length` that
//! differs from the body.
//!
//! ```text
//!            ┌ server ────────────────────────────────────────────────────────────────┐
//! accept ─►  │ connection ─ request ─► store, list ─► answer ─► rule ─► script ─► wire │ ─► bytes, or not
//!            │              head        what S3 would say       fault    acts          │
//!            └─────────────────────────────────────── log ◄─────────────── link ──────┘
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `server` | start, stop and outages; the state that all connections share |
//! | `connection` | one connection, from its first request to its end |
//! | `request`, `answer` | the two halves of an exchange as plain values |
//! | `store`, `list` | the answers that S3 would give: objects, ranges, conditions, pages of keys |
//! | `rule` | which requests a fault hits: [`Match`] |
//! | `fault` | what goes wrong: [`Fault`], and the script of acts that results |
//! | `wire` | plays a script on a socket |
//! | `link` | the time to the first byte and the rate: [`Link`] |
//! | `log` | what happened: [`LoggedExchange`], [`Stats`] |
//! | `control` | control by HTTP, for programs in other languages: `/_stats`, `/_log`, `/_rules`, ... |
//!
//! ```no_run
//! use std::time::Duration;
//! use fault_server::{Fault, FaultServer, Latency, Link, Match};
//!
//! let server = FaultServer::builder()
//!     .folder("bucket", "/data/photos")
//!     .link(Link {
//!         first_byte: Some(Latency::log_normal(Duration::from_millis(30), Duration::from_millis(300))),
//!         rate: Some(100_000_000),
//!         ..Link::default()
//!     })
//!     .seed(7)
//!     .start()?;
//! server.add(Match::get().key_ends_with(".parquet").nth(5), Fault::slow_down(Duration::from_secs(1)));
//! println!("{}/bucket/part-0.parquet", server.url());
//! # std::io::Result::Ok(())
//! ```
//!
//! All random draws are functions of the seed and a count: latencies count requests, and rules with a
//! probability count candidates. The same requests in the same order meet the same faults.

mod answer;
mod connection;
mod control;
mod date;
mod draw;
mod fault;
mod link;
mod list;
mod log;
mod request;
mod rule;
mod server;
mod store;
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use fault::{Fault, ListFault};
pub use link::{Latency, Link};
pub use log::{LoggedExchange, Stats};
pub use request::Operation;
pub use rule::Match;
pub use server::{Builder, FaultServer, Outage};
pub use store::Credentials;

/// Locks a mutex even if a thread that held it panicked: the guarded values are consistent between any two
/// statements.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Durations as seconds in JSON, whole or with a fraction.
mod seconds {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(duration.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }

    /// Optional durations as seconds in JSON.
    pub(crate) mod maybe {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match duration {
                Some(duration) => to.serialize_some(&duration.as_secs_f64()),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
            let seconds = Option::<f64>::deserialize(from)?;
            seconds.map(|seconds| Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)).transpose()
        }
    }
}

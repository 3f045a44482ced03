//! Records the outcome of the last HTTP request (status, time to wait, region, failure) for the code that
//! sent it through object_store, whose errors do not expose these values.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use chrono::DateTime;
use http::HeaderMap;
use http::header::RETRY_AFTER;

/// The header in which S3 names the region of a bucket.
const REGION: &str = "x-amz-bucket-region";
const REGION_LENGTH: usize = 32;

tokio::task_local! {
    /// The record of the requests that the current task sends. It is set only within `EXCHANGE.scope`.
    pub(in crate::source) static EXCHANGE: Exchange;
}

/// The outcome of the last request: its response, or the failure to get one. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(in crate::source) struct Exchange {
    last: Arc<Mutex<Last>>,
}

#[derive(Clone, Debug, Default)]
struct Last {
    status: Option<u16>,
    retry_after: Option<Duration>,
    region: Option<String>,
    failure: Option<Failure>,
}

/// The reason why a request got no response, or only a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::source) struct Failure {
    pub(in crate::source) kind: FailureKind,
    /// The reason as a clause for an error message, without URLs, queries and headers, which may hold
    /// secrets.
    pub(in crate::source) words: String,
}

/// The kind of a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum FailureKind {
    /// The host has no address.
    Dns,
    /// No program listens at the host and port.
    Refused,
    /// The connection ended before the response did.
    Reset,
    /// The TLS handshake failed, for instance because a certificate is not trusted.
    Tls,
    /// The connection, or the request on it, took longer than is allowed.
    Timeout,
    /// The response to a list request is cut off, or does not show whether the list continues.
    Listing,
    /// There are no credentials to sign a request with.
    NoCredentials,
    /// Any other failure, such as a redirect that is not followed. Another try would fail in the same way.
    Other,
}

impl Exchange {
    /// The status of the last response; `None` if there was none, or if the last request failed without one.
    pub(in crate::source) fn status(&self) -> Option<u16> {
        self.last().status
    }

    /// The time that the server's last response asks to wait before the next request; zero for a date that
    /// has passed.
    pub(in crate::source) fn retry_after(&self) -> Option<Duration> {
        self.last().retry_after
    }

    /// The region of the bucket, if the last response names it.
    pub(in crate::source) fn region(&self) -> Option<String> {
        self.last().region.clone()
    }

    /// The failure of the last request, before its response or within it; `None` if it did not fail.
    pub(in crate::source) fn failure(&self) -> Option<Failure> {
        self.last().failure.clone()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records in [`EXCHANGE`] the status and headers of a response.
pub(super) fn answered(status: u16, headers: &HeaderMap) {
    let retry_after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| wait(value, SystemTime::now()));
    let region = headers.get(REGION).and_then(|value| value.to_str().ok()).filter(|region| is_region(region));
    report(Last { status: Some(status), retry_after, region: region.map(str::to_owned), failure: None });
}

/// Records in [`EXCHANGE`] that a request got no response.
pub(super) fn failed(failure: Failure) {
    report(Last { failure: Some(failure), ..Last::default() });
}

/// Records in [`EXCHANGE`] that a response broke off.
pub(super) fn broke_off(failure: Failure) {
    let _ = EXCHANGE.try_with(|exchange| exchange.last().failure = Some(failure));
}

fn report(last: Last) {
    let _ = EXCHANGE.try_with(|exchange| *exchange.last() = last);
}

/// Whether `name` has the form of a region's name.
pub(in crate::source) fn is_region(name: &str) -> bool {
    (1..=REGION_LENGTH).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// Reads the value of a `Retry-After` header, in seconds or as a date, as the time to wait from `now`.
fn wait(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = SystemTime::from(DateTime::parse_from_rfc2822(value).ok()?);
    Some(then.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_470);
        assert_eq!(wait("120", now), Some(Duration::from_secs(120)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT", now), Some(Duration::from_secs(10)));
        assert_eq!(wait("Wed, 21 Oct 2015 07:27:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(wait("soon", now), None);
        assert_eq!(wait("-1", now), None);
    }

    #[tokio::test]
    async fn the_last_request_is_the_one_that_is_told() {
        // Outside the scope of an `EXCHANGE`, this call records nothing and does not fail.
        answered(200, &HeaderMap::new());
        EXCHANGE
            .scope(Exchange::default(), async {
                let mut headers = HeaderMap::new();
                headers.insert(RETRY_AFTER, "7".parse().unwrap());
                answered(503, &headers);
                let told = EXCHANGE.with(|exchange| (exchange.status(), exchange.retry_after()));
                assert_eq!(told, (Some(503), Some(Duration::from_secs(7))));

                let failure = Failure { kind: FailureKind::Reset, words: "connection reset".into() };
                failed(failure.clone());
                let told = EXCHANGE.with(|exchange| (exchange.status(), exchange.failure()));
                assert_eq!(told, (None, Some(failure)));
            })
            .await;
    }
}

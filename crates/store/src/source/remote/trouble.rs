//! Classifies the failures of requests, and decides whether and when to retry. The limit on retries is a
//! time, not a number.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use forebay_base::{Error, ErrorKind};
use object_store::Error as StoreError;

use crate::source::wire::{Exchange, FailureKind, is_region};

/// The longest wait before the first retry. The longest wait doubles with each further retry, up to
/// `MAX_BACKOFF`.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// The most retries after wrong answers, such as the whole file instead of a range.
const MAX_ODD_ANSWERS: u32 = 6;

/// The last request may wait at least this long for a byte, even if the time for retries ends earlier.
const MIN_SILENCE: Duration = Duration::from_secs(1);

/// S3's error codes for expired credentials. S3 sends them with the status 400, where other stores use 403.
/// It also sends [`TOO_LATE`] with the status 400, where other stores use 408.
const EXPIRED: [&str; 3] = ["ExpiredToken", "TokenRefreshRequired", "RequestExpired"];
const TOO_LATE: [&str; 1] = ["RequestTimeout"];

/// The HTTP statuses from 500 that are not retried: the request is not supported, or a proxy requires a
/// login. Other statuses from 500 are temporary.
const PERMANENT: [u16; 6] = [501, 505, 506, 508, 510, 511];

/// The error codes by which stores give the reason for refusing credentials, with a hint for each.
const REFUSALS: [(&str, &str); 9] = [
    ("SignatureDoesNotMatch", "the secret key is not that of the access key: check both, and the endpoint"),
    ("InvalidAccessKeyId", "the store does not know the access key: check it, and the endpoint"),
    ("InvalidToken", "the session token is not that of the access key"),
    ("ExpiredToken", "the credentials have expired: get new ones"),
    ("TokenRefreshRequired", "the credentials have expired: get new ones"),
    ("RequestExpired", "the signed URL has expired, or this machine's clock is wrong"),
    ("RequestTimeTooSkewed", "this machine's clock is wrong"),
    (
        "AccessDenied",
        "the credentials are valid, but may not read this; or it does not exist, and they may not list",
    ),
    ("AuthenticationFailed", "the key or the signature is not that of the account, or has expired"),
];

/// A message repeats a word from the body of an error response if it has at most this many characters.
const MAX_WORD_LENGTH: usize = 64;

/// The failure of a request, classified by whether a retry may help.
#[derive(Debug)]
pub(in crate::source) enum Trouble {
    /// A failure that a retry will not cure.
    Final(Error),
    /// The credentials were refused. They are looked up again once, in case they have expired.
    Denied(Error),
    /// A temporary failure: an outage, a busy store, a broken connection.
    Passing {
        words: String,
        /// The wait before the next request, if the store asked for one.
        retry_after: Option<Duration>,
        /// Whether the store asked for fewer requests.
        throttled: bool,
    },
    /// No byte of the response arrived for too long.
    Stalled(String),
    /// The store was reached but gave a wrong answer. The hint is for the case that retries do not help.
    Odd { words: String, hint: &'static str },
}

impl Trouble {
    pub(super) fn odd(words: impl Into<String>) -> Self {
        Trouble::Odd { words: words.into(), hint: "check the endpoint: the server must support ranged reads" }
    }

    pub(super) fn passing(words: impl Into<String>) -> Self {
        Trouble::Passing { words: words.into(), retry_after: None, throttled: false }
    }

    /// Classifies an error of the `object_store` crate. Messages do not repeat its text, which can contain
    /// keys and signed URLs.
    pub(in crate::source) fn from_store_error(error: &StoreError, exchange: &Exchange) -> Self {
        if let Some(own) = own(error) {
            return Trouble::Final(own);
        }
        if let StoreError::InvalidPath { source } = error {
            return Trouble::Final(not_a_path(source));
        }
        let text = error.to_string();
        let code = element(&text, "Code");
        let said = |status: u16| match &code {
            Some(code) => format!("the store answered {status} {code}"),
            None => format!("the store answered {status}"),
        };
        let coded = |codes: &[&str]| code.as_deref().is_some_and(|code| codes.contains(&code));
        match exchange.status() {
            Some(status @ (401 | 403)) => return Trouble::Denied(denied(said(status), code.as_deref())),
            Some(400) if coded(&EXPIRED) => return Trouble::Denied(denied(said(400), code.as_deref())),
            Some(404) => return Trouble::Final(not_there(code.as_deref())),
            Some(412 | 416) => return Trouble::Final(changed("its content was replaced")),
            Some(status) if PERMANENT.contains(&status) => {
                return Trouble::Final(Error::new(ErrorKind::Io, said(status)).hint(advice(status)));
            }
            Some(status @ (408 | 425 | 429 | 500..)) => {
                return Trouble::Passing {
                    words: said(status),
                    retry_after: exchange.retry_after(),
                    throttled: matches!(status, 429 | 503),
                };
            }
            Some(400) if coded(&TOO_LATE) => return Trouble::passing(said(400)),
            Some(status @ 300..) => {
                let region = exchange.region().or_else(|| element(&text, "Region"));
                let hint =
                    match region.filter(|region| is_region(region) && matches!(status, 301 | 307 | 400)) {
                        Some(region) => {
                            format!("the bucket is in {region}: pass the storage option region={region}")
                        }
                        None => advice(status).to_owned(),
                    };
                return Trouble::Final(Error::new(ErrorKind::Io, said(status)).hint(hint));
            }
            // The status is a success and the transfer did not fail, so the content of the answer is wrong.
            Some(_) if exchange.failure().is_none() => {
                return Trouble::odd("the response is not what was requested");
            }
            _ => {}
        }
        if let Some(failure) = exchange.failure() {
            return match failure.kind {
                FailureKind::Other => Trouble::Final(Error::new(ErrorKind::Io, failure.words)),
                FailureKind::NoCredentials => Trouble::Final(no_credentials(failure.words)),
                FailureKind::Listing => Trouble::Odd {
                    words: failure.words,
                    hint: "check the endpoint: an S3 server must list by ListObjectsV2; files can be given as a list",
                },
                FailureKind::Tls => Trouble::Odd {
                    words: failure.words,
                    hint: "the server's certificate must be trusted by this machine, see SSL_CERT_FILE",
                },
                _ => Trouble::passing(failure.words),
            };
        }
        match error {
            StoreError::NotFound { .. } => Trouble::Final(not_there(None)),
            StoreError::Precondition { .. } => Trouble::Final(changed("its content was replaced")),
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
                Trouble::Denied(denied("the store denied access".into(), None))
            }
            StoreError::NotSupported { .. } | StoreError::NotImplemented { .. } => Trouble::Final(
                Error::new(ErrorKind::Unsupported, "the store does not support a needed operation"),
            ),
            StoreError::UnknownConfigurationKey { .. } => {
                Trouble::Final(Error::invalid("the store does not know an option"))
            }
            other => Trouble::passing(deepest(other)),
        }
    }
}

/// The error for a file that changed after the data set was opened. `how` says what is different.
pub(in crate::source) fn changed(how: &str) -> Error {
    Error::new(
        ErrorKind::DatasetChanged,
        format!("the file has changed since the data set was opened: {how}"),
    )
    .hint("open the data set again")
}

fn not_there(code: Option<&str>) -> Error {
    match code {
        Some("NoSuchBucket") => Error::new(ErrorKind::NotFound, "bucket not found"),
        _ => Error::new(ErrorKind::NotFound, "object not found"),
    }
}

fn denied(said: String, code: Option<&str>) -> Error {
    let known = REFUSALS.iter().find(|(known, _)| Some(*known) == code);
    let hint = known.map_or("check the credentials and what they may read", |(_, hint)| hint);
    Error::new(ErrorKind::Denied, said).hint(hint)
}

/// The hint for a request that the store answered with this HTTP status.
fn advice(status: u16) -> &'static str {
    match status {
        300..400 => "the response is a redirect: check the region, the endpoint and the URL",
        405 | 501 => "the server does not support the request: check that the endpoint is the store's",
        407 | 511 => "a proxy or gateway asks for a login: check the network",
        _ => "check the URL, the endpoint and the storage options",
    }
}

/// The error for an object whose key the `object_store` crate does not accept as a path.
fn not_a_path(source: &object_store::path::Error) -> Error {
    use object_store::path::Error as PathError;
    match source {
        PathError::EmptySegment { path } | PathError::BadSegment { path, .. } => Error::new(
            ErrorKind::Unsupported,
            format!(
                "the key {path:?} has an empty name, \".\", \"..\" or a control character between its slashes"
            ),
        )
        .hint("such keys are not read: copy the object to another key, or open the other objects"),
        _ => Error::invalid("the store refuses the path"),
    }
}

/// The error of this library that is wrapped inside an error of object_store, if there is one.
fn own(error: &StoreError) -> Option<Error> {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<Error>()).next().cloned()
}

fn no_credentials(words: String) -> Error {
    Error::new(ErrorKind::Denied, words).hint(
        "set them in the environment or the storage options, or pass the storage option skip_signature=true \
         for what anybody may read",
    )
}

/// The text of the XML element `name` in the body of an error response, if it is one short word, such as an
/// error code. Longer texts are not used, because they can contain secrets.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (word, _) = rest.split_once(&format!("</{name}>"))?;
    let is_word =
        word.len() <= MAX_WORD_LENGTH && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_word.then(|| word.to_string())
}

/// The text of the innermost cause of an error.
fn deepest(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(inner) => deepest(inner),
        None => error.to_string(),
    }
}

/// The state of the retries of a request: since when nothing has arrived, and how often it was tried.
#[derive(Debug)]
pub(super) struct Outage {
    /// The time when the last byte arrived, or when the first request was made.
    since: Instant,
    patience: Duration,
    tries: u32,
    odd: u32,
    /// Whether the credentials were already looked up again during this outage.
    pub(super) renewed: bool,
}

impl Outage {
    pub(super) fn new(patience: Duration) -> Self {
        Outage { since: Instant::now(), patience, tries: 0, odd: 0, renewed: false }
    }

    /// Records that bytes arrived, so that earlier failures no longer count.
    pub(super) fn over(&mut self) {
        (self.since, self.tries) = (Instant::now(), 0);
    }

    /// How long the next request may wait for a byte: the time `stall`, or less if the time for retries ends
    /// earlier.
    pub(super) fn silence(&self, stall: Duration) -> Duration {
        stall.min(self.patience.saturating_sub(self.since.elapsed()).max(MIN_SILENCE))
    }

    /// Returns how long to wait before the next request, or the error if no request is to follow.
    pub(super) fn wait(&mut self, trouble: Trouble) -> Result<Duration, Error> {
        let (words, at_least) = match trouble {
            Trouble::Final(error) | Trouble::Denied(error) => return Err(error),
            Trouble::Passing { words, retry_after, .. } => (words, retry_after.unwrap_or_default()),
            Trouble::Stalled(words) => (words, Duration::ZERO),
            Trouble::Odd { words, hint } => {
                self.odd += 1;
                if self.odd > MAX_ODD_ANSWERS {
                    let error = Error::new(ErrorKind::Io, format!("{words}, {} times", self.odd));
                    return Err(error.hint(hint));
                }
                (words, Duration::ZERO)
            }
        };
        self.tries += 1;
        // The wait is cut to the time that is left, so that the last request is made at the very end.
        let left = self.patience.saturating_sub(self.since.elapsed());
        if left.is_zero() || at_least > left {
            let seconds = self.patience.as_secs_f64();
            let cause = format!("{words}; tried {} times in {seconds:.0} s", self.tries);
            return Err(Error::new(ErrorKind::Io, cause).hint(
                "the store is unreachable or overloaded; the storage option retry_timeout says how long to retry",
            ));
        }
        Ok(jittered(self.tries).max(at_least).min(left))
    }
}

/// The random wait before a retry, uniform between zero and a bound that doubles with each try. This is "full
/// jitter" (Brooker, *Exponential Backoff and Jitter*, 2015).
fn jittered(tries: u32) -> Duration {
    let bound = INITIAL_BACKOFF.saturating_mul(1 << (tries - 1).min(16)).min(MAX_BACKOFF);
    let drawn = RandomState::new().hash_one(tries) as f64 / u64::MAX as f64;
    bound.mul_f64(drawn)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test has nothing to close")]

    use super::*;

    #[test]
    fn waits_grow_to_a_bound() {
        for tries in 1..100 {
            assert!(jittered(tries) <= MAX_BACKOFF);
        }
        assert!(jittered(1) <= INITIAL_BACKOFF);
        let mean: f64 = (0..1000).map(|_| jittered(20).as_secs_f64()).sum::<f64>() / 1000.0;
        assert!((6.5..8.5).contains(&mean), "{mean}");
    }

    #[test]
    fn an_outage_ends_by_time_and_says_so() {
        let mut outage = Outage::new(Duration::from_secs(3));
        let mut waits = 0;
        let error = loop {
            match outage.wait(Trouble::passing("the store answered 503")) {
                Ok(wait) => std::thread::sleep(wait),
                Err(error) => break error,
            }
            waits += 1;
        };
        assert!(waits >= 2, "{waits}");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("the store answered 503; tried"), "{error}");
    }

    #[test]
    fn a_store_is_left_alone_for_as_long_as_it_asks() {
        let asked = Duration::from_secs(3);
        let trouble = Trouble::Passing { words: String::new(), retry_after: Some(asked), throttled: true };
        assert!(Outage::new(Duration::from_secs(180)).wait(trouble).unwrap() >= asked);
    }

    #[test]
    fn only_the_code_of_an_error_is_repeated() {
        let text =
            "Error performing GET https://h/b?sig=s3cr3t: <Error><Code>SlowDown</Code><Key>s3cr3t</Key>";
        assert_eq!(element(text, "Code").as_deref(), Some("SlowDown"));
        assert_eq!(element("<Code>not a code</Code>", "Code"), None);
    }
}

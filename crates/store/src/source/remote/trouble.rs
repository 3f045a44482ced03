//! Failures of a request, and whether to retry: by time, not by count.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use forebay_base::{Error, ErrorKind};
use object_store::Error as StoreError;

use crate::source::wire::{Exchange, FailureKind, is_region};

/// The first wait before another request is at most this long. Each further wait is up to twice as long as
/// the one before, but never longer than the maximum.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// How often a wrong answer, such as the whole file for a range, is retried.
const MAX_ODD_ANSWERS: u32 = 6;

/// The least time that the last request gets.
const MIN_SILENCE: Duration = Duration::from_secs(1);

/// Codes of S3 under status 400 that mean the same as 403 or 408 elsewhere.
const EXPIRED: [&str; 3] = ["ExpiredToken", "TokenRefreshRequired", "RequestExpired"];
const TOO_LATE: [&str; 1] = ["RequestTimeout"];

/// Statuses of 5xx that are permanent, although most statuses of 5xx are temporary: the request is not
/// supported, or a proxy requires a login.
const PERMANENT: [u16; 6] = [501, 505, 506, 508, 510, 511];

/// Codes with which stores give the reason of a refusal, and the hint for each.
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

/// The length of the longest word in an error's body that a message repeats.
const MAX_WORD_LENGTH: usize = 64;

/// The failure of a request.
#[derive(Debug)]
pub(in crate::source) enum Trouble {
    /// A failure that a retry will not cure.
    Final(Error),
    /// The credentials were refused. Fresh ones may help, once.
    Denied(Error),
    /// A temporary failure: an outage, a busy store, a broken connection.
    Passing {
        words: String,
        /// The wait that the store asked for.
        retry_after: Option<Duration>,
        /// Whether the store asked for fewer requests.
        throttled: bool,
    },
    /// No byte came for too long.
    Stalled(String),
    /// A wrong answer from a store that is reachable, and a hint in case it persists.
    Odd { words: String, hint: &'static str },
}

impl Trouble {
    pub(super) fn odd(words: impl Into<String>) -> Self {
        Trouble::Odd { words: words.into(), hint: "check the endpoint: the server must support ranged reads" }
    }

    pub(super) fn passing(words: impl Into<String>) -> Self {
        Trouble::Passing { words: words.into(), retry_after: None, throttled: false }
    }

    /// Reads a failure of the `object_store` crate. Its own text is not repeated: it can hold keys and signed
    /// URLs.
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
            // The answer is a success with wrong content, or broke off, or there is no answer at all.
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

/// The error for a file that is not the catalogued version.
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

/// The hint for a wrong answer that persists.
fn advice(status: u16) -> &'static str {
    match status {
        300..400 => "the response is a redirect: check the region, the endpoint and the URL",
        405 | 501 => "the server does not support the request: check that the endpoint is the store's",
        407 | 511 => "a proxy or gateway asks for a login: check the network",
        _ => "check the URL, the endpoint and the storage options",
    }
}

/// The error for a key that is not a path in object_store, whether it was listed or requested.
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

/// A failure that this library reported from within the client, with its sentence.
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

/// The text of an element of an error's body, if it is one short word: those are defined by the store's
/// interface.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (word, _) = rest.split_once(&format!("</{name}>"))?;
    let is_word =
        word.len() <= MAX_WORD_LENGTH && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_word.then(|| word.to_string())
}

/// The innermost cause of a failure that did not come over HTTP.
fn deepest(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(inner) => deepest(inner),
        None => error.to_string(),
    }
}

/// How long an object could not be read, and how often it was tried.
#[derive(Debug)]
pub(super) struct Outage {
    /// The time of the last byte.
    since: Instant,
    patience: Duration,
    tries: u32,
    odd: u32,
    /// Whether new credentials were already found during this outage.
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

    /// How long the next request may be silent: `stall`, but for the last request no longer than the outage
    /// may last.
    pub(super) fn silence(&self, stall: Duration) -> Duration {
        stall.min(self.patience.saturating_sub(self.since.elapsed()).max(MIN_SILENCE))
    }

    /// How long to wait before the next try, or the final failure.
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
        // The last try is at the very end, so that a store that recovers until then is read.
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

/// A wait drawn evenly from zero to a bound that doubles: "full jitter" (Brooker, *Exponential Backoff and
/// Jitter*, 2015).
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

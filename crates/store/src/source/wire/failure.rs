//! Converts reqwest's errors into a [`Failure`]: a kind, and a clause that is safe to show to users.

use std::error::Error;
use std::fmt;
use std::io;

use object_store::client::{HttpError, HttpErrorKind};

use super::exchange::{Failure, FailureKind};

/// The beginning of the text of an error in looking up a host name, which has no error type to match.
const DNS: &str = "dns error";

impl Failure {
    /// Converts an error of a request to `host`.
    pub(super) fn from_reqwest(error: &reqwest::Error, host: &str) -> Self {
        // The text of the outermost error contains the URL, which may hold a secret. The innermost error is
        // that of the operating system or the TLS library, and says why the request failed.
        let chain: Vec<&(dyn Error + 'static)> =
            std::iter::successors(error.source(), |&error| error.source()).collect();
        let deepest = chain.last().map(|error| error.to_string());
        let kind = kind(error, &chain);
        let words = match (kind, deepest) {
            (FailureKind::Dns, _) => format!("{host} has no address"),
            (FailureKind::Timeout, _) => format!("connecting to {host} timed out"),
            (FailureKind::Tls, Some(deepest)) => format!("TLS with {host}: {deepest}"),
            (FailureKind::Refused, Some(deepest)) => format!("no connection to {host}: {deepest}"),
            (_, Some(deepest)) => deepest,
            (_, None) => "the request could not be sent".to_owned(),
        };
        Failure { kind, words }
    }

    /// The failure of a request to the machine's metadata service, the last place to look for credentials.
    pub(super) fn no_credentials() -> Self {
        Failure { kind: FailureKind::NoCredentials, words: "no credentials were found".to_owned() }
    }

    pub(super) fn listing(words: &str) -> Self {
        Failure { kind: FailureKind::Listing, words: words.to_owned() }
    }

    pub(super) fn other(words: impl Into<String>) -> Self {
        Failure { kind: FailureKind::Other, words: words.into() }
    }

    /// Wraps the failure in object_store's HTTP error.
    pub(super) fn into_http(self) -> HttpError {
        let kind = match self.kind {
            FailureKind::Dns | FailureKind::Refused | FailureKind::Tls => HttpErrorKind::Connect,
            FailureKind::Reset => HttpErrorKind::Interrupted,
            FailureKind::Timeout => HttpErrorKind::Timeout,
            FailureKind::Listing | FailureKind::NoCredentials | FailureKind::Other => HttpErrorKind::Unknown,
        };
        HttpError::new(kind, self)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Error for Failure {}

fn kind(error: &reqwest::Error, chain: &[&(dyn Error + 'static)]) -> FailureKind {
    if error.is_redirect() || error.is_builder() {
        return FailureKind::Other;
    }
    if chain.iter().any(|error| error.to_string().starts_with(DNS)) {
        return FailureKind::Dns;
    }
    if chain.iter().any(|error| is_tls(*error)) {
        return FailureKind::Tls;
    }
    if error.is_timeout() {
        return FailureKind::Timeout;
    }
    for error in chain {
        let Some(error) = error.downcast_ref::<io::Error>() else { continue };
        match error.kind() {
            io::ErrorKind::ConnectionRefused => return FailureKind::Refused,
            io::ErrorKind::TimedOut => return FailureKind::Timeout,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => return FailureKind::Reset,
            _ => {}
        }
    }
    match error.is_connect() {
        // The host name was resolved, but the host cannot be reached, for instance without a route to it.
        true => FailureKind::Refused,
        // These are connections that were closed in the middle of a message, and bodies that ended early.
        false if error.is_request() || error.is_body() || error.is_decode() => FailureKind::Reset,
        false => FailureKind::Other,
    }
}

fn is_tls(error: &(dyn Error + 'static)) -> bool {
    // `source()` of an I/O error skips the error that it wraps, and that error may be an I/O error as well.
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is::<rustls::Error>() || wrapped.is_some_and(|wrapped| is_tls(wrapped))
}

//! What the builders of all stores share.

use std::str::FromStr;
use std::time::Duration;

use object_store::{ClientOptions, RetryConfig};

use super::address::is_loopback;
use super::options::{Options, unknown};
use crate::error::{Error, Result};

/// No retries: the reader knows better when to try again, and for how long.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

/// No limit on a whole request: a large one may take its time, and one that stalls is noticed sooner elsewhere.
pub(super) fn client_options() -> ClientOptions {
    ClientOptions::new().with_timeout_disabled()
}

/// The options as the store's own keys, with the name under which each was given. `known` are its keys, for hints;
/// `apart` are those that it reads elsewhere.
pub(super) fn keys<'a, Key: FromStr>(
    options: &'a Options,
    store: &str,
    known: &[&str],
    apart: &[&str],
) -> Result<Vec<(&'a str, Key, &'a str)>> {
    let read = |(name, value): (&'a str, &'a str)| match name.parse() {
        Ok(key) => Ok((name, key, value)),
        Err(_) => Err(unknown(name, store, known.iter().copied().chain(CLIENT))),
    };
    options.theirs().filter(|(name, _)| !apart.contains(name)).map(read).collect()
}

/// Refuses an endpoint that is malformed, holds a secret, or is plain HTTP without leave. It is not repeated.
pub(super) fn check_endpoint(endpoint: &str, store: &str, allow_http: bool) -> Result<()> {
    let malformed = || {
        Error::invalid(format!("the endpoint for {store} is malformed"))
            .hint("write it as in https://store.example.com:9000")
    };
    let url: url::Url = endpoint.parse().map_err(|_| malformed())?;
    let host = url.host_str().ok_or_else(malformed)?;
    let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    if !matches!(url.scheme(), "http" | "https") || !bare {
        return Err(malformed());
    }
    if url.scheme() == "http" && !allow_http && !is_loopback(host) {
        let cause = format!("the endpoint for {store} is plain http://, which anyone in between can read");
        return Err(Error::invalid(cause).hint("use https://, or pass the storage option allow_http=true"));
    }
    Ok(())
}

/// The sentence for a builder that refuses what it was given. Its own can hold a URL or a key.
pub(super) fn refused(root: &str) -> Error {
    Error::invalid(format!(
        "the storage options for {root} cannot be used together, or one has a malformed value"
    ))
    .hint("check flags, durations, endpoints and keys")
}

/// The keys that every store reached by HTTP takes.
const CLIENT: [&str; 13] = [
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "read_timeout",
    "timeout",
    "user_agent",
    "default_content_type",
    "randomize_addresses",
];

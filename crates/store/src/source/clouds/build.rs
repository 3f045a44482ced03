//! Checks and settings that are shared by the functions that build the client of each kind of store.

use std::str::FromStr;
use std::time::Duration;

use forebay_base::{Error, Result};
use http::HeaderValue;
use object_store::{ClientConfigKey, ClientOptions, RetryConfig};

use super::address::is_loopback;
use super::options::{Options, count, flag, limit, malformed, time, unknown};

/// Switches off the client's own retries, because the reader retries failed requests itself.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

/// Makes the connection settings of a store from its storage options. The values are checked here, because
/// the client would accept malformed ones.
///
/// A request has no limit on its total time unless an option sets one: a large one may take long, and other
/// code abandons a response that stalls.
pub(super) fn client_options<'a>(
    given: impl IntoIterator<Item = (ClientConfigKey, &'a str)>,
) -> Result<ClientOptions> {
    given.into_iter().try_fold(ClientOptions::new().with_timeout_disabled(), |options, (key, value)| {
        check(key, value)?;
        Ok(options.with_config(key, value))
    })
}

/// Checks that `value` has the form that the connection setting `key` needs.
fn check(key: ClientConfigKey, value: &str) -> Result<()> {
    use ClientConfigKey as Key;
    let name = key.as_ref();
    match key {
        Key::AllowHttp
        | Key::AllowInvalidCertificates
        | Key::NoSystemCertificates
        | Key::Http1Only
        | Key::Http2Only
        | Key::Http2KeepAliveWhileIdle
        | Key::RandomizeAddresses => flag(name, value).map(|_| ()),
        Key::ConnectTimeout | Key::ReadTimeout | Key::Timeout => limit(name, value).map(|_| ()),
        Key::PoolIdleTimeout | Key::Http2KeepAliveInterval | Key::Http2KeepAliveTimeout => {
            time(name, value).map(|_| ())
        }
        Key::PoolMaxIdlePerHost | Key::Http2MaxFrameSize => count(name, value).map(|_| ()),
        Key::UserAgent if HeaderValue::from_str(value).is_err() => {
            Err(malformed(name, "the value of a header").hint("write it in printable ASCII"))
        }
        _ => Ok(()),
    }
}

/// Finds the setting of a store (`Key`) that each storage option stands for. Each entry of the result has the
/// name that the user wrote, the setting, and the value. `known` lists the names that messages suggest.
/// Options in `apart` are left out, because the code for the store reads them itself.
///
/// Fails with `Invalid` for an unknown name and for an empty value. An empty value usually comes from a
/// variable that was not set, and must not be used to sign requests.
pub(super) fn keys<'a, Key: FromStr>(
    options: &'a Options,
    store: &str,
    known: &[&str],
    apart: &[&str],
) -> Result<Vec<(&'a str, Key, &'a str)>> {
    let read = |(name, value): (&'a str, &'a str)| match name.parse() {
        Ok(_) if value.trim().is_empty() => Err(Error::invalid(format!("storage option {name:?} is empty"))
            .hint("give it its value, or leave it out")),
        Ok(key) => Ok((name, key, value)),
        Err(_) => Err(unknown(name, store, known.iter().copied().chain(CLIENT))),
    };
    options.theirs().filter(|(name, _)| !apart.contains(name)).map(read).collect()
}

/// Refuses an endpoint that is malformed, contains a secret, or is plain HTTP to another machine although
/// `allow_http` is `false`. The message does not repeat the endpoint.
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

/// The error if a client cannot be built from its settings. It replaces the builder's own message, which can
/// contain a URL or a secret key.
pub(super) fn refused(root: &str) -> Error {
    Error::invalid(format!(
        "the storage options for {root} cannot be used together, or one has a malformed value"
    ))
    .hint("check flags, durations, endpoints and keys")
}

/// The storage options of the connection, which every store that is reached by HTTP has.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_of_a_connection_is_checked_and_its_value_is_not_repeated() {
        let known =
            CLIENT.into_iter().chain(["disable_system_certificates", "http1_only", "http2_max_frame_size"]);
        for name in known {
            let key: ClientConfigKey = name.parse().unwrap();
            let given = client_options([(key, "hunter2\u{7f}")]).map(|_| ());
            if matches!(
                name,
                "proxy_url" | "proxy_ca_certificate" | "proxy_excludes" | "default_content_type"
            ) {
                assert!(given.is_ok(), "{name}");
                continue;
            }
            let error = given.unwrap_err().to_string();
            assert!(error.starts_with(&format!("storage option {name:?} is not ")), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        for (name, value, is_right) in [
            ("timeout", "30s", true),
            ("timeout", "30", true),
            ("timeout", "0s", false),
            ("connect_timeout", "-1", false),
            ("pool_idle_timeout", "0", true),
            ("pool_max_idle_per_host", "4", true),
            ("allow_http", "Yes", true),
        ] {
            let key: ClientConfigKey = name.parse().unwrap();
            assert_eq!(client_options([(key, value)]).is_ok(), is_right, "{name}={value}");
        }
    }
}

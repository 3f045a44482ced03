//! Reads the connection settings from object_store's client options, and builds a reqwest client with them.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use object_store::ClientConfigKey as Key;
use object_store::ClientOptions;
use reqwest::redirect::{Attempt, Policy};
use reqwest::{NoProxy, Proxy};

use super::tls;
use crate::source::clouds::{duration, is_loopback, metadata_service, truth};

/// How long making a connection may take. A handshake across the world takes less than a second; one lost
/// packet costs another second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may be silent before TCP probes it. It is less than the 350 s after which common
/// load balancers and NAT gateways forget a connection.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long an idle connection is kept for reuse. This is longer than the 20 s after which S3 closes its end,
/// because a failed try on a closed connection costs less than a handshake in place of an open one.
const IDLE: Duration = Duration::from_secs(90);

/// The most redirects that one request may take.
const REDIRECTS: usize = 5;

const USER_AGENT: &str = concat!("forebay/", env!("CARGO_PKG_VERSION"));

/// The redirects that a client follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::source) enum Redirects {
    /// Only redirects to the same scheme, host and port, because any other server is not trusted.
    #[default]
    SameServer,
    /// Also redirects to other `https://` servers, from which hubs serve their files. The metadata services
    /// of clouds are excluded, and credentials are not sent along.
    AnyHttps,
}

/// All settings of a client. Requests with equal settings share a client, and so its connections.
#[derive(Clone, PartialEq)]
pub(super) struct Settings {
    pub(super) allow_http: bool,
    redirects: Redirects,
    anyone: bool,
    connect_timeout: Option<Duration>,
    timeout: Option<Duration>,
    read_timeout: Option<Duration>,
    idle_timeout: Duration,
    idle_per_host: Option<usize>,
    user_agent: HeaderValue,
    headers: HeaderMap,
    proxy: Option<String>,
    proxy_certificate: Option<String>,
    proxy_excludes: Option<String>,
}

impl Settings {
    /// Reads the settings from `options`. The error is the key whose value is malformed.
    pub(super) fn read(options: &ClientOptions, redirects: Redirects) -> Result<Self, Key> {
        let text = |key: Key| options.get_config_value(&key);
        let flag = |key: Key| text(key).map_or(Ok(false), |text| truth(&text).ok_or(key));
        let time = |key: Key| text(key).map(|text| duration(&text).ok_or(key)).transpose();
        let count = |key: Key| text(key).map(|text| text.parse().map_err(|_| key)).transpose();
        let agent = text(Key::UserAgent).unwrap_or_else(|| USER_AGENT.to_owned());
        Ok(Settings {
            allow_http: flag(Key::AllowHttp)?,
            redirects,
            anyone: flag(Key::AllowInvalidCertificates)?,
            connect_timeout: time(Key::ConnectTimeout)?,
            timeout: time(Key::Timeout)?,
            read_timeout: time(Key::ReadTimeout)?,
            idle_timeout: time(Key::PoolIdleTimeout)?.unwrap_or(IDLE),
            idle_per_host: count(Key::PoolMaxIdlePerHost)?,
            user_agent: agent.parse().map_err(|_| Key::UserAgent)?,
            headers: options.get_default_headers().cloned().unwrap_or_default(),
            proxy: text(Key::ProxyUrl),
            proxy_certificate: text(Key::ProxyCaCertificate),
            proxy_excludes: text(Key::ProxyExcludes),
        })
    }

    /// Builds a client with these settings. The error is the key whose value cannot be used, or `None` if the
    /// cause is not known.
    pub(super) fn client(&self) -> Result<reqwest::Client, Option<Key>> {
        let tls = tls::config(self.proxy_certificate.as_deref(), self.anyone)
            .map_err(|_| Some(Key::ProxyCaCertificate))?;
        let redirects = self.redirects;
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .tcp_nodelay(true)
            .tcp_keepalive(KEEPALIVE)
            .connect_timeout(self.connect_timeout.unwrap_or(CONNECT_TIMEOUT))
            .pool_idle_timeout(self.idle_timeout)
            .pool_max_idle_per_host(self.idle_per_host.unwrap_or(usize::MAX))
            .user_agent(self.user_agent.clone())
            .default_headers(self.headers.clone())
            // A `Referer` header would disclose the query of a signed URL to the server of a redirect.
            .referer(false)
            .redirect(Policy::custom(move |attempt| follow(redirects, attempt)));
        if let Some(timeout) = self.timeout {
            builder = builder.timeout(timeout);
        }
        if let Some(timeout) = self.read_timeout {
            builder = builder.read_timeout(timeout);
        }
        if let Some(url) = &self.proxy {
            let proxy = Proxy::all(url).map_err(|_| Some(Key::ProxyUrl))?;
            let excludes = self.proxy_excludes.as_deref().and_then(NoProxy::from_string);
            builder = builder.proxy(proxy.no_proxy(excludes));
        }
        builder.build().map_err(|_| None)
    }
}

fn follow(redirects: Redirects, attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let next = attempt.url();
    let Some(from) = attempt.previous().last() else { return attempt.stop() };
    let host = next.host_str().unwrap_or_default().to_owned();
    let same = next.scheme() == from.scheme()
        && next.host_str() == from.host_str()
        && next.port_or_known_default() == from.port_or_known_default();
    let allowed = match redirects {
        Redirects::SameServer => same,
        Redirects::AnyHttps => {
            let local = is_loopback(&host) && from.host_str().is_some_and(is_loopback);
            (next.scheme() == "https" || local || same) && metadata_service(&host).is_none()
        }
    };
    if !allowed {
        let to = format!("{}://{host}", next.scheme());
        return attempt.error(format!("the server redirects to {to}, which is not followed"));
    }
    if attempt.previous().len() > REDIRECTS {
        return attempt.error(format!("the server redirects more than {REDIRECTS} times"));
    }
    attempt.follow()
}

//! The HTTP connector (wire) that sends the requests of all stores that are reached by HTTP.
//!
//! It uses HTTP/1.1, because separate connections for reads give a higher throughput; rustls with the
//! machine's certificates; and by default follows redirects only within a server. It has no time limits and
//! no retries, which are left to the callers, because these know the purpose of a request. The outcome of
//! each request is reported to [`EXCHANGE`].
#![cfg_attr(
    not(feature = "http"),
    allow(dead_code, reason = "other redirects, queries and logins are of http://")
)]

mod exchange;
mod failure;
mod listing;
mod settings;
mod tls;

#[cfg(test)]
pub(super) mod fake;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};

pub(super) use exchange::{EXCHANGE, Exchange, Failure, FailureKind, is_region};
pub(super) use settings::Redirects;

use super::clouds::{Secret, is_loopback, metadata_service};
use listing::Listing;
use settings::Settings;

/// The time limit for a request to a cloud's metadata service. It is short because such a service, where one
/// exists, is close to the machine.
const LAST_RESORT: Duration = Duration::from_secs(1);

/// Makes the HTTP clients of stores. Clones share connections and the count of requests.
#[derive(Clone, Default)]
pub(super) struct Wire {
    shared: Arc<Shared>,
    redirects: Redirects,
    query: Option<Secret>,
    login: Option<(Secret, Option<Secret>)>,
    head_by_get: bool,
}

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    /// Whether a metadata service has answered before, which shows that this machine has one.
    served: AtomicBool,
    /// The clients made so far, by their settings. A store that is built again with other credentials gets
    /// the same client, and so keeps its connections.
    clients: Mutex<Vec<(Settings, reqwest::Client)>>,
}

impl Wire {
    pub(super) fn new() -> Self {
        Wire::default()
    }

    /// The number of requests that all clones have sent. A request and the redirects after it count as one.
    pub(super) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Returns a wire that adds a query to the URL of every request.
    pub(super) fn with_query(&self, query: Secret) -> Self {
        Wire { query: Some(query), ..self.clone() }
    }

    /// Returns a wire that sends a user and password with every request.
    pub(super) fn with_login(&self, user: Secret, password: Option<Secret>) -> Self {
        Wire { login: Some((user, password)), ..self.clone() }
    }

    /// Returns a wire that follows these redirects.
    pub(super) fn with_redirects(&self, redirects: Redirects) -> Self {
        Wire { redirects, ..self.clone() }
    }

    /// Returns a wire that sends each `HEAD` as a `GET` of the first byte, for URLs that are signed for `GET`
    /// only.
    pub(super) fn with_head_by_get(&self) -> Self {
        Wire { head_by_get: true, ..self.clone() }
    }

    /// Makes an HTTP client with these options, or reuses one that has the same settings.
    pub(super) fn client(&self, options: &ClientOptions) -> forebay_base::Result<HttpClient> {
        self.line(options).map(HttpClient::new)
    }

    fn line(&self, options: &ClientOptions) -> forebay_base::Result<Line> {
        let malformed = |key: ClientConfigKey| {
            let what = match key {
                ClientConfigKey::ProxyUrl => "the URL of a proxy, such as http://proxy.example.com:3128",
                ClientConfigKey::ProxyCaCertificate => "a certificate in PEM",
                _ => "a value that it can have",
            };
            super::clouds::malformed(key.as_ref(), what)
        };
        let settings = Settings::read(options, self.redirects).map_err(malformed)?;
        let mut clients = self.shared.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match clients.iter().find(|(known, _)| *known == settings) {
            Some((_, client)) => client.clone(),
            None => {
                let client = settings.client().map_err(|key| match key {
                    Some(key) => malformed(key),
                    None => forebay_base::Error::new(
                        forebay_base::ErrorKind::Internal,
                        "no HTTP client could be made",
                    ),
                })?;
                clients.push((settings.clone(), client.clone()));
                client
            }
        };
        Ok(Line { client, allow_http: settings.allow_http, wire: self.clone() })
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wire({:?}, {} requests)", self.redirects, self.requests())
    }
}

impl HttpConnector for Wire {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        self.client(options)
            .map_err(|error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) })
    }
}

/// An HTTP client, and the wire whose query and login it adds to requests.
struct Line {
    client: reqwest::Client,
    allow_http: bool,
    wire: Wire,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.wire)
    }
}

#[async_trait]
impl HttpService for Line {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let head_by_get = self.wire.head_by_get && request.method() == Method::HEAD;
        if head_by_get {
            *request.method_mut() = Method::GET;
            request.headers_mut().insert(RANGE, HeaderValue::from_static("bytes=0-0"));
        }
        let answer = self.exchange(request).await?;
        if head_by_get { Ok(as_head(answer)) } else { Ok(answer) }
    }
}

impl Line {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().authority().map(|host| host.host().to_owned()).unwrap_or_default();
        let failed = |failure: Failure| {
            exchange::failed(failure.clone());
            failure.into_http()
        };
        let listing = Listing::parse(request.uri()).filter(|_| request.method() == Method::GET);
        let mut request = self.prepare(request, &host).map_err(failed)?;
        self.wire.shared.requests.fetch_add(1, Ordering::Relaxed);
        let served = &self.wire.shared.served;
        // Most machines have no metadata service, so a failed request to one means that there are no
        // credentials. If the service has answered before (`served`), its failure is reported like that of
        // any other server.
        let is_last_resort = metadata_service(&host).is_some() && !served.load(Ordering::Relaxed);
        if is_last_resort {
            *request.timeout_mut() = Some(LAST_RESORT);
        }
        let answer = self.client.execute(request).await.map_err(|error| match is_last_resort {
            true => failed(Failure::no_credentials()),
            false => failed(Failure::from_reqwest(&error, &host)),
        })?;
        exchange::answered(answer.status().as_u16(), answer.headers());
        if is_last_resort {
            match answer.status().is_success() {
                true => served.store(true, Ordering::Relaxed),
                false => exchange::failed(Failure::no_credentials()),
            }
        }
        let (mut parts, body) = http::Response::from(answer).into_parts();
        with_length(&mut parts);
        let listing = listing.filter(|_| parts.status.is_success());
        let body = body.map_err(move |error: reqwest::Error| {
            let failure = Failure::from_reqwest(&error, &host);
            exchange::broke_off(failure.clone());
            failure.into_http()
        });
        let Some(listing) = listing else {
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
        };
        // A page of a listing is read as a whole to check it; object_store does the same to parse it.
        let page = body.collect().await?.to_bytes();
        listing.check(&page).map_err(|words| failed(Failure::listing(words)))?;
        Ok(HttpResponse::from_parts(parts, page.into()))
    }

    fn prepare(&self, request: HttpRequest, host: &str) -> Result<reqwest::Request, Failure> {
        let (parts, body) = request.into_parts();
        let mut url: reqwest::Url =
            parts.uri.to_string().parse().map_err(|_| Failure::other("the URL is malformed"))?;
        if url.scheme() == "http" && !self.allow_http && !is_loopback(host) {
            let words = "plain http:// is not allowed; pass the storage option allow_http=true";
            return Err(Failure::other(words));
        }
        if let Some(query) = &self.wire.query {
            let both = match url.query() {
                Some(own) if !own.is_empty() => format!("{own}&{}", query.expose()),
                _ => query.expose().to_owned(),
            };
            url.set_query(Some(&both));
        }
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = match body.as_bytes() {
            Some(bytes) if bytes.is_empty() => None,
            Some(bytes) => Some(bytes.clone().into()),
            None => Some(reqwest::Body::wrap(body)),
        };
        let Some((user, password)) = &self.wire.login else { return Ok(request) };
        reqwest::RequestBuilder::from_parts(self.client.clone(), request)
            .basic_auth(user.expose(), password.as_ref().map(Secret::expose))
            .build()
            .map_err(|_| Failure::other("the user information is malformed"))
    }
}

/// Adds a `Content-Length` to a response that has a range of a file but no length, because object_store needs
/// one. The length comes from `Content-Range`.
fn with_length(parts: &mut http::response::Parts) {
    if parts.status != StatusCode::PARTIAL_CONTENT || parts.headers.contains_key(CONTENT_LENGTH) {
        return;
    }
    let range = content_range(&parts.headers).map(|(range, _)| range);
    if let Some(range) = range.filter(|range| !range.is_empty()) {
        parts.headers.insert(CONTENT_LENGTH, (range.end - range.start).into());
    }
}

/// Parses `Content-Range`: the byte range in the response, and the size of the whole file, which is a number
/// or `*`.
pub(in crate::source) fn content_range(headers: &HeaderMap) -> Option<(Range<u64>, &str)> {
    let (range, size) = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?.split_once('/')?;
    let (start, last) = range.split_once('-')?;
    Some((start.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?, size))
}

/// Turns the response to a `GET` of the first byte into the response to a `HEAD`, with the size of the whole
/// file from `Content-Range` as its length.
fn as_head(answer: HttpResponse) -> HttpResponse {
    let (mut parts, _) = answer.into_parts();
    let range = parts.headers.remove(CONTENT_RANGE);
    let size = range.as_ref().and_then(|range| range.to_str().ok()).and_then(|range| range.rsplit_once('/'));
    let size = size.and_then(|(_, size)| size.parse::<u64>().ok());
    // An empty file has no first byte, so the server answers that the range cannot be satisfied.
    let whole = parts.status == StatusCode::PARTIAL_CONTENT
        || (parts.status == StatusCode::RANGE_NOT_SATISFIABLE && size == Some(0));
    if let (true, Some(size)) = (whole, size) {
        parts.status = StatusCode::OK;
        parts.headers.insert(CONTENT_LENGTH, size.into());
    }
    HttpResponse::from_parts(parts, bytes::Bytes::new().into())
}

#[cfg(test)]
mod tests;

//! The requests to the HTTP interface of the Hugging Face hub: look up a revision, list files, read a file.

use std::collections::HashSet;

use bytes::Bytes;
use forebay_base::{Error, ErrorKind};
use http::header::{AUTHORIZATION, LINK, RANGE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use object_store::client::{HttpClient, HttpRequestBody, HttpResponse};
use object_store::{Error as StoreError, Result as StoreResult};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use super::super::secret::Secret;

/// The branch, percent-encoded, on which the hub keeps its own conversion of a data set to Parquet.
const CONVERTED: &str = "refs%2Fconvert%2Fparquet";

/// The name by which errors of object_store refer to the hub.
const STORE: &str = "HuggingFace";

/// The most pages that are read of one listing. A listing with more pages is assumed to be endless.
const MAX_PAGES: usize = 100_000;

/// One data set on the hub, at one revision.
pub(super) struct Hub {
    client: HttpClient,
    endpoint: String,
    token: Option<Secret>,
    /// The name of the data set, as `owner/name`.
    name: String,
    revision: String,
    commit: OnceCell<String>,
}

/// A file or folder, as the hub lists it.
#[derive(Debug, Deserialize)]
pub(super) struct HubEntry {
    r#type: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) size: u64,
    oid: String,
    lfs: Option<Lfs>,
}

#[derive(Debug, Deserialize)]
struct Lfs {
    oid: String,
}

impl HubEntry {
    pub(super) fn is_file(&self) -> bool {
        self.r#type == "file"
    }

    /// A hash that identifies the content of a file. For a large file, which Git LFS stores, it is the hash
    /// of the file itself and not of the pointer to it.
    pub(super) fn hash(&self) -> &str {
        self.lfs.as_ref().map_or(&self.oid, |lfs| &lfs.oid)
    }
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

impl Hub {
    pub(super) fn new(
        client: HttpClient,
        endpoint: &str,
        token: Option<Secret>,
        name: &str,
        revision: &str,
    ) -> Self {
        Hub {
            client,
            endpoint: endpoint.to_owned(),
            token,
            name: name.to_owned(),
            revision: revision.to_owned(),
            commit: OnceCell::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The commit that the revision stands for. It is looked up once and then stays the same.
    pub(super) async fn commit(&self) -> StoreResult<&str> {
        let commit = self.commit.get_or_try_init(|| async {
            let Hub { endpoint, name, .. } = self;
            let revision = encoded(&self.revision, false);
            let url = format!("{endpoint}/api/datasets/{name}/revision/{revision}");
            let answer = self.ask(Method::GET, &url, HeaderMap::new()).await?;
            let what = || format!("there is no data set {name:?} with the revision {:?}", self.revision);
            let revision: Revision = json(self.checked(answer, what)?).await?;
            match revision.sha.chars().all(|c| c.is_ascii_hexdigit()) && !revision.sha.is_empty() {
                true => Ok(revision.sha),
                false => Err(generic(malformed())),
            }
        });
        commit.await.map(String::as_str)
    }

    /// Reads one page of a listing. Returns its files and folders, and the next page if there is one. `seen`
    /// has the URLs of the pages so far, which detects a listing in a loop.
    pub(super) async fn page(
        &self,
        page: &ListingPage,
        recursive: bool,
        seen: &mut HashSet<String>,
    ) -> StoreResult<(Vec<HubEntry>, Option<ListingPage>)> {
        let url = match page {
            ListingPage::First(path) => {
                let Hub { endpoint, name, .. } = self;
                let commit = self.commit().await?;
                let path = encoded(path, true);
                let slash = if path.is_empty() { "" } else { "/" };
                format!("{endpoint}/api/datasets/{name}/tree/{commit}{slash}{path}?recursive={recursive}")
            }
            ListingPage::Next { url, .. } => url.clone(),
        };
        let answer = self.ask(Method::GET, &url, HeaderMap::new()).await?;
        match (answer.status(), page) {
            // The path does not exist or is a file, so the listing is empty.
            (StatusCode::NOT_FOUND, ListingPage::First(_)) => return Ok((Vec::new(), None)),
            (StatusCode::NOT_FOUND, ListingPage::Next { .. }) => return Err(generic(half())),
            _ => {}
        }
        let number = page.number() + 1;
        let next = match next_link(answer.headers()) {
            // The token is sent with the request for the next page, so its URL must be one of the hub's.
            Some(url) if !url.starts_with(&format!("{}/", self.endpoint)) || number >= MAX_PAGES => {
                return Err(generic(malformed()));
            }
            Some(url) if !seen.insert(url.clone()) => return Err(generic(half())),
            Some(url) => Some(ListingPage::Next { url, number }),
            None => None,
        };
        Ok((json(self.checked(answer, String::new)?).await?, next))
    }

    /// The file or folder at exactly this path, if there is one.
    pub(super) async fn entry(&self, path: &str) -> StoreResult<Option<HubEntry>> {
        let Hub { endpoint, name, .. } = self;
        let commit = self.commit().await?;
        let url = format!("{endpoint}/api/datasets/{name}/paths-info/{commit}");
        let body = serde_json::json!({ "paths": [path] }).to_string();
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let answer = self.send(Method::POST, &url, headers, Bytes::from(body)).await?;
        let entries: Vec<HubEntry> = json(self.checked(answer, String::new)?).await?;
        Ok(entries.into_iter().find(|entry| entry.path == path))
    }

    /// Requests the bytes of a file. `range` is the value of the `Range` header; `None` for the whole file.
    pub(super) async fn read(&self, path: &str, range: Option<&str>) -> StoreResult<HttpResponse> {
        let Hub { endpoint, name, .. } = self;
        let commit = self.commit().await?;
        let url = format!("{endpoint}/datasets/{name}/resolve/{commit}/{}", encoded(path, true));
        let mut headers = HeaderMap::new();
        if let Some(range) = range {
            headers.insert(RANGE, range.parse().map_err(generic)?);
        }
        let answer = self.ask(Method::GET, &url, headers).await?;
        self.checked(answer, || format!("there is no file {path:?} in the data set {name:?}"))
    }

    /// Whether the hub has a conversion of this data set to Parquet, on a branch of its own.
    pub(super) async fn is_converted(&self) -> bool {
        let url = format!("{}/api/datasets/{}/revision/{CONVERTED}", self.endpoint, self.name);
        self.ask(Method::GET, &url, HeaderMap::new()).await.is_ok_and(|answer| answer.status().is_success())
    }

    async fn ask(&self, method: Method, url: &str, headers: HeaderMap) -> StoreResult<HttpResponse> {
        self.send(method, url, headers, Bytes::new()).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> StoreResult<HttpResponse> {
        let body = if body.is_empty() { HttpRequestBody::empty() } else { body.into() };
        let mut request =
            Request::builder().method(method).uri(url).body(body).map_err(|_| generic(malformed()))?;
        *request.headers_mut() = headers;
        if let Some(token) = &self.token {
            let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
            let mut value = value
                .map_err(|_| generic(Error::invalid("the Hugging Face token contains invalid characters")))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        self.client.execute(request).await.map_err(generic)
    }

    /// Returns the answer if its status is a success, and otherwise an error. `missing` makes the message for
    /// a 404.
    fn checked(&self, answer: HttpResponse, missing: impl Fn() -> String) -> StoreResult<HttpResponse> {
        let path = format!("datasets/{}", self.name);
        let status = answer.status();
        // The hub answers 401 for private data sets and for names that do not exist, to keep the former
        // secret.
        let login = match &self.token {
            Some(_) => "the token may not read it, or the data set's conditions are not accepted on its page",
            None => "if it is private or gated, set HF_TOKEN or pass the storage option token",
        };
        let refused = |cause: String| Box::new(Error::new(ErrorKind::Denied, cause).hint(login));
        match status {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND => {
                let cause = match missing() {
                    cause if cause.is_empty() => "the hub does not know it".to_owned(),
                    cause => cause,
                };
                let source = Box::new(Error::new(ErrorKind::NotFound, cause).hint(login));
                Err(StoreError::NotFound { path, source })
            }
            StatusCode::UNAUTHORIZED => Err(StoreError::Unauthenticated {
                path,
                source: refused(format!("the hub does not show the data set {:?}, if it exists", self.name)),
            }),
            StatusCode::FORBIDDEN => Err(StoreError::PermissionDenied {
                path,
                source: refused(format!("the hub refuses to hand out the data set {:?}", self.name)),
            }),
            // The caller decides whether to retry, and needs only the status for that.
            status => {
                let source = format!("the hub answered {}", status.as_u16()).into();
                Err(StoreError::Generic { store: STORE, source })
            }
        }
    }
}

/// A page of a listing of files, before it is requested.
#[derive(Clone)]
pub(super) enum ListingPage {
    /// The first page, for the files below this path.
    First(String),
    /// A later page, at the URL that the page before it gave.
    Next { url: String, number: usize },
}

impl ListingPage {
    fn number(&self) -> usize {
        match self {
            ListingPage::First(_) => 0,
            ListingPage::Next { number, .. } => *number,
        }
    }
}

async fn json<T: DeserializeOwned>(answer: HttpResponse) -> StoreResult<T> {
    let body = answer.into_body().bytes().await.map_err(generic)?;
    serde_json::from_slice(&body).map_err(|_| generic(malformed()))
}

/// The URL of the next page, from a header `Link: <URL>; rel="next"`.
fn next_link(headers: &HeaderMap) -> Option<String> {
    let links = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    links.flat_map(|value| value.split(',')).find_map(|link| {
        let (url, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        parameters.contains("rel=\"next\"").then(|| url.to_owned())
    })
}

/// The error for a listing whose link to the next page is broken or leads back.
fn half() -> Error {
    Error::new(ErrorKind::Io, "the hub's listing continues at a page that does not exist or was already read")
}

fn malformed() -> Error {
    Error::new(ErrorKind::Io, "the hub's answer is malformed")
}

pub(super) fn generic(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Generic { store: STORE, source: Box::new(error) }
}

/// Percent-encodes a path. Its slashes are not encoded if `slashes` is `true`.
fn encoded(path: &str, slashes: bool) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' if slashes => text.push('/'),
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_encoded_by_name() {
        assert_eq!(encoded("a b/ü?#%.parquet", true), "a%20b/%C3%BC%3F%23%25.parquet");
        assert_eq!(encoded("refs/convert/parquet", false), CONVERTED);
    }

    #[test]
    fn the_next_page_is_in_the_link_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(next_link(&headers), None);
        let links = "<https://h/a?cursor=x>; rel=\"prev\", <https://h/a?cursor=y>; rel=\"next\"";
        headers.insert(LINK, HeaderValue::from_static(links));
        assert_eq!(next_link(&headers).as_deref(), Some("https://h/a?cursor=y"));
    }
}

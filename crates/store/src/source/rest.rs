//! Looks up tables in an Iceberg REST catalogue, which gives the location of a table's metadata file, and
//! storage options for reading it.
//!
//! A location is `iceberg+rest://host/path/namespace.table`. A lookup takes a login (if needed), a request
//! for the catalogue's settings and a request for the table. Credentials from the catalogue take precedence
//! over those of the environment, and credentials in the user's storage options over both.

use std::collections::BTreeMap;

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Place, Result};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpRequestBody};
use serde::Deserialize;

use super::clouds::{Secret, is_loopback};
use super::shown::shown;
use super::table_settings::store_options;
use super::wire::Wire;

/// The scheme of the location of a table in a REST catalogue.
pub(super) const SCHEME: &str = "iceberg+rest://";

/// The separator of the parts of a namespace in a request's URL.
const BETWEEN: &str = "%1F";

/// The storage options for the catalogue. All other options are for the store that holds the table.
const TOKEN: &str = "catalog_token";
const CREDENTIAL: &str = "catalog_credential";
const SCOPE: &str = "catalog_scope";
const AUTH_URI: &str = "catalog_oauth2_server_uri";
const WAREHOUSE: &str = "catalog_warehouse";
const ALLOW_HTTP: &str = "catalog_allow_http";

/// The OAuth scope of a login, if the storage options name none.
const DEFAULT_SCOPE: &str = "catalog";

/// Replaces the location of a table in a catalogue by the location of its metadata file, and adds the storage
/// options that the catalogue gives. Other locations are returned unchanged.
///
/// # Errors
/// `Invalid` for a malformed location, and for a table of a catalogue together with other locations; `Denied`
/// or `NotFound` if the catalogue answers so; `Io` if the catalogue cannot be reached.
pub(super) async fn resolved(
    locations: &[String],
    options: &BTreeMap<String, String>,
) -> Result<(Vec<String>, BTreeMap<String, String>)> {
    let Some(location) = locations.iter().find(|location| location.starts_with(SCHEME)) else {
        return Ok((locations.to_vec(), options.clone()));
    };
    let place = || Place::file(shown(location));
    if locations.len() > 1 {
        return Err(Error::invalid("a table of a catalogue is opened by itself")
            .hint("to mix several, open each as a data set")
            .at(place()));
    }
    let loaded = async { Catalogue::new(location, options)?.load().await };
    let loaded = loaded.await.map_err(|error: Error| error.at(place()))?;
    let mut all = store_options(&loaded.metadata_location, &loaded.all_config());
    let of_store = |(name, _): &(&String, &String)| !name.starts_with("catalog_");
    all.extend(options.iter().filter(of_store).map(|(name, value)| (name.clone(), value.clone())));
    Ok((vec![loaded.metadata_location], all))
}

/// A request for one table of a REST catalogue.
struct Catalogue<'a> {
    client: HttpClient,
    /// The URL of the catalogue without a `/` at the end.
    base: String,
    namespace: Vec<&'a str>,
    table: &'a str,
    options: &'a BTreeMap<String, String>,
}

/// The settings that a catalogue gives to its clients.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    defaults: BTreeMap<String, String>,
    overrides: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Login {
    access_token: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Loaded {
    metadata_location: String,
    #[serde(default)]
    config: BTreeMap<String, String>,
    #[serde(default)]
    storage_credentials: Vec<Vended>,
}

/// Settings with credentials from the catalogue, for the files below the location `prefix`.
#[derive(Deserialize)]
struct Vended {
    prefix: String,
    config: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Refusal {
    error: Message,
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

impl Loaded {
    /// All settings for reading the table's files. If several prefixes with credentials contain the metadata
    /// file, the credentials of the longest prefix are used.
    fn all_config(&self) -> BTreeMap<String, String> {
        let of = self.storage_credentials.iter().filter(|of| self.metadata_location.starts_with(&of.prefix));
        let vended = of.max_by_key(|of| of.prefix.len()).map(|of| of.config.clone());
        let mut all = self.config.clone();
        all.extend(vended.unwrap_or_default());
        all
    }
}

impl<'a> Catalogue<'a> {
    fn new(location: &'a str, options: &'a BTreeMap<String, String>) -> Result<Self> {
        let malformed = || {
            Error::invalid("the location of a table in a catalogue is malformed")
                .hint("write it as iceberg+rest://host/path/namespace.table")
        };
        let rest = location.strip_prefix(SCHEME).ok_or_else(malformed)?;
        let (server, name) = rest.rsplit_once('/').ok_or_else(malformed)?;
        let host = server.split('/').next().unwrap_or_default();
        let parts: Vec<&str> = name.split('.').collect();
        let (table, namespace) = parts.split_last().ok_or_else(malformed)?;
        if host.is_empty()
            || host.contains('@')
            || namespace.is_empty()
            || parts.iter().any(|part| part.is_empty())
        {
            return Err(malformed());
        }
        let is_plain = is_loopback(host) || options.get(ALLOW_HTTP).is_some_and(|allow| allow == "true");
        let scheme = if is_plain { "http" } else { "https" };
        Ok(Catalogue {
            client: Wire::new().client(&ClientOptions::new())?,
            base: format!("{scheme}://{}", server.trim_end_matches('/')),
            namespace: namespace.to_vec(),
            table,
            options,
        })
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    async fn load(&self) -> Result<Loaded> {
        let token = self.token().await?;
        let warehouse = self.option(WAREHOUSE).map(|name| format!("?warehouse={}", encoded(name)));
        let settings = format!("{}/v1/config{}", self.base, warehouse.unwrap_or_default());
        let Config { defaults, overrides } = self.get(&settings, token.as_ref(), "its settings").await?;
        let prefix = overrides.get("prefix").or_else(|| defaults.get("prefix"));
        let prefix = prefix.map(|prefix| format!("{}/", prefix.trim_matches('/'))).unwrap_or_default();
        let namespace: Vec<String> = self.namespace.iter().map(|part| encoded(part)).collect();
        let (namespace, table) = (namespace.join(BETWEEN), encoded(self.table));
        let url = format!("{}/v1/{prefix}namespaces/{namespace}/tables/{table}", self.base);
        self.get(&url, token.as_ref(), "the table").await
    }

    /// The token for all requests: from the storage options, or else from a login; `None` without either.
    async fn token(&self) -> Result<Option<Secret>> {
        if let Some(token) = self.option(TOKEN) {
            return Ok(Some(Secret::new(token)));
        }
        let Some(credential) = self.option(CREDENTIAL) else { return Ok(None) };
        let (id, secret) = credential.split_once(':').ok_or_else(|| {
            Error::invalid(format!("the storage option {CREDENTIAL:?} is no id and secret"))
                .hint("write it as id:secret")
        })?;
        let scope = self.option(SCOPE).unwrap_or(DEFAULT_SCOPE);
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", id),
            ("client_secret", secret),
            ("scope", scope),
        ];
        let form: Vec<String> = form.map(|(name, value)| format!("{name}={}", encoded(value))).into();
        let url =
            self.option(AUTH_URI).map_or_else(|| format!("{}/v1/oauth/tokens", self.base), str::to_owned);
        let request = Request::builder()
            .method(Method::POST)
            .uri(url)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let login: Login = self.answer(request, Bytes::from(form.join("&")), "a token").await?;
        Ok(Some(Secret::new(login.access_token)))
    }

    async fn get<T: for<'de> Deserialize<'de>>(
        &self,
        url: &str,
        token: Option<&Secret>,
        what: &str,
    ) -> Result<T> {
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(url)
            .header("X-Iceberg-Access-Delegation", "vended-credentials");
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
            let mut value = value.map_err(|_| {
                Error::invalid("the token of the catalogue holds characters that none can have")
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        self.answer(request, Bytes::new(), what).await
    }

    async fn answer<T: for<'de> Deserialize<'de>>(
        &self,
        request: http::request::Builder,
        body: Bytes,
        what: &str,
    ) -> Result<T> {
        let body = if body.is_empty() { HttpRequestBody::empty() } else { body.into() };
        let request = request.header(ACCEPT, "application/json").body(body);
        let request = request.map_err(|_| Error::invalid("the location of the catalogue is malformed"))?;
        let unreachable = |_| Error::new(ErrorKind::Io, "the catalogue cannot be reached");
        let answer = self.client.execute(request).await.map_err(unreachable)?;
        let status = answer.status();
        let bytes = answer.into_body().bytes().await.map_err(unreachable)?;
        if status.is_success() {
            let malformed =
                |_| Error::new(ErrorKind::Io, format!("the catalogue's answer for {what} is malformed"));
            return serde_json::from_slice(&bytes).map_err(malformed);
        }
        let said =
            serde_json::from_slice::<Refusal>(&bytes).map(|refusal| format!(": {}", refusal.error.message));
        let said = said.unwrap_or_default();
        Err(match status {
            StatusCode::NOT_FOUND => {
                Error::new(ErrorKind::NotFound, format!("the catalogue does not have {what}{said}"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Error::new(ErrorKind::Denied, format!("the catalogue refuses {what}{said}"))
                    .hint(format!("pass the storage option {TOKEN} or {CREDENTIAL}"))
            }
            other => {
                let cause = format!("the catalogue answered {} for {what}{said}", other.as_u16());
                Error::new(ErrorKind::Io, cause)
            }
        })
    }
}

/// Percent-encodes a text for use in a URL's path or in a form.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_of_a_catalogue_is_a_server_a_namespace_and_a_table() {
        let options = BTreeMap::new();
        let of = Catalogue::new("iceberg+rest://acme.example.com/api/iceberg/a.b.clicks", &options).unwrap();
        assert_eq!((of.base.as_str(), of.table), ("https://acme.example.com/api/iceberg", "clicks"));
        assert_eq!(of.namespace, ["a", "b"]);
        for none in ["", "host", "host/clicks", "host/a..clicks", "/a.b", "ann:secret@host/a.b"] {
            let error = Catalogue::new(&format!("{SCHEME}{none}"), &options).err().unwrap();
            assert!(
                error.to_string().contains("is malformed") && !error.to_string().contains("secret"),
                "{error}"
            );
        }
    }
}

//! `http://` and `https://`: files of a plain web server, and presigned URLs. Nothing can be listed there.

use std::sync::Arc;

use object_store::http::HttpBuilder;
use object_store::{ClientConfigKey as Key, ObjectStore};

use super::Wire;
use super::address::{Address, decoded, is_loopback, is_signature};
use super::build::{client_options, keys, no_retries, refused};
use super::options::{Options, malformed, truth};
use super::secret::Secret;
use crate::error::{Error, Result};

pub(super) fn connect(address: &Address, options: &Options, wire: &Wire) -> Result<Arc<dyn ObjectStore>> {
    let mut settings = client_options();
    let mut allow_http = is_loopback(address.store());
    for (name, key, value) in keys::<Key>(options, "https://", &[], &[])? {
        if key == Key::AllowHttp {
            allow_http |= truth(value).ok_or_else(|| malformed(name, "true or false"))?;
        }
        settings = settings.with_config(key, value);
    }
    if address.root().starts_with("http://") && !allow_http {
        return Err(Error::invalid(format!(
            "{} is plain http://, which anyone on the way can change",
            address.root()
        ))
        .hint("use https://, or pass the storage option allow_http=true"));
    }
    let store = HttpBuilder::new()
        .with_url(address.root())
        .with_client_options(settings)
        .with_retry(no_retries())
        .with_http_connector(dressed(address, wire)?)
        .build();
    Ok(Arc::new(store.map_err(|_| refused(address.root()))?))
}

/// The wire, with what the URL says of every request.
fn dressed(address: &Address, wire: &Wire) -> Result<Wire> {
    let mut wire = wire.clone();
    if let Some(query) = address.query() {
        wire = wire.with_query(query.clone());
        if is_signature(query.expose()) {
            // It was signed for GET.
            wire = wire.with_head_by_get();
        }
    }
    if let Some(userinfo) = address.userinfo() {
        let (user, password) = match userinfo.expose().split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (userinfo.expose(), None),
        };
        let plain = |text| {
            decoded(text).map(Secret::new).ok_or_else(|| {
                Error::invalid(format!("the user information for {} is malformed", address.root()))
            })
        };
        wire = wire.with_login(plain(user)?, password.map(plain).transpose()?);
    }
    Ok(wire)
}

//! `http://` and `https://`: files of a plain web server, and presigned URLs. Nothing can be listed there.

use std::sync::Arc;

use forebay_base::{Error, Result};
use object_store::http::HttpBuilder;
use object_store::{ClientConfigKey as Key, ObjectStore};

use super::address::{Address, decoded, is_loopback, is_signature};
use super::build::{client_options, keys, no_retries, refused};
use super::options::{Options, flag};
use super::secret::Secret;
use crate::source::wire::Wire;

pub(super) fn connect(address: &Address, options: &Options, wire: &Wire) -> Result<Arc<dyn ObjectStore>> {
    let given = keys::<Key>(options, "https://", &[], &[])?;
    let mut allow_http = is_loopback(address.store());
    for (name, _, value) in given.iter().filter(|(_, key, _)| *key == Key::AllowHttp) {
        allow_http |= flag(name, value)?;
    }
    let settings = client_options(given.into_iter().map(|(_, key, value)| (key, value)))?;
    wire.client(&settings)?;
    if address.root().starts_with("http://") && !allow_http {
        return Err(Error::invalid(format!(
            "{} is plain http://, which anyone in between can change",
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

/// Makes a connector that adds the query and the login of the URL to every request.
fn dressed(address: &Address, wire: &Wire) -> Result<Wire> {
    let mut wire = wire.clone();
    if let Some(query) = address.query() {
        wire = wire.with_query(query.clone());
        if is_signature(query.expose()) {
            // The signature allows only GET, so a HEAD request is replaced by a GET.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

    use std::collections::BTreeMap;

    use object_store::ObjectStoreExt;
    use object_store::path::Path;

    use super::*;
    use crate::source::wire::fake::{Fake, ranged};

    fn open(url: &str, options: &[(&str, &str)]) -> Result<Arc<dyn ObjectStore>> {
        let map: BTreeMap<_, _> =
            options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        connect(&Address::parse(url).unwrap().unwrap(), &Options::new(&map), &Wire::new())
    }

    #[tokio::test]
    async fn a_presigned_url_is_read_with_its_query_and_never_by_head() {
        let server = Fake::serve(|asked| ranged(asked, b"0123456789")).await;
        let url = format!("http://ann:p%3Aw@127.0.0.1:{}/a%20b?X-Amz-Signature=x%2Fy", server.port);
        let store = open(&url, &[]).unwrap();
        let path = Path::parse("a b").unwrap();
        assert_eq!(store.head(&path).await.unwrap().size, 10);
        assert_eq!(store.get_range(&path, 2..5).await.unwrap(), "234");
        for asked in server.asked() {
            assert_eq!((&*asked.method, &*asked.path), ("GET", "/a%20b?X-Amz-Signature=x%2Fy"));
            assert_eq!(asked.header("authorization"), Some("Basic YW5uOnA6dw=="));
        }
    }

    #[test]
    fn plain_http_needs_leave_but_on_this_machine() {
        let refused = |url, options: &[_]| open(url, options).map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            refused("http://ann:hunter2@store.example.com/x?sig=hunter2", &[]),
            "http://store.example.com is plain http://, which anyone in between can change \
             (use https://, or pass the storage option allow_http=true)"
        );
        assert_eq!(
            refused("https://h/x", &[("allow_htp", "hunter2")]),
            "storage option \"allow_htp\" is not known to https:// (did you mean \"allow_http\"?)"
        );
        assert!(open("http://store.example.com/x", &[("allow_http", "true")]).is_ok());
        assert!(open("http://localhost:1/x", &[]).is_ok());
        let store = open("https://ann:hunter2@h/x?sig=hunter2", &[]).unwrap();
        assert!(!format!("{store}").contains("hunter2"));
    }
}

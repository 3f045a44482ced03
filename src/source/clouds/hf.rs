//! `hf://datasets/owner/name@revision`: data sets of the Hugging Face hub, read over its HTTP interface.
//!
//! A revision is looked up once, and what follows is of that one commit: a data set that is pushed to meanwhile does not
//! change under its reader. Files are handed out from other servers, to which the hub redirects; the token does not go
//! there. Reading is all there is: nothing is written to the hub.
//!
//! The token comes from the storage option `token`, else from `HF_TOKEN`, else from the file that `hf auth login`
//! leaves; the hub from the storage option `endpoint`, else from `HF_ENDPOINT`.

mod api;
mod store;

use std::path::PathBuf;
use std::sync::Arc;

use object_store::{ClientConfigKey, ObjectStore};

use super::address::Address;
use super::build::{check_endpoint, client_options, keys};
use super::options::{Options, malformed, truth};
use super::secret::Secret;
use super::{Environment, Wire};
use crate::error::Result;
use crate::source::wire::Redirects;
use api::Hub;
use store::HuggingFace;

const ENDPOINT: &str = "https://huggingface.co";

/// The keys of options that are not the connection's.
const OWN: [&str; 4] = ["token", "hf_token", "endpoint", "hf_endpoint"];

pub(super) fn connect(
    address: &Address,
    options: &Options,
    wire: &Wire,
    environment: Environment<'_>,
) -> Result<Arc<dyn ObjectStore>> {
    let mut settings = client_options();
    let mut allow_http = false;
    for (name, key, value) in keys::<ClientConfigKey>(options, "hf://", &OWN, &OWN)? {
        if key == ClientConfigKey::AllowHttp {
            allow_http = truth(value).ok_or_else(|| malformed(name, "true or false"))?;
        }
        settings = settings.with_config(key, value);
    }
    let given = |names: [&str; 2]| names.iter().find_map(|name| options.get(name)).map(str::to_owned);
    let endpoint = given(["endpoint", "hf_endpoint"]).or_else(|| environment("HF_ENDPOINT"));
    let endpoint = endpoint.unwrap_or_else(|| ENDPOINT.to_owned());
    check_endpoint(&endpoint, "hf://", allow_http)?;
    let token =
        given(["token", "hf_token"]).or_else(|| environment("HF_TOKEN")).or_else(|| kept(environment));
    let token = token.filter(|token| !token.is_empty()).map(Secret::new);
    let client = wire.with_redirects(Redirects::AnyHttps).client(&settings)?;
    let hub = Hub::new(client, endpoint.trim_end_matches('/'), token, address.store(), address.revision());
    Ok(Arc::new(HuggingFace::new(hub)))
}

/// The token that `hf auth login` left.
fn kept(environment: Environment<'_>) -> Option<String> {
    let file = match (environment("HF_TOKEN_PATH"), environment("HF_HOME"), environment("XDG_CACHE_HOME")) {
        (Some(file), _, _) => PathBuf::from(file),
        (None, Some(home), _) => PathBuf::from(home).join("token"),
        (None, None, Some(cache)) => PathBuf::from(cache).join("huggingface/token"),
        (None, None, None) => PathBuf::from(environment("HOME")?).join(".cache/huggingface/token"),
    };
    Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests;

//! `hf://datasets/owner/name@revision`: data sets of the Hugging Face hub, read over its HTTP interface.
//!
//! A revision is resolved to a commit once, and all requests name that commit, so a later push does not
//! change the data set while it is read. For the contents of files, the hub redirects to other servers, which
//! are not sent the token. Nothing is written to the hub.
//!
//! The token comes from the storage option `token`, else from the variable `HF_TOKEN`, else from the file
//! that `hf auth login` writes. The hub's address comes from the storage option `endpoint`, else from
//! `HF_ENDPOINT`.

mod api;
mod store;

use std::path::PathBuf;
use std::sync::Arc;

use api::Hub;
use forebay_base::Result;
use object_store::{ClientConfigKey, ObjectStore};
use store::HuggingFace;

use super::address::Address;
use super::build::{check_endpoint, client_options, keys};
use super::environment::Environment;
use super::options::{Options, flag};
use super::secret::Secret;
use crate::source::wire::{Redirects, Wire};

const ENDPOINT: &str = "https://huggingface.co";

/// The storage options of the hub itself; all others are settings of the connection.
const OWN: [&str; 4] = ["token", "hf_token", "endpoint", "hf_endpoint"];

pub(super) fn connect(
    address: &Address,
    options: &Options,
    wire: &Wire,
    environment: Environment<'_>,
) -> Result<Arc<dyn ObjectStore>> {
    let options_of_client = keys::<ClientConfigKey>(options, "hf://", &OWN, &OWN)?;
    let mut allow_http = false;
    for (name, _, value) in options_of_client.iter().filter(|(_, key, _)| *key == ClientConfigKey::AllowHttp)
    {
        allow_http = flag(name, value)?;
    }
    let settings = client_options(options_of_client.into_iter().map(|(_, key, value)| (key, value)))?;
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

/// Reads the token from the file that `hf auth login` writes.
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

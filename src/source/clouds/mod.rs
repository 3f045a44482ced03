//! Stores that are reached over a network: from a URL and storage options to a client.
//!
//! Each kind of store has a file of its own, which knows where its credentials are looked for and in which order. Every
//! client is object_store's own where there is one, without its retries: the reader knows better when to try again.
//! What can hold a secret (a URL's user information and query, an option's value, a client's `Debug`) is not shown.

mod address;
mod azure;
mod build;
mod client;
mod gcs;
mod hdfs;
mod hf;
mod options;
mod process;
mod profile;
mod region;
mod s3;
mod secret;
mod web;

pub(in crate::source) use address::{Address, Meaning, decoded, is_loopback, is_scheme, metadata_service};
pub(in crate::source) use client::Client;
pub(in crate::source) use options::{MetadataCache, Options, duration, malformed, truth};
pub(in crate::source) use secret::Secret;

use super::wire::Wire;
use crate::error::{Error, ErrorKind, Result};
use address::Scheme;

/// A process's variables, or a stand-in for them in a test.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Builds a store's client. Credentials are looked for afresh at every call.
///
/// Reads files and may run a program (`credential_process`), so it blocks; nothing is sent yet.
///
/// Fails with `Invalid` for an option that the store does not know or cannot use, and with `Unsupported` for
/// credentials of a kind that is not read.
pub(in crate::source) fn connect(address: &Address, options: &Options, wire: &Wire) -> Result<Client> {
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match address.scheme() {
        Scheme::S3 => s3::connect(address, options, wire, &environment),
        Scheme::Gcs => gcs::connect(address, options, wire, &environment),
        Scheme::Azure => azure::connect(address, options, wire, &environment),
        Scheme::Http => web::connect(address, options, wire).map(Client::whole),
        Scheme::Hdfs => hdfs::connect(address, options).map(Client::whole),
        Scheme::HuggingFace => hf::connect(address, options, wire, &environment).map(Client::whole),
        Scheme::Local => Err(Error::new(ErrorKind::Internal, "a local file has no client")),
    }
}

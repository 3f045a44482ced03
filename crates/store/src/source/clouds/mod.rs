//! Stores that are reached over a network: from a URL and storage options to a client.
//!
//! Each kind of store has a file of its own, with the sources of its credentials and their order. Every client is
//! object_store's own if there is one, without its retries: the reader decides when to retry. Text that can hold a
//! secret (a URL's user information and query, an option's value, a client's `Debug`) is not shown.
//!
//! Each kind of store is a cargo feature, which includes its file here and its line in [`connect`].
#![cfg_attr(
    not(all(feature = "aws", feature = "azure", feature = "gcp", feature = "hdfs", feature = "http")),
    allow(dead_code, unused_imports, unused_variables, reason = "used by stores that this build leaves out")
)]

mod address;
#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "network")]
mod build;
mod client;
#[cfg(feature = "gcp")]
mod gcs;
#[cfg(feature = "hdfs")]
mod hdfs;
#[cfg(feature = "http")]
mod hf;
mod options;
#[cfg(feature = "aws")]
mod process;
#[cfg(feature = "aws")]
mod profile;
#[cfg(feature = "aws")]
mod region;
#[cfg(feature = "aws")]
mod s3;
mod secret;
#[cfg(feature = "http")]
mod web;

pub(in crate::source) use address::{
    Address, Meaning, decoded, glob_of, has_query, is_loopback, is_scheme, metadata_service,
};
pub(in crate::source) use client::Client;
pub(in crate::source) use options::{MetadataCache, Options, duration, malformed, truth};
pub(in crate::source) use secret::Secret;

use forebay_base::{Error, ErrorKind, Result};

use super::wire::Wire;
use address::Scheme;

/// A process's variables, or a stand-in for them in a test.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Builds a store's client. Each call looks up the credentials again.
///
/// Reads files and may run a program (`credential_process`), so it blocks; nothing is sent yet.
///
/// Fails with `Invalid` for an option that the store does not know or cannot use, and with `Unsupported` for
/// credentials of a kind that is not read.
pub(in crate::source) fn connect(address: &Address, options: &Options, wire: &Wire) -> Result<Client> {
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match address.scheme() {
        #[cfg(feature = "aws")]
        Scheme::S3 => s3::connect(address, options, wire, &environment),
        #[cfg(feature = "gcp")]
        Scheme::Gcs => gcs::connect(address, options, wire, &environment),
        #[cfg(feature = "azure")]
        Scheme::Azure => azure::connect(address, options, wire, &environment),
        #[cfg(feature = "http")]
        Scheme::Http => web::connect(address, options, wire).map(Client::whole),
        #[cfg(feature = "hdfs")]
        Scheme::Hdfs => hdfs::connect(address, options).map(Client::whole),
        #[cfg(feature = "http")]
        Scheme::HuggingFace => hf::connect(address, options, wire, &environment).map(Client::whole),
        // With every feature, this is the local file alone.
        other => Err(left_out(other)),
    }
}

/// Refuses a store whose feature this build was made without.
fn left_out(scheme: Scheme) -> Error {
    let (scheme, feature) = match scheme {
        Scheme::S3 => ("s3://", "aws"),
        Scheme::Gcs => ("gs://", "gcp"),
        Scheme::Azure => ("az://", "azure"),
        Scheme::Http => ("https://", "http"),
        Scheme::Hdfs => ("hdfs://", "hdfs"),
        Scheme::HuggingFace => ("hf://", "http"),
        Scheme::Local => return Error::new(ErrorKind::Internal, "a local file has no client"),
    };
    let cause = format!("{scheme} needs the feature `{feature}`, which this build leaves out");
    Error::new(ErrorKind::Unsupported, cause).hint(format!("build with `--features {feature}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_left_out_names_its_feature() {
        let error = left_out(Scheme::S3).to_string();
        assert!(error.contains("s3:// needs the feature `aws`, which this build leaves out"), "{error}");
    }
}

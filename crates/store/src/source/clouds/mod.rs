//! Makes clients for stores that are reached over a network, from a URL and storage options.
//!
//! Each kind of store has a file of its own, which lists the sources of credentials in order. object_store
//! has clients for most of them; its retries are switched off, because the reader retries itself. Text that
//! can contain a secret (a URL's user information and query, an option's value, a client's `Debug`) is never
//! shown.
//!
//! Each kind of store is a cargo feature, which includes its file here and its line in [`connect()`].
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
mod connect;
mod environment;
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
pub(in crate::source) use connect::connect;
pub(in crate::source) use options::{MetadataCache, Options, duration, malformed, truth};
pub(in crate::source) use secret::Secret;

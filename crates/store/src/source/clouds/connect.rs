//! Builds the client of a store, of the kind that its URL names.

use forebay_base::{Error, ErrorKind, Result};

use super::address::{Address, Scheme};
use super::client::Client;
use super::options::Options;
use crate::source::wire::Wire;

/// Builds a store's client. Each call looks up the credentials again.
///
/// Reads files and may run a program (`credential_process`), so it blocks; nothing is sent yet.
///
/// Fails with `Invalid` for an option that the store does not know or cannot use, and with `Unsupported` for
/// an unsupported kind of credentials.
pub(in crate::source) fn connect(address: &Address, options: &Options, wire: &Wire) -> Result<Client> {
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match address.scheme() {
        #[cfg(feature = "aws")]
        Scheme::S3 => super::s3::connect(address, options, wire, &environment),
        #[cfg(feature = "gcp")]
        Scheme::Gcs => super::gcs::connect(address, options, wire, &environment),
        #[cfg(feature = "azure")]
        Scheme::Azure => super::azure::connect(address, options, wire, &environment),
        #[cfg(feature = "http")]
        Scheme::Http => super::web::connect(address, options, wire).map(Client::whole),
        #[cfg(feature = "hdfs")]
        Scheme::Hdfs => super::hdfs::connect(address, options).map(Client::whole),
        #[cfg(feature = "http")]
        Scheme::HuggingFace => super::hf::connect(address, options, wire, &environment).map(Client::whole),
        // The features of all other schemes may be off. With every feature on, only `file://` gets here.
        other => Err(left_out(other)),
    }
}

/// The error for a kind of store whose cargo feature is off in this build.
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

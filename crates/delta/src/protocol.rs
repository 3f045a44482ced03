//! The protocol of a Delta table: the version and the features that a reader must support.

use std::collections::BTreeSet;

use forebay_base::{Error, ErrorKind, Result};
use serde::Deserialize;

/// The reader features that are supported, by the names that tables give them.
pub const SUPPORTED_FEATURES: [&str; 8] = [
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "v2Checkpoint-preview",
    "vacuumProtocolCheck",
];

/// The first reader version in which a table lists the features that it requires.
const WITH_FEATURES: i64 = 3;

/// The protocol that a table requires of its readers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Protocol {
    pub(crate) min_reader_version: i64,
    #[serde(default)]
    pub(crate) reader_features: Option<BTreeSet<String>>,
}

impl Protocol {
    /// Returns an error that names the version or feature, if this crate does not support it.
    pub(crate) fn check(&self) -> Result<()> {
        if self.min_reader_version > WITH_FEATURES {
            let cause = format!(
                "the table needs readers of version {}; versions up to {WITH_FEATURES} are read",
                self.min_reader_version
            );
            return Err(Error::new(ErrorKind::Unsupported, cause).hint(ADVICE));
        }
        let other: Vec<&str> =
            self.features().filter(|feature| !SUPPORTED_FEATURES.contains(feature)).collect();
        match other.as_slice() {
            [] => Ok(()),
            [feature] => {
                let cause = format!("the table has the feature {feature}, which is not supported");
                Err(Error::new(ErrorKind::Unsupported, cause).hint(advice(feature)))
            }
            several => {
                let cause = format!("the table has features that are not supported: {}", several.join(", "));
                Err(Error::new(ErrorKind::Unsupported, cause).hint(ADVICE))
            }
        }
    }

    /// The features that a reader must support.
    pub(crate) fn features(&self) -> impl Iterator<Item = &str> {
        let named = self.reader_features.iter().flatten().map(String::as_str);
        let implied = (self.min_reader_version == 2).then_some("columnMapping");
        named.filter(|_| self.min_reader_version >= WITH_FEATURES).chain(implied)
    }
}

const ADVICE: &str = "write the table's rows to a table without it, or to plain Parquet, and open that";

fn advice(feature: &str) -> &'static str {
    match feature {
        "catalogManaged" | "catalogOwned-preview" => {
            "its newest commits are with its catalogue: copy it to a table of its own with CREATE TABLE ... AS SELECT"
        }
        "variantType" | "variantType-preview" | "variantShredding-preview" | "variantShredding" => {
            "write the fields of its variants to columns of a table without them, and open that"
        }
        _ => ADVICE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_are_not_supported_are_refused_by_name() {
        let of = |version, features: &[&str]| Protocol {
            min_reader_version: version,
            reader_features: Some(features.iter().map(|feature| (*feature).to_owned()).collect()),
        };
        let refusal = |protocol: Protocol| protocol.check().unwrap_err().to_string();
        assert!(of(3, &SUPPORTED_FEATURES).check().is_ok());
        assert!(of(1, &["variantType"]).check().is_ok(), "version 1 names no features");
        assert!(refusal(of(3, &["variantType"])).contains("the feature variantType, which"));
        assert!(refusal(of(3, &["a", "deletionVectors", "b"])).contains("not supported: a, b"));
        assert!(refusal(of(4, &[])).contains("readers of version 4"));
        let implied = of(2, &[]);
        assert_eq!(implied.features().collect::<Vec<_>>(), ["columnMapping"]);
    }
}

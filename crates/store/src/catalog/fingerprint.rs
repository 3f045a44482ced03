//! The fingerprint of a data set: a hash that identifies its contents, and on which the order of rows
//! depends.

use std::fmt;
use std::sync::Arc;

use forebay_arrow::datatypes::Schema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::File;

/// A hash that identifies a data set. It covers the relative path, size, footer and row counts of each file,
/// and the schema; for a table also its constants, deleted rows and id. If the metadata of a table declares a
/// file's rows and columns, the footer is left out, because it may not have been read.
///
/// Modification times and the store's tags are left out, because two nodes with copies of the same data must
/// agree on the order. Different rows give a different footer, because it has the offset, size and statistics
/// of every column chunk. The fingerprint is shown and serialized as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Fingerprint(u128);

impl Fingerprint {
    pub(super) fn compute(files: &[File], schema: &Schema, identities: &[Arc<str>]) -> Self {
        let mut hash = Xxh3::new();
        let mut text = |part: &str| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        };
        for field in schema.fields() {
            text(field.name());
            text(&field.data_type().to_string());
        }
        for file in files {
            text(&file.relative);
            text(&match file.footer_hash() {
                Some(hash) => format!("{} {hash:016x}", file.size),
                None => format!("{} declared", file.size),
            });
            for rows in file.row_counts() {
                text(&rows.to_string());
            }
            if let Some(hash) = file.table_hash {
                text(&format!("table {hash:016x}"));
            }
        }
        identities.iter().for_each(|identity| text(identity));
        Fingerprint(hash.digest128())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        u128::from_str_radix(&text, 16)
            .map(Fingerprint)
            .map_err(|_| format!("{text:?} is not a fingerprint of a data set"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_survives_json() {
        let fingerprint = Fingerprint(0x00ab_cdef);
        let json = serde_json::to_string(&fingerprint).unwrap();
        assert_eq!(json, "\"00000000000000000000000000abcdef\"");
        assert_eq!(serde_json::from_str::<Fingerprint>(&json).unwrap(), fingerprint);
    }
}

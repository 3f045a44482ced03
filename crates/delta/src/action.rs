//! Parses the actions (changes to a table) in the JSON files of a Delta log, which have one action on each
//! line.

use std::collections::BTreeMap;

use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer};

use crate::deletion::DeletionVector;
use crate::protocol::Protocol;

/// One action of a log. Actions that do not affect what is read have no variant.
#[derive(Debug)]
pub(crate) enum Action {
    Add(Add),
    Remove(Remove),
    Metadata(Metadata),
    Protocol(Protocol),
    Sidecar(Sidecar),
}

/// An action that adds a data file to the table.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    pub(crate) path: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) partition_values: BTreeMap<String, Option<String>>,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) stats: Option<String>,
    #[serde(default)]
    pub(crate) deletion_vector: Option<Vector>,
    #[serde(default)]
    pub(crate) base_row_id: Option<i64>,
    /// The number of rows of the file, if a checkpoint stores it in a column and not only in the statistics'
    /// text.
    #[serde(skip)]
    pub(crate) rows: Option<u64>,
}

/// An action that removes a data file from the table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remove {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) deletion_vector: Option<Vector>,
}

/// A reference to a deletion vector (the set of a file's deleted rows), with the field names of the log.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Vector {
    pub(crate) storage_type: String,
    pub(crate) path_or_inline_dv: String,
    #[serde(default)]
    pub(crate) offset: Option<u64>,
    pub(crate) size_in_bytes: u64,
    pub(crate) cardinality: u64,
}

/// The metadata of a table: its identity, schema and properties.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) id: String,
    /// The schema as JSON. The first commit of a table may leave it to the next one.
    pub(crate) schema_string: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) partition_columns: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) configuration: BTreeMap<String, Option<String>>,
}

/// A reference from a checkpoint to a sidecar: another file that holds a part of its actions.
#[derive(Debug, Deserialize)]
pub(crate) struct Sidecar {
    pub(crate) path: String,
}

impl From<Vector> for DeletionVector {
    fn from(vector: Vector) -> Self {
        DeletionVector {
            storage: vector.storage_type,
            text: vector.path_or_inline_dv,
            offset: vector.offset,
            size: vector.size_in_bytes,
            count: vector.cardinality,
        }
    }
}

/// A line of the log: an object with a single action.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(default)]
    add: Option<Add>,
    #[serde(default)]
    remove: Option<Remove>,
    #[serde(default)]
    meta_data: Option<Metadata>,
    #[serde(default)]
    protocol: Option<Protocol>,
    #[serde(default)]
    sidecar: Option<Sidecar>,
}

/// Treats null like a missing value.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// Passes each action of a JSON file to `take`. The file has one action on each line.
///
/// # Errors
/// `Corrupt`, with the line, for an action that cannot be read; errors of `take`.
pub(crate) fn each(bytes: &[u8], mut take: impl FnMut(Action) -> Result<()>) -> Result<()> {
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let line: Line = serde_json::from_slice(line).map_err(|error| {
            let cause = format!("line {} cannot be read: {error}", at + 1);
            Error::new(ErrorKind::Corrupt, cause)
                .hint("restore the file, or open an older version with `version`")
        })?;
        let Line { add, remove, meta_data, protocol, sidecar } = line;
        let actions = [
            add.map(Action::Add),
            remove.map(Action::Remove),
            meta_data.map(Action::Metadata),
            protocol.map(Action::Protocol),
            sidecar.map(Action::Sidecar),
        ];
        actions.into_iter().flatten().try_for_each(&mut take)?;
    }
    Ok(())
}

/// The part of a file's statistics that is used here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statistics {
    #[serde(default)]
    num_records: Option<u64>,
}

impl Add {
    /// The number of rows of the file, including deleted ones, if the log has it. Invalid statistics are
    /// ignored.
    pub(crate) fn row_count(&self) -> Option<u64> {
        self.rows.or_else(|| serde_json::from_str::<Statistics>(self.stats.as_deref()?).ok()?.num_records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_actions_and_others_are_passed_over() {
        let log = br#"{"commitInfo":{"operation":"WRITE","x":[1,{"y":null}]}}
{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}

{"add":{"path":"a","partitionValues":{"p":null},"size":7,"modificationTime":1,"dataChange":true,"stats":"{\"numRecords\":3}"}}
{"remove":{"path":"b","deletionTimestamp":5,"dataChange":true}}
{"txn":{"appId":"x","version":1}}"#;
        let mut seen = Vec::new();
        each(log, |action| {
            seen.push(match action {
                Action::Add(add) => format!("add {} of {:?} rows", add.path, add.row_count()),
                Action::Remove(remove) => format!("remove {}", remove.path),
                Action::Protocol(protocol) => format!("protocol {}", protocol.min_reader_version),
                Action::Metadata(_) | Action::Sidecar(_) => "another".to_owned(),
            });
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, ["protocol 1", "add a of Some(3) rows", "remove b"]);
    }

    #[test]
    fn lines_that_are_damaged_are_refused_by_their_number() {
        let refused = |log: &[u8]| each(log, |_| Ok(())).unwrap_err().to_string();
        assert!(refused(b"{}\n{\"add\":{\"path\":").starts_with("line 2 cannot be read: EOF"));
        assert!(refused(b"{\"add\":{\"path\":\"a\",\"size\":-1}}").starts_with("line 1 cannot be read: "));
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert!(
            each(&[b"{\"x\":", &deep[..], b"}"].concat(), |_| Ok(())).is_ok(),
            "passed over, however deep"
        );
    }
}

//! Computes the state of a table from its log: takes the commits from the newest to the oldest, and then the
//! checkpoint.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use forebay_base::{Error, ErrorKind, Place, Result};
use serde::Deserialize;
use xxhash_rust::xxh3::Xxh3;

use crate::action::{self, Action, Add, Metadata, Vector};
use crate::deletion::DeletionVector;
use crate::protocol::Protocol;
use crate::schema::{self, Found};
use crate::table::{Table, TableFile};
use crate::{checkpoint, path, statistics};

/// The table property that says how columns are matched with those in the files.
const MAPPING: &str = "delta.columnMapping.mode";

/// The state of a table while its log is being read. The files of the log are taken from the newest to the
/// oldest, and what a newer file says takes precedence.
#[derive(Debug, Default)]
pub struct Replay {
    /// The folder of the table, as an absolute path or URL.
    root: String,
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    /// A hash of the path and the deletion vector in each file action taken so far. Hashes take far less
    /// memory than paths.
    seen: HashSet<u128>,
    files: Vec<TableFile>,
    /// The index of each partition, by its values. The keys of the inner map are the names of columns in the
    /// log.
    partitions: HashMap<BTreeMap<String, Option<String>>, u32>,
}

impl Replay {
    /// Starts to read the log of the table in the folder `root`, which is an absolute path or URL.
    pub fn new(root: &str) -> Self {
        Replay { root: root.to_owned(), ..Replay::default() }
    }

    /// Takes a commit. Each call must pass an older commit than the call before.
    ///
    /// # Errors
    /// `Corrupt`, with the line, if the commit cannot be read; `Unsupported` for a file outside of the table.
    pub fn commit(&mut self, bytes: &[u8]) -> Result<()> {
        // The order of the actions within a commit does not matter, because a commit has at most one action
        // for each file.
        action::each(bytes, |action| self.take(action).map(|_| ()))
    }

    /// Takes a file of the checkpoint; its `name` distinguishes JSON from Parquet. Returns the names of the
    /// sidecars that it refers to.
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit).
    pub fn checkpoint(&mut self, name: &str, bytes: Bytes) -> Result<Vec<String>> {
        let mut sidecars = Vec::new();
        let take = |action| {
            sidecars.extend(self.take(action)?);
            Ok(())
        };
        match name.ends_with(".json") {
            true => action::each(&bytes, take)?,
            false => checkpoint::each(bytes, take)?,
        }
        Ok(sidecars)
    }

    /// Takes an action. Returns the name of the sidecar if the action refers to one.
    fn take(&mut self, action: Action) -> Result<Option<String>> {
        match action {
            Action::Add(add) => self.add(add)?,
            Action::Remove(remove) => {
                self.is_new(&remove.path, remove.deletion_vector.as_ref());
            }
            // Actions come from the newest to the oldest, so the first metadata and the first protocol are
            // the valid ones.
            Action::Metadata(metadata) => drop(self.metadata.get_or_insert(metadata)),
            Action::Protocol(protocol) => drop(self.protocol.get_or_insert(protocol)),
            Action::Sidecar(sidecar) => {
                let name = path::below(&sidecar.path, &self.root)?;
                return match name.contains('/') {
                    true => Err(Error::new(
                        ErrorKind::Unsupported,
                        "a sidecar file in another folder is not read",
                    )),
                    false => Ok(Some(name)),
                };
            }
        }
        Ok(None)
    }

    /// Whether this is the first action on this path with this deletion vector, and therefore the newest.
    fn is_new(&mut self, path: &str, vector: Option<&Vector>) -> bool {
        let mut hash = Xxh3::new();
        hash.update(path.as_bytes());
        if let Some(Vector { storage_type, path_or_inline_dv, offset, .. }) = vector {
            hash.update(format!("\0{storage_type}{path_or_inline_dv}@{offset:?}").as_bytes());
        }
        self.seen.insert(hash.digest128())
    }

    fn add(&mut self, add: Add) -> Result<()> {
        if !self.is_new(&add.path, add.deletion_vector.as_ref()) {
            return Ok(());
        }
        let rows = add.row_count();
        let Add { path, partition_values, size, deletion_vector, base_row_id, stats, .. } = add;
        let next = self.partitions.len() as u32;
        let partition = *self.partitions.entry(partition_values).or_insert(next);
        self.files.push(TableFile {
            path: path::below(&path, &self.root)?.into(),
            size,
            partition,
            rows,
            first_row_id: base_row_id,
            deletion: deletion_vector.map(|vector| Box::new(DeletionVector::from(vector))),
            statistics: stats.map(String::into),
        });
        Ok(())
    }

    /// Refuses a table that requires unsupported features. The check is possible once the protocol was taken,
    /// before the rest of the log is read.
    ///
    /// # Errors
    /// `Unsupported`, with the name of the feature.
    pub fn check(&self) -> Result<()> {
        self.protocol.as_ref().map_or(Ok(()), Protocol::check)
    }

    /// The table at `version`, as the log that was taken describes it.
    ///
    /// # Errors
    /// `Unsupported`, by name, for features and types that are not supported; `Corrupt` if the log lacks the
    /// protocol or the schema, if these cannot be read, and for a file that is live twice.
    pub fn finish(mut self, version: u64) -> Result<Table> {
        let lacks =
            |what: &str| Error::new(ErrorKind::Corrupt, format!("the log lacks the {what} of the table"));
        let protocol = self.protocol.take().ok_or_else(|| lacks("protocol"))?;
        protocol.check()?;
        let mut metadata = self.metadata.take().ok_or_else(|| lacks("schema"))?;
        let schema = metadata.schema_string.take().ok_or_else(|| lacks("schema"))?;
        let configuration: BTreeMap<String, String> =
            metadata.configuration.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let mode = configuration.get(MAPPING).filter(|_| protocol.min_reader_version >= 2);
        let found = Found::from_mode(mode.map(String::as_str))?;
        let columns = schema::columns(&schema, &metadata.partition_columns, found)?;
        let column = |name: &String| columns.iter().find(|column| column.field.name() == name);
        let stored = metadata.partition_columns.iter().filter_map(column);
        let stored: Vec<&str> = stored.map(|column| column.stored.stored.as_str()).collect();
        let mut partitions = vec![Box::default(); self.partitions.len()];
        for (mut values, at) in self.partitions {
            partitions[at as usize] = stored.iter().map(|name| values.remove(*name).flatten()).collect();
        }
        self.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        if let Some(pair) = self.files.windows(2).find(|pair| pair[0].path == pair[1].path) {
            let cause = "the log has the file twice, with different deleted rows";
            return Err(Error::new(ErrorKind::Corrupt, cause).at(Place::file(&*pair[0].path)));
        }
        let texts: Vec<Option<Box<str>>> = self.files.iter_mut().map(|file| file.statistics.take()).collect();
        let statistics = statistics::of_files(&columns, texts.iter().map(Option::as_deref));
        Ok(Table {
            version,
            id: metadata.id,
            min_reader_version: protocol.min_reader_version,
            features: protocol.features().map(str::to_owned).collect(),
            columns,
            found,
            partition_columns: metadata.partition_columns,
            partitions,
            configuration,
            files: self.files,
            statistics,
        })
    }
}

/// The time of a commit in milliseconds since 1970, if the commit itself states it. It takes precedence over
/// the modification time of the commit's file.
pub fn commit_time(bytes: &[u8]) -> Option<i64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Info {
        in_commit_timestamp: Option<i64>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct First {
        commit_info: Info,
    }
    // If a commit states its time, that is in its first action.
    let first = bytes.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice::<First>(first).ok()?.commit_info.in_commit_timestamp
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"t","schemaString":"{\"type\":\"struct\",\"fields\":[{\"name\":\"p\",\"type\":\"integer\",\"nullable\":true,\"metadata\":{}}]}","partitionColumns":["p"],"configuration":{}}}
"#;

    fn add(path: &str, vector: &str) -> String {
        let vector = match vector {
            "" => String::new(),
            text => format!(
                r#","deletionVector":{{"storageType":"i","pathOrInlineDv":"{text}","sizeInBytes":1,"cardinality":1}}"#
            ),
        };
        format!(r#"{{"add":{{"path":"{path}","partitionValues":{{"p":"7"}},"size":5{vector}}}}}{}"#, "\n")
    }

    fn remove(path: &str) -> String {
        format!(r#"{{"remove":{{"path":"{path}"}}}}{}"#, "\n")
    }

    /// The paths of the files that belong to the table after `commits`, which are given from the oldest to
    /// the newest.
    fn live(commits: &[String]) -> Result<Vec<String>> {
        let mut replay = Replay::new("/t");
        commits.iter().rev().try_for_each(|commit| replay.commit(commit.as_bytes()))?;
        let table = replay.finish(commits.len() as u64)?;
        let shown = |file: &TableFile| match &file.deletion {
            Some(deletion) => format!("{} without {deletion}", file.path),
            None => file.path.to_string(),
        };
        Ok(table.files.iter().map(shown).collect())
    }

    #[test]
    fn what_is_newer_counts() {
        let first = format!("{FIRST}{}{}", add("a", ""), add("b", ""));
        assert_eq!(live(std::slice::from_ref(&first)).unwrap(), ["a", "b"]);
        assert_eq!(live(&[first.clone(), remove("a")]).unwrap(), ["b"]);
        assert_eq!(live(&[first.clone(), remove("a"), add("a", "")]).unwrap(), ["a", "b"]);
        let deletes = remove("a") + &add("a", "x");
        assert_eq!(live(&[first.clone(), deletes.clone()]).unwrap(), ["a without ix", "b"]);
        let twice = live(&[first.clone(), add("a", "x")]).unwrap_err().to_string();
        assert_eq!(twice, "a: the log has the file twice, with different deleted rows");
    }

    #[test]
    fn partitions_are_values_of_their_columns() {
        let mut replay = Replay::new("/t");
        replay.commit(format!("{FIRST}{}{}", add("a", ""), add("b", "")).as_bytes()).unwrap();
        let table = replay.finish(0).unwrap();
        assert_eq!((table.partitions.len(), table.files[1].partition), (1, 0));
        assert_eq!(table.values(&table.partitions[0]).unwrap()[0].len(), 1);
        let wrong = table.values(&[Some("x".to_owned())]).unwrap_err().to_string();
        assert_eq!(wrong, "column \"p\": the log has the value \"x\", which does not fit the column's type");
    }

    #[test]
    fn logs_that_lack_something_are_refused() {
        let refused = |log: &str| live(&[log.to_owned()]).unwrap_err().to_string();
        let (protocol, metadata) = FIRST.split_once('\n').unwrap();
        assert_eq!(refused(metadata), "the log lacks the protocol of the table");
        assert_eq!(refused(protocol), "the log lacks the schema of the table");
        assert!(refused(&format!("{FIRST}{}", add("../a", ""))).contains("leads out of the table"));
        // The first commit of a pipeline has no schema, and the next one brings it.
        let bare = format!("{protocol}\n{{\"metaData\":{{\"id\":\"t\",\"partitionColumns\":[]}}}}\n");
        assert_eq!(refused(&bare), "the log lacks the schema of the table");
        assert_eq!(live(&[bare, format!("{metadata}{}", add("a", ""))]).unwrap(), ["a"]);
    }

    #[test]
    fn the_time_of_a_commit_is_its_own_where_it_has_one() {
        assert_eq!(commit_time(b"{\"commitInfo\":{\"inCommitTimestamp\":17}}\n{}"), Some(17));
        assert_eq!(commit_time(b"{\"commitInfo\":{\"timestamp\":17}}"), None);
        assert_eq!(commit_time(b"not JSON"), None);
    }
}

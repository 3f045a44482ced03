//! Chooses the snapshot of an Iceberg table that a user asks for by id, name or time.

use forebay_base::error::listed;
use forebay_base::{Error, ErrorKind, Result};

use crate::manifest::Manifest;
use crate::metadata::{Metadata, Snapshot};

/// The most snapshot ids or names that an error message lists.
const SHOWN: usize = 5;

/// The `type` of a reference that is a branch. A branch points to another snapshot after each commit, while a
/// tag keeps its snapshot.
const BRANCH: &str = "branch";

/// The snapshot that a user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// The current snapshot.
    Newest,
    /// The snapshot with this id.
    Id(u64),
    /// The snapshot of the branch or tag with this name. A name such as `7@2` also means the snapshot with id
    /// 7, read with the schema with id 2.
    Named(&'a str),
    /// The snapshot that was current at a time, in milliseconds since 1970.
    Time(i64),
}

/// A snapshot, and the schema to read it with.
#[derive(Debug)]
pub struct Chosen<'a> {
    /// The snapshot; `None` for a table without any.
    pub snapshot: Option<&'a Snapshot>,
    /// The id of the schema to read with.
    pub schema: i64,
    /// Whether choosing the snapshot by its id alone would select the same schema.
    pub is_of_its_time: bool,
    /// Whether the snapshot was chosen as the newest of a branch. It is then read with the table's current
    /// schema.
    pub(crate) is_branch: bool,
}

impl Chosen<'_> {
    /// The partition fields of the snapshot, as users write them. A branch has those that the table uses for
    /// new files. Any other snapshot has those of its latest manifest in `manifests`, because the metadata
    /// does not record them for snapshots.
    pub fn partitioned_by(&self, metadata: &Metadata, manifests: &[Manifest]) -> Vec<String> {
        let latest = manifests.iter().max_by_key(|manifest| (manifest.sequence, manifest.spec));
        metadata.partitioned_by(latest.filter(|_| !self.is_branch).map(|manifest| manifest.spec))
    }
}

impl Metadata {
    /// Chooses the snapshot that is wanted. A branch is read with the table's current schema, and any other
    /// snapshot with the schema of its own time.
    ///
    /// # Errors
    /// `NotFound` if the snapshot never existed or has expired; `Unsupported` if it is encrypted.
    pub fn choose(&self, wanted: Wanted<'_>) -> Result<Chosen<'_>> {
        let (id, is_branch) = match wanted {
            Wanted::Newest => match self.current {
                Some(id) => (id, true),
                None => {
                    return Ok(Chosen {
                        snapshot: None,
                        schema: self.current_schema,
                        is_of_its_time: true,
                        is_branch: true,
                    });
                }
            },
            Wanted::Id(id) => (i64::try_from(id).map_err(|_| self.unknown(id))?, false),
            Wanted::Named(name) => match (self.references.get(name), with_schema(name)) {
                (Some(reference), _) => (reference.snapshot_id, reference.kind == BRANCH),
                (None, Some((id, schema))) if self.schemas.contains_key(&schema) => {
                    return Ok(Chosen { schema, is_of_its_time: false, ..self.choose(Wanted::Id(id))? });
                }
                (None, _) => return Err(self.unnamed(name)),
            },
            Wanted::Time(time) => (self.at(time)?, false),
        };
        let snapshot = self.snapshots.iter().find(|snapshot| snapshot.id == id);
        let snapshot = snapshot.ok_or_else(|| self.unknown(id as u64))?;
        if snapshot.key_id.is_some() {
            return Err(Error::new(ErrorKind::Unsupported, "the table is encrypted, which is not read"));
        }
        let of_its_time = snapshot.schema_id.filter(|id| self.schemas.contains_key(id));
        let of_its_time = of_its_time.unwrap_or(self.current_schema);
        let schema = if is_branch { self.current_schema } else { of_its_time };
        let is_of_its_time = schema == of_its_time;
        Ok(Chosen { snapshot: Some(snapshot), schema, is_of_its_time, is_branch })
    }

    /// The id of the snapshot that was current at a time.
    fn at(&self, time: i64) -> Result<i64> {
        let logged = self.log.iter().filter(|logged| logged.timestamp_ms <= time);
        let logged = logged.max_by_key(|logged| logged.timestamp_ms).map(|logged| logged.snapshot_id);
        // Older writers keep no log of which snapshot was current. In a table without this log, the last
        // snapshot that was made until `time` counts as the current one.
        let made = || {
            let made = self.snapshots.iter().filter(|snapshot| snapshot.time <= time && self.log.is_empty());
            made.max_by_key(|snapshot| snapshot.time).map(|snapshot| snapshot.id)
        };
        logged.or_else(made).ok_or_else(|| {
            let error =
                Error::new(ErrorKind::NotFound, "the table has no snapshot that was current at that time");
            match self.snapshots.iter().min_by_key(|snapshot| snapshot.time) {
                Some(first) => error.hint(format!("its oldest snapshot is {}", first.id)),
                None => error,
            }
        })
    }

    fn unknown(&self, id: u64) -> Error {
        let cause = format!("the table has no snapshot {id}: it has expired, or it belongs to another table");
        let mut kept: Vec<&Snapshot> = self.snapshots.iter().collect();
        kept.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.time));
        let error = Error::new(ErrorKind::NotFound, cause);
        match kept.is_empty() {
            true => error,
            false => error.hint(format!("it has {}", listed(kept.iter().map(|snapshot| snapshot.id), SHOWN))),
        }
    }

    fn unnamed(&self, name: &str) -> Error {
        let error = Error::new(ErrorKind::NotFound, format!("the table has no branch or tag {name:?}"));
        match self.references.is_empty() {
            true => error,
            false => error.hint(format!("it has {}", listed(self.references.keys(), SHOWN))),
        }
    }
}

/// Parses the id of a snapshot and the id of a schema from a name such as `7@2`.
fn with_schema(name: &str) -> Option<(u64, i64)> {
    let (id, schema) = name.split_once('@')?;
    Some((id.parse().ok()?, schema.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Metadata {
        let schema = |id: i64| json!({"schema-id": id, "type": "struct", "fields": []});
        let snapshot = |id: i64, time: i64, schema: i64| json!({"snapshot-id": id, "timestamp-ms": time, "manifest-list": "m", "schema-id": schema});
        let json = json!({"format-version": 2, "location": "/t", "schemas": [schema(0), schema(1), schema(2)],
            "current-schema-id": 2, "current-snapshot-id": 30,
            "snapshots": [snapshot(10, 1_000, 0), snapshot(20, 2_000, 1), snapshot(30, 3_000, 1)],
            "snapshot-log": [{"snapshot-id": 5, "timestamp-ms": 500}, {"snapshot-id": 10, "timestamp-ms": 1_000},
                {"snapshot-id": 30, "timestamp-ms": 3_000}],
            "refs": {"main": {"snapshot-id": 30, "type": "branch"}, "audit": {"snapshot-id": 20, "type": "branch"},
                "release": {"snapshot-id": 10, "type": "tag"}}});
        Metadata::parse(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn snapshots_are_chosen_by_number_name_and_time_with_their_schemas() {
        let table = table();
        for (wanted, id, schema) in [
            (Wanted::Newest, 30, 2),
            (Wanted::Id(30), 30, 1),
            (Wanted::Named("main"), 30, 2),
            (Wanted::Named("audit"), 20, 2),
            (Wanted::Named("release"), 10, 0),
            (Wanted::Named("10@2"), 10, 2),
            (Wanted::Time(2_999), 10, 0),
            (Wanted::Time(3_000), 30, 1),
            (Wanted::Time(i64::MAX), 30, 1),
        ] {
            let chosen = table.choose(wanted).unwrap();
            assert_eq!((chosen.snapshot.unwrap().id, chosen.schema), (id, schema), "{wanted:?}");
        }
    }

    #[test]
    fn snapshots_that_are_not_there_are_named_with_those_that_are() {
        let table = table();
        let refused = |wanted| {
            let error = table.choose(wanted).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            error.to_string()
        };
        assert!(
            refused(Wanted::Id(7)).contains(
                "no snapshot 7: it has expired, or it belongs to another table (it has 30, 20, 10)"
            )
        );
        assert!(refused(Wanted::Id(u64::MAX)).contains("no snapshot 18446744073709551615"));
        assert!(refused(Wanted::Named("x")).contains("no branch or tag \"x\" (it has audit, main, release)"));
        assert!(refused(Wanted::Time(700)).contains("no snapshot 5: it has expired"));
        assert!(refused(Wanted::Time(0)).contains("current at that time (its oldest snapshot is 10)"));
    }
}

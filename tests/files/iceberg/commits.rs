//! A table that is written to while a loader reads it: each run has the rows of its own snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use forebay::arrow::array::AsArray;
use forebay::arrow::datatypes::Int64Type;
use forebay::{Dataset, ErrorKind, Loader, OpenOptions, Position, Shard, Shuffle};
use serde_json::{Value, json};

use super::{IcebergTable, WRITTEN, avro, ids, next};

const COMMITS: usize = 1_000;

/// The rows of a step over all ranks.
const BATCH: u64 = 12;

/// The steps of the run over the first snapshot.
const STEPS: usize = 100;

/// The number of commits between two steps. Some steps of the run are left after the last commit.
const COMMITS_A_STEP: usize = 11;

/// The number of commits after which all files are written again.
const UNTIL_COMPACTED: usize = 40;

/// A data file of the newest snapshot.
#[derive(Clone)]
struct LiveFile {
    name: String,
    about: Value,
    sequence: i64,
    values: Vec<i64>,
    /// The rows that are deleted by position or by a vector.
    deleted: BTreeSet<u16>,
    vector: Option<Value>,
}

/// A table with all of its snapshots.
struct Committed {
    table: IcebergTable,
    state: u64,
    next_value: i64,
    live: Vec<LiveFile>,
    /// The files that delete rows by position or by value, with their sequence numbers.
    deletes: Vec<(i64, Value)>,
    snapshots: Vec<Value>,
    /// The rows of each snapshot, by its number.
    rows: BTreeMap<u64, BTreeSet<i64>>,
    /// The files of each snapshot.
    files: BTreeMap<u64, BTreeSet<String>>,
    now: BTreeSet<i64>,
}

impl Committed {
    fn new() -> Self {
        let mut this = Committed {
            table: IcebergTable::of_ids(),
            state: 5,
            next_value: 0,
            live: vec![],
            deletes: vec![],
            snapshots: vec![],
            rows: BTreeMap::new(),
            files: BTreeMap::new(),
            now: BTreeSet::new(),
        };
        for _ in 0..STEPS / 10 {
            this.append(BATCH as usize * 10);
        }
        this.commit();
        this
    }

    fn below(&mut self, most: usize) -> usize {
        next(&mut self.state) as usize % most
    }

    fn sequence(&self) -> i64 {
        self.snapshots.len() as i64 + 1
    }

    fn version(&self) -> u64 {
        self.snapshots.len() as u64 + 100
    }

    fn write(&mut self, values: Vec<i64>) {
        let sequence = self.sequence();
        let name = format!("f{sequence}-{}", self.live.len());
        let about = self.table.ids(&name, values.iter().copied());
        let deleted = BTreeSet::new();
        self.live.push(LiveFile { name, about, sequence, values, deleted, vector: None });
    }

    fn append(&mut self, rows: usize) {
        let values: Vec<i64> = (self.next_value..).take(rows).collect();
        self.next_value += rows as i64;
        self.now.extend(&values);
        self.write(values);
    }

    /// Whether a row of a file is live; an update leaves the old version of a row in an earlier file.
    fn is_live(&self, file: usize, row: usize) -> bool {
        let (value, deleted) = (self.live[file].values[row], &self.live[file].deleted);
        let is_last = self.live.iter().rposition(|other| other.values.contains(&value)) == Some(file);
        is_last && self.now.contains(&value) && !deleted.contains(&(row as u16))
    }

    /// Picks a random row. Returns its file, its place and its value if the row is live.
    fn drawn(&mut self) -> Option<(usize, u16, i64)> {
        let file = self.below(self.live.len());
        let row = self.below(self.live[file].values.len());
        self.is_live(file, row).then(|| (file, row as u16, self.live[file].values[row]))
    }

    fn delete(&mut self, way: usize) {
        let Some((file, row, value)) = self.drawn() else { return self.append(3) };
        let (sequence, name) = (self.sequence(), self.live[file].name.clone());
        let deletes = format!("d{sequence}");
        // A vector replaces the deletes by position in its file, so it lists their rows, too.
        match (way, &self.live[file].vector) {
            (0, None) => {
                let about = self.table.positions(&deletes, &[(&name, i64::from(row))]);
                self.deletes.push((sequence, about));
                self.live[file].deleted.insert(row);
            }
            (0 | 1, _) => {
                self.live[file].deleted.insert(row);
                let rows: Vec<u16> = self.live[file].deleted.iter().copied().collect();
                self.live[file].vector = Some(self.table.puffin(&deletes, &name, &rows));
            }
            _ => {
                let about = self.table.equal(&deletes, [Some(value)]);
                self.deletes.push((sequence, about));
                if way == 3 {
                    // An update deletes the old version of the row and adds the new one in the same commit.
                    let fresh = self.next_value;
                    self.next_value += 1;
                    self.now.insert(fresh);
                    return self.write(vec![value, fresh]);
                }
            }
        }
        self.now.remove(&value);
    }

    fn rewrite(&mut self, files: usize) {
        let mut chosen: Vec<usize> = (0..self.live.len()).collect();
        while chosen.len() > files {
            let at = self.below(chosen.len());
            chosen.remove(at);
        }
        let rows =
            chosen.iter().flat_map(|&file| (0..self.live[file].values.len()).map(move |row| (file, row)));
        let rows = rows.filter(|(file, row)| self.is_live(*file, *row));
        let values: Vec<i64> = rows.map(|(file, row)| self.live[file].values[row]).collect();
        chosen.iter().rev().for_each(|file| drop(self.live.remove(*file)));
        match values.is_empty() {
            true => self.append(2),
            false => self.write(values),
        }
    }

    fn change(&mut self) {
        if self.snapshots.len().is_multiple_of(UNTIL_COMPACTED) {
            self.rewrite(self.live.len());
            self.deletes.clear();
            return self.commit();
        }
        match self.below(7) {
            0 | 1 => {
                let rows = 2 + self.below(8);
                self.append(rows);
            }
            2 => self.rewrite(2),
            way => self.delete(way - 3),
        }
        self.commit();
    }

    /// Writes the manifests of a snapshot, their list, and the metadata.
    fn commit(&mut self) {
        let (sequence, folder) = (self.sequence(), self.table.path().join("metadata"));
        let entry = |sequence: i64, file: &Value| json!({"status": 0, "sequence_number": sequence, "data_file": file});
        let rows: Vec<Value> = self.live.iter().map(|file| entry(file.sequence, &file.about)).collect();
        let vectors =
            self.live.iter().filter_map(|file| file.vector.as_ref()).map(|file| entry(sequence, file));
        let deletes = self.deletes.iter().map(|(sequence, file)| entry(*sequence, file));
        let deletes: Vec<Value> = deletes.chain(vectors).collect();
        let manifest = |content: usize, entries: &[Value]| {
            let name = format!("m{sequence}-{content}.avro");
            let bytes = avro::file(&avro::of_manifest(&json!([])), "null", entries);
            fs::write(folder.join(&name), &bytes).unwrap();
            json!({"manifest_path": format!("{WRITTEN}/metadata/{name}"), "partition_spec_id": 0,
                "manifest_length": bytes.len(), "content": content, "sequence_number": sequence})
        };
        let listed = [manifest(0, &rows), manifest(1, &deletes)];
        let list = format!("s{sequence}.avro");
        fs::write(folder.join(&list), avro::file(&avro::of_list(), "null", &listed)).unwrap();
        self.snapshots.push(json!({"snapshot-id": sequence + 100, "timestamp-ms": sequence, "schema-id": 0,
            "manifest-list": format!("{WRITTEN}/metadata/{list}")}));
        let version = self.version();
        self.rows.insert(version, self.now.clone());
        self.files.insert(version, self.live.iter().map(|file| file.name.clone()).collect());
        self.describe(0);
    }

    /// Writes the metadata without the first snapshots.
    fn describe(&self, expired: usize) {
        let mut metadata = self.table.metadata();
        metadata["current-snapshot-id"] = json!(self.version());
        metadata["refs"]["main"]["snapshot-id"] = json!(self.version());
        metadata["snapshots"] = json!(self.snapshots[expired..]);
        // A reader finds either the old metadata or the new one.
        let folder = self.table.path().join("metadata");
        fs::write(folder.join("next"), metadata.to_string()).unwrap();
        fs::rename(folder.join("next"), folder.join("v1.metadata.json")).unwrap();
    }

    fn at(&self, version: u64) -> forebay::Result<Dataset> {
        OpenOptions::new().version(version).open(self.table.path())
    }
}

fn loader(dataset: &Dataset, rank: u32, world: u32) -> Loader {
    let loader = dataset.loader().shuffle(Shuffle::seeded(17).window_rows(50).lanes(12)).epochs(1);
    loader.global_batch_size(BATCH).shard(Shard::new(rank, world).unwrap()).threads(1).build().unwrap()
}

fn values(batch: &forebay::arrow::array::RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// The rows that all ranks deliver from a position on.
fn resumed(dataset: &Dataset, position: &Position, world: u32) -> Vec<i64> {
    let ranks = (0..world).flat_map(|rank| {
        let loader = loader(dataset, rank, world);
        loader.restore(position).unwrap();
        loader.next_epoch().flat_map(|batch| values(&batch.unwrap())).collect::<Vec<_>>()
    });
    ranks.collect()
}

#[test]
fn a_run_has_the_rows_of_its_snapshot_through_a_thousand_commits() {
    let mut table = Committed::new();
    let first = table.version();
    let running = loader(&Dataset::open(table.table.path()).unwrap(), 0, 1);
    let (mut epoch, mut delivered) = (running.epoch(0), Vec::new());
    let worlds = [2, 3, 4, 6, 12, 1, 2, 3, 4, 6];
    for number in 0..COMMITS {
        if number.is_multiple_of(COMMITS_A_STEP) {
            delivered.extend(values(&epoch.next().unwrap().unwrap()));
        }
        table.change();
        if number % 100 != 99 {
            continue;
        }
        // Other ranks resume the run at its snapshot, and a newly opened data set has the newest one.
        let mut all = delivered.clone();
        all.extend(resumed(&table.at(first).unwrap(), &running.position(), worlds[number / 100]));
        assert_eq!(all.len(), STEPS * BATCH as usize, "after {number} commits");
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), table.rows[&first]);
        let newest = Dataset::open(table.table.path()).unwrap();
        assert_eq!(newest.tables()[0].version, table.version());
        assert_eq!(newest.rows() as usize, table.now.len(), "after {number} commits");
        assert_eq!(ids(&newest), table.now, "after {number} commits");
    }
    epoch.for_each(|batch| delivered.extend(values(&batch.unwrap())));
    assert_eq!(
        (delivered.len(), delivered.into_iter().collect()),
        (STEPS * BATCH as usize, table.rows[&first].clone())
    );
    for version in (first..table.version()).step_by(97) {
        assert_eq!(ids(&table.at(version).unwrap()), table.rows[&version], "snapshot {version}");
    }
    expire(&table, first);
}

/// Removes the files of the first snapshot that the newest does not have, and then the first snapshot itself.
fn expire(table: &Committed, first: u64) {
    let held = loader(&table.at(first).unwrap(), 0, 1);
    let kept = &table.files[&table.version()];
    let gone: Vec<&String> = table.files[&first].difference(kept).collect();
    gone.iter().for_each(|name| fs::remove_file(table.table.path().join(name)).unwrap());
    let error = held.epoch(0).find_map(Result::err).unwrap();
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{said}");
    assert!(said.contains(&format!("snapshot {first} of the table has this file, and it is gone")), "{said}");
    assert!(gone.iter().any(|name| said.contains(&format!("/{name}"))), "{said}");
    table.describe(1);
    let error = table.at(first).err().unwrap();
    assert!(error.to_string().contains(&format!("no snapshot {first}: it has expired")), "{error}");
    assert_eq!(ids(&Dataset::open(table.table.path()).unwrap()), table.now);
}

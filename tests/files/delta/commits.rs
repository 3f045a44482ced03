//! A table that is written to while a loader reads it: each run has the rows of its own version.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use forebay::arrow::array::{AsArray, RecordBatch};
use forebay::arrow::datatypes::Int64Type;
use forebay::{Dataset, ErrorKind, Loader, OpenOptions, Position, Shard, Shuffle};
use serde_json::{Value, json};

use super::{DeltaTable, ids, only_ids, without};
use crate::iceberg::next;
use crate::vectors::inline;

const COMMITS: u64 = 1_000;

/// The rows of a step over all ranks.
const BATCH: u64 = 12;

/// The steps of the run over the first version.
const STEPS: u64 = 100;

/// The number of commits between two steps. Some steps of the run are left after the last commit.
const COMMITS_A_STEP: u64 = 11;

/// The number of commits after which all files are written again.
const UNTIL_OPTIMISED: u64 = 40;

/// A file of the newest version.
struct LiveFile {
    name: String,
    values: Vec<i64>,
    deleted: BTreeSet<u16>,
    add: Value,
}

/// A table, with the rows and the files of each of its versions.
struct Committed {
    table: DeltaTable,
    state: u64,
    version: u64,
    files_written: u64,
    next_value: i64,
    live: Vec<LiveFile>,
    /// The actions of the commit that is being made.
    actions: Vec<Value>,
    /// The rows of each version.
    rows: BTreeMap<u64, BTreeSet<i64>>,
    /// The files of each version.
    files: BTreeMap<u64, BTreeSet<String>>,
}

impl Committed {
    fn new() -> Self {
        let mut this = Committed {
            table: DeltaTable::new(),
            state: 11,
            version: 0,
            files_written: 0,
            next_value: 0,
            live: vec![],
            actions: only_ids().into(),
            rows: BTreeMap::new(),
            files: BTreeMap::new(),
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

    /// Adds a file with these rows.
    fn write(&mut self, values: Vec<i64>) {
        let name = format!("f{}.parquet", self.files_written);
        self.files_written += 1;
        let add = self.table.values(&name, &values);
        self.actions.push(add.clone());
        self.live.push(LiveFile { name, values, deleted: BTreeSet::new(), add });
    }

    fn append(&mut self, rows: usize) {
        let values: Vec<i64> = (self.next_value..).take(rows).collect();
        self.next_value += rows as i64;
        self.write(values);
    }

    /// Removes a file, together with its current deletion vector.
    fn remove(&mut self, file: usize) {
        let LiveFile { name, add, .. } = &self.live[file];
        let mut remove = json!({"remove": {"path": name, "dataChange": true}});
        if let Some(vector) = add["add"].get("deletionVector") {
            remove["remove"]["deletionVector"] = vector.clone();
        }
        self.actions.push(remove);
    }

    /// Deletes a random row by a deletion vector. If that row is deleted already, appends rows instead.
    fn delete(&mut self) {
        let file = self.below(self.live.len());
        let row = self.below(self.live[file].values.len()) as u16;
        if self.live[file].deleted.contains(&row) {
            return self.append(3);
        }
        self.remove(file);
        let live = &mut self.live[file];
        live.deleted.insert(row);
        if live.deleted.len() == live.values.len() {
            self.live.remove(file);
            return;
        }
        live.add = without(live.add.clone(), inline(&live.deleted));
        self.actions.push(live.add.clone());
    }

    /// Writes the rows of some files to one.
    fn optimise(&mut self, files: usize) {
        let mut values = Vec::new();
        for _ in 0..files.min(self.live.len()) {
            let at = self.below(self.live.len());
            self.remove(at);
            let LiveFile { values: all, deleted, .. } = self.live.remove(at);
            values
                .extend((0u16..).zip(all).filter(|(row, _)| !deleted.contains(row)).map(|(_, value)| value));
        }
        self.write(values);
    }

    fn change(&mut self) {
        match self.below(6) {
            _ if self.version.is_multiple_of(UNTIL_OPTIMISED) => self.optimise(self.live.len()),
            0 | 1 => {
                let rows = 2 + self.below(8);
                self.append(rows);
            }
            2 => self.optimise(2),
            3 => {
                // An update deletes the old version of a row and adds the new one in the same commit.
                self.delete();
                self.append(1);
            }
            _ => self.delete(),
        }
        self.commit();
    }

    fn commit(&mut self) {
        self.table.commit(self.version, &std::mem::take(&mut self.actions));
        let rows = self.live.iter().flat_map(|file| {
            let live = (0u16..).zip(&file.values).filter(|(row, _)| !file.deleted.contains(row));
            live.map(|(_, value)| *value)
        });
        self.rows.insert(self.version, rows.collect());
        self.files.insert(self.version, self.live.iter().map(|file| file.name.clone()).collect());
        self.version += 1;
    }

    fn newest(&self) -> u64 {
        self.version - 1
    }

    fn at(&self, version: u64) -> Dataset {
        OpenOptions::new().version(version).open(self.table.path()).unwrap()
    }
}

fn loader(dataset: &Dataset, rank: u32, world: u32) -> Loader {
    let loader = dataset.loader().shuffle(Shuffle::seeded(17).window_rows(50).lanes(12)).epochs(1);
    loader.global_batch_size(BATCH).shard(Shard::new(rank, world).unwrap()).threads(1).build().unwrap()
}

fn values(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// The rows of a data set, each once.
fn row_set(dataset: &Dataset) -> BTreeSet<i64> {
    let all = ids(dataset);
    let set: BTreeSet<i64> = all.iter().copied().collect();
    assert_eq!(all.len(), set.len());
    set
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
fn a_run_has_the_rows_of_its_version_through_a_thousand_commits() {
    let mut table = Committed::new();
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
        // Other ranks resume the run at its version, and a newly opened data set has the newest version.
        let mut all = delivered.clone();
        all.extend(resumed(&table.at(0), &running.position(), worlds[number as usize / 100]));
        assert_eq!(all.len() as u64, STEPS * BATCH, "after {number} commits");
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), table.rows[&0]);
        let newest = Dataset::open(table.table.path()).unwrap();
        assert_eq!(newest.tables()[0].version, table.newest());
        assert_eq!(row_set(&newest), table.rows[&table.newest()], "after {number} commits");
    }
    epoch.for_each(|batch| delivered.extend(values(&batch.unwrap())));
    assert_eq!(delivered.len() as u64, STEPS * BATCH);
    assert_eq!(delivered.into_iter().collect::<BTreeSet<_>>(), table.rows[&0]);
    for version in (0..=table.newest()).step_by(97) {
        assert_eq!(row_set(&table.at(version)), table.rows[&version], "version {version}");
    }

    // A vacuum removes the files of the first version.
    let held = loader(&table.at(0), 0, 1);
    let gone: Vec<&String> = table.files[&0].difference(&table.files[&table.newest()]).collect();
    gone.iter().for_each(|name| fs::remove_file(table.table.path().join(name)).unwrap());
    let error = held.epoch(0).find_map(Result::err).unwrap();
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{said}");
    assert!(said.contains("version 0 of the table has this file, and it is gone"), "{said}");
    assert!(gone.iter().any(|name| said.contains(&format!("/{name}"))), "{said}");
    assert_eq!(row_set(&Dataset::open(table.table.path()).unwrap()), table.rows[&table.newest()]);
}

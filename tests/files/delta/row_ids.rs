//! Row tracking: ids that the log gives to rows, and that rewritten files store.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay::arrow::array::{AsArray, Int64Array};
use forebay::arrow::datatypes::{DataType, Field, Int64Type};
use forebay::{Dataset, Deny, OpenOptions, RowId};
use serde_json::{Value, json};

use super::{DeltaTable, field, ids, inline, metadata, protocol, without};

/// The name of the column with stored ids.
const COLUMN: &str = "_row-id-col-7";

/// The actions that make a table which tracks row ids, or is prepared to.
fn tracking(is_on: bool) -> [Value; 2] {
    let mut about = metadata(&json!([field("id", &json!("long"))]), "none");
    about["metaData"]["configuration"]["delta.enableRowTracking"] = is_on.to_string().into();
    about["metaData"]["configuration"]["delta.rowTracking.materializedRowIdColumnName"] = COLUMN.into();
    [protocol(&["deletionVectors"]), about]
}

fn based(mut add: Value, first: i64) -> Value {
    add["add"]["baseRowId"] = first.into();
    add
}

/// The row id of each value.
fn tracked(dataset: &Dataset) -> BTreeMap<i64, i64> {
    let loader = dataset.loader().row_id(true).batch_size(3).build().unwrap();
    let mut found = BTreeMap::new();
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
        found.extend(column("id").values().iter().copied().zip(column("row_id").values().iter().copied()));
    }
    found
}

#[test]
fn rows_keep_the_ids_of_the_log_through_optimise_and_update() {
    let table = DeltaTable::new();
    let file = based(table.ids("a", 0..6), 40);
    table.commit(0, &[&tracking(true)[..], &[file.clone(), based(table.ids("b", 6..8), 46)]].concat());
    // The second row of `a` is updated: its old version is deleted, and its new version in `u` keeps its id.
    let columns = |values: [i64; 2], ids: [Option<i64>; 2]| {
        vec![
            (Field::new("id", DataType::Int64, true), Arc::new(Int64Array::from(values.to_vec())) as _),
            (Field::new(COLUMN, DataType::Int64, true), Arc::new(Int64Array::from(ids.to_vec())) as _),
        ]
    };
    let moved = based(table.file("u", columns([100, 101], [Some(41), None])), 48);
    let remove = json!({"remove": {"path": "a", "deletionTimestamp": 1, "dataChange": true}});
    table.commit(1, &[remove, without(file, inline(&[1].into())), moved]);
    // Two files are written again as one, in another order.
    let packed = based(table.file("o", columns([7, 6], [Some(47), Some(46)])), 60);
    let gone = json!({"remove": {"path": "b", "deletionTimestamp": 1, "dataChange": false}});
    table.commit(2, &[gone, packed]);
    let at = |version: u64| OpenOptions::new().version(version).open(table.path()).unwrap();
    let first: BTreeMap<i64, i64> = (0..8).map(|value| (value, 40 + value)).collect();
    assert_eq!(tracked(&at(0)), first);
    let mut updated = first;
    updated.remove(&1);
    updated.extend([(100, 41), (101, 49)]);
    assert_eq!(tracked(&at(1)), updated);
    assert_eq!(tracked(&at(2)), updated);
    for version in [1, 2] {
        let dataset = at(version);
        let denied = Deny::rows([41, 46].map(RowId::new));
        let loader = dataset.loader().deny(denied).batch_size(2).build().unwrap();
        let batches = loader.epoch(0).map(Result::unwrap);
        let mut left: Vec<i64> =
            batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        left.sort_unstable();
        assert_eq!(left, [0, 2, 3, 4, 5, 7, 101], "version {version}");
        let place = dataset.row(RowId::new(41)).unwrap().unwrap();
        assert!(place.file.ends_with("/u") && place.row == 0, "{place}");
    }
    let place = at(2).row(RowId::new(46)).unwrap().unwrap();
    assert!(place.file.ends_with("/o") && place.row == 1, "{place}");
}

#[test]
fn a_table_whose_tracking_is_off_or_partial_has_the_ids_of_paths() {
    for (is_on, first) in [(false, [Some(0), Some(3)]), (true, [Some(0), None])] {
        let table = DeltaTable::new();
        let files = ["a", "b"].into_iter().zip([0..3, 3..5]).zip(first).map(|((name, rows), first)| {
            let add = table.ids(name, rows);
            first.map_or(add.clone(), |first| based(add, first))
        });
        table.commit(0, &tracking(is_on).into_iter().chain(files).collect::<Vec<_>>());
        let dataset = table.open().unwrap();
        assert_eq!(ids(&dataset).len(), 5);
        assert!(tracked(&dataset).values().all(|id| *id > 1 << 32));
    }
}

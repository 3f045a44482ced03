//! Row lineage: ids that the table gives to rows, and that rewritten files store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, AsArray, Int64Array};
use forebay::arrow::datatypes::{DataType, Int64Type};
use forebay::{Dataset, Deny, ErrorKind, OnBadRow, RowId, Shuffle};
use serde_json::json;

use super::{IcebergTable, ids, numbered, with};

/// The numbers of the columns that store the lineage of rows.
const ROW_ID: i32 = 2_147_483_540;
const UPDATED: i32 = 2_147_483_539;

/// The row id of each value.
fn tracked(dataset: &Dataset) -> BTreeMap<i64, i64> {
    let loader = dataset.loader().row_id(true).shuffle(Shuffle::seeded(3)).batch_size(3).build().unwrap();
    let mut found = BTreeMap::new();
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let column = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>();
        found.extend(column("id").values().iter().copied().zip(column("row_id").values().iter().copied()));
    }
    let planned: Vec<i64> = (0..loader.len())
        .flat_map(|step| loader.which(0, step, 0).unwrap())
        .map(|place| place.id.get())
        .collect();
    assert_eq!(planned.into_iter().collect::<BTreeSet<_>>(), found.values().copied().collect());
    found
}

/// The values that are left without the rows of these ids.
fn without(dataset: &Dataset, denied: &[i64]) -> BTreeSet<i64> {
    let deny = Deny::rows(denied.iter().copied().map(RowId::new));
    let loader = dataset.loader().deny(deny).batch_size(4).build().unwrap();
    assert_eq!(loader.take_warning(), None);
    let batches = loader.epoch(0).map(Result::unwrap);
    batches.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// A file with the stored ids of its rows.
fn rewritten(table: &IcebergTable, name: &str, rows: &[(i64, Option<i64>)]) -> serde_json::Value {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(value, _)| *value)));
    let ids: ArrayRef = Arc::new(rows.iter().map(|(_, id)| *id).collect::<Int64Array>());
    let updated: ArrayRef = Arc::new(Int64Array::from(vec![Some(1); rows.len()]));
    let long = |name: &str, id: i32| numbered(name, DataType::Int64, id);
    table.file(
        name,
        vec![
            (long("id", 1), values),
            (long("_row_id", ROW_ID), ids),
            (long("_last_updated_sequence_number", UPDATED), updated),
        ],
    )
}

/// A table of two files whose ids follow from the manifest, and of `c`, which has its own first row id.
/// One row is deleted.
fn first_state() -> IcebergTable {
    let mut table = IcebergTable::of_ids();
    let files = vec![
        table.ids("a", 0..5),
        with(table.ids("c", 20..22), json!({"first_row_id": 500})),
        table.ids("b", 5..9),
    ];
    table.add(1, files).first_row_ids = vec![100];
    let deleted = table.puffin("d.puffin", "a", &[2]);
    table.add(2, vec![deleted]);
    table
}

#[test]
fn rows_have_the_ids_of_the_table_by_their_places() {
    let table = first_state();
    let dataset = table.write().open().unwrap();
    let plain = dataset.loader().batch_size(4).build().unwrap();
    plain.epoch(0).for_each(|batch| drop(batch.unwrap()));
    assert!(!dataset.catalog().has_row_ids(), "nothing is read for ids that nobody asks for");
    let expected = [(0, 100), (1, 101), (3, 103), (4, 104), (5, 105), (6, 106), (7, 107), (8, 108)];
    assert_eq!(tracked(&dataset), expected.into_iter().chain([(20, 500), (21, 501)]).collect());
    let row = |id: i64| dataset.row(RowId::new(id)).unwrap();
    let place = row(106).unwrap();
    assert!(place.file.ends_with("/b") && place.row == 1, "{place}");
    assert!([99, 109, 499, 502, -1].iter().all(|id| row(*id).is_none()));
    assert_eq!(without(&dataset, &[101, 107, 500]), [0, 3, 4, 5, 6, 8, 21].into());
}

#[test]
fn ids_and_deny_lists_survive_compaction() {
    let mut table = first_state();
    let before = table.write().open().unwrap();
    let (known, denied) = (tracked(&before), [101, 107, 500]);
    let left = without(&before, &denied);
    // All rows but those of one file are rewritten in another order, with a new row that has no id yet.
    let mut rows: Vec<(i64, Option<i64>)> =
        known.iter().rev().filter(|(value, _)| **value < 20).map(|(value, id)| (*value, Some(*id))).collect();
    rows.push((99, None));
    let kept = with(table.manifests[0].2[1]["data_file"].clone(), json!({}));
    let compacted = rewritten(&table, "r", &rows);
    table.manifests.clear();
    table.add(3, vec![compacted, kept]).first_row_ids = vec![900];
    let after = table.write().open().unwrap();
    let mut expected = known;
    expected.insert(99, 900 + rows.len() as i64 - 1);
    assert_eq!(tracked(&after), expected);
    assert_eq!(without(&after, &denied), left.into_iter().chain([99]).collect());
    let place = after.row(RowId::new(107)).unwrap().unwrap();
    assert!(place.file.ends_with("/r") && rows[place.row as usize].0 == 7, "{place}");
    assert!(after.row(RowId::new(900)).unwrap().is_none(), "the file stores another id for its first row");
    let skips = after.loader().on_bad_row(OnBadRow::skip(1)).build().unwrap();
    assert_eq!(skips.which(0, 0, 0).unwrap().len(), after.rows() as usize);
}

#[test]
fn a_row_that_an_update_moved_is_denied_by_the_id_that_it_keeps() {
    let mut table = first_state();
    let moved = rewritten(&table, "u", &[(1_000, Some(104)), (1_001, Some(102)), (2_000, Some(105))]);
    table.add(3, vec![moved]).first_row_ids = vec![100, 0, 700];
    // The old versions of the rows are deleted: one in `a`, whose vector is replaced, and one in `b`.
    let of_a = table.puffin("e.puffin", "a", &[2, 4]);
    let of_b = table.puffin("f.puffin", "b", &[0]);
    table.manifests[1] = (
        4,
        1,
        [of_a, of_b].map(|file| json!({"status": 1, "sequence_number": null, "data_file": file})).to_vec(),
    );
    let dataset = table.write().open().unwrap();
    let ids = tracked(&dataset);
    assert_eq!((ids[&1_000], ids[&1_001], ids[&2_000], ids[&6]), (104, 102, 105, 106));
    let left = without(&dataset, &[104, 105, 106]);
    assert_eq!(left, [0, 1, 3, 7, 8, 20, 21, 1_001].into());
}

#[test]
fn ids_of_a_table_that_contradict_each_other_are_refused_when_they_are_asked_for() {
    let refused = |table: &IcebergTable| {
        let dataset = table.write().open().unwrap();
        assert_eq!(ids(&dataset).len() as u64, dataset.rows(), "the rows are read all the same");
        let error = dataset.loader().row_id(true).build().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(dataset.row(RowId::new(1)).err().unwrap().to_string(), error.to_string());
        error.to_string()
    };
    let mut overlapping = first_state();
    overlapping.manifests[0].2[1]["data_file"]["first_row_id"] = json!(103);
    let error = refused(&overlapping);
    assert!(error.contains("has the row id 103 in this file and in"), "{error}");
    let mut twice = IcebergTable::of_ids();
    let files = vec![rewritten(&twice, "r", &[(1, Some(7)), (2, Some(8)), (3, Some(7))])];
    twice.add(1, files).first_row_ids = vec![0];
    assert!(refused(&twice).contains("has the row id 7"));
    let mut negative = IcebergTable::of_ids();
    let files = vec![rewritten(&negative, "r", &[(1, Some(7)), (2, Some(-8))])];
    negative.add(1, files).first_row_ids = vec![0];
    let error = refused(&negative);
    assert!(error.contains("/r, row 1, column \"_row_id\": a row has an id that no row can have"), "{error}");
    let mut endless = IcebergTable::of_ids();
    let files = vec![endless.ids("a", 0..5), endless.ids("b", 5..10)];
    endless.add(1, files).first_row_ids = vec![i64::MAX - 3];
    let error = endless.refusal();
    assert!(error.to_string().contains("more row ids than can be counted"), "{error}");
    endless.first_row_ids = vec![-5];
    assert!(refused(&endless).contains("which is none"));
}

/// If the metadata gives no ids, or several tables are opened together, rows have the ids of plain files.
#[test]
fn ids_that_no_single_table_gives_are_those_of_paths() {
    let mut table = IcebergTable::of_ids();
    let files = vec![with(table.ids("a", 0..3), json!({"first_row_id": 7}))];
    table.add(1, files).write();
    let by_path = tracked(&table.open().unwrap());
    assert!(by_path[&0] > 1 << 32, "the list of manifests gives no ids: {by_path:?}");
    table.first_row_ids = vec![0];
    let mut other = IcebergTable::of_ids();
    let files = vec![other.ids("b", 3..5)];
    other.add(1, files).first_row_ids = vec![0];
    let paths = [table.write().path(), other.write().path()].map(|path| path.to_str().unwrap().to_owned());
    let both = tracked(&Dataset::open(paths).unwrap());
    assert_eq!(both.values().collect::<BTreeSet<_>>().len(), 5);
    assert_eq!(tracked(&table.open().unwrap())[&0], 7);
}

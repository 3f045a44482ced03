//! The laws of an epoch on a table with deleted rows, which count as absent.
#![allow(clippy::unwrap_used, reason = "a test stops at the first failure")]

use std::collections::BTreeSet;

use forebay::arrow::array::{AsArray, RecordBatch};
use forebay::arrow::datatypes::Int64Type;
use forebay::{Dataset, Error, Shard, Shuffle};
use proptest::prelude::*;

/// The shares into which an epoch is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedRun {
    world: u32,
    batch_size: u64,
    seed: u64,
}

/// Generates, for each file, its number of rows and the rows that are deleted.
pub(crate) fn files() -> impl Strategy<Value = Vec<(u16, BTreeSet<u16>)>> {
    let some = (1u16..30, prop::collection::btree_set(0u16..30, 0..20));
    let existing = |(rows, deleted): (u16, BTreeSet<u16>)| {
        (rows, deleted.into_iter().filter(|row| *row < rows).collect())
    };
    prop::collection::vec(some.prop_map(existing), 1..5)
}

pub(crate) fn shared() -> impl Strategy<Value = SharedRun> {
    let some = (1u32..4, 1u64..6, any::<u64>());
    some.prop_map(|(world, batch_size, seed)| SharedRun { world, batch_size, seed })
}

/// The error of reading all rows of a data set.
pub(crate) fn failure(dataset: &Dataset) -> Error {
    match dataset.loader().build() {
        Ok(loader) => loader.epoch(0).find_map(Result::err).unwrap(),
        Err(error) => error,
    }
}

/// Checks that over all ranks each of the `live` ids, which ascend, comes once, apart from the rows that fill
/// the last step, and that all ranks have equally many batches.
pub(crate) fn hold(dataset: &Dataset, live: &[i64], shared: SharedRun) -> Result<(), TestCaseError> {
    let SharedRun { world, batch_size, seed } = shared;
    prop_assert_eq!(dataset.rows(), live.len() as u64);
    // By default each rank has a lane, and no lane may be without a row.
    if live.len() < world as usize {
        return Ok(());
    }
    let (mut delivered, mut steps) = (Vec::<i64>::new(), BTreeSet::new());
    for rank in 0..world {
        let loader = dataset.loader().shard(Shard::new(rank, world).unwrap());
        let loader = loader.shuffle(Shuffle::seeded(seed)).batch_size(batch_size).build().unwrap();
        let batches: Vec<RecordBatch> = loader.epoch(1).map(Result::unwrap).collect();
        steps.insert(batches.len());
        for batch in &batches {
            delivered.extend(batch["id"].as_primitive::<Int64Type>().values());
        }
    }
    delivered.sort_unstable();
    let padding = delivered.len() - live.len();
    delivered.dedup();
    prop_assert_eq!(delivered, live);
    prop_assert!(padding < world as usize, "{} rows that fill the last step", padding);
    prop_assert_eq!(steps.len(), 1);
    Ok(())
}

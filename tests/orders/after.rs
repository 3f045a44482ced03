//! Loaders that continue after the epochs of another loader, over data sets that may have changed since.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use forebay::arrow::datatypes::Int64Type;
use forebay::{Dataset, ErrorKind, Loader, LoaderBuilder, OpenOptions, Position, Shard, Shuffle, Stop};

use super::kit::write_batch;

/// Rows of a step.
const BATCH: u64 = 12;

fn add_file(folder: &Path, name: &str, rows: std::ops::Range<i64>) {
    std::fs::create_dir_all(folder).unwrap();
    let columns = [("n", Arc::new(Int64Array::from_iter_values(rows)) as ArrayRef)];
    write_batch(&folder.join(name), &RecordBatch::try_from_iter(columns).unwrap(), 10);
}

fn mix(folder: &Path, (rank, world): (u32, u32)) -> LoaderBuilder {
    let source = |name: &str| Dataset::open(folder.join(name)).unwrap().loader().shuffle(Shuffle::seeded(5));
    let builder = Loader::mix([(source("a"), 2.0), (source("b"), 1.0)]).unwrap().source(true);
    let builder = builder.stop(Stop::Last).repeat(false).weights_from(9, [1.0, 1.0]);
    builder.global_batch_size(BATCH).shard(Shard::new(rank, world).unwrap()).threads(2)
}

fn rows(batch: &RecordBatch) -> Vec<(i64, i64)> {
    let column = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
    column("source").into_iter().zip(column("n")).collect()
}

/// The steps of an epoch over all ranks, each with the position after it.
fn steps(ranks: &[Loader], epoch: u64) -> Vec<(Vec<(i64, i64)>, Position)> {
    let mut epochs: Vec<_> = ranks.iter().map(|rank| rank.epoch(epoch)).collect();
    let mut steps = Vec::new();
    while let Some(first) = epochs[0].next() {
        let mut step = rows(&first.unwrap());
        epochs[1..].iter_mut().for_each(|rank| step.extend(rows(&rank.next().unwrap().unwrap())));
        step.sort_unstable();
        steps.push((step, ranks[0].position()));
    }
    steps
}

fn held(steps: &[(Vec<(i64, i64)>, Position)]) -> Vec<Vec<(i64, i64)>> {
    steps.iter().map(|(step, _)| step.clone()).collect()
}

#[test]
fn a_mix_over_the_same_data_goes_on_as_if_it_were_the_same() {
    let folder = tempfile::tempdir().unwrap();
    add_file(&folder.path().join("a"), "0.parquet", 0..70);
    add_file(&folder.path().join("b"), "0.parquet", 0..50);
    let whole = mix(folder.path(), (0, 1)).build().unwrap();
    steps(std::slice::from_ref(&whole), 0);
    for epoch in [1, 3] {
        let after = mix(folder.path(), (0, 1)).after(&whole.beginning(epoch).unwrap()).build().unwrap();
        assert_eq!(after.position().step(), whole.beginning(epoch).unwrap().step());
        for epoch in [epoch, epoch + 1] {
            assert_eq!(
                held(&steps(std::slice::from_ref(&after), epoch)),
                held(&steps(std::slice::from_ref(&whole), epoch))
            );
        }
    }
}

#[test]
fn a_mix_goes_on_over_data_that_grew_and_resumes_there_on_other_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    add_file(&a, "0.parquet", 0..70);
    add_file(&b, "0.parquet", 0..50);
    let first = mix(folder.path(), (0, 1)).build().unwrap();
    let before = steps(std::slice::from_ref(&first), 0);
    first.set_weights(&[1.0, 3.0], Some(14)).unwrap();
    add_file(&b, "1.parquet", 50..90);
    let ranks = |world: u32, position: &Position| -> Vec<Loader> {
        (0..world).map(|rank| mix(folder.path(), (rank, world)).after(position).build().unwrap()).collect()
    };
    let beginning = first.beginning(1).unwrap();
    assert_eq!(beginning, first.position(), "an epoch ended");
    assert_eq!(beginning.step(), Some(before.len() as u64));
    let after = ranks(1, &beginning);
    let second = steps(&after, 1);
    let mut all: Vec<(i64, i64)> = held(&second).concat();
    all.sort_unstable();
    let expected: Vec<(i64, i64)> = (0..70).map(|n| (0, n)).chain((0..90).map(|n| (1, n))).collect();
    assert_eq!(all, expected, "an epoch has each row of the data that grew once");
    let of_b = |step: usize| second[step - before.len()].0.iter().filter(|(source, _)| *source == 1).count();
    assert_eq!((of_b(13), of_b(14)), (6, 9), "weights of the schedule, and then those that were set");
    for at in [0, 4, second.len() - 1] {
        let text = serde_json::to_string(&second[at].1).unwrap();
        let saved: Position = serde_json::from_str(&text).unwrap();
        let resumed: Vec<Loader> =
            (0..2).map(|rank| mix(folder.path(), (rank, 2)).build().unwrap()).collect();
        resumed.iter().for_each(|rank| rank.restore(&saved).unwrap());
        if at + 1 < second.len() {
            assert_eq!(held(&steps(&resumed, 1)), held(&second[at + 1..]), "resumed after step {at}");
        }
        // A loader with any number of ranks may continue after that epoch, with the lanes of the run.
        let later = resumed[0].beginning(2).unwrap();
        let alone = after[0].beginning(2).unwrap();
        assert_eq!((later.step(), &later.sources), (alone.step(), &alone.sources));
        assert_eq!(held(&steps(&ranks(2, &later), 2)), held(&steps(&ranks(1, &later), 2)));
    }
    let middle = &second[2].1;
    let error = mix(folder.path(), (0, 1)).after(middle).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateMismatch);
    assert!(
        error.to_string().starts_with("the position is at row 36 of epoch 1 (a loader goes on"),
        "{error}"
    );
}

#[test]
fn a_loader_goes_on_in_the_lanes_of_its_run() {
    let folder = tempfile::tempdir().unwrap();
    add_file(folder.path(), "0.parquet", 0..120);
    let loader = |(rank, world): (u32, u32)| {
        let builder = Dataset::open(folder.path()).unwrap().loader().shuffle(Shuffle::seeded(5));
        builder.global_batch_size(BATCH).shard(Shard::new(rank, world).unwrap())
    };
    let step = |loaders: &[Loader]| -> Vec<i64> {
        let values = |loader: &Loader| {
            let batch = loader.next_epoch().next().unwrap().unwrap();
            batch["n"].as_primitive::<Int64Type>().values().to_vec()
        };
        let mut step: Vec<i64> = loaders.iter().flat_map(values).collect();
        step.sort_unstable();
        step
    };
    let two: Vec<Loader> = (0..2).map(|rank| loader((rank, 2)).build().unwrap()).collect();
    let beginning = two[0].beginning(1).unwrap();
    add_file(folder.path(), "1.parquet", 120..200);
    let after = |world: u32| -> Vec<Loader> {
        (0..world).map(|rank| loader((rank, world)).after(&beginning).build().unwrap()).collect()
    };
    assert_eq!(after(1)[0].position().epoch, 1);
    assert_eq!(step(&after(1)), step(&after(2)));
    let of_mix = mix_of_one(folder.path()).after(&beginning).build().unwrap_err();
    assert!(of_mix.to_string().starts_with("this is a state of a loader, not of a mix"), "{of_mix}");
    for (shuffle, said) in [
        (Shuffle::seeded(6), "saved with seed 5, this loader has 6"),
        (Shuffle::seeded(5).lanes(3), "saved with lanes 2, this loader has 3"),
        (Shuffle::exact(5), "saved with shuffle window"),
    ] {
        let error = loader((0, 1)).shuffle(shuffle).after(&beginning).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StateMismatch);
        assert!(error.to_string().contains(said), "{error}");
    }
}

fn mix_of_one(folder: &Path) -> LoaderBuilder {
    Loader::mix([(Dataset::open(folder).unwrap().loader(), 1.0)]).unwrap()
}

#[test]
fn a_state_finds_its_files_in_a_folder_that_grew() {
    let folder = tempfile::tempdir().unwrap();
    (0..3).for_each(|at| add_file(folder.path(), &format!("{at}.parquet"), 10 * at..10 * at + 10));
    let saved = Dataset::open(folder.path()).unwrap().loader().build().unwrap().position();
    let earlier = || Dataset::open(folder.path()).unwrap().earlier_files(saved.sources[0].files.as_ref()?);
    let all = ["0.parquet", "1.parquet", "2.parquet"];
    assert_eq!(earlier().unwrap(), all);
    for late in ["0b.parquet", "9.parquet"] {
        add_file(folder.path(), late, 0..7);
        assert_eq!(earlier().unwrap(), all);
    }
    let grown = Dataset::open(folder.path()).unwrap();
    let error = grown.loader().build().unwrap().restore(&saved).unwrap_err().to_string();
    assert!(error.contains("; added: 0b.parquet, 9.parquet (the state is between two epochs"), "{error}");
    let again = OpenOptions::new().files(earlier().unwrap()).open(folder.path()).unwrap();
    again.loader().build().unwrap().restore(&saved).unwrap();
    // A file of the state that has other rows is not the earlier file.
    std::fs::remove_file(folder.path().join("1.parquet")).unwrap();
    assert_eq!(earlier(), None);
    add_file(folder.path(), "1.parquet", 10..21);
    assert_eq!(earlier(), None);
}

/// The steps before the resumed one are counted in the steps of the resumed run, and end where it resumed.
#[test]
fn a_step_is_found_in_a_run_that_resumed_with_other_batches() {
    let folder = tempfile::tempdir().unwrap();
    add_file(folder.path(), "0.parquet", 0..100);
    let mix = |batch: u64| {
        let source = || (Dataset::open(folder.path()).unwrap().loader(), 1.0);
        Loader::mix([source(), source()]).unwrap().batch_size(batch).build().unwrap()
    };
    let first = mix(20);
    first.epoch(0).for_each(|batch| drop(batch.unwrap()));
    let mut epoch = first.epoch(1);
    (0..2).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    assert_eq!(first.position().step(), Some(12));
    for (batch, before) in [(5, (0, 11)), (40, (1, 0))] {
        let resumed = mix(batch);
        resumed.restore(&first.position()).unwrap();
        let rewind = resumed.rewind().unwrap();
        assert_eq!(
            [11, 12, 14].map(|step| rewind.locate(step).unwrap()),
            [before, (1, 0), (1, 2)],
            "{batch}"
        );
    }
}

//! Files that change while they are read: rewritten or deleted.

use std::collections::HashSet;
use std::fs;

use forebay::arrow::array::{AsArray, RecordBatch};
use forebay::arrow::datatypes::Int64Type;
use forebay::{Dataset, ErrorKind, LoaderBuilder, OnBadRow, Shard, Shuffle};

use crate::data::{FILES, GROUPS, PREFIX, copy, name_of, rewrite, rows, rows_of};
use crate::kit::*;

/// A loader that reads little ahead, so that something is left to change.
fn narrow(dataset: &Dataset) -> LoaderBuilder {
    let shuffle = Shuffle::seeded(7).window_rows(60).lanes(2);
    dataset.loader().shuffle(shuffle).batch_size(BATCH).threads(1).memory(8 << 20)
}

#[test]
fn a_file_that_is_written_anew_is_noticed_before_any_of_its_rows() {
    let turns = times(50, 100);
    let undisturbed = local(&crate::data::BUCKET, narrow);
    for is_local in [false, true] {
        let (mut loud, mut turn) = (0, 0);
        // On a busy machine, more files are already read when they are changed, so more turns may be needed.
        while turn < turns || (loud * 3 <= turns && turn < 10 * turns) {
            let case = format!("turn {turn}, local: {is_local}");
            let bucket = copy();
            let server =
                fault_server::FaultServer::builder().folder("bucket", bucket.path()).start().unwrap();
            let dataset = match is_local {
                true => Dataset::open(bucket.path().join(PREFIX).as_path()).unwrap(),
                false => open(&server, &[("max_concurrency", "2")]).unwrap(),
            };
            let loader = narrow(&dataset).build().unwrap();
            let (file, at) = (draw(turn, 1) as usize % FILES, 1 + draw(turn, 2) as usize % 12);
            let run = run_with(loader.epoch(0), |batches| {
                if batches == at {
                    rewrite(bucket.path(), file);
                }
            });
            assert!(undisturbed.starts_with(&run.batches), "{case}: rows of the new version");
            match run.error {
                Some(error) => {
                    assert_eq!(error.kind(), ErrorKind::DatasetChanged, "{case}: {error}");
                    assert!(error.to_string().contains(&name_of(file)), "{case}: {error}");
                    loud += 1;
                }
                // The whole file had already been read.
                None => assert_eq!(run.batches.len(), undisturbed.len(), "{case}"),
            }
            turn += 1;
        }
        println!("N11: local: {is_local}: {turn} rewritten files, {loud} met and all of them noticed");
        assert!(loud * 3 > turns, "{loud} of {turn}");
    }
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn a_file_that_is_written_anew_is_never_a_row_to_skip() {
    for is_local in [false, true] {
        let (bucket, server) = served_copy();
        let dataset = match is_local {
            true => Dataset::open(bucket.path().join(PREFIX).as_path()).unwrap(),
            false => open(&server, &[]).unwrap(),
        };
        let loader = narrow(&dataset).on_bad_row(OnBadRow::skip(1_000)).build().unwrap();
        (0..FILES).for_each(|file| rewrite(bucket.path(), file));
        let run = run(loader.epoch(0));
        let error =
            run.error.unwrap_or_else(|| panic!("local: {is_local}: {} batches, no error", run.batches.len()));
        assert_eq!(error.kind(), ErrorKind::DatasetChanged, "local: {is_local}: {error}");
        assert_eq!((run.batches.len(), loader.stats().skipped_rows), (0, 0), "local: {is_local}");
    }
}

#[test]
fn a_file_of_the_same_size_that_changed_a_nanosecond_later_is_another_file() {
    let bucket = copy();
    let path = bucket.path().join(PREFIX).join(name_of(0));
    let file = fs::File::options().write(true).open(&path).unwrap();
    let second = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    file.set_modified(second).unwrap();
    let loader = narrow(&Dataset::open(path.as_path()).unwrap()).build().unwrap();
    file.set_modified(second + std::time::Duration::from_nanos(1)).unwrap();
    let error = run(loader.epoch(0)).error.expect("the change was not noticed");
    assert_eq!(error.kind(), ErrorKind::DatasetChanged, "{error}");
}

#[test]
fn a_deleted_file_is_an_error() {
    for turn in 0..times(10, 50) {
        let (bucket, server) = served_copy();
        let dataset = open(&server, &[("max_concurrency", "2")]).unwrap();
        let loader = narrow(&dataset).build().unwrap();
        let file = name_of(draw(turn, 1) as usize % FILES);
        fs::remove_file(bucket.path().join(PREFIX).join(&file)).unwrap();
        let run = run(loader.epoch(0));
        let error = run.error.unwrap_or_else(|| panic!("turn {turn}: no error"));
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains(&file), "{error}");
    }
}

#[test]
fn rows_of_deleted_files_are_skipped_and_counted_and_ranks_stay_in_step() {
    let turns = times(15, 50);
    let (mut lost, mut turn) = (0, 0);
    // On a busy machine, more files are already read when they are deleted, so more turns may be needed.
    while turn < turns || (lost == 0 && turn < 10 * turns) {
        let (bucket, server) = served_copy();
        let dataset = open(&server, &[("max_concurrency", "2")]).unwrap();
        let file = draw(turn, 1) as usize % FILES;
        let at = draw(turn, 2) as usize % 6;
        let (mut seen, mut skipped, mut steps) = (HashSet::new(), 0, Vec::new());
        // If all rows of a batch are lost, a row that is delivered again stands in for them.
        let (mut repeated, mut padded) = (0, 0);
        let loaders = [0, 1].map(|rank| {
            let shard = Shard::new(rank, 2).unwrap();
            narrow(&dataset).shard(shard).on_bad_row(OnBadRow::skip(1_000)).build().unwrap()
        });
        let mut epochs = loaders.each_ref().map(|loader| loader.epoch(0));
        let mut done = [0, 0];
        while done[0] == done[1] {
            if done[0] == at {
                fs::remove_file(bucket.path().join(PREFIX).join(name_of(file))).unwrap();
            }
            for (epoch, done) in epochs.iter_mut().zip(&mut done) {
                let Some(batch) = epoch.next() else { continue };
                ids(&batch.unwrap()).into_iter().for_each(|id| repeated += u64::from(!seen.insert(id)));
                *done += 1;
            }
            if epochs.iter().all(|epoch| epoch.remaining() == 0) {
                break;
            }
        }
        for (epoch, loader) in epochs.iter().zip(&loaders) {
            skipped += epoch.skipped().len();
            padded += loader.stats().padded_rows;
            steps.push(loader.len());
            assert!(epoch.skipped().iter().all(|row| row.error().kind() == ErrorKind::NotFound));
            assert_eq!(loader.stats().skipped_rows, epoch.skipped().len() as u64);
        }
        assert_eq!(repeated, padded, "turn {turn}: each row that comes again is counted");
        assert_eq!(done[0], done[1], "turn {turn}: ranks in step");
        assert_eq!(done[0] as u64, steps[0], "turn {turn}: all steps");
        assert_eq!(seen.len() + skipped, rows(), "turn {turn}: each row is delivered or counted");
        let whole: usize = (0..GROUPS).map(|group| rows_of(file, group)).sum();
        assert!(skipped <= whole, "turn {turn}: {skipped} of {whole}");
        lost += skipped;
        turn += 1;
    }
    println!("N12: {turn} deleted files, {lost} rows skipped, each counted");
    assert!(lost > 0);
}

fn served_copy() -> (tempfile::TempDir, fault_server::FaultServer) {
    let bucket = copy();
    let server = fault_server::FaultServer::builder().folder("bucket", bucket.path()).start().unwrap();
    (bucket, server)
}

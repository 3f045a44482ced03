//! Compares what the plan says about a step with the delivered rows.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use forebay::arrow::datatypes::Int64Type;
use forebay::filter::col;
use forebay::{
    Dataset, Deny, DiskCache, ErrorKind, Loader, LoaderBuilder, OnBadRow, Position, RowId, Shard, Shuffle,
};

use super::kit::{Draw, write_batch};

/// Writes files with these numbers of rows in row groups of `group`. Column `n` counts all rows from 0, and
/// `url` names them.
fn write(folder: &Path, rows: &[usize], group: usize) {
    let mut first = 0i64;
    for (at, rows) in rows.iter().enumerate() {
        let n = Int64Array::from_iter_values(first..first + *rows as i64);
        let url = StringArray::from_iter_values(n.values().iter().map(|n| format!("https://a.example/{n}")));
        first += *rows as i64;
        let columns = [("n", Arc::new(n) as ArrayRef), ("url", Arc::new(url) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        write_batch(&folder.join(format!("part-{at}.parquet")), &batch, group);
    }
}

fn numbers(batch: &RecordBatch) -> Vec<i64> {
    batch["n"].as_primitive::<Int64Type>().values().to_vec()
}

fn ids(batch: &RecordBatch) -> Vec<RowId> {
    batch["row_id"].as_primitive::<Int64Type>().values().iter().copied().map(RowId::new).collect()
}

/// The number of each row, by its place.
fn by_place(dataset: &Dataset) -> HashMap<(String, usize, u64), i64> {
    let loader = dataset.loader().columns(["n"]).row_id(true).build().unwrap();
    let batches: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();
    let rows = batches.iter().flat_map(|batch| ids(batch).into_iter().zip(numbers(batch)));
    let placed = rows.map(|(id, n)| {
        let row = dataset.row(id).unwrap().unwrap();
        assert_eq!(row.id, id);
        ((row.file.to_string(), row.row_group, row.row), n)
    });
    placed.collect()
}

fn said(
    loader: &Loader,
    known: &HashMap<(String, usize, u64), i64>,
    epoch: u64,
    step: u64,
    rank: u32,
) -> Vec<i64> {
    let rows = loader.which(epoch, step, rank).unwrap();
    rows.iter().map(|row| known[&(row.file.to_string(), row.row_group, row.row)]).collect()
}

/// A random data set, a loader of one rank over it, and the number of ranks.
fn topology(draw: &mut Draw, folder: &Path) -> (Dataset, LoaderBuilder, u32) {
    let files: Vec<usize> = (0..1 + draw.below(4)).map(|_| 50 + draw.below(200) as usize).collect();
    write(folder, &files, 1 + draw.below(60) as usize);
    let dataset = Dataset::open(folder).unwrap();
    let world = 1 + draw.below(4) as u32;
    let shuffle = match draw.below(3) {
        0 => Shuffle::stored(),
        1 => Shuffle::exact(draw.below(100)),
        _ => Shuffle::seeded(draw.below(100)).window_rows(1 + draw.below(150)),
    };
    let mut builder = dataset
        .loader()
        .shuffle(shuffle.lanes(1 + draw.below(6) as u32))
        .batch_size(1 + draw.below(12))
        .drop_last(draw.below(2) == 0)
        .threads(1 + draw.below(3) as usize)
        .row_id(true);
    if draw.below(2) == 0 {
        builder = builder.filter((col("n") % 7).not_eq(3));
    }
    if draw.below(2) == 0 {
        builder = builder.deny(Deny::values("url", ["https://a.example/5", "https://a.example/17"]));
    }
    if draw.below(3) == 0 {
        builder = builder
            .cache(DiskCache::open(folder.join("cache"), 1 << 28).unwrap())
            .cache_tier(forebay::Tier::Rows);
    }
    (dataset, builder, world)
}

#[test]
fn the_plan_names_the_rows_that_come() {
    let mut draw = Draw(3);
    let (mut cached, mut hits) = (0, 0);
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let (dataset, builder, world) = topology(&mut draw, folder.path());
        let known = by_place(&dataset);
        for epoch in 0..2 {
            let ranks: Vec<Loader> = (0..world)
                .map(|rank| builder.clone().shard(Shard::new(rank, world).unwrap()).build().unwrap())
                .collect();
            for (rank, loader) in ranks.iter().enumerate() {
                for (step, batch) in loader.epoch(epoch).enumerate() {
                    let batch = batch.unwrap();
                    // Any rank can tell the rows of every rank.
                    let asked = &ranks[draw.below(world.into()) as usize];
                    assert_eq!(said(asked, &known, epoch, step as u64, rank as u32), numbers(&batch));
                    let placed = asked.which(epoch, step as u64, rank as u32).unwrap();
                    assert_eq!(placed.iter().map(|row| row.id).collect::<Vec<_>>(), ids(&batch));
                }
                assert!(loader.which(epoch, loader.len(), rank as u32).is_err());
                if let Some(cache) = loader.stats().cache {
                    (cached, hits) = (cached + 1, hits + cache.hits);
                }
            }
        }
    }
    assert!(cached > 4 && hits > 0, "{hits} hits in the caches of {cached} loaders");
}

/// A position says what comes next, on any number of ranks.
#[test]
fn a_position_names_the_rows_that_come_next() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[300, 123], 40);
    let dataset = Dataset::open(folder.path()).unwrap();
    let build = |rank, world, batch| {
        let shard = Shard::new(rank, world).unwrap();
        let shuffle = Shuffle::seeded(5).window_rows(100).lanes(4);
        dataset.loader().shuffle(shuffle).shard(shard).batch_size(batch).row_id(true).build().unwrap()
    };
    let loader = build(0, 2, 8);
    let mut epoch = loader.epoch(3);
    for _ in 0..7 {
        epoch.next().unwrap().unwrap();
    }
    let position: Position =
        serde_json::from_str(&serde_json::to_string(&loader.position()).unwrap()).unwrap();
    let saved = position.split;
    assert_eq!((saved.global_batch_size, saved.world, saved.drop_last), (16, 2, false));
    for (world, batch) in [(2, 8), (1, 16), (3, 5)] {
        for rank in 0..world {
            let other = build(rank, world, batch);
            other.restore(&position).unwrap();
            let next = other.rewind().unwrap().next(rank).unwrap();
            let batch = other.next_epoch().next().unwrap().unwrap();
            assert_eq!(next.iter().map(|row| row.id).collect::<Vec<_>>(), ids(&batch));
        }
    }
}

/// The plan of an epoch that was asked for last is kept, but not if the lanes of a position replace its own.
#[test]
fn a_position_with_other_lanes_changes_what_the_plan_says() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[300, 123], 40);
    let dataset = Dataset::open(folder.path()).unwrap();
    let build = |shuffle: Shuffle| {
        let shuffle = shuffle.window_rows(100);
        dataset.loader().shuffle(shuffle).batch_size(8).row_id(true).build().unwrap()
    };
    let saved = build(Shuffle::seeded(5).lanes(4));
    let mut epoch = saved.epoch(3);
    (0..7).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let named = |loader: &Loader, step: u64| -> Vec<RowId> {
        loader.which(3, step, 0).unwrap().iter().map(|row| row.id).collect()
    };
    let loader = build(Shuffle::seeded(5));
    let before = named(&loader, 9);
    loader.restore(&saved.position()).unwrap();
    let after: Vec<Vec<RowId>> = (7..loader.len()).map(|step| named(&loader, step)).collect();
    assert_ne!(before, after[2]);
    let came: Vec<Vec<RowId>> = loader.next_epoch().map(|batch| ids(&batch.unwrap())).collect();
    assert_eq!(came, after);
    assert_eq!(came, epoch.map(|batch| ids(&batch.unwrap())).collect::<Vec<_>>());
}

#[test]
fn a_row_keeps_its_number_in_a_copy_with_other_files() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    write(one.path(), &[100, 50, 70], 30);
    write(other.path(), &[100, 50, 70], 30);
    std::fs::remove_file(other.path().join("part-0.parquet")).unwrap();
    let [one, other] = [one.path(), other.path()].map(|path| Dataset::open(path).unwrap());
    let all = by_place(&one);
    assert_eq!(all.values().collect::<BTreeSet<_>>().len(), 220);
    let rows = |dataset: &Dataset| {
        let filter = col("n").gt_eq(120);
        let loader = dataset.loader().columns(["n"]).filter(filter).row_id(true).build().unwrap();
        let batches: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();
        batches.iter().flat_map(|batch| numbers(batch).into_iter().zip(ids(batch))).collect::<Vec<_>>()
    };
    assert_eq!(rows(&one), rows(&other));
    let (_, gone) = rows(&one).into_iter().next().unwrap();
    assert!(other.row(gone).unwrap().is_some());
    let first = one.loader().row_id(true).build().unwrap().epoch(0).next().unwrap().unwrap();
    assert!(other.row(ids(&first)[0]).unwrap().is_none(), "a row of the file that is not there");
    assert!([-1, i64::MAX].iter().all(|id| one.row(RowId::new(*id)).unwrap().is_none()));
}

/// The numbers of a file's rows follow each other, so those before its first and after its last row are near.
#[test]
fn a_number_beside_those_of_the_rows_names_none() {
    let mut draw = Draw(19);
    for case in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<usize> = (0..1 + draw.below(4)).map(|_| 1 + draw.below(70) as usize).collect();
        write(folder.path(), &files, 1 + draw.below(20) as usize);
        let dataset = Dataset::open(folder.path()).unwrap();
        let loader = dataset.loader().columns(["n"]).row_id(true).build().unwrap();
        let known: BTreeSet<i64> =
            loader.epoch(0).flat_map(|batch| ids(&batch.unwrap())).map(|id| id.get()).collect();
        assert_eq!(known.len(), files.iter().sum::<usize>());
        let beside = known.iter().flat_map(|id| [id.wrapping_sub(1), id.wrapping_add(1)]);
        let beside: BTreeSet<i64> = beside.filter(|id| !known.contains(id)).collect();
        assert!(beside.len() > files.len(), "case {case}");
        for id in &beside {
            assert!(dataset.row(RowId::new(*id)).unwrap().is_none(), "case {case}: {id}");
        }
        let count = beside.len();
        let deny = Deny::rows(beside.into_iter().map(RowId::new));
        let loader = dataset.loader().deny(deny).build().unwrap();
        assert!(loader.take_warning().unwrap().starts_with(&format!("{count} of the rows")));
        assert_eq!(delivered(&[loader], 0).len(), known.len(), "case {case}");
    }
}

/// Evaluation counts each row once, on any number of ranks.
#[test]
fn a_row_that_is_repeated_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[41], 10);
    let dataset = Dataset::open(folder.path()).unwrap();
    for (world, batch) in [(1, 7), (2, 4), (3, 4), (8, 5), (8, 1), (8, 8)] {
        let mut counted = Vec::new();
        for rank in 0..world {
            let builder = dataset.loader().shard(Shard::new(rank, world).unwrap()).batch_size(batch);
            let loader = builder.shuffle(Shuffle::seeded(2)).row_id(true).row_mask(true).build().unwrap();
            let mut epoch = loader.epoch(0);
            for batch in epoch.by_ref() {
                let batch = batch.unwrap();
                let mask = batch.column_by_name("row_mask").unwrap().as_boolean();
                counted
                    .extend(mask.values().iter().zip(numbers(&batch)).filter_map(|(is, n)| is.then_some(n)));
            }
        }
        counted.sort_unstable();
        assert_eq!(counted, (0..41).collect::<Vec<i64>>(), "{world} ranks, batches of {batch}");
    }
}

#[test]
fn a_data_set_that_has_such_a_column_is_told() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[10], 10);
    let builder = Dataset::open(folder.path()).unwrap().loader().row_id(true).rename("n", "row_id");
    let error = builder.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("rename"), "{error}");
}

/// Returns all rows of an epoch over the ranks, by number.
fn delivered(ranks: &[Loader], epoch: u64) -> Vec<i64> {
    let batches = ranks.iter().flat_map(|loader| loader.epoch(epoch).map(Result::unwrap).collect::<Vec<_>>());
    let mut rows: Vec<i64> = batches.flat_map(|batch| numbers(&batch)).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn denied_rows_never_come_and_all_others_once() {
    let mut draw = Draw(11);
    for case in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let (dataset, builder, world) = topology(&mut draw, folder.path());
        let builder = builder.drop_last(false);
        let all = by_place(&dataset);
        let place_of: HashMap<i64, _> = all.iter().map(|(place, n)| (*n, place.clone())).collect();
        let id_of = |n: i64| {
            let loader = dataset.loader().filter(col("n").eq(n)).row_id(true).build().unwrap();
            ids(&loader.epoch(0).next().unwrap().unwrap())[0]
        };
        let mut denied: BTreeSet<i64> = (0..6).map(|_| draw.below(place_of.len() as u64) as i64).collect();
        let by_number = Deny::rows(denied.iter().map(|n| id_of(*n)));
        let spec = builder.clone().build().unwrap().spec().clone();
        denied.extend((!spec.deny.is_empty()).then_some([5, 17]).into_iter().flatten());
        let builder = builder.deny(spec.deny.and(by_number));
        let ranks: Vec<Loader> = (0..world)
            .map(|rank| builder.clone().shard(Shard::new(rank, world).unwrap()).build().unwrap())
            .collect();
        let is_selected = |n: &i64| !denied.contains(n) && (spec.filter.is_none() || n % 7 != 3);
        let expected: Vec<i64> = (0..place_of.len() as i64).filter(is_selected).collect();
        for epoch in 0..2 {
            let mut rows = delivered(&ranks, epoch);
            rows.dedup(); // A rank without a row in the last step repeats one.
            assert_eq!(rows, expected, "case {case}, epoch {epoch}");
        }
    }
}

#[test]
fn a_denied_row_that_is_not_there_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[20], 10);
    let dataset = Dataset::open(folder.path()).unwrap();
    let loader = dataset.loader().deny(Deny::rows([1, 2].map(RowId::new))).build().unwrap();
    assert!(loader.take_warning().unwrap().starts_with("2 of the rows"));
    assert_eq!(loader.take_warning(), None);
    let none = dataset.loader().deny(Deny::values("n", 0..20)).build().unwrap_err();
    assert!(none.to_string().contains("deny"), "{none}");
    let error = dataset.loader().deny(Deny::values("m", [1])).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownColumn);
}

#[test]
fn other_rows_are_denied_between_two_epochs_only() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[90], 10);
    let dataset = Dataset::open(folder.path()).unwrap();
    let builder = dataset.loader().shuffle(Shuffle::seeded(1)).batch_size(9);
    let loader = builder.clone().build().unwrap();
    let other = builder.deny(Deny::values("n", [7, 70])).build().unwrap();
    let mut epoch = loader.epoch(0);
    epoch.next().unwrap().unwrap();
    let error = other.restore(&loader.position()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateMismatch);
    assert!(error.to_string().contains("between two epochs"), "{error}");
    epoch.by_ref().for_each(|batch| drop(batch.unwrap()));
    other.restore(&loader.position()).unwrap();
    let rows: Vec<i64> = other.next_epoch().flat_map(|batch| numbers(&batch.unwrap())).collect();
    assert_eq!(rows.len(), 88);
    assert_eq!(other.position().epoch, 2);
    loader.restore(&other.position()).unwrap();
}

#[test]
fn the_same_rows_are_denied_within_an_epoch_in_whatever_order_they_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[90], 10);
    let dataset = Dataset::open(folder.path()).unwrap();
    let all = dataset.loader().row_id(true).build().unwrap();
    let all: Vec<RowId> = all.epoch(0).flat_map(|batch| ids(&batch.unwrap())).collect();
    let without = |rows: [usize; 2]| {
        let denied = Deny::rows(rows.map(|row| all[row]));
        dataset.loader().shuffle(Shuffle::seeded(1)).batch_size(9).deny(denied).build().unwrap()
    };
    let loader = without([7, 70]);
    loader.epoch(0).next().unwrap().unwrap();
    let position = loader.position();
    without([70, 7]).restore(&position).unwrap();
    for others in [[7, 71], [8, 70], [1, 2]] {
        let error = without(others).restore(&position).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StateMismatch, "{others:?}");
    }
}

#[test]
fn lists_of_rows_are_read_from_text_and_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let list = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(list("rows.txt"), "# bad rows\n81  # photos/a.parquet\n\n-3\n81\n").unwrap();
    assert_eq!(Deny::read(&list("rows.txt")).unwrap(), Deny::rows([81, -3].map(RowId::new)));
    std::fs::write(list("odd.txt"), "81\nx.jpg\n").unwrap();
    let error = Deny::read(&list("odd.txt")).unwrap_err().to_string();
    assert!(error.contains("odd.txt") && error.contains("line 2"), "{error}");
    std::fs::write(list("urls.txt"), "https://a.example/1\nhttps://a.example/2\n").unwrap();
    let urls = Deny::values("url", ["https://a.example/1", "https://a.example/2"]);
    assert_eq!(Deny::read_values("url", &list("urls.txt")).unwrap(), urls);
    write(folder.path(), &[3], 10);
    let of_file = Deny::read_values("url", &list("part-0.parquet")).unwrap();
    assert_eq!(of_file, Deny::values("url", (0..3).map(|n| format!("https://a.example/{n}"))));
    assert_eq!(Deny::read_values("n", &list("part-0.parquet")).unwrap(), Deny::values("n", 0..3));
    assert_eq!(Deny::read(&list("part-0.parquet")).unwrap_err().kind(), ErrorKind::UnknownColumn);
    assert_eq!(Deny::read(&list("nothing.txt")).unwrap_err().kind(), ErrorKind::NotFound);
    // A text file can list the values of a column of numbers.
    std::fs::write(list("numbers.txt"), "1\n2\n").unwrap();
    let dataset = Dataset::open(list("part-0.parquet").as_str()).unwrap();
    let deny = Deny::read_values("n", &list("numbers.txt")).unwrap();
    assert_eq!(delivered(&[dataset.loader().deny(deny).build().unwrap()], 0), [0]);
    // Editors on Windows write a byte order mark in front of text.
    std::fs::write(list("marked.txt"), "\u{feff}1\r\n2\r\n").unwrap();
    assert_eq!(Deny::read(&list("marked.txt")).unwrap(), Deny::rows([1, 2].map(RowId::new)));
    let deny = Deny::read_values("n", &list("marked.txt")).unwrap();
    assert_eq!(delivered(&[dataset.loader().deny(deny).build().unwrap()], 0), [0]);
}

#[test]
fn steps_that_are_passed_over_take_no_row_of_others_along() {
    let mut draw = Draw(29);
    for case in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let (_dataset, builder, world) = topology(&mut draw, folder.path());
        let of_rank = |builder: &LoaderBuilder, rank| {
            builder.clone().shard(Shard::new(rank, world).unwrap()).build().unwrap()
        };
        let whole = of_rank(&builder, 0);
        let steps = whole.len();
        if steps < 6 {
            continue;
        }
        // One range crosses the border between the first two epochs.
        let ranges = [(2, 4), (steps - 1, steps + 2)];
        let is_passed = |epoch: u64, step: u64| {
            ranges.iter().any(|(from, to)| (*from..*to).contains(&(epoch * steps + step)))
        };
        let builder = builder.clone().skip_steps(ranges);
        for rank in 0..world {
            let (loader, whole) = (of_rank(&builder, rank), of_rank(&builder.clone().skip_steps([]), rank));
            for epoch in 0..3 {
                let all: Vec<Vec<i64>> = whole.epoch(epoch).map(|batch| numbers(&batch.unwrap())).collect();
                let expected: Vec<_> = (0..steps).filter(|step| !is_passed(epoch, *step)).collect();
                let expected: Vec<&Vec<i64>> = expected.iter().map(|step| &all[*step as usize]).collect();
                let mut batches = Vec::new();
                let mut of_epoch = loader.epoch(epoch);
                assert_eq!(loader.len(), expected.len() as u64, "case {case}, epoch {epoch}");
                assert_eq!(of_epoch.remaining(), expected.len() as u64);
                // At random steps, another loader resumes the run, and takes the skipped ranges from the
                // position.
                for batch in of_epoch.by_ref() {
                    batches.push(numbers(&batch.unwrap()));
                    if draw.below(4) == 0 {
                        let other = of_rank(&builder.clone().skip_steps([]), rank);
                        other.restore(&loader.position()).unwrap();
                        let steps = other.len();
                        let rest: Vec<_> = other.next_epoch().map(|batch| numbers(&batch.unwrap())).collect();
                        match batches.len() == expected.len() {
                            true => assert_eq!(rest.len() as u64, steps),
                            false => assert!(rest.iter().eq(expected[batches.len()..].iter().copied())),
                        }
                    }
                }
                assert!(batches.iter().eq(expected), "case {case}, epoch {epoch}, rank {rank}");
            }
        }
    }
}

#[test]
fn a_loader_that_would_forget_passed_steps_is_told() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[90], 10);
    let dataset = Dataset::open(folder.path()).unwrap();
    let build = |ranges: &[(u64, u64)]| {
        dataset.loader().batch_size(9).skip_steps(ranges.iter().copied()).build().unwrap()
    };
    let loader = build(&[(4, 6)]);
    loader.epoch(0).next().unwrap().unwrap();
    let saved = loader.position();
    let error = build(&[(7, 8)]).restore(&saved).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateMismatch);
    assert!(error.to_string().contains("skip_steps"), "{error}");
    build(&[(4, 6), (7, 8)]).restore(&saved).unwrap();
    let mut epoch = loader.epoch(0);
    (0..4).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let without = build(&[]).which(0, 5, 0).unwrap();
    assert_eq!(loader.which(0, 5, 0).unwrap(), without, "a skipped step has its rows");
    let at_range = build(&[(7, 8)]).restore(&loader.position()).unwrap_err();
    assert!(at_range.to_string().starts_with("the state skips rows 36 to 54 of epoch 0"), "{at_range}");
    // A range of skipped steps that lies before the position has no effect any more.
    let before = build(&[(7, 8)]);
    let mut epoch = loader.epoch(0);
    (0..5).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    before.restore(&loader.position()).unwrap();
    let error = dataset.loader().batch_size(9).skip_steps([(0, 10)]).build().unwrap_err();
    assert!(error.to_string().contains("no step of epoch 0"), "{error}");
}

#[test]
fn a_bad_row_has_the_number_that_denies_it() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = forebay::arrow::array::BinaryArray::from_iter_values([&b"no image"[..]; 3]);
    let batch = RecordBatch::try_from_iter([("image", Arc::new(blobs) as ArrayRef)]).unwrap();
    let path = folder.path().join("a.parquet");
    write_batch(&path, &batch, 3);
    let dataset = Dataset::open(&path).unwrap();
    let build = |deny| {
        let builder = dataset.loader().decode("image", forebay::Image::resize(8, 8)).deny(deny);
        builder.on_bad_row(OnBadRow::skip(10)).build()
    };
    let loader = build(Deny::default()).unwrap();
    let mut epoch = loader.epoch(0);
    let error = epoch.by_ref().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("no row of this rank in epoch 0 can be delivered"), "{error}");
    let bad: Vec<RowId> = epoch.skipped().iter().map(|row| row.id).collect();
    assert_eq!(bad.len(), 3);
    assert_eq!(dataset.row(bad[2]).unwrap().map(|row| row.row), Some(2));
    let loader = build(Deny::rows(bad[..2].to_vec())).unwrap();
    let mut epoch = loader.epoch(0);
    assert!(epoch.by_ref().any(|batch| batch.is_err()));
    assert_eq!(epoch.skipped().iter().map(|row| row.id).collect::<Vec<_>>(), bad[2..]);
}

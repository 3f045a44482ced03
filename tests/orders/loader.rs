//! Loaders end to end, on data sets written for the tests.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test stops it, waits and tells"
)]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::arrow::array::*;
use forebay::arrow::buffer::OffsetBuffer;
use forebay::arrow::datatypes::{DataType, Field, Float32Type, Int64Type, Schema};
use forebay::column::{Clip, Fill};
use forebay::filter::col;
use forebay::{BadRow, Dataset, ErrorKind, Image, Loader, LoaderBuilder, OnBadRow, Shard, Shuffle, Wait};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use super::kit::write_batch;

/// If something that must happen has not happened after this long, the test fails.
const PATIENCE: Duration = Duration::from_secs(600);

/// Writes a data set of `files` files with `groups` row groups of `rows` rows each. Row `i` has `id = i`, a
/// score that is null in every fifth row, a name, and a blob of `blob` bytes.
fn written(files: usize, groups: usize, rows: usize, blob: usize) -> TempDir {
    let dir = TempDir::new().unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("score", DataType::Float32, true),
        Field::new("name", DataType::Utf8, false),
        Field::new("blob", DataType::Binary, false),
    ]));
    for file in 0..files {
        let path = dir.path().join(format!("part-{file:03}.parquet"));
        let ids = || (file * groups * rows..(file + 1) * groups * rows).map(|id| id as i64);
        let batch = RecordBatch::try_new(
            schema.clone(),
            vec![
                Arc::new(Int64Array::from_iter_values(ids())),
                Arc::new(Float32Array::from_iter(ids().map(|id| (id % 5 != 0).then_some(id as f32)))),
                Arc::new(StringArray::from_iter_values(ids().map(|id| format!("row {id}")))),
                Arc::new(BinaryArray::from_iter_values(ids().map(|id| vec![id as u8; blob]))),
            ],
        );
        write_batch(&path, &batch.unwrap(), rows);
    }
    dir
}

fn loader(dir: &TempDir) -> LoaderBuilder {
    Dataset::open(dir.path()).unwrap().loader().threads(2)
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()
}

fn epoch_ids(loader: &Loader, epoch: u64) -> Vec<Vec<i64>> {
    loader.epoch(epoch).map(|batch| ids(&batch.unwrap())).collect()
}

#[test]
fn rows_come_as_stored_when_nothing_is_shuffled() {
    let dir = written(3, 2, 50, 4);
    let loader = loader(&dir).batch_size(64).build().unwrap();
    assert_eq!(loader.len(), 5);
    let batches: Vec<RecordBatch> = loader.epoch(0).map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [64, 64, 64, 64, 44]);
    let all: Vec<i64> = batches.iter().flat_map(ids).collect();
    assert_eq!(all, (0..300).collect::<Vec<_>>());
    for batch in &batches {
        let (score, name, blob) = (
            batch.column(1).as_primitive::<Float32Type>(),
            batch.column(2).as_string::<i64>(),
            batch.column(3).as_binary::<i64>(),
        );
        for (row, id) in ids(batch).into_iter().enumerate() {
            assert_eq!(score.is_valid(row).then(|| score.value(row)), (id % 5 != 0).then_some(id as f32));
            assert_eq!(name.value(row), format!("row {id}"));
            assert_eq!(blob.value(row), vec![id as u8; 4]);
        }
    }
}

#[test]
fn every_epoch_is_another_permutation_whatever_the_threads() {
    let dir = written(4, 5, 20, 4);
    let build = |threads| {
        loader(&dir)
            .threads(threads)
            .shuffle(Shuffle::seeded(7).window_rows(100))
            .batch_size(32)
            .build()
            .unwrap()
    };
    let (one, four) = (build(1), build(4));
    let mut seen = HashSet::new();
    for epoch in 0..3 {
        let order = epoch_ids(&one, epoch);
        assert_eq!(order, epoch_ids(&four, epoch));
        let flat: Vec<i64> = order.concat();
        assert_eq!(flat.iter().collect::<HashSet<_>>().len(), 400);
        assert!(seen.insert(flat));
    }
}

#[test]
fn two_ranks_together_deliver_the_batches_of_one() {
    let dir = written(4, 5, 20, 4);
    let build = |rank, world, batch| {
        let shuffle = Shuffle::seeded(7).window_rows(60).lanes(2);
        loader(&dir)
            .shuffle(shuffle)
            .shard(Shard::new(rank, world).unwrap())
            .batch_size(batch)
            .build()
            .unwrap()
    };
    let alone = epoch_ids(&build(0, 1, 64), 0);
    let (left, right) = (epoch_ids(&build(0, 2, 32), 0), epoch_ids(&build(1, 2, 32), 0));
    assert_eq!(left.len(), right.len());
    let together: Vec<Vec<i64>> =
        left.into_iter().zip(right).map(|(left, right)| [left, right].concat()).collect();
    assert_eq!(alone, together);
}

#[test]
fn a_saved_position_resumes_in_another_loader_with_the_same_tail() {
    let dir = written(4, 5, 20, 4);
    let build = |threads| {
        loader(&dir)
            .threads(threads)
            .shuffle(Shuffle::seeded(3).window_rows(80))
            .batch_size(24)
            .build()
            .unwrap()
    };
    let whole = build(2);
    let undisturbed = epoch_ids(&whole, 0);
    for taken in 0..undisturbed.len() {
        let first = build(1);
        let mut epoch = first.next_epoch();
        (0..taken).for_each(|_| {
            epoch.next().unwrap().unwrap();
        });
        let state = serde_json::to_string(&first.position()).unwrap();
        let second = build(3);
        second.restore(&serde_json::from_str(&state).unwrap()).unwrap();
        let tail: Vec<Vec<i64>> = second.next_epoch().map(|batch| ids(&batch.unwrap())).collect();
        assert_eq!(tail, undisturbed[taken..]);
        assert_eq!(second.position().epoch, 1, "the epoch after is next");
    }
}

/// With other batches, the rows that are left may be fewer than a step has.
#[test]
fn a_position_that_leaves_no_whole_step_is_the_beginning_of_the_next_epoch() {
    let dir = written(1, 2, 50, 4);
    let built = |rows: u64, is_mix: bool| {
        let source =
            || Dataset::open(dir.path()).unwrap().loader().columns(["id"]).shuffle(Shuffle::seeded(1));
        let builder = if is_mix { Loader::mix([(source(), 1.0)]).unwrap() } else { source() };
        builder.batch_size(rows).drop_last(true).build().unwrap()
    };
    for is_mix in [false, true] {
        let (ten, twelve) = (built(10, is_mix), built(12, is_mix));
        let mut epoch = ten.epoch(0);
        (0..9).for_each(|_| drop(epoch.next().unwrap().unwrap()));
        let saved = ten.position();
        assert_eq!((saved.epoch, saved.row), (0, 90));
        twelve.restore(&saved).unwrap();
        assert_eq!((twelve.position().epoch, twelve.position().row), (1, 0), "mix: {is_mix}");
        let delivered: u64 = twelve.next_epoch().map(|batch| batch.unwrap().num_rows() as u64).sum();
        assert_eq!(delivered, 96);
    }
}

#[test]
fn a_state_of_another_data_set_or_seed_is_refused() {
    let (here, there) = (written(2, 2, 20, 4), written(2, 2, 21, 4));
    let build = |dir, seed| loader(dir).shuffle(Shuffle::seeded(seed)).build().unwrap();
    let state = build(&here, 1).position();
    for other in [build(&there, 1), build(&here, 2)] {
        assert_eq!(other.restore(&state).unwrap_err().kind(), ErrorKind::StateMismatch);
    }
    build(&here, 1).restore(&state).unwrap();
}

#[test]
fn a_state_of_another_order_is_refused_by_the_option_that_makes_it() {
    let dir = written(2, 2, 20, 4);
    let order = Shuffle::seeded(1).window_rows(40);
    let state = loader(&dir).shuffle(order).build().unwrap().position();
    let text = serde_json::to_string(&state).unwrap();
    for (other, said) in [
        (loader(&dir).shuffle(order.piece_rows(5)), "piece_rows none, this loader has 5"),
        (loader(&dir).shuffle(order.lanes(2)), "lanes 1, this loader has 2"),
        (loader(&dir).shuffle(order.window_rows(20)), "a window in row groups of 2, this loader has 1"),
        (loader(&dir).shuffle(Shuffle::exact(1)), "shuffle window, this loader has exact"),
        (loader(&dir).shuffle(order).balance(["id"]), "balance none, this loader has id"),
        (loader(&dir).shuffle(order).filter(col("id").lt(60)), "filter none"),
    ] {
        let error = other.build().unwrap().restore(&state).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StateMismatch);
        assert!(error.to_string().contains(&format!("was saved with {said}")), "{error}");
    }
    for (row, epoch) in [(81, 0), (1, u64::MAX)] {
        let damaged = text.replace("\"row\":0", &format!("\"row\":{row}"));
        let damaged = damaged.replace("\"epoch\":0", &format!("\"epoch\":{epoch}"));
        let damaged = serde_json::from_str(&damaged).unwrap();
        let error = loader(&dir).shuffle(order).build().unwrap().restore(&damaged).unwrap_err();
        assert!(error.to_string().starts_with("the state is damaged"), "{error}");
    }
}

#[test]
fn row_groups_larger_than_the_budget_pass_one_at_a_time() {
    // The row groups have 3 MB, the budget 1 MB, and batches straddle row groups.
    let dir = written(2, 3, 300, 10_000);
    let loader = loader(&dir).columns(["id", "blob"]).memory(1 << 20).batch_size(16).build().unwrap();
    let all: Vec<i64> = epoch_ids(&loader, 0).concat();
    assert_eq!(all, (0..1_800).collect::<Vec<_>>());
    // Closing drops what was prefetched for the next epoch, and with it the last reserved memory.
    loader.close();
    let started = Instant::now();
    while loader.stats().memory.row_groups > 0 {
        assert!(started.elapsed() < PATIENCE, "not all permits are back");
        std::thread::yield_now();
    }
}

#[test]
fn a_window_over_the_budget_is_refused_with_one_that_fits() {
    let dir = written(2, 5, 100, 10_000);
    let shuffled = |rows| {
        loader(&dir).shuffle(Shuffle::seeded(1).window_rows(rows)).memory(8 << 20).batch_size(10).build()
    };
    let refused = shuffled(1_000).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    let words = refused.to_string();
    let fits: u64 = words.split("window_rows=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(epoch_ids(&shuffled(fits).unwrap(), 0).concat().len(), 1_000);
}

#[test]
fn bytes_in_flight_stay_under_the_budget() {
    let dir = written(4, 5, 100, 10_000);
    let budget = 12 << 20;
    let loader = loader(&dir)
        .shuffle(Shuffle::seeded(1).window_rows(400))
        .memory(budget)
        .batch_size(16)
        .build()
        .unwrap();
    for (step, batch) in loader.epoch(0).enumerate() {
        batch.unwrap();
        let memory = loader.stats().memory;
        assert!(memory.row_groups + memory.batches <= budget, "{memory:?}");
        assert!(memory.batches >= 16 * 10_000, "a batch takes 16 blobs: {memory:?}");
        // In the middle of the epoch, at least three row groups are in the window, with a MB of blobs each.
        assert!(!(10..60).contains(&step) || memory.row_groups > 3_000_000, "step {step}: {memory:?}");
    }
}

#[test]
fn batches_take_as_much_of_the_budget_if_their_rows_stay_in_memory() {
    let dir = written(2, 2, 100, 10_000);
    let loader = loader(&dir).shuffle(Shuffle::seeded(1)).memory(256 << 20).batch_size(16).build().unwrap();
    let read_after = [0, 1, 2].map(|epoch| {
        for batch in loader.epoch(epoch) {
            batch.unwrap();
            let memory = loader.stats().memory;
            assert!(memory.batches >= 16 * 10_000, "epoch {epoch}: {memory:?}");
        }
        loader.stats().traffic.bytes_read
    });
    assert_eq!(read_after, [read_after[0]; 3], "rows are read once");
}

#[test]
fn an_exact_shuffle_is_a_permutation() {
    let dir = written(2, 5, 30, 4);
    let loader = loader(&dir).shuffle(Shuffle::exact(5)).batch_size(32).build().unwrap();
    let first = epoch_ids(&loader, 0).concat();
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 300);
    assert_ne!(first, epoch_ids(&loader, 1).concat());
}

#[test]
fn leaving_an_epoch_early_is_prompt_and_the_next_one_is_whole() {
    let dir = written(4, 10, 100, 1_000);
    let loader = loader(&dir).shuffle(Shuffle::seeded(1).window_rows(1_000)).batch_size(8).build().unwrap();
    for taken in [0, 1, 7] {
        let leaves = || {
            let mut epoch = loader.next_epoch();
            (0..taken).for_each(|_| {
                epoch.next().unwrap().unwrap();
            });
            let started = Instant::now();
            drop(epoch);
            started.elapsed()
        };
        // Other programs may slow down some tries, but a loader that waited for the rest of the epoch would
        // be slow in each try.
        assert!((0..20).any(|_| leaves() < Duration::from_millis(200)), "after {taken} batches");
    }
    assert_eq!(loader.next_epoch().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 4_000);
}

#[test]
fn an_epoch_outlives_its_loader_and_a_second_epoch_ends_the_first() {
    let dir = written(2, 5, 50, 4);
    let mut orphan = loader(&dir).batch_size(50).build().unwrap().next_epoch();
    assert_eq!(orphan.by_ref().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 500);
    let loader = loader(&dir).batch_size(1).build().unwrap();
    let mut first = loader.epoch(0);
    first.next().unwrap().unwrap();
    let second = loader.epoch(1);
    let ended = first.find_map(Result::err).unwrap();
    assert_eq!(ended.kind(), ErrorKind::Closed);
    assert_eq!(second.count(), 500);
    loader.close();
    assert_eq!(loader.next_epoch().find_map(Result::err).unwrap().kind(), ErrorKind::Closed);
}

#[test]
fn a_closed_loader_takes_no_position_no_weights_and_fills_no_cache() {
    let (dir, folder) = (written(1, 2, 50, 4), TempDir::new().unwrap());
    let cache = forebay::DiskCache::open(folder.path(), 1 << 30).unwrap();
    let cached = loader(&dir).cache(cache).cache_tier(forebay::Tier::Rows).build().unwrap();
    let source = || (Dataset::open(dir.path()).unwrap().loader(), 1.0);
    let mix = || Loader::mix([source(), source()]).unwrap().threads(2).build().unwrap();
    let (closed, saved) = (mix(), (cached.position(), mix().position()));
    cached.close();
    closed.close();
    for refusal in [
        cached.restore(&saved.0),
        cached.warm(|_, _| ()).map(drop),
        closed.restore(&saved.1),
        closed.set_weights(&[1.0, 2.0], None),
    ] {
        let error = refusal.unwrap_err();
        assert_eq!((error.kind(), error.cause()), (ErrorKind::Closed, "the loader was closed"));
    }
}

#[test]
fn wrong_requests_get_one_clear_sentence() {
    let dir = written(1, 1, 10, 4);
    let refusals = [
        (loader(&dir).batch_size(0).build(), ErrorKind::Invalid, "batch_size is 0"),
        (
            loader(&dir).global_batch_size(u64::MAX).build(),
            ErrorKind::Invalid,
            "global_batch_size is 18446744073709551615: 18446744073709551615 rows for a rank",
        ),
        (loader(&dir).columns(["nmae"]).build(), ErrorKind::UnknownColumn, "did you mean \"name\""),
        (loader(&dir).decode("name", Image::resize(8, 8)).build(), ErrorKind::Invalid, "column \"name\""),
        (
            loader(&dir).columns(["id"]).decode("blob", Image::resize(8, 8)).build(),
            ErrorKind::Invalid,
            "not among the columns",
        ),
        (loader(&dir).fill_null("id", 0.5).build(), ErrorKind::Invalid, "0.5 is not a value"),
        (loader(&dir).fill_null("name", 0.0).build(), ErrorKind::Invalid, "give a text"),
        (loader(&dir).fill_null("blob", "x").build(), ErrorKind::Invalid, "give bytes"),
        (loader(&dir).fill_null("id", "x").build(), ErrorKind::Invalid, "\"x\" is not a value of type int64"),
        (
            loader(&dir).decode("blob", Image::resize(8, 8)).fill_null("blob", vec![0]).build(),
            ErrorKind::Invalid,
            "is not a value of type uint8",
        ),
        (
            loader(&dir).shuffle(Shuffle::stored().lanes(20)).build(),
            ErrorKind::Invalid,
            "20 lanes need at least 20 rows; the selection has 10",
        ),
        (loader(&dir).drop_last(true).batch_size(11).build(), ErrorKind::Invalid, "do not fill one step"),
        (
            loader(&dir).batch_size(1 << 30).memory(1 << 30).build(),
            ErrorKind::TooLarge,
            "counted with 1073741824 rows each, and the data set has 10",
        ),
    ];
    for (refusal, kind, words) in refusals {
        let error = refusal.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(
        Shard::new(2, 2).unwrap_err().to_string(),
        "rank 2 is outside a world of 2 (ranks run from 0 to 1)"
    );
}

#[test]
fn bad_images_are_raised_with_their_place_or_skipped_and_counted() {
    let dir = TempDir::new().unwrap();
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("image", DataType::Binary, true),
    ]));
    let good = forebay_image::encode_jpeg(&[120; 16 * 16 * 3], 16, 16, 90).unwrap();
    let images = (0..100).map(|id| match id {
        13 => Some(good[..good.len() / 2].to_vec()),
        57 => None,
        _ => Some(good.clone()),
    });
    let file = std::fs::File::create(dir.path().join("a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema.clone(), None).unwrap();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from_iter_values(0..100)), Arc::new(BinaryArray::from_iter(images))];
    writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.close().unwrap();

    let build = |on_bad_row| {
        loader(&dir)
            .decode("image", Image::resize(8, 8))
            .on_bad_row(on_bad_row)
            .batch_size(10)
            .build()
            .unwrap()
    };
    let raised = build(OnBadRow::Raise).epoch(0).find_map(Result::err).unwrap();
    assert_eq!(raised.kind(), ErrorKind::BadRow);
    assert_eq!((raised.place().row_group, raised.place().row), (Some(0), Some(13)));
    assert!(raised.to_string().contains("a.parquet, row group 0, row 13, column \"image\": "), "{raised}");

    let skipping = build(OnBadRow::skip(2));
    let batches = epoch_ids(&skipping, 0);
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [10, 9, 10, 10, 10, 9, 10, 10, 10, 10]);
    assert_eq!(batches.concat(), (0..100).filter(|id| ![13, 57].contains(id)).collect::<Vec<_>>());
    assert_eq!(skipping.stats().skipped_rows, 2);
    let exceeded = build(OnBadRow::skip(1)).epoch(0).find_map(Result::err).unwrap();
    assert_eq!(exceeded.place().row, Some(57));
}

/// Writes one file with row groups of `rows` rows.
fn write(dir: &TempDir, rows: usize, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    let batch = batch.unwrap();
    write_batch(&dir.path().join("a.parquet"), &batch, rows);
}

/// Thirty rows with every kind of column. Each column is null in another row: `number` in 3, `flag` in 7, a
/// value of `list` in 11, `list` in 12, a value of `pair` in 20, `cell` in 25, `text` in 28.
fn with_nulls() -> TempDir {
    let dir = TempDir::new().unwrap();
    let but = |null: i64| (0..30).map(move |row| (row != null).then_some(row));
    let lists = (0..30).map(|row| match row {
        12 => None,
        _ => Some((0..row % 4).map(|at| (row != 11 || at != 1).then_some(row)).collect::<Vec<_>>()),
    });
    let pairs = (0..30).map(|row| Some([Some(row), (row != 20).then_some(-row)]));
    let cells = but(25).map(|row| row.map(|row| [row as u8; 2]));
    write(
        &dir,
        8,
        vec![
            ("id", Arc::new(Int64Array::from_iter_values(0..30))),
            ("number", Arc::new(Float32Array::from_iter(but(3).map(|row| row.map(|row| row as f32))))),
            ("flag", Arc::new(BooleanArray::from_iter(but(7).map(|row| row.map(|row| row % 2 == 0))))),
            ("list", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
            ("pair", Arc::new(FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(pairs, 2))),
            ("cell", Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(cells, 2).unwrap())),
            ("text", Arc::new(StringArray::from_iter(but(28).map(|row| row.map(|row| row.to_string()))))),
        ],
    );
    dir
}

#[test]
fn rows_that_miss_a_value_are_left_out_where_bad_rows_are() {
    let dir = with_nulls();
    for (shuffle, batch) in [(Shuffle::stored(), 7), (Shuffle::seeded(3).window_rows(16), 4)] {
        let build = |at_most| {
            let skipping = loader(&dir).on_bad_row(OnBadRow::skip(at_most));
            skipping.shuffle(shuffle).batch_size(batch).build().unwrap()
        };
        let six = build(6);
        let mut epoch = six.epoch(0);
        let mut rows: Vec<i64> = Vec::new();
        for batch in epoch.by_ref() {
            let batch = batch.unwrap();
            for column in ["number", "flag", "list", "pair", "cell"] {
                assert_eq!(
                    forebay::bindings::null_rows(batch.column_by_name(column).unwrap()),
                    [0; 0],
                    "{column}"
                );
            }
            rows.extend(ids(&batch));
        }
        rows.sort_unstable();
        let bad = [3, 7, 11, 12, 20, 25];
        assert_eq!(rows, (0..30).filter(|row| !bad.contains(row)).collect::<Vec<_>>());
        let mut places: Vec<(u64, String)> = epoch
            .skipped()
            .iter()
            .map(|row| row.error().place().clone())
            .map(|at| {
                assert!(at.file.as_deref().unwrap().ends_with("a.parquet"));
                (8 * at.row_group.unwrap() as u64 + at.row.unwrap(), at.column.as_deref().unwrap().to_owned())
            })
            .collect();
        places.sort();
        let named = [(3, "number"), (7, "flag"), (11, "list"), (12, "list"), (20, "pair"), (25, "cell")];
        assert_eq!(places, named.map(|(row, column)| (row, column.to_owned())));
        assert_eq!(six.stats().skipped_rows, 6);
        let exceeded = build(5).epoch(0).find_map(Result::err).unwrap();
        assert!(exceeded.to_string().contains("null where a value is needed"), "{exceeded}");
    }
}

#[test]
fn nulls_are_delivered_where_bad_rows_raise_and_filled_where_a_value_is_given() {
    let dir = with_nulls();
    let all: Vec<i64> = (0..30).collect();
    let raising = loader(&dir).build().unwrap();
    assert_eq!(epoch_ids(&raising, 0).concat(), all);
    let filled = loader(&dir)
        .fill_null("number", 0.5)
        .fill_null("flag", 1.0)
        .fill_null("list", -1.0)
        .fill_null("pair", -1.0)
        .fill_null("cell", 9.0)
        .fill_null("text", "none")
        .on_bad_row(OnBadRow::skip(0))
        .batch_size(30)
        .build()
        .unwrap();
    let batch = filled.epoch(0).next().unwrap().unwrap();
    assert_eq!(ids(&batch), all);
    let column = |name: &str| batch.column_by_name(name).unwrap();
    assert!(batch.columns().iter().all(|column| column.logical_null_count() == 0));
    assert_eq!(column("number").as_primitive::<Float32Type>().value(3), 0.5);
    assert!(column("flag").as_boolean().value(7));
    let lists = column("list").as_list::<i64>();
    assert_eq!(lists.value(11).as_primitive::<Int64Type>().values(), &[11, -1, 11]);
    assert!(lists.value(12).is_empty());
    let pairs = column("pair").as_fixed_size_list();
    assert_eq!(pairs.value(20).as_primitive::<Int64Type>().values(), &[20, -1]);
    assert_eq!(column("cell").as_fixed_size_binary().value(25), [9, 9]);
    assert_eq!(column("text").as_string::<i64>().value(28), "none");
    let cells = loader(&dir).columns(["cell"]).batch_size(30).fill_null("cell", vec![7, 8]).build().unwrap();
    let batch = cells.epoch(0).next().unwrap().unwrap();
    assert_eq!(batch.column(0).as_fixed_size_binary().value(25), [7, 8]);
    for fill in [Fill::from(vec![7]), "ab".into()] {
        let refused = loader(&dir).fill_null("cell", fill).build().unwrap_err().to_string();
        assert!(refused.contains("column \"cell\"") && refused.contains("give 2 bytes"), "{refused}");
    }
}

/// Settings that were once accepted and then waited for ever: lanes that share row groups, steps that lanes
/// do not divide, a lane that many ranks share, and row groups much smaller than the budget's unit.
#[test]
fn what_is_accepted_runs_to_its_end() {
    let wide = written(1, 2, 5_000, 100);
    let many = written(1, 256, 40, 100);
    let tiny = written(1, 500, 4, 4);
    let mut accepted = 0;
    let mut run = |dir: &TempDir, shuffle: Shuffle, world: u32, batch: u64, memory: u64| {
        let shard = Shard::new(world / 2, world).unwrap();
        match loader(dir).shuffle(shuffle).shard(shard).batch_size(batch).memory(memory).build() {
            Ok(loader) => {
                assert_eq!(
                    loader.epoch(0).map(|batch| u64::from(batch.unwrap().num_rows() > 0)).sum::<u64>(),
                    loader.len()
                );
                accepted += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}"),
        }
    };
    for memory in (1..40).map(|step| step * (64 << 10)) {
        run(&wide, Shuffle::seeded(1).lanes(8), 1, 16, memory);
        run(&many, Shuffle::seeded(1).lanes(24).window_rows(80), 8, 32, memory);
        run(&many, Shuffle::seeded(1).lanes(1).window_rows(640), 16, 40, memory);
        run(&many, Shuffle::seeded(1).lanes(6).window_rows(200), 4, 10, memory);
        run(&tiny, Shuffle::exact(1), 1, 16, memory);
    }
    assert!(accepted > 40, "{accepted} settings ran");
}

#[test]
fn a_position_does_not_move_for_an_epoch_that_does_not_begin() {
    let dir = written(1, 2, 50, 4);
    let loader = loader(&dir).batch_size(10).build().unwrap();
    loader.epoch(3).take(2).for_each(|batch| drop(batch.unwrap()));
    loader.close();
    assert!(loader.next_epoch().next().unwrap().is_err());
    assert_eq!((loader.position().epoch, loader.position().row), (3, 20));
}

/// Reads epoch 0 to its end, then waits until at least `least` bytes were read and reading has stopped.
/// Returns the bytes read and the bytes needed, without the bytes of footers.
fn traffic_of_one_epoch(loader: &Loader, least: u64) -> (u64, u64) {
    const QUIET: Duration = Duration::from_millis(200);
    let footers = loader.stats().traffic;
    loader.epoch(0).for_each(|batch| drop(batch.unwrap()));
    let (mut before, started) = (0, Instant::now());
    loop {
        let traffic = loader.stats().traffic.since(&footers);
        let is_enough = traffic.bytes_read >= least || started.elapsed() > PATIENCE;
        if is_enough && traffic.bytes_read == before {
            return (traffic.bytes_read, traffic.bytes_needed);
        }
        before = traffic.bytes_read;
        std::thread::sleep(QUIET);
    }
}

#[test]
fn a_run_that_says_how_many_epochs_it_has_reads_nothing_beyond_them() {
    let dir = written(1, 40, 50, 2_000);
    // This memory is too small to keep all rows, so each epoch reads them again.
    let seeded = || loader(&dir).shuffle(Shuffle::seeded(1)).memory(32 << 20);
    let build = |epochs| seeded().epochs(epochs).build().unwrap();
    let once = build(1).plan(0).unwrap().reads.unwrap().stored_bytes;
    assert_eq!(traffic_of_one_epoch(&build(1), once), (once, once));
    let two = build(2);
    assert_eq!(traffic_of_one_epoch(&two, 2 * once).0, 2 * once, "the next one is at hand when it begins");
    two.epoch(1).for_each(|batch| drop(batch.unwrap()));
    let traffic = two.stats().traffic;
    assert_eq!(traffic.bytes_read, traffic.bytes_needed, "and nothing was read in vain");
}

#[test]
fn what_is_read_for_an_epoch_that_may_never_begin_is_bounded_and_not_needed() {
    let dir = written(1, 200, 50, 2_000);
    // This memory is too small to keep all rows, so each epoch reads them again.
    let loader = loader(&dir).batch_size(50).memory(128 << 20).build().unwrap();
    let once = loader.plan(0).unwrap().reads.unwrap().stored_bytes;
    let (read, needed) = traffic_of_one_epoch(&loader, once + 1);
    assert_eq!(needed, once);
    assert!(read > once, "the first row groups of the next epoch are there");
    // Batches are made at most 32 ahead, and a local disk is read four row groups at a time.
    assert!(read - once <= once / 200 * (32 + 4 + 1), "{read} bytes of {once}");
}

#[test]
fn a_cache_is_warmed_to_the_last_row_group() {
    let (dir, folder) = (written(1, 120, 10, 100), TempDir::new().unwrap());
    let cache = forebay::DiskCache::open(folder.path(), 1 << 30).unwrap();
    let loader = loader(&dir).cache(cache).cache_tier(forebay::Tier::Rows).build().unwrap();
    let stats = loader.warm(|_, _| ()).unwrap();
    assert_eq!(stats.entries, 120);
}

#[test]
fn a_column_whose_nulls_are_filled_is_not_nullable() {
    let dir = written(1, 1, 20, 1);
    let nullable = |loader: &Loader| loader.schema().field_with_name("score").unwrap().is_nullable();
    assert!(nullable(&loader(&dir).build().unwrap()));
    assert!(!nullable(&loader(&dir).fill_null("score", 1.0).build().unwrap()));
}

#[test]
fn a_lane_without_a_row_is_refused() {
    let dir = written(1, 3, 1, 1);
    let build = |lanes| loader(&dir).shuffle(Shuffle::seeded(1).lanes(lanes)).batch_size(1).build();
    assert_eq!(epoch_ids(&build(3).unwrap(), 0).len(), 3);
    assert_eq!(build(4).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn of_batches_that_are_made_together_each_is_shorter_by_its_own_bad_rows() {
    let dir = written(1, 2, 100, 1);
    let loader = loader(&dir).columns(["id", "score"]).batch_size(8).on_bad_row(OnBadRow::skip(1_000));
    let mut epoch = loader.build().unwrap().epoch(0);
    let mut end = 0;
    while let Some(batch) = epoch.next() {
        let all = end..end + 8;
        end += 8;
        assert_eq!(ids(&batch.unwrap()), all.filter(|id| id % 5 != 0).collect::<Vec<_>>());
        // A bad row is reported with the step that it is left out of, neither earlier nor later.
        let place = |bad: &BadRow| (bad.error().place().row_group, bad.error().place().row);
        let row = |bad: &BadRow| place(bad).0.unwrap() as i64 * 100 + place(bad).1.unwrap() as i64;
        let found: Vec<i64> = epoch.skipped().iter().map(row).collect();
        assert_eq!(found, (0..end).filter(|id| id % 5 == 0).collect::<Vec<_>>());
    }
    assert_eq!(end, 200);
}

#[test]
fn columns_that_images_make_do_not_have_the_names_of_stored_ones() {
    let dir = TempDir::new().unwrap();
    let images = || BinaryArray::from_iter_values((0..8).map(|_| [0]));
    let item = Arc::new(Field::new("item", DataType::Binary, true));
    let frames = ListArray::new(item, OffsetBuffer::from_repeated_length(1, 8), Arc::new(images()), None);
    let numbers = || Arc::new(Int64Array::from_iter_values(0..8)) as ArrayRef;
    let taken = ["image.size", "image.geometry", "frames.size"];
    let columns: [(&str, ArrayRef); 2] = [("image", Arc::new(images())), ("frames", Arc::new(frames))];
    write(&dir, 8, columns.into_iter().chain(taken.map(|name| (name, numbers()))).collect());
    let refused = |builder: fn(LoaderBuilder) -> LoaderBuilder, name: &str, said: &str| {
        let error = builder(loader(&dir)).build().unwrap_err();
        assert_eq!((error.kind(), error.place().column.as_deref()), (ErrorKind::Invalid, Some(name)));
        assert!(error.to_string().contains(said), "{error}");
        // The stored column is not in the way if it is not read.
        let others = ["image", "frames"].into_iter().chain(taken.into_iter().filter(|taken| *taken != name));
        let loader = builder(loader(&dir)).columns(others).build().unwrap();
        assert!(loader.schema().field_with_name(name).is_ok());
    };
    let sizes = "the sizes of images have the name of a stored column";
    refused(|loader| loader.decode("image", Image::fit((8, 8))), taken[0], sizes);
    let geometry = "the geometry of images has the name of a stored column";
    refused(|loader| loader.decode("image", Image::resize(8, 8).emit_geometry()), taken[1], geometry);
    refused(|loader| loader.clip("frames", Clip::new(Image::fit((8, 8))).frames(1)), taken[2], sizes);
}

#[test]
fn an_empty_data_set_is_refused_with_a_cache_too() {
    let (dir, folder) = (written(1, 0, 1, 1), TempDir::new().unwrap());
    let cache = forebay::DiskCache::open(folder.path(), 1 << 20).unwrap();
    let error = loader(&dir).cache(cache).build().unwrap_err();
    assert_eq!((error.kind(), error.cause()), (ErrorKind::Invalid, "no row is selected"));
}

#[test]
fn the_memory_that_a_refusal_names_is_enough() {
    let dir = written(1, 40, 50, 20_000);
    for shuffle in [Shuffle::exact(1), Shuffle::seeded(1), Shuffle::seeded(1).lanes(4)] {
        for batch in [1, 8, 64] {
            let build = |memory| loader(&dir).shuffle(shuffle).batch_size(batch).memory(memory).build();
            let error = build(8 << 20).unwrap_err().to_string();
            let Some((_, named)) = error.split_once("memory to ") else { panic!("{error}") };
            let number = named.split(' ').next().unwrap().parse::<f64>().unwrap();
            assert!(named.contains("MiB"), "{error}");
            let memory = (number * f64::from(1 << 20)).ceil() as u64;
            let again = build(memory).map(|_| ()).map_err(|error| error.to_string());
            // Batches are checked first, so the memory that their error names may be too small for row
            // groups.
            let again = match again {
                Err(second) if error.contains("batches of") => {
                    let named = second.split_once("memory to ").unwrap().1;
                    let number = named.split(' ').next().unwrap().parse::<f64>().unwrap();
                    build((number * f64::from(1 << 20)).ceil() as u64)
                        .map(|_| ())
                        .map_err(|error| error.to_string())
                }
                again => again,
            };
            assert_eq!(again, Ok(()), "after {error}");
        }
    }
}

/// Small row groups are read and decoded together, but only the damaged one among them is refused.
#[test]
fn of_small_row_groups_that_are_read_together_one_is_damaged() {
    let (groups, rows, damaged) = (120, 5, 71);
    let dir = written(1, groups, rows, 3);
    let loader = |shuffle| loader(&dir).columns(["id", "name"]).shuffle(shuffle).batch_size(10);
    let whole: Vec<i64> = (0..(groups * rows) as i64).collect();
    let lost = (damaged * rows) as i64..((damaged + 1) * rows) as i64;
    let path = dir.path().join("part-000.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    let reader =
        parquet::file::serialized_reader::SerializedFileReader::new(std::fs::File::open(&path).unwrap());
    let chunk = parquet::file::reader::FileReader::metadata(&reader.unwrap())
        .row_group(damaged)
        .column(0)
        .byte_range();
    for (shuffle, in_order) in [(Shuffle::stored(), true), (Shuffle::seeded(5).window_rows(200), false)] {
        let sound = loader(shuffle).build().unwrap();
        let expected = epoch_ids(&sound, 1).concat();
        let mut sorted = expected.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, whole);

        bytes[chunk.0 as usize] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
        let raising = loader(shuffle).build().unwrap();
        let mut delivered = Vec::new();
        let mut epoch = raising.epoch(1);
        let error = loop {
            match epoch.next().unwrap() {
                Ok(batch) => delivered.extend(ids(&batch)),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!((error.place().row_group, error.place().column.as_deref()), (Some(damaged), Some("id")));
        assert!(expected.starts_with(&delivered));
        // All batches come before the first that needs a row of the damaged row group.
        let first = expected.iter().position(|id| lost.contains(id)).unwrap();
        assert!(!in_order || delivered.len() == first / 10 * 10, "{} of {first}", delivered.len());

        let skipping = loader(shuffle).on_bad_row(OnBadRow::skip(rows as u64)).build().unwrap();
        let left: Vec<i64> = expected.iter().copied().filter(|id| !lost.contains(id)).collect();
        let mut found = epoch_ids(&skipping, 1).concat();
        // If a batch has only lost rows, the next row stands in for it and is repeated, or at the end the
        // first.
        found.dedup();
        if found.len() > left.len() && found.last() == left.first() {
            found.pop();
        }
        assert_eq!(found, left);
        assert_eq!(skipping.stats().skipped_rows, rows as u64);
        bytes[chunk.0 as usize] ^= 0xff;
        std::fs::write(&path, &bytes).unwrap();
    }
}

/// The files of one data set are stored differently: the same columns in another order, required or nullable,
/// with and without a dictionary.
#[test]
fn small_row_groups_of_files_that_are_stored_differently_are_not_mixed_up() {
    let dir = TempDir::new().unwrap();
    let rows = 40;
    for file in 0..4i64 {
        let ids = (0..rows).map(|row| file * rows + row);
        let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone()));
        let score: ArrayRef = Arc::new(Float32Array::from_iter_values(ids.map(|id| id as f32 / 2.0)));
        let mut columns = vec![("id", id, file % 2 == 0), ("score", score, true)];
        if file > 1 {
            columns.reverse();
        }
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(4))
            .set_dictionary_enabled(file % 2 == 1)
            .build();
        let file = std::fs::File::create(dir.path().join(format!("{file}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
    let loader = loader(&dir).shuffle(Shuffle::seeded(2).window_rows(80)).batch_size(16).build().unwrap();
    let mut seen = Vec::new();
    for batch in (0..2).flat_map(|epoch| loader.epoch(epoch)) {
        let batch = batch.unwrap();
        let scores = batch.column_by_name("score").unwrap().as_primitive::<Float32Type>().values().to_vec();
        let ids = ids(&batch);
        assert_eq!(scores, ids.iter().map(|id| *id as f32 / 2.0).collect::<Vec<_>>());
        seen.extend(ids);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..4 * rows).flat_map(|id| [id, id]).collect::<Vec<_>>());
}

#[test]
fn receipts_say_which_rows_of_the_data_set_a_batch_holds() {
    let dir = written(3, 4, 25, 4);
    let orders = [
        (Shuffle::stored(), OnBadRow::Raise, vec!["id"]),
        (Shuffle::seeded(3).window_rows(60), OnBadRow::Raise, vec!["id"]),
        (Shuffle::seeded(3).window_rows(60), OnBadRow::skip(60), vec!["id", "score", "name"]),
        (Shuffle::exact(3), OnBadRow::skip(60), vec!["id", "score", "name"]),
    ];
    for (shuffle, on_bad_row, columns) in orders {
        let loader = loader(&dir).shuffle(shuffle).on_bad_row(on_bad_row).columns(columns).batch_size(16);
        let steps = |loader: LoaderBuilder| {
            let loader = loader.build().unwrap();
            let mut epoch = loader.epoch(1);
            let mut steps = Vec::new();
            loop {
                match epoch.next_step(PATIENCE) {
                    Wait::Step(step) => steps.push(step.unwrap()),
                    Wait::Pending => panic!("no batch came"),
                    Wait::Finished => return (loader, steps),
                }
            }
        };
        let (_, bare) = steps(loader.clone());
        let (loader, numbered) = steps(loader.numbered(true));
        for (bare, numbered) in bare.iter().zip(&numbered) {
            // The id of a row is its ordinal.
            let expected: Vec<u64> = ids(&bare.batch).into_iter().map(|id| id as u64).collect();
            assert_eq!(ids(&numbered.batch), ids(&bare.batch), "the order does not depend on it");
            assert_eq!(numbered.after.numbers(), expected);
            assert!(bare.after.numbers().is_empty());
            for number in expected {
                let place = loader.row_place(number).unwrap();
                let file = format!("part-{:03}.parquet", number / 100);
                assert!(place.file.unwrap().ends_with(&file));
                assert_eq!(place.row_group, Some((number % 100 / 25) as usize));
                assert_eq!(place.row, Some(number % 25));
            }
        }
        assert_eq!(bare.len(), numbered.len());
        assert!(loader.row_place(300).is_none());
    }
}

#[test]
fn bad_rows_before_a_position_count_in_the_number_that_may_be_skipped() {
    let folder = TempDir::new().unwrap();
    let texts = StringArray::from_iter_values((0..40).map(|row| if row % 10 == 5 { "x" } else { "1" }));
    let batch = RecordBatch::try_from_iter([("n", Arc::new(texts) as ArrayRef)]).unwrap();
    write_batch(&folder.path().join("a.parquet"), &batch, 10);
    let build = || {
        let loader = Dataset::open(folder.path()).unwrap().loader().cast("n", DataType::Int64);
        loader.shuffle(Shuffle::stored()).batch_size(10).on_bad_row(OnBadRow::skip(3)).build().unwrap()
    };
    let (first, resumed) = (build(), build());
    let mut epoch = first.epoch(0);
    (0..2).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    resumed.restore(&first.position()).unwrap();
    for rest in [epoch, resumed.next_epoch()] {
        let steps: Vec<_> = rest.collect();
        let error = steps.last().unwrap().as_ref().unwrap_err().to_string();
        assert!(steps.len() == 2 && error.contains("4 bad rows, of which 3 may be skipped: "), "{error}");
    }
}

#[test]
fn who_asks_again_and_again_gets_the_first_row_of_a_resumed_epoch_whose_rest_is_bad() {
    let folder = TempDir::new().unwrap();
    let texts = StringArray::from_iter_values((0..40).map(|row| if row < 20 { "1" } else { "x" }));
    let batch = RecordBatch::try_from_iter([("n", Arc::new(texts) as ArrayRef)]).unwrap();
    write_batch(&folder.path().join("a.parquet"), &batch, 10);
    let build = || {
        let loader = Dataset::open(folder.path()).unwrap().loader().cast("n", DataType::Int64);
        loader.batch_size(10).on_bad_row(OnBadRow::skip(100)).numbered(true).build().unwrap()
    };
    let first = build();
    let mut epoch = first.epoch(0);
    (0..2).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let resumed = build();
    resumed.restore(&first.position()).unwrap();
    let mut epoch = resumed.next_epoch();
    let mut steps = Vec::new();
    loop {
        match epoch.next_step(Duration::ZERO) {
            Wait::Step(step) => {
                let step = step.unwrap();
                assert_eq!(step.after.numbers(), [0], "the receipt names the row that is repeated");
                steps.push(step.batch["n"].as_primitive::<Int64Type>().value(0));
            }
            Wait::Pending => std::thread::yield_now(),
            Wait::Finished => break,
        }
    }
    assert_eq!(steps, [1, 1]);
}

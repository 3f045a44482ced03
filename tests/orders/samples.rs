//! Samples of several rows over random topologies: the delivered samples are those of the plan, each comes
//! once, and a position resumes on other ranks.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use forebay::arrow::array::{
    ArrayRef, AsArray, BinaryArray, Int64Array, ListBuilder, PrimitiveBuilder, RecordBatch,
};
use forebay::arrow::datatypes::{Int32Type, Int64Type};
use forebay::filter::col;
use forebay::samples::{Across, Bucket, Frames, Pack, Sample, Samples, Window};
use forebay::{
    Dataset, DiskCache, ErrorKind, Loader, LoaderBuilder, OnBadRow, Position, RowId, Shard, Shuffle,
};

use super::kit::{Draw, write_batch};
use super::pictures::Pictures;

const CASES: u64 = 90;

/// Writes files with these numbers of rows in row groups of `group`. Column `n` counts all rows from 1, `t`
/// ascends, `c` is one of four classes, and `tokens` has up to 8 times `n` in row `n`.
pub(super) fn write(draw: &mut Draw, folder: &Path, rows: &[u64], group: usize) {
    write_with(draw, folder, (rows, group), &Pictures::none());
}

/// Writes the same files, with pictures.
pub(super) fn write_with(
    draw: &mut Draw,
    folder: &Path,
    (rows, group): (&[u64], usize),
    pictures: &Pictures,
) {
    let (mut n, mut time) = (0, 0);
    for (at, rows) in rows.iter().enumerate() {
        let (mut numbers, mut times, mut classes) = (Vec::new(), Vec::new(), Vec::new());
        let mut tokens = ListBuilder::new(PrimitiveBuilder::<Int64Type>::new());
        for _ in 0..*rows {
            (n, time) = (n + 1, time + draw.below(4) as i64);
            numbers.push(n);
            times.push(time);
            classes.push(n % 7 % 4);
            tokens.values().append_slice(&vec![n; draw.below(9) as usize]);
            tokens.append(true);
        }
        let mut columns = pictures.stored(&numbers);
        let plain: [(&str, ArrayRef); 4] = [
            ("n", Arc::new(Int64Array::from(numbers))),
            ("t", Arc::new(Int64Array::from(times))),
            ("c", Arc::new(Int64Array::from(classes))),
            ("tokens", Arc::new(tokens.finish())),
        ];
        columns.extend(plain.map(|(name, column)| (name.to_owned(), column)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        write_batch(&folder.join(format!("part-{at}.parquet")), &batch, group);
    }
}

/// Returns the samples of a batch: windows as the numbers of their rows, packs as their tokens, and otherwise
/// the numbers of all rows as one sample.
fn samples_of(kind: &Samples, batch: &RecordBatch) -> Vec<Vec<i64>> {
    let lists = |name: &str| {
        let lists = batch[name].as_fixed_size_list();
        let lists = lists.iter().map(|list| list.unwrap().as_primitive::<Int64Type>().values().to_vec());
        lists.collect::<Vec<_>>()
    };
    match kind {
        Samples::Windows(_) => lists("n"),
        Samples::Packs(_) => lists("tokens"),
        _ => vec![batch["n"].as_primitive::<Int64Type>().values().to_vec()],
    }
}

/// Returns the row numbers of each window of a batch, or of each row if the samples are not windows.
fn rows_of_samples(kind: &Samples, batch: &RecordBatch) -> Vec<Vec<i64>> {
    let samples = samples_of(kind, batch);
    match kind {
        Samples::Windows(_) => samples,
        _ => samples.concat().into_iter().map(|number| vec![number]).collect(),
    }
}

/// Returns the rows of a batch in the order in which the plan names them; for packs, the rows that they
/// contain. Column `n` gives their numbers if it is delivered, and otherwise their tokens do. `None` is a row
/// without tokens, of whose list a pack has only the number before or after it.
fn rows_of(kind: &Samples, batch: &RecordBatch) -> Vec<Option<i64>> {
    let Samples::Packs(_) = kind else {
        return samples_of(kind, batch).concat().into_iter().map(Some).collect();
    };
    if let Some(rows) = batch.column_by_name("n") {
        let rows = rows.as_list::<i64>().iter().flatten();
        return rows.flat_map(|rows| rows.as_primitive::<Int64Type>().values().to_vec()).map(Some).collect();
    }
    let segments = batch["segment_ids"].as_fixed_size_list();
    let mut rows = Vec::new();
    for (tokens, segments) in samples_of(kind, batch).iter().zip(segments.iter()) {
        let segments = segments.unwrap().as_primitive::<Int32Type>().values().to_vec();
        let of_segment = |number: i32| {
            let mut own = tokens.iter().zip(&segments).filter(move |(_, segment)| **segment == number);
            own.find(|(token, _)| **token > 0).map(|(token, _)| *token)
        };
        rows.extend((1..=segments.iter().copied().max().unwrap_or(0)).map(of_segment));
    }
    rows
}

/// Whether each epoch combines the rows into new samples.
fn are_reshuffled(kind: &Samples) -> bool {
    serde_json::to_string(kind).unwrap().contains("reshuffle")
}

/// Packs with or without numbers before and after the lists, none of which is the number of a row.
fn marked(draw: &mut Draw, pack: Pack) -> Samples {
    let pack = if draw.below(2) == 0 { pack.bos(-1.0) } else { pack };
    let pack = if draw.below(2) == 0 { pack.eos(-2.0) } else { pack };
    pack.into()
}

fn draw_kind(draw: &mut Draw) -> Samples {
    let across = [Across::RowGroup, Across::File, Across::Dataset][draw.below(3) as usize];
    match draw.below(9) {
        0 => Window::rows(1 + draw.below(6) as u32).by("t").gap(2.0).across(across).into(),
        1 => Window::offsets([(-2, vec!["n"]), (-1, vec!["n"]), (0, vec!["n"])])
            .overlap(draw.below(3) as u32)
            .across(across)
            .into(),
        // The windows may be longer than a row group, and may share most of their rows or only a few.
        2 => {
            let length = 10 + draw.below(25) as u32;
            Window::rows(length).overlap(draw.below(length.into()) as u32).across(Across::File).into()
        }
        3 => {
            let pack = Pack::split(["tokens"], 1 + draw.below(30) as u32);
            let reshuffle = draw.below(2) == 0;
            marked(draw, if reshuffle { pack.reshuffle(true) } else { pack.across(across) })
        }
        4 => Pack::split(["tokens"], 40 + draw.below(200) as u32).across(Across::Dataset).into(),
        6 => Sample::weights("n").seed(3).rows(50 + draw.below(200)).into(),
        7 => Sample::balanced("c").seed(3).replacement(draw.below(2) == 0).rows(40).into(),
        5 => {
            let pack = match draw.below(2) {
                0 => Pack::best_fit(["tokens"], 10 + draw.below(30) as u32),
                _ => Pack::best_fit(["tokens"], 2 + draw.below(9) as u32).split_long(true),
            };
            let reshuffle = draw.below(2) == 0;
            marked(draw, pack.reshuffle(reshuffle))
        }
        _ => {
            let bucket = Bucket::tokens("tokens", 8 + draw.below(60)).max_rows(1 + draw.below(9) as u32);
            bucket.reshuffle(draw.below(2) == 0).into()
        }
    }
}

/// Builds the loader of a rank.
fn of_rank(builder: &LoaderBuilder, rank: u32, world: u32) -> Loader {
    builder.clone().shard(Shard::new(rank, world).unwrap()).build().unwrap()
}

#[test]
fn each_sample_comes_once_in_the_planned_order_and_a_position_resumes_on_other_ranks() {
    let mut draw = Draw(11);
    let (mut checked, mut hits) = (0, 0);
    for case in 0..CASES {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<u64> = (0..1 + draw.below(3)).map(|_| 40 + draw.below(150)).collect();
        let group = 12 + draw.below(60) as usize;
        let kind = draw_kind(&mut draw);
        let pictures = Pictures::draw(&mut draw, "picture", &kind);
        write_with(&mut draw, folder.path(), (&files, group), &pictures);
        let world = 1 + draw.below(4) as u32;
        let shuffle = match draw.below(3) {
            0 => Shuffle::stored(),
            1 => Shuffle::exact(draw.below(100)),
            _ => Shuffle::seeded(draw.below(100)).window_rows(1 + draw.below(150)),
        };
        let dataset = Dataset::open(folder.path()).unwrap();
        let mut builder = dataset
            .loader()
            .samples(kind.clone())
            .shuffle(shuffle.lanes(1 + draw.below(4) as u32))
            .threads(1 + draw.below(3) as usize)
            .global_batch_size(u64::from(world) * (1 + draw.below(6)));
        match kind {
            Samples::Packs(_) if draw.below(2) == 0 => builder = builder.columns(["n", "tokens"]),
            Samples::Packs(_) => {}
            _ => {
                let columns = pictures.columns().into_iter().chain(["n".to_owned()]);
                builder = pictures.add(builder.columns(columns));
            }
        }
        if draw.below(3) == 0 {
            builder = builder.filter((col("n") % 7).not_eq(3));
        }
        let cache = DiskCache::open(folder.path().join("cache"), 1 << 28).unwrap();
        if draw.below(3) == 0 {
            builder = builder.cache(cache.clone()).cache_tier(forebay::Tier::Rows);
        }
        let plain = dataset.loader().columns(["n"]).row_id(true).build().unwrap();
        let mut numbers: HashMap<RowId, i64> = HashMap::new();
        for batch in plain.epoch(0).map(Result::unwrap) {
            let ids = batch["row_id"].as_primitive::<Int64Type>().values().iter();
            numbers.extend(
                ids.map(|id| RowId::new(*id)).zip(batch["n"].as_primitive::<Int64Type>().values().to_vec()),
            );
        }
        let mut expected: Vec<Vec<i64>> = Vec::new();
        // Samples that each epoch makes anew depend on the seed, so they need the same shuffle.
        let alone = if are_reshuffled(&kind) { shuffle.lanes(1) } else { Shuffle::stored() };
        for batch in of_rank(&builder.clone().shuffle(alone).global_batch_size(1), 0, 1).epoch(1) {
            expected.extend(samples_of(&kind, &batch.unwrap()));
        }
        if expected.len() < 4 {
            // There may be four lanes, and each of them needs a sample.
            continue;
        }
        expected.sort();

        // One epoch on all ranks is compared with the plan, and the state before each step is kept.
        let ranks: Vec<Loader> = (0..world).map(|rank| of_rank(&builder, rank, world)).collect();
        let mut epochs: Vec<_> = ranks.iter().map(|loader| loader.epoch(1)).collect();
        let (mut found, mut steps, mut states) = (Vec::new(), Vec::new(), Vec::new());
        for step in 0..ranks[0].len() {
            states.push(serde_json::to_string(&ranks[0].position()).unwrap());
            let mut together = Vec::new();
            for (rank, epoch) in epochs.iter_mut().enumerate() {
                let batch = epoch.next().unwrap().unwrap();
                let planned = ranks[0].which(1, step, rank as u32).unwrap();
                let planned: Vec<i64> = planned.iter().map(|row| numbers[&row.id]).collect();
                let place = format!("case {case}, step {step}, rank {rank}");
                let delivered = rows_of(&kind, &batch);
                assert_eq!(delivered.len(), planned.len(), "{place}");
                let pairs = delivered.iter().zip(&planned);
                let differ = pairs.filter(|(found, planned)| found.is_some_and(|found| found != **planned));
                assert_eq!(differ.count(), 0, "{place}");
                pictures.check(&batch, &rows_of_samples(&kind, &batch), &place);
                together.extend(samples_of(&kind, &batch));
                checked += 1;
            }
            together.sort();
            steps.push(together);
        }
        assert!(epochs.iter_mut().all(|epoch| epoch.next().is_none()), "case {case}: equal steps");
        found.extend(steps.concat());
        found.sort();
        if matches!(kind, Samples::Buckets(_) | Samples::Weighted(_)) {
            // Only the rows are compared, because the borders of the samples in a batch are unknown.
            let flat = |samples: &[Vec<i64>]| {
                let mut rows = samples.concat();
                rows.sort_unstable();
                rows.dedup();
                rows
            };
            assert_eq!(flat(&found), flat(&expected), "case {case}");
        } else {
            // Samples may be repeated, so that no rank is without a batch.
            found.dedup();
            expected.dedup();
            assert_eq!(found, expected, "case {case}: {kind:?}");
        }

        // A single rank reads the rest of the epoch from a saved position.
        let at = draw.below(states.len() as u64) as usize;
        let position: Position = serde_json::from_str(&states[at]).unwrap();
        let resumed = of_rank(&builder.clone().threads(1), 0, 1);
        if at > 0 {
            resumed.restore(&position).unwrap();
            let rest: Vec<_> = resumed
                .next_epoch()
                .map(|batch| {
                    let batch = batch.unwrap();
                    pictures.check(&batch, &rows_of_samples(&kind, &batch), &format!("case {case}, resumed"));
                    samples_of(&kind, &batch)
                })
                .collect();
            let rows = |samples: &[Vec<i64>]| {
                let mut rows = samples.concat();
                rows.sort_unstable();
                rows.dedup();
                rows
            };
            assert_eq!(rest.len(), steps.len() - at, "case {case}");
            for (step, (mine, theirs)) in (at + 1..).zip(rest.iter().zip(&steps[at..])) {
                let (mine, theirs) = (rows(mine), rows(theirs));
                if step < steps.len() {
                    assert_eq!(mine, theirs, "case {case}: {kind:?}");
                } else {
                    // In the last step, several ranks repeat samples if there are too few.
                    assert!(mine.iter().all(|row| theirs.contains(row)), "case {case}: {kind:?}");
                }
            }
        }
        hits += cache.stats().hits;
    }
    assert!(hits > 0, "no row came from a cache");
    assert!(checked > 1_000, "only {checked} batches were held against the plan");
}

#[test]
fn a_position_says_what_a_sample_is() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(1), folder.path(), &[100], 50);
    let dataset = Dataset::open(folder.path()).unwrap();
    let made = |samples: Samples| dataset.loader().samples(samples).build().unwrap();
    let window = || Window::offsets([(-1, vec!["n"]), (0, vec!["n"])]);
    let position = made(window().into()).position();
    // A position does not depend on the columns that are delivered for a window.
    made(Window::offsets([(-1, vec!["t"]), (0, vec!["n"])]).into()).restore(&position).unwrap();
    for other in [
        Samples::Rows,
        window().overlap(0).into(),
        window().across(Across::File).into(),
        Pack::split(["tokens"], 8).into(),
        Sample::balanced("c").into(),
    ] {
        let error = made(other).restore(&position).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StateMismatch);
        assert!(error.to_string().contains("saved with samples"), "{error}");
    }
    // So do all other options that decide which rows make a sample, and no others.
    let by = || window().by("t");
    let pack = || Pack::best_fit(["tokens"], 8).truncate(true);
    let bucket = || Bucket::tokens("tokens", 40);
    let cases: [(Samples, Samples, Vec<Samples>); 3] = [
        (by().into(), by().frames(Frames::Alone).into(), vec![by().gap(1e9).into(), window().into()]),
        (
            pack().into(),
            pack().value(7.0).into(),
            vec![
                pack().bos(1.0).into(),
                pack().eos(1.0).into(),
                pack().reshuffle(true).into(),
                pack().truncate(false).split_long(true).into(),
            ],
        ),
        (
            bucket().into(),
            bucket().multiple(1).into(),
            vec![bucket().multiple(2).into(), bucket().max_rows(3).into(), bucket().reshuffle(true).into()],
        ),
    ];
    for (one, same, others) in cases {
        let position = made(one).position();
        made(same).restore(&position).unwrap();
        for other in others {
            let error = made(other).restore(&position).unwrap_err().to_string();
            assert!(error.contains("saved with samples"), "{error}");
        }
    }
    // The options that a loader returns make the same loader again.
    let sample = Sample::balanced("c").replacement(false).rows(40).seed(3);
    for samples in [
        Samples::from(window()),
        Pack::split(["tokens"], 8).into(),
        Bucket::rows("n", 3).into(),
        sample.clone().into(),
    ] {
        let loader = made(samples);
        let again = dataset.loader().spec(loader.spec().clone()).build().unwrap();
        again.restore(&loader.position()).unwrap();
        assert_eq!((again.schema(), again.len()), (loader.schema(), loader.len()));
    }
    let across = made(window().across(Across::File).into()).position();
    assert_eq!(dataset.rewind(&across, Default::default()).unwrap().step(0, 3, 0).unwrap().len(), 6);
    assert!(!serde_json::to_string(&position).unwrap().contains("across"), "a default is left out");
    let rows = made(Samples::Rows).position();
    assert!(!serde_json::to_string(&rows).unwrap().contains("samples"), "a default is left out");
    // A position alone is enough to name the rows of a step; their columns do not matter.
    let anew = [Pack::split(["tokens"], 8).reshuffle(true), Pack::best_fit(["tokens"], 8).reshuffle(true)];
    for samples in [Samples::from(Pack::split(["tokens"], 8)), sample.into()]
        .into_iter()
        .chain(anew.map(Samples::from))
        .chain([Bucket::rows("tokens", 2).reshuffle(true).into()])
    {
        let loader = made(samples);
        let run = dataset.rewind(&loader.position(), Default::default()).unwrap();
        assert_eq!(run.step(3, 1, 0).unwrap(), loader.which(3, 1, 0).unwrap());
    }
}

/// Returns how often each row is delivered in an epoch over all ranks. Rows that are repeated to fill a batch
/// are marked in `row_mask`, and do not count.
fn times(builder: &LoaderBuilder, world: u32, epoch: u64) -> HashMap<i64, u64> {
    let mut times = HashMap::new();
    for rank in 0..world {
        for batch in of_rank(&builder.clone().row_mask(true), rank, world).epoch(epoch) {
            let batch = batch.unwrap();
            let rows = batch["n"].as_primitive::<Int64Type>().values().iter();
            let counted = rows.zip(batch["row_mask"].as_boolean().iter());
            counted
                .filter(|(_, counts)| *counts == Some(true))
                .for_each(|(row, _)| *times.entry(*row).or_insert(0) += 1);
        }
    }
    times
}

#[test]
fn the_rows_of_an_epoch_follow_from_the_data_the_seed_and_its_number_alone() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(5), folder.path(), &[150, 90], 37);
    let dataset = Dataset::open(folder.path()).unwrap();
    for sample in [
        Sample::weights("n").rows(501),
        Sample::balanced("c"),
        Sample::balanced("c").replacement(false),
        Sample::classes("c", [(0, 1.0), (1, 20.0)]).others(0.25).rows(77).seed(8),
    ] {
        let builder = dataset.loader().columns(["n"]).samples(sample).batch_size(8);
        let seeded = |shuffle: Shuffle| builder.clone().shuffle(shuffle);
        let alone = seeded(Shuffle::seeded(8));
        let expected = times(&alone, 1, 2);
        assert_eq!(times(&alone, 3, 2), expected);
        assert_eq!(times(&seeded(Shuffle::exact(8).lanes(2)), 2, 2), expected);
        assert_eq!(times(&seeded(Shuffle::seeded(8).window_rows(20).lanes(4)).threads(1), 2, 2), expected);
        let cache = DiskCache::open(folder.path().join("cache"), 1 << 28).unwrap();
        let cached = alone.clone().cache(cache.clone()).cache_tier(forebay::Tier::Rows);
        cached.clone().build().unwrap().warm(|_, _| {}).unwrap();
        let before = cache.stats().hits;
        assert_eq!(times(&cached, 1, 2), expected);
        assert!(cache.stats().hits > before, "rows come from the cache");
        assert_ne!(times(&alone, 1, 3), expected, "another epoch draws others");
        assert_ne!(
            times(&seeded(Shuffle::seeded(9)).samples(Sample::weights("n").rows(501)), 1, 2),
            expected
        );
        let drawn: u64 = expected.values().sum();
        assert_eq!(drawn, alone.build().unwrap().len() * 8 - (8 - drawn % 8) % 8);
    }
}

#[test]
fn a_source_of_a_mix_may_be_drawn_by_weight() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(5), folder.path(), &[150, 90], 37);
    let source = |sample: Sample| {
        let dataset = Dataset::open(folder.path()).unwrap();
        dataset.loader().columns(["n", "c"]).samples(sample).shuffle(Shuffle::seeded(4).lanes(2))
    };
    let even = || source(Sample::balanced("c").rows(100));
    let made = |world: u32, rank: u32| {
        let mix = Loader::mix([(even(), 1.0), (source(Sample::weights("n").rows(240)), 2.0)])
            .unwrap()
            .batch_size(12 / u64::from(world));
        mix.shard(Shard::new(rank, world).unwrap()).source(true).build().unwrap()
    };
    let mix = made(1, 0);
    let mut classes = [0; 4];
    for (step, batch) in (0..).zip(mix.epoch(1)) {
        let batch = batch.unwrap();
        let column = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
        for (class, source) in column("c").into_iter().zip(column("source")) {
            classes[class as usize] += i64::from(source == 0);
        }
        assert_eq!(mix.which(1, step, 0).unwrap().len(), batch.num_rows());
    }
    assert_eq!(classes, [25; 4], "a pass over the first source, which ends the epoch");
    // Two ranks take the same steps from a state in the middle.
    let mut epoch = mix.epoch(2);
    (0..4).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let position = mix.position();
    let rows = |batch: forebay::Result<RecordBatch>| {
        batch.unwrap()["n"].as_primitive::<Int64Type>().values().to_vec()
    };
    let rest: Vec<Vec<i64>> = epoch.map(rows).collect();
    let ranks = [0, 1].map(|rank| made(2, rank));
    ranks.iter().for_each(|rank| rank.restore(&position).unwrap());
    let mut tails = ranks.iter().map(|rank| rank.next_epoch());
    let (one, other) = (tails.next().unwrap(), tails.next().unwrap());
    let together = one.zip(other).map(|(one, other)| [rows(one), rows(other)].concat());
    let sorted = |mut rows: Vec<i64>| {
        rows.sort_unstable();
        rows
    };
    assert_eq!(together.map(sorted).collect::<Vec<_>>(), rest.into_iter().map(sorted).collect::<Vec<_>>());
}

#[test]
fn a_batch_of_windows_fits_the_memory_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(1), folder.path(), &[2_000], 500);
    let dataset = Dataset::open(folder.path()).unwrap();
    let made = |length: u32| {
        let window = Window::rows(length);
        dataset.loader().columns(["n"]).samples(window).batch_size(1_000).memory(8 << 20).build()
    };
    assert!(made(8).is_ok());
    assert_eq!(made(400).unwrap_err().kind(), ErrorKind::TooLarge);
}

/// Only one row group fits into the memory, so rows that a step still needs are copied before their row group
/// is dropped.
#[test]
fn windows_come_the_same_in_little_memory() {
    const ROWS: i64 = 120;
    let folder = tempfile::tempdir().unwrap();
    let mut draw = Draw(3);
    let blobs = (0..ROWS).map(|_| (0..60_000).map(|_| draw.below(256) as u8).collect::<Vec<_>>());
    let blobs = BinaryArray::from_iter_values(blobs);
    let columns = [
        ("n", Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef),
        ("blob", Arc::new(blobs) as ArrayRef),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_batch(&folder.path().join("t.parquet"), &batch, 30);
    let dataset = Dataset::open(folder.path()).unwrap();
    let delivered = |memory: u64, shuffle: Shuffle, across: Across| {
        let builder = dataset.loader().samples(Window::rows(3).across(across)).batch_size(2).shuffle(shuffle);
        let loader = builder.memory(memory).threads(1).epochs(1).build()?;
        let batches = loader.epoch(0).map(|batch| {
            let batch = batch?;
            let blobs = batch["blob"].as_fixed_size_list().values().clone();
            let first = blobs.as_binary::<i64>().iter().map(|blob| blob.unwrap()[..8].to_vec()).collect();
            let numbers =
                batch["n"].as_fixed_size_list().values().as_primitive::<Int64Type>().values().to_vec();
            Ok((numbers, first))
        });
        batches.collect::<forebay::Result<Vec<(Vec<i64>, Vec<Vec<u8>>)>>>()
    };
    let seeded = Shuffle::seeded(5).window_rows(30).lanes(2);
    for (shuffle, across) in [
        (Shuffle::stored(), Across::RowGroup),
        (Shuffle::stored().lanes(3), Across::RowGroup),
        (seeded, Across::RowGroup),
        (Shuffle::stored(), Across::File),
        (seeded, Across::File),
    ] {
        let expected = delivered(1 << 30, shuffle, across).unwrap();
        let windows: usize = expected.iter().map(|(numbers, _)| numbers.len() / 3).sum();
        assert_eq!(windows, if across == Across::File { 118 } else { 4 * 28 });
        let mut accepted = 0;
        for memory in (2..40).map(|mib| mib << 20) {
            match delivered(memory, shuffle, across) {
                Err(error) => assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}"),
                Ok(found) => {
                    assert_eq!(found, expected, "{shuffle:?} {across:?} in {memory} bytes");
                    accepted += 1;
                }
            }
            if accepted == 3 {
                break;
            }
        }
        assert_eq!(accepted, 3, "{shuffle:?} {across:?}");
    }
}

/// Rows that no bucket or balance takes. Of the first row group, rows 0 to 19 are stored, and of the second
/// one rows 20 to 39; only rows with an odd `n` are selected.
#[test]
fn a_row_that_does_not_fit_is_named_by_its_place_and_counted_once_over_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(1), folder.path(), &[40], 20);
    let dataset = Dataset::open(folder.path()).unwrap();
    let odd = dataset.loader().columns(["n"]).filter((col("n") % 2).eq(1)).batch_size(2);
    let below = || col("n") * -1 + 30;
    let odd_with = |bucket: Bucket| odd.clone().samples(bucket);
    let bucket = odd_with(Bucket::tokens("n", 30));
    for (builder, row, said) in [
        (bucket.clone(), 10, "a row of 31 values does not fit a bucket of 30"),
        (odd_with(Bucket::tokens("n", 32).multiple(16)), 12, "a row of 48 values, once padded to a multiple"),
        (odd_with(Bucket::rows(below(), 4)), 10, "is -1 ("),
        (odd.clone().balance([below()]), 10, "is -1 ("),
    ] {
        let error = builder.shuffle(Shuffle::seeded(1)).build().unwrap_err().to_string();
        let place = format!("row group 1, row {row}, column \"n\": ");
        assert!(error.contains(&place) && error.contains(said), "{error}");
    }
    // Numbers that a cost is computed from are not lengths, and are not rounded up.
    odd_with(Bucket::tokens(col("n") + 1, 40).multiple(16)).build().unwrap();
    // Rows 31, 33, 35, 37 and 39 do not fit.
    let left_out = |most: u64, (rank, world): (u32, u32)| {
        let loader = of_rank(&bucket.clone().on_bad_row(OnBadRow::skip(most)), rank, world);
        let mut epoch = loader.epoch(0);
        let error = epoch.by_ref().find_map(Result::err);
        error.map_or_else(|| Ok(epoch.skipped().iter().map(|bad| bad.id).collect::<Vec<_>>()), Err)
    };
    let mut all = left_out(5, (0, 1)).unwrap();
    all.sort_unstable();
    assert_eq!(all.len(), 5);
    let error = left_out(4, (0, 1)).unwrap_err().to_string();
    assert!(error.contains("5 bad rows, of which 4 may be skipped: "), "{error}");
    let ranks = [0, 1].map(|rank| left_out(5, (rank, 2)).unwrap());
    let mut of_ranks = ranks.concat();
    of_ranks.sort_unstable();
    assert_eq!((of_ranks, ranks.map(|of_rank| of_rank.len())), (all, [3, 2]));
}

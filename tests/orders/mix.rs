//! Tests mixes as a user of the library sees them. It compares the rows of random mixes with their plans, and
//! resumes them at any step.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use forebay::arrow::datatypes::Int64Type;
use forebay::{
    Dataset, Deny, Epoch, ErrorKind, Loader, LoaderBuilder, LoaderSpec, Position, Rewind, RowId, Shard,
    Shuffle, Stop, Wait,
};

use super::kit::{Draw, write_batch};

/// A delivered row: its source, and its number, which does not depend on the pass.
type Row = (i64, i64);

/// Writes a file of `rows` rows in row groups of `group`. Column `n` counts the rows.
fn write(folder: &Path, rows: i64, group: usize) -> Dataset {
    std::fs::create_dir_all(folder).unwrap();
    let columns = [("n", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    write_batch(&folder.join("part.parquet"), &batch, group);
    Dataset::open(folder).unwrap()
}

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let column = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
    column("source").into_iter().zip(column("n")).collect()
}

fn ids(batch: &RecordBatch) -> Vec<(usize, RowId)> {
    let column = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
    let sources = column("source").into_iter().map(|source| source as usize);
    sources.zip(column("row_id").into_iter().map(RowId::new)).collect()
}

fn batches(epoch: Epoch) -> Vec<RecordBatch> {
    epoch.map(Result::unwrap).collect()
}

/// A mix of sources with random sizes, weights and orders, which ends its epochs in a random way.
struct Topology {
    sources: Vec<(Dataset, Shuffle, f64)>,
    spec: LoaderSpec,
    global_batch: u64,
}

impl Topology {
    fn draw(draw: &mut Draw, folder: &Path) -> Self {
        let lanes = 1 + draw.below(4) as u32;
        let source = |at: u64, draw: &mut Draw| {
            let rows = 30 + draw.below(200) as i64;
            let dataset = write(&folder.join(at.to_string()), rows, 1 + draw.below(40) as usize);
            let shuffle = match draw.below(3) {
                0 => Shuffle::stored(),
                1 => Shuffle::exact(draw.below(100)),
                _ => Shuffle::seeded(draw.below(100)).window_rows(1 + draw.below(90)),
            };
            (dataset, shuffle.lanes(lanes), 1.0 + draw.below(9) as f64)
        };
        let sources = (0..1 + draw.below(3)).map(|at| source(at, draw)).collect::<Vec<_>>();
        let mut spec = LoaderSpec::default();
        spec.stop = if draw.below(2) == 0 { Stop::First } else { Stop::Last };
        spec.repeat = draw.below(2) == 0;
        spec.drop_last = draw.below(4) == 0;
        spec.source = true;
        (spec.memory, spec.threads) = (Some(64 << 20), Some(2));
        if draw.below(2) == 0 {
            spec.schedule = vec![(1 + draw.below(9), vec![1.0; sources.len()])];
        }
        Topology { sources, spec, global_batch: 8 + draw.below(30) }
    }

    fn builder(&self, rank: u32, world: u32) -> LoaderBuilder {
        let of = |(dataset, shuffle, weight): &(Dataset, Shuffle, f64)| {
            (dataset.loader().shuffle(*shuffle).row_id(true), *weight)
        };
        let mut spec = self.spec.clone();
        spec.shard = Shard::new(rank, world).unwrap();
        spec.global_batch_size = Some(self.global_batch);
        Loader::mix(self.sources.iter().map(of)).unwrap().spec(spec)
    }

    fn mix(&self, rank: u32, world: u32) -> Loader {
        self.builder(rank, world).build().unwrap()
    }
}

#[test]
fn rows_come_as_planned_and_a_position_resumes_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut draw = Draw(18);
    for topology in 0..20 {
        let here = Topology::draw(&mut draw, &folder.path().join(topology.to_string()));
        let alone = here.mix(0, 1);
        let plan = alone.plan(0).unwrap();
        let (mut steps, mut positions) = (Vec::new(), vec![alone.position()]);
        for epoch in 0..2 {
            let mut seen: BTreeMap<Row, u64> = BTreeMap::new();
            for (step, batch) in alone.next_epoch().enumerate() {
                let batch = batch.unwrap();
                let said = alone.which(epoch, step as u64, 0).unwrap();
                let said: Vec<_> = said.into_iter().map(|row| (row.source, row.id)).collect();
                assert_eq!(ids(&batch), said, "topology {topology}, epoch {epoch}, step {step}");
                rows(&batch).into_iter().for_each(|row| *seen.entry(row).or_default() += 1);
                let mut step = rows(&batch);
                step.sort_unstable();
                steps.push(step);
                positions.push(alone.position());
            }
            if epoch == 0 {
                assert_eq!(steps.len() as u64, plan.steps);
                for (source, planned) in (0..).zip(&plan.sources) {
                    let of_source = seen.iter().filter(|((of, _), _)| *of == source).map(|(_, count)| *count);
                    let counts: Vec<u64> = of_source.collect();
                    assert_eq!(counts.iter().sum::<u64>(), planned.rows);
                    let (most, least) = (counts.iter().max(), counts.iter().min());
                    assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1));
                    assert!(planned.rows < planned.size || counts.len() as u64 == planned.size);
                }
            }
        }
        let world = 1 + draw.below(here.global_batch.min(5)) as u32;
        let from = draw.below(steps.len() as u64) as usize;
        let saved = serde_json::to_string(&positions[from]).unwrap();
        let saved: Position = serde_json::from_str(&saved).unwrap();
        let mut tail: Vec<Vec<Row>> = Vec::new();
        let until = steps.len() - from;
        for rank in 0..world {
            let resumed = here.mix(rank, world);
            resumed.restore(&saved).unwrap();
            let mut got = Vec::new();
            while got.len() < until {
                let epoch = batches(resumed.next_epoch());
                got.extend(epoch.iter().map(rows));
            }
            assert_eq!(got.len(), until, "topology {topology}");
            tail.resize(until, Vec::new());
            tail.iter_mut().zip(got).for_each(|(all, own)| all.extend(own));
        }
        for (at, (mut got, expected)) in tail.into_iter().zip(&steps[from..]).enumerate() {
            got.sort_unstable();
            if got.len() > expected.len() {
                // Rows are repeated, so that no rank is without a batch.
                assert!(expected.len() < world as usize);
                continue;
            }
            assert_eq!(&got, expected, "topology {topology}, step {} on {world} ranks", from + at);
        }
    }
}

#[test]
fn who_takes_batches_beforehand_counts_those_that_it_hands_over() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (write(&folder.path().join("a"), 200, 20), write(&folder.path().join("b"), 100, 20));
    let mix = Loader::mix([(a.loader(), 3.0), (b.loader(), 1.0)]).unwrap().batch_size(20).build().unwrap();
    let mut epoch = mix.epoch(0);
    let mut take = || loop {
        if let Wait::Step(step) = epoch.next_step(Duration::from_secs(60)) {
            return step.unwrap();
        }
    };
    let (first, second) = (take(), take());
    assert_eq!(mix.position().row, 0);
    mix.handed_over(&first.after);
    assert_eq!((mix.position().row, mix.position().step()), (20, Some(1)));
    assert_eq!(mix.position().sources.iter().map(|source| source.rows).collect::<Vec<_>>(), [15, 5]);
    mix.handed_over(&second.after);
    mix.handed_over(&first.after);
    assert_eq!(mix.position().row, 40);
    assert_eq!(mix.stats().sources.iter().map(|source| source.rows).collect::<Vec<_>>(), [30, 10]);
    mix.close();
    assert_eq!(mix.epoch(0).next().unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn an_epoch_that_another_one_ends_says_so_and_takes_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (write(&folder.path().join("a"), 90, 20), write(&folder.path().join("b"), 20, 20));
    let mix = Loader::mix([(a.loader(), 1.0), (b.loader(), 1.0)])
        .unwrap()
        .stop(Stop::Last)
        .batch_size(10)
        .build()
        .unwrap();
    let mut first = mix.epoch(0);
    first.next().unwrap().unwrap();
    let second = mix.epoch(1);
    // Batches that were already made may still come.
    let ended = first.find_map(Result::err).unwrap();
    assert_eq!(ended.kind(), ErrorKind::Closed);
    assert!(first.next().is_none());
    assert_eq!(second.count() as u64, mix.len());
}

/// The next batch of the first epoch needs another pass over source `b`, which the second epoch reads.
#[test]
fn an_epoch_that_another_one_ends_begins_no_pass() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (write(&folder.path().join("a"), 40, 20), write(&folder.path().join("b"), 10, 20));
    let builder = Loader::mix([(a.loader(), 1.0), (b.loader(), 1.0)]).unwrap();
    let mix = builder.stop(Stop::Last).batch_size(10).build().unwrap();
    let mut first = mix.epoch(0);
    (0..2).for_each(|_| drop(first.next().unwrap().unwrap()));
    let second = mix.epoch(1);
    assert_eq!(first.next().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(batches(second).len() as u64, mix.len());
}

#[test]
fn the_options_of_a_source_are_refused_where_they_belong_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let a = write(folder.path(), 50, 20);
    let error = Loader::mix([(a.loader().memory(1 << 30), 1.0)]).unwrap().build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().starts_with("source 0 has `memory`, which belongs to the mix"), "{error}");
    let error = Loader::mix([(a.loader().skip_steps([(0, 1)]), 1.0)]).unwrap().build().unwrap_err();
    assert!(error.to_string().starts_with("source 0 has `skip_steps`, which belongs to the mix"), "{error}");
    let lanes = |lanes| (a.loader().shuffle(Shuffle::seeded(1).lanes(lanes)), 1.0);
    let error = Loader::mix([lanes(2), lanes(3)]).unwrap().build().unwrap_err();
    assert!(error.to_string().starts_with("one source has 2 lanes, another 3"), "{error}");
}

#[test]
fn an_option_that_is_not_where_it_belongs_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let a = write(folder.path(), 50, 20);
    let mix = || Loader::mix([(a.loader(), 1.0)]).unwrap();
    let refused = |builder: LoaderBuilder| builder.build().unwrap_err().to_string();
    for (builder, name) in [
        (mix().columns(["n"]), "columns"),
        (mix().shuffle(Shuffle::seeded(1)), "shuffle"),
        (mix().row_id(true), "row_id"),
    ] {
        let error = refused(builder);
        assert!(error.starts_with(&format!("the mix has `{name}`, which belongs to a source")), "{error}");
    }
    for (builder, name) in [
        (a.loader().stop(Stop::Last), "stop"),
        (a.loader().repeat(false), "repeat"),
        (a.loader().source(true), "source"),
        (a.loader().random_shares(1), "random_shares"),
        (a.loader().weights_from(3, [1.0]), "schedule"),
    ] {
        let error = refused(builder.clone());
        assert!(error.starts_with(&format!("`{name}` was given, with a single data set")), "{error}");
        let error = refused(Loader::mix([(builder, 1.0)]).unwrap());
        assert!(error.starts_with(&format!("source 0 has `{name}`, which belongs to the mix")), "{error}");
    }
    assert!(Loader::mix([]).unwrap_err().to_string().starts_with("a mix needs at least one source"));
    assert!(Loader::mix([(mix(), 1.0)]).unwrap_err().to_string().starts_with("source 0 is itself a mix"));
}

#[test]
fn a_mix_of_one_source_is_a_mix_in_all_that_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let a = write(folder.path(), 50, 20);
    let builder = Loader::mix([(a.loader(), 1.0)]).unwrap().batch_size(8);
    let (mix, alone) = (builder.clone().build().unwrap(), a.loader().batch_size(8).build().unwrap());
    assert_eq!((mix.is_mix(), alone.is_mix()), (true, false));
    assert_eq!((mix.len(), mix.schema()), (alone.len(), alone.schema()));
    let plan = mix.plan(0).unwrap();
    assert_eq!(builder.plan(0).unwrap(), plan);
    assert_eq!((plan.steps, plan.rows, plan.first_step), (7, 50, Some(0)));
    assert!(plan.reads.is_none() && alone.plan(0).unwrap().sources.is_empty());
    let (of_mix, of_one) = (mix.position(), alone.position());
    assert!(of_mix.is_mix() && !of_one.is_mix());
    for (loader, position, said) in
        [(&mix, &of_one, "a state of a loader"), (&alone, &of_mix, "a state of a mix")]
    {
        let error = loader.restore(position).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StateMismatch);
        assert!(error.to_string().starts_with(&format!("this is {said}")), "{error}");
    }
    assert_eq!(mix.warm(|_, _| ()).unwrap_err().kind(), ErrorKind::Invalid);
    // The state alone is enough to find the rows.
    let run = Rewind::new([(a.clone(), Deny::default())], &of_mix).unwrap();
    assert_eq!(run.step_of_run(9, 0).unwrap(), mix.which(1, 2, 0).unwrap());
    assert_eq!((run.world(), run.steps(), run.locate(9).unwrap()), (1, 7, (1, 2)));
    let error = Rewind::new([], &of_one).unwrap_err();
    assert!(error.to_string().starts_with("the state is of one data set, but 0 were given"), "{error}");
}

#[test]
fn a_column_that_may_be_null_in_one_source_may_be_null_in_the_mix() {
    let folder = tempfile::tempdir().unwrap();
    let source = |name: &str, may_be_null: bool| {
        let numbers = Int64Array::from_iter((0..20).map(|row| (!may_be_null || row % 4 != 1).then_some(row)));
        let column = ("n", Arc::new(numbers) as ArrayRef, may_be_null);
        let batch = RecordBatch::try_from_iter_with_nullable([column]).unwrap();
        let folder = folder.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        write_batch(&folder.join("part.parquet"), &batch, 10);
        (Dataset::open(folder.as_path()).unwrap().loader(), 1.0)
    };
    for forms in [[false, true], [true, false]] {
        let mix = Loader::mix(forms.map(|may_be_null| source(&may_be_null.to_string(), may_be_null)));
        let mix = mix.unwrap().batch_size(8).build().unwrap();
        assert!(mix.schema().field_with_name("n").unwrap().is_nullable());
        let batches = batches(mix.epoch(0));
        assert_eq!(batches.iter().map(|batch| batch["n"].null_count()).sum::<usize>(), 5);
    }
    let mix = Loader::mix([source("one", false), source("two", false)]).unwrap().build().unwrap();
    assert!(!mix.schema().field_with_name("n").unwrap().is_nullable());
}

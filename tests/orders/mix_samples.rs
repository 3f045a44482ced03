//! Compares mixes of rows, windows, packs and buckets with a plain model: each source gives the samples of
//! its own loader, one pass after the other. A position resumes on any number of ranks, with steps skipped
//! from there on.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and is its own loader"
)]

use std::collections::HashMap;
use std::path::Path;

use forebay::arrow::array::{AsArray, RecordBatch};
use forebay::arrow::datatypes::{Int32Type, Int64Type};
use forebay::filter::col;
use forebay::samples::{Across, Bucket, Pack, Samples, Window};
use forebay::{
    Dataset, Deny, ErrorKind, Loader, LoaderBuilder, LoaderSpec, Position, Rewind, RowId, Shard, Shuffle,
    Stop,
};

use super::kit::Draw;
use super::pictures::Pictures;
use super::samples::{write, write_with};

const TOPOLOGIES: u64 = 40;

/// A sample, as the numbers of its rows or the values of its pack.
type Sample = Vec<i64>;

/// The samples of one source in a step, sorted. A bucket is here its rows, each of them a sample.
type OfSource = Vec<Sample>;

/// A source of a mix.
struct SampledSource {
    dataset: Dataset,
    kind: Samples,
    shuffle: Shuffle,
    weight: f64,
    /// The name of column `n` of this source, which has another type in other sources.
    name: String,
    pictures: Pictures,
    /// The number of each row by its id.
    numbers: HashMap<RowId, i64>,
}

impl SampledSource {
    /// Draws a source; `packs` has the packs that it shares with the other sources, if it does.
    fn draw(
        draw: &mut Draw,
        folder: &Path,
        at: u64,
        (lanes, length): (u32, u32),
        packs: Option<&Samples>,
    ) -> Self {
        let folder = folder.join(at.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        let files: Vec<u64> = (0..1 + draw.below(2)).map(|_| 60 + draw.below(150)).collect();
        let group = 12 + draw.below(60) as usize;
        let across = [Across::RowGroup, Across::File, Across::Dataset][draw.below(3) as usize];
        let kind = match draw.below(5) {
            0 => Samples::Rows,
            1 => Window::rows(1 + draw.below(5) as u32).across(across).into(),
            2 => Pack::split(["tokens"], length).across(across).into(),
            3 => Pack::best_fit(["tokens"], length).into(),
            _ => Bucket::tokens("tokens", 8 + draw.below(40)).max_rows(1 + draw.below(6) as u32).into(),
        };
        let kind = packs.cloned().unwrap_or(kind);
        let pictures = Pictures::draw(draw, &format!("picture{at}"), &kind);
        write_with(draw, &folder, (&files, group), &pictures);
        let shuffle = match draw.below(3) {
            0 => Shuffle::stored(),
            1 => Shuffle::exact(draw.below(100)),
            _ => Shuffle::seeded(draw.below(100)).window_rows(1 + draw.below(150)),
        };
        let dataset = Dataset::open(&folder).unwrap();
        let plain = dataset.loader().columns(["n"]).row_id(true).build().unwrap();
        let mut numbers = HashMap::new();
        for batch in plain.epoch(0).map(Result::unwrap) {
            let column = |name: &str| batch[name].as_primitive::<Int64Type>().values().to_vec();
            numbers.extend(column("row_id").into_iter().map(RowId::new).zip(column("n")));
        }
        let (shuffle, weight) = (shuffle.lanes(lanes), 1.0 + draw.below(9) as f64);
        SampledSource { dataset, kind, shuffle, weight, name: format!("n{at}"), pictures, numbers }
    }

    fn builder(&self) -> LoaderBuilder {
        let builder = self.dataset.loader().samples(self.kind.clone()).shuffle(self.shuffle);
        match self.kind {
            Samples::Packs(_) => builder,
            _ => {
                let columns = self.pictures.columns().into_iter().chain(["n".to_owned()]);
                self.pictures.add(builder.columns(columns).rename("n", &self.name))
            }
        }
    }

    /// Returns the samples of a batch of this source; for buckets, each row as a sample.
    fn samples(&self, batch: &RecordBatch) -> Vec<Sample> {
        let lists = |name: &str| {
            let lists = batch[name].as_fixed_size_list();
            lists.iter().map(|list| list.unwrap().as_primitive::<Int64Type>().values().to_vec()).collect()
        };
        let samples: Vec<Sample> = match self.kind {
            Samples::Windows(_) => lists(&self.name),
            Samples::Packs(_) => lists("tokens"),
            _ => batch[&*self.name].as_primitive::<Int64Type>().values().iter().map(|n| vec![*n]).collect(),
        };
        self.pictures.check(batch, &samples, &self.name);
        samples
    }

    /// The rows of a batch in the order in which the plan names them. For packs, these are the rows whose
    /// lists are in the packs.
    fn rows(&self, batch: &RecordBatch) -> Vec<i64> {
        let Samples::Packs(_) = self.kind else { return self.samples(batch).concat() };
        let segments = batch["segment_ids"].as_fixed_size_list();
        let mut rows = Vec::new();
        for (tokens, segments) in self.samples(batch).iter().zip(segments.iter()) {
            let segments = segments.unwrap().as_primitive::<Int32Type>().values().to_vec();
            let mut last = 0;
            for (token, segment) in tokens.iter().zip(segments).filter(|(_, segment)| *segment > 0) {
                if segment > std::mem::replace(&mut last, segment) {
                    rows.push(*token);
                }
            }
        }
        rows
    }

    /// Returns the samples of a pass in the order in which a loader of this source alone delivers them.
    fn pass(&self, number: u64) -> Vec<Vec<Sample>> {
        let alone = self.builder().global_batch_size(1).build().unwrap();
        alone.epoch(number).map(|batch| self.samples(&batch.unwrap())).collect()
    }
}

/// The plain model: a source gives its samples one after the other.
struct Model<'a> {
    of: &'a SampledSource,
    pass: u64,
    next: std::vec::IntoIter<Vec<Sample>>,
}

impl<'a> Model<'a> {
    fn new(of: &'a SampledSource) -> Self {
        Model { of, pass: 0, next: of.pass(0).into_iter() }
    }

    /// Returns the next sample as a list of one, or the next bucket as all of its rows.
    fn next(&mut self) -> Vec<Sample> {
        loop {
            if let Some(sample) = self.next.next() {
                return sample;
            }
            self.pass += 1;
            self.next = self.of.pass(self.pass).into_iter();
        }
    }

    /// Takes the next samples of the model, as many as were delivered, and checks that they are equal.
    /// Returns their number.
    fn expect(&mut self, delivered: &OfSource, place: &str) -> u64 {
        let (mut expected, mut samples) = (OfSource::new(), 0);
        while expected.len() < delivered.len() {
            expected.extend(self.next());
            samples += 1;
        }
        expected.sort_unstable();
        assert_eq!(delivered, &expected, "{place}");
        samples
    }

    /// Moves on to the next epoch, which begins with pass number `passes`.
    fn end_epoch(&mut self, passes: u64) {
        self.pass = passes;
        self.next = self.of.pass(passes).into_iter();
    }
}

/// A mix of such sources.
struct Topology {
    sources: Vec<SampledSource>,
    spec: LoaderSpec,
    global_batch: u64,
    lanes: u32,
}

impl Topology {
    fn draw(draw: &mut Draw, folder: &Path) -> Self {
        let lanes = 1 + draw.below(3) as u32;
        let same = (lanes, 8 + draw.below(25) as u32);
        // Sources with the same packs make the batch of a step together.
        let packs = (draw.below(3) == 0).then(|| Pack::best_fit(["tokens"], same.1).into());
        let sources: Vec<SampledSource> = (0..1 + draw.below(3))
            .map(|at| SampledSource::draw(draw, folder, at, same, packs.as_ref()))
            .collect();
        let mut spec = LoaderSpec::default();
        spec.stop = if draw.below(2) == 0 { Stop::First } else { Stop::Last };
        spec.repeat = draw.below(2) == 0;
        spec.source = true;
        (spec.memory, spec.threads) = (Some(64 << 20), Some(2));
        Topology { sources, spec, global_batch: 6 + draw.below(12), lanes }
    }

    fn mix(&self, rank: u32, world: u32, skip: Option<(u64, u64)>) -> Loader {
        self.made(rank, world, skip, |builder, _| builder)
    }

    /// Builds the mix for a rank, after `change` has changed the options of each source.
    fn made(
        &self,
        rank: u32,
        world: u32,
        skip: Option<(u64, u64)>,
        change: impl Fn(LoaderBuilder, &SampledSource) -> LoaderBuilder,
    ) -> Loader {
        let sources = self.sources.iter().map(|source| (change(source.builder(), source), source.weight));
        let mut spec = self.spec.clone();
        spec.shard = Shard::new(rank, world).unwrap();
        spec.global_batch_size = Some(self.global_batch);
        spec.skip_steps = skip.into_iter().collect();
        Loader::mix(sources).unwrap().spec(spec).build().unwrap()
    }

    /// Splits a batch into the rows of each source.
    fn parts(&self, batch: &RecordBatch) -> Vec<RecordBatch> {
        let sources = batch["source"].as_primitive::<Int64Type>().values();
        let part = |at: usize| {
            let first = sources.iter().position(|source| *source == at as i64).unwrap_or(0);
            batch.slice(first, sources.iter().filter(|source| **source == at as i64).count())
        };
        (0..self.sources.len()).map(part).collect()
    }

    /// Returns the samples of each source in a step; each rank has one batch of it.
    fn step(&self, batches: &[RecordBatch]) -> Vec<OfSource> {
        let mut step = vec![OfSource::new(); self.sources.len()];
        for batch in batches {
            for (at, part) in self.parts(batch).iter().enumerate().filter(|(_, part)| part.num_rows() > 0) {
                step[at].extend(self.sources[at].samples(part));
            }
        }
        step.iter_mut().for_each(|samples| samples.sort_unstable());
        step
    }

    /// The rows of a batch, source by source.
    fn rows(&self, batch: &RecordBatch) -> Vec<(usize, i64)> {
        let parts = self.parts(batch);
        let parts = parts.iter().enumerate().filter(|(_, part)| part.num_rows() > 0);
        parts.flat_map(|(at, part)| self.sources[at].rows(part).into_iter().map(move |n| (at, n))).collect()
    }

    /// Returns the rows that a plan names, in the form of `rows`.
    fn named(&self, places: Vec<forebay::RowPlace>) -> Vec<(usize, i64)> {
        places.into_iter().map(|row| (row.source, self.sources[row.source].numbers[&row.id])).collect()
    }

    /// Returns the next steps over all ranks of a world, from a position until the end of epoch 1.
    fn tail(&self, world: u32, from: &Position, skip: Option<(u64, u64)>) -> Vec<Vec<OfSource>> {
        let ranks: Vec<Loader> = (0..world).map(|rank| self.mix(rank, world, skip)).collect();
        ranks.iter().for_each(|rank| rank.restore(from).unwrap());
        self.rest(&ranks, ranks[0].position().epoch, &[]).into_iter().map(|(step, _)| step).collect()
    }

    /// Returns the steps of ranks in `epoch` until the end of epoch 1, each with the position after it; all
    /// ranks set weights after the given numbers of steps.
    fn rest(
        &self,
        ranks: &[Loader],
        epoch: u64,
        set: &[(usize, Vec<f64>)],
    ) -> Vec<(Vec<OfSource>, Position)> {
        let mut steps = Vec::new();
        for epoch in epoch..2 {
            let mut epochs: Vec<_> = ranks.iter().map(|rank| rank.epoch(epoch)).collect();
            while let Some(first) = epochs[0].next() {
                let mut batches = vec![first.unwrap()];
                batches.extend(epochs[1..].iter_mut().map(|rank| rank.next().unwrap().unwrap()));
                steps.push((self.step(&batches), ranks[0].position()));
                for (_, weights) in set.iter().filter(|(after, _)| *after == steps.len()) {
                    ranks.iter().for_each(|rank| rank.set_weights(weights, None).unwrap());
                }
            }
            assert!(epochs.iter_mut().all(|rank| rank.next().is_none()), "all ranks have the same steps");
        }
        steps
    }
}

#[test]
fn each_source_gives_its_own_samples_in_their_order_and_a_position_resumes_on_any_ranks() {
    let mut draw = Draw(45);
    let (mut checked, mut kinds) = (0, HashMap::new());
    for number in 0..TOPOLOGIES {
        let folder = tempfile::tempdir().unwrap();
        let here = Topology::draw(&mut draw, folder.path());
        for source in &here.sources {
            *kinds.entry(std::mem::discriminant(&source.kind)).or_insert(0) += 1;
        }
        let alone = here.mix(0, 1, None);
        let mut models: Vec<Model<'_>> = here.sources.iter().map(Model::new).collect();
        let (mut steps, mut states) = (Vec::new(), Vec::new());
        let weights: f64 = here.sources.iter().map(|source| source.weight).sum();
        for epoch in 0..2 {
            let mut given = vec![0; models.len()];
            for (at, batch) in (0..).zip(alone.epoch(epoch)) {
                let place = format!("topology {number}, epoch {epoch}, step {at}");
                let batch = batch.unwrap();
                assert_eq!(here.rows(&batch), here.named(alone.which(epoch, at, 0).unwrap()), "{place}");
                let step = here.step(&[batch]);
                let before = given.iter().sum::<u64>();
                for (source, model) in models.iter_mut().enumerate() {
                    given[source] += model.expect(&step[source], &place);
                }
                steps.push((step, given.iter().sum::<u64>() - before));
                states.push(serde_json::to_string(&alone.position()).unwrap());
                let (all, total) = (given.iter().sum::<u64>(), (at + 1) * here.global_batch);
                if here.spec.stop == Stop::First && all == total {
                    for (source, given) in here.sources.iter().zip(&given) {
                        let exact = source.weight / weights * all as f64;
                        assert!((*given as f64 - exact).abs() < f64::from(here.lanes), "{place}");
                    }
                }
                checked += 1;
            }
            let plan = alone.plan(epoch).unwrap();
            assert_eq!(plan.sources.iter().map(|source| source.rows).collect::<Vec<_>>(), given);
            let next = alone.position();
            (0..).zip(&mut models).for_each(|(at, model)| model.end_epoch(next.sources[at].first_pass));
        }

        // The rest runs on other ranks, without some steps.
        let at = draw.below(states.len() as u64 - 1) as usize;
        let position: Position = serde_json::from_str(&states[at]).unwrap();
        let world = 1 + draw.below(5) as u32;
        let held = |got: &[Vec<OfSource>], expected: &[(Vec<OfSource>, u64)], what: &str| {
            assert_eq!(got.len(), expected.len(), "topology {number}, {what}");
            for (got, (expected, samples)) in got.iter().zip(expected) {
                // A step with fewer samples than ranks repeats some of them.
                if *samples < world.into() {
                    continue;
                }
                assert_eq!(got, expected, "topology {number}, {what} on {world} ranks");
            }
        };
        let left = &steps[at + 1..];
        held(&here.tail(world, &position, None), left, "resumed");
        let from = at + 1 + draw.below(left.len() as u64) as usize;
        let skip = (from as u64, from as u64 + 1 + draw.below(3));
        let covers = |first: u64, steps: u64| skip.0 <= first && skip.1 >= first + steps;
        let [first, second] = [0, 1].map(|epoch| alone.plan(epoch).unwrap().steps);
        let of_third = alone.plan(2).unwrap().steps;
        if covers(0, first) || covers(first, second) || covers(first + second, of_third) {
            continue;
        }
        let is_left = |(at, _): &(u64, &(Vec<OfSource>, u64))| !(skip.0..skip.1).contains(at);
        let expected: Vec<_> =
            (at as u64 + 1..).zip(left).filter(is_left).map(|(_, step)| step.clone()).collect();
        held(&here.tail(world, &position, Some(skip)), &expected, "with steps passed over");
        // The position records the skipped steps, and so does a plan that is made from it alone.
        let passing = here.mix(0, 1, Some(skip));
        passing.restore(&position).unwrap();
        let saved: Position =
            serde_json::from_str(&serde_json::to_string(&passing.position()).unwrap()).unwrap();
        held(&here.tail(world, &saved, None), &expected, "with the steps of the position passed over");
        let sources = here.sources.iter().map(|source| (source.dataset.clone(), Default::default()));
        let rewind = Rewind::new(sources, &saved).unwrap();
        let passed = rewind.step_of_run(skip.0, 0).unwrap();
        assert_eq!(here.named(passed), here.named(alone.rewind().unwrap().step_of_run(skip.0, 0).unwrap()));
        let said: Vec<_> = rewind.batches(saved.epoch, 0).unwrap().map(|batch| here.named(batch)).collect();
        let read: Vec<_> = passing.epoch(saved.epoch).map(|batch| here.rows(&batch.unwrap())).collect();
        assert_eq!(said, read, "topology {number}");
    }
    assert!(checked > 500 && kinds.len() == 4, "only {checked} steps of {kinds:?}");
}

#[test]
fn weights_that_are_set_hold_from_the_next_step_on_and_are_part_of_the_position() {
    let mut draw = Draw(46);
    for number in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let here = Topology::draw(&mut draw, folder.path());
        let mut weights = || here.sources.iter().map(|_| 1.0 + draw.below(9) as f64).collect::<Vec<_>>();
        let set = [(2, weights()), (5, weights())];
        let alone = here.mix(0, 1, None);
        let planned = alone.plan(0).unwrap().steps;
        if planned < 8 {
            continue;
        }
        let steps = here.rest(std::slice::from_ref(&alone), 0, &set);
        let plain = here.rest(&[here.mix(0, 1, None)], 0, &[]);
        let held = |from: &[(Vec<OfSource>, Position)]| {
            from.iter().map(|(step, _)| step.clone()).collect::<Vec<_>>()
        };
        assert_eq!(held(&steps[..2]), held(&plain[..2]), "topology {number}: before they were set");
        // Each source gives its own samples, one after the other.
        let mut models: Vec<Model<'_>> = here.sources.iter().map(Model::new).collect();
        let mut epoch = 0;
        for (at, (step, position)) in steps.iter().enumerate() {
            for (source, model) in models.iter_mut().enumerate() {
                model.expect(&step[source], &format!("topology {number}, step {at}"));
            }
            if position.epoch > epoch {
                epoch = position.epoch;
                (0..)
                    .zip(&mut models)
                    .for_each(|(at, model)| model.end_epoch(position.sources[at].first_pass));
            }
        }
        // Another number of ranks takes the same steps if it sets the same weights. This also holds if it
        // resumes from a position before they were set.
        let world = 1 + draw.below(4) as u32;
        let ranks = |world: u32| (0..world).map(|rank| here.mix(rank, world, None)).collect::<Vec<_>>();
        let same = |got: Vec<Vec<OfSource>>, expected: &[(Vec<OfSource>, Position)], what: &str| {
            assert_eq!(got.len(), expected.len(), "topology {number}, {what}");
            for (got, (expected, _)) in got.iter().zip(expected) {
                // A step with few samples may repeat some of them.
                if expected.iter().map(Vec::len).sum::<usize>() > 40 {
                    assert_eq!(got, expected, "topology {number}, {what}");
                }
            }
        };
        same(held(&here.rest(&ranks(world), 0, &set)), &steps, "on other ranks");
        for at in [2, 3, 7, steps.len() - 2] {
            let saved: Position =
                serde_json::from_str(&serde_json::to_string(&steps[at].1).unwrap()).unwrap();
            if saved.epoch > 1 {
                continue;
            }
            let again = if at < 4 { vec![(4 - at, set[1].1.clone())] } else { Vec::new() };
            let resumed = ranks(world);
            resumed.iter().for_each(|rank| rank.restore(&saved).unwrap());
            let there = resumed[0].position();
            assert_eq!((there.step(), &there.sources), (saved.step(), &saved.sources));
            same(
                held(&here.rest(&resumed, saved.epoch, &again)),
                &steps[at + 1..],
                &format!("resumed at {at}"),
            );
        }
    }
}

#[test]
fn rows_that_are_denied_from_a_step_on_do_not_come_and_all_others_keep_their_places() {
    let mut draw = Draw(47);
    for number in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let here = Topology::draw(&mut draw, folder.path());
        let from = 1 + draw.below(6);
        // Only few rows are denied, so that each rank always has a sample that can stand in for denied ones.
        let is_denied = |n: i64| n % 29 == 3;
        let denying = |rank: u32, world: u32| {
            here.made(rank, world, None, |builder, source| {
                let ids = source.numbers.iter().filter(|(_, n)| is_denied(**n)).map(|(id, _)| *id);
                builder.deny_from(from, Deny::rows(ids))
            })
        };
        let plain = here.rest(&[here.mix(0, 1, None)], 0, &[]);
        let denied = here.rest(&[denying(0, 1)], 0, &[]);
        assert_eq!(plain.len(), denied.len(), "topology {number}: equal steps");
        for (step, ((all, _), (got, _))) in (0..).zip(plain.iter().zip(&denied)) {
            let is_kept = |sample: &&Sample| step < from || !sample.iter().any(|n| is_denied(*n));
            let kept: Vec<OfSource> =
                all.iter().map(|samples| samples.iter().filter(is_kept).cloned().collect()).collect();
            let place = format!("topology {number}, step {step}, denied from {from}");
            if kept.iter().all(Vec::is_empty) {
                let stand_in = got.concat();
                let is_one_denied = stand_in.iter().flatten().any(|n| is_denied(*n));
                assert!(stand_in.len() == 1 && !is_one_denied, "{place}: {stand_in:?}");
                continue;
            }
            for (source, (kept, got)) in kept.iter().zip(got).enumerate() {
                assert!(got.iter().all(|sample| kept.contains(sample)), "{place}, source {source}");
                // A pack may be left out for a denied row that has no tokens, which its values do not show.
                if !matches!(here.sources[source].kind, Samples::Packs(_)) {
                    assert_eq!(got, kept, "{place}, source {source}");
                }
            }
        }
        let at = draw.below(denied.len() as u64 - 1) as usize;
        let saved: Position = serde_json::from_str(&serde_json::to_string(&denied[at].1).unwrap()).unwrap();
        if saved.epoch > 1 {
            continue;
        }
        let world = 1 + draw.below(2) as u32;
        let ranks: Vec<Loader> = (0..world).map(|rank| denying(rank, world)).collect();
        ranks.iter().for_each(|rank| rank.restore(&saved).unwrap());
        let rest = here.rest(&ranks, saved.epoch, &[]);
        assert_eq!(rest.len(), denied.len() - at - 1, "topology {number}");
        for ((got, _), (expected, _)) in rest.iter().zip(&denied[at + 1..]) {
            for (source, (got, expected)) in got.iter().zip(expected).enumerate() {
                // Ranks without a sample of their own get one that stands in.
                let is_expected = |sample: &Sample| expected.contains(sample) || expected.len() < 12;
                assert!(got.iter().all(is_expected), "topology {number}, source {source} on {world} ranks");
                assert!(!got.iter().flatten().any(|n| is_denied(*n)) || at as u64 + 1 < from);
            }
        }
        let without = here.mix(0, 1, None).restore(&saved);
        match saved.step().unwrap() > from {
            true => {
                let error = without.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::StateMismatch);
                assert!(error.to_string().contains("denied from a step on, here they are none"), "{error}");
            }
            false => without.unwrap(),
        }
        let sources = here.sources.iter().map(|source| (source.dataset.clone(), Deny::default()));
        Rewind::new(sources, &saved).unwrap();
    }
}

#[test]
fn a_loader_denies_rows_within_an_epoch() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(1), folder.path(), &[100], 20);
    let dataset = Dataset::open(folder.path()).unwrap();
    let plain = dataset.loader().columns(["n"]).shuffle(Shuffle::seeded(3)).batch_size(10);
    let rows = |loader: &Loader, epoch: u64| -> Vec<Vec<i64>> {
        let rows = |batch: RecordBatch| batch["n"].as_primitive::<Int64Type>().values().to_vec();
        loader.epoch(epoch).map(|batch| rows(batch.unwrap())).collect()
    };
    let before = plain.clone().build().unwrap();
    let all = [rows(&before, 0), rows(&before, 1)];
    let named = before.which(0, 6, 0).unwrap();
    let ids: Vec<RowId> = named[..4].iter().map(|row| row.id).collect();
    let mut epoch = before.epoch(0);
    (0..5).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let saved = before.position();
    let denying = |from: u64| plain.clone().deny_from(from, Deny::rows(ids.clone())).build().unwrap();
    let resumed = denying(5);
    resumed.restore(&saved).unwrap();
    let rest = rows(&resumed, 0);
    assert_eq!((&rest[0], &rest[2..]), (&all[0][5], &all[0][7..]));
    assert_eq!(rest[1], all[0][6][4..]);
    assert!(resumed.stats().skipped_rows == 0, "they are not bad rows");
    let next = rows(&resumed, 1);
    assert_eq!(next.concat().len(), 96, "each later epoch has all rows but these");
    assert!(next.iter().zip(&all[1]).all(|(next, all)| next.iter().all(|n| all.contains(n))));
    let mut epoch = resumed.epoch(0);
    (0..6).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let error = before.restore(&resumed.position()).unwrap_err().to_string();
    assert!(
        error.contains("denied from a step on, here they are none (give deny_from as the run"),
        "{error}"
    );
    denying(3).restore(&resumed.position()).unwrap();
    let values = plain.clone().deny_from(5, Deny::values("n", [3])).build().unwrap_err().to_string();
    assert!(values.starts_with("deny_from has values of a column"), "{values}");
}

#[test]
fn weights_that_are_set_hold_from_their_steps_in_whatever_order_they_were_set() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(1), folder.path(), &[400], 50);
    let dataset = Dataset::open(folder.path()).unwrap();
    let mix = || {
        let source = || (dataset.loader().columns(["n"]), 1.0);
        let mix = Loader::mix([source(), source()]).unwrap().batch_size(10).source(true).stop(Stop::Last);
        mix.weights_from(12, [2.0, 8.0]).build().unwrap()
    };
    let counts = |loader: &Loader| -> Vec<usize> {
        let count = |batch: RecordBatch| {
            batch["source"].as_primitive::<Int64Type>().values().iter().filter(|source| **source == 0).count()
        };
        loader.epoch(0).map(|batch| count(batch.unwrap())).collect()
    };
    let all = [(4, [1.0, 9.0]), (8, [9.0, 1.0]), (15, [3.0, 7.0])];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let set = mix();
        order.iter().for_each(|at| set.set_weights(&all[*at].1, Some(all[*at].0)).unwrap());
        let again = mix();
        again.restore(&set.position()).unwrap();
        for loader in [set, again] {
            let counts = counts(&loader);
            let at = [0, 3, 4, 7, 8, 14, 15, 20].map(|step| counts[step]);
            assert_eq!(at, [5, 5, 1, 1, 9, 9, 3, 3], "set in the order {order:?}");
        }
    }
    let set = mix();
    for weights in [[1.0, 9.0], [9.0, 1.0]] {
        set.set_weights(&weights, Some(6)).unwrap();
    }
    assert_eq!(counts(&set)[5..8], [5, 9, 9], "the last weights of a step hold");
    // An epoch that ended stays as long as it was, although the new weights would leave rows for more steps.
    let source = |rows: u64| (dataset.loader().columns(["n"]).filter(col("n").lt_eq(rows as i64)), 1.0);
    let set = Loader::mix([source(40), source(100)]).unwrap().batch_size(10).build().unwrap();
    set.epoch(0).for_each(|batch| drop(batch.unwrap()));
    set.set_weights(&[0.0, 1.0], None).unwrap();
    assert_eq!((set.position().step(), set.rewind().unwrap().locate(8).unwrap()), (Some(8), (1, 0)));
    assert_eq!(set.epoch(1).count(), 10);
}

#[test]
fn weights_that_cannot_be_set_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(1), folder.path(), &[200], 50);
    let dataset = Dataset::open(folder.path()).unwrap();
    let source = || (dataset.loader().columns(["n"]), 1.0);
    let mix = Loader::mix([source(), source()]).unwrap().batch_size(10).stop(Stop::Last).build().unwrap();
    let mut epoch = mix.epoch(0);
    (0..3).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let before = mix.position();
    for (weights, from, said) in [
        (vec![1.0], None, "1 weights were given (there are 2 sources)"),
        (vec![1.0, -1.0], None, "the weight of source 1 is -1"),
        (vec![0.0, 0.0], None, "all weights are 0"),
        (vec![1.0, 1.0], Some(2), "weights are set from step 2, and the run is at step 3"),
    ] {
        let error = mix.set_weights(&weights, from).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
        assert_eq!(mix.position(), before);
    }
    // Batches that were taken ahead have the earlier weights.
    let taken = epoch.next_step(std::time::Duration::from_secs(600));
    assert!(matches!(taken, forebay::Wait::Step(Ok(_))));
    let error = mix.set_weights(&[3.0, 1.0], None).unwrap_err().to_string();
    assert!(
        error.starts_with("weights are set from step 3, and batches were made ahead up to step 4"),
        "{error}"
    );
    mix.set_weights(&[3.0, 1.0], Some(6)).unwrap();
    let steps = mix.len();
    assert_eq!(epoch.count() as u64, steps - 4);
    let error = dataset.loader().build().unwrap().set_weights(&[1.0], None).unwrap_err().to_string();
    assert!(error.starts_with("weights were set, but this is not a mix"), "{error}");
    // A position stores the whole schedule, so it may not be too long.
    let changing = |changes: u64| {
        let mix = Loader::mix([source(), source()]).unwrap().batch_size(10).stop(Stop::Last);
        (1..=changes).fold(mix, |mix, step| mix.weights_from(step, [1.0, 1.0 + (step % 2) as f64])).build()
    };
    changing(1_000).unwrap();
    let error = changing(2_001).unwrap_err().to_string();
    assert!(error.contains("up to 4000; change the weights less often"), "{error}");
}

#[test]
fn a_source_has_at_most_its_passes_and_one_without_weight_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [400, 60, 50];
    let sources: Vec<Dataset> = (0..)
        .zip(sizes)
        .map(|(at, rows)| {
            let folder = folder.path().join(format!("{at}"));
            std::fs::create_dir_all(&folder).unwrap();
            write(&mut Draw(at), &folder, &[rows], 50);
            Dataset::open(&folder).unwrap()
        })
        .collect();
    let mix = || {
        let sources = sources.iter().map(|source| (source.loader().columns(["n"]), 1.0));
        Loader::mix(sources).unwrap().batch_size(9).stop(Stop::Last)
    };
    let rows = |loader: &Loader| {
        let plan = loader.plan(0).unwrap();
        plan.sources.iter().map(|source| source.rows).collect::<Vec<_>>()
    };
    let unlimited = rows(&mix().build().unwrap());
    assert_eq!(unlimited, [400, 400, 400]);
    let limited = mix().max_passes([None, Some(2), Some(3)]).build().unwrap();
    assert_eq!(rows(&limited), [400, 120, 150]);
    assert_eq!(limited.epoch(0).map(|batch| batch.unwrap().num_rows() as u64).sum::<u64>(), 670);
    let error = mix().build().unwrap().restore(&limited.position()).unwrap_err().to_string();
    assert!(
        error.starts_with("the state was saved with max_passes [none, 2, 3], this mix has none"),
        "{error}"
    );
    let ended = mix().weights_from(10, [1.0, 0.0, 1.0]).build().unwrap();
    assert_eq!(rows(&ended), [400, 30, 400]);
    let ended = mix().repeat(false).weights_from(10, [1.0, 0.0, 1.0]).build().unwrap();
    assert_eq!(rows(&ended), [400, 30, 50]);
    for (builder, said) in [
        (mix().max_passes([Some(1)]), "max_passes has 1 numbers, for 3 sources"),
        (mix().max_passes([None, Some(0), None]), "max_passes of source 1 is 0"),
        (
            mix().repeat(false).max_passes([None, Some(2), None]),
            "`max_passes` was given, but no source begins again",
        ),
        (mix().stop(Stop::First).max_passes([None; 3]), "`max_passes` was given, but no source begins again"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn steps_that_a_state_passes_over_are_not_read_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(1), folder.path(), &[200], 50);
    let dataset = Dataset::open(folder.path()).unwrap();
    let mix = |skip: &[(u64, u64)], batch: u64| {
        let packs = dataset.loader().samples(Pack::split(["tokens"], 8));
        Loader::mix([(packs, 1.0)]).unwrap().batch_size(batch).skip_steps(skip.iter().copied()).build()
    };
    let passing = mix(&[(5, 8)], 4).unwrap();
    let steps = passing.len();
    assert_eq!(steps + 3, mix(&[], 4).unwrap().len());
    assert_eq!((passing.plan(0).unwrap().steps, passing.plan(1).unwrap().steps), (steps, steps + 3));
    let mut epoch = passing.epoch(0);
    (0..3).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let position = passing.position();
    (0..2).for_each(|_| drop(epoch.next().unwrap().unwrap()));
    let rewind = passing.rewind().unwrap();
    assert_eq!(rewind.next(0).unwrap(), rewind.step(0, 8, 0).unwrap());
    let left = [0, 1].map(|epoch| rewind.batches(epoch, 0).unwrap().count() as u64);
    assert_eq!(left, [steps - 5, steps + 3], "all of the next epoch");
    for (other, said) in [
        (mix(&[(5, 7)], 4), "the state skips steps 5 to 8, but this mix does not"),
        (mix(&[], 5), "the state skips steps 5 to 8, which have other rows in this mix"),
    ] {
        let error = other.unwrap().restore(&position).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StateMismatch);
        assert!(error.to_string().starts_with(said), "{error}");
    }
    // The position after an epoch whose last steps were skipped is behind them, so they need not be given.
    let first = mix(&[], 4).unwrap().len();
    let over = mix(&[(first - 2, first)], 4).unwrap();
    over.epoch(0).for_each(|batch| drop(batch.unwrap()));
    assert_eq!(over.position().step(), Some(first));
    mix(&[(first + 1, first + 2)], 4).unwrap().restore(&over.position()).unwrap();
    let error = mix(&[(0, 1_000)], 4).unwrap_err().to_string();
    assert!(error.starts_with("skip_steps leaves no step of epoch 0"), "{error}");
    let error = mix(&[(first - 1, 2 * first)], 4).unwrap_err().to_string();
    assert!(error.starts_with("skip_steps leaves no step of epoch 1"), "{error}");
    mix(&[(first - 1, 2 * first - 1)], 4).unwrap();
    let error = mix(&[(3, 3)], 4).unwrap_err().to_string();
    assert!(error.starts_with("skip_steps has a range from 3 to 3"), "{error}");
}

/// The mean is counted here from the lists and from the samples of each source's own loader. Every step
/// equals that of a mix whose weights are divided by these means, on any number of ranks, and after a resume.
#[test]
fn weights_by_a_cost_are_divided_by_the_mean_cost_of_a_sample() {
    let (mut draw, mut checked) = (Draw(47), 0);
    for number in 0..24 {
        let folder = tempfile::tempdir().unwrap();
        let mut here = Topology::draw(&mut draw, folder.path());
        let shared = |source: &SampledSource| matches!(source.kind, Samples::Windows(_));
        here.spec.by = vec!["tokens".into()];
        if here.sources.iter().any(shared) {
            let sources = here.sources.iter().map(|source| (source.builder(), 1.0));
            let refused = Loader::mix(sources).unwrap().spec(here.spec.clone()).build().unwrap_err();
            assert!(refused.to_string().contains("samples are windows"), "{refused}");
            continue;
        }
        let means: Vec<f64> = here
            .sources
            .iter()
            .map(|source| {
                let lists = source.dataset.loader().columns(["tokens"]).build().unwrap();
                let of_batch = |batch: RecordBatch| batch["tokens"].as_list::<i64>().values().len();
                let tokens: usize = lists.epoch(0).map(|batch| of_batch(batch.unwrap())).sum();
                tokens as f64 / source.pass(0).len() as f64
            })
            .collect();
        let by_cost = here.mix(0, 1, None);
        assert_eq!(by_cost.mean_costs().unwrap(), means, "topology {number}");
        if by_cost.plan(0).unwrap().steps < 8 {
            continue;
        }
        let given: Vec<f64> = here.sources.iter().map(|source| source.weight).collect();
        let later: Vec<f64> = given.iter().rev().copied().collect();
        let steps = here.rest(std::slice::from_ref(&by_cost), 0, &[(3, later.clone())]);
        let world = 1 + draw.below(4) as u32;
        let ranks: Vec<Loader> = (0..world).map(|rank| here.mix(rank, world, None)).collect();
        let at = draw.below(2) as usize;
        ranks.iter().for_each(|rank| rank.restore(&steps[at].1).unwrap());
        let rest = here.rest(&ranks, 0, &[(2 - at, later.clone())]);
        assert_eq!(rest.len(), steps.len() - at - 1, "topology {number}");
        for ((got, _), (expected, _)) in rest.iter().zip(&steps[at + 1..]) {
            // A step with few samples may repeat some of them.
            if expected.iter().map(Vec::len).sum::<usize>() > 40 {
                assert_eq!(got, expected, "topology {number}");
            }
        }
        here.spec.by.clear();
        for (source, mean) in here.sources.iter_mut().zip(&means) {
            source.weight /= mean;
        }
        let later: Vec<f64> = later.iter().zip(&means).map(|(weight, mean)| weight / mean).collect();
        let expected = here.rest(&[here.mix(0, 1, None)], 0, &[(3, later)]);
        for ((step, position), (expected, planned)) in steps.iter().zip(&expected) {
            assert_eq!(step, expected, "topology {number}");
            assert_eq!(position, planned, "topology {number}");
        }
        assert_eq!(steps.len(), expected.len());
        checked += 1;
    }
    assert!(checked > 5, "only {checked}");
}

#[test]
fn each_source_may_have_a_cost_of_its_own_and_shares_that_would_be_rounded_away_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(&mut Draw(1), folder.path(), &[100], 20);
    let dataset = Dataset::open(folder.path()).unwrap();
    let mix = |weight: f64, costs: &[&str]| {
        let source = |weight: f64| (dataset.loader().columns(["n"]), weight);
        let mix = Loader::mix([source(1.0), source(weight)]).unwrap().batch_size(10);
        mix.by(costs.iter().copied()).build()
    };
    let classes: i64 = (1..=100).map(|n| n % 7 % 4).sum();
    let means = mix(1.0, &["n", "c"]).unwrap().mean_costs().unwrap();
    assert_eq!(means, [50.5, classes as f64 / 100.0]);
    assert_eq!(mix(1.0, &["c"]).unwrap().mean_costs().unwrap(), [means[1]; 2]);
    mix(1e-7, &[]).unwrap();
    let error = mix(1e-7, &["n"]).unwrap_err().to_string();
    assert!(error.starts_with("source 1 would have to give 0.0000001 of the samples"), "{error}");
}

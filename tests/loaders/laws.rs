//! Checks the laws on what the loaders of a case deliver.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use forebay::{ErrorKind, Loader, OnBadRow, Position};
use tempfile::TempDir;

use crate::case::{AMPLE, Case, Mixing};
use crate::filters::selected;
use crate::run::{How, RunStep, build, cache, take, whole};
use crate::table::TableOnDisk;

/// From this many rows on, two orders are never equal by chance.
const MIN_ROWS_OF_DISTINCT_ORDERS: usize = 24;

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Refused,
    /// The case was run, and its cache was hit this often.
    Ran {
        hits: u64,
    },
}

/// A case that is being checked.
struct Trial<'a> {
    case: &'a Case,
    table: TableOnDisk,
    /// The rows that the filter selects, in the stored order.
    selected: Vec<u64>,
    /// The rows that each rank got in each epoch; they are the reference, once the laws hold for them.
    epochs: BTreeMap<u64, Vec<Vec<RunStep>>>,
}

/// Checks a case against all laws.
pub(crate) fn check(case: &Case) -> Outcome {
    let table = TableOnDisk::write(case.layout.clone());
    let selected = selected(&case.filter, &table);
    let mut trial = Trial { case, table, selected, epochs: BTreeMap::new() };
    let folder = TempDir::new().unwrap();
    let Some(loaders) = trial.loaders(&folder) else { return Outcome::Refused };
    trial.epochs_of(&loaders);
    trial.epochs_differ();
    for epoch in trial.epochs.keys() {
        trial.exactly_once(*epoch);
        if case.mixing == Mixing::Stored {
            trial.as_stored(*epoch);
        }
    }
    trial.visits(&loaders);
    let hits = trial.any_threads_memory_and_cache(&folder);
    trial.any_world();
    trial.resumed();
    trial.another_seed();
    trial.bad_rows();
    trial.closed(&loaders);
    Outcome::Ran { hits }
}

impl Trial<'_> {
    fn ample(&self, rank: u32) -> How {
        How { memory: AMPLE, threads: 2, ..How::for_rank(self.case, rank) }
    }

    /// Builds a loader that must not be refused.
    fn build(&self, how: &How) -> Loader {
        build(self.case, &self.table, how, None).unwrap_or_else(|error| panic!("{how:?}: {error}"))
    }

    /// Whether the loader must refuse these numbers of rows, lanes and ranks, even with unlimited memory.
    fn is_hopeless(&self, how: &How, lanes: u32) -> bool {
        let rows = self.selected.len() as u64;
        let global = u64::from(how.world) * how.batch;
        rows == 0 || rows < u64::from(lanes) || (self.case.drop_last && rows < global)
    }

    /// Builds a loader for each rank; `None` if all are refused.
    fn loaders(&self, folder: &TempDir) -> Option<Vec<Loader>> {
        let case = self.case;
        let hopeless = self.is_hopeless(&How::for_rank(case, 0), case.lanes());
        let loader = |rank| build(case, &self.table, &How::for_rank(case, rank), cache(case, folder.path()));
        let built: Vec<_> = (0..case.world).map(loader).collect();
        let mut loaders = Vec::new();
        for built in built {
            match built {
                Ok(loader) => {
                    assert!(!hopeless, "accepted what cannot work");
                    loaders.push(loader);
                }
                Err(error) => match error.kind() {
                    ErrorKind::Invalid => assert!(hopeless, "{error}"),
                    ErrorKind::TooLarge => assert!(case.memory < AMPLE, "{error}"),
                    _ => panic!("{error}"),
                },
            }
        }
        assert!(
            loaders.is_empty() || loaders.len() == case.world as usize,
            "ranks disagree on what is refused"
        );
        (!loaders.is_empty()).then_some(loaders)
    }

    fn epochs_of(&mut self, loaders: &[Loader]) {
        let case = self.case;
        let wanted: BTreeSet<u64> = case.visits.iter().map(|(epoch, _)| *epoch).chain([0, 1]).collect();
        for epoch in wanted {
            let mut delivered = 0;
            let mut padded = 0;
            let mut ranks = Vec::new();
            for loader in loaders {
                let before = loader.stats();
                let steps = whole(case, &self.table, loader, epoch);
                let after = loader.stats();
                let plan = loader.plan(epoch).unwrap();
                let rows: u64 = steps.iter().map(RunStep::len).sum();
                let stand_ins = steps.iter().filter(|step| step.stands_in.is_some()).count() as u64;
                let repeated = after.padded_rows - before.padded_rows - stand_ins;
                assert_eq!((plan.steps, plan.rows), (steps.len() as u64, rows), "the plan is what comes");
                let reads = plan.reads.as_ref().unwrap();
                assert_eq!(reads.padded, repeated, "repeats are counted");
                assert_eq!(reads.dropped, self.dropped(0, case.global_batch()));
                let skipped: usize = steps.iter().map(|step| step.skipped.len()).sum();
                assert_eq!(after.skipped_rows - before.skipped_rows, skipped as u64);
                let position = loader.position();
                assert_eq!((position.epoch, position.row), (epoch + 1, 0));
                delivered += rows;
                padded += repeated;
                ranks.push(steps);
            }
            let expected = self.selected.len() as u64 - self.dropped(0, case.global_batch()) + padded;
            assert_eq!(delivered, expected, "rows, repeats and drops add up");
            self.epochs.insert(epoch, ranks);
        }
    }

    /// How many rows after the first `start` do not fill a step.
    fn dropped(&self, start: u64, global: u64) -> u64 {
        if self.case.drop_last { (self.selected.len() as u64 - start) % global } else { 0 }
    }

    fn steps(&self, start: u64, global: u64) -> u64 {
        let left = self.selected.len() as u64 - start;
        if self.case.drop_last { left / global } else { left.div_ceil(global) }
    }

    /// Laws 2 and 3: each row is delivered once, and all ranks have the same number of steps.
    fn exactly_once(&self, epoch: u64) {
        let case = self.case;
        let steps = self.steps(0, case.global_batch());
        let mut times: HashMap<u64, u64> = HashMap::new();
        for rank in &self.epochs[&epoch] {
            assert_eq!(rank.len() as u64, steps, "all ranks have the same steps");
            for (number, step) in rank.iter().enumerate() {
                let is_last = number as u64 + 1 == steps;
                assert!(step.len() == case.batch || is_last && (1..case.batch).contains(&step.len()));
                step.rows().for_each(|id| *times.entry(id).or_default() += 1);
                let decodes = case.decoded().is_some();
                assert!(step.skipped.iter().all(|id| decodes && self.table.is_bad(*id)));
                assert!(!decodes || !step.ids.iter().any(|id| self.table.is_bad(*id)));
            }
        }
        let all: BTreeSet<u64> = self.selected.iter().copied().collect();
        assert!(times.keys().all(|id| all.contains(id)), "a row that the filter leaves out");
        let dropped = self.dropped(0, case.global_batch());
        assert_eq!(times.len() as u64, all.len() as u64 - dropped, "each row once");
        // A row comes again only in a last step that has fewer rows than ranks.
        let again: u64 = times.values().map(|times| times - 1).sum();
        let in_last = self.selected.len() as u64 % case.global_batch();
        assert!(again == 0 || (!case.drop_last && in_last > 0 && again < u64::from(case.world)));
    }

    /// Checks the stored order, computed only from its definition: lanes are equal runs of the selected rows,
    /// global row `i` is the next row of lane `i mod lanes`, and the rows of a step are sorted by lane.
    fn as_stored(&self, epoch: u64) {
        let (rows, lanes) = (self.selected.len(), self.case.lanes() as usize);
        let mut starts = vec![0];
        (0..lanes).for_each(|lane| starts.push(starts[lane] + (rows + lanes - 1 - lane) / lanes));
        let global: Vec<u64> = (0..rows).map(|i| self.selected[starts[i % lanes] + i / lanes]).collect();
        let ranks = &self.epochs[&epoch];
        for (number, part) in global.chunks(self.case.global_batch() as usize).enumerate() {
            if number >= ranks[0].len() {
                break;
            }
            let mut part = part.to_vec();
            part.sort_unstable();
            let mut together: Vec<u64> = Vec::new();
            for rank in ranks {
                let step = &rank[number];
                let mut rows: Vec<u64> = step.rows().collect();
                rows.sort_unstable();
                assert!(step.ids.is_sorted(), "the rows of a stored order are in it");
                together.extend(rows.into_iter().filter(|row| part.binary_search(row).is_ok()));
            }
            if part.len() < ranks.len() {
                // Some rows are delivered twice, so that no rank is without a batch.
                together.sort_unstable();
                together.dedup();
            }
            assert_eq!(together, part, "step {number} of the stored order");
        }
    }

    fn epochs_differ(&self) {
        let flat = |epoch: &Vec<Vec<RunStep>>| -> Vec<u64> {
            epoch.iter().flatten().flat_map(RunStep::rows).collect()
        };
        let orders: BTreeSet<Vec<u64>> = self.epochs.values().map(flat).collect();
        if self.case.mixing == Mixing::Stored {
            assert_eq!(orders.len(), 1, "the stored order is the same in all epochs");
        } else if self.selected.len() >= MIN_ROWS_OF_DISTINCT_ORDERS && !self.case.drop_last {
            assert_eq!(orders.len(), self.epochs.len(), "each epoch has an order of its own");
        }
    }

    /// Law 1: an epoch has the same rows whichever epochs the loader read before, and whether or not it left
    /// them early.
    fn visits(&self, loaders: &[Loader]) {
        let case = self.case;
        for (rank, loader) in loaders.iter().enumerate() {
            for &(epoch, share) in &case.visits {
                let truth = &self.epochs[&epoch][rank];
                let taken = (truth.len() as u64 * share / 1_000).min(truth.len() as u64 + 1) as usize;
                let mut under_way = loader.epoch(epoch);
                let steps = take(case, &self.table, loader, &mut under_way, taken);
                assert_eq!(steps[..], truth[..taken.min(truth.len())], "epoch {epoch}, as it was before");
                let position = loader.position();
                let row = steps.len() as u64 * case.global_batch();
                let expected = if steps.len() == truth.len() { (epoch + 1, 0) } else { (epoch, row) };
                assert_eq!((position.epoch, position.row), expected, "what was handed over");
            }
        }
    }

    /// Law 1: the steps do not depend on threads or memory, nor on a cache, empty or filled. Returns how
    /// often the cache was hit.
    fn any_threads_memory_and_cache(&self, folder: &TempDir) -> u64 {
        let case = self.case;
        let rank = case.world - 1;
        let threads = if case.threads == 1 { 3 } else { 1 };
        let how = How { threads, ..self.ample(rank) };
        let caches = [None, cache(case, folder.path())];
        for cache in &caches[..1 + usize::from(case.cache.is_some())] {
            let loader = build(case, &self.table, &how, cache.clone()).unwrap();
            for (epoch, ranks) in self.epochs.iter().rev() {
                assert_eq!(&whole(case, &self.table, &loader, *epoch), &ranks[rank as usize]);
            }
        }
        caches[1].as_ref().map_or(0, |cache| cache.stats().hits)
    }

    /// Law 4: with the global batch and the lanes constant, a step has the same rows on any world.
    fn any_world(&self) {
        let case = self.case;
        let global = case.global_batch();
        let rows = self.selected.len() as u64;
        let others =
            (1..=8u32).filter(|world| *world != case.world && global.is_multiple_of(u64::from(*world)));
        let Some(world) = others.max_by_key(|world| (world * 7) % 5) else { return };
        let mut together: Vec<BTreeSet<u64>> = Vec::new();
        for rank in 0..world {
            let shuffle = case.shuffle().lanes(case.lanes());
            let how = How { world, batch: global / u64::from(world), shuffle, ..self.ample(rank) };
            let steps = whole(case, &self.table, &self.build(&how), 1);
            together.resize(steps.len(), BTreeSet::new());
            together.iter_mut().zip(steps).for_each(|(all, step)| all.extend(step.rows()));
        }
        let ranks = &self.epochs[&1];
        assert_eq!(together.len(), ranks[0].len());
        for (number, other) in together.iter().enumerate() {
            let here: BTreeSet<u64> = ranks.iter().flat_map(|rank| rank[number].rows()).collect();
            // In a short last step, each world may repeat different rows, but the remaining rows are common.
            let full = (number as u64 + 1) * global <= rows;
            let common = here.intersection(other).count() as u64;
            assert!(
                if full { here == *other } else { common >= rows - number as u64 * global },
                "step {number} on a world of {world}"
            );
        }
    }

    /// Laws 4 and 5: a position saved at any step resumes on any world, and each row comes exactly once.
    fn resumed(&self) {
        let case = self.case;
        let (world, batch) = case.saved_to;
        let truth = &self.epochs[&1];
        let taken = (truth[0].len() as u64 * case.saved_at / 1_000).min(truth[0].len() as u64) as usize;
        let mut states = BTreeSet::new();
        for rank in 0..case.world {
            let loader = self.build(&self.ample(rank));
            let steps = take(case, &self.table, &loader, &mut loader.epoch(1), taken);
            assert_eq!(steps[..], truth[rank as usize][..taken]);
            let mut position = loader.position();
            if taken == 0 {
                (position.epoch, position.row) = (1, 0);
            }
            let skipped: usize = steps.iter().map(|step| step.skipped.len()).sum();
            assert_eq!(
                position.sources[0].skipped,
                if taken == steps.len() && position.row > 0 { skipped as u64 } else { 0 }
            );
            // Only the count of bad rows differs from rank to rank.
            position.sources[0].skipped = 0;
            states.insert(serde_json::to_string(&position).unwrap());
        }
        assert_eq!(states.len(), 1, "the state is the same on every rank");
        let state: Position = serde_json::from_str(states.first().unwrap()).unwrap();
        let is_over = taken == truth[0].len();
        let start = if is_over { 0 } else { taken as u64 * case.global_batch() };
        assert_eq!((state.epoch, state.row), (1 + u64::from(is_over), start));

        // On the same world, the steps are exactly the same.
        let rank = case.world / 2;
        let loader = self.build(&How { threads: 1, ..self.ample(rank) });
        loader.restore(&state).unwrap();
        assert_eq!(loader.position(), state);
        let mut epoch = loader.next_epoch();
        assert_eq!(epoch.number(), state.epoch);
        let tail = take(case, &self.table, &loader, &mut epoch, usize::MAX);
        if !is_over {
            assert_eq!(tail[..], truth[rank as usize][taken..], "the undisturbed tail");
        }
        assert_eq!((loader.position().epoch, loader.position().row), (state.epoch + 1, 0));
        assert_eq!(loader.next_epoch().number(), state.epoch + 1);

        // Resume on another world.
        let shape = How { world, batch, ..self.ample(0) };
        if is_over || self.is_hopeless(&shape, case.lanes.unwrap_or(world)) {
            return;
        }
        let global = u64::from(world) * batch;
        let mut seen: HashMap<u64, u64> = HashMap::new();
        let mut count = |step: &RunStep| step.rows().for_each(|id| *seen.entry(id).or_default() += 1);
        truth.iter().flat_map(|rank| &rank[..taken]).for_each(&mut count);
        let mut padded = 0;
        for rank in 0..world {
            let loader = self.build(&How { rank, ..shape.clone() });
            loader.restore(&state).unwrap();
            let mut epoch = loader.next_epoch();
            if self.steps(start, global) == 0 {
                // The remaining rows do not fill a step of this world, so the next epoch begins at once.
                assert_eq!((epoch.number(), epoch.remaining()), (2, loader.len()));
                return;
            }
            assert_eq!((epoch.number(), epoch.remaining()), (1, self.steps(start, global)));
            let steps = take(case, &self.table, &loader, &mut epoch, usize::MAX);
            steps.iter().for_each(&mut count);
            let stand_ins = steps.iter().filter(|step| step.stands_in.is_some()).count() as u64;
            padded += loader.stats().padded_rows - stand_ins;
        }
        let dropped = self.dropped(start, global);
        assert_eq!(
            seen.len() as u64,
            self.selected.len() as u64 - dropped,
            "each row once, over both worlds"
        );
        assert_eq!(seen.values().map(|times| times - 1).sum::<u64>(), padded);
    }

    fn another_seed(&self) {
        let case = self.case;
        if case.mixing == Mixing::Stored
            || self.selected.len() < MIN_ROWS_OF_DISTINCT_ORDERS * case.world as usize
        {
            return;
        }
        let other = Case { seed: case.seed + 1, ..case.clone() };
        let how = How { shuffle: other.shuffle(), ..self.ample(0) };
        let loader = build(&other, &self.table, &how, None).unwrap();
        let steps = whole(&other, &self.table, &loader, 0);
        assert_ne!(steps, self.epochs[&0][0], "each seed has an order of its own");
    }

    /// Law 7: the epoch ends at the first bad row that may not be skipped, with an error that names the row's
    /// place.
    fn bad_rows(&self) {
        let skips = |rank: &Vec<RunStep>| -> u64 { rank.iter().map(|step| step.skipped.len() as u64).sum() };
        let Some(rank) = self.epochs[&0].iter().position(|rank| skips(rank) > 0) else { return };
        let truth = &self.epochs[&0][rank];
        let most = skips(truth);
        for (allowed, on_bad_row) in
            [(0, OnBadRow::Raise), (most - 1, OnBadRow::skip(most - 1)), (most, OnBadRow::skip(most))]
        {
            let loader = self.build(&How { on_bad_row, ..self.ample(rank as u32) });
            // Each epoch counts its skipped rows from zero.
            for _ in 0..2 {
                let mut left = allowed;
                let mut epoch = loader.epoch(0);
                for (number, step) in truth.iter().enumerate() {
                    let batch = epoch.next().unwrap();
                    // If all rows of a batch are bad, the loader reads on to a batch with a good row, so the
                    // bad rows of all these batches count here.
                    let with_row = truth[number..].iter().position(|step| step.stands_in.is_none());
                    let together = &truth[number..][..with_row.map_or(truth.len() - number, |at| at + 1)];
                    let found: u64 = together.iter().map(|step| step.skipped.len() as u64).sum();
                    if found <= left {
                        left -= step.skipped.len() as u64;
                        assert_eq!(batch.unwrap().num_rows(), step.ids.len().max(1));
                        continue;
                    }
                    let mut until = 0;
                    let over = together.iter().find(|step| {
                        until += step.skipped.len() as u64;
                        until > left
                    });
                    let step = over.unwrap();
                    let error = batch.expect_err("a bad row too many");
                    assert_eq!(error.kind(), ErrorKind::BadRow, "{error}");
                    let views = self.case.views();
                    let column = views.map_or(self.case.pictures.column(), |_| "image.a");
                    assert_eq!(error.place().column.as_deref(), Some(column));
                    let at = match on_bad_row {
                        OnBadRow::Raise => step.skipped[0],
                        OnBadRow::Skip { .. } => *step.skipped.last().unwrap(),
                        other => unreachable!("{other:?} has no model"),
                    };
                    assert_eq!(self.table.id_at(error.place()), at);
                    break;
                }
                assert!(epoch.next().is_none());
            }
        }
    }

    /// Law 8: after `close()` there is one error and then nothing; batches that were made before may still
    /// come.
    fn closed(&self, loaders: &[Loader]) {
        let truth = &self.epochs[&0][0];
        let taken = (truth.len() as u64 * self.case.closed_at / 1_000) as usize;
        let mut epoch = loaders[0].epoch(0);
        let steps = take(self.case, &self.table, &loaders[0], &mut epoch, taken);
        assert_eq!(steps[..], truth[..taken]);
        let owed = epoch.remaining();
        loaders[0].close();
        let rest: Vec<_> = epoch.collect();
        if owed > 0 && (rest.len() as u64) <= owed {
            let last = rest.last().unwrap();
            assert!(last.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::Closed));
            assert!(last.is_err() || rest.len() as u64 == owed);
        }
        let after: Vec<_> = loaders[0].next_epoch().collect();
        assert_eq!(after.len(), 1);
        assert_eq!(after[0].as_ref().unwrap_err().kind(), ErrorKind::Closed);
    }
}

//! Sums up what one rank reads in an epoch, from the footers of the files alone.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::advice::{BetterMixing, better_mixing};
use super::sizing::{OVERHEAD_BYTES, READ_AHEAD, Sizing, words};
use crate::reader::cost::Cost;
use crate::reader::fetch::Fetcher;
use crate::samples::SampleIndex;
use crate::shard::{
    EpochOrder, MixSplit, MixedEpoch, OrderSpec, Part, Portion, Split, Walk, expected_distinct,
    row_groups_of_a_batch, row_groups_of_step,
};

/// A summary of the reads of one rank in one epoch, from footers alone: see
/// [`Loader::plan`](super::Loader::plan).
///
/// ```no_run
/// let loader = forebay::Dataset::open("data/train/")?.loader().batch_size(256).build()?;
/// let plan = loader.plan(0)?;
/// println!("{} steps of {} rows", plan.steps, plan.rows);
/// if let Some(reads) = &plan.reads {
///     println!("{} bytes to read, {} rows repeated", reads.stored_bytes, reads.padded);
/// }
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankPlan {
    /// The number of the epoch, from 0.
    pub epoch: u64,
    /// The rank, from 0.
    pub rank: u32,
    /// The number of ranks.
    pub world: u32,
    /// The number of batches, which is the same on every rank.
    pub steps: u64,
    /// The rows that this rank receives, repeats included. In a mix, the rows of all ranks.
    pub rows: u64,
    /// The number of lanes: sequences of rows that are interleaved into the order of each source.
    pub lanes: u32,
    /// The memory budget, in bytes.
    pub memory: u64,
    /// The reads of the rank in its data set. `None` for a mix.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub reads: Option<RankReads>,
    /// The memory that a mix takes. `None` for a loader of one data set, for which `reads` has these numbers.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub mixed: Option<MixMemory>,
    /// In a mix, the number of the epoch's first step, counted through all epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_step: Option<u64>,
    /// The contribution of each source of a mix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourcePlan>,
}

/// The reads of one rank in a data set in an epoch: see [`RankPlan`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankReads {
    /// The number of the rank's rows that are repeated so that no rank is without a batch.
    pub padded: u64,
    /// The number of rows that no rank receives because they do not fill a step.
    pub dropped: u64,
    /// The number of row groups that each lane holds for mixing.
    pub pool: u32,
    /// The number of row groups that this rank reads; one that two lanes share counts twice.
    pub row_groups: u64,
    /// The bytes of the column chunks that this rank reads.
    pub stored_bytes: u64,
    /// The most bytes of decoded row groups that are held at any step. For an exact shuffle over a cache,
    /// from which rows are used directly, the bytes of the largest row group.
    pub peak_row_group_bytes: u64,
    /// The step, counted from 0, at which `peak_row_group_bytes` are held.
    pub peak_step: u64,
    /// The average number of row groups from which a batch of this rank has rows. The larger it is, the
    /// better rows are mixed.
    pub row_groups_of_a_batch: f64,
    /// The average number of row groups from which a batch would have rows if it were drawn uniformly from
    /// all rows, as an exact shuffle does.
    pub row_groups_if_uniform: f64,
    /// The number of row groups from which the first batch has rows. Epoch 0 does not wait until
    /// its window is full: its first batch has rows from an eighth of the row groups in each lane's window,
    /// from at most 32, or from more if these have too few rows.
    pub row_groups_of_first_batch: u64,
    /// The first step, counted from 0, at which the window holds as many row groups as at any later one.
    pub full_window_step: u64,
    /// Options with which rows would be mixed better. Empty unless batches have rows of far fewer row groups
    /// than `row_groups_if_uniform` because few row groups fit into the window.
    pub better_mixing: Vec<BetterMixing>,
    /// The bytes of the budget that are kept for batches.
    pub batch_bytes: u64,
    /// The bytes that row groups and batches are expected to take at their peak, when the next epoch is being
    /// read as well. They are computed from the average lengths in the footers, and do not include the
    /// training loop's own memory.
    pub expected_memory: u64,
    /// The most bytes that row groups and batches take, which is at most `memory`.
    pub most_memory: u64,
    /// The bytes of the budget in which all selected rows are kept after they were read, so that later epochs
    /// need not read them again; 0 if the rows do not fit, or if a cache keeps them.
    pub staying_bytes: u64,
    /// The reason why nothing is kept in the cache, if [`Tier::Auto`](crate::Tier::Auto) found that reading
    /// the rows again in each epoch is not slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_again: Option<String>,
}

/// The memory that the sources of a mix take together in an epoch: see [`RankPlan`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MixMemory {
    /// The bytes that row groups and batches are expected to take if all sources reach their peak at the same
    /// time, including the batch into which the batches of the sources are copied. It is computed like
    /// [`RankReads::expected_memory`].
    pub expected_memory: u64,
    /// The most bytes that row groups and batches take, which is at most `memory`.
    pub most_memory: u64,
}

/// The contribution of one source to an epoch of a mix.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourcePlan {
    /// The number of rows of the source.
    pub size: u64,
    /// The number of rows of the source in the epoch, over all ranks.
    pub rows: u64,
    /// The number of passes over the source that the epoch begins.
    pub passes: u64,
    /// The number of rows in these passes that the epoch does not read: the rest of its last pass, and the
    /// rows of skipped steps.
    pub unread: u64,
}

/// The data of a source that a plan needs to sum up the reads from this source in an epoch.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    pub(super) samples: &'a SampleIndex,
    pub(super) order: &'a OrderSpec,
    pub(super) split: Split,
    pub(super) fetcher: &'a Fetcher,
    pub(super) sizing: &'a Sizing,
    /// The reason why the cache of the source keeps nothing; `None` if it keeps rows or there is no cache.
    pub(super) read_again: Option<&'a str>,
}

impl Planned<'_> {
    /// Sums up an epoch of a loader that has only this source.
    pub(super) fn plan(&self, epoch: u64) -> RankPlan {
        let Planned { samples, order: spec, split, sizing, read_again, .. } = *self;
        let counts = samples.of_epoch(epoch).counts.clone();
        let order = EpochOrder::new(counts.clone(), spec, epoch);
        let now = row_groups_of_a_batch(&order, split);
        let each = counts.iter().map(|&rows| rows.into());
        let uniform = expected_distinct(each, split.rows, split.batch().min(split.rows));
        let walked = self.walked(&order);
        let MixMemory { expected_memory, most_memory } = self.memory(&walked);
        let Walked { steps, rows, padded, stored_bytes, peak, full_window_step, .. } = walked;
        let (peak_row_group_bytes, peak_step) = peak;
        let found = RankReads {
            padded,
            dropped: split.dropped(0),
            pool: spec.pool(),
            row_groups: walked.entered.len() as u64,
            stored_bytes,
            peak_row_group_bytes,
            peak_step,
            row_groups_of_a_batch: now,
            row_groups_if_uniform: uniform,
            row_groups_of_first_batch: row_groups_of_step(&order, split, 0),
            full_window_step,
            better_mixing: better_mixing(spec, &counts, split, now, uniform, samples.are_rows()),
            batch_bytes: sizing.batches,
            expected_memory,
            most_memory,
            staying_bytes: self.staying_bytes(),
            read_again: read_again.map(str::to_owned),
        };
        RankPlan {
            epoch,
            rank: split.shard.rank(),
            world: split.shard.world(),
            steps,
            rows,
            lanes: spec.lanes(),
            memory: sizing.memory,
            reads: Some(found),
            mixed: None,
            first_step: None,
            sources: Vec::new(),
        }
    }

    /// Walks through an epoch, and sums up its steps and parts.
    fn walked(&self, order: &EpochOrder) -> Walked {
        let Planned { order: spec, split, fetcher: Fetcher { reads, .. }, .. } = *self;
        let mut walked = Walked::default();
        let mut held: HashMap<Part, u64> = HashMap::new();
        let (mut at_hand, mut most_held) = (0, 0);
        let mapped = spec.is_exact() && reads.row_cache.is_some();
        for step in Walk::scout(order, split, 0) {
            let number = walked.steps;
            walked.steps += 1;
            walked.rows += step.rows;
            walked.padded += step.padded;
            for part in step.entering {
                let cost = reads.cost(&part);
                let Cost { stored, held: bytes, .. } = cost;
                walked.stored_bytes += stored;
                at_hand = if mapped { bytes } else { at_hand + bytes };
                held.insert(part, bytes);
                walked.entered.push(Entered { step: number, at_hand, total: cost.total() });
                if at_hand > walked.peak.0 {
                    walked.peak = (at_hand, number);
                }
            }
            if held.len() > most_held {
                (most_held, walked.full_window_step) = (held.len(), number);
            }
            for part in step.leaving {
                at_hand = at_hand.saturating_sub(held.remove(&part).unwrap_or(0));
            }
        }
        walked
    }

    /// The memory that an epoch is expected to take, and the most that it takes.
    fn memory(&self, Walked { entered, steps, .. }: &Walked) -> MixMemory {
        let (sizing, staying) = (self.sizing, self.staying_bytes());
        let whole: u64 = entered.iter().map(|part| part.total).sum();
        let most = sizing.most(whole.saturating_mul(2)).saturating_add(staying).min(sizing.memory);
        let expected = sizing.expected(self.on_their_way(entered, *steps), *steps).saturating_add(staying);
        MixMemory { expected_memory: expected.min(most), most_memory: most }
    }

    /// Returns the memory that this source of a mix takes in an epoch, computed from its first pass in the
    /// epoch.
    fn memory_in(&self, plan: &Arc<MixedEpoch>, source: usize, split: MixSplit) -> MixMemory {
        if plan.passes_of(source) == 0 {
            return MixMemory::default();
        }
        let order = self.order.clone().with_portion(Portion { epoch: plan.clone(), source, split });
        let split = Split { lanes: order.lanes(), ..self.split };
        let (this, pass) = (Planned { order: &order, split, ..*self }, plan.passes[source]);
        let counts = self.samples.of_epoch(pass).counts.clone();
        this.memory(&this.walked(&EpochOrder::new(counts, &order, pass)))
    }

    fn staying_bytes(&self) -> u64 {
        self.fetcher.reads.row_memory.as_ref().map_or(0, |row_memory| row_memory.room())
    }

    /// Returns the most bytes of row groups that are expected in memory at any step: row groups in use, those
    /// on their way for the next steps, and late in the epoch also the first ones of the next epoch. In
    /// stored order, the next epoch is fetched only when nothing of this one is on its way. With a window,
    /// the last row groups of this epoch arrive early, so the first ones of the next epoch are in memory at
    /// the same time.
    fn on_their_way(&self, entered: &[Entered], steps: u64) -> u64 {
        let ahead = self.fetcher.at_once() + READ_AHEAD * self.fetcher.in_a_bunch();
        let of_first = entered.iter().take(ahead).map(|part| part.total).sum::<u64>();
        let next_at = self.sizing.next_at(steps);
        let is_window = self.order.pool() > 1;
        let (mut on_their_way, mut most) = (of_first, 0);
        for (place, part) in entered.iter().enumerate() {
            on_their_way += entered.get(place + ahead).map_or(0, |next| next.total);
            on_their_way -= part.total;
            // The part that is read last is still in use when the next epoch is prepared.
            let is_late = part.step >= next_at || place + 1 == entered.len();
            let of_next = if is_late { of_first } else { 0 };
            let beside = if is_window { on_their_way + of_next } else { on_their_way.max(of_next) };
            most = most.max(part.at_hand + beside);
        }
        most
    }
}

/// The sums over the steps of an epoch, and the parts (rows of one row group each) that it reads.
#[derive(Default)]
struct Walked {
    steps: u64,
    rows: u64,
    padded: u64,
    stored_bytes: u64,
    /// The parts in the order in which they are read.
    entered: Vec<Entered>,
    /// The most bytes of parts that are in use at the same time, and the first step at which they are.
    peak: (u64, u64),
    full_window_step: u64,
}

/// A part (rows of one row group) that is read, and the step from which it is in use.
struct Entered {
    step: u64,
    /// The bytes of all parts that are in use at that step.
    at_hand: u64,
    /// The bytes that the part takes while it is fetched and decoded.
    total: u64,
}

impl MixMemory {
    fn of_sources(memory: u64, plan: &Arc<MixedEpoch>, split: MixSplit, planned: &[Planned<'_>]) -> Self {
        let each = planned.iter().enumerate().map(|(source, this)| this.memory_in(plan, source, split));
        let each: Vec<MixMemory> = each.collect();
        let sum = |of: fn(&MixMemory) -> u64| each.iter().map(of).fold(0, u64::saturating_add);
        // `copy` is the memory of the batches into which the batches of several sources are copied.
        let copy =
            if planned.len() > 1 { planned.iter().map(|this| this.sizing.batch_bytes()).sum() } else { 0 };
        let most_memory = sum(|source| source.most_memory).saturating_add(copy).min(memory);
        // `shared` is subtracted, because the `expected_memory` of each source includes the threads and the
        // allocator, which all sources share.
        let read = each.iter().filter(|source| source.expected_memory > 0).count() as u64;
        let shared = read.saturating_sub(1) * OVERHEAD_BYTES;
        let expected = sum(|source| source.expected_memory).saturating_add(copy).saturating_sub(shared);
        MixMemory { expected_memory: expected.min(most_memory), most_memory }
    }
}

impl RankPlan {
    /// Sums up an epoch of a mix of these sources, whose budget is `memory` bytes.
    pub(super) fn of_mix(
        epoch: u64,
        plan: &Arc<MixedEpoch>,
        split: MixSplit,
        memory: u64,
        planned: &[Planned<'_>],
    ) -> Self {
        let mixed = MixMemory::of_sources(memory, plan, split, planned);
        let skipped = plan.rows_skipped();
        let of_source = |(source, &rows): (usize, &u64)| {
            let rows = rows - skipped[source];
            let (size, passes) = (plan.sizes[source], plan.passes_of(source));
            // If the epoch takes no rows of a source, all rows of the source count as unread.
            SourcePlan { size, rows, passes, unread: passes.max(1) * size - rows }
        };
        let sources: Vec<SourcePlan> = plan.course.rows().iter().enumerate().map(of_source).collect();
        RankPlan {
            epoch,
            rank: split.shard.rank(),
            world: split.shard.world(),
            steps: plan.steps_left(0),
            rows: sources.iter().map(|source| source.rows).sum(),
            lanes: split.lanes,
            memory,
            reads: None,
            mixed: Some(mixed),
            first_step: Some(plan.first_step),
            sources,
        }
    }
}

impl fmt::Display for RankPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RankPlan { epoch, rank, world, steps, rows, lanes, memory, .. } = self;
        let Some(reads) = &self.reads else {
            write!(
                f,
                "epoch {epoch}, rank {rank} of {world}: {steps} steps of {rows} rows over all ranks, {lanes} lanes, memory {}",
                words(*memory)
            )?;
            if let Some(MixMemory { expected_memory, most_memory }) = &self.mixed {
                write!(
                    f,
                    ", peak memory about {}, at most {}",
                    words(*expected_memory),
                    words(*most_memory)
                )?;
            }
            for (number, SourcePlan { size, rows, passes, unread }) in self.sources.iter().enumerate() {
                let share = 100.0 * *rows as f64 / self.rows.max(1) as f64;
                write!(
                    f,
                    "\nsource {number}: {rows} rows ({share:.2} %) in {passes} {} over its {size} rows, {unread} not read",
                    if *passes == 1 { "pass" } else { "passes" }
                )?;
            }
            return Ok(());
        };
        let better = reads.better_mixing.iter().map(|better| {
            format!(
                "; about {:.0} row groups with {}={}",
                better.row_groups_of_a_batch, better.option, better.rows
            )
        });
        let better: String = better.collect();
        let staying = match reads.staying_bytes {
            0 => String::new(),
            bytes => format!("; rows stay in memory, in {}, and are read once", words(bytes)),
        };
        let read_again = reads.read_again.as_ref().map_or(String::new(), |why| format!("; {why}"));
        write!(
            f,
            "epoch {epoch}, rank {rank} of {world}: {steps} steps, {rows} rows ({} repeated, {} dropped), {} row groups of {}, \
             {lanes} lanes with a window of {} row groups, rows of {:.0} row groups in a batch ({:.0} if drawn uniformly{better}), peak memory \
             about {}, at most {}; most row groups at step {}{staying}{read_again}",
            reads.padded,
            reads.dropped,
            reads.row_groups,
            words(reads.stored_bytes),
            reads.pool,
            reads.row_groups_of_a_batch,
            reads.row_groups_if_uniform,
            words(reads.expected_memory),
            words(reads.most_memory),
            reads.peak_step,
        )
    }
}

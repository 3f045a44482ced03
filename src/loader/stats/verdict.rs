//! Sums up statistics in one sentence: which stage a training loop waits for, and what to do about it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Stages, Stats, Waits};
use crate::monitor::Stage;

/// If a training loop spends less than this share of its time waiting, the loop itself is called the
/// bottleneck.
const MIN_WAIT_SHARE: f64 = 0.02;

/// The verdict advises more memory if fetching was blocked, usually by a lack of memory, for at least this
/// share of its time.
const MIN_MEMORY_WAIT_SHARE: f64 = 0.3;

/// The bottleneck of a training loop, and a remedy. The wait for the first batch is not counted if there were
/// more batches, because it only shows how long the pipeline took to start.
///
/// ```no_run
/// # let loader = forebay::Dataset::open("data/")?.loader().build()?;
/// let verdict = loader.stats().verdict();
/// println!("{}: {}", verdict.stage.name(), verdict.sentence);
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The bottleneck: the stage with the longest wait, or the [consumer](Stage::Consumer) itself if it
    /// waited less than 2 % of the time.
    pub stage: Stage,
    /// The share of the loop's waiting time that it waited for this stage, from 0 to 1. If the stage is the
    /// consumer: the share of all time that the loop did not wait.
    pub share: f64,
    /// The share of its time that the training loop waited, from 0 to 1.
    pub waiting: f64,
    /// The bottleneck and a remedy, as a sentence without a full stop.
    pub sentence: String,
}

impl Verdict {
    pub(super) fn from_ranks(ranks: &[Stats]) -> Self {
        let (mut all, mut first, mut stages) = (Waits::default(), Waits::default(), Stages::default());
        let (mut consumer, mut batches, mut threads) = (0.0, 0, 0);
        for rank in ranks {
            all.add(&rank.waits);
            first.add(&rank.waits_first);
            stages.add(&rank.stages);
            consumer += rank.consumer;
            batches += rank.next.count;
            threads += rank.pool.threads;
        }
        let waits = if batches > 0 { all.since(&first) } else { all };
        let waited = waits.total().max(0.0);
        let time = waited + consumer;
        if time == 0.0 {
            let sentence = "No batch was requested yet".to_string();
            return Verdict { stage: Stage::Consumer, share: 0.0, waiting: 0.0, sentence };
        }
        let waiting = waited / time;
        let longest =
            Stage::ALL.into_iter().max_by(|a, b| waits.for_stage(*a).total_cmp(&waits.for_stage(*b)));
        let stage = longest.filter(|_| waiting >= MIN_WAIT_SHARE).unwrap_or(Stage::Consumer);
        let share = match stage {
            Stage::Consumer => 1.0 - waiting,
            stage => waits.for_stage(stage) / waited,
        };
        let sentence = match stage {
            Stage::Consumer => format!(
                "The training loop is the bottleneck, as it should be: it waited {} of the time",
                percent(waiting)
            ),
            stage => format!(
                "{} is the bottleneck: the training loop waited {} of the time, {} of it on this stage; {}",
                what(stage),
                percent(waiting),
                percent(share),
                next_move(stage, &stages, threads)
            ),
        };
        Verdict { stage, share, waiting, sentence }
    }
}

/// The words with which a verdict's sentence begins, if `stage` is the bottleneck.
fn what(stage: Stage) -> &'static str {
    match stage {
        Stage::Fetch => "Storage",
        Stage::Memory => "Memory",
        Stage::Cache => "The row cache",
        Stage::Parquet => "Decoding Parquet",
        Stage::Shuffle => "Planning and following the order",
        Stage::Gather => "Gathering rows into batches",
        Stage::Decode => "Decoding images",
        Stage::Keep => "Preparing images for the cache",
        Stage::HandOver => "Handing batches over",
        Stage::Transform => "The transform",
        Stage::Device => "Copying to the device",
        Stage::Consumer => "The training loop",
    }
}

/// The remedy that a verdict gives if `stage` is the bottleneck. `stages` and `threads` are sums over all
/// ranks.
fn next_move(stage: Stage, stages: &Stages, threads: u64) -> String {
    let each = |seconds: f64, items: u64| seconds * 1e3 / items.max(1) as f64;
    match stage {
        Stage::Fetch => {
            let fetch = &stages.fetch;
            let rate = fetch.bytes as f64 / fetch.working.max(f64::MIN_POSITIVE) / 1e6;
            let short = fetch.blocked.unwrap_or(0.0) / (fetch.working + fetch.blocked.unwrap_or(0.0)).max(1e-9);
            let memory = if short >= MIN_MEMORY_WAIT_SHARE { ", more memory" } else { "" };
            format!("it delivered {rate:.0} MB/s: a nearer or faster store{memory}, a row cache or fewer columns would help")
        }
        Stage::Memory => "row groups wait until others leave: raise memory, or use a smaller window or fewer lanes".into(),
        Stage::Cache => "a faster disk for the cache, or the rows of this machine's own disk, would help".into(),
        Stage::Parquet => format!(
            "{} took {:.1} s for {} rows: more threads, fewer columns, a lighter codec or a row cache would help",
            counted(threads),
            stages.parquet.working,
            stages.parquet.items
        ),
        Stage::Shuffle => "one thread follows the order: larger batches or fewer lanes would help".into(),
        Stage::Gather => format!(
            "{} took {:.1} s: more threads, fewer columns or larger batches would help",
            counted(threads),
            stages.gather.working
        ),
        Stage::Decode => format!(
            "an image takes {:.2} ms on each of {}: more threads, smaller images or a cache of pixels would help",
            each(stages.decode.working, stages.decode.items),
            counted(threads)
        ),
        Stage::Keep => "this ends when the cache is full: warm it beforehand, or keep rows".into(),
        Stage::HandOver => {
            "larger batches would help, and so would leaving out columns that become Python objects: text, binary, \
             decimals, structs"
                .into()
        }
        Stage::Transform => format!(
            "it takes {:.1} ms for a batch: run it in more workers, make it faster, or let forebay decode, resize and \
             normalise, also raw pixels",
            each(stages.transform.working, stages.transform.items)
        ),
        Stage::Device => format!(
            "it takes {:.1} ms for a batch: copy fewer bytes, uint8 instead of float32 for example",
            each(stages.device.working, stages.device.items)
        ),
        Stage::Consumer => String::new(),
    }
}

fn counted(threads: u64) -> String {
    if threads == 1 { "1 thread".into() } else { format!("{threads} threads") }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::NextStats;

    fn waited(waits: Waits, consumer: f64) -> Stats {
        let next = NextStats { count: 100, ..NextStats::default() };
        Stats { waits, consumer, next, ..Stats::default() }
    }

    #[test]
    fn the_stage_that_was_waited_for_most_is_named() {
        for (waits, expected, words) in [
            (Waits { fetch: 5.0, parquet: 2.0, ..Waits::default() }, Stage::Fetch, "Storage is"),
            (Waits { parquet: 5.0, decode: 2.0, ..Waits::default() }, Stage::Parquet, "Decoding Parquet is"),
            (Waits { decode: 5.0, fetch: 2.0, ..Waits::default() }, Stage::Decode, "Decoding images is"),
            (Waits { transform: 5.0, fetch: 2.0, ..Waits::default() }, Stage::Transform, "The transform is"),
        ] {
            let verdict = waited(waits, 3.0).verdict();
            assert_eq!(verdict.stage, expected, "{verdict}");
            assert!((verdict.share - 5.0 / 7.0).abs() < 1e-9 && (verdict.waiting - 0.7).abs() < 1e-9);
            assert!(verdict.sentence.starts_with(words) && verdict.sentence.contains("70.0 %"), "{verdict}");
        }
    }

    #[test]
    fn a_slow_transform_is_told_what_the_engine_does_itself() {
        let said = waited(Waits { transform: 5.0, ..Waits::default() }, 1.0).verdict().to_string();
        assert!(said.contains("let forebay decode, resize and normalise, also raw pixels"), "{said}");
    }

    #[test]
    fn a_loop_that_hardly_waits_is_the_bottleneck_itself() {
        let verdict = waited(Waits { fetch: 1.0, ..Waits::default() }, 99.0).verdict();
        assert_eq!((verdict.stage, verdict.share), (Stage::Consumer, 0.99));
        assert!(verdict.to_string().contains("waited 1.0 % of the time"), "{verdict}");
        assert_eq!(Stats::default().verdict().stage, Stage::Consumer);
    }

    #[test]
    fn the_start_is_left_out() {
        let start = Waits { fetch: 9.0, ..Waits::default() };
        let stats = Stats { waits_first: start, ..waited(Waits { decode: 1.0, ..start }, 1.0) };
        assert_eq!(stats.verdict().stage, Stage::Decode);
    }
}

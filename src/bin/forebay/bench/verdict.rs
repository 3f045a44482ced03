//! One sentence that names the bottleneck, and what would move it.

use super::report::{Stages, WaitedFor};
use crate::cli::units::{bytes, count, counted, percent, seconds};

/// From this utilisation on, the accelerator has nothing to wait for.
const FED: f64 = 0.99;
/// Of the run: shorter waits are noise.
const HARDLY: f64 = 0.01;

/// What the sentence is drawn from.
pub(super) struct Evidence {
    pub(super) waited: WaitedFor,
    pub(super) stages: Stages,
    pub(super) seconds: f64,
    pub(super) ranks: u32,
    /// Decoding threads of each rank.
    pub(super) threads: usize,
    /// Utilisation of the worst rank, and the margin where it is known.
    pub(super) accelerator: Option<(f64, Option<f64>)>,
}

/// The bottleneck in a sentence.
pub(super) fn sentence(evidence: &Evidence) -> String {
    match evidence.accelerator {
        Some((busy, margin)) if busy >= FED => {
            let could = margin.filter(|margin| *margin > 1.0).map_or(String::new(), |margin| {
                format!(", and the loader could feed it {margin:.1} times as fast")
            });
            format!(
                "The accelerator is the bottleneck, as it should be: it was busy {} of the time{could}.",
                percent(busy)
            )
        }
        Some((busy, _)) => {
            format!("The accelerator was idle {} of the time: {}.", percent(1.0 - busy), stage(evidence))
        }
        None => format!("At full speed {}.", stage(evidence)),
    }
}

/// The stage that was waited for most, and the remedy.
fn stage(evidence: &Evidence) -> String {
    let WaitedFor { fetch, rows, batch } = evidence.waited;
    let total = fetch + rows + batch;
    if total < HARDLY * evidence.seconds * f64::from(evidence.ranks) {
        return "no stage is the bottleneck: the ranks hardly waited for batches".to_owned();
    }
    let share = |wait: f64| percent(wait / total);
    let Stages { fetch: fetched, rows: parsed, gather, decode } = evidence.stages;
    let threads = counted(evidence.threads as u64 * u64::from(evidence.ranks), "thread");
    if fetch >= rows.max(batch) {
        format!(
            "storage is the bottleneck ({} of the waiting): it gave {}/s; faster storage or fewer columns would help",
            share(fetch),
            bytes((fetched.bytes as f64 / evidence.seconds) as u64)
        )
    } else if rows >= batch {
        format!(
            "decoding Parquet is the bottleneck ({} of the waiting): {threads} took {} for {} rows; more threads, \
             fewer columns or a lighter codec would help",
            share(rows),
            seconds(parsed.seconds),
            count(parsed.items)
        )
    } else if decode.seconds >= gather.seconds {
        format!(
            "decoding images is the bottleneck ({} of the waiting): {} images/s on each of {threads}; more threads or \
             smaller images would help",
            share(batch),
            count((decode.items as f64 / decode.seconds.max(f64::MIN_POSITIVE)) as u64)
        )
    } else {
        format!(
            "gathering rows into batches is the bottleneck ({} of the waiting): {threads} took {}; more threads or \
             fewer columns would help",
            share(batch),
            seconds(gather.seconds)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(fetch: f64, rows: f64, batch: f64) -> Evidence {
        Evidence {
            waited: WaitedFor { fetch, rows, batch },
            stages: Stages::default(),
            seconds: 10.0,
            ranks: 1,
            threads: 2,
            accelerator: None,
        }
    }

    #[test]
    fn the_stage_that_was_waited_for_most_is_named() {
        for (found, expected) in [
            (evidence(5.0, 1.0, 1.0), "storage"),
            (evidence(1.0, 5.0, 1.0), "decoding Parquet"),
            (evidence(1.0, 1.0, 5.0), "decoding images"),
            (evidence(0.0, 0.01, 0.0), "no stage"),
        ] {
            assert!(sentence(&found).contains(expected), "{}", sentence(&found));
        }
    }

    #[test]
    fn a_busy_accelerator_is_the_bottleneck_whatever_was_waited_for() {
        let found = Evidence { accelerator: Some((0.995, Some(2.0))), ..evidence(0.01, 0.01, 0.05) };
        assert!(sentence(&found).starts_with("The accelerator is the bottleneck"));
        let idle = Evidence { accelerator: Some((0.6, Some(0.6))), ..evidence(4.0, 0.0, 0.0) };
        assert!(sentence(&idle).starts_with("The accelerator was idle 40.0 %"), "{}", sentence(&idle));
    }
}

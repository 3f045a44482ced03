//! Writes the sentence that names the bottleneck of a run and a remedy. The bottleneck is the accelerator if
//! it was kept busy, and otherwise the stage that the loaders' statistics name.

use forebay::stats::Stage;
use forebay::stats::Verdict;

use crate::units::percent;

/// The loader keeps an accelerator busy enough if the utilisation is at least this.
const MIN_FED_UTILISATION: f64 = 0.99;

/// Whether the training loops hardly waited. `busy` is the utilisation of the worst rank's accelerator, if
/// there is one.
pub(super) fn is_fed(found: &Verdict, busy: Option<f64>) -> bool {
    found.stage == Stage::Consumer || busy.is_some_and(|busy| busy >= MIN_FED_UTILISATION)
}

/// The sentence that names the bottleneck. `accelerator` holds the utilisation of the worst rank's
/// accelerator, and the margin (the loader's rate over the demanded one) if it is known.
pub(super) fn sentence(found: &Verdict, accelerator: Option<(f64, Option<f64>)>) -> String {
    match accelerator {
        Some((busy, margin)) if busy >= MIN_FED_UTILISATION => {
            let could = margin.filter(|margin| *margin > 1.0).map_or(String::new(), |margin| {
                format!(", and the loader could feed it {margin:.1} times as fast")
            });
            format!(
                "The accelerator is the bottleneck, as it should be: it was busy {} of the time{could}.",
                percent(busy)
            )
        }
        Some((busy, _)) => format!("The accelerator was idle {} of the time. {found}", percent(1.0 - busy)),
        None if found.stage == Stage::Consumer => {
            "At full speed no stage is the bottleneck: the ranks hardly waited for batches.".to_owned()
        }
        None => found.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use forebay::Stats;
    use forebay::stats::Waits;

    use super::*;

    fn found(waits: Waits) -> Verdict {
        let mut stats = Stats::default();
        stats.waits = waits;
        stats.consumer = 6.0;
        stats.next.count = 10;
        stats.verdict()
    }

    /// The waits of a training loop that waited only for storage.
    fn stored() -> Waits {
        let mut waits = Waits::default();
        waits.fetch = 4.0;
        waits
    }

    #[test]
    fn the_stage_that_was_waited_for_most_is_named() {
        let storage = found(stored());
        assert!(sentence(&storage, None).starts_with("Storage is the bottleneck"), "{storage}");
        assert!(sentence(&found(Waits::default()), None).contains("hardly waited"));
    }

    #[test]
    fn a_run_is_fed_if_its_loops_or_its_accelerator_hardly_waited() {
        let (storage, none) = (found(stored()), found(Waits::default()));
        assert!(is_fed(&none, None) && is_fed(&none, Some(0.985)) && is_fed(&storage, Some(0.995)));
        assert!(!is_fed(&storage, None) && !is_fed(&storage, Some(0.8)));
    }

    #[test]
    fn a_busy_accelerator_is_the_bottleneck_whatever_was_waited_for() {
        let storage = found(stored());
        let busy = sentence(&storage, Some((0.995, Some(2.0))));
        assert!(
            busy.starts_with("The accelerator is the bottleneck") && busy.contains("2.0 times"),
            "{busy}"
        );
        let idle = sentence(&storage, Some((0.6, Some(0.6))));
        assert!(idle.starts_with("The accelerator was idle 40.0 % of the time. Storage"), "{idle}");
    }
}

//! Writes the advice of `forebay doctor`: recommended changes with their predicted effects.

use std::fmt;

use forebay::Dataset;
use forebay_base::Result;
use serde::Serialize;

use super::model::{Change, Measured};
use crate::options::LoaderOptions;
use crate::units::{bytes, counted, percent};
use crate::window::WindowSizes;

/// The least margin (the loader's rate over the demanded one) that counts as safe, because short delays then
/// do not make the accelerator wait.
const SAFE_MARGIN: f64 = 1.3;
/// A change is recommended only if it multiplies the margin by at least this factor.
const MIN_GAIN: f64 = 1.05;
/// Another codec is recommended if decoding Parquet takes at least this share of the time of preparing
/// batches.
const MIN_PARQUET_SHARE: f64 = 0.3;

/// The demand of the accelerators.
#[derive(Clone, Copy)]
pub(super) struct Demand {
    pub(super) rows_per_second: f64,
    pub(super) ranks: u32,
}

/// The slower one of fetching bytes and preparing batches, which run in parallel. It limits the loader's
/// rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Bound {
    /// Fetching is slower: the store is the limit.
    Fetching,
    /// Preparing is slower: this machine's processors are the limit.
    Preparing,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Fetching => "bound by the store",
            Bound::Preparing => "bound by preparing: Parquet, gathering, decoding",
        })
    }
}

/// The layout of the data.
pub(super) struct DataLayout {
    rows: u64,
    /// The number of columns that are read, and the number of columns in the data.
    columns: (usize, usize),
    /// The bytes that all rows take in memory, and therefore in a cache.
    held: u64,
    window: WindowSizes,
}

impl DataLayout {
    pub(super) fn read(dataset: &Dataset, options: &LoaderOptions) -> Result<Self> {
        let catalog = dataset.catalog();
        let projection = options.projection(dataset)?;
        let held: u64 = catalog.groups.iter().map(|group| catalog.held_bytes(group, &projection)).sum();
        Ok(DataLayout {
            rows: catalog.rows(),
            columns: (projection.schema().fields().len(), catalog.schema.fields().len()),
            held,
            window: WindowSizes::measure(catalog, &projection),
        })
    }
}

pub(super) fn bound(measured: &Measured) -> Bound {
    if measured.is_bound_by_store() { Bound::Fetching } else { Bound::Preparing }
}

/// Lists all advice, beginning with the sentence that says whether the accelerators would wait.
pub(super) fn list(measured: &Measured, demand: Option<&Demand>, layout: &DataLayout) -> Vec<String> {
    let Some(demand) = demand else {
        let unknown = "Give the time that the accelerator takes for a batch with --step-ms, to learn whether it would wait.";
        return std::iter::once(unknown.to_owned()).chain(layout.window.advice()).collect();
    };
    let margin =
        |change| measured.predict(change).map_or(0.0, |rate| rate.rows_per_second / demand.rows_per_second);
    let now = margin(Change::None);
    let mut advice = vec![verdict(now, demand)];
    if now < SAFE_MARGIN {
        let better = |change| Some(margin(change)).filter(|then| *then >= now * MIN_GAIN);
        match bound(measured) {
            Bound::Fetching => {
                if let Some(then) = better(Change::RowCache) {
                    advice.push(format!(
                        "A row cache of {}: no change in epoch 1, {} from epoch 2 on (margin {then:.2}).",
                        bytes(layout.held),
                        busy(then)
                    ));
                }
                if let Some(then) = better(Change::FreeStore) {
                    advice
                        .push(format!("A nearer or faster store: up to {} (margin {then:.2}).", busy(then)));
                }
                if layout.columns.0 == layout.columns.1 && layout.columns.1 > 1 {
                    advice.push(format!(
                        "All {} are read: name only those that the model needs with --columns.",
                        counted(layout.columns.1 as u64, "column")
                    ));
                }
            }
            Bound::Preparing => {
                advice.extend(threads(measured, demand, now));
                if let Some(then) = better(Change::PixelCache) {
                    advice.push(format!(
                        "A cache of pixels (tier \"pixels\", {}): {} from the epoch after it is full (margin {then:.2}).",
                        bytes((measured.pixel_bytes.unwrap_or(0.0) * layout.rows as f64) as u64),
                        busy(then)
                    ));
                }
                if let Some(then) = better(Change::RowCache) {
                    advice.push(format!(
                        "A row cache of {} saves decoding Parquet: {} from epoch 2 on (margin {then:.2}).",
                        bytes(layout.held),
                        busy(then)
                    ));
                }
                advice.extend(parquet(measured));
            }
        }
    }
    advice.extend(layout.window.advice());
    advice
}

fn verdict(margin: f64, demand: &Demand) -> String {
    let accelerators = if demand.ranks == 1 { "The accelerator" } else { "The accelerators" };
    match margin {
        safe if safe >= SAFE_MARGIN => format!(
            "{accelerators} will not wait: the loader can deliver {safe:.1} times the rows that are needed, so short delays do not matter."
        ),
        near if near >= 1.0 => format!(
            "{accelerators} will hardly wait, but a margin of {near:.2} is too small for short delays; {SAFE_MARGIN} is safe."
        ),
        short => format!("{accelerators} will wait {} of the time.", percent(1.0 - short)),
    }
}

/// The text that says how busy the accelerator is if the loader's rate is `margin` times the demand.
fn busy(margin: f64) -> String {
    format!("{} utilisation", percent(margin.min(1.0)))
}

fn threads(measured: &Measured, demand: &Demand, now: f64) -> Option<String> {
    let margin = |threads| {
        let rate = measured.predict(Change::Threads(threads))?;
        Some(rate.rows_per_second / demand.rows_per_second)
    };
    let idle = measured.threads + 1..=measured.processors;
    let enough = idle.clone().find(|&threads| margin(threads).is_some_and(|then| then >= SAFE_MARGIN));
    if let Some(threads) = enough.or(idle.last())
        && let Some(then) = margin(threads).filter(|then| *then >= now * MIN_GAIN)
    {
        let more = counted(u64::from(threads - measured.threads), "more thread");
        return Some(format!("{}: {} (margin {then:.2}).", capital(&more), busy(then)));
    }
    match measured.threads_for(demand.rows_per_second) {
        Some(needed) => (needed > measured.processors).then(|| {
            format!(
                "Preparing the rows that are needed takes about {}; this machine has {}.",
                counted(u64::from(needed), "processor"),
                measured.processors
            )
        }),
        None => {
            Some("No number of such processors can prepare the rows that are needed: spread the ranks over several machines.".into())
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn parquet(measured: &Measured) -> Option<String> {
    let row = f64::from(measured.threads.min(measured.processors)) / measured.cached.rows_per_second;
    let share = measured.work.parquet / (row + measured.work.parquet);
    (share > MIN_PARQUET_SHARE).then(|| {
        format!(
            "{} of preparing is decoding Parquet: a lighter codec, such as lz4, or fewer columns would help.",
            percent(share)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::measured;
    use super::*;

    fn layout() -> DataLayout {
        DataLayout { rows: 1_000_000, columns: (2, 2), held: 60 << 30, window: WindowSizes::default() }
    }

    fn advice(measured: &Measured, rows_per_second: f64, layout: &DataLayout) -> String {
        list(measured, Some(&Demand { rows_per_second, ranks: 1 }), layout).join("\n")
    }

    #[test]
    fn a_slow_store_calls_for_a_cache() {
        let found = advice(&measured(), 2_000.0, &layout());
        assert!(found.contains("will wait 50.0 % of the time"), "{found}");
        assert!(
            found.contains(
                "A row cache of 64.4 GB: no change in epoch 1, 100.0 % utilisation from epoch 2 on"
            ),
            "{found}"
        );
        assert!(!found.contains("thread"), "threads do not help: {found}");
    }

    #[test]
    fn idle_processors_call_for_threads() {
        let store = super::super::model::StoreTimes { rate: measured().cached, ..measured().store };
        let few = Measured {
            threads: 2,
            cached: measured().cached.at(1_200.0),
            now: measured().now,
            store,
            ..measured()
        };
        let found = advice(&few, 2_000.0, &layout());
        assert!(found.contains("more threads: 100.0 % utilisation"), "{found}");
        let all = Measured { threads: 8, store, ..measured() };
        let found = advice(&all, 10_000.0, &layout());
        assert!(
            found
                .contains("Preparing the rows that are needed takes about 36 processors; this machine has 8"),
            "{found}"
        );
        let found = advice(&all, 1e6, &layout());
        assert!(found.contains("No number of such processors can prepare"), "{found}");
    }

    #[test]
    fn a_safe_margin_calls_for_nothing() {
        let found = advice(&measured(), 500.0, &layout());
        assert!(
            found.starts_with("The accelerator will not wait: the loader can deliver 2.0 times")
                && found.lines().count() == 1,
            "{found}"
        );
        assert!(advice(&measured(), 900.0, &layout()).contains("too small for short delays"));
    }

    #[test]
    fn without_a_demand_nothing_is_said_of_an_accelerator() {
        let found = list(&measured(), None, &layout());
        assert!(found.len() == 1 && found[0].contains("--step-ms"), "{found:?}");
    }
}

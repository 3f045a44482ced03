//! Predicts the rate of a loader after a change of its options or its store, by arithmetic on the
//! measurements.
//!
//! A batch is complete when its bytes have been fetched and prepared. Fetching and preparing run in parallel,
//! so the slower one decides the rate; DS-Analyzer predicts data stalls in the same way (Mohan, Phanishayee,
//! Raniwala and Chidambaram, *Analyzing and Mitigating Data Stalls in DNN Training*, VLDB 2021). If all
//! processors are busy, the processor time of fetching is not available for preparing.
//!
//! The rate of preparing with `t` threads follows Amdahl's law, fitted to the rates with one thread and with
//! all threads. The rate of fetching follows Little's law: it is the number of rows in flight divided by the
//! time of a request, up to the rate of the full link.

use std::fmt;

use serde::Serialize;

/// A rate with the half width of its 95 % confidence interval, both in rows per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Rate {
    pub(super) rows_per_second: f64,
    pub(super) plus_minus: f64,
}

impl Rate {
    /// The mean of the rates over intervals of equal length.
    pub(super) fn from_intervals(intervals: &[f64]) -> Rate {
        let n = intervals.len().max(1) as f64;
        let mean = intervals.iter().sum::<f64>() / n;
        let variance = intervals.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        Rate { rows_per_second: mean, plus_minus: STUDENT_T * (variance / n).sqrt() }
    }

    /// Returns a rate of `rows_per_second` with the relative error of this one.
    pub(super) fn at(self, rows_per_second: f64) -> Rate {
        let relative = self.plus_minus / self.rows_per_second.max(f64::MIN_POSITIVE);
        Rate { rows_per_second, plus_minus: relative * rows_per_second }
    }

    fn slower(self, other: Rate) -> Rate {
        if other.rows_per_second < self.rows_per_second { other } else { self }
    }
}

/// Student's t for a 95 % confidence interval from a dozen values: the half width of the interval in standard
/// errors.
const STUDENT_T: f64 = 2.2;

/// The processor time that a row takes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct RowWork {
    /// Decoding the row's Parquet, which a row cache saves.
    pub(super) parquet: f64,
    /// Fetching the row.
    pub(super) fetch: f64,
}

/// The measurements of the store.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct StoreTimes {
    /// The rate of fetching without preparing: the bytes are discarded.
    pub(super) rate: Rate,
    /// The median time to the first byte of a request, in seconds; 0 for local files.
    pub(super) first_byte: f64,
    /// The whole time of a request, in seconds.
    pub(super) request: f64,
    /// How many rows may be in flight at the same time.
    pub(super) under_way: f64,
}

/// The measurements of one machine and one data set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Measured {
    /// The number of processors that this process may use.
    pub(super) processors: u32,
    /// The number of threads of the loader.
    pub(super) threads: u32,
    /// The rate with the given options.
    pub(super) now: Rate,
    /// The rates of the loader from a filled row cache, with all threads (`cached`) and with one
    /// (`cached_alone`).
    pub(super) cached: Rate,
    pub(super) cached_alone: Rate,
    /// The rate from a filled cache that keeps images as pixels, if there are images.
    pub(super) pixels: Option<Rate>,
    pub(super) work: RowWork,
    pub(super) store: StoreTimes,
    /// The size of a row in a cache that keeps images as pixels, in bytes.
    pub(super) pixel_bytes: Option<f64>,
    /// The speed of the cache's disk without the page cache, in bytes per second, and the size of a row in
    /// the row cache, in bytes.
    pub(super) disk: Option<f64>,
    pub(super) row_bytes: f64,
    /// The number of rows in the data set, and the number of bytes that the page cache is expected to keep
    /// from one epoch to the next.
    pub(super) rows: u64,
    pub(super) remembered: u64,
}

/// A change to predict.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// No change.
    None,
    /// Another number of threads.
    Threads(u32),
    /// Another time to the first byte, in seconds.
    FirstByte(f64),
    /// A store so fast that the loader never waits for it.
    FreeStore,
    /// A warm row cache.
    RowCache,
    /// A warm cache of pixels.
    PixelCache,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::None => f.write_str("as it is"),
            Change::Threads(1) => f.write_str("1 thread"),
            Change::Threads(threads) => write!(f, "{threads} threads"),
            Change::FirstByte(seconds) => write!(f, "first byte after {:.0} ms", seconds * 1e3),
            Change::FreeStore => f.write_str("a store that is fast enough"),
            Change::RowCache => f.write_str("a warm row cache"),
            Change::PixelCache => f.write_str("a warm cache of pixels"),
        }
    }
}

impl Measured {
    /// The rate after a change; `None` if the measurements do not allow a prediction.
    pub(super) fn predict(&self, change: Change) -> Option<Rate> {
        Some(match change {
            // If the store is the limit, its own rate is the better prediction: the loader's rate is
            // distorted by bytes that were fetched before the first batch.
            Change::None if self.is_bound_by_store() => self.store.rate,
            Change::None => self.now,
            Change::Threads(threads) => self.fetched_and_prepared(threads, self.store.rate),
            Change::FirstByte(seconds) => self.fetched_and_prepared(self.threads, self.store_at(seconds)),
            Change::FreeStore => self.prepared(self.threads, false),
            Change::RowCache => self.limited_by_disk(self.cached, self.row_bytes),
            Change::PixelCache => self.limited_by_disk(self.pixels?, self.pixel_bytes?),
        })
    }

    /// Whether the store delivers less than this machine can prepare.
    pub(super) fn is_bound_by_store(&self) -> bool {
        self.store.rate.rows_per_second < self.prepared(self.threads, true).rows_per_second
    }

    /// The fewest threads that could prepare `rows` rows per second on a machine with enough processors;
    /// `None` if no number suffices.
    pub(super) fn threads_for(&self, rows: f64) -> Option<u32> {
        const MAX_THREADS: u32 = 1024;
        let enough = |threads: &u32| self.amdahl(f64::from(*threads)) >= rows;
        (1..=MAX_THREADS).find(enough)
    }

    /// The rate of `threads` threads from a filled row cache by Amdahl's law, in rows per second.
    fn amdahl(&self, threads: f64) -> f64 {
        let (one, all) = (self.cached_alone.rows_per_second, self.cached.rows_per_second);
        let serial = match self.effective(self.threads) {
            most if most <= 1.0 => 0.0,
            most => ((one * most / all - 1.0) / (most - 1.0)).max(0.0),
        };
        one * threads / (1.0 + serial * (threads - 1.0))
    }

    /// How many threads run at the same time: threads beyond the processors only take turns.
    fn effective(&self, threads: u32) -> f64 {
        f64::from(threads.min(self.processors))
    }

    /// The rate of preparing, including decoding Parquet. With `fetching`, the processor time of fetching
    /// slows preparing down if all processors are in use.
    fn prepared(&self, threads: u32, fetching: bool) -> Rate {
        let at_work = self.effective(threads);
        let cached = self.amdahl(at_work);
        let spare = threads < self.processors;
        let fetch = if fetching && !spare { self.work.fetch } else { 0.0 };
        self.cached.at(1.0 / (1.0 / cached + (self.work.parquet + fetch) / at_work))
    }

    fn fetched_and_prepared(&self, threads: u32, store: Rate) -> Rate {
        self.prepared(threads, true).slower(store)
    }

    /// The rate of the store if its first byte takes `seconds`.
    fn store_at(&self, seconds: f64) -> Rate {
        let StoreTimes { rate, first_byte, request, under_way } = self.store;
        let request = (request + seconds - first_byte).max(f64::MIN_POSITIVE);
        rate.slower(rate.at(under_way / request))
    }

    fn limited_by_disk(&self, rate: Rate, row_bytes: f64) -> Rate {
        if row_bytes * self.rows as f64 <= self.remembered as f64 {
            return rate;
        }
        self.disk.map_or(rate, |disk| rate.slower(rate.at(disk / row_bytes.max(1.0))))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn rate(rows_per_second: f64) -> Rate {
        Rate { rows_per_second, plus_minus: rows_per_second * 0.01 }
    }

    /// Measurements on 8 processors with a store that is slower than they prepare rows.
    pub(in super::super) fn measured() -> Measured {
        Measured {
            processors: 8,
            threads: 8,
            now: rate(1_000.0),
            cached: rate(4_000.0),
            cached_alone: rate(625.0),
            pixels: Some(rate(20_000.0)),
            work: RowWork { parquet: 0.0001, fetch: 0.0002 },
            store: StoreTimes { rate: rate(1_000.0), first_byte: 0.03, request: 0.2, under_way: 640.0 },
            pixel_bytes: Some(600_000.0),
            disk: Some(9e9),
            row_bytes: 100_000.0,
            rows: 1_000_000,
            remembered: 0,
        }
    }

    fn predicted(measured: &Measured, change: Change) -> f64 {
        measured.predict(change).unwrap().rows_per_second
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b.abs()
    }

    #[test]
    fn amdahls_law_goes_through_what_was_measured() {
        let measured = measured();
        assert!(close(measured.amdahl(1.0), 625.0) && close(measured.amdahl(8.0), 4_000.0));
        assert!((625.0..2_500.0).contains(&measured.amdahl(4.0)) && measured.amdahl(16.0) > 4_000.0);
        assert_eq!(measured.threads_for(625.0), Some(1));
        assert_eq!(measured.threads_for(4_000.0), Some(8));
        assert_eq!(measured.threads_for(1e9), None);
        let alone = Measured { threads: 1, cached: rate(625.0), ..measured };
        assert!(close(alone.amdahl(2.0), 1_250.0), "what was not measured is taken to be even");
    }

    #[test]
    fn the_slower_of_fetching_and_preparing_is_the_rate() {
        let measured = measured();
        assert!(close(predicted(&measured, Change::Threads(8)), 1_000.0));
        // One thread takes 1/625 s for a cached row and 0.1 ms more to decode its Parquet. Fetching costs it
        // nothing, because other processors are free.
        assert!(close(predicted(&measured, Change::Threads(1)), 1.0 / (1.0 / 625.0 + 0.0001)));
        let near = Measured { store: StoreTimes { rate: rate(1e6), ..measured.store }, ..measured };
        let all = 1.0 / (1.0 / 4_000.0 + 0.0003 / 8.0);
        assert!(close(predicted(&near, Change::Threads(8)), all));
        assert!(close(predicted(&near, Change::Threads(64)), all), "there are 8 processors");
    }

    #[test]
    fn latency_matters_once_the_link_is_not_full() {
        let measured = measured();
        assert!(close(predicted(&measured, Change::FirstByte(0.1)), 1_000.0));
        // The 640 rows in flight arrive in the time of one request, which is 0.2 s plus the additional
        // latency of 1.97 s.
        assert!(close(predicted(&measured, Change::FirstByte(2.0)), 640.0 / 2.17));
    }

    #[test]
    fn a_cache_is_as_fast_as_its_disk_at_most() {
        let measured = measured();
        assert!(close(predicted(&measured, Change::RowCache), 4_000.0));
        assert!(close(predicted(&measured, Change::PixelCache), 15_000.0));
        let small = Measured { rows: 1_000, remembered: 1 << 30, ..measured };
        assert!(close(predicted(&small, Change::PixelCache), 20_000.0), "from the page cache");
        assert_eq!(Measured { pixels: None, ..measured }.predict(Change::PixelCache), None);
        assert!(predicted(&measured, Change::FreeStore) < 4_000.0);
    }

    #[test]
    fn an_uneven_measurement_has_a_wide_error() {
        let even = Rate::from_intervals(&[100.0; 10]);
        assert_eq!((even.rows_per_second, even.plus_minus), (100.0, 0.0));
        let uneven = Rate::from_intervals(&[90.0, 110.0, 90.0, 110.0]);
        assert!(
            close(uneven.rows_per_second, 100.0) && (10.0..15.0).contains(&uneven.plus_minus),
            "{uneven:?}"
        );
        assert_eq!(uneven.at(200.0).plus_minus, 2.0 * uneven.plus_minus);
    }
}

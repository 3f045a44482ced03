//! Chooses the form in which a cache keeps cells, for example as stored or as decoded pixels. The user sets
//! the form, or measurements decide.
//!
//! Measurements decide at the beginning of each epoch, from the times of the epoch before it. The epoch that
//! begins was prepared already, so the chosen form applies to the epoch after it. Neither the order of rows
//! nor a position in it depends on the form.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use forebay_arrow::array::RecordBatch;
use forebay_base::{Error, ErrorKind, Result};

use super::machine::page_cache;
use crate::cache::Tier;
use crate::column::{CacheForm, Cost};
use crate::monitor::{Monitor, Stage};
use crate::reader::reads::Reads;

/// The number of cells of a row group from which the costs of a column are estimated.
const SAMPLED_CELLS: usize = 16;
/// Epochs that are shorter than this number of seconds are not measured.
const MIN_EPOCH_SECONDS: f64 = 0.2;
/// The form changes only if the training loop waits for at least this share of its time. A smaller share may
/// be the wait for the first batch of a short epoch.
const MIN_WAIT_SHARE: f64 = 0.05;
/// A form is fast enough if the disk can deliver rows in this form at least this number of times as fast as
/// the last epoch delivered its rows.
const MIN_DISK_SPEEDUP: f64 = 2.0;
/// A form is worth its disk space only if decoding cells from it takes at most this share of the work of
/// decoding stored cells.
const MAX_DECODING_LEFT: f64 = 0.5;
/// A form is given up if an epoch with it delivers less than this share of the rows per second of an epoch
/// with stored cells.
const MIN_RATE_KEPT: f64 = 0.95;

/// Chooses the form in which the cache of one loader keeps cells.
#[derive(Debug)]
pub(super) struct Tiers {
    asked: Tier,
    /// The forms other than the stored one in which the columns can be kept, best first.
    forms: Vec<Arc<CacheForm>>,
    /// The number of columns whose cells have to be decoded.
    decoded: u64,
    /// The cost of a row in each of `forms`; not set until the cells of a row group were sampled.
    costs: OnceLock<Vec<Cost>>,
    choice: Mutex<Choice>,
}

#[derive(Debug, Default)]
struct Choice {
    form: Option<Arc<CacheForm>>,
    /// Whether the form is not changed any more: the user set it, or another form was tried and given up.
    is_final: bool,
    epoch: Option<EpochStart>,
    /// The rows per second of the last measured epoch that used cells in stored form.
    rate_as_stored: Option<f64>,
}

/// The time, the form and the counters when an epoch began.
#[derive(Debug)]
struct EpochStart {
    at: Instant,
    /// The form that this epoch uses. It was chosen at the beginning of the epoch before, because this epoch
    /// was prepared during that one.
    form: Option<Arc<CacheForm>>,
    counters: Counters,
}

/// Totals that the monitor counted since the loader was built. The difference between two of them measures an
/// epoch.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// The number of cells that were decoded.
    decoded: u64,
    /// The number of cells that were converted to another form for the cache.
    kept: u64,
    /// The seconds that the training loop waited for rows to be gathered and decoded.
    waited: f64,
}

/// The measurements from which a form is chosen.
struct Measured<'a> {
    /// The cost of a row in each form, best form first.
    costs: &'a [Cost],
    rows: u64,
    /// The rate of the last epoch, in rows a second.
    rate: f64,
    /// The number of bytes that this data set may take in the cache.
    room: u64,
    /// The number of bytes that the operating system is expected to keep in its page cache.
    page_cache: u64,
    /// The bytes per second that the disk delivers; `None` if the rate could not be measured.
    disk: Option<f64>,
}

impl Tiers {
    /// Begins with the form that the user requested. If none was requested, begins with the form in which an
    /// earlier run kept the cells. `forms` are the forms other than the stored one, best first; `decoded` is
    /// the number of columns whose cells are decoded.
    pub(super) fn new(asked: Tier, forms: Vec<Arc<CacheForm>>, decoded: u64, reads: &Reads) -> Self {
        let found = || forms.iter().find(|form| asked == Tier::Auto && is_kept(reads, form));
        let form = forms.iter().find(|form| form.tier() == asked).or_else(found).cloned();
        let choice = Mutex::new(Choice { form, is_final: asked != Tier::Auto, ..Choice::default() });
        Tiers { asked, forms, decoded, costs: OnceLock::new(), choice }
    }

    fn choice(&self) -> MutexGuard<'_, Choice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The form in which the cache keeps cells now; `None` for the stored form.
    pub(super) fn form(&self) -> Option<Arc<CacheForm>> {
        self.choice().form.clone()
    }

    /// The name of the form in which the cache keeps cells now.
    pub(super) fn tier(&self) -> Tier {
        self.form().map_or(Tier::Rows, |form| form.tier())
    }

    /// Takes over the form that a saved state names, unless the user requested a form.
    pub(super) fn restore(&self, saved: &str) -> Result<()> {
        let saved: Tier = saved.parse().map_err(|error: Error| {
            Error::new(ErrorKind::StateMismatch, format!("the state is damaged: {}", error.cause()))
        })?;
        if self.asked == Tier::Auto {
            self.choice().form = self.forms.iter().find(|form| form.tier() == saved).cloned();
        }
        Ok(())
    }

    /// Estimates the cost of a row in each form from some cells of `rows`, which are in stored form, unless
    /// the costs are known already.
    pub(super) fn observe(&self, rows: &RecordBatch) {
        if self.asked != Tier::Auto || self.forms.is_empty() || self.costs.get().is_some() {
            return;
        }
        let costs = self.forms.iter().map(|form| form.cost(rows, SAMPLED_CELLS)).collect::<Option<_>>();
        if let Some(costs) = costs {
            // If another thread has set the costs first, its estimate is just as good.
            let _ = self.costs.set(costs);
        }
    }

    /// Measures the epoch that has ended, and chooses a form by it. Called when the next epoch begins.
    pub(super) fn epoch_begins(&self, monitor: &Monitor, reads: &Reads, rows: u64) {
        let mut choice = self.choice();
        let counters = Counters::from_monitor(monitor);
        let start = EpochStart { at: Instant::now(), form: choice.form.clone(), counters };
        let before = choice.epoch.replace(start);
        let (Some(EpochStart { at, form, counters: before, .. }), false) = (before, choice.is_final) else {
            return;
        };
        let seconds = at.elapsed().as_secs_f64();
        if seconds < MIN_EPOCH_SECONDS || counters.waited - before.waited < MIN_WAIT_SHARE * seconds {
            return;
        }
        let rate = (counters.decoded - before.decoded) as f64 / self.decoded.max(1) as f64 / seconds;
        match form {
            None => {
                choice.rate_as_stored = Some(rate);
                let costs = self.costs.get();
                let measured = costs.and_then(|costs| Measured::gather(costs, rows, rate, reads));
                let chosen = measured.and_then(|measured| measured.choice());
                choice.form = chosen.map(|chosen| self.forms[chosen].clone());
            }
            Some(_) if counters.kept > before.kept => {}
            Some(_) if choice.rate_as_stored.is_some_and(|stored| rate < MIN_RATE_KEPT * stored) => {
                (choice.form, choice.is_final) = (None, true);
            }
            Some(_) => {}
        }
    }
}

impl Counters {
    fn from_monitor(monitor: &Monitor) -> Counters {
        let timings = monitor.timings();
        let items = |stage: Stage| timings.work[stage as usize].items;
        let nanos = timings.waits[Stage::Decode as usize] + timings.waits[Stage::Gather as usize];
        Counters { decoded: items(Stage::Decode), kept: items(Stage::Keep), waited: nanos / 1e9 }
    }
}

/// Whether the cache already holds the rows in this form. Only the first and the last row group are looked
/// up.
fn is_kept(reads: &Reads, form: &Arc<CacheForm>) -> bool {
    let Reads { store, catalog, projection, row_cache: Some(row_cache), .. } = reads else {
        return false;
    };
    let row_cache = row_cache.in_form(Some(form.clone()));
    let last = catalog.groups.len().saturating_sub(1);
    [0, last]
        .into_iter()
        .all(|group| row_cache.cache().holds(&row_cache.key(store, catalog, projection, group)))
}

impl Measured<'_> {
    fn gather<'a>(costs: &'a [Cost], rows: u64, rate: f64, reads: &Reads) -> Option<Measured<'a>> {
        let cache = reads.row_cache.as_ref()?.cache();
        let others = cache.stats().bytes.saturating_sub(catalog_bytes(reads));
        Some(Measured {
            costs,
            rows,
            rate,
            room: cache.capacity().saturating_sub(others),
            page_cache: page_cache(),
            disk: cache.disk_rate(),
        })
    }

    /// The index of the first form that saves enough decoding, fits into the cache, and is read fast enough.
    fn choice(&self) -> Option<usize> {
        self.costs.iter().position(|cost| {
            let all = cost.bytes * self.rows as f64;
            let is_fast = self.disk.is_some_and(|disk| disk >= MIN_DISK_SPEEDUP * self.rate * cost.bytes);
            cost.decoding <= MAX_DECODING_LEFT
                && all <= self.room as f64
                && (is_fast || all <= self.page_cache as f64)
        })
    }
}

/// The most bytes that the rows of the data set take in the cache if cells are kept as stored.
fn catalog_bytes(reads: &Reads) -> u64 {
    (0..reads.catalog.groups.len()).map(|group| reads.kept(group)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;
    const PIXELS: usize = 0;
    const RESIZED: usize = 1;

    /// The costs of photographs of 500x375 pixels, first kept as pixels and then as resized files.
    const PHOTOGRAPHS: [Cost; 2] =
        [Cost { bytes: 562_520.0, decoding: 0.0 }, Cost { bytes: 110_000.0, decoding: 1.0 }];

    /// Measurements for 10,000 photographs that arrive at 1,000 a second.
    fn measured() -> Measured<'static> {
        let costs = &PHOTOGRAPHS;
        Measured { costs, rows: 10_000, rate: 1_000.0, room: 100 * GB, page_cache: 0, disk: Some(2e9) }
    }

    #[test]
    fn pixels_are_chosen_where_they_fit_and_the_disk_is_fast() {
        assert_eq!(measured().choice(), Some(PIXELS));
        assert_eq!(Measured { room: 5 * GB, ..measured() }.choice(), None, "5.6 GB do not fit");
        assert_eq!(Measured { disk: Some(1e9), ..measured() }.choice(), None, "twice 563 MB/s are needed");
        assert_eq!(Measured { disk: None, ..measured() }.choice(), None);
        let in_memory = Measured { disk: None, page_cache: 8 * GB, ..measured() };
        assert_eq!(in_memory.choice(), Some(PIXELS));
    }

    #[test]
    fn coefficients_are_chosen_where_nothing_else_would_do_and_they_save_half() {
        let with = |decoding| {
            let coefficients = Cost { bytes: 148_000.0, decoding };
            let costs = &[PHOTOGRAPHS[PIXELS], PHOTOGRAPHS[RESIZED], coefficients];
            Measured { costs, room: 2 * GB, ..measured() }.choice()
        };
        assert_eq!(with(0.35), Some(2), "pixels do not fit, and smaller images are none");
        assert_eq!(with(0.7), None);
    }

    #[test]
    fn large_photographs_are_resized_where_their_pixels_do_not_fit() {
        let pixels = Cost { bytes: 36e6, decoding: 0.0 };
        let large = |resized| {
            let costs = &[pixels, resized];
            Measured { costs, rate: 100.0, disk: Some(1e9), ..measured() }.choice()
        };
        assert_eq!(large(Cost { bytes: 1e6, decoding: 0.1 }), Some(RESIZED));
        assert_eq!(large(Cost { bytes: 1e6, decoding: 0.6 }), None);
    }
}

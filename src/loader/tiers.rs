//! The form in which a cache keeps cells: set by the user, or chosen by measurements.
//!
//! A choice is made when an epoch begins, from measurements of the epoch before, and applies to the next
//! epoch that is prepared: the one after it. Order and position do not depend on it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use forebay_arrow::array::RecordBatch;
use forebay_base::{Error, ErrorKind, Result};

use super::machine::page_cache;
use crate::cache::Tier;
use crate::column::{CacheForm, Cost};
use crate::monitor::{Monitor, Stage};
use crate::reader::reads::Reads;

/// The number of cells of a row group that are sampled in each column.
const SAMPLED_CELLS: usize = 16;
/// The shortest epoch that is measured, in seconds.
const MIN_EPOCH_SECONDS: f64 = 0.2;
/// Another form is chosen only if the consumer waits for at least this share of its time. A smaller share may
/// be the wait for the first batch of a short epoch.
const MIN_WAIT_SHARE: f64 = 0.05;
/// The disk must deliver cells at least this many times as fast as they come now.
const MIN_DISK_SPEEDUP: f64 = 2.0;
/// The largest share of the decoding that a form may leave to be worth its disk space.
const MAX_DECODING_LEFT: f64 = 0.5;
/// A form is abandoned if it gives less than this part of the rate that cells in stored form gave.
const MIN_RATE_KEPT: f64 = 0.95;

/// Chooses the form for one loader.
#[derive(Debug)]
pub(super) struct Tiers {
    asked: Tier,
    /// The other forms that the columns can be kept in, best first.
    forms: Vec<Arc<CacheForm>>,
    /// The number of columns whose cells are decoded.
    decoded: u64,
    /// The cost of a row in each form.
    costs: OnceLock<Vec<Cost>>,
    choice: Mutex<Choice>,
}

#[derive(Debug, Default)]
struct Choice {
    form: Option<Arc<CacheForm>>,
    /// Whether the choice is final.
    is_final: bool,
    epoch: Option<EpochStart>,
    /// The rate, in rows a second, of the last epoch that was held up by decoding stored cells.
    rate_as_stored: Option<f64>,
}

/// The state at the beginning of an epoch.
#[derive(Debug)]
struct EpochStart {
    at: Instant,
    /// The choice at that time: the form of the epoch after it, which is prepared from then on.
    next_form: Option<Arc<CacheForm>>,
    /// The form of the epoch itself.
    form: Option<Arc<CacheForm>>,
    counters: Counters,
}

/// Counts of the monitor, from whose differences an epoch is measured.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// The number of cells that were decoded.
    decoded: u64,
    /// The number of cells that were converted to another form to be kept.
    kept: u64,
    /// The number of seconds that the consumer waited for batches that were being collated.
    waited: f64,
}

/// The measurements that a choice is made from.
struct Measured<'a> {
    /// The cost of a row in each form.
    costs: &'a [Cost],
    rows: u64,
    /// The rate of the last epoch, in rows a second.
    rate: f64,
    /// The bytes that the entries of the cache may take.
    room: u64,
    /// The bytes that the page cache keeps.
    page_cache: u64,
    /// The rate of the disk in bytes a second, if it could be measured.
    disk: Option<f64>,
}

impl Tiers {
    /// Begins with the requested form; if none is requested, with the form in which an earlier run kept
    /// cells. `forms` are the other forms that the columns can be kept in, best first; `decoded` is the
    /// number of columns that are decoded.
    pub(super) fn new(asked: Tier, forms: Vec<Arc<CacheForm>>, decoded: u64, reads: &Reads) -> Self {
        let found = || forms.iter().find(|form| asked == Tier::Auto && is_kept(reads, form));
        let form = forms.iter().find(|form| form.tier() == asked).or_else(found).cloned();
        let choice = Mutex::new(Choice { form, is_final: asked != Tier::Auto, ..Choice::default() });
        Tiers { asked, forms, decoded, costs: OnceLock::new(), choice }
    }

    fn choice(&self) -> MutexGuard<'_, Choice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The form in which cells are kept and used now; `None` for the stored form.
    pub(super) fn form(&self) -> Option<Arc<CacheForm>> {
        self.choice().form.clone()
    }

    /// The present form by name.
    pub(super) fn tier(&self) -> Tier {
        self.form().map_or(Tier::Rows, |form| form.tier())
    }

    /// Adopts the form of a saved position, if the user requested none.
    pub(super) fn restore(&self, saved: &str) -> Result<()> {
        let saved: Tier = saved.parse().map_err(|error: Error| {
            Error::new(ErrorKind::StateMismatch, format!("the state is damaged: {}", error.cause()))
        })?;
        if self.asked == Tier::Auto {
            self.choice().form = self.forms.iter().find(|form| form.tier() == saved).cloned();
        }
        Ok(())
    }

    /// Samples the cells of a row group in stored form.
    pub(super) fn observe(&self, rows: &RecordBatch) {
        if self.asked != Tier::Auto || self.forms.is_empty() || self.costs.get().is_some() {
            return;
        }
        let costs = self.forms.iter().map(|form| form.cost(rows, SAMPLED_CELLS)).collect::<Option<_>>();
        if let Some(costs) = costs {
            // If another thread was first, its result is just as good.
            let _ = self.costs.set(costs);
        }
    }

    /// Chooses a form when an epoch begins.
    pub(super) fn epoch_begins(&self, monitor: &Monitor, reads: &Reads, rows: u64) {
        let mut choice = self.choice();
        let counters = Counters::from_monitor(monitor);
        let form = choice.epoch.as_ref().map_or(&choice.form, |before| &before.next_form).clone();
        let start = EpochStart { at: Instant::now(), next_form: choice.form.clone(), form, counters };
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

/// Whether the cache holds the first and the last row group in a form.
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

    /// The index of the first form that saves enough, fits on the disk, and is read from it fast enough.
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

/// The most bytes that the rows of the data set take if cells are kept as stored.
fn catalog_bytes(reads: &Reads) -> u64 {
    (0..reads.catalog.groups.len()).map(|group| reads.held(group)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;
    const PIXELS: usize = 0;
    const RESIZED: usize = 1;

    /// The costs of photographs of 500x375 pixels, as pixels and resized.
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

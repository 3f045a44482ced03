//! In which form a cache keeps images: said by the user, or chosen by what is measured.
//!
//! A choice is made where an epoch begins, from what the one before showed, and holds for what is prepared from then on:
//! the epoch after it. Order and position do not depend on it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use arrow::array::RecordBatch;

use super::images::Encoded;
use super::machine::page_cache;
use crate::cache::Tier;
use crate::decode::{Form, Image};
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::{Monitor, Stage};
use crate::reader::fetch::Fetcher;

/// Images of a row group that are looked at.
const SAMPLED_IMAGES: usize = 16;
/// Shorter epochs measure nothing.
const MIN_EPOCH_SECONDS: f64 = 0.2;
/// A consumer that waits for a smaller part of its time is served well enough: the first batch of a short epoch may be it.
const MIN_WAIT_SHARE: f64 = 0.05;
/// The disk must give images so many times as fast as they come now.
const MIN_DISK_SPEEDUP: f64 = 2.0;
/// A resized image must save half of the decoding to be worth another form on disk.
const MAX_RESIZED_SHARE: f64 = 0.5;
/// A form that gives less than this part of what files gave is left again.
const MIN_RATE_KEPT: f64 = 0.95;

/// The choice of one loader.
#[derive(Debug)]
pub(super) struct Tiers {
    asked: Tier,
    /// Columns of images that can be kept in another form.
    images: Arc<[(usize, Image)]>,
    sample: OnceLock<Sample>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    form: Option<Form>,
    /// Whether it is not to be changed any more.
    settled: bool,
    epoch: Option<Begun>,
    /// Images a second of the last epoch that was held up by decoding files.
    as_files: Option<f64>,
}

/// An epoch when it began.
#[derive(Debug)]
struct Begun {
    at: Instant,
    /// What was in force then: the form of the epoch after it, which is prepared from here on.
    form: Option<Form>,
    /// Its own.
    own: Option<Form>,
    waited: f64,
    images: u64,
    kept: u64,
}

/// What the images of one row take on average, all columns together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    pixels: f64,
    resized: f64,
    /// Of the pixels, those that are left in a resized image.
    resized_share: f64,
}

/// What a choice is made from.
struct Evidence {
    sample: Sample,
    rows: u64,
    /// Rows a second that came last.
    rate: f64,
    /// Bytes that the entries may come to.
    room: u64,
    /// Bytes that the page cache keeps.
    remembered: u64,
    /// Bytes a second of the disk, where they could be measured.
    disk: Option<f64>,
}

impl Tiers {
    /// What was asked for; left open, it begins with the form in which an earlier run has kept images.
    pub(super) fn new(asked: Tier, fetcher: &Fetcher) -> Self {
        let images: Arc<[(usize, Image)]> =
            fetcher.row_cache.as_ref().map_or(Arc::default(), |row_cache| row_cache.images().into());
        let found = || {
            let forms = [Form::Pixels, Form::Resized].into_iter();
            forms.filter(|_| asked == Tier::Auto).find(|form| is_kept(fetcher, *form))
        };
        let form = form_of(asked).or_else(found).filter(|_| !images.is_empty());
        let state = Mutex::new(State { form, settled: asked != Tier::Auto, ..State::default() });
        Tiers { asked, images, sample: OnceLock::new(), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The form in which images are kept and used now.
    pub(super) fn form(&self) -> Option<Form> {
        self.state().form
    }

    /// The same by name.
    pub(super) fn tier(&self) -> Tier {
        match self.form() {
            None => Tier::Rows,
            Some(Form::Resized) => Tier::Resized,
            Some(Form::Pixels) => Tier::Pixels,
        }
    }

    /// Takes over what a saved position was made with, where it was left open.
    pub(super) fn restore(&self, saved: &str) -> Result<()> {
        let saved: Tier = saved.parse().map_err(|error: Error| {
            Error::new(ErrorKind::StateMismatch, format!("the state is damaged: {}", error.cause()))
        })?;
        if self.asked == Tier::Auto && !self.images.is_empty() {
            self.state().form = form_of(saved);
        }
        Ok(())
    }

    /// Looks at the images of a row group as the data set has them.
    pub(super) fn observe(&self, rows: &RecordBatch) {
        let wanted = self.asked == Tier::Auto && !self.images.is_empty() && self.sample.get().is_none();
        if let Some(sample) = wanted.then(|| Sample::of(rows, &self.images)).flatten() {
            // Whoever was first.
            let _ = self.sample.set(sample);
        }
    }

    /// Chooses where an epoch begins.
    pub(super) fn epoch_begins(&self, monitor: &Monitor, fetcher: &Fetcher, rows: u64) {
        let mut state = self.state();
        let (images, kept, waited) = made(monitor);
        let own = state.epoch.as_ref().map_or(state.form, |before| before.form);
        let begun = Begun { at: Instant::now(), form: state.form, own, waited, images, kept };
        let before = state.epoch.replace(begun);
        let (Some(before), false) = (before, state.settled) else { return };
        let seconds = before.at.elapsed().as_secs_f64();
        if seconds < MIN_EPOCH_SECONDS || waited - before.waited < MIN_WAIT_SHARE * seconds {
            return;
        }
        let rate = (images - before.images) as f64 / self.images.len().max(1) as f64 / seconds;
        match before.own {
            None => {
                state.as_files = Some(rate);
                let sample = self.sample.get().copied();
                let evidence = sample.and_then(|sample| Evidence::gather(sample, rows, rate, fetcher));
                state.form = evidence.and_then(|evidence| evidence.choice());
            }
            Some(_) if kept > before.kept => {}
            Some(_) if state.as_files.is_some_and(|as_files| rate < MIN_RATE_KEPT * as_files) => {
                (state.form, state.settled) = (None, true);
            }
            Some(_) => {}
        }
    }
}

/// Images that were decoded, images that were brought into another form to be kept, and seconds that the consumer waited
/// for batches in the making.
fn made(monitor: &Monitor) -> (u64, u64, f64) {
    let timings = monitor.timings();
    let items = |stage: Stage| timings.work[stage as usize].items;
    let nanos = timings.waits[Stage::Decode as usize] + timings.waits[Stage::Gather as usize];
    (items(Stage::Decode), items(Stage::Keep), nanos / 1e9)
}

fn form_of(tier: Tier) -> Option<Form> {
    match tier {
        Tier::Auto | Tier::Rows => None,
        Tier::Resized => Some(Form::Resized),
        Tier::Pixels => Some(Form::Pixels),
    }
}

/// Whether the first and the last row group are kept in a form.
fn is_kept(fetcher: &Fetcher, form: Form) -> bool {
    let Fetcher { store, catalog, projection, row_cache: Some(row_cache), .. } = fetcher else {
        return false;
    };
    let row_cache = row_cache.in_form(Some(form));
    let last = catalog.groups.len().saturating_sub(1);
    [0, last]
        .into_iter()
        .all(|group| row_cache.cache().holds(&row_cache.key(store, catalog, projection, group)))
}

impl Sample {
    fn of(rows: &RecordBatch, images: &[(usize, Image)]) -> Option<Sample> {
        let mut sample = Sample::default();
        for (column, image) in images {
            let encoded = Encoded::of(rows.column(*column).as_ref()).ok()?;
            let step = (rows.num_rows() / SAMPLED_IMAGES).max(1);
            let looks = (0..rows.num_rows()).step_by(step).filter_map(|row| {
                let file = encoded.get(row)?;
                let bytes = |form| image.kept_bytes(form, file).ok().map(|bytes| bytes as f64);
                Some((bytes(Form::Pixels)?, bytes(Form::Resized)?, image.resized_share(file).ok()?))
            });
            let looks: Vec<_> = looks.collect();
            let count = (!looks.is_empty()).then_some(looks.len() as f64)?;
            let mean = |of: fn(&(f64, f64, f64)) -> f64| looks.iter().map(of).sum::<f64>() / count;
            sample.pixels += mean(|look| look.0);
            sample.resized += mean(|look| look.1);
            sample.resized_share += mean(|look| look.2) / images.len() as f64;
        }
        Some(sample)
    }
}

impl Evidence {
    fn gather(sample: Sample, rows: u64, rate: f64, fetcher: &Fetcher) -> Option<Evidence> {
        let cache = fetcher.row_cache.as_ref()?.cache();
        let others = cache.stats().bytes.saturating_sub(catalog_bytes(fetcher));
        Some(Evidence {
            sample,
            rows,
            rate,
            room: cache.capacity().saturating_sub(others),
            remembered: page_cache(),
            disk: cache.disk_rate(),
        })
    }

    fn choice(&self) -> Option<Form> {
        let suits = |bytes: f64| {
            let all = bytes * self.rows as f64;
            let quick = self.disk.is_some_and(|disk| disk >= MIN_DISK_SPEEDUP * self.rate * bytes);
            all <= self.room as f64 && (quick || all <= self.remembered as f64)
        };
        if suits(self.sample.pixels) {
            return Some(Form::Pixels);
        }
        (self.sample.resized_share <= MAX_RESIZED_SHARE && suits(self.sample.resized))
            .then_some(Form::Resized)
    }
}

/// What the rows of the data set take when they are kept as files, at most.
fn catalog_bytes(fetcher: &Fetcher) -> u64 {
    (0..fetcher.catalog.groups.len()).map(|group| fetcher.held(group)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    /// 10,000 photographs of 500x375 that come at 1,000 a second.
    fn evidence() -> Evidence {
        let sample = Sample { pixels: 562_520.0, resized: 110_000.0, resized_share: 1.0 };
        Evidence { sample, rows: 10_000, rate: 1_000.0, room: 100 * GB, remembered: 0, disk: Some(2e9) }
    }

    #[test]
    fn pixels_are_chosen_where_they_fit_and_the_disk_is_fast() {
        assert_eq!(evidence().choice(), Some(Form::Pixels));
        assert_eq!(Evidence { room: 5 * GB, ..evidence() }.choice(), None, "5.6 GB do not fit");
        assert_eq!(Evidence { disk: Some(1e9), ..evidence() }.choice(), None, "twice 563 MB/s are needed");
        assert_eq!(Evidence { disk: None, ..evidence() }.choice(), None);
        let remembered = Evidence { disk: None, remembered: 8 * GB, ..evidence() };
        assert_eq!(remembered.choice(), Some(Form::Pixels));
    }

    #[test]
    fn large_photographs_are_resized_where_their_pixels_do_not_fit() {
        let sample = Sample { pixels: 36e6, resized: 1e6, resized_share: 0.1 };
        let large = Evidence { sample, rate: 100.0, disk: Some(1e9), ..evidence() };
        assert_eq!(large.choice(), Some(Form::Resized));
        let little = Sample { resized_share: 0.6, ..sample };
        assert_eq!(Evidence { sample: little, ..large }.choice(), None);
    }
}

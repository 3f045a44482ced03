//! The saved state of a loader or a mix, called a position: how far an epoch got, as a few integers, and a
//! fingerprint of the data set.

use std::fmt;

use forebay_base::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::course::Stop;
use super::files::SavedFiles;
use super::kept_text::kept_text;
use super::mix::Origin;
use super::order_spec::OrderSpec;
use super::skips::{SkippedRows, SkippedSteps};
use super::spec::Shuffle;
use super::split::Split;

/// The version of a [`Position`] of one data set.
const VERSION: u32 = 3;
/// The version of a [`Position`] of a mix.
const MIX_VERSION: u32 = 2;

/// The largest number of an epoch. After a whole epoch, a position has the number of the next epoch, so one
/// larger number must exist.
pub(crate) const LAST_EPOCH: u64 = u64::MAX - 1;

/// How far an epoch got: made of JSON types only, and the same on every rank.
///
/// A position resumes on any number of processes: it counts rows of the global order, which does not depend
/// on the ranks that read them. Save it with the model, as JSON for example, and give it to
/// [`Loader::restore`](crate::Loader::restore):
///
/// ```
/// # let json = r#"{"version":3,"fingerprint":"00","epoch":3,"row":640,
/// #     "order":{"shuffle":"window","seed":17,"pool":4,"lanes":2,"rows":1000,"filter":null},
/// #     "split":{"global_batch_size":64,"world":2,"drop_last":false}}"#;
/// let position: forebay::Position = serde_json::from_str(json)?;
/// assert_eq!((position.epoch, position.row), (3, 640));
///
/// // A position of a version that this release does not read is refused as such, whatever its fields are.
/// let later = serde_json::from_str::<forebay::Position>(r#"{"version":9,"when":"later"}"#);
/// assert!(later.unwrap_err().to_string().contains("format version 9"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Written")]
#[non_exhaustive]
pub struct Position {
    /// The format version of this record. Positions of one data set and of a mix have separate versions.
    pub version: u32,
    /// The epoch that is under way, or about to begin.
    pub epoch: u64,
    /// The number of rows that the epoch has delivered, over all sources and ranks.
    pub row: u64,
    /// The sources; a loader of one data set has a single one.
    pub sources: Vec<SavedSource>,
    /// The batch size and the number of ranks of the loader that saved this position. A loader that resumes
    /// may have others.
    pub split: SavedSplit,
    /// The rule by which sources are mixed, and the next step.
    pub(crate) mix: Option<SavedMix>,
}

/// One source in a [`Position`]: its data set and order, and how far the epoch got in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedSource {
    /// The fingerprint of the data set.
    pub fingerprint: String,
    /// The files of the data set, for a message that says what changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<SavedFiles>,
    /// The version of the table, if the data set is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<SavedTable>,
    /// The tables that the data set consists of, each at its version, if there are several, in the order of
    /// the locations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<SavedTable>,
    /// The order in which the rows of the source are delivered.
    pub order: OrderId,
    /// The number of the epoch's first pass over the source. Passes are counted through all epochs; for a
    /// loader of one data set, this is the number of the epoch.
    pub first_pass: u64,
    /// The number of the source's rows that the epoch has delivered.
    pub rows: u64,
    /// The number of bad rows that the saving rank had left out of the present pass. This is the only field
    /// in which ranks may differ: it counts against the limit of [`OnBadRow::Skip`](crate::OnBadRow::Skip),
    /// and no order depends on it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// The form in which a cache kept images, if there was a cache: it does not change the order, but may
    /// change pixels slightly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_tier: Option<String>,
}

/// A table, and the version of it in which a position counts rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedTable {
    /// The identity of the table, the same in all of its versions.
    pub id: String,
    /// The number of the version. Open it with [`OpenOptions::version`](crate::OpenOptions::version) to
    /// continue from the position.
    pub version: u64,
    /// The text to open with [`OpenOptions::reference`](crate::OpenOptions::reference) instead, if the table
    /// was read with another schema than that of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_as: Option<String>,
}

/// The part of a position that only a mix has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedMix {
    /// The number of the next step, counted through all epochs.
    pub(crate) step: u64,
    pub(crate) stop: Stop,
    pub(crate) repeat: bool,
    /// The weights as integers, one for each source. Each list has the step from which it applies.
    pub(crate) schedule: Vec<(u64, Vec<u64>)>,
    /// The seed of random shares; `None` if the weights divide the rows of each step exactly.
    pub(crate) random_shares: Option<u64>,
    /// The first step whose weights were set during the run; `None` if all were given at its start.
    pub(crate) set_from: Option<u64>,
    /// The most passes over each source in an epoch; empty if there is no limit.
    pub(crate) max_passes: Vec<Option<u64>>,
    /// The steps that are skipped.
    pub(crate) skipped: Vec<SkippedSteps>,
    /// The step from which the present plan of the mix applies; `None` if that is the first step of the run.
    pub(crate) origin: Option<Origin>,
}

/// The rule by which a loader cuts an epoch into batches, as a position stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedSplit {
    /// The number of rows of a full step, over all ranks.
    pub global_batch_size: u64,
    /// The number of ranks.
    pub world: u32,
    /// Whether rows that do not fill a step are left out.
    pub drop_last: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl From<Split> for SavedSplit {
    fn from(split: Split) -> Self {
        let Split { global_batch: global_batch_size, shard, drop_last, .. } = split;
        SavedSplit { global_batch_size, world: shard.world(), drop_last }
    }
}

/// A position in its serialized form.
#[derive(Serialize)]
#[serde(untagged)]
enum Written {
    One(OfOne),
    Mix(OfMix),
    /// A position without a source, which no loader can read.
    Nothing {},
}

/// The fields of a position in one data set.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfOne {
    version: u32,
    fingerprint: String,
    order: OrderId,
    epoch: u64,
    row: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    skipped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_tier: Option<String>,
    split: SavedSplit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<SavedTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<SavedTable>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<SavedFiles>,
}

/// The fields of a position in a mix.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfMix {
    mix: u32,
    epoch: u64,
    row: u64,
    step: u64,
    sources: Vec<SavedSource>,
    stop: Stop,
    repeat: bool,
    schedule: Vec<(u64, Vec<u64>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    random_shares: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_from: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    max_passes: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedSteps>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    split: SavedSplit,
}

impl From<Position> for Written {
    fn from(Position { version, epoch, row, sources, split, mix }: Position) -> Self {
        if let Some(of_mix) = mix {
            let SavedMix { step, stop, repeat, schedule, random_shares, set_from, max_passes, .. } = of_mix;
            let SavedMix { skipped, origin, .. } = of_mix;
            return Written::Mix(OfMix {
                mix: version,
                epoch,
                row,
                step,
                sources,
                stop,
                repeat,
                schedule,
                random_shares,
                set_from,
                max_passes,
                skipped,
                origin,
                split,
            });
        }
        let Some(source) = sources.into_iter().next() else { return Written::Nothing {} };
        let SavedSource { fingerprint, files, table, tables, order, skipped, cache_tier, .. } = source;
        Written::One(OfOne {
            version,
            fingerprint,
            order,
            epoch,
            row,
            skipped,
            cache_tier,
            split,
            table,
            tables,
            files,
        })
    }
}

impl TryFrom<Map<String, Value>> for Position {
    type Error = String;

    fn try_from(fields: Map<String, Value>) -> Result<Self, String> {
        let is_mix = fields.contains_key("mix");
        let (name, reads) = if is_mix { ("mix", MIX_VERSION) } else { ("version", VERSION) };
        // The version is checked first, since the fields of another version are unknown.
        if let Some(version) = fields.get(name).filter(|version| **version != reads) {
            return Err(format!(
                "the state has format version {version}, and this release reads version {reads}"
            ));
        }
        let error = |error: serde_json::Error| error.to_string();
        if !is_mix {
            let of_one: OfOne = serde_json::from_value(fields.into()).map_err(error)?;
            let OfOne { version, fingerprint, order, epoch, row, skipped, cache_tier, split, .. } = of_one;
            let source = SavedSource {
                fingerprint,
                files: of_one.files,
                table: of_one.table,
                tables: of_one.tables,
                order,
                first_pass: epoch,
                rows: row,
                skipped,
                cache_tier,
            };
            return Ok(Position { version, epoch, row, sources: vec![source], split, mix: None });
        }
        let of_mix: OfMix = serde_json::from_value(fields.into()).map_err(error)?;
        let OfMix { mix: version, epoch, row, sources, split, .. } = of_mix;
        let OfMix { step, stop, repeat, schedule, random_shares, set_from, max_passes, .. } = of_mix;
        let OfMix { skipped, origin, .. } = of_mix;
        let of_mix =
            SavedMix { step, stop, repeat, schedule, random_shares, set_from, max_passes, skipped, origin };
        Ok(Position { version, epoch, row, sources, split, mix: Some(of_mix) })
    }
}

/// An order by its parameters: everything that determines it, except the data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderId {
    /// How rows are shuffled: `stored`, `window` or `exact`.
    pub shuffle: String,
    /// The seed of order and augmentation.
    pub seed: u64,
    /// The number of row groups in a lane's pool.
    pub pool: u32,
    /// The number of interleaved lanes.
    pub lanes: u32,
    /// The number of rows that the filter selects.
    pub rows: u64,
    /// The filter in canonical form, or a hash of it if it is long.
    pub filter: Option<String>,
    /// A hash of the denied rows, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
    /// A hash of the rows that `deny_from` left out from some step on, if that step is before this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) denied_from: Option<String>,
    /// The definition of a sample in canonical form, or a hash of it, if a sample is not a row. The position
    /// then counts samples instead of rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<String>,
    /// The costs of a row, by the stored names of columns, if the order depends on costs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) balance: Vec<String>,
    /// The most rows in a piece, if larger row groups are cut into pieces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) piece_rows: Option<u64>,
    /// The ranges of rows that are skipped: the epoch, the first row, and the row after the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skipped: Vec<SkippedRows>,
}

impl OrderId {
    pub(crate) fn new(spec: &OrderSpec, rows: u64, filter: Option<String>, denied: Option<String>) -> Self {
        OrderId {
            shuffle: spec.mixing.name().into(),
            seed: spec.seed,
            pool: spec.pool,
            lanes: spec.lanes,
            rows,
            filter: filter.map(kept_text),
            denied,
            denied_from: None,
            samples: None,
            balance: Vec::new(),
            piece_rows: spec.piece_rows,
            skipped: spec.skipped.to_vec(),
        }
    }

    /// The shuffle of a loader that resumes in this order. Its window is left open, because the loader takes
    /// it from [`pool`](Self::pool).
    pub(crate) fn shuffle(&self) -> Result<Shuffle> {
        let mixing = serde_json::from_value(self.shuffle.as_str().into()).map_err(|_| {
            let cause =
                format!("the state has an order {:?}, which this release does not know", self.shuffle);
            Error::new(ErrorKind::StateMismatch, cause).hint("use the release that saved it, or a later one")
        })?;
        let OrderId { seed, lanes, piece_rows, .. } = *self;
        Ok(Shuffle { mixing, seed, window_rows: None, lanes: Some(lanes), piece_rows })
    }
}

impl OrderId {
    /// Refuses to resume a saved order if `deny_from` left out other rows before the position than it does in
    /// this loader, for which `here` is the hash of those rows.
    pub(crate) fn check_denied_from(&self, here: Option<String>) -> Result<()> {
        if self.denied_from == here {
            return Ok(());
        }
        let (saved, here) = (or_none(&self.denied_from), or_none(&here));
        let cause =
            format!("the state was saved with rows {saved} denied from a step on, here they are {here}");
        Err(Error::new(ErrorKind::StateMismatch, cause).hint(
            "give `deny_from` as the run had it until the state, in the steps of these batches; other rows may \
             be denied from the next step on",
        ))
    }

    /// Refuses to resume a saved order if `here` denies other rows.
    pub(crate) fn check_denied(&self, here: &OrderId) -> Result<()> {
        if self.denied == here.denied {
            return Ok(());
        }
        let cause = format!(
            "the state was saved with denied rows {}, here they are {}",
            or_none(&self.denied),
            or_none(&here.denied)
        );
        Err(Error::new(ErrorKind::StateMismatch, cause)
            .hint("give the lists that the run was given with `deny`"))
    }
}

impl Position {
    pub(crate) fn new(
        epoch: u64,
        row: u64,
        sources: Vec<SavedSource>,
        split: SavedSplit,
        mix: Option<SavedMix>,
    ) -> Self {
        let version = if mix.is_some() { MIX_VERSION } else { VERSION };
        Position { version, epoch, row, sources, split, mix }
    }

    /// Whether this is a position of a mix, even one of a single source.
    pub fn is_mix(&self) -> bool {
        self.mix.is_some()
    }

    /// The number of the next step of a mix, counted through all epochs.
    pub fn step(&self) -> Option<u64> {
        self.mix.as_ref().map(|mix| mix.step)
    }

    /// Refuses a position that another kind of loader saved, that has another format version or number of
    /// sources, or, in a mix, whose sources are mixed by other rules than those of `here`. Batches may
    /// differ, and so may weights from the position's step on.
    pub(crate) fn check(&self, sources: usize, here: Option<&SavedMix>) -> Result<()> {
        let (what, other) = if self.is_mix() { ("mix", "loader") } else { ("loader", "mix") };
        if self.is_mix() != here.is_some() {
            let cause = format!("this is a state of a {what}, not of a {other}");
            return Err(Error::new(ErrorKind::StateMismatch, cause).hint(match here {
                None => "restore it in a mix of the same sources",
                Some(_) => "restore it in a loader of its data set",
            }));
        }
        let version = if self.is_mix() { MIX_VERSION } else { VERSION };
        if self.version != version {
            return differs("format version", what, &self.version, &version);
        }
        if self.sources.len() != sources {
            return differs("a number of sources of", what, &self.sources.len(), &sources);
        }
        match (&self.mix, here) {
            (Some(saved), Some(here)) => self.check_mix(saved, here),
            _ if self.epoch > LAST_EPOCH && self.row > 0 => {
                let cause = format!(
                    "the state is damaged: it is in epoch {}, and the last one is {LAST_EPOCH}",
                    self.epoch
                );
                Err(Error::new(ErrorKind::StateMismatch, cause))
            }
            _ => Ok(()),
        }
    }

    fn check_mix(&self, saved: &SavedMix, here: &SavedMix) -> Result<()> {
        if saved.stop != here.stop {
            let name = |stop| if stop == Stop::First { "first" } else { "last" };
            return differs("stop", "mix", &name(saved.stop), &name(here.stop));
        }
        if saved.repeat != here.repeat {
            return differs("repeat", "mix", &saved.repeat, &here.repeat);
        }
        if saved.random_shares != here.random_shares {
            let (saved, here) = (or_none(&saved.random_shares), or_none(&here.random_shares));
            return differs("random_shares", "mix", &saved, &here);
        }
        if saved.max_passes != here.max_passes {
            let words = |passes: &[Option<u64>]| match passes {
                [] => "none".to_owned(),
                passes => format!("[{}]", passes.iter().map(or_none).collect::<Vec<_>>().join(", ")),
            };
            return differs("max_passes", "mix", &words(&saved.max_passes), &words(&here.max_passes));
        }
        // Weights are compared only before `given_until`: from `set_from` on, weights that were set during
        // the run replaced the given ones, and from the position's step on, weights may differ.
        let given_until = saved.set_from.unwrap_or(u64::MAX).min(saved.step);
        let until = |mix: &SavedMix| -> Vec<(u64, Vec<u64>)> {
            mix.schedule.iter().filter(|(from, _)| *from < given_until).cloned().collect()
        };
        let (weights, here) = (until(saved), until(here));
        if weights != here {
            let words = |schedule: &[(u64, Vec<u64>)]| {
                let all = schedule.iter().map(|(step, weights)| format!("{weights:?} from step {step}"));
                all.collect::<Vec<_>>().join(", ")
            };
            return differs("the weights", "mix", &words(&weights), &words(&here)).map_err(|error| {
                error.hint_also(&format!("other weights may begin at step {} or later", saved.step))
            });
        }
        let sources = self.sources.len();
        let is_damaged = self.sources.iter().any(|source| source.order.lanes == 0 || source.order.pool == 0)
            || self.sources.iter().map(|source| u128::from(source.rows)).sum::<u128>()
                != u128::from(self.row)
            || saved
                .origin
                .as_ref()
                .is_some_and(|origin| origin.passes.len() != sources || origin.taken.len() != sources);
        if is_damaged { Err(damaged()) } else { Ok(()) }
    }
}

impl SavedSource {
    /// Refuses to resume at `row` of a pass over this source if its data set or order was not the one given
    /// here. Lanes and pool are not compared, because a loader may adopt those of the position.
    pub(crate) fn check(&self, row: u64, fingerprint: &str, order: &OrderId) -> Result<()> {
        if self.fingerprint != fingerprint {
            return differs("data set", "loader", &self.fingerprint, &fingerprint);
        }
        self.check_rule(order)?;
        let (saved, here) = (&self.order, order);
        // Between epochs, no row of the next epoch has been delivered yet, so it may leave out other rows
        // than the last one did.
        let may_deny_others = row == 0;
        if saved.denied != here.denied && !may_deny_others {
            return differs("denied rows", "loader", &or_none(&saved.denied), &or_none(&here.denied))
                .map_err(|error| {
                    error.hint_also("other rows may be denied from a state between two epochs on")
                });
        }
        if saved.rows != here.rows && saved.denied == here.denied {
            return differs("selected rows", "loader", &saved.rows, &here.rows);
        }
        if saved.lanes == 0 || u64::from(saved.lanes) > saved.rows || saved.pool == 0 || row > saved.rows {
            return Err(damaged());
        }
        Ok(())
    }

    /// Refuses to continue this source in an order of another seed, shuffle, filter or kind of sample. The
    /// rows may be those of other data.
    pub(crate) fn check_rule(&self, order: &OrderId) -> Result<()> {
        let (saved, here) = (&self.order, order);
        if saved.shuffle != here.shuffle {
            return differs("shuffle", "loader", &saved.shuffle, &here.shuffle);
        }
        if saved.seed != here.seed {
            return differs("seed", "loader", &saved.seed, &here.seed);
        }
        if saved.piece_rows != here.piece_rows {
            return differs("piece_rows", "loader", &or_none(&saved.piece_rows), &or_none(&here.piece_rows));
        }
        if saved.balance != here.balance {
            let words = |columns: &[String]| match columns {
                [] => "none".to_owned(),
                columns => columns.join(", "),
            };
            return differs("balance", "loader", &words(&saved.balance), &words(&here.balance));
        }
        if saved.filter != here.filter {
            return differs("filter", "loader", &or_none(&saved.filter), &or_none(&here.filter));
        }
        if saved.samples != here.samples {
            let words = |samples: &Option<String>| samples.clone().unwrap_or_else(|| "rows".into());
            return differs("samples", "loader", &words(&saved.samples), &words(&here.samples));
        }
        Ok(())
    }
}

/// The error for a position that was saved with another value than the present one.
fn differs(what: &str, of: &str, saved: &dyn fmt::Display, here: &dyn fmt::Display) -> Result<()> {
    let cause = format!("the state was saved with {what} {saved}, this {of} has {here}");
    Err(Error::new(ErrorKind::StateMismatch, cause)
        .hint(format!("build the {of} as it was when it saved the state, or start without the state")))
}

pub(crate) fn damaged() -> Error {
    Error::new(ErrorKind::StateMismatch, "the state is damaged: its numbers contradict each other")
}

fn or_none(value: &Option<impl fmt::Display>) -> String {
    value.as_ref().map_or_else(|| "none".into(), ToString::to_string)
}

#[cfg(test)]
mod tests;

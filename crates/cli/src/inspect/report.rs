//! The report of `forebay inspect` on the contents of a data set, as text and as JSON.

use std::fmt;

use forebay::TableVersion;
use forebay_base::Error;
use forebay_base::error::escaped;
use forebay_store::source;
use serde::Serialize;

use super::columns::{self, LeafColumn};
use super::petastorm::SchemaReport;
use crate::console;
use crate::units::{bytes, count, counted};
use crate::window::WindowSizes;

/// The contents of a data set.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) locations: Vec<String>,
    pub(super) fingerprint: String,
    /// The tables that the locations name.
    pub(super) tables: Vec<TableReport>,
    pub(super) files: usize,
    pub(super) file_bytes: u64,
    pub(super) written_by: Vec<String>,
    pub(super) rows: u64,
    pub(super) row_groups: Spread,
    pub(super) row_group_bytes: Spread,
    pub(super) row_group_rows: Spread,
    pub(super) columns: Vec<LeafColumn>,
    /// The schema of Petastorm beside the files, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) petastorm: Option<SchemaReport>,
    #[serde(skip)]
    pub(super) window: WindowSizes,
    /// Columns that a loader refuses as they are stored, with the reasons.
    pub(super) refused: Vec<Refused>,
    pub(super) advice: Vec<String>,
}

/// A table at one of its versions.
#[derive(Serialize)]
pub(super) struct TableReport {
    pub(super) format: &'static str,
    location: String,
    version: u64,
    /// The time when the version was written.
    time: Option<String>,
    features: Vec<String>,
    partition_columns: Vec<String>,
    files: usize,
    pub(super) files_with_deletes: usize,
    pub(super) deleted_rows: u64,
}

impl TableReport {
    pub(super) fn describe(table: &TableVersion) -> Self {
        TableReport {
            format: table.format,
            location: source::shown(&table.location),
            version: table.version,
            time: table.time_shown(),
            features: table.features.clone(),
            partition_columns: table.partition_columns.clone(),
            files: table.files,
            files_with_deletes: table.files_with_deletes,
            deleted_rows: table.deleted,
        }
    }
}

impl fmt::Display for TableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time.as_ref().map_or_else(String::new, |time| format!(" of {time}"));
        writeln!(f, "table       {}, version {}{time}", self.format, self.version)?;
        let listed = |names: &[String]| match names {
            [] => "none".to_owned(),
            names => escaped(&names.join(", ")).into_owned(),
        };
        writeln!(f, "            partitioned by {}", listed(&self.partition_columns))?;
        writeln!(f, "            features for readers: {}", listed(&self.features))?;
        let (rows, files) = (self.deleted_rows, self.files_with_deletes as u64);
        writeln!(f, "            {} deleted, in {}", counted(rows, "row"), counted(files, "file"))
    }
}

/// A column that a loader refuses as it is stored.
#[derive(Serialize)]
pub(super) struct Refused {
    column: String,
    why: String,
    /// The error message with its hint.
    #[serde(skip)]
    sentence: String,
}

/// The smallest, mean and largest value of a list of sizes.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Spread {
    count: u64,
    min: u64,
    pub(super) mean: u64,
    pub(super) max: u64,
    pub(super) total: u64,
}

impl Spread {
    pub(super) fn measure(values: impl Iterator<Item = u64>) -> Self {
        let empty = Spread { count: 0, min: u64::MAX, mean: 0, max: 0, total: 0 };
        let mut spread = values.fold(empty, |so_far, value| Spread {
            count: so_far.count + 1,
            min: so_far.min.min(value),
            mean: 0,
            max: so_far.max.max(value),
            total: so_far.total.saturating_add(value),
        });
        spread.mean = spread.total / spread.count.max(1);
        spread.min = spread.min.min(spread.max);
        spread
    }
}

impl Refused {
    pub(super) fn describe(refusal: &Error) -> Self {
        let column = refusal.place().column.as_deref().unwrap_or_default().to_owned();
        Refused { column, why: refusal.cause().to_owned(), sentence: refusal.sentence(console::option) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, {}, {}, {}",
            counted(self.files as u64, "file"),
            counted(self.row_groups.total, "row group"),
            counted(self.rows, "row"),
            bytes(self.file_bytes)
        )?;
        self.tables.iter().try_for_each(|table| write!(f, "{table}"))?;
        let Spread { min, mean, max, .. } = self.row_group_bytes;
        writeln!(f, "row group   {} to {}, mean {}", bytes(min), bytes(max), bytes(mean))?;
        let Spread { min, mean, max, .. } = self.row_group_rows;
        writeln!(f, "            {} to {} rows, mean {}", count(min), count(max), count(mean))?;
        writeln!(f, "written by  {}", escaped(&self.written_by.join(", ")))?;
        writeln!(f, "fingerprint {}\n", self.fingerprint)?;
        columns::table(&self.columns, f)?;
        writeln!(f)?;
        if let Some(schema) = &self.petastorm {
            writeln!(f, "{schema}")?;
        }
        if !self.refused.is_empty() {
            writeln!(f, "Refused by a loader as they are")?;
            self.refused.iter().try_for_each(|refused| writeln!(f, "- {}", refused.sentence))?;
            writeln!(f)?;
        }
        if self.advice.is_empty() {
            return write!(f, "The layout suits training: nothing to change.");
        }
        write!(f, "Advice")?;
        self.advice.iter().try_for_each(|advice| write!(f, "\n- {}", escaped(advice)))
    }
}

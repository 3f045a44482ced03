//! The version of a table to open, the version that was opened, and how columns are found in the table's
//! files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, Result};

/// The version of a table to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AsOf {
    /// The newest version.
    #[default]
    Newest,
    /// The version with this number.
    Version(u64),
    /// The version with this name, such as a branch or a tag.
    Named(Arc<str>),
    /// The version that was the newest at this time, in milliseconds since 1970.
    Time(i64),
}

/// Which versions to open, for the tables at several locations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedVersions {
    /// The version to open of each table whose location is not in `by_location`.
    pub as_of: AsOf,
    /// The versions to open of single tables. The keys are locations as in [`TableVersion::location`].
    pub by_location: BTreeMap<String, AsOf>,
}

impl WantedVersions {
    /// The version to open of the table at this location.
    pub(crate) fn at(&self, location: &str) -> AsOf {
        self.by_location.get(location).unwrap_or(&self.as_of).clone()
    }
}

impl From<AsOf> for WantedVersions {
    fn from(as_of: AsOf) -> Self {
        WantedVersions { as_of, by_location: BTreeMap::new() }
    }
}

impl AsOf {
    /// The version with this number, if `text` is a number, or with this name.
    pub fn version(text: &str) -> Self {
        text.parse().map_or_else(|_| AsOf::Named(text.into()), AsOf::Version)
    }

    /// The version that was the newest at this time.
    pub fn time(time: SystemTime) -> Self {
        let milliseconds = |since: Duration| i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        AsOf::Time(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => milliseconds(since),
            Err(before) => -milliseconds(before.duration()),
        })
    }

    /// Parses `version` (a number or a name) or `time`. Only one of the two may be given. A time without a
    /// zone is in UTC, and a date means its first moment.
    ///
    /// # Errors
    /// `Invalid` if both are given, or if the time cannot be parsed.
    pub fn parse(version: Option<&str>, time: Option<&str>) -> Result<Self> {
        let Some(text) = time else { return Ok(version.map_or(AsOf::Newest, AsOf::version)) };
        if version.is_some() {
            return Err(Error::invalid(
                "both `version` and `timestamp` say which version of the table is meant",
            ));
        }
        let whole =
            DateTime::parse_from_rfc3339(&text.replacen(' ', "T", 1)).map(|time| time.timestamp_millis());
        let local = || {
            let local = text.replacen('T', " ", 1);
            let time = NaiveDateTime::parse_from_str(&local, "%Y-%m-%d %H:%M:%S%.f").ok();
            let time = time.or_else(|| NaiveDateTime::parse_from_str(&local, "%Y-%m-%d %H:%M").ok());
            let day = || NaiveDate::parse_from_str(&local, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
            Some(time.or_else(day)?.and_utc().timestamp_millis())
        };
        whole.ok().or_else(local).map(AsOf::Time).ok_or_else(|| {
            Error::invalid(format!("`timestamp` is no time: {text:?}"))
                .hint("write it as 2024-05-17T12:30:00Z, or as a date")
        })
    }
}

/// The names and numbers by which the columns of a table are found in its files. Columns of a file that are
/// not in this list are not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnNames {
    /// How columns are found in the files: by name or by number.
    pub found: FoundBy,
    /// The columns in order.
    pub columns: Vec<ColumnName>,
}

/// How the columns of a table are found in its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// Columns are found by their names in the files.
    Name,
    /// Columns are found by their numbers, but by their names in files that have no numbers.
    Id,
    /// Columns are found by their numbers. Files that have no numbers are refused.
    IdAlone,
}

/// The name and number that a field of a table has in its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName {
    /// The name of the field in the table.
    pub name: String,
    /// The name of the field in the files.
    pub stored: String,
    /// The number of the field in the files.
    pub id: Option<i32>,
    /// The fields inside this one: those of a structure, the item of a list, or the key and the value of a
    /// map.
    pub inner: Vec<ColumnName>,
}

/// A table at the version that was opened.
#[derive(Clone, Debug)]
pub struct TableVersion {
    /// The name of the format, as users write it.
    pub format: &'static str,
    /// The folder of the table, as an absolute path or URL.
    pub location: Arc<str>,
    /// The id of the table, which is the same in all of its versions.
    pub id: Arc<str>,
    /// The number of the version.
    pub version: u64,
    /// The number of the schema that the table is read with, if it is not the schema of the opened version.
    pub other_schema: Option<i64>,
    /// The time when the version was written, in milliseconds since 1970, if it is known.
    pub time: Option<i64>,
    /// The names of the features of the table's format that a reader must support.
    pub features: Vec<String>,
    /// The columns that the table is partitioned by.
    pub partition_columns: Vec<String>,
    /// All columns of the table. They are known even if the version has no files.
    pub schema: SchemaRef,
    /// The number of files in the version.
    pub files: usize,
    /// The number of files with deleted rows.
    pub files_with_deletes: usize,
    /// The number of deleted rows in all files.
    pub deleted: u64,
}

impl TableVersion {
    /// The text that a user gives to open this version again.
    pub fn opened_as(&self) -> String {
        match self.other_schema {
            Some(schema) => format!("{}@{schema}", self.version),
            None => self.version.to_string(),
        }
    }

    /// The time when the version was written, in the form in which users give times; `None` if it is not
    /// known.
    pub fn time_shown(&self) -> Option<String> {
        self.time.map(time_shown)
    }
}

/// Writes a time, given in milliseconds since 1970, in the form in which users give times.
pub(crate) fn time_shown(milliseconds: i64) -> String {
    match DateTime::from_timestamp_millis(milliseconds) {
        Some(time) => time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        None => format!("{milliseconds} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_number_or_a_time() {
        let time = |text| AsOf::parse(None, Some(text));
        assert_eq!(AsOf::parse(None, None).unwrap(), AsOf::Newest);
        assert_eq!(AsOf::parse(Some("7"), None).unwrap(), AsOf::Version(7));
        assert_eq!(AsOf::parse(Some("main"), None).unwrap(), AsOf::Named("main".into()));
        assert_eq!(time("1970-01-01T00:00:01.5Z").unwrap(), AsOf::Time(1_500));
        assert_eq!(time("1970-01-01 01:00:01+01:00").unwrap(), AsOf::Time(1_000));
        assert_eq!(time("1970-01-01 00:01").unwrap(), AsOf::Time(60_000));
        assert_eq!(time("1970-01-02").unwrap(), AsOf::Time(86_400_000));
        assert_eq!(AsOf::time(SystemTime::UNIX_EPOCH + Duration::from_millis(7)), AsOf::Time(7));
        assert_eq!(AsOf::time(SystemTime::UNIX_EPOCH - Duration::from_millis(7)), AsOf::Time(-7));
        assert!(time("yesterday").unwrap_err().to_string().contains("is no time: \"yesterday\""));
        assert!(AsOf::parse(Some("7"), Some("1970-01-02")).unwrap_err().to_string().contains("both"));
    }
}

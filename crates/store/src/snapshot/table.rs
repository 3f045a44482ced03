//! What the list of a table says of the whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use forebay_arrow::datatypes::SchemaRef;
use forebay_base::{Error, Result};

/// Which version of a table is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AsOf {
    /// The newest.
    #[default]
    Newest,
    /// The one with this number.
    Version(u64),
    /// The one that the table has a name for: that of a branch or a tag.
    Named(Arc<str>),
    /// The newest that was there at a time, in milliseconds since 1970.
    Time(i64),
}

/// Which versions of the tables at several locations are opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedVersions {
    /// That of each table that is not named below.
    pub as_of: AsOf,
    /// The versions of tables by their locations as in [`TableVersion::location`].
    pub by_location: BTreeMap<String, AsOf>,
}

impl WantedVersions {
    /// Which version of the table at a location is opened.
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
    /// The newest version that was there at a time.
    pub fn time(time: SystemTime) -> Self {
        let milliseconds = |since: Duration| i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        AsOf::Time(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => milliseconds(since),
            Err(before) => -milliseconds(before.duration()),
        })
    }

    /// The version of a number or a name, or of a time, as people write them; one of the two may be given. A time
    /// without a zone is of UTC; a date is its first moment.
    ///
    /// # Errors
    /// `Invalid` for both of them, and for a text that is no time.
    pub fn of(version: Option<&str>, time: Option<&str>) -> Result<Self> {
        let wanted = |text: &str| text.parse().map_or_else(|_| AsOf::Named(text.into()), AsOf::Version);
        let Some(text) = time else { return Ok(version.map_or(AsOf::Newest, wanted)) };
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

/// What the columns of a table are called in its files. Those of a file that are none of the table's are not
/// read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnNames {
    /// How columns are found.
    pub found: FoundBy,
    /// The columns in order.
    pub columns: Vec<ColumnName>,
}

/// How the columns of a table are found in its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// By their names in the files.
    Name,
    /// By their numbers, and by their names in files without numbers.
    Id,
    /// By their numbers; files without numbers are refused.
    IdAlone,
}

/// What a field of a table is called in its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName {
    /// The name that the table gives it.
    pub name: String,
    /// The name in the files.
    pub stored: String,
    /// The number in the files.
    pub id: Option<i32>,
    /// Inside it: the fields of a structure, the item of a list, the key and the value of a map.
    pub inner: Vec<ColumnName>,
}

/// A table at one of its versions.
#[derive(Clone, Debug)]
pub struct TableVersion {
    /// The format as people call it.
    pub format: &'static str,
    /// The folder, as an absolute path or URL.
    pub location: Arc<str>,
    /// The identity of the table through all of its versions.
    pub id: Arc<str>,
    /// The number of the version.
    pub version: u64,
    /// The number of the schema that it is read with, where that is not the one of its own time.
    pub other_schema: Option<i64>,
    /// When it was written, in milliseconds since 1970, if that is known.
    pub time: Option<i64>,
    /// The features that it asks of readers, by name.
    pub features: Vec<String>,
    /// The columns whose values are in the list.
    pub partition_columns: Vec<String>,
    /// All columns, for a version without files.
    pub schema: SchemaRef,
    /// How many files it has.
    pub files: usize,
    /// How many of them have deleted rows.
    pub files_with_deletes: usize,
    /// How many rows are deleted.
    pub deleted: u64,
}

impl TableVersion {
    /// What opens the same version again, as a version that people write.
    pub fn opened_as(&self) -> String {
        match self.other_schema {
            Some(schema) => format!("{}@{schema}", self.version),
            None => self.version.to_string(),
        }
    }

    /// When it was written, as people write it, if that is known.
    pub fn time_shown(&self) -> Option<String> {
        self.time.map(time_shown)
    }
}

/// A time in milliseconds since 1970 as people write it.
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
        let time = |text| AsOf::of(None, Some(text));
        assert_eq!(AsOf::of(None, None).unwrap(), AsOf::Newest);
        assert_eq!(AsOf::of(Some("7"), None).unwrap(), AsOf::Version(7));
        assert_eq!(AsOf::of(Some("main"), None).unwrap(), AsOf::Named("main".into()));
        assert_eq!(time("1970-01-01T00:00:01.5Z").unwrap(), AsOf::Time(1_500));
        assert_eq!(time("1970-01-01 01:00:01+01:00").unwrap(), AsOf::Time(1_000));
        assert_eq!(time("1970-01-01 00:01").unwrap(), AsOf::Time(60_000));
        assert_eq!(time("1970-01-02").unwrap(), AsOf::Time(86_400_000));
        assert_eq!(AsOf::time(SystemTime::UNIX_EPOCH + Duration::from_millis(7)), AsOf::Time(7));
        assert_eq!(AsOf::time(SystemTime::UNIX_EPOCH - Duration::from_millis(7)), AsOf::Time(-7));
        assert!(time("yesterday").unwrap_err().to_string().contains("is no time: \"yesterday\""));
        assert!(AsOf::of(Some("7"), Some("1970-01-02")).unwrap_err().to_string().contains("both"));
    }
}

//! The arguments that name the data, for every command that reads a data set.

use std::collections::BTreeMap;
use std::path::Path;

use forebay::{Dataset, OpenOptions};
use forebay_base::{Error, Result};
use forebay_store::source;
use serde::{Deserialize, Serialize};

use super::console;

/// The location of the data, and the options of its store. Both may hold secrets, and this struct's JSON
/// contains them too.
#[derive(clap::Args, Clone, Deserialize, Serialize)]
pub(crate) struct Location {
    /// Path, URL or glob of the Parquet files (s3://, gs://, az://, https://, hdfs://, hf://); several are
    /// one data set
    #[arg(required = true, value_name = "URL")]
    locations: Vec<String>,
    /// Option of the store, such as aws_region=eu-west-1; credentials are better left to the environment
    #[arg(short = 'o', long = "storage-option", value_name = "KEY=VALUE")]
    storage_options: Vec<String>,
    #[command(flatten)]
    version: WantedVersion,
    #[command(flatten)]
    part: WantedPart,
}

/// The version of a table that is opened.
#[derive(clap::Args, Clone, Default, Deserialize, Serialize)]
pub(crate) struct WantedVersion {
    /// Version of the Delta table, or snapshot, branch or tag of the Iceberg table [default: the newest]
    #[arg(long = "version", value_name = "VERSION", conflicts_with = "timestamp")]
    version: Option<String>,
    /// The newest version that the table had at this time, such as 2024-05-17T12:30:00Z
    #[arg(long, value_name = "TIME")]
    timestamp: Option<String>,
}

/// The part of a folder that is opened, if it is laid out like a data set of the Hugging Face hub.
#[derive(clap::Args, Clone, Default, Deserialize, Serialize)]
pub(crate) struct WantedPart {
    /// Split of a folder that is laid out like a data set of the Hugging Face hub, such as train
    /// [default: all files]
    #[arg(long, value_name = "SPLIT", value_parser = split)]
    split: Option<String>,
    /// Configuration of such a folder [default: with --split, its default configuration or its only one]
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    config: Option<String>,
}

impl WantedPart {
    /// The names of the split and of the configuration.
    pub(super) fn names(&self) -> (Option<String>, Option<String>) {
        (self.split.clone(), self.config.clone())
    }
}

impl Location {
    /// The location of a folder on this machine.
    pub(crate) fn folder(path: &Path) -> Self {
        Location {
            locations: vec![path.display().to_string()],
            storage_options: Vec::new(),
            version: WantedVersion::default(),
            part: WantedPart::default(),
        }
    }

    /// Finds the files and reads their footers.
    pub(crate) fn open(&self) -> Result<Dataset> {
        self.open_at(self.locations.clone())
    }

    /// Opens each location as a data set of its own.
    pub(crate) fn open_each(&self) -> Result<Vec<Dataset>> {
        self.locations.iter().map(|location| self.open_at(vec![location.clone()])).collect()
    }

    fn open_at(&self, locations: Vec<String>) -> Result<Dataset> {
        open_with(locations, &self.storage_options, &self.version, &self.part)
    }

    /// The part of the folder that the arguments name.
    pub(super) fn part(&self) -> &WantedPart {
        &self.part
    }

    /// Whether there is no location, for verbs that allow that.
    pub(crate) fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// The given locations and store options with their secrets, to be passed to another process.
    pub(super) fn words(&self) -> (Vec<String>, Vec<String>) {
        (self.locations.clone(), self.storage_options.clone())
    }

    /// Whether the arguments name the version of a table to open.
    pub(super) fn names_a_version(&self) -> bool {
        self.version.version.is_some() || self.version.timestamp.is_some()
    }

    /// The given locations without secrets.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.locations.iter().map(|location| source::shown(location)).collect()
    }
}

/// Opens a data set. If it has an index that cannot be used, prints the reason.
pub(super) fn open(locations: Vec<String>, storage_options: &[String]) -> Result<Dataset> {
    open_with(locations, storage_options, &WantedVersion::default(), &WantedPart::default())
}

/// Opens a data set: a version, if the locations are tables, or a part, if they are a folder of the hub.
fn open_with(
    locations: Vec<String>,
    storage_options: &[String],
    WantedVersion { version, timestamp }: &WantedVersion,
    WantedPart { split, config }: &WantedPart,
) -> Result<Dataset> {
    let options = OpenOptions::new().storage_options(parse_options(storage_options)?);
    let mut options = options.as_of(version.as_deref(), timestamp.as_deref())?;
    if let Some(split) = split {
        options = options.split(split);
    }
    if let Some(config) = config {
        options = options.config(config);
    }
    let dataset = options.open(locations)?;
    if let Some(warning) = dataset.take_warning() {
        console::warn(warning);
    }
    Ok(dataset)
}

/// Parses the options of the store, which may hold secrets. clap does not do it, because its errors would
/// repeat a value that it refuses.
pub(super) fn parse_options(given: &[String]) -> Result<BTreeMap<String, String>> {
    let pairs = given.iter().map(|option| match option.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => {
            Err(Error::invalid("a --storage-option is not KEY=VALUE").hint("such as -o aws_region=eu-west-1"))
        }
    });
    pairs.collect()
}

/// Parses the name of one split.
fn split(text: &str) -> Result<String, &'static str> {
    match text.is_empty() || text.contains(['+', '[', ']', ':', '%']) {
        true => Err("must be the name of one split, such as train; several splits are opened by their files"),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_a_key_and_a_value() {
        let options = parse_options(&["a=b=c".into()]).unwrap();
        assert_eq!(options, BTreeMap::from([("a".to_owned(), "b=c".to_owned())]));
        for option in ["hunter2", "aws_secret_access_key:hunter2", "=hunter2"] {
            let error = parse_options(&[option.into()]).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}

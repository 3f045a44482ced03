//! Where the data is, as every verb that reads takes it.

use std::collections::BTreeMap;
use std::path::Path;

use forebay::source;
use forebay::{Dataset, Result};

/// Which data, and how its store is reached.
#[derive(clap::Args, Clone)]
pub(crate) struct Location {
    /// Path, URL or glob of the Parquet files (s3://, gs://, az://, https://, hdfs://, hf://); several are one data set
    #[arg(required = true, value_name = "URL")]
    locations: Vec<String>,
    /// Option of the store, such as aws_region=eu-west-1; credentials are better left to the environment
    #[arg(short = 'o', long = "storage-option", value_name = "KEY=VALUE", value_parser = parse_option)]
    storage_options: Vec<(String, String)>,
}

impl Location {
    /// A folder of this machine.
    pub(crate) fn folder(path: &Path) -> Self {
        Location { locations: vec![path.display().to_string()], storage_options: Vec::new() }
    }

    /// Finds the files and reads their footers.
    pub(crate) fn open(&self) -> Result<Dataset> {
        let options: BTreeMap<String, String> = self.storage_options.iter().cloned().collect();
        Dataset::open_with_options(self.locations.clone(), &options)
    }

    /// What was given, fit to be shown.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.locations.iter().map(|location| source::shown(location)).collect()
    }
}

pub(super) fn parse_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        // Not repeated: it may be a secret.
        _ => Err("not KEY=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_a_key_and_a_value() {
        assert_eq!(parse_option("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(parse_option("hunter2").is_err_and(|error| !error.contains("hunter2")));
    }
}

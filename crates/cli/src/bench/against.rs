//! `--against`: compares the present run with an earlier one, whose report is in a file.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use forebay_base::{Error, ErrorKind, Place, Result};
use serde_json::{Map, Number, Value};

use super::drawn::Drawn;
use crate::page;
use crate::units::count;

/// The conditions on which the figures of a run depend: a name, and the path in the report.
const MEASURED: [(&str, &str); 17] = [
    ("data", "/locations"),
    ("files or version of the data", "/fingerprint"),
    ("columns", "/columns"),
    ("seed", "/seed"),
    ("workload", "/workload/workload"),
    ("stage", "/until"),
    ("order", "/order"),
    ("ranks", "/world"),
    ("rows in a batch", "/batch_size"),
    ("decoding threads", "/threads"),
    ("busy threads beside the run", "/pressure"),
    ("epochs", "/epochs"),
    ("step in ms", "/accelerator/step_ms"),
    ("jitter", "/accelerator/jitter"),
    ("memory budget", "/budget_bytes"),
    ("program for", "/level"),
    ("optimised build", "/optimised"),
];

type Fields = Map<String, Value>;

/// The report of an earlier run.
pub(super) struct Before {
    /// The name of the report's file.
    pub(super) name: String,
    pub(super) report: Value,
    pub(super) drawn: Drawn,
}

impl Before {
    /// Reads a report that `--json` or `--report` has written.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is not a report.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let place = || Place::file(file.to_string_lossy());
        let text = fs::read_to_string(file).map_err(|error| {
            Error::new(ErrorKind::Io, format!("--against cannot be read: {error}")).at(place())
        })?;
        let refused = |why: String| {
            Error::invalid(format!("--against is not a report of `forebay bench`: {why}"))
                .at(place())
                .hint("name a file that --json or --report of this version has written")
        };
        let json = if page::is_page(&text) { page::json_of(&text).unwrap_or_default() } else { &text };
        let report: Value = serde_json::from_str(json).map_err(|error| refused(error.to_string()))?;
        let drawn = Drawn::read(&report).map_err(|error| refused(error.to_string()))?;
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        Ok(Before { name, report, drawn })
    }

    /// Describes in one sentence each the conditions that differ between the two runs.
    pub(super) fn differences(&self, now: &Value) -> Vec<String> {
        let differing = MEASURED.iter().filter_map(|(what, at)| {
            let [before, now] = [&self.report, now].map(|report| report.pointer(at).map(said));
            let said = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
            (before != now).then(|| {
                format!("different {what}: {} in the earlier report, {} now", said(before), said(now))
            })
        });
        differing.chain(self.decoded_otherwise(now)).collect()
    }

    /// Names each part of the decoding of images that differs between the two runs.
    fn decoded_otherwise(&self, now: &Value) -> Vec<String> {
        let [before, now] = [&self.report, now].map(|report| fields(&report["decode"]));
        let mut differing = Vec::new();
        for column in names_in(&before, &now) {
            let [before, now] =
                [&before, &now].map(|report| report.get(column).map(fields).unwrap_or_default());
            for part in names_in(&before, &now) {
                let [before, now] = [&before, &now].map(|parts| parts.get(part));
                if before != now {
                    let said = |value: Option<&Value>| value.map_or_else(|| "none".to_owned(), said);
                    let (before, now) = (said(before), said(now));
                    differing.push(format!(
                        "different {part} of decoded {column:?}: {before} in the earlier report, {now} now"
                    ));
                }
            }
        }
        differing
    }

    /// The comparison as lines of text.
    pub(super) fn lines(&self, now: &Value) -> String {
        let number = |report: &Value, at: &str| report.pointer(at).and_then(Value::as_f64);
        let mut text = format!("\nagainst         {}", self.name);
        for (what, at) in [("rows a second", "/rows_per_second"), ("p99 of next()", "/next_ms/p99")] {
            if let (Some(before), Some(now)) = (number(&self.report, at), number(now, at))
                && before > 0.0
            {
                // Writing to a string does not fail.
                let _ = write!(text, ", {:.2} times its {what}", now / before);
            }
        }
        for difference in self.differences(now) {
            let _ = write!(text, "\n                {difference}");
        }
        text
    }
}

/// The names that at least one of two objects has, in ascending order.
fn names_in<'a>(one: &'a Fields, other: &'a Fields) -> BTreeSet<&'a String> {
    one.keys().chain(other.keys()).collect()
}

/// The fields of an object; none for any other value.
fn fields(value: &Value) -> Fields {
    value.as_object().cloned().unwrap_or_default()
}

/// Formats a value for people.
fn said(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(said).collect::<Vec<_>>().join(", "),
        Value::Number(number) => number.as_u64().map_or_else(|| rounded(number), count),
        other => other.to_string(),
    }
}

/// A number rounded to six digits after the decimal point.
fn rounded(number: &Number) -> String {
    number.as_f64().map_or_else(|| number.to_string(), |value| format!("{}", (value * 1e6).round() / 1e6))
}

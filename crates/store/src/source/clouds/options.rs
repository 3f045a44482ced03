//! Storage options: those that every store has, and the parsing of values for all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use forebay_base::error::nearest;
use forebay_base::{Error, Result};

use super::secret::Secret;

/// The names of the storage options that every store has.
const RETRY_TIMEOUT: &str = "retry_timeout";
const STALL_TIMEOUT: &str = "stall_timeout";
const MAX_CONCURRENCY: &str = "max_concurrency";
const METADATA_CACHE: &str = "metadata_cache";
const INDEX: &str = "index";
const ALLOWED_LOCATIONS: &str = "allowed_locations";
const OURS: [&str; 6] =
    [RETRY_TIMEOUT, STALL_TIMEOUT, MAX_CONCURRENCY, METADATA_CACHE, INDEX, ALLOWED_LOCATIONS];

/// The values that switch the metadata cache off.
const OFF: [&str; 4] = ["off", "no", "none", "false"];

/// Storage options, by name. Names ignore case, except Hadoop's, which have a dot. Values are never shown.
/// All stores have these options:
///
/// | key | value | meaning |
/// |---|---|---|
/// | `retry_timeout` | duration | how long a failing read is retried |
/// | `stall_timeout` | duration | how long a response may stall before it is abandoned |
/// | `max_concurrency` | count | the most concurrent requests |
/// | `metadata_cache` | `off` or a folder | the folder that keeps footers between runs |
/// | `index` | `on` or `off` | whether the index of a folder is used |
/// | `allowed_locations` | comma-separated folders | more folders for files of an Iceberg table |
///
/// A duration is a number with `ms`, `s` (the default), `m` or `h`: `180`, `180s`, `500ms`, `3m`.
#[derive(Clone)]
pub(in crate::source) struct Options {
    pairs: BTreeMap<String, Secret>,
}

/// The setting for the metadata cache, which keeps footers on local disk between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::source) enum MetadataCache {
    Off,
    Folder(PathBuf),
}

impl Options {
    pub(in crate::source) fn new(map: &BTreeMap<String, String>) -> Self {
        let name = |key: &str| if key.contains('.') { key.to_owned() } else { key.to_ascii_lowercase() };
        Options { pairs: map.iter().map(|(key, value)| (name(key.trim()), Secret::new(value))).collect() }
    }

    pub(in crate::source) fn retry_timeout(&self) -> Result<Option<Duration>> {
        self.get(RETRY_TIMEOUT).map(|value| time(RETRY_TIMEOUT, value)).transpose()
    }

    pub(in crate::source) fn stall_timeout(&self) -> Result<Option<Duration>> {
        self.get(STALL_TIMEOUT).map(|value| limit(STALL_TIMEOUT, value)).transpose()
    }

    /// The most concurrent requests, at least 1, if the option is given.
    pub(in crate::source) fn max_concurrency(&self) -> Result<Option<usize>> {
        let Some(value) = self.get(MAX_CONCURRENCY) else { return Ok(None) };
        match count(MAX_CONCURRENCY, value)? {
            0 => Err(malformed(MAX_CONCURRENCY, "a count of at least 1")),
            count => Ok(Some(count)),
        }
    }

    pub(in crate::source) fn metadata_cache(&self) -> Result<Option<MetadataCache>> {
        match self.get(METADATA_CACHE).map(str::trim) {
            None => Ok(None),
            Some("") => Err(Error::invalid(format!("storage option {METADATA_CACHE:?} is empty"))
                .hint("write \"off\" or a folder")),
            Some(off) if OFF.contains(&off.to_ascii_lowercase().as_str()) => Ok(Some(MetadataCache::Off)),
            Some(folder) => Ok(Some(MetadataCache::Folder(folder.into()))),
        }
    }

    /// Whether the index of a folder is used, if there is one.
    pub(in crate::source) fn index(&self) -> Result<bool> {
        self.get(INDEX).map_or(Ok(true), |value| {
            let none = value.trim().eq_ignore_ascii_case("none");
            let wanted = if none { Some(false) } else { truth(value) };
            wanted.ok_or_else(|| malformed(INDEX, "\"on\" or \"off\""))
        })
    }

    /// The locations, besides the folder of an Iceberg table, in which files of the table are accepted.
    pub(in crate::source) fn allowed_locations(&self) -> impl Iterator<Item = &str> {
        let all = self.get(ALLOWED_LOCATIONS).unwrap_or_default().split(',');
        all.map(str::trim).filter(|location| !location.is_empty())
    }

    /// Checks the values of the options that all stores have. Also refuses any value with a line break, which
    /// no request can carry; a value that the user read from a file may end with one.
    pub(in crate::source) fn check(&self) -> Result<()> {
        // Certificates and keys of service accounts may have several lines.
        let is_text = |key: &str| key.contains("certificate") || key.ends_with("service_account_key");
        let broken =
            |(key, value): &(&String, &Secret)| !is_text(key) && value.expose().contains(['\n', '\r', '\0']);
        if let Some((key, _)) = self.pairs.iter().find(broken) {
            return Err(Error::invalid(format!("storage option {key:?} holds a line break"))
                .hint("strip it, as with .strip() of what was read from a file"));
        }
        self.retry_timeout()?;
        self.stall_timeout()?;
        self.max_concurrency()?;
        self.metadata_cache()?;
        self.index().map(|_| ())
    }

    /// Refuses all options that only some stores have. For use when all locations are local files.
    pub(in crate::source) fn refuse_theirs(&self) -> Result<()> {
        let Some((key, _)) = self.theirs().next() else { return Ok(()) };
        match nearest(key, OURS) {
            Some(_) => Err(unknown(key, "local files", std::iter::empty())),
            // The name is not repeated, because it may be a secret that was put in the wrong place.
            None => {
                Err(Error::invalid("a storage option is not known")
                    .hint("local files need no options of stores"))
            }
        }
    }

    /// The value of an option. `key` must be in lower case. The value may be secret, so it must not be shown.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.get(key).map(Secret::expose)
    }

    /// The options that only some stores have. They may be secret, so they must not be shown.
    pub(super) fn theirs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.pairs.iter().filter(|(key, _)| !OURS.contains(&key.as_str()));
        pairs.map(|(key, value)| (key.as_str(), value.expose()))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pairs.keys()).finish()
    }
}

/// The error for an option that a store does not have; `known` are the options that it has. The message
/// repeats the name only if it resembles a known one, because any other name may be a secret in the wrong
/// place.
pub(super) fn unknown<'a>(key: &str, store: &str, known: impl Iterator<Item = &'a str> + Clone) -> Error {
    let bare = |key: &str| {
        ["aws_", "google_", "azure_storage_", "azure_"]
            .iter()
            .find_map(|prefix| key.strip_prefix(prefix))
            .unwrap_or(key)
            .to_owned()
    };
    let near = nearest(key, known.clone().chain(OURS)).map(str::to_owned).or_else(|| {
        let bares: Vec<_> = known.map(bare).collect();
        nearest(&bare(key), bares.iter().map(String::as_str)).map(str::to_owned)
    });
    match near {
        Some(near) => Error::invalid(format!("storage option {key:?} is not known to {store}"))
            .hint(format!("did you mean {near:?}?")),
        None => Error::invalid(format!("a storage option is not known to {store}"))
            .hint("its name is not repeated, since it may be a secret"),
    }
}

/// The error for an option with an invalid value, which is not shown. `what` says which values are valid.
pub(in crate::source) fn malformed(key: &str, what: &str) -> Error {
    Error::invalid(format!("storage option {key:?} is not {what}"))
}

/// Parses the value of an option that is on or off.
pub(super) fn flag(key: &str, value: &str) -> Result<bool> {
    truth(value).ok_or_else(|| malformed(key, "true or false"))
}

/// Parses the value of an option that is a duration.
pub(super) fn time(key: &str, value: &str) -> Result<Duration> {
    duration(value)
        .ok_or_else(|| malformed(key, "a duration").hint("write it as in \"180s\", \"500ms\" or \"3m\""))
}

/// Parses the value of an option that is a duration greater than zero.
pub(super) fn limit(key: &str, value: &str) -> Result<Duration> {
    match time(key, value)? {
        Duration::ZERO => Err(malformed(key, "more than 0").hint("leave it out for the default")),
        time => Ok(time),
    }
}

/// Parses the value of an option that is a count.
pub(super) fn count(key: &str, value: &str) -> Result<usize> {
    value.trim().parse().map_err(|_| malformed(key, "a count").hint("write it as in \"64\""))
}

/// Parses a text such as `on` or `no`; `None` if it is neither true nor false.
pub(in crate::source) fn truth(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" | "y" => Some(true),
        "0" | "false" | "off" | "no" | "n" => Some(false),
        _ => None,
    }
}

/// Parses a duration: one or several numbers with units, or a number of seconds.
pub(in crate::source) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let scale = match unit.to_ascii_lowercase().as_str() {
            "ms" | "millis" => 1e-3,
            "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => return None,
        };
        let seconds = number.parse::<f64>().ok()? * scale;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = after.trim_start();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Options {
        Options::new(&pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn a_duration_has_a_unit_or_is_in_seconds() {
        let cases = [
            ("180", 180_000),
            ("180s", 180_000),
            ("500ms", 500),
            ("3m", 180_000),
            ("1.5 s", 1500),
            ("1m 30s", 90_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "-1", "3 weeks", "1e9999", "NaN", "."] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn the_keys_of_every_store_are_typed() {
        let options =
            options(&[("Retry_Timeout", "3m"), ("max_concurrency", "64"), ("metadata_cache", "off")]);
        assert_eq!(options.retry_timeout().unwrap(), Some(Duration::from_secs(180)));
        assert_eq!(options.stall_timeout().unwrap(), None);
        assert_eq!(options.max_concurrency().unwrap(), Some(64));
        assert_eq!(options.metadata_cache().unwrap(), Some(MetadataCache::Off));
        assert_eq!(options.theirs().count(), 0);
        for (value, is_used) in
            [("off", false), ("None", false), ("FALSE", false), ("on", true), ("yes", true)]
        {
            assert_eq!(self::options(&[("index", value)]).index().unwrap(), is_used, "{value}");
        }
        assert!(self::options(&[]).index().unwrap());
    }

    #[test]
    fn a_value_that_is_none_is_refused_and_not_repeated() {
        let options =
            options(&[("stall_timeout", "hunter2"), ("max_concurrency", "0"), ("metadata_cache", " ")]);
        assert_eq!(
            options.stall_timeout().unwrap_err().to_string(),
            "storage option \"stall_timeout\" is not a duration (write it as in \"180s\", \"500ms\" or \"3m\")"
        );
        assert!(options.max_concurrency().is_err());
        assert!(options.metadata_cache().is_err());
        assert!(options.check().is_err());
        let wrong =
            [("retry_timeout", "soon"), ("stall_timeout", "0"), ("max_concurrency", "-1"), ("index", "x")];
        for (key, value) in wrong {
            let error = self::options(&[(key, value)]).check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("storage option {key:?} is not ")), "{error}");
        }
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest() {
        let known = ["aws_region", "aws_access_key_id"];
        let hint = |key: &str| unknown(key, "s3://", known.into_iter()).to_string();
        assert!(hint("regoin").ends_with("(did you mean \"region\"?)"), "{}", hint("regoin"));
        assert!(hint("aws_acess_key_id").ends_with("(did you mean \"aws_access_key_id\"?)"));
        assert!(hint("max_concurency").ends_with("(did you mean \"max_concurrency\"?)"));
        assert!(hint("hunter2").starts_with("a storage option is not known to s3://"));
        assert!(!hint("hunter2").contains("hunter2"));
    }
}

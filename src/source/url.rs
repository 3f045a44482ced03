//! From what a user wrote to where to look: paths, URLs and globs.

use std::path::PathBuf;

use super::clouds::{Address, decoded};
use super::glob::Glob;
use super::shown::shown;
use crate::error::{Error, Result};

/// What one location asks for.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A local file or folder, as the user wrote it.
    Path(PathBuf),
    /// All that matches the pattern below its local base folder.
    Glob(PathBuf, Glob),
    /// A file, a folder or a glob in an object store.
    Remote(Address),
}

/// Reads one location. `Invalid` for what can never be one, `Unsupported` for a scheme that is not read.
pub(super) fn parse(location: &str) -> Result<Target> {
    if location.trim().is_empty() {
        return Err(Error::invalid("the location is empty").hint("give a path, a URL or a glob"));
    }
    if location.contains('\0') {
        return Err(Error::invalid(format!("{:?} holds a NUL", shown(location))));
    }
    let path = match scheme(location) {
        None => PathBuf::from(location),
        Some(("file", rest)) => file_url(location, rest)?,
        Some(_) => match Address::parse(location)? {
            Some(address) => return Ok(Target::Remote(address)),
            None => PathBuf::from(location),
        },
    };
    // A name that exists is taken literally, whatever characters it has.
    if path.symlink_metadata().is_ok() {
        return Ok(Target::Path(path));
    }
    Ok(match Glob::split(&path) {
        Some((base, glob)) => Target::Glob(base, glob),
        None => Target::Path(path),
    })
}

/// The scheme and what follows `://`, if it looks like a URL.
fn scheme(location: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = location.split_once("://")?;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(legal))
        .then_some((scheme, rest))
}

fn file_url(url: &str, rest: &str) -> Result<PathBuf> {
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return Err(Error::invalid(format!("{:?} names a host", shown(url)))
            .hint("a file URL has three slashes: file:///data"));
    }
    let path = decoded(path).filter(|path| !path.contains('\0'));
    Ok(path.ok_or_else(|| Error::invalid(format!("{:?} is malformed", shown(url))))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(location: &str) -> PathBuf {
        match parse(location).unwrap() {
            Target::Path(path) => path,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn paths_and_file_urls_name_the_same_files() {
        assert_eq!(path("/data/train"), PathBuf::from("/data/train"));
        assert_eq!(path("data/train/"), PathBuf::from("data/train/"));
        assert_eq!(path("file:///data/a%20b%3Dc"), PathBuf::from("/data/a b=c"));
        assert_eq!(path("file://localhost/data"), PathBuf::from("/data"));
    }

    #[test]
    fn a_location_that_cannot_be_read_says_why() {
        let sentence = |location: &str| parse(location).unwrap_err().to_string();
        assert_eq!(sentence(""), "the location is empty (give a path, a URL or a glob)");
        assert!(sentence("file://server/x").contains("names a host"));
        assert!(sentence("file:///x%zz").contains("malformed"));
        assert!(sentence("file:///x%00").contains("malformed"));
        assert!(sentence("a\0b").contains("NUL"));
    }

    #[test]
    fn the_secret_in_a_url_of_another_scheme_is_not_repeated() {
        let error = parse("ftp://user:hunter2@host/x?sig=abc").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && !error.contains("sig"), "{error}");
    }
}

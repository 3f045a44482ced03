//! Parses the locations that a user writes: paths, URLs and globs.

use std::path::{Path, PathBuf};

use forebay_base::paths::{absolute as absolute_path, expanded, text};
use forebay_base::{Error, ErrorKind, Place, Result};

use super::clouds::{Address, decoded, glob_of, has_query, is_scheme};
use super::glob::{Glob, WILDCARDS};
use super::shown::shown;

/// A parsed location.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// The path of a local file or folder, as the user wrote it.
    Path(PathBuf),
    /// All local files that match the pattern.
    Glob(Glob),
    /// A file, a folder or a glob in an object store.
    Remote(Address),
}

/// Parses one location. Fails with `Invalid` for a text that cannot be a location, and with `Unsupported` for
/// an unknown scheme.
///
/// A `file:` URL may have a single slash, as Spark and Hadoop print it. No message repeats a secret.
pub(super) fn parse(location: &str) -> Result<Target> {
    if location.trim().is_empty() {
        return Err(Error::invalid("the location is empty").hint("give a path, a URL or a glob"));
    }
    if location.contains('\0') {
        return Err(Error::invalid(format!("{:?} holds a NUL", shown(location))));
    }
    let path = PathBuf::from(location);
    // The name of an existing file is taken literally, even if it looks like a URL or a glob.
    if exists(&path) {
        return Ok(Target::Path(path));
    }
    if let Some(rest) = without_prefix(location, "file:") {
        return file_url(location, rest);
    }
    if let Some(rest) = without_prefix(location, "dbfs:") {
        return mounted(rest, Path::new("/"));
    }
    if let Some(address) = Address::parse(location)? {
        return Ok(Target::Remote(address));
    }
    refuse_mistyped(location)?;
    expanded(path).map(local)
}

/// Makes a local path absolute, so that a process with another working directory can use it. Other locations
/// are returned unchanged.
///
/// A relative glob is returned unchanged if the path of the working directory contains wildcard characters,
/// because in an absolute glob they would act as wildcards.
pub fn absolute(location: &str) -> Result<String> {
    if location.starts_with("iceberg+rest://") {
        return Ok(location.to_owned());
    }
    let (path, is_glob) = match parse(location)? {
        Target::Path(path) => (path, false),
        Target::Glob(glob) => (glob.path().to_owned(), true),
        Target::Remote(_) => return Ok(location.to_owned()),
    };
    let whole = absolute_path(&path).map_err(|error| error.at(Place::file(shown(location))))?;
    let wildcards = |path: &Path| path.to_string_lossy().matches(WILDCARDS).count();
    if is_glob && wildcards(&whole) > wildcards(&path) {
        return Ok(location.to_owned());
    }
    Ok(text(&whole)?.to_owned())
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Treats a local path with wildcards as a glob, unless a file with exactly this name exists.
fn local(path: PathBuf) -> Target {
    match Glob::split(&path) {
        Some(glob) if !exists(&path) => Target::Glob(glob),
        _ => Target::Path(path),
    }
}

/// Converts a `dbfs:` path to the local path at which Databricks mounts it: under `/Volumes` for volumes, and
/// under `/dbfs` for everything else. `root` is `/`, except in tests.
fn mounted(path: &str, root: &Path) -> Result<Target> {
    let path = path.trim_start_matches('/');
    let mount = if path.starts_with("Volumes/") { "" } else { "dbfs" };
    let whole = root.join(mount).join(path);
    let first = whole.strip_prefix(root).ok().and_then(|below| below.components().next());
    if first.is_some_and(|first| root.join(first).is_dir()) {
        return Ok(local(whole));
    }
    let whole = shown(&whole.to_string_lossy());
    Err(Error::new(ErrorKind::Unsupported, "dbfs:/ is not mounted on this machine").hint(format!(
        "Databricks mounts it as folders, on clusters that allow it: see that {whole} is there, or give the URL of the store"
    )))
}

/// The text after `prefix`, which may be in upper or lower case; `None` if the text does not begin with it.
fn without_prefix<'a>(location: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = location.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Parses a `file:` URL to a path or a glob. It is percent-decoded, unless only a file with the undecoded
/// name exists. Percent-encoded characters are never wildcards.
fn file_url(url: &str, rest: &str) -> Result<Target> {
    let invalid = |cause: &str| Error::invalid(format!("{:?} {cause}", shown(url)));
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    if !path.starts_with('/') {
        return Err(invalid("has a host, or its path is not absolute")
            .hint("a file URL has three slashes: file:///data"));
    }
    let written = PathBuf::from(path);
    let plain = decoded(path).filter(|path| !path.contains('\0')).map(PathBuf::from);
    if exists(&written) && !plain.as_deref().is_some_and(exists) {
        return Ok(Target::Path(written));
    }
    let plain = plain.ok_or_else(|| invalid("is malformed"))?;
    if exists(&plain) {
        return Ok(Target::Path(plain));
    }
    if has_query(path) {
        return Err(invalid("holds a query, and there is no file of that name")
            .hint("write a ? that is part of a name as %3F"));
    }
    match glob_of(path) {
        Some(glob) => Ok(Target::Glob(glob)),
        None if path.contains('#') => Err(invalid("holds a fragment, and there is no file of that name")
            .hint("write a # that is part of a name as %23")),
        None => Ok(Target::Path(plain)),
    }
}

/// Refuses a text that begins with a known scheme and then `:` or `//`, because it is a mistyped URL: blanks
/// precede the scheme, or `://` does not follow it (as in `s3:/data` or `s3//data`).
fn refuse_mistyped(location: &str) -> Result<()> {
    let trimmed = location.trim_start();
    let Some(end) = trimmed.find([':', '/']) else { return Ok(()) };
    let (scheme, rest) = trimmed.split_at(end);
    let is_url = is_scheme(&scheme.to_ascii_lowercase()) && (rest.starts_with(':') || rest.starts_with("//"));
    if !is_url {
        return Ok(());
    }
    let rest = rest.trim_start_matches(':').trim_start_matches('/');
    let scheme = scheme.to_ascii_lowercase();
    // The suggested URL has a third slash if the scheme needs no host.
    let slashes = if matches!(scheme.as_str(), "file" | "hdfs" | "viewfs") { ":///" } else { "://" };
    let meant = shown(&format!("{scheme}{slashes}{rest}"));
    Err(Error::invalid(format!("{:?} is not a URL", shown(location))).hint(format!("did you mean {meant}?")))
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
        assert_eq!(path("file:/data/x"), PathBuf::from("/data/x"));
        assert_eq!(path("FILE:///data"), PathBuf::from("/data"));
    }

    #[test]
    fn a_name_that_exists_is_taken_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x[1].parquet", "a?b#c.parquet", "all*", "at=12%3A00", "~", "s3:"] {
            let file = folder.path().join(name);
            std::fs::write(&file, "").unwrap();
            let written = file.to_str().unwrap();
            assert_eq!(path(written), file);
            assert_eq!(path(&format!("file://{written}")), file);
            let encoded =
                written.replace('%', "%25").replace('?', "%3F").replace('[', "%5B").replace('#', "%23");
            assert_eq!(path(&format!("file:{encoded}")), file);
        }
    }

    #[test]
    fn a_location_is_made_absolute_and_a_url_stays() {
        let folder = std::env::current_dir().unwrap();
        let below = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        for (location, expected) in [
            ("src", below("src")),
            ("src/", below("src/")),
            ("./no/such", below("no/such")),
            ("src/*/[a-c]?.parquet", below("src/*/[a-c]?.parquet")),
            ("src/[a-c]?/", below("src/[a-c]?/")),
            ("/data/a b", "/data/a b".to_owned()),
            ("file:///no/such/%5B1/", "/no/such/[1/".to_owned()),
            ("file:////no/such//a%5B", "//no/such/a[".to_owned()),
            ("file:///data/a%20b", "/data/a b".to_owned()),
            ("file:///data/*.parquet", "/data/*.parquet".to_owned()),
            ("s3://bucket/x/*.parquet", "s3://bucket/x/*.parquet".to_owned()),
            ("https://ann:hunter2@host/x", "https://ann:hunter2@host/x".to_owned()),
        ] {
            assert_eq!(absolute(location).unwrap(), expected, "{location}");
            assert_eq!(absolute(&expected).unwrap(), expected, "{location}");
        }
        assert_eq!(absolute("~/x").unwrap(), std::env::home_dir().unwrap().join("x").to_str().unwrap());
    }

    #[test]
    fn a_tilde_is_the_users_home_and_no_one_elses() {
        let home = std::env::home_dir().unwrap();
        assert_eq!(path("~/no/such/folder"), home.join("no/such/folder"));
        assert_eq!(path("~"), home);
        assert!(
            matches!(parse("~/no/*.parquet").unwrap(), Target::Glob(glob) if glob.base() == home.join("no"))
        );
        assert_eq!(path("no/such/~"), PathBuf::from("no/such/~"));
        let error = parse("~ann/x").unwrap_err().to_string();
        assert!(error.contains("~ann: the home folder of another user is not expanded"), "{error}");
    }

    #[test]
    fn a_mistyped_url_is_answered_with_what_was_meant_and_without_its_secret() {
        for (location, meant) in [
            ("https:/ann:hunter2@host/x?sig=hunter2", "https://***@host/x?***"),
            ("https//host/x", "https://host/x"),
            ("https:host/x", "https://host/x"),
            (" s3://bucket/x", "s3://bucket/x"),
            ("S3:/key:hunter2@bucket/x", "s3://***@bucket/x"),
            ("\thdfs:/data", "hdfs:///data"),
            (" file:/data", "file:///data"),
        ] {
            let error = parse(location).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().ends_with(&format!("is not a URL (did you mean {meant}?)")), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let error = parse("dbfs:/mnt/train").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("see that /dbfs/mnt/train is there"), "{error}");
    }

    #[test]
    fn locations_of_databricks_are_the_folders_that_it_mounts() {
        let root = tempfile::tempdir().unwrap();
        for mount in ["dbfs", "Volumes"] {
            std::fs::create_dir(root.path().join(mount)).unwrap();
        }
        for (location, path) in [
            ("/mnt/train", "dbfs/mnt/train"),
            ("///mnt/train", "dbfs/mnt/train"),
            ("/Volumes/a/b/c/train", "Volumes/a/b/c/train"),
        ] {
            let Ok(Target::Path(found)) = mounted(location, root.path()) else { panic!("{location}") };
            assert_eq!(found, root.path().join(path));
        }
    }

    #[test]
    fn a_location_that_cannot_be_read_says_why() {
        let sentence = |location: &str| parse(location).unwrap_err().to_string();
        assert_eq!(sentence(""), "the location is empty (give a path, a URL or a glob)");
        assert!(sentence("file://server/x").contains("has a host"));
        assert!(sentence("file:x").contains("its path is not absolute"));
        assert!(sentence("file:///x%zz").contains("malformed"));
        assert!(sentence("file:///x%00").contains("malformed"));
        assert!(sentence("a\0b").contains("NUL"));
    }

    #[test]
    fn a_file_url_has_no_query_and_what_is_encoded_in_it_is_no_wildcard() {
        for url in ["file:///nothing?x=y", "file:/no/part-?.parquet?x=y", "file:///no/such?sig=hunter2#a"] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
            let text = error.to_string();
            assert!(text.ends_with("holds a query, and there is no file of that name (write a ? that is part of a name as %3F)"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
        let error = parse("file:///nothing#x").unwrap_err().to_string();
        assert!(error.contains("holds a fragment") && error.contains("%23"), "{error}");
        assert_eq!(path("file:///nothing%3Fx=y%23z"), PathBuf::from("/nothing?x=y#z"));
        assert_eq!(path("file:///no/%5Ba%5D%2A"), PathBuf::from("/no/[a]*"));
        for (url, base) in [("file:///no/a%20b/part-?.parquet", "/no/a b"), ("file:///no/%5B/day=*/x", "/no")]
        {
            assert!(
                matches!(parse(url).unwrap(), Target::Glob(glob) if glob.base() == Path::new(base)),
                "{url}"
            );
        }
    }

    #[test]
    fn the_secret_in_a_url_of_another_scheme_is_not_repeated() {
        let error = parse("ftp://user:hunter2@host/x?sig=abc").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && !error.contains("sig"), "{error}");
    }
}

//! Resolves the locations in metadata, which are absolute as of when the table was written.

use forebay_base::{Error, ErrorKind, Place, Result};

/// The place of a table's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// A file below the folder of the table, by its path from there.
    Below(String),
    /// A file elsewhere in the table's store, by its absolute path there.
    Beside(String),
}

/// The file that a location in the metadata stands for. The table was written at `written`, and is in the
/// folder `root` now; both are absolute paths or URLs.
///
/// # Errors
/// `Unsupported` for a file in another store, `Corrupt` for a location that no file can have.
pub fn locate(location: &str, written: &str, root: &str) -> Result<Where> {
    let (file, here, then) = (Address::of(location), Address::of(root), Address::of(written));
    let below = |folder: &Address| {
        let is_there = file.store == folder.store;
        let rest = file.path.strip_prefix(folder.path.trim_end_matches('/')).filter(|_| is_there)?;
        rest.strip_prefix('/')
    };
    // If the table was moved, its files moved with it, so that they are below its present folder.
    let (path, place): (&str, fn(String) -> Where) = match below(&here).or_else(|| below(&then)) {
        Some(path) => (path, Where::Below),
        None if file.store == here.store => (file.path.trim_start_matches('/'), Where::Beside),
        None => {
            let cause = "the table has a file in another store than its metadata";
            return Err(Error::new(ErrorKind::Unsupported, cause)
                .hint("open the table where it was written, or rewrite its files into its folder")
                .at(Place::file(location)));
        }
    };
    let is_file = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    match path.split('/').all(is_file) {
        true => Ok(place(path.to_owned())),
        false => {
            let cause = "the metadata has a location that no file has";
            Err(Error::new(ErrorKind::Corrupt, cause).at(Place::file(location)))
        }
    }
}

/// A location, as a store and a path in it.
struct Address<'a> {
    /// The scheme and the name of the store; `None` on the local disk.
    store: Option<(&'a str, &'a str)>,
    path: &'a str,
}

impl<'a> Address<'a> {
    fn of(location: &'a str) -> Self {
        let scheme = location.split_once(':').filter(|(scheme, rest)| {
            let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
            scheme.len() > 1 && scheme.bytes().all(is_scheme) && rest.starts_with('/')
        });
        let Some((scheme, rest)) = scheme else { return Address { store: None, path: location } };
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        match scheme {
            "file" if host.is_empty() => Address { store: None, path },
            "s3a" | "s3n" => Address { store: Some(("s3", host)), path },
            "wasb" | "wasbs" | "abfs" => azure("abfss", host, path),
            "abfss" => azure(scheme, host, path),
            _ => Address { store: Some((scheme, host)), path },
        }
    }
}

/// A container in Azure, under the name of its account, since both endpoints of an account have the same
/// files.
fn azure<'a>(scheme: &'a str, host: &'a str, path: &'a str) -> Address<'a> {
    let endings = [".dfs.core.windows.net", ".blob.core.windows.net"];
    let plain = endings.iter().find_map(|ending| host.strip_suffix(ending));
    Address { store: Some((scheme, plain.unwrap_or(host))), path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_where_the_table_is_now() {
        let below = |path: &str| Where::Below(path.to_owned());
        let beside = |path: &str| Where::Beside(path.to_owned());
        for (location, written, root, is) in [
            ("file:///t/data/a.parquet", "file:///t", "/t", below("data/a.parquet")),
            ("file:/t/data/a.parquet", "file:/t/", "/t", below("data/a.parquet")),
            ("/t/a b%20.parquet", "/t", "/t", below("a b%20.parquet")),
            ("s3://acme/t/a", "s3://acme/t", "/copy", below("a")),
            ("s3a://acme/t/a", "s3a://acme/t", "s3://acme/t", below("a")),
            ("s3://acme/u/a", "s3://acme/t", "s3://acme/t", beside("u/a")),
            ("s3://acme/tt/a", "s3://acme/t", "s3://acme/t", beside("tt/a")),
            ("/old/a", "/t", "/t", beside("old/a")),
        ] {
            assert_eq!(locate(location, written, root).unwrap(), is, "{location}");
        }
    }

    #[test]
    fn locations_in_other_stores_and_those_that_are_none_are_refused() {
        for (location, root, kind) in [
            ("s3://other/t/a", "s3://acme/t", ErrorKind::Unsupported),
            ("https://example.org/a", "/t", ErrorKind::Unsupported),
            ("file://server/t/a", "/t", ErrorKind::Unsupported),
            ("/etc/passwd", "s3://acme/t", ErrorKind::Unsupported),
            ("/t/../etc/passwd", "/t", ErrorKind::Corrupt),
            ("s3://acme/t//a", "s3://acme/t", ErrorKind::Corrupt),
            ("/t/", "/t", ErrorKind::Corrupt),
            ("/t/a\0", "/t", ErrorKind::Corrupt),
            ("", "/t", ErrorKind::Corrupt),
        ] {
            let error = locate(location, root, root).unwrap_err();
            assert_eq!(error.kind(), kind, "{location}: {error}");
        }
    }
}

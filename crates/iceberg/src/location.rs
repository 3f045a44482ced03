//! Resolves the locations of files in metadata. They are absolute and were valid when the table was written,
//! but the table may have moved since.

use std::collections::BTreeMap;

use forebay_base::{Error, ErrorKind, Place, Result};

/// The place of one of the table's files: a path from the table's folder, or an absolute path in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// A file below the folder of the table, by its path relative to that folder.
    Below(String),
    /// A file in another folder of the table, by its absolute path in the same store. The folder is named by
    /// a property of the table, or is the one that the table was written in.
    Beside(String),
    /// A file below a location that the user allowed: the index of that location in the list of allowed ones,
    /// and the absolute path of the file in that location's store.
    Allowed(usize, String),
}

/// The properties of a table that name folders for its files.
const PATHS: [&str; 4] =
    ["write.data.path", "write.object-storage.path", "write.folder-storage.path", METADATA_PATH];

/// The property that names the folder of the metadata.
const METADATA_PATH: &str = "write.metadata.path";

/// The folders of a table as its metadata names them, which are those at the time of writing.
#[derive(Debug)]
pub struct Folders {
    /// The folder of the table when it was written.
    written: String,
    /// The folders that the properties of the table name.
    named: Vec<String>,
    /// The folder of the table's metadata, if a property names that folder.
    metadata: Option<String>,
}

/// The folders in which the files of an opened table may be. It resolves the locations in the metadata.
#[derive(Debug)]
pub struct Locator {
    /// The folder of the table, as an absolute path or a URL.
    root: String,
    /// The folder that the table was written in, unless it is known that the table has not moved.
    written: Option<String>,
    /// Other folders of the table in the same store: those that its properties name, and the folder that it
    /// was written in if it is known that the table has not moved.
    named: Vec<String>,
    /// Other locations in which the user allows files of the table.
    allowed: Vec<String>,
}

impl Folders {
    pub(crate) fn new(written: String, properties: &BTreeMap<String, String>) -> Self {
        let named = PATHS.iter().filter_map(|name| properties.get(*name)).cloned().collect();
        Folders { written, named, metadata: properties.get(METADATA_PATH).cloned() }
    }

    /// The locator for a table that was opened in the folder `root`, an absolute path or a URL. `allowed` are
    /// other locations in which the user allows files.
    pub fn at(&self, root: &str, allowed: Vec<String>) -> Locator {
        // A table may have been moved to the folder that was opened, together with its files. It was not
        // moved if a property names the present folder of the metadata.
        let is_kept_apart = self.metadata.as_ref().is_some_and(|folder| {
            let opened = format!("{root}/metadata");
            Address::parse(&opened).same(&Address::parse(folder))
        });
        let (mut named, mut written) = (self.named.clone(), Some(self.written.clone()));
        if is_kept_apart {
            named.extend(written.take());
        }
        Locator { root: root.to_owned(), written, named, allowed }
    }
}

impl Locator {
    /// Resolves a location in the metadata to the file that it stands for.
    ///
    /// # Errors
    /// `Unsupported` for a file that is neither in the table's folders nor below an allowed location;
    /// `Corrupt` for a location that no file can have.
    pub fn locate(&self, location: &str) -> Result<Where> {
        let (file, here) = (Address::parse(location), Address::parse(&self.root));
        let then = self.written.as_ref().map(|written| Address::parse(written));
        let below = file.below(&here).or_else(|| file.below(&then?));
        let path = below.unwrap_or(file.path.trim_start_matches('/'));
        let is_file = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        let leads_up = path.split('/').any(|part| part == "..");
        if !leads_up && !path.split('/').all(is_file) {
            let cause = "the metadata has a location that no file has";
            return Err(Error::new(ErrorKind::Corrupt, cause).at(Place::file(location)));
        }
        let holds = |folder: &String| {
            let folder = Address::parse(folder);
            folder.is_folder() && file.below(&folder).is_some()
        };
        let allows = |location: &String| file.below(&Address::parse(location)).is_some();
        match below {
            _ if leads_up => {}
            Some(path) => return Ok(Where::Below(path.to_owned())),
            None if file.store == here.store && self.named.iter().any(holds) => {
                return Ok(Where::Beside(path.to_owned()));
            }
            None => {
                if let Some(at) = self.allowed.iter().position(allows) {
                    return Ok(Where::Allowed(at, path.to_owned()));
                }
            }
        }
        let cause = format!("this path in the metadata leads out of the table in {}", self.root);
        let next = "if you trust the folder, name it in the storage option `allowed_locations`, or rewrite the files into the \
                    table's folder";
        Err(Error::new(ErrorKind::Unsupported, cause).hint(next).at(Place::file(location)))
    }
}

/// A location, split into a store and a path in that store.
struct Address<'a> {
    /// The scheme and the name of the store; `None` on the local disk.
    store: Option<(&'a str, &'a str)>,
    path: &'a str,
}

impl<'a> Address<'a> {
    fn parse(location: &'a str) -> Self {
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

    /// The path of this file relative to `folder`; `None` if the file is not below that folder.
    fn below(&self, folder: &Address<'_>) -> Option<&'a str> {
        let rest = self.path.strip_prefix(folder.path.trim_end_matches('/'));
        rest.filter(|_| self.store == folder.store)?.strip_prefix('/')
    }

    fn same(&self, other: &Address<'_>) -> bool {
        self.store == other.store && self.path.trim_end_matches('/') == other.path.trim_end_matches('/')
    }

    /// Whether this is a folder inside a store, with a path free of `.` and `..`, and not the whole store.
    fn is_folder(&self) -> bool {
        let path = self.path.trim_end_matches('/');
        path.starts_with('/') && path.split('/').all(|part| !matches!(part, "." | ".."))
    }
}

/// The address of a path in an Azure container. The ending of the host is removed, because both endpoints of
/// an account (`dfs` and `blob`) have the same files.
fn azure<'a>(scheme: &'a str, host: &'a str, path: &'a str) -> Address<'a> {
    let endings = [".dfs.core.windows.net", ".blob.core.windows.net"];
    let plain = endings.iter().find_map(|ending| host.strip_suffix(ending));
    Address { store: Some((scheme, plain.unwrap_or(host))), path }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(written: &str, properties: &[(&str, &str)]) -> Folders {
        let of = |(name, folder): &(&str, &str)| (name.to_string(), folder.to_string());
        Folders::new(written.to_owned(), &properties.iter().map(of).collect())
    }

    fn below(path: &str) -> Where {
        Where::Below(path.to_owned())
    }

    fn beside(path: &str) -> Where {
        Where::Beside(path.to_owned())
    }

    #[test]
    fn files_are_found_where_the_table_is_now() {
        for (location, written, root, is) in [
            ("file:///t/data/a.parquet", "file:///t", "/t", "data/a.parquet"),
            ("file:/t/data/a.parquet", "file:/t/", "/t", "data/a.parquet"),
            ("/t/a b%20.parquet", "/t", "/t", "a b%20.parquet"),
            ("s3://acme/t/a", "s3://acme/t", "/copy", "a"),
            ("s3a://acme/t/a", "s3a://acme/t", "s3://acme/t", "a"),
            ("s3://acme/w//t/a", "s3://acme/w//t", "s3://acme/t", "a"),
        ] {
            let table = folders(written, &[]).at(root, Vec::new());
            assert_eq!(table.locate(location).unwrap(), below(is), "{location}");
        }
    }

    #[test]
    fn files_are_found_in_folders_that_properties_name() {
        let table = folders(
            "s3://acme/t",
            &[("write.data.path", "s3://acme/rows/t/"), ("write.metadata.path", "s3a://acme/m/t/metadata")],
        );
        for (location, root, is) in [
            ("s3a://acme/rows/t/a", "s3://acme/t", beside("rows/t/a")),
            ("s3://acme/m/t/metadata/l.avro", "s3://acme/t", beside("m/t/metadata/l.avro")),
            ("s3://acme/m/t/metadata/l.avro", "s3://acme/m/t", below("metadata/l.avro")),
            ("s3://acme/t/data/a", "s3://acme/m/t", beside("t/data/a")),
            ("s3://acme/t/data/a", "s3://acme/moved", below("data/a")),
        ] {
            let found = table.at(root, Vec::new()).locate(location).unwrap();
            assert_eq!(found, is, "{location} {root}");
        }
        for (location, folder) in [
            ("s3://acme/rows/tt/a", "s3://acme/rows/t"),
            ("s3://acme/rows/t/../u/a", "s3://acme/rows/t"),
            ("s3://acme/u/a", "s3://acme/"),
            ("s3://acme/u/a", "s3://acme"),
            ("s3://acme/u/a", "s3://acme/t/../u"),
            ("s3://other/u/a", "s3://other/u"),
        ] {
            let table = folders("s3://acme/t", &[("write.data.path", folder)]);
            let error = table.at("s3://acme/t", Vec::new()).locate(location).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{location} {folder}");
        }
    }

    #[test]
    fn files_are_found_below_locations_that_the_user_allows() {
        let allowed = ["/data/raw", "s3a://acme/raw/", "s3://other"].map(str::to_owned).to_vec();
        let table = folders("s3://acme/t", &[]).at("s3://acme/t", allowed);
        for (location, at, path) in [
            ("file:///data/raw/a", 0, "data/raw/a"),
            ("s3://acme/raw/x/a", 1, "raw/x/a"),
            ("s3n://other/any/a", 2, "any/a"),
        ] {
            assert_eq!(table.locate(location).unwrap(), Where::Allowed(at, path.to_owned()), "{location}");
        }
        assert_eq!(table.locate("s3://acme/t/a").unwrap(), below("a"));
        for location in [
            "/data/raws/a",
            "/data/raw/../etc/passwd",
            "s3://acme/raws/a",
            "s3://acme/raw/../u/a",
            "gs://other/any/a",
            "s3://third/any/a",
        ] {
            let error = table.locate(location).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{location}");
            assert!(error.to_string().contains("allowed_locations"), "{error}");
        }
        assert_eq!(table.locate("s3://acme/raw//a").unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn locations_out_of_the_table_and_those_that_are_none_are_refused() {
        for (location, root, kind) in [
            ("s3://other/t/a", "s3://acme/t", ErrorKind::Unsupported),
            ("https://example.org/a", "/t", ErrorKind::Unsupported),
            ("file://server/t/a", "/t", ErrorKind::Unsupported),
            ("/etc/passwd", "s3://acme/t", ErrorKind::Unsupported),
            ("/etc/passwd", "/t", ErrorKind::Unsupported),
            ("s3://acme/tt/a", "s3://acme/t", ErrorKind::Unsupported),
            ("/t/../etc/passwd", "/t", ErrorKind::Unsupported),
            ("s3://acme/t//a", "s3://acme/t", ErrorKind::Corrupt),
            ("/t/", "/t", ErrorKind::Corrupt),
            ("/t/a\0", "/t", ErrorKind::Corrupt),
            ("", "/t", ErrorKind::Corrupt),
        ] {
            let error = folders(root, &[]).at(root, Vec::new()).locate(location).unwrap_err();
            assert_eq!(error.kind(), kind, "{location}: {error}");
            let shown = error.to_string();
            let is_out = kind == ErrorKind::Unsupported;
            assert_eq!(shown.contains(&format!("leads out of the table in {root}")), is_out, "{shown}");
            assert!(shown.contains(location.trim_end_matches('\0')), "{shown}");
        }
    }
}

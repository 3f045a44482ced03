//! Resolves the locations in metadata, which are absolute as of when the table was written.

use std::collections::BTreeMap;

use forebay_base::{Error, ErrorKind, Place, Result};

/// The place of a table's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// A file below the folder of the table, by its path from there.
    Below(String),
    /// A file in another folder of the table, by its absolute path in the store.
    Beside(String),
}

/// The properties of a table that name folders for its files.
const PATHS: [&str; 4] =
    ["write.data.path", "write.object-storage.path", "write.folder-storage.path", METADATA_PATH];

/// The property that names the folder of the metadata.
const METADATA_PATH: &str = "write.metadata.path";

/// The folders that a table was written in, as locations.
#[derive(Debug)]
pub struct Folders {
    /// The folder of the table.
    written: String,
    /// The folders that its properties name.
    named: Vec<String>,
    /// The folder of its metadata, if a property names it.
    metadata: Option<String>,
}

impl Folders {
    pub(crate) fn new(written: String, properties: &BTreeMap<String, String>) -> Self {
        let named = PATHS.iter().filter_map(|name| properties.get(*name)).cloned().collect();
        Folders { written, named, metadata: properties.get(METADATA_PATH).cloned() }
    }

    /// The file that a location in the metadata stands for. The metadata is in the folder `metadata` of
    /// `root` now, which is an absolute path or a URL.
    ///
    /// # Errors
    /// `Unsupported` for a file that is in none of the table's folders, or in another store; `Corrupt` for a
    /// location that no file can have.
    pub fn locate(&self, location: &str, root: &str) -> Result<Where> {
        let (file, here) = (Address::of(location), Address::of(root));
        // If the table was moved, its files moved with it, so that they are below its present folder. It was
        // not if a property says that its metadata belongs where it is.
        let is_kept_apart = self.metadata.as_ref().is_some_and(|folder| {
            let opened = format!("{root}/metadata");
            Address::of(&opened).same(&Address::of(folder))
        });
        let then = Some(&self.written).filter(|_| !is_kept_apart).map(|written| Address::of(written));
        let below = file.below(&here).or_else(|| file.below(&then?));
        let path = below.unwrap_or(file.path.trim_start_matches('/'));
        let is_file = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
        let leads_up = path.split('/').any(|part| part == "..");
        if !leads_up && !path.split('/').all(is_file) {
            let cause = "the metadata has a location that no file has";
            return Err(Error::new(ErrorKind::Corrupt, cause).at(Place::file(location)));
        }
        let apart = Some(&self.written).filter(|_| is_kept_apart);
        let holds = |folder: &String| {
            let folder = Address::of(folder);
            folder.is_folder() && file.below(&folder).is_some()
        };
        match below {
            _ if leads_up => {}
            Some(path) => return Ok(Where::Below(path.to_owned())),
            None if file.store == here.store && self.named.iter().chain(apart).any(holds) => {
                return Ok(Where::Beside(path.to_owned()));
            }
            None => {}
        }
        let cause = format!("this path in the metadata leads out of the table in {root}");
        let next = match file.store == here.store {
            true => "rewrite its files into its folder, or name theirs in its property `write.data.path`",
            false => "open the table where it was written, or rewrite its files into its folder",
        };
        Err(Error::new(ErrorKind::Unsupported, cause).hint(next).at(Place::file(location)))
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

    /// The path of a file from a folder that it is in.
    fn below(&self, folder: &Address<'_>) -> Option<&'a str> {
        let rest = self.path.strip_prefix(folder.path.trim_end_matches('/'));
        rest.filter(|_| self.store == folder.store)?.strip_prefix('/')
    }

    fn same(&self, other: &Address<'_>) -> bool {
        self.store == other.store && self.path.trim_end_matches('/') == other.path.trim_end_matches('/')
    }

    /// Whether this is a folder of its own and not a whole store.
    fn is_folder(&self) -> bool {
        let path = self.path.trim_end_matches('/');
        path.starts_with('/') && path.split('/').all(|part| !matches!(part, "." | ".."))
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
            assert_eq!(folders(written, &[]).locate(location, root).unwrap(), below(is), "{location}");
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
            assert_eq!(table.locate(location, root).unwrap(), is, "{location} {root}");
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
            let error = table.locate(location, "s3://acme/t").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{location} {folder}");
        }
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
            let error = folders(root, &[]).locate(location, root).unwrap_err();
            assert_eq!(error.kind(), kind, "{location}: {error}");
            let shown = error.to_string();
            let is_out = kind == ErrorKind::Unsupported;
            assert_eq!(shown.contains(&format!("leads out of the table in {root}")), is_out, "{shown}");
            assert!(shown.contains(location.trim_end_matches('\0')), "{shown}");
        }
    }
}

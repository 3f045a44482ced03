//! Where the bytes live: from a path or URL to files, and from files to a catalogue. Async.
//!
//! Nothing here decodes rows. There is no runtime here either: who awaits these functions brings one.
//!
//! ```text
//! locations ─ url ─► what to look for ─ list, tables ─► files in order ─ footer ─► Catalog
//! ```

#[allow(dead_code, unused_imports, reason = "the remote stores that use it come next")]
mod clouds;
mod footer;
mod glob;
mod list;
mod store;
mod tables;
mod url;
#[allow(dead_code, unused_imports, reason = "the remote stores that use it come next")]
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};

pub use store::Store;

/// Opens a data set: finds its files and reads their footers.
///
/// A location is a file, a folder (searched at every depth), a `file://` URL, or a glob with `*`, `?`, `[...]` and `**`.
/// The files are ordered by their path relative to the folder that was opened, or to the deepest folder that all
/// locations share; the order of the locations does not matter. In folders, names that begin with `_` or `.` and files
/// that are not called `*.parquet` are passed over, and `key=value` folder names are only names. A folder without
/// any `*.parquet` is read if its files have no suffix at all, as Spark and others write them.
///
/// `options` are for stores that need credentials; the local disk has none.
///
/// Fails with `NotFound` if nothing matches; `Invalid` for a malformed location or a file that is matched twice;
/// `Unsupported` for another scheme, an option that is not known, an encrypted file, files that differ in their columns,
/// and the folder of a Delta, Iceberg or Hudi table; `Corrupt` for a file that is damaged or not Parquet.
pub async fn open(locations: &[String], options: &BTreeMap<String, String>) -> Result<(Store, Catalog)> {
    if let Some(option) = options.keys().next() {
        return Err(Error::new(ErrorKind::Unsupported, format!("storage option {option:?} is not known"))
            .hint("local files need none"));
    }
    let places = locations.iter().map(|location| url::parse(location)).collect::<Result<Vec<_>>>()?;
    let store = Store::local();
    let found = store.blocking(move || list::find(&places)).await?;
    let footers = footer::read_all(&store, found).await?;
    let catalog = footer::assemble(footers)?;
    Ok((store, catalog))
}

/// The absolute path as an object store names it: with `/`, without a root.
fn object_path(absolute: &std::path::Path) -> Result<object_store::path::Path> {
    object_store::path::Path::from_absolute_path(absolute)
        .map_err(|error| Error::invalid(error.to_string()).at(place(absolute)))
}

fn place(path: &std::path::Path) -> crate::error::Place {
    crate::error::Place::file(Arc::<str>::from(path.to_string_lossy()))
}

//! Writes the indexes of folders when a user asks for it.

use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use futures::{FutureExt, StreamExt, stream};
use serde::Serialize;

use super::load::at;
use super::{Builder, MAX_BYTES, below};
use crate::catalog::Catalog;
use crate::snapshot::IndexPlace;
use crate::source::footer::{FOOTERS_AT_ONCE, Footers};
use crate::source::store::Store;

/// The result of writing the index of one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IndexReport {
    /// The path or URL of the index.
    pub location: String,
    /// The number of files whose footers are in the index.
    pub files: u64,
    /// The number of files whose footers had to be read. The others were in an earlier index or on local
    /// disk.
    pub files_read: u64,
    /// The number of bytes of all footers, before they are compressed.
    pub footer_bytes: u64,
    /// The size of the index in bytes.
    pub bytes: u64,
}

/// Writes the index of each folder that was opened, and replaces an existing one. Footers that are in an
/// index or on local disk already are not read from their files.
///
/// Fails with `Invalid` if no folder was opened as a whole, and if the store cannot be written to.
pub async fn write_indexes(store: &Store, catalog: &Catalog) -> Result<Vec<IndexReport>> {
    let places: Vec<&IndexPlace> = store.indexes.iter().filter(|place| place.is_whole).collect();
    if places.is_empty() {
        return Err(Error::invalid("an index is written for a folder, and no folder was opened")
            .hint("open the folder itself, instead of its files or a glob"));
    }
    let footers = Footers::open(store, catalog).await?;
    let mut reports = Vec::with_capacity(places.len());
    for place in places {
        let written = write(store, catalog, &footers, place).await;
        reports.push(written.map_err(|error| error.at(at(store, place)))?);
    }
    Ok(reports)
}

async fn write(
    store: &Store,
    catalog: &Catalog,
    footers: &Footers<'_>,
    place: &IndexPlace,
) -> Result<IndexReport> {
    let mut report = IndexReport {
        location: store.shown(place.volume, &place.path),
        files: 0,
        files_read: 0,
        footer_bytes: 0,
        bytes: 0,
    };
    let mut builder = Builder::default();
    let inside = (0..catalog.files.len()).filter_map(|at| {
        let file = &catalog.files[at];
        let relative = below(&store.address(file), &place.root)?.to_owned();
        Some(async move { Ok::<_, Error>((relative, file.pin(), footers.bytes(at).await?)) }.boxed())
    });
    let mut read = stream::iter(inside).buffered(FOOTERS_AT_ONCE.max(store.row_groups_at_once()));
    while let Some(found) = read.next().await {
        let (relative, pin, footer) = found?;
        report.files += 1;
        report.files_read += u64::from(footer.is_read);
        report.footer_bytes += footer.bytes.len() as u64;
        builder.add(&relative, &pin, footer.bytes).or_fail()?;
    }
    let bytes = builder.finish().or_fail()?;
    report.bytes = bytes.len() as u64;
    if report.bytes > MAX_BYTES {
        let cause = format!("the index would take {} bytes, over the limit of {MAX_BYTES}", report.bytes);
        return Err(Error::new(ErrorKind::TooLarge, cause).hint("write one for each of several folders"));
    }
    store.write(place.volume, &place.path, bytes.into()).await?;
    Ok(report)
}

//! Where the index of a folder is: looked up when the folder is opened, and written on request.

use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use futures::{FutureExt, StreamExt, stream};
use serde::Serialize;

use super::{Builder, Index, MAX_BYTES, below};
use crate::catalog::Catalog;
use crate::snapshot::{IndexPlace, Pin};
use crate::source::footer::{FOOTERS_AT_ONCE, Footers};
use crate::source::store::Store;

/// The next move where an index cannot be used.
pub(in crate::source) const WRITE_AGAIN: &str =
    "write it again with `forebay index`, or leave it out with the storage option index=off";

/// What was written into the index of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IndexReport {
    /// The path or URL of the index.
    pub location: String,
    /// Files whose footers are in it.
    pub files: u64,
    /// Of them, those whose footers were read from the files: the others were kept already.
    pub files_read: u64,
    /// Bytes of the footers.
    pub footer_bytes: u64,
    /// Bytes of the index.
    pub bytes: u64,
}

/// Reads the indexes of the folders that were opened, as far as there are any. One that cannot be used, or that has none of
/// the `files`, is left out with a warning.
pub(in crate::source) async fn load(
    store: &Store,
    files: impl Iterator<Item = (String, Pin)> + Clone,
) -> Result<Vec<Index>> {
    let mut indexes = Vec::new();
    for place in store.indexes.iter() {
        let index = match read(store, place).await {
            Ok(None) => continue,
            Ok(Some(index)) => index,
            Err(error) if error.kind() == ErrorKind::Closed => return Err(error),
            // Written again since the folder was listed.
            Err(error) if matches!(error.kind(), ErrorKind::DatasetChanged | ErrorKind::NotFound) => continue,
            Err(error) => {
                store.warn(format!("footers are read without the index: {}", error.at(at(store, place))));
                continue;
            }
        };
        let mut inside = files.clone().filter(|(whole, _)| below(whole, &place.root).is_some()).peekable();
        match inside.peek().is_none() || inside.any(|(whole, pin)| index.has(&whole, &pin)) {
            true => indexes.push(index),
            false => {
                let cause = "it is of other files: none of the folder's is in it as it is now";
                let error = Error::new(ErrorKind::Corrupt, cause).at(at(store, place)).hint(WRITE_AGAIN);
                store.warn(format!("footers are read without the index: {error}"));
            }
        }
    }
    Ok(indexes)
}

async fn read(store: &Store, place: &IndexPlace) -> Result<Option<Index>> {
    let Some(pin) = &place.found else { return Ok(None) };
    if pin.size > MAX_BYTES {
        let cause = format!("it has {} bytes; up to {MAX_BYTES} are read", pin.size);
        return Err(Error::new(ErrorKind::TooLarge, cause).hint("open several folders, each with its index"));
    }
    let whole = 0..pin.size;
    let mut read = store.read(place.volume, pin, &[whole]).await?;
    let bytes = read.pop().ok_or_else(|| Error::new(ErrorKind::Internal, "a read gave nothing"))?;
    let index = Index::read(place.root.clone(), bytes);
    index.map(Some).map_err(|cause| Error::new(ErrorKind::Corrupt, cause).hint(WRITE_AGAIN))
}

/// Writes the index of each folder that was opened, in place of the one that there is. Footers that are kept are not read
/// from their files.
///
/// Fails with `Invalid` where no folder was opened as a whole, and where the store cannot be written to.
pub async fn write_indexes(store: &Store, catalog: &Catalog) -> Result<Vec<IndexReport>> {
    let places: Vec<&IndexPlace> = store.indexes.iter().filter(|place| place.is_whole).collect();
    if places.is_empty() {
        return Err(Error::invalid("an index is of a folder, and no folder was opened")
            .hint("open the folder itself, not its files or a glob"));
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
        let cause = format!("the index would have {} bytes; up to {MAX_BYTES} are read", report.bytes);
        return Err(Error::new(ErrorKind::TooLarge, cause).hint("write one for each of several folders"));
    }
    store.write(place.volume, &place.path, bytes.into()).await?;
    Ok(report)
}

/// Where an index is, for messages.
fn at(store: &Store, place: &IndexPlace) -> Place {
    Place::file(store.shown(place.volume, &place.path))
}

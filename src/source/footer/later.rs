//! Footers of catalogued files: read again for what is not kept of them, or for the first time.

use parquet::file::metadata::ParquetMetaData;
use tokio::sync::{Mutex, Semaphore};

use super::super::metadata_cache::{self, MetadataCache};
use super::super::remote::changed;
use super::super::store::Store;
use super::assemble::admit;
use super::{FOOTER_BYTES_AT_ONCE, FOOTERS_AT_ONCE, fetch, kept, on_runtime, parse};
use crate::catalog::Catalog;
use crate::error::{Error, Place, Result};

/// Who reads footers now.
pub(in crate::source) struct FooterTurns {
    /// Bytes of large footers that may be read.
    pub(super) large: Semaphore,
    /// Files share them by their number, so that two parts of one file do not read its footer twice.
    files: [Mutex<()>; FOOTERS_AT_ONCE],
}

impl Default for FooterTurns {
    fn default() -> Self {
        FooterTurns { large: Semaphore::new(FOOTER_BYTES_AT_ONCE as usize), files: Default::default() }
    }
}

/// Reads the whole footers of a data set's files, with statistics and all else.
pub struct Footers<'a> {
    store: &'a Store,
    catalog: &'a Catalog,
    kept: Option<MetadataCache>,
}

impl<'a> Footers<'a> {
    /// Footers of remote files come from the metadata cache, where they are in it.
    pub async fn open(store: &'a Store, catalog: &'a Catalog) -> Result<Self> {
        let first = catalog.files.first();
        let first = first.map(|file| (store.address(file), file.relative.to_string()));
        Ok(Footers { store, catalog, kept: kept(store, first).await? })
    }

    /// The footer of a file, by its index in [`Catalog::files`]. The catalogue has it from then on, if it had not before.
    ///
    /// Fails with `DatasetChanged` if it is not the one that the catalogue has, and as opening a data set does.
    pub async fn read(&self, file: usize) -> Result<ParquetMetaData> {
        let Footers { store, catalog, kept } = self;
        let about = &catalog.files[file];
        let read = async {
            let pin = about.pin();
            let key = || metadata_cache::key(&store.address(about), &pin);
            let (bytes, _permit) = match kept.as_ref().and_then(|kept| kept.get(key())) {
                Some(bytes) => (bytes, None),
                None => fetch(store, about.volume as usize, &pin, None).await?,
            };
            let known = catalog.known.clone();
            let parsed = on_runtime(move || parse(&bytes, pin.size, &known)).await?;
            match about.footer.get() {
                None => admit(catalog, about, &parsed)?,
                Some(footer) if footer.hash != parsed.hash => {
                    return Err(changed("its footer is another one"));
                }
                Some(_) => {}
            }
            Ok(parsed.metadata)
        };
        read.await.map_err(|error: Error| error.at(Place::file(about.location.clone())))
    }
}

impl Store {
    /// Reads the footer of a file, unless it was read before.
    pub(crate) async fn read_footer(&self, catalog: &Catalog, file: usize) -> Result<()> {
        let footer = &catalog.files[file].footer;
        if footer.get().is_some() {
            return Ok(());
        }
        let _turn = self.footer_turns.files[file % FOOTERS_AT_ONCE].lock().await;
        if footer.get().is_some() {
            return Ok(());
        }
        Footers { store: self, catalog, kept: None }.read(file).await.map(drop)
    }
}

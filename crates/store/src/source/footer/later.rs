//! Reads footers of catalogued files: again for the parts that are not kept, or for the first time.

use bytes::Bytes;
use forebay_base::{Error, Place, Result};
use parquet::file::metadata::ParquetMetaData;
use tokio::sync::SemaphorePermit;
use xxhash_rust::xxh3::xxh3_64;

use super::super::remote::changed;
use super::super::store::Store;
use super::assemble::admit;
use super::claims;
use super::fetch::{IF_DAMAGED, fetch};
use super::kept::KeptFooters;
use super::limits::FOOTERS_AT_ONCE;
use super::parse::{on_runtime, parse};
use crate::catalog::{Catalog, File};

/// Reads the whole footers of a data set's files, with statistics and everything else.
pub struct Footers<'a> {
    store: &'a Store,
    catalog: &'a Catalog,
    kept: KeptFooters,
}

/// The bytes of a footer.
pub(in crate::source) struct FooterBytes<'a> {
    pub(in crate::source) bytes: Bytes,
    /// Whether the bytes were read from the file, and not kept elsewhere.
    pub(in crate::source) is_read: bool,
    /// The permit to hold the bytes, if there are many.
    _permit: Option<SemaphorePermit<'a>>,
}

impl<'a> Footers<'a> {
    /// Footers come from the metadata cache, if the files are remote, and from indexes, if these have them.
    pub async fn open(store: &'a Store, catalog: &'a Catalog) -> Result<Self> {
        let first = catalog.files.first();
        let first = first.map(|file| (store.address(file), file.relative.to_string()));
        let files = catalog.files.iter().map(|file| (store.address(file), file.pin()));
        Ok(Footers { store, catalog, kept: KeptFooters::load(store, first, files).await? })
    }

    /// The footer of a file, by its index in [`Catalog::files`]. After this call the catalogue has it.
    ///
    /// Fails with `DatasetChanged` if the footer is not the one in the catalogue, and with the errors of
    /// opening a data set.
    pub async fn read(&self, file: usize) -> Result<ParquetMetaData> {
        let Footers { catalog, .. } = self;
        let about = &catalog.files[file];
        let read = async {
            let FooterBytes { bytes, _permit, .. } = self.find(about).await?;
            let (known, names, size) = (catalog.known.clone(), about.names.clone(), about.size);
            let mut parsed = on_runtime(move || parse(&bytes, size, &known, names.as_deref())).await?;
            match about.footer.get() {
                None => {
                    let (volume, pin) = (about.volume as usize, about.pin());
                    parsed.metadata = claims::with_sizes(self.store, volume, &pin, parsed.metadata).await?;
                    admit(catalog, about, &parsed)?;
                }
                Some(footer) if footer.hash != parsed.hash => {
                    return Err(changed("its footer is different"));
                }
                Some(_) => {}
            }
            Ok(parsed.metadata)
        };
        let place = Place::file(about.location.clone());
        read.await.map_err(|error: Error| error.at(place).hint_if_damaged(IF_DAMAGED))
    }

    /// The bytes of a file's footer that agrees with the catalogue. Fails like [`read`](Self::read).
    pub(in crate::source) async fn bytes(&self, file: usize) -> Result<FooterBytes<'a>> {
        let about = &self.catalog.files[file];
        let found = self.find(about).await.and_then(|found| match about.footer_hash() {
            Some(hash) if hash != xxh3_64(&found.bytes) => Err(changed("its footer is different")),
            _ => Ok(found),
        });
        found.map_err(|error| error.at(Place::file(about.location.clone())))
    }

    async fn find(&self, about: &File) -> Result<FooterBytes<'a>> {
        let pin = about.pin();
        if let Some(kept) = self.kept.get(&self.store.address(about), &pin) {
            return Ok(FooterBytes { bytes: kept.bytes, is_read: false, _permit: None });
        }
        let (bytes, _permit) = fetch(self.store, about.volume as usize, &pin, None).await?;
        Ok(FooterBytes { bytes, is_read: true, _permit })
    }
}

impl Store {
    /// Reads the footer by which costs are estimated where no other is read, unless that was done before.
    pub async fn read_sample(&self, catalog: &Catalog) -> Result<()> {
        match catalog.groups.first() {
            Some(first) => self.read_footer(catalog, first.file).await,
            None => Ok(()),
        }
    }

    /// Reads the footer of a file, unless that was done before.
    pub async fn read_footer(&self, catalog: &Catalog, file: usize) -> Result<()> {
        let footer = &catalog.files[file].footer;
        if footer.get().is_some() {
            return Ok(());
        }
        let _turn = self.footer_turns.files[file % FOOTERS_AT_ONCE].lock().await;
        if footer.get().is_some() {
            return Ok(());
        }
        Footers { store: self, catalog, kept: KeptFooters::default() }.read(file).await.map(drop)
    }
}

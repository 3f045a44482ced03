//! Reads the footers of files after the catalogue was made: for the first time, or again for the statistics
//! and other parts that are not kept in memory.

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

/// Reads complete footers of a data set's files, including the statistics, which the catalogue does not keep.
pub struct Footers<'a> {
    store: &'a Store,
    catalog: &'a Catalog,
    kept: KeptFooters,
}

/// The bytes of a footer, and where they come from.
pub(in crate::source) struct FooterBytes<'a> {
    pub(in crate::source) bytes: Bytes,
    /// Whether the bytes were read from the file itself, not from a cache or an index.
    pub(in crate::source) is_read: bool,
    /// The permit that limits the memory of large footers; `None` for a small one.
    _permit: Option<SemaphorePermit<'a>>,
}

impl<'a> Footers<'a> {
    /// Prepares to read footers: from the metadata cache (for remote files) and indexes, or else the files.
    pub async fn open(store: &'a Store, catalog: &'a Catalog) -> Result<Self> {
        let first = catalog.files.first();
        let first = first.map(|file| (store.address(file), file.relative.to_string()));
        let files = catalog.files.iter().map(|file| (store.address(file), file.pin()));
        Ok(Footers { store, catalog, kept: KeptFooters::load(store, first, files).await? })
    }

    /// Reads the footer of the file at this index in [`Catalog::files`]. If the catalogue lacked the footer,
    /// it is added there.
    ///
    /// Fails with `DatasetChanged` if the footer differs from the one in the catalogue, and with the errors
    /// of opening a data set.
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

    /// The bytes of a file's footer. Fails with `DatasetChanged` if its hash differs from the catalogue's.
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
    /// Reads the footer of the first row group's file, unless it has been read. The costs of files whose
    /// footers have not been read are estimated from it.
    pub async fn read_sample(&self, catalog: &Catalog) -> Result<()> {
        match catalog.groups.first() {
            Some(first) => self.read_footer(catalog, first.file).await,
            None => Ok(()),
        }
    }

    /// Reads the footer of a file into the catalogue, unless it is already there.
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

//! An index that one process passes to others as bytes. It has the footers of all files of a data set, which
//! may be in several folders.

use bytes::Bytes;
use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Result};
use futures::{FutureExt, StreamExt, stream};

use super::{Builder, Index, MAX_BYTES};
use crate::catalog::Catalog;
use crate::snapshot::Pin;
use crate::source::footer::{FOOTERS_AT_ONCE, Footers};
use crate::source::store::Store;

/// Collects footers as they are read, for an index that is passed on.
#[derive(Default)]
pub(in crate::source) struct Packing(Builder);

impl Packing {
    /// Adds the footer of the file whose absolute path or URL is `whole`.
    pub(in crate::source) fn add(&mut self, whole: &str, pin: &Pin, footer: Bytes) -> Result<()> {
        self.0.add(whole, pin, footer).or_fail()
    }

    fn finish(self) -> Result<Bytes> {
        let bytes: Bytes = self.0.finish().or_fail()?.into();
        if bytes.len() as u64 > MAX_BYTES {
            let cause = format!("the index would take {} bytes, over the limit of {MAX_BYTES}", bytes.len());
            return Err(Error::new(ErrorKind::TooLarge, cause)
                .hint("write an index beside the data, one for each of several folders"));
        }
        Ok(bytes)
    }

    /// The index of the collected footers, for use in this process.
    pub(in crate::source) fn index(self) -> Result<Index> {
        unpack(self.finish()?)
    }
}

/// Packs the footers of all files whose footers were read when the data set was opened. Footers that are kept
/// on local disk or in an index are not read again.
///
/// Fails like [`Footers::bytes`].
pub async fn pack(store: &Store, catalog: &Catalog) -> Result<Bytes> {
    let footers = Footers::open(store, catalog).await?;
    // Files of a table whose footers were not read are left out: the receiver can do without them, too,
    // because the table's list says enough.
    let were_read = (0..catalog.files.len()).filter(|at| catalog.files[*at].footer.get().is_some());
    let reads = were_read.map(|at| {
        let file = &catalog.files[at];
        let footers = &footers;
        async move { Ok::<_, Error>((store.address(file), file.pin(), footers.bytes(at).await?)) }.boxed()
    });
    let mut read = stream::iter(reads).buffered(FOOTERS_AT_ONCE.max(store.row_groups_at_once()));
    let mut packing = Packing::default();
    while let Some(found) = read.next().await {
        let (whole, pin, footer) = found?;
        packing.add(&whole, &pin, footer.bytes)?;
    }
    packing.finish()
}

/// Reads an index that another process passed on.
///
/// Fails with `Corrupt` if the bytes are damaged, or are not an index.
pub(in crate::source) fn unpack(bytes: Bytes) -> Result<Index> {
    Index::read(String::new(), bytes).map_err(|cause| {
        Error::new(ErrorKind::Corrupt, format!("the index that was handed on cannot be used: {cause}"))
            .hint("hand on the bytes that `Dataset.index()` returned, all of them, between processes of one release")
    })
}

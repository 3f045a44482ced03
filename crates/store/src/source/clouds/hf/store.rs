//! Implements object_store's `ObjectStore` for a data set on the Hugging Face hub, for reading only.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use forebay_base::{Error, ErrorKind};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use http::StatusCode;
use http::header::CONTENT_LENGTH;
use object_store::client::HttpResponse;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error as StoreError, Extensions, GetOptions, GetRange, GetResult,
    GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};

use super::api::{Hub, HubEntry, ListingPage, generic};
use crate::source::wire::content_range;

/// A data set on the hub, at one commit.
#[derive(Clone)]
pub(super) struct HuggingFace {
    hub: Arc<Hub>,
    /// The metadata of files that were listed or looked up. They never change, because the commit is fixed.
    known: Arc<Mutex<HashMap<Path, ObjectMeta>>>,
}

impl HuggingFace {
    pub(super) fn new(hub: Hub) -> Self {
        HuggingFace { hub: Arc::new(hub), known: Arc::default() }
    }

    /// The files and folders below `prefix`, from all pages of the hub's listing.
    fn entries(&self, prefix: Option<&Path>, recursive: bool) -> BoxStream<'static, Result<HubEntry>> {
        let hub = self.hub.clone();
        let first = ListingPage::First(prefix.map(|prefix| prefix.as_ref().to_owned()).unwrap_or_default());
        stream::try_unfold((Some(first), HashSet::new()), move |(page, mut seen)| {
            let hub = hub.clone();
            async move {
                let Some(page) = page else { return Ok::<_, StoreError>(None) };
                let (entries, next) = hub.page(&page, recursive, &mut seen).await?;
                Ok(Some((stream::iter(entries.into_iter().map(Ok)), (next, seen))))
            }
        })
        .try_flatten()
        .boxed()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Path, ObjectMeta>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, entry: &HubEntry) -> Result<ObjectMeta> {
        let meta = meta(entry)?;
        self.known().insert(meta.location.clone(), meta.clone());
        Ok(meta)
    }

    async fn head(&self, location: &Path) -> Result<ObjectMeta> {
        match self.hub.entry(location.as_ref()).await? {
            Some(entry) if entry.is_file() => self.remember(&entry),
            _ => Err(self.missing(location).await),
        }
    }

    async fn missing(&self, location: &Path) -> StoreError {
        let name = self.hub.name();
        let error = Error::new(
            ErrorKind::NotFound,
            format!("there is no file {:?} in the data set {name:?}", location.as_ref()),
        );
        let error = match self.hub.is_converted().await {
            true => error.hint(format!("as Parquet it is at hf://datasets/{name}@refs/convert/parquet")),
            false => error,
        };
        StoreError::NotFound { path: location.to_string(), source: Box::new(error) }
    }
}

/// Converts an entry of the hub to the metadata of an object. The hub gives no modification time, so the hash
/// of the content identifies the version.
fn meta(entry: &HubEntry) -> Result<ObjectMeta> {
    Ok(ObjectMeta {
        location: Path::parse(&entry.path)?,
        last_modified: DateTime::<Utc>::UNIX_EPOCH,
        size: entry.size,
        e_tag: Some(entry.hash().to_owned()),
        version: None,
    })
}

/// The byte range of the file that an answer contains, and the size of the whole file.
fn extent(answer: &HttpResponse) -> Option<(Range<u64>, u64)> {
    if answer.status() != StatusCode::PARTIAL_CONTENT {
        let size = answer.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()?;
        return Some((0..size, size));
    }
    let (range, size) = content_range(answer.headers())?;
    Some((range, size.parse().ok()?))
}

fn header_of(range: &GetRange) -> String {
    match range {
        GetRange::Bounded(range) => format!("bytes={}-{}", range.start, range.end.saturating_sub(1)),
        GetRange::Offset(start) => format!("bytes={start}-"),
        GetRange::Suffix(length) => format!("bytes=-{length}"),
    }
}

fn not_supported(what: &str) -> StoreError {
    let source = Error::new(ErrorKind::Unsupported, format!("{what} is not done on the hub")).into();
    StoreError::NotSupported { source }
}

impl fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HuggingFace({})", self.hub.name())
    }
}

impl fmt::Display for HuggingFace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HuggingFace({})", self.hub.name())
    }
}

#[async_trait]
impl ObjectStore for HuggingFace {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(not_supported("writing"))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(not_supported("writing"))
    }

    /// Reads a file. The metadata in the result lack the hash if the file was neither listed nor looked up,
    /// and no condition asks for it; the commit fixes the content anyway.
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let conditional = options.if_match.is_some()
            || options.if_none_match.is_some()
            || options.if_modified_since.is_some()
            || options.if_unmodified_since.is_some();
        let known = self.known().get(location).cloned();
        let known = match known {
            None if options.head || conditional => Some(self.head(location).await?),
            known => known,
        };
        if let Some(meta) = &known {
            options.check_preconditions(meta)?;
        }
        if let (true, Some(meta)) = (options.head, &known) {
            return Ok(GetResult {
                payload: GetResultPayload::Stream(stream::empty().boxed()),
                range: 0..0,
                meta: meta.clone(),
                attributes: Attributes::default(),
                extensions: Extensions::default(),
            });
        }

        let asked = options.range.as_ref().map(header_of);
        let answer = self.hub.read(location.as_ref(), asked.as_deref()).await?;
        let wrong = |cause: &str| generic(Error::new(ErrorKind::Io, cause));
        let (range, size) =
            extent(&answer).ok_or_else(|| wrong("the hub does not say how long its answer is"))?;
        if let Some(asked) = &options.range {
            let asked = asked.as_range(size).map_err(generic)?;
            if answer.status() != StatusCode::PARTIAL_CONTENT || range != asked {
                return Err(wrong("the hub gave other bytes than were asked for"));
            }
        }
        let meta = known.unwrap_or_else(|| ObjectMeta {
            location: location.clone(),
            last_modified: DateTime::<Utc>::UNIX_EPOCH,
            size,
            e_tag: None,
            version: None,
        });
        Ok(GetResult {
            payload: GetResultPayload::Stream(answer.into_body().bytes_stream().map_err(generic).boxed()),
            meta,
            range,
            attributes: Attributes::default(),
            extensions: Extensions::default(),
        })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.and_then(|_| std::future::ready(Err(not_supported("deleting")))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let files = self.entries(prefix, true).try_filter(|entry| std::future::ready(entry.is_file()));
        let store = self.clone();
        files.and_then(move |entry| std::future::ready(store.remember(&entry))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut entries = self.entries(prefix, false);
        let mut objects = Vec::new();
        let mut folders = BTreeSet::new();
        while let Some(entry) = entries.try_next().await? {
            match entry.is_file() {
                true => objects.push(self.remember(&entry)?),
                false => {
                    folders.insert(Path::parse(&entry.path)?);
                }
            }
        }
        let common_prefixes = folders.into_iter().collect();
        Ok(ListResult { common_prefixes, objects, extensions: Extensions::default() })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(not_supported("copying"))
    }
}

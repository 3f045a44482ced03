//! Reads, lists and writes files in an object store, and retries requests through failures of the network.
//!
//! * [`connection`] has the client, and repeats requests until they are answered,
//! * [`ranges`] turns column chunks into few requests of a good size,
//! * [`transfer`] reads one range: a [`leg`] is one of its requests, and [`trouble`] classifies failures and
//!   decides when to retry,
//! * [`pace`] measures the store, and chooses the number of concurrent requests and the time after which a
//!   request is late.
//!
//! The retries of the `object_store` crate are switched off, because they give up within seconds.

mod connection;
mod leg;
mod pace;
mod ranges;
mod send;
mod transfer;
mod trouble;
mod version;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use forebay_base::{Error, ErrorKind, Result};
use futures::future::try_join_all;
use futures::{FutureExt, StreamExt};
use object_store::list::PaginatedListOptions;
use object_store::path::{DELIMITER, Path};
use object_store::{Attribute, GetOptions, GetRange, ListResult, ObjectMeta, ObjectStoreExt, PutPayload};
use tokio::time::timeout;

use super::clouds::Client;
use super::wire::{EXCHANGE, Exchange};
use connection::silence;
use send::SLOWEST_WRITE;
use transfer::Transfer;
use trouble::{Outage, Trouble};

pub(super) use crate::snapshot::Pin;
pub(super) use connection::Remote;
pub(super) use trouble::changed;

/// The HTTP statuses after which a refused `HEAD` is repeated as a `GET`: the server may refuse only `HEAD`,
/// and only the answer to a `GET` contains a reason.
const HEAD_REFUSED: [u16; 6] = [301, 400, 401, 403, 405, 501];

/// The metadata key by which Hadoop marks an object in Azure's store as a folder.
const HADOOP_FOLDER: &str = "hdi_isfolder";

/// The most consecutive pages of a listing without a new key. Deleted objects can leave such pages, but more
/// of them are taken for an endless listing.
const MAX_PAGES_WITHOUT_NEWS: usize = 1_000;

impl Remote {
    /// Reads byte ranges of a file. The results are in the order of `ranges`, have their full lengths, and
    /// are all from the version in `pin`.
    pub(super) async fn read(&self, pin: &Pin, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let runs = ranges::runs(ranges);
        let read = try_join_all(runs.iter().map(|run| self.read_run(pin, run))).await?;
        let slice = |range: &Range<u64>| {
            if range.start >= range.end {
                return Ok(Bytes::new());
            }
            // Every range is within a run, so this is in bounds.
            let at = runs.partition_point(|run| run.range.end < range.end);
            let run = runs.get(at).zip(read.get(at));
            let (run, bytes) = run.ok_or_else(|| Error::new(ErrorKind::Internal, "a range was not read"))?;
            let from = (range.start - run.range.start) as usize;
            Ok(bytes.slice(from..from + (range.end - range.start) as usize))
        };
        ranges.iter().map(slice).collect()
    }

    async fn read_run(&self, pin: &Pin, run: &ranges::ByteRun) -> Result<Bytes> {
        let length = run.range.end - run.range.start;
        let room = usize::try_from(length)
            .map_err(|_| Error::new(ErrorKind::TooLarge, format!("{length} bytes in one read")))?;
        // All pieces are written into one allocation, so that they need not be copied together.
        let mut rest = BytesMut::with_capacity(room);
        let transfers = run.pieces.iter().map(|piece| {
            let after = rest.split_off((piece.end - piece.start) as usize);
            let slot = std::mem::replace(&mut rest, after);
            Transfer::new(self, pin, piece.clone(), slot).run()
        });
        let mut pieces = try_join_all(transfers.collect::<Vec<_>>()).await?.into_iter();
        let mut whole = pieces.next().unwrap_or_default();
        pieces.for_each(|piece| whole.unsplit(piece));
        Ok(whole.freeze())
    }

    /// Reads the last `bytes` bytes of a file whose size and version are not known yet. Returns them with the
    /// file's metadata.
    pub(super) async fn tail(&self, path: &Path, bytes: u64) -> Result<(ObjectMeta, Bytes)> {
        let _slot = self.pace.slot().await;
        self.patiently(|store| {
            async move {
                let options = GetOptions { range: Some(GetRange::Suffix(bytes)), ..GetOptions::default() };
                let answer = match store.get_opts(path, options).await {
                    // The status 416 (range not satisfiable) means here that the file is empty.
                    Err(_) if answered_with(&[416]) => return Err(own_failure(no_footer())),
                    answer => answer?,
                };
                let (meta, range) = (answer.meta.clone(), answer.range.clone());
                let body = answer.bytes().await?;
                self.traffic.received.add(body.len() as u64);
                self.traffic.wanted.add(body.len() as u64);
                Ok((body.len() as u64 == range.end - range.start).then_some((meta, body)))
            }
            .boxed()
        })
        .await
    }

    /// Looks up the size and version of a file; `None` if the file does not exist.
    pub(super) async fn head(&self, path: &Path) -> Result<Option<ObjectMeta>> {
        let is_http = self.origin.takes_if_match();
        let found = self.patiently(|store| {
            async move {
                match store.head(path).await {
                    // Try a GET: the answer to a HEAD has no body that could give a reason for a refusal, and
                    // some servers do not support HEAD.
                    Err(_) if is_http && answered_with(&HEAD_REFUSED) => {
                        let first = Some(GetRange::Bounded(0..1));
                        let options = GetOptions { range: first, ..GetOptions::default() };
                        store.get_opts(path, options).await.map(|answer| Some(answer.meta))
                    }
                    found => found.map(Some),
                }
            }
            .boxed()
        });
        match found.await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// Whether an empty object in a listing only marks a folder: the lookup of `path` finds nothing, or finds
    /// the metadata by which Hadoop marks a folder in Azure's store. The lookup finds nothing if the object's
    /// key ends in a slash, which `path` lacks. The result is false if the credentials forbid the lookup.
    pub(super) async fn is_folder_mark(&self, path: &Path) -> Result<bool> {
        let said = Attribute::Metadata(HADOOP_FOLDER.into());
        let looked = self.patiently(|store| {
            let options = GetOptions { head: true, ..GetOptions::default() };
            async move { store.get_opts(path, options).await.map(|answer| Some(answer.attributes)) }.boxed()
        });
        match looked.await {
            Ok(attributes) => {
                Ok(attributes.get(&said).is_some_and(|value| value.eq_ignore_ascii_case("true")))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            Err(error) if error.kind() == ErrorKind::Denied => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes an object, replacing an existing one. The time limit grows with the number of bytes.
    pub(super) async fn write(&self, path: &Path, bytes: Bytes) -> Result<()> {
        let _slot = self.pace.slot().await;
        let time = Duration::from_secs(bytes.len() as u64 / SLOWEST_WRITE);
        let put = self.patiently_for(time, |store| {
            let payload = PutPayload::from_bytes(bytes.clone());
            async move { store.put(path, payload).await.map(|_| Some(())) }.boxed()
        });
        put.await
    }

    /// Lists all objects below a prefix, at every depth, ordered by path. After a failure, one page is read
    /// again if the store lists page by page, and otherwise the whole listing.
    pub(super) async fn list(&self, prefix: &Path) -> Result<Vec<ObjectMeta>> {
        let listed = self.list_at_most(prefix, usize::MAX).await?;
        listed.ok_or_else(|| Error::new(ErrorKind::Internal, "a list has too many pages"))
    }

    /// Lists like [`list`](Self::list), but returns `None` if the store lists page by page and the listing
    /// has more than `pages` pages.
    pub(super) async fn list_at_most(&self, prefix: &Path, pages: usize) -> Result<Option<Vec<ObjectMeta>>> {
        match self.client().pages().is_some() {
            true => Ok(self.list_by_page(prefix, None, pages).await?.map(|listed| listed.objects)),
            false => self.list_as_a_whole(prefix).await.map(Some),
        }
    }

    /// Lists the objects and folders directly below a prefix.
    pub(super) async fn list_folder(&self, prefix: &Path) -> Result<ListResult> {
        match self.client().pages().is_some() {
            true => {
                let listed = self.list_by_page(prefix, Some(DELIMITER), usize::MAX).await?;
                listed.ok_or_else(|| Error::new(ErrorKind::Internal, "a list has too many pages"))
            }
            false => {
                let ask = |store: Client| {
                    async move { store.list_with_delimiter(Some(prefix)).await.map(Some) }.boxed()
                };
                self.patiently(ask).await
            }
        }
    }

    /// Reads a listing page by page. Each page is requested by the token that the page before it gave, and
    /// not by the last key, because the keys in S3's directory buckets are not sorted. Returns `None` if
    /// there are more than `most` pages.
    async fn list_by_page(
        &self,
        prefix: &Path,
        delimiter: Option<&'static str>,
        most: usize,
    ) -> Result<Option<ListResult>> {
        let below = (!prefix.is_root()).then(|| format!("{prefix}{DELIMITER}"));
        let mut found: BTreeMap<Path, ObjectMeta> = BTreeMap::new();
        let mut folders: BTreeSet<Path> = BTreeSet::new();
        let mut tokens: HashSet<String> = HashSet::new();
        let (mut token, mut without_news) = (None, 0);
        loop {
            let (below, token_now) = (&below, &token);
            let page = self.patiently(|client| {
                async move {
                    let Some(pages) = client.pages() else { return Ok(None) };
                    let options = PaginatedListOptions {
                        delimiter: delimiter.map(Cow::Borrowed),
                        page_token: token_now.clone(),
                        ..PaginatedListOptions::default()
                    };
                    pages.list_paginated(below.as_deref(), options).await.map(Some)
                }
                .boxed()
            });
            let page = page.await?;
            let known = found.len() + folders.len();
            page.result.objects.into_iter().for_each(|meta| add(&mut found, meta));
            folders.extend(page.result.common_prefixes);
            without_news = if found.len() + folders.len() > known { 0 } else { without_news + 1 };
            let Some(next) = page.page_token.filter(|token| !token.is_empty()) else {
                return Ok(Some(ListResult {
                    objects: found.into_values().collect(),
                    common_prefixes: folders.into_iter().collect(),
                    extensions: page.result.extensions,
                }));
            };
            if tokens.len() + 1 == most {
                return Ok(None);
            }
            if !tokens.insert(next.clone()) || without_news > MAX_PAGES_WITHOUT_NEWS {
                return Err(Error::new(ErrorKind::Io, "the store's listing does not end: it repeats a page")
                    .hint("check the endpoint: the server must page its listings"));
            }
            token = Some(next);
        }
    }

    /// Reads a listing at once, and starts again from the beginning after a failure.
    async fn list_as_a_whole(&self, prefix: &Path) -> Result<Vec<ObjectMeta>> {
        let mut outage = Outage::new(self.limits.retry);
        loop {
            let (client, exchange, stall) =
                (self.client(), Exchange::default(), outage.silence(self.limits.stall));
            self.traffic.requests.add(1);
            let listed = EXCHANGE.scope(exchange.clone(), whole_list(&client, prefix, stall)).await;
            let trouble = match listed {
                Ok(found) => return Ok(found),
                Err(failure) => failure
                    .map_or_else(|| silence(stall), |error| Trouble::from_store_error(&error, &exchange)),
            };
            self.recover(trouble, &client, &mut outage).await?;
        }
    }
}

/// Reads a listing at once, ordered by path. Fails with `None` if nothing arrives for the time `stall`.
async fn whole_list(
    store: &Client,
    prefix: &Path,
    stall: Duration,
) -> Result<Vec<ObjectMeta>, Option<object_store::Error>> {
    let mut found: BTreeMap<Path, ObjectMeta> = BTreeMap::new();
    let mut pages = store.list(Some(prefix));
    while let Some(meta) = timeout(stall, pages.next()).await.map_err(|_| None)? {
        add(&mut found, meta.map_err(Some)?);
    }
    Ok(found.into_values().collect())
}

/// Adds an object to a listing. An empty object with the key `x/`, which marks a folder, has the same path as
/// an object `x`, but must not replace it.
fn add(found: &mut BTreeMap<Path, ObjectMeta>, meta: ObjectMeta) {
    if meta.size > 0 || !found.contains_key(&meta.location) {
        found.insert(meta.location.clone(), meta);
    }
}

/// Whether the last HTTP answer that the current task got has one of these statuses.
fn answered_with(statuses: &[u16]) -> bool {
    EXCHANGE.try_with(Exchange::status).ok().flatten().is_some_and(|status| statuses.contains(&status))
}

/// Wraps an error of this library as an error of object_store, so that it can pass through its functions.
fn own_failure(error: Error) -> object_store::Error {
    object_store::Error::Generic { store: "forebay", source: Box::new(error) }
}

/// The error for an empty file.
pub(super) fn no_footer() -> Error {
    Error::new(ErrorKind::Corrupt, "the file is empty, not even a footer is there")
        .hint("write or copy it again, or leave it out of the locations")
}

#[cfg(test)]
mod tests;

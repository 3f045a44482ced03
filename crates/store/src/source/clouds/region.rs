//! A store for an S3 bucket whose region is unknown. S3 is asked for the region before the first request, and
//! the real store is then built.
//!
//! `resolve_bucket_region` of object_store is not used, because it asks one fixed host and makes its own HTTP
//! client instead of one of `wire`. Most of this file forwards calls to the real store once it is built.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_base::{Error, ErrorKind};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use http::{Method, Request, StatusCode};
use object_store::aws::AmazonS3;
use object_store::client::{HttpClient, HttpRequestBody};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use tokio::sync::OnceCell;

/// The HTTP header in which S3 gives the bucket's region, even when it refuses the request.
const REGION: &str = "x-amz-bucket-region";

type Build = dyn Fn(String) -> forebay_base::Result<AmazonS3> + Send + Sync;

/// A store that looks up the region of its bucket at the first call, and then passes all calls on.
#[derive(Clone)]
pub(super) struct Regional(Arc<Inner>);

struct Inner {
    bucket: String,
    endpoint: String,
    client: HttpClient,
    build: Box<Build>,
    store: OnceCell<AmazonS3>,
}

impl Regional {
    pub(super) fn new(
        bucket: &str,
        client: HttpClient,
        build: impl Fn(String) -> forebay_base::Result<AmazonS3> + Send + Sync + 'static,
    ) -> Self {
        Self::at("https://s3.amazonaws.com", bucket, client, build)
    }

    fn at(
        endpoint: &str,
        bucket: &str,
        client: HttpClient,
        build: impl Fn(String) -> forebay_base::Result<AmazonS3> + Send + Sync + 'static,
    ) -> Self {
        let (bucket, endpoint) = (bucket.to_owned(), endpoint.to_owned());
        Regional(Arc::new(Inner { bucket, endpoint, client, build: Box::new(build), store: OnceCell::new() }))
    }

    async fn store(&self) -> Result<&AmazonS3> {
        self.0.store.get_or_try_init(|| self.0.find()).await
    }
}

impl Inner {
    async fn find(&self) -> Result<AmazonS3> {
        let request = Request::builder()
            .method(Method::HEAD)
            .uri(format!("{}/{}", self.endpoint, self.bucket))
            .body(HttpRequestBody::empty())
            .map_err(generic)?;
        let answer = self.client.execute(request).await.map_err(generic)?;
        let region = answer.headers().get(REGION).and_then(|value| value.to_str().ok());
        match region {
            Some(region) => (self.build)(region.to_owned()).map_err(generic),
            None if answer.status() == StatusCode::NOT_FOUND => {
                let path = self.bucket.clone();
                let source = Error::new(ErrorKind::NotFound, format!("there is no bucket {:?}", self.bucket));
                Err(object_store::Error::NotFound { path, source: Box::new(source) })
            }
            None => Err(generic(
                Error::new(
                    ErrorKind::Io,
                    format!("the region of the bucket {:?} could not be determined", self.bucket),
                )
                .hint("set AWS_REGION, or pass the storage option region"),
            )),
        }
    }
}

fn generic(error: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: Box::new(error) }
}

impl fmt::Debug for Regional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regional({})", self.0.bucket)
    }
}

impl fmt::Display for Regional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AmazonS3({})", self.0.bucket)
    }
}

#[async_trait]
impl ObjectStore for Regional {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store().await?.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store().await?.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store().await?.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store().await?.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.clone().later(move |store| store.delete_stream(locations))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned();
        self.clone().later(move |store| store.list(prefix.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, offset) = (prefix.cloned(), offset.clone());
        self.clone().later(move |store| store.list_with_offset(prefix.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store().await?.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store().await?.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.store().await?.rename_opts(from, to, options).await
    }
}

#[async_trait]
impl PaginatedListStore for Regional {
    async fn list_paginated(
        &self,
        prefix: Option<&str>,
        options: PaginatedListOptions,
    ) -> Result<PaginatedListResult> {
        self.store().await?.list_paginated(prefix, options).await
    }
}

impl Regional {
    /// Returns the stream that `stream` makes from the store, which is built first if needed.
    fn later<T: 'static>(
        self,
        stream: impl FnOnce(&dyn ObjectStore) -> BoxStream<'static, Result<T>> + Send + 'static,
    ) -> BoxStream<'static, Result<T>> {
        stream::once(async move { self.store().await.map(|store| stream(store)) }).try_flatten().boxed()
    }
}

//! A user's own store that panics: the panic is an error with its place, and no thread waits for ever.

use std::fmt;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use forebay::{Dataset, Error, ErrorKind};
use futures::FutureExt;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::data::{BUCKET, FILES, GROUPS, PREFIX, name_of};
use crate::kit::*;

/// The message of the panics.
const WORDS: &str = "the store lost its head";

/// The operation in which a panic happens.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PanicPlace {
    List,
    Head,
    Body,
}

/// A store in memory that panics once: in the given operation of the kind `place`, counted from one.
#[derive(Debug)]
struct Panicking {
    inner: InMemory,
    place: PanicPlace,
    operation: u64,
    counted: AtomicU64,
}

impl Panicking {
    /// A store with the whole bucket.
    fn new(place: PanicPlace, operation: u64) -> Arc<Self> {
        let inner = InMemory::new();
        for file in 0..FILES {
            let bytes = fs::read(BUCKET.join(PREFIX).join(name_of(file))).unwrap();
            let path = Path::from(format!("{PREFIX}/{}", name_of(file)));
            inner.put(&path, Bytes::from(bytes).into()).now_or_never().unwrap().unwrap();
        }
        Arc::new(Panicking { inner, place, operation, counted: AtomicU64::new(0) })
    }

    /// Whether the panic is due in this operation.
    fn strikes(&self, place: PanicPlace) -> bool {
        self.place == place && self.counted.fetch_add(1, Relaxed) + 1 == self.operation
    }
}

impl fmt::Display for Panicking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Panicking")
    }
}

#[async_trait]
impl ObjectStore for Panicking {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        assert!(!self.strikes(PanicPlace::Head), "{WORDS}");
        let mut answer = self.inner.get_opts(location, options).await?;
        if self.strikes(PanicPlace::Body) {
            let half = (answer.range.end - answer.range.start) as usize / 2;
            let body =
                std::mem::replace(&mut answer.payload, GetResultPayload::Stream(stream::empty().boxed()));
            let GetResultPayload::Stream(body) = body else { unreachable!("memory gives streams") };
            let cut = body.map(move |bytes| bytes.map(|bytes| bytes.slice(..half)));
            let broken = stream::once(async { panic!("{WORDS}") });
            answer.payload = GetResultPayload::Stream(cut.chain(broken).boxed());
        }
        Ok(answer)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        assert!(!self.strikes(PanicPlace::List), "{WORDS}");
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        assert!(!self.strikes(PanicPlace::List), "{WORDS}");
        self.inner.list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn is_the_panic(error: &Error, case: &str) {
    assert_eq!(error.kind(), ErrorKind::Internal, "{case}: {error}");
    assert!(error.to_string().contains(WORDS), "{case}: {error}");
}

#[test]
fn a_store_that_panics_while_a_data_set_is_opened_is_an_error() {
    for place in [PanicPlace::List, PanicPlace::Head, PanicPlace::Body] {
        let error = Dataset::from_store(Panicking::new(place, 1), PREFIX).unwrap_err();
        is_the_panic(&error, &format!("{place:?}"));
    }
}

#[test]
fn a_store_that_panics_in_an_epoch_ends_it_with_an_error_and_not_the_next_one() {
    let footers = {
        let counted = Panicking::new(PanicPlace::Head, u64::MAX);
        Dataset::from_store(counted.clone(), PREFIX).unwrap();
        counted.counted.load(Relaxed)
    };
    for place in [PanicPlace::Head, PanicPlace::Body] {
        for read in 1..=(FILES * GROUPS) as u64 {
            let case = format!("{place:?}, read {read}");
            let dataset = Dataset::from_store(Panicking::new(place, footers + read), PREFIX).unwrap();
            let loader = shuffled(&dataset).build().unwrap();
            let started = Instant::now();
            let broken = run(loader.epoch(0));
            let error = broken.is_loud(&case);
            is_the_panic(error, &case);
            assert!(error.place().row_group.is_some(), "{case}: {error}");
            assert!(started.elapsed() < GRACE, "{case}: {:?}", started.elapsed());
            run(loader.epoch(0)).is_right(&format!("{case}, afterwards"));
        }
    }
}

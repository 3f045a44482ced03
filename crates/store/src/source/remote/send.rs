//! Uploads local files to an object store: in one request, or in parts if they are large.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use bytes::Bytes;
use forebay_arrow::fail::OrFail;
use forebay_base::Result;
use futures::FutureExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use super::connection::Remote;
use crate::source::clouds::Client;

/// The slowest expected upload in bytes per second. The time limit of a write follows from it.
pub(super) const SLOWEST_WRITE: u64 = 1 << 20;

/// The size in bytes of the parts of an upload; a file that is no longer is sent in one request. S3 accepts
/// 10,000 parts, so a file can have 640 GB.
const PART_BYTES: u64 = 64 << 20;

impl Remote {
    /// Uploads a local file, replacing an existing object. After a failure, the file is sent again from the
    /// beginning.
    pub(in crate::source) async fn send(&self, path: &Path, file: &std::path::Path) -> Result<()> {
        let length = std::fs::metadata(file).or_fail()?.len();
        if length <= PART_BYTES {
            return self.write(path, Bytes::from(std::fs::read(file).or_fail()?)).await;
        }
        let _slot = self.pace.slot().await;
        let time = Duration::from_secs(length / SLOWEST_WRITE);
        self.patiently_for(time, |store| {
            parts(store, path, file, PART_BYTES).map(|sent| sent.map(Some)).boxed()
        })
        .await
    }
}

/// Uploads a file in parts of `part` bytes. After a failure, the parts that were sent are discarded.
async fn parts(store: Client, path: &Path, file: &std::path::Path, part: u64) -> object_store::Result<()> {
    let failed = |error| object_store::Error::Generic { store: "forebay", source: Box::new(error) };
    let opened = File::open(file).map_err(|error: std::io::Error| failed(error))?;
    let length = opened.metadata().map_err(failed)?.len();
    let mut upload = store.put_multipart(path).await?;
    let sent = async {
        let mut at = 0;
        while at < length {
            let mut bytes = vec![0; part.min(length - at) as usize];
            opened.read_exact_at(&mut bytes, at).map_err(failed)?;
            at += bytes.len() as u64;
            upload.put_part(PutPayload::from(bytes)).await?;
        }
        upload.complete().await
    };
    match sent.await {
        Ok(_) => Ok(()),
        Err(error) => {
            let _ = upload.abort().await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

    use std::sync::Arc;

    use object_store::ObjectStore;
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn an_object_of_parts_is_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        let bytes: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&file, &bytes).unwrap();
        let stored: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("folder/object");
        let read = async || stored.get(&path).await.unwrap().bytes().await.unwrap();
        for part in [7, 1999, 4000, 9999] {
            parts(Client::whole(stored.clone()), &path, &file, part).await.unwrap();
            assert_eq!(read().await, bytes, "parts of {part}");
            stored.delete(&path).await.unwrap();
        }
        Remote::of_user(stored.clone(), Arc::default()).send(&path, &file).await.unwrap();
        assert_eq!(read().await, bytes, "in one request");
        let gone = temp.path().join("gone");
        assert!(parts(Client::whole(stored.clone()), &path, &gone, 5).await.is_err());
    }
}

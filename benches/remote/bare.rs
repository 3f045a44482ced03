//! The bare downloader: it requests large byte ranges, several at once, each into its own memory.

use std::hint::black_box;
use std::ops::Range;
use std::path::Path;

use bytes::BytesMut;
use futures::{StreamExt, stream};
use reqwest::Client;
use reqwest::header::RANGE;
use rustls::crypto::ring;

/// The number of bytes that one request asks for.
const PIECE: u64 = 8 << 20;

/// A byte range of the file at a URL.
pub(crate) type Piece = (String, Range<u64>);

/// Cuts all files of a folder that is served at `url` into pieces.
pub(crate) fn pieces(folder: &Path, url: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for entry in folder.read_dir().expect("the folder of the data") {
        let entry = entry.expect("a file of the data");
        let length = entry.metadata().expect("its size").len();
        let file = format!("{url}/bucket/{}", entry.file_name().to_string_lossy());
        let cuts = (0..length).step_by(PIECE as usize);
        pieces.extend(cuts.map(|start| (file.clone(), start..(start + PIECE).min(length))));
    }
    pieces
}

/// Gets all pieces with `at_once` requests under way; returns the number of bytes that arrived.
#[allow(clippy::disallowed_methods, reason = "the bench's own runtime, on its own thread")]
pub(crate) fn download(pieces: Vec<Piece>, at_once: usize) -> u64 {
    // The client needs a crypto provider even if it never speaks TLS. The second download finds it installed.
    let _ = ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    runtime.block_on(async {
        let client = Client::builder().no_proxy().build().expect("a client");
        stream::iter(pieces)
            .map(|piece| tokio::spawn(get(client.clone(), piece)))
            .buffer_unordered(at_once)
            .map(|read| read.expect("no panic"))
            .fold(0, async |sum, bytes| sum + bytes)
            .await
    })
}

async fn get(client: Client, (url, range): Piece) -> u64 {
    let asked = client.get(url).header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
    let mut answer = asked.send().await.expect("an answer");
    let mut read = BytesMut::with_capacity((range.end - range.start) as usize);
    while let Some(bytes) = answer.chunk().await.expect("bytes") {
        read.extend_from_slice(&bytes);
    }
    assert_eq!(read.len() as u64, range.end - range.start);
    black_box(&read).len() as u64
}

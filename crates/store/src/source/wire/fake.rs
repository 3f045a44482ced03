//! A web server for tests: it listens on loopback, answers each request with the result of a function, and
//! records the requests.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it was received.
#[derive(Clone, Debug)]
pub(in crate::source) struct ReceivedRequest {
    pub(in crate::source) method: String,
    /// The path with its query.
    pub(in crate::source) path: String,
    headers: HashMap<String, String>,
    pub(in crate::source) body: String,
}

impl ReceivedRequest {
    pub(in crate::source) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A response of the fake server: its status, extra headers and body.
pub(in crate::source) type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

pub(in crate::source) struct Fake {
    pub(in crate::source) port: u16,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Fake {
    /// Starts the server, which runs until the test's tokio runtime ends.
    pub(in crate::source) async fn serve(
        answer: impl Fn(&ReceivedRequest) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, answer.clone(), log.clone()));
            }
        });
        Fake { port, asked }
    }

    pub(in crate::source) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests that the server has received so far.
    pub(in crate::source) fn asked(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().clone()
    }
}

/// The first byte that a TLS client sends. This server does not speak TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// Receives one request, records it and sends the answer.
async fn converse<F: Fn(&ReceivedRequest) -> Answer>(
    mut stream: TcpStream,
    answer: Arc<F>,
    log: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        let more = stream.read_buf(&mut bytes).await.unwrap_or(0);
        if more == 0 || bytes.first() == Some(&TLS_HANDSHAKE) {
            let _ = stream.write_all(b"HTTP/1.1 400 Word\r\n\r\n").await;
            return;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let mut lines = text.lines();
    let mut first = lines.next().unwrap().split(' ').map(str::to_owned);
    let (method, path) = (first.next().unwrap(), first.next().unwrap());
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < head + 4 + length {
        stream.read_buf(&mut bytes).await.unwrap();
    }
    let body = String::from_utf8(bytes[head + 4..].to_vec()).unwrap();
    let asked = ReceivedRequest { method, path, headers, body };
    let (status, headers, body) = answer(&asked);
    let is_head = asked.method == "HEAD";
    log.lock().unwrap().push(asked);
    let mut reply = format!("HTTP/1.1 {status} Word\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| ["Content-Length", "Transfer-Encoding"].contains(name)) {
        write!(reply, "Content-Length: {}\r\n", body.len()).unwrap();
    }
    for (name, value) in headers {
        write!(reply, "{name}: {value}\r\n").unwrap();
    }
    reply += "\r\n";
    let _ = stream.write_all(reply.as_bytes()).await;
    if !is_head {
        let _ = stream.write_all(&body).await;
    }
    let _ = stream.shutdown().await;
}

/// The response to a `GET` of `bytes`: the range that the request's `Range` header names, or all of them.
pub(in crate::source) fn ranged(asked: &ReceivedRequest, bytes: &[u8]) -> Answer {
    let Some(range) = asked.header("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return (200, Vec::new(), bytes.to_vec());
    };
    let (start, last) = range.split_once('-').unwrap();
    let start = start.parse().unwrap();
    let end = last.parse().map_or(bytes.len(), |last: usize| bytes.len().min(last + 1));
    if start >= bytes.len() {
        return (416, vec![("Content-Range", format!("bytes */{}", bytes.len()))], Vec::new());
    }
    let range = format!("bytes {start}-{}/{}", end - 1, bytes.len());
    (206, vec![("Content-Range", range)], bytes[start..end].to_vec())
}

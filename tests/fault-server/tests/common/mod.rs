//! A client that interprets nothing, and so shows exactly what was on the wire.
#![allow(dead_code, clippy::unwrap_used, reason = "shared by several tests, and a helper of a test stops it")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fault_server::{Builder, FaultServer};
use tempfile::TempDir;

/// How long to wait after a whole answer before the connection counts as silent.
const SILENCE: Duration = Duration::from_millis(500);
/// How long to wait after a partial answer before the connection counts as silent, so that a busy machine
/// does not look like a stalled server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);

/// How the connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The connection was closed in an orderly way (FIN).
    Closed,
    /// The connection was reset (RST).
    Reset,
    /// The connection stayed open, and nothing came for a while.
    Silent,
}

/// Everything that came after a request.
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
    /// The time from the request to the first byte.
    pub(crate) first_byte: Duration,
    /// The number of reads that brought bytes.
    pub(crate) parts: usize,
}

impl Seen {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

pub(crate) struct RawConnection(pub(crate) TcpStream);

impl RawConnection {
    pub(crate) fn to(address: SocketAddr) -> RawConnection {
        RawConnection(TcpStream::connect(address).unwrap())
    }

    /// Sends `line` (such as `GET /bucket/key`) with these headers, and reads until the end or a silence.
    pub(crate) fn ask(&mut self, line: &str, headers: &[(&str, &str)]) -> Seen {
        let start = Instant::now();
        self.send(line, headers);
        self.see_since(start)
    }

    pub(crate) fn send(&mut self, line: &str, headers: &[(&str, &str)]) {
        let mut head = format!("{line} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        // An error can be ignored: if the connection was reset, the next read shows it.
        let _ = self.0.write_all(format!("{head}\r\n").as_bytes());
    }

    pub(crate) fn see(&mut self) -> Seen {
        self.see_since(Instant::now())
    }

    /// Reads until the end or a silence; the request was sent after `start`.
    fn see_since(&mut self, start: Instant) -> Seen {
        let (mut bytes, mut first_byte, mut parts, mut part) = (Vec::new(), None, 0, vec![0; 1 << 20]);
        let end = loop {
            let patience = if is_whole(&bytes) { SILENCE } else { PATIENCE };
            self.0.set_read_timeout(Some(patience)).unwrap();
            match self.0.read(&mut part) {
                Ok(0) => break End::Closed,
                Ok(read) => {
                    first_byte.get_or_insert(start.elapsed());
                    bytes.extend(&part[..read]);
                    parts += 1;
                }
                // The process was stopped for a while, or got a signal.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break End::Reset,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    break End::Silent;
                }
                Err(error) => panic!("{error}"),
            }
        };
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
        let body = bytes.split_off(head);
        let head = String::from_utf8(bytes).unwrap();
        Seen { head, body, end, first_byte: first_byte.unwrap_or(start.elapsed()), parts }
    }
}

/// Whether the bytes are a head and a body of the announced length.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let lines = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let announced = lines.lines().find_map(|line| line.strip_prefix("content-length: "));
    announced.is_some_and(|length| length.parse().is_ok_and(|length: usize| bytes.len() - head - 4 >= length))
}

/// Ten bytes that show their own offsets.
pub(crate) const DIGITS: &[u8] = b"0123456789";

/// A bucket with the object `dir/digits`.
pub(crate) fn bucket() -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join("dir")).unwrap();
    std::fs::write(dir.path().join("dir/digits"), DIGITS).unwrap();
    dir
}

pub(crate) fn builder(dir: &TempDir) -> Builder {
    FaultServer::builder().folder("bucket", dir.path())
}

pub(crate) fn server(dir: &TempDir) -> FaultServer {
    builder(dir).start().unwrap()
}

/// Sends a request over a new connection.
pub(crate) fn ask(server: &FaultServer, line: &str, headers: &[(&str, &str)]) -> Seen {
    RawConnection::to(server.address()).ask(line, headers)
}

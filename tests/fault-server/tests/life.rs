//! The link, outages, the end of a server, and the program.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]
#![allow(clippy::disallowed_methods, reason = "a test waits for another process")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use fault_server::{Latency, Link, Outage};

/// Reads `bytes=0-` of `bucket/long` over several `connections` at the same time. Returns the seconds until
/// the last byte.
fn seconds_to_read(address: SocketAddr, length: usize, connections: usize) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                let mut wire = RawConnection::to(address);
                wire.0.set_read_timeout(None).unwrap();
                wire.send("GET /bucket/long", &[("Connection", "close")]);
                let mut read = Vec::with_capacity(length + 1_000);
                wire.0.read_to_end(&mut read).unwrap();
                assert!(read.len() > length);
            });
        }
    });
    start.elapsed().as_secs_f64()
}

#[test]
fn the_rate_of_the_link_is_kept_by_all_connections_together() {
    let dir = bucket();
    fs::write(dir.path().join("long"), vec![1; 10_000_000]).unwrap();
    for (connections, link, expected) in [
        (1, Link { rate: Some(20_000_000), ..Link::default() }, 0.5),
        (4, Link { rate: Some(40_000_000), ..Link::default() }, 1.0),
        (2, Link { rate_per_connection: Some(10_000_000), ..Link::default() }, 1.0),
    ] {
        let server = builder(&dir).link(link).start().unwrap();
        // The best of some runs counts, since the machine may be busy; a run that is faster than the rate is
        // always wrong.
        let is_kept = (0..30).any(|_| {
            let seconds = seconds_to_read(server.address(), 10_000_000, connections);
            assert!(seconds >= 0.95 * expected, "{seconds} s, not {expected}: {link:?}");
            // A rate per connection that all connections share would take twice as long.
            seconds < 1.8 * expected
        });
        assert!(is_kept, "more than {expected} s: {link:?}");
    }
}

#[test]
fn a_slow_link_is_smooth() {
    let dir = bucket();
    fs::write(dir.path().join("long"), vec![1; 1_000_000]).unwrap();
    let rate = 1_000_000;
    let server = builder(&dir).link(Link { rate: Some(rate), ..Link::default() }).start().unwrap();
    let mut wire = RawConnection::to(server.address());
    let (start, mut read, mut part) = (Instant::now(), 0, vec![0; 1 << 20]);
    wire.send("GET /bucket/long", &[]);
    let mut worst = 0.0f64;
    while read < 1_000_000 {
        read += wire.0.read(&mut part).unwrap();
        worst = worst.max(read as f64 / rate as f64 - start.elapsed().as_secs_f64());
    }
    assert!(worst < 0.05, "{worst} s ahead of the rate");
}

#[test]
fn the_first_byte_comes_when_it_is_drawn_to() {
    let dir = bucket();
    let first_byte = Some(Latency::constant(Duration::from_millis(80)));
    let server = builder(&dir).link(Link { first_byte, ..Link::default() }).start().unwrap();
    for line in ["GET /bucket/dir/digits", "HEAD /bucket/dir/digits", "GET /bucket?list-type=2"] {
        let waited = ask(&server, line, &[]).first_byte.as_millis();
        assert!((79..60_000).contains(&waited), "{line}: {waited} ms");
    }
}

/// Connects again and again until the outcome is `expected`. It pauses in between: a full backlog delays a
/// connection by a second, and the expected state may be over by then.
fn connecting_comes_to(address: SocketAddr, expected: Result<(), ErrorKind>) {
    let patience = Instant::now();
    loop {
        let outcome = TcpStream::connect(address).map(drop).map_err(|error| error.kind());
        if outcome == expected {
            return;
        }
        assert!(patience.elapsed() < Duration::from_secs(120), "{outcome:?}, not {expected:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_outage_resets_who_is_there_and_refuses_who_comes_until_it_ends() {
    let dir = bucket();
    let server = server(&dir);
    let mut there = RawConnection::to(server.address());
    assert_eq!(there.ask("GET /bucket/dir/digits", &[]).status(), 200);
    server.outage(Some(Outage::Refuse));
    assert_eq!(there.see().end, End::Reset);
    connecting_comes_to(server.address(), Err(ErrorKind::ConnectionRefused));
    server.outage(None);
    connecting_comes_to(server.address(), Ok(()));
    assert_eq!(ask(&server, "GET /bucket/dir/digits", &[]).status(), 200);
}

#[test]
fn an_outage_can_reset_and_count_who_comes() {
    let dir = bucket();
    let server = server(&dir);
    server.outage(Some(Outage::Reset));
    for _ in 0..5 {
        assert_eq!(RawConnection::to(server.address()).see().end, End::Reset);
    }
    let stats = server.stats();
    assert_eq!((stats.connections, stats.requests, stats.faults), (5, 0, 5));
    server.outage(None);
    assert_eq!(ask(&server, "GET /bucket/dir/digits", &[]).status(), 200);
}

fn threads_and_files() -> (usize, usize) {
    let count = |folder| fs::read_dir(folder).map_or(0, Iterator::count);
    (count("/proc/self/task"), count("/proc/self/fd"))
}

#[test]
fn dropping_a_server_frees_its_port_its_connections_and_its_threads() {
    // The test runs in a separate process, because other tests have threads and files, too.
    const ALONE: &str = "FAULT_SERVER_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "dropping_a_server_frees_its_port_its_connections_and_its_threads";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let dir = bucket();
    let before = threads_and_files();
    let frees_its_port = || {
        let server = server(&dir);
        let address = server.address();
        let mut stalled = RawConnection::to(address);
        server.add(fault_server::Match::get(), fault_server::Fault::StallBeforeHead { lasting: None });
        stalled.ask("GET /bucket/dir/digits", &[]);
        let start = Instant::now();
        drop(server);
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        assert_ne!(stalled.see().end, End::Silent);
        drop(stalled);
        let refused = TcpStream::connect(address).map_err(|error| error.kind()).err();
        refused == Some(ErrorKind::ConnectionRefused)
    };
    // Another program may take a port as soon as it is free.
    assert!((0..3).any(|_| frees_its_port()));
    let patience = Instant::now();
    while threads_and_files() != before {
        let left = threads_and_files();
        assert!(patience.elapsed() < Duration::from_secs(30), "{left:?}, not {before:?}");
        thread::yield_now();
    }
}

/// The program, which is ended when this value is dropped.
struct RunningProgram(Child, SocketAddr);

impl RunningProgram {
    fn start(args: &[&str]) -> RunningProgram {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fault-server"));
        let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().parse().unwrap();
        RunningProgram(child, address)
    }

    fn post(&self, path: &str, body: &str) -> Seen {
        let mut wire = RawConnection::to(self.1);
        wire.send(&format!("POST {path}"), &[("Content-Length", &body.len().to_string())]);
        std::io::Write::write_all(&mut wire.0, body.as_bytes()).unwrap();
        wire.see()
    }

    fn get(&self, path: &str) -> Seen {
        RawConnection::to(self.1).ask(&format!("GET {path}"), &[])
    }

    /// Asks again until `expected` is the answer: the program learns a little later than its client that a
    /// connection ended.
    fn answer_comes_to(&self, path: &str, expected: &str) {
        let patience = Instant::now();
        loop {
            let answer = self.get(path).text().to_string();
            if answer == expected {
                return;
            }
            assert!(patience.elapsed() < Duration::from_secs(30), "{answer}, not {expected}");
            thread::yield_now();
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_program_is_asked_and_told_by_http() {
    let dir = bucket();
    let log = dir.path().join("requests.jsonl");
    let folder = format!("bucket={}", dir.path().display());
    let program =
        RunningProgram::start(&["--folder", &folder, "--errors", "0:503", "--log", log.to_str().unwrap()]);
    let digits = "/bucket/dir/digits";
    assert_eq!(program.get(digits).body, DIGITS);
    let stats =
        r#"{"connections":1,"open":1,"requests":1,"gets":1,"heads":0,"lists":0,"bytes_sent":10,"faults":0}"#;
    program.answer_comes_to("/_stats", stats);

    let rule = r#"{"when": {"operation": "get", "from": 2, "times": 1}, "then": {"status": {"code": 429}}}"#;
    assert_eq!(program.post("/_rules", rule).status(), 200);
    assert_eq!(program.post("/_rules", r#"{"when": {}, "then": "explode"}"#).status(), 400);
    assert_eq!([1, 2, 3].map(|_| program.get(digits).status()), [200, 429, 200]);
    assert_eq!(program.get("/_log").text().lines().count(), 4);
    program.get("/_reset");
    assert_eq!(program.get("/_log").text().trim(), "");
    assert_eq!([1, 2, 3].map(|_| program.get(digits).status()), [200, 429, 200]);

    assert_eq!(program.post("/_credentials", r#"{"access_key_id": "AKIA1"}"#).status(), 200);
    assert_eq!(program.get(digits).status(), 403);
    assert_eq!(program.post("/_credentials", "null").status(), 200);
    assert_eq!(program.post("/_etag", r#"{"path": "bucket/dir/digits", "etag": "v2"}"#).status(), 200);
    assert_eq!(program.get(digits).header("etag"), Some("\"v2\""));

    assert_eq!(program.post("/_outage", r#"{"kind": "refuse", "lasting": 20}"#).status(), 200);
    connecting_comes_to(program.1, Err(ErrorKind::ConnectionRefused));
    connecting_comes_to(program.1, Ok(()));
    let lines = fs::read_to_string(&log).unwrap();
    let statuses: Vec<_> =
        lines.lines().filter_map(|line| line.split("\"status\":").nth(1)?.get(..3)).collect();
    assert_eq!(statuses, ["200", "200", "429", "200", "200", "429", "200", "403", "200"]);
}

#[test]
fn the_program_ends_when_its_standard_input_is_closed() {
    let dir = bucket();
    let folder = format!("bucket={}", dir.path().display());
    let mut program = RunningProgram::start(&["--folder", &folder]);
    drop(program.0.stdin.take());
    let patience = Instant::now();
    while program.0.try_wait().unwrap().is_none() {
        assert!(patience.elapsed() < Duration::from_secs(30), "it still runs");
        thread::yield_now();
    }
    assert!(program.0.try_wait().unwrap().unwrap().success());
}

//! The fault server in a process of its own: this same program, started again.
//!
//! The first line that it prints is its URL. It answers each line that it receives with what it did since the
//! previous one, and ends when its standard input closes.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use fault_server::{Fault, FaultServer, Latency, Match};
use forebay::Dataset;

use crate::ROUNDS;

/// The first word of the command line that starts a server; the folder, the link and the seed follow.
const SERVE: &str = "--serve";

/// The bytes a second of the distant link: what a small virtual machine gets from an object store.
const RATE: u64 = 200_000_000;
/// The time to the first byte: the median, and the 99th percentile.
const FIRST_BYTE: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(300));
/// How often an answer is late (one in 50), and by how much. Every 50th answer is late; if they were drawn at
/// random, a short run might have none.
const LATE: (u64, Duration) = (50, Duration::from_secs(2));
/// Only answers before this one can be late; no run makes as many requests.
const LATE_UNTIL: u64 = 1_000;

/// The link between reader and server.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Link {
    /// Loopback, without limits.
    Loopback,
    /// A delay before the first byte, and a limited rate.
    Far,
    /// The same delay and rate, and some late answers.
    FarAndLate,
}

impl Link {
    const ALL: [(&str, Link); 3] =
        [("loopback", Link::Loopback), ("far", Link::Far), ("late", Link::FarAndLate)];

    fn word(self) -> &'static str {
        Link::ALL.iter().find(|(_, link)| *link == self).map_or("", |(word, _)| word)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Loopback => write!(f, "loopback as it is"),
            _ => {
                let (median, p99) = FIRST_BYTE;
                write!(f, "first byte after {median:?} (p99 {p99:?}), {} MB/s at most", RATE / 1_000_000)?;
                if *self == Link::FarAndLate {
                    write!(f, ", one answer in {} late by {:?}", LATE.0, LATE.1)?;
                }
                Ok(())
            }
        }
    }
}

/// The work of a server since it was last asked.
pub(crate) struct Served {
    /// The bytes of bodies that it sent.
    pub(crate) bytes: u64,
    /// The number of answers that it delayed.
    pub(crate) late: u64,
}

/// A server process that ends when this is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    process: Child,
    /// The server's standard input, which is closed to end it.
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Server {
    pub(crate) fn start(folder: &Path, link: Link, seed: u64) -> Server {
        let mut process = Command::new(env::current_exe().expect("this program"))
            .args([SERVE.as_ref(), folder, link.word().as_ref(), seed.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program, started again");
        let orders = process.stdin.take();
        let mut answers = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let url = answers.next().expect("a line").expect("its URL");
        Server { url, process, orders, answers }
    }

    pub(crate) fn served(&mut self) -> Served {
        let mut orders = self.orders.as_ref().expect("a server that runs");
        orders.write_all(b"\n").expect("a server that listens");
        let line = self.answers.next().expect("a line").expect("two numbers");
        let (bytes, late) = line.split_once(' ').expect("two numbers");
        Served { bytes: bytes.parse().expect("a number"), late: late.parse().expect("a number") }
    }

    /// Opens the data set that it serves: finds its files and reads their footers, and nothing else.
    pub(crate) fn open(&self) -> Dataset {
        let options = [
            ("aws_endpoint_url", self.url.as_str()),
            ("aws_access_key_id", "bench"),
            ("aws_secret_access_key", "bench"),
            ("aws_region", "us-east-1"),
            ("metadata_cache", "off"),
        ];
        let options: BTreeMap<String, String> =
            options.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Dataset::open_with_options("s3://bucket/", &options).expect("the data set")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.process.wait();
    }
}

/// Whether this process was started as a server.
pub(crate) fn is_wanted() -> bool {
    env::args().nth(1).is_some_and(|word| word == SERVE)
}

/// Serves as the command line says, until its standard input closes.
pub(crate) fn serve() {
    let mut words = env::args().skip(2);
    let mut word = || words.next().expect("folder, link and seed");
    let (folder, link, seed) = (word(), word(), word());
    let (_, link) = *Link::ALL.iter().find(|(known, _)| *known == link).expect("a link");
    let seed: u64 = seed.parse().expect("a number");
    let mut builder = FaultServer::builder().folder("bucket", folder).seed(seed);
    if link != Link::Loopback {
        let first_byte = Some(Latency::log_normal(FIRST_BYTE.0, FIRST_BYTE.1));
        builder = builder.link(fault_server::Link { first_byte, rate: Some(RATE), ..Default::default() });
    }
    if link == Link::FarAndLate {
        // Each round, whose number is the seed, delays different answers.
        for nth in (1 + seed * LATE.0 / ROUNDS..LATE_UNTIL).step_by(LATE.0 as usize) {
            builder = builder.rule(Match::get().nth(nth), Fault::delay(LATE.1));
        }
    }
    let server = builder.start().expect("a free port");
    println!("{}", server.url());
    for _ in stdin().lines() {
        let stats = server.stats();
        // The counters are reset before the answer, so that requests after it belong to the next count.
        server.reset();
        println!("{} {}", stats.bytes_sent, stats.faults);
    }
}

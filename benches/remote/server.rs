//! The fault server in a process of its own: this very program, started again.
//!
//! The first line that it prints is its URL. Each line that it is sent is answered with what it did since the one before;
//! it ends when nobody can send any more.

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

/// The first word of the command line that starts a server; folder, link and seed follow.
const SERVE: &str = "--serve";

/// Bytes a second over the link that is not loopback alone: what a virtual machine of few processors gets of a store.
const RATE: u64 = 200_000_000;
/// Time to the first byte: the median, and what one in a hundred exceeds.
const FIRST_BYTE: (Duration, Duration) = (Duration::from_millis(30), Duration::from_millis(300));
/// One answer in so many is late by so much: these and not a share at random, of which few requests may meet none.
const LATE: (u64, Duration) = (50, Duration::from_secs(2));
/// Answers after this many are on time: more than anyone asks for.
const LATE_UNTIL: u64 = 1_000;

/// What lies between reader and server.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Link {
    /// Nothing.
    Loopback,
    /// A first byte that takes its time, and a rate.
    Far,
    /// The same, with answers that come late.
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

/// What a server did since it was last asked.
pub(crate) struct Served {
    /// Bytes of bodies that it handed out.
    pub(crate) bytes: u64,
    /// Answers that it held back.
    pub(crate) late: u64,
}

/// A server that ends with this.
pub(crate) struct Server {
    pub(crate) url: String,
    process: Child,
    /// Taken to end it.
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

    /// The data set that it serves: its files found, their footers read, and nothing else.
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

/// Whether this process is to be a server.
pub(crate) fn is_wanted() -> bool {
    env::args().nth(1).is_some_and(|word| word == SERVE)
}

/// Serves as the command line says, until nobody listens.
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
        // Other ones in each round.
        for nth in (1 + seed * LATE.0 / ROUNDS..LATE_UNTIL).step_by(LATE.0 as usize) {
            builder = builder.rule(Match::get().nth(nth), Fault::delay(LATE.1));
        }
    }
    let server = builder.start().expect("a free port");
    println!("{}", server.url());
    for _ in stdin().lines() {
        let stats = server.stats();
        // Before the answer: what is asked after it belongs to the next.
        server.reset();
        println!("{} {}", stats.bytes_sent, stats.faults);
    }
}

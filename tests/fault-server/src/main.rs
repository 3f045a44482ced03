//! The server as a program, for tests and benchmarks in other languages.
#![allow(clippy::print_stdout, reason = "the first line is the URL")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use fault_server::{Credentials, Fault, FaultServer, Latency, Link, Match};

/// Serves folders as an S3-shaped object store on loopback, and misbehaves on command.
///
/// The first line on standard output is its URL. It ends when it is killed, and, where its standard input is
/// a pipe, when that is closed. GET /_stats gives sums, /_reset begins anew; src/control.rs lists what else
/// can be asked.
#[derive(Parser)]
#[command(name = "fault-server", version)]
struct Args {
    /// A folder and the bucket that it is served as
    #[arg(long, value_name = "BUCKET=DIR", required = true, value_parser = folder)]
    folder: Vec<(String, PathBuf)>,
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Threads that serve
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Time to the first byte of an answer: half of them are below
    #[arg(long, value_name = "MS")]
    first_byte_median_ms: Option<f64>,
    /// Time to the first byte of an answer: one in a hundred is above; default ten times the median
    #[arg(long, value_name = "MS", requires = "first_byte_median_ms")]
    first_byte_p99_ms: Option<f64>,
    /// Megabytes (10^6) per second, over all connections
    #[arg(long, value_name = "MB")]
    rate_mb: Option<f64>,
    /// Megabytes (10^6) per second of one connection
    #[arg(long, value_name = "MB")]
    connection_rate_mb: Option<f64>,
    /// A share of the requests, and the status they are answered with
    #[arg(long, value_name = "SHARE:STATUS", value_parser = share::<u16>)]
    errors: Vec<(f64, u16)>,
    /// A share of the requests, and how much later they are answered
    #[arg(long, value_name = "SHARE:MS", value_parser = share::<f64>)]
    slow: Vec<(f64, f64)>,
    /// Keys a page of a list at most
    #[arg(long, default_value_t = 1000)]
    page: usize,
    /// The seed of all random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The access key id that requests must carry
    #[arg(long, value_name = "ID")]
    access_key_id: Option<String>,
    /// The session token that requests must carry
    #[arg(long, value_name = "TOKEN", requires = "access_key_id")]
    session_token: Option<String>,
    /// Writes each request to this file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn main() -> io::Result<()> {
    let server = start(Args::parse())?;
    println!("{}", server.url());
    io::stdout().flush()?;
    wait()
}

fn start(args: Args) -> io::Result<FaultServer> {
    let first_byte = args.first_byte_median_ms.map(|median| {
        Latency::log_normal(millis(median), millis(args.first_byte_p99_ms.unwrap_or(10.0 * median)))
    });
    let rate = args.rate_mb.map(bytes);
    let rate_per_connection = args.connection_rate_mb.map(bytes);
    let mut builder = FaultServer::builder()
        .link(Link { first_byte, rate, rate_per_connection })
        .port(args.port)
        .threads(args.threads)
        .page(args.page)
        .seed(args.seed);
    for (bucket, path) in args.folder {
        builder = builder.folder(bucket, path);
    }
    for (share, status) in args.errors {
        builder = builder.rule(Match::request().probability(share), Fault::status(status));
    }
    for (share, wait) in args.slow {
        builder = builder.rule(Match::request().probability(share), Fault::delay(millis(wait)));
    }
    if let Some(id) = args.access_key_id {
        let credentials = Credentials::new(id);
        builder = builder.credentials(match args.session_token {
            Some(token) => credentials.session_token(token),
            None => credentials,
        });
    }
    if let Some(file) = args.log {
        builder = builder.log_to(file);
    }
    builder.start()
}

/// Returns when the pipe on standard input is closed. Never returns if standard input is not a pipe (a
/// terminal, `/dev/null`).
fn wait() -> io::Result<()> {
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let kind = input.metadata()?.file_type();
    if !kind.is_fifo() && !kind.is_socket() {
        loop {
            std::thread::park();
        }
    }
    while input.read(&mut [0; 1024])? > 0 {}
    Ok(())
}

fn millis(millis: f64) -> Duration {
    Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default()
}

fn bytes(megabytes: f64) -> u64 {
    (megabytes * 1e6) as u64
}

fn folder(text: &str) -> Result<(String, PathBuf), String> {
    let (bucket, path) = text.split_once('=').ok_or("write BUCKET=DIR")?;
    Ok((bucket.to_string(), path.into()))
}

fn share<T: std::str::FromStr>(text: &str) -> Result<(f64, T), String> {
    let (share, value) = text.split_once(':').ok_or("write SHARE:VALUE, as in 0.001:503")?;
    let share = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    Ok((
        share.ok_or("the share is between 0 and 1")?,
        value.parse().map_err(|_| "the value is not a number")?,
    ))
}

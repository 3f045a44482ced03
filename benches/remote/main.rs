//! Remote storage: the rate of forebay from a server against a bare parallel downloader of the same bytes,
//! the cost of late answers, and the requests of an epoch.
//!
//! Contestants take turns, every run has its own server and connections, and the server is another process.
//! Both still share the processors of this machine: without a limit on the link, a rate depends on the server
//! as much as on the reader.
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

mod bare;
mod data;
mod server;
mod summary;

use std::path::Path;
use std::time::{Duration, Instant};

use forebay::{Dataset, Shuffle};
use forebay_store::source::TrafficStats;
use server::{Link, Served, Server};
use summary::Summary;

/// The number of runs for each contestant.
const ROUNDS: u64 = 5;
/// The numbers of simultaneous requests to try with the bare downloader; the best one counts.
const AT_ONCE: [usize; 4] = [8, 16, 32, 64];
/// The rows of a batch, which take 6.4 MB.
const BATCH: u64 = 64;
/// All requests count as finished once nothing has arrived for this long.
const QUIET: Duration = Duration::from_secs(1);

/// The result of one run.
struct RemoteRun {
    /// The rate in 10^6 requested bytes a second.
    rate: f64,
    served: Served,
}

/// Reads all rows as a loader does, and throws them away.
fn forebay(folder: &Path, link: Link, seed: u64) -> (RemoteRun, TrafficStats) {
    let mut server = Server::start(folder, link, seed);
    let dataset = server.open();
    let projection = dataset.catalog().project_all().expect("columns that are read");
    let (before, _) = (dataset.traffic(), server.served());
    let started = Instant::now();
    let read = dataset.fetch(0..dataset.catalog().groups.len(), &projection, |_| {}).expect("the data set");
    let rate = read as f64 / 1e6 / started.elapsed().as_secs_f64();
    (RemoteRun { rate, served: server.served() }, dataset.traffic().since(&before))
}

fn bare(folder: &Path, link: Link, seed: u64, at_once: usize) -> RemoteRun {
    let mut server = Server::start(folder, link, seed);
    let pieces = bare::pieces(folder, &server.url);
    let started = Instant::now();
    let read = bare::download(pieces, at_once);
    let rate = read as f64 / 1e6 / started.elapsed().as_secs_f64();
    RemoteRun { rate, served: server.served() }
}

/// Returns the number of simultaneous requests with which the bare downloader is fastest.
fn best(folder: &Path, link: Link) -> usize {
    let rate = |at_once: usize| {
        let rates = (0..2).map(|seed| bare(folder, link, seed, at_once).rate);
        rates.fold(0.0, f64::max)
    };
    let tried = AT_ONCE.map(|at_once| (at_once, rate(at_once)));
    tried.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(AT_ONCE[0], |(at_once, _)| at_once)
}

/// Measures cold throughput over loopback.
fn near(folder: &Path) {
    let at_once = best(folder, Link::Loopback);
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for seed in 0..ROUNDS {
        own.push(forebay(folder, Link::Loopback, seed).0.rate);
        other.push(bare(folder, Link::Loopback, seed, at_once).rate);
    }
    print_rates(Link::Loopback, &own, &other, at_once);
}

/// Measures cold throughput over a distant link, without and with some answers that are late.
fn far(folder: &Path) {
    let at_once = best(folder, Link::Far);
    let (mut own, mut other, mut own_late, mut other_late) = (vec![], vec![], vec![], vec![]);
    let (mut read, mut sent, mut held_back, mut hedges) = (vec![], vec![], vec![], vec![]);
    for seed in 0..ROUNDS {
        own.push(forebay(folder, Link::Far, seed).0.rate);
        other.push(bare(folder, Link::Far, seed, at_once).rate);
        let (run, traffic) = forebay(folder, Link::FarAndLate, seed);
        own_late.push(run.rate);
        read.push(100.0 * (traffic.amplification() - 1.0));
        sent.push(100.0 * (run.served.bytes as f64 / traffic.bytes_needed as f64 - 1.0));
        held_back.push(run.served.late as f64);
        hedges.push(traffic.hedges as f64);
        other_late.push(bare(folder, Link::FarAndLate, seed, at_once).rate);
    }
    let loss = |late: &[f64], rates: &[f64]| {
        Summary::new(
            &late.iter().zip(rates).map(|(late, rate)| 100.0 * (1.0 - late / rate)).collect::<Vec<_>>(),
        )
    };
    print_rates(Link::Far, &own, &other, at_once);
    print_rates(Link::FarAndLate, &own_late, &other_late, at_once);
    println!("  loss of forebay       {:8.1} %   at most 10", loss(&own_late, &own));
    println!("  loss of bare          {:8.1} %", loss(&other_late, &other));
    println!("  read beyond need      {:8.2} %   at most 5", Summary::new(&read));
    println!("  sent beyond need      {:8.2} %   as the server counts", Summary::new(&sent));
    println!("  answers held back     {:8.0}", Summary::new(&held_back));
    println!("  requests sent twice   {:8.0}", Summary::new(&hedges));
}

fn print_rates(link: Link, own: &[f64], other: &[f64], at_once: usize) {
    println!("\n{link}");
    println!("  forebay               {:8.0} MB/s", Summary::new(own));
    println!("  bare, {at_once:2} at once      {:8.0} MB/s", Summary::new(other));
    let aim = if link == Link::FarAndLate { "" } else { "   at least 0.95" };
    println!("  forebay / bare        {:8.3}{aim}", Summary::of_ratios(own, other));
}

/// Waits until the counters stop changing, and returns the traffic. It then includes what the loader fetched
/// ahead for the next epoch.
#[allow(clippy::disallowed_methods, reason = "nobody tells when nothing happens")]
fn settled(dataset: &Dataset) -> TrafficStats {
    let mut before = dataset.traffic();
    loop {
        std::thread::sleep(QUIET);
        let now = dataset.traffic();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Measures the requests that an epoch through the loader sends.
fn epochs(folder: &Path) {
    println!("\nan epoch through the loader, {}", Link::Far);
    for (name, shuffle) in [("stored order", Shuffle::stored()), ("shuffled", Shuffle::seeded(1))] {
        let mut server = Server::start(folder, Link::Far, 0);
        let dataset = server.open();
        let loader = dataset.loader().batch_size(BATCH).shuffle(shuffle).build().expect("a loader");
        let (before, _) = (dataset.traffic(), server.served());
        let started = Instant::now();
        let rows: usize = loader.epoch(0).map(|batch| batch.expect("a batch").num_rows()).sum();
        let took = started.elapsed().as_secs_f64();
        assert_eq!(rows as u64, dataset.catalog().rows());
        let traffic = settled(&dataset).since(&before);
        println!(
            "  {name:20}  {:8.0} MB/s, {:.4} bytes read for each that was needed, {:.0} requests per GB",
            data::BYTES as f64 / 1e6 / took,
            traffic.amplification(),
            traffic.requests_per_gigabyte(),
        );
    }
}

fn main() {
    if server::is_wanted() {
        return server::serve();
    }
    let folder = data::written();
    let folder = folder.path();
    println!(
        "{} MB in {} files of {} row groups; medians of {ROUNDS} interleaved rounds (lowest to highest)",
        data::BYTES / 1_000_000,
        data::FILES,
        data::GROUPS
    );
    near(folder);
    far(folder);
    epochs(folder);
}

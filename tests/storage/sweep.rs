//! The k-th operation of an epoch fails, for every k: once, and for ever.

use std::time::{Duration, Instant};

use fault_server::{Fault, FaultServer, Match};
use forebay::{Error, ErrorKind};
use forebay_store::source::TrafficStats;

use crate::data::{FILES, GROUPS, PREFIX};
use crate::kit::*;

/// The ways in which one operation fails.
fn failures() -> [(&'static str, Fault); 4] {
    [
        ("reset", Fault::Reset),
        ("500", Fault::status(500)),
        ("cut off", Fault::ShortContentLength),
        ("short", Fault::Short206),
    ]
}

/// More ways to fail, for a long run.
fn more_failures() -> [(&'static str, Fault); 6] {
    [
        ("503", Fault::slow_down(Duration::from_secs(1))),
        ("reset in the body", Fault::ResetAfter { bytes: 1_000 }),
        ("chunks that break off", Fault::ChunkedEnd { clean: false }),
        ("chunks that end early", Fault::ChunkedEnd { clean: true }),
        ("another range", Fault::WrongContentRange),
        ("silence", Fault::delay(Duration::from_secs(1))),
    ]
}

/// The number of operations to open the data set and read an epoch: lists, footers and row groups. Those that
/// are done a second time because the first is late do not count.
fn operations() -> u64 {
    let server = server();
    let dataset = open(&server, &[]).unwrap();
    let requests = |traffic: TrafficStats| server.stats().requests.saturating_sub(traffic.hedges);
    let opened = requests(dataset.traffic());
    // No other epoch is fetched ahead.
    let loader = shuffled(&dataset).epochs(1).build().unwrap();
    run(loader.epoch(0)).is_right("clean");
    settled(&server);
    let epoch = requests(loader.stats().traffic).saturating_sub(opened);
    assert!(opened > FILES as u64 && epoch >= (FILES * GROUPS) as u64, "{opened} to open, {epoch} to read");
    opened + epoch
}

/// Opens the data set and reads an epoch.
fn whole(server: &FaultServer, more: &[(&str, &str)]) -> Result<EpochOutcome, Error> {
    Ok(run(shuffled(&open(server, more)?).build()?.epoch(0)))
}

#[test]
fn one_failure_of_any_operation_is_not_noticed() {
    let operations = operations();
    let server = server();
    let mut met = 0;
    let more = more_failures().into_iter().take(times(0, 6) as usize);
    for (name, fault) in failures().into_iter().chain(more) {
        for k in 1..=operations {
            server.clear_rules();
            server.reset();
            server.add(Match::request().nth(k), fault.clone());
            whole(&server, &[]).unwrap().is_right(&format!("{name} at operation {k}"));
            met += server.stats().faults;
        }
    }
    println!("N1: {operations} operations, {met} faults met, all right");
    assert!(met >= operations * 2, "{met}");
}

#[test]
fn a_refused_connection_is_not_noticed() {
    let server = server();
    for k in 1..=12 {
        server.clear_rules();
        server.add(Match::connect().nth(k), Fault::Reset);
        whole(&server, &[]).unwrap().is_right(&format!("connection {k} refused"));
    }
}

#[test]
fn a_store_that_stays_away_is_an_error_in_time_and_the_position_is_good() {
    let clean = server();
    let operations = operations();
    let count = times(10, 50);
    let retry = if long() { "180" } else { "2" };
    let patience = Duration::from_secs(retry.parse().unwrap());
    side_by_side(count, |turn| {
        let server = server();
        let k = 1 + turn * (operations - 1) / (count - 1);
        let (name, fault) = failures().into_iter().nth(turn as usize % 3).unwrap();
        let case = format!("{name} from operation {k} on");
        server.add(Match::request().from(k), fault);
        let started = Instant::now();
        // A data set that opens may still fail later; the batches so far were delivered.
        let outcome = open(&server, &[("retry_timeout", retry)]).and_then(|dataset| {
            let loader = shuffled(&dataset).build()?;
            let run = run(loader.epoch(0));
            Ok((loader, run))
        });
        // The time ends when the failure is known; reading from the clean server comes after that.
        let took = started.elapsed();
        let error = match outcome {
            Err(error) => error,
            Ok((loader, run)) => {
                let error = run.is_loud(&case).clone();
                let saved = serde_json::to_string(&loader.position()).unwrap();
                let again = shuffled(&open(&clean, &[]).unwrap()).build().unwrap();
                again.restore(&serde_json::from_str(&saved).unwrap()).unwrap();
                let tail: Vec<u64> = again.next_epoch().map(|batch| hash(&batch.unwrap())).collect();
                assert!(tail == ORACLE[run.batches.len()..], "{case}: another tail");
                error
            }
        };
        assert!(took < patience + GRACE, "{case}: {took:?}");
        assert_eq!(error.kind(), ErrorKind::Io, "{case}: {error}");
        assert!(error.to_string().contains(&format!("s3://bucket/{PREFIX}")), "{case}: {error}");
    });
    println!("N2: {count} values of k, all loud within {retry} s and a little");
}

//! Slow storage: silent connections, a trickle, and late answers.

use std::thread::sleep;
use std::time::{Duration, Instant};

use fault_server::{Fault, FaultServer, Latency, Link, Match};
use forebay::{Dataset, LoaderBuilder};
use forebay_store::source::TrafficStats;

use crate::data::{FILES, GROUPS};
use crate::kit::*;

/// Returns a link on which an epoch takes half a second on any machine.
fn link() -> Link {
    Link {
        first_byte: Some(Latency::log_normal(Duration::from_millis(10), Duration::from_millis(40))),
        rate: Some(8_000_000),
        ..Link::default()
    }
}

/// Reads `count` epochs and checks the first. Returns the time and the requests.
fn epochs(server: &FaultServer, count: u64, case: &str) -> (Duration, TrafficStats) {
    let loader = shuffled(&open(server, &[("max_concurrency", "8")]).unwrap()).build().unwrap();
    let started = Instant::now();
    run(loader.epoch(0)).is_right(case);
    for epoch in 1..count {
        assert_eq!(run(loader.epoch(epoch)).error.map(|error| error.to_string()), None, "{case}");
    }
    (started.elapsed(), loader.stats().traffic)
}

#[test]
fn silent_connections_are_given_up_and_cost_less_than_half_of_the_rate() {
    const EPOCHS: u64 = 6;
    // Other programs on the machine may slow down some runs, but costly silence slows down every run.
    const TRIES: usize = 10;
    let _turn = one_at_a_time();
    let silences = [
        ("in the body", Fault::StallAfter { bytes: 1_000, lasting: None }),
        ("before the head", Fault::StallBeforeHead { lasting: None }),
    ];
    for (name, fault) in silences {
        for turn in 0..times(1, 25) {
            let case = format!("silence {name}, turn {turn}");
            let costs_little = (0..TRIES).any(|_| {
                let (clean, _) = epochs(&serving().link(link()).start().unwrap(), EPOCHS, "clean");
                let server = serving().link(link()).seed(turn).start().unwrap();
                server.add(Match::get().one_connection_in(8), fault.clone());
                let (took, asked) = epochs(&server, EPOCHS, &case);
                let faults = server.stats().faults;
                println!("N6: {case}: {took:.2?} against {clean:.2?}, {faults} faults, {asked:?}");
                faults > 0 && took <= clean * 2
            });
            assert!(
                costs_little,
                "{case}: no silence in any try, or more than twice the time of a clean link"
            );
        }
    }
}

#[test]
fn silence_is_noticed_in_time_where_nothing_else_helps() {
    // Every answer is silent for ever, so a second request cannot overtake it. The only way is to give up and
    // ask again.
    let stall = Duration::from_secs(times(2, 10));
    let server = server();
    let dataset = open(&server, &[("stall_timeout", &format!("{}s", stall.as_secs()))]).unwrap();
    server.add(Match::get().until(stall / 2), Fault::StallAfter { bytes: 1_000, lasting: None });
    let run = run(shuffled(&dataset).build().unwrap().epoch(0));
    run.is_right("all silent");
    println!("N6: all connections silent: {:.1?}, a stall is {stall:?}", run.took);
    assert!(run.took <= stall + GRACE, "{:?}", run.took);
}

#[test]
fn slow_but_alive_is_not_killed() {
    let stall = if long() { "10s" } else { "4s" };
    side_by_side(times(1, 3), |turn| {
        let server = server();
        let dataset = open(&server, &[("stall_timeout", stall), ("retry_timeout", "1s")]).unwrap();
        // At this rate a row group of some 130 kB takes 8 seconds, or over 5 minutes in a long run, which is
        // longer than a connection may be silent.
        let trickle = Fault::Trickle { rate: if long() { 400 } else { 16_000 } };
        server.add(Match::get().nth(3), trickle.clone());
        // The second request that is sent beside it is equally slow.
        server.add(Match::get().from(1 + (FILES * GROUPS) as u64), trickle);
        let loader = shuffled(&dataset).build().unwrap();
        let run = run(loader.epoch(0));
        run.is_right(&format!("trickle, turn {turn}"));
        let stalls = loader.stats().traffic.stalls;
        println!("N7: {:.1?} at a trickle, {stalls} stalls", run.took);
        assert_eq!(stalls, 0);
    });
}

/// The cost of one kind of server for a consumer that computes for `step` after each batch.
struct ServerCost {
    waited: Duration,
    bytes: u64,
    hedges: u64,
}

/// A loader with so little memory that its rows do not stay there: each epoch reads them.
fn reading(dataset: &Dataset) -> LoaderBuilder {
    shuffled(dataset).memory(10 << 20)
}

fn consume(server: &FaultServer, epochs: u64, step: Duration) -> ServerCost {
    let loader = reading(&open(server, &[]).unwrap()).build().unwrap();
    // The first epoch is not counted: nothing was prefetched for it, and the loader measures the store in it.
    run(loader.epoch(0)).is_right("first epoch");
    settled(server);
    server.reset();
    let mut waited = Duration::ZERO;
    for number in 1..=epochs {
        let mut epoch = loader.epoch(number);
        loop {
            let started = Instant::now();
            let Some(batch) = epoch.next() else { break };
            waited += started.elapsed();
            batch.unwrap();
            sleep(step);
        }
    }
    settled(server);
    ServerCost { waited, bytes: server.stats().bytes_sent, hedges: loader.stats().traffic.hedges }
}

#[test]
fn a_late_answer_in_fifty_is_hardly_felt() {
    const EPOCHS: u64 = 8;
    const TRIES: usize = 20;
    const MOST: f64 = 0.10;
    const MOST_EXTRA: f64 = 0.05;
    let _turn = one_at_a_time();
    let link = Link { rate: None, ..link() };
    for seed in 0..times(1, 5) {
        let serve = || serving().link(link).seed(seed).start().unwrap();
        // Other programs on the machine may hold up one run, but late answers that matter hold up each run.
        let is_hardly_felt = (0..TRIES).any(|_| {
            // The fastest epoch decides how long a step takes, with a margin of 1.3.
            let clean = serve();
            let fastest = {
                let loader = reading(&open(&clean, &[]).unwrap()).build().unwrap();
                run(loader.epoch(0)).is_right("clean");
                let started = Instant::now();
                (1..=4).for_each(|number| assert!(run(loader.epoch(number)).error.is_none()));
                started.elapsed() / 4
            };
            let step = fastest.mul_f64(1.3) / ORACLE.len() as u32;
            let whole = fastest.mul_f64(1.3) * EPOCHS as u32;
            let undisturbed = consume(&serve(), EPOCHS, step);
            let late = serve();
            late.add(Match::get().probability(0.02), Fault::delay(Duration::from_secs(2)));
            let disturbed = consume(&late, EPOCHS, step);
            let rise =
                (disturbed.waited.as_secs_f64() - undisturbed.waited.as_secs_f64()) / whole.as_secs_f64();
            let extra = disturbed.bytes as f64 / undisturbed.bytes as f64 - 1.0;
            println!(
                "N8: seed {seed}: {} late, waited {:.2?} against {:.2?} of {whole:.2?} ({:+.1} %), {:+.1} % bytes, {} hedges",
                late.stats().faults,
                disturbed.waited,
                undisturbed.waited,
                rise * 100.0,
                extra * 100.0,
                disturbed.hedges,
            );
            rise <= MOST && extra <= MOST_EXTRA
        });
        assert!(is_hardly_felt, "seed {seed}: the waits or the bytes rose by more");
    }
}

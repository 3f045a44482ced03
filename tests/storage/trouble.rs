//! Storage that answers badly: errors, an outage, and answers that are truncated or wrong.

use std::thread::sleep;
use std::time::{Duration, Instant};

use fault_server::{Fault, FaultServer, LoggedExchange, Match, Outage};
use forebay::{Dataset, ErrorKind, LoaderBuilder, Shuffle};

use crate::data::{BUCKET, FILES, GROUPS};
use crate::kit::*;

/// A loader with one lane, so that each row group is read once: a row group that two lanes share is read by
/// each.
fn one_lane(dataset: &Dataset) -> LoaderBuilder {
    shuffled(dataset).shuffle(Shuffle::seeded(7).window_rows(150).lanes(1))
}

/// Reads an epoch, and waits for the prefetches of the next. Returns the run, the number of first requests,
/// and the number of second requests, which are sent if the first is late.
fn all_requests(server: &FaultServer) -> (EpochOutcome, u64, u64) {
    let loader = one_lane(&open(server, &[]).unwrap()).build().unwrap();
    let run = run(loader.epoch(0));
    settled(server);
    let hedges = loader.stats().traffic.hedges;
    (run, server.stats().requests.saturating_sub(hedges), hedges)
}

#[test]
fn one_error_in_five_answers_costs_a_few_requests_and_no_row() {
    let (clean, requests, _) = all_requests(&server());
    let oracle = local(&BUCKET, one_lane);
    assert!(clean.batches == oracle, "clean: {:?}", clean.error);
    for seed in 0..times(2, 5) {
        let server = serving().seed(seed).start().unwrap();
        server.add(Match::request().probability(0.05), Fault::status(500));
        server.add(Match::request().probability(0.05), Fault::status(502));
        server.add(Match::request().probability(0.05), Fault::slow_down(Duration::from_secs(1)));
        server.add(Match::request().probability(0.05), Fault::status(429));
        let (run, asked, hedges) = all_requests(&server);
        assert!(run.batches == oracle, "seed {seed}: {:?}", run.error);
        assert!(asked * 2 <= requests * 3, "seed {seed}: {asked} requests, {requests} on a clean server");
        let log = server.log();
        let (kept, early) = left_alone(&log);
        // A second request may be on its way when the answer to the first arrives.
        assert!(early <= hedges, "seed {seed}: {early} asked again too early, {hedges} second requests");
        println!(
            "N3: seed {seed}: {} faults, {asked} requests against {requests}, {kept} times left alone as asked",
            server.stats().faults
        );
    }
}

/// How often a store asked for a pause and got it, and how often the same range was requested sooner.
fn left_alone(log: &[LoggedExchange]) -> (u64, u64) {
    let asks = |exchange: &LoggedExchange| match &exchange.fault {
        Some(Fault::Status { retry_after: Some(wait), .. }) => Some(*wait),
        _ => None,
    };
    let (mut kept, mut early) = (0, 0);
    for (at, refused) in log.iter().enumerate() {
        let (Some(wait), Some(range)) = (asks(refused), &refused.range) else { continue };
        let same = |later: &&LoggedExchange| {
            later.key == refused.key && later.range.as_ref().is_some_and(|asked| asked.end == range.end)
        };
        let answered = refused.since_start + refused.took;
        // Requests that were sent before the answer arrived could not know about it.
        let next = log[at + 1..].iter().filter(same).find(|later| later.since_start > answered);
        if let Some(next) = next {
            // The server may note the end of its answer later than the client has it.
            match next.since_start - refused.since_start + Duration::from_millis(20) >= wait {
                true => kept += 1,
                false => early += 1,
            }
        }
    }
    (kept, early)
}

#[test]
fn a_total_outage_is_waited_for_without_hammering() {
    let outage = Duration::from_secs(times(6, 60));
    side_by_side(times(1, 10), |turn| {
        let server = server();
        let dataset = open(&server, &[("max_concurrency", "4")]).unwrap();
        let loader = shuffled(&dataset).build().unwrap();
        // The last row groups are held back until the outage begins, however late that is.
        server.add(Match::get().from(26), Fault::StallBeforeHead { lasting: None });
        let mut epoch = loader.epoch(0);
        // The outage begins at another batch in each turn.
        let before = 1 + turn as usize % 4;
        let mut batches: Vec<u64> = epoch.by_ref().take(before).map(|batch| hash(&batch.unwrap())).collect();
        let slots = loader.stats().traffic.concurrency;
        let began = Instant::now();
        server.outage(Some(Outage::Reset));
        server.clear_rules();
        let connections = server.stats().connections;
        std::thread::scope(|scope| {
            let healed = scope.spawn(|| {
                sleep(outage);
                let tried = server.stats().connections - connections;
                let lasted = began.elapsed();
                server.outage(None);
                (tried, lasted, Instant::now())
            });
            // Batches from before the outage come at once; the first batch from after it ends the wait.
            let mut last = Instant::now();
            let mut longest = (Duration::ZERO, last);
            for batch in epoch {
                batches.push(hash(&batch.unwrap()));
                let now = Instant::now();
                longest = longest.max((now - last, now));
                last = now;
            }
            let (tried, lasted, healed) = healed.join().unwrap();
            let first = longest.1.saturating_duration_since(healed);
            println!("N4: {lasted:?} without a store: {tried} tries, first batch {first:.1?} after healing");
            assert!(first <= Duration::from_secs(15) + GRACE, "{first:?}");
            let most = slots as f64 * (1.0 + 2.0 * lasted.as_secs_f64());
            assert!((tried as f64) <= most, "{tried} tries on {slots} slots in {lasted:?}");
            assert!(tried > 0 && longest.0 > outage / 2, "the outage was met: {longest:?}");
        });
        assert!(batches == *ORACLE, "turn {turn}: other rows");
    });
}

/// Answers that are not what was requested, or only a part of it.
fn truncations() -> [(&'static str, Fault); 8] {
    [
        ("short Content-Length", Fault::ShortContentLength),
        ("chunks that end early", Fault::ChunkedEnd { clean: true }),
        ("chunks that break off", Fault::ChunkedEnd { clean: false }),
        ("a reset in the body", Fault::ResetAfter { bytes: 1_000 }),
        ("short 206", Fault::Short206),
        ("short 206 that claims to be whole", Fault::Short206FullContentRange),
        ("wrong Content-Range", Fault::WrongContentRange),
        ("200 for a range", Fault::WholeBody200),
    ]
}

#[test]
fn an_answer_that_is_not_what_was_asked_for_is_asked_for_again() {
    let server = server();
    let dataset = open(&server, &[]).unwrap();
    let turns = times(4, 50);
    let without = ("no Content-Range", Fault::NoContentRange);
    for (name, fault) in truncations().into_iter().chain([without]) {
        for turn in 0..turns {
            server.clear_rules();
            let nth = 1 + draw(turn, 5) % (FILES * GROUPS) as u64;
            server.add(Match::get().nth(nth), fault.clone());
            let loader = shuffled(&dataset).build().unwrap();
            run(loader.epoch(0)).is_right(&format!("{name}, turn {turn}"));
        }
    }
    println!("N5: 9 forms x {turns}, all right");
}

#[test]
fn a_store_that_never_sends_what_was_asked_for_is_an_error() {
    let server = server();
    let dataset = open(&server, &[("retry_timeout", "2s")]).unwrap();
    for (name, fault) in truncations() {
        server.clear_rules();
        server.add(Match::get().from(9), fault);
        let loader = shuffled(&dataset).build().unwrap();
        let run = run(loader.epoch(0));
        match &run.error {
            // Each answer brought some of the bytes, and the loader put them together.
            None => run.is_right(name),
            Some(_) => assert_eq!(run.is_loud(name).kind(), ErrorKind::Io, "{name}: {:?}", run.error),
        }
        println!("N5 for ever: {name}: {}", run.error.map_or("right".into(), |error| error.to_string()));
    }
}

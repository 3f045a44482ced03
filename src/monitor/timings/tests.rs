//! Tests of the arithmetic of waits, with times that the tests choose.

use super::{Assembly, EpochTimings, Front, Phase, Timings};
use crate::monitor::stage::Stage;

/// Timings of a pool of two threads, with one epoch under way.
fn timings() -> Timings {
    let mut timings = Timings::new(2);
    timings.epochs.push(EpochTimings::new(7));
    (timings.current, timings.active) = (Some(7), true);
    timings
}

fn epoch(timings: &mut Timings) -> &mut EpochTimings {
    timings.epoch(7).unwrap()
}

fn waited(timings: &Timings, stage: Stage) -> f64 {
    timings.waits[stage as usize]
}

#[test]
fn a_wait_goes_to_the_phase_of_the_row_group_that_is_needed_next() {
    let mut timings = timings();
    let found = epoch(&mut timings);
    found.assembly = Assembly::Starved;
    found.parts.extend([Phase::Memory, Phase::Fetch]);
    timings.asks(7, 0);
    for (now, phase) in
        [(100, Phase::Cache), (300, Phase::Fetch), (600, Phase::Writing), (1_000, Phase::Fetched)]
    {
        timings.settle(now);
        timings.enters(7, 0, phase);
    }
    assert_eq!(timings.has(7, 1_500, 1), Some((1_500, 0)));
    let found = [Stage::Memory, Stage::Cache, Stage::Fetch].map(|stage| waited(&timings, stage));
    assert_eq!(found, [100.0, 200.0 + 400.0, 300.0 + 500.0]);
}

#[test]
fn a_wait_for_the_pool_is_shared_out_among_what_it_works_on() {
    let mut timings = timings();
    epoch(&mut timings).making = true;
    timings.asks(7, 0);
    timings.settle(100);
    timings.begins(Stage::Decode);
    timings.settle(200);
    timings.begins(Stage::Parquet);
    timings.settle(600);
    timings.ends(Stage::Parquet);
    timings.settle(700);
    timings.ends(Stage::Decode);
    timings.takes(7, 700);
    assert_eq!(timings.has(7, 700, 1), Some((700, 0)));
    let found = [Stage::Gather, Stage::Decode, Stage::Parquet].map(|stage| waited(&timings, stage));
    assert_eq!(found, [100.0, 100.0 + 200.0 + 100.0, 200.0]);
    // Two threads had 700 ns each, and worked 600 ns and 400 ns of them. Assembly was not blocked, so the
    // other 400 ns count as starved.
    assert_eq!(
        timings.work[Stage::Decode as usize].nanos + timings.work[Stage::Parquet as usize].nanos,
        1_000
    );
    assert_eq!((timings.pool.starved, timings.pool.blocked), (400, 0));
}

#[test]
fn what_lies_between_comes_before_the_pipe_and_the_consumers_own_thread_before_that() {
    let mut timings = timings();
    epoch(&mut timings).apart = true;
    timings.asks(7, 0);
    timings.turns(7, 100, Front::At(Stage::Transform));
    timings.nears(7, 300, Some(Stage::Device));
    timings.nears(7, 350, None);
    timings.turns(7, 400, Front::Waiting);
    timings.has(7, 500, 1);
    let found = [Stage::Shuffle, Stage::Transform, Stage::Device].map(|stage| waited(&timings, stage));
    assert_eq!(found, [200.0, 250.0, 50.0]);
    assert_eq!(timings.work[Stage::Transform as usize].nanos, 300);
    assert_eq!(timings.transform.starved, 200);
}

#[test]
fn the_times_of_workers_are_added_and_a_wait_is_theirs_while_one_has_the_next_batch() {
    let mut timings = timings();
    epoch(&mut timings).apart = true;
    timings.begins_at(Stage::Transform, 0);
    timings.begins_at(Stage::Transform, 100);
    timings.asks(7, 200);
    timings.settle(300);
    epoch(&mut timings).next_at = Some(Stage::Transform);
    timings.ends_at(Stage::Transform, 500);
    timings.settle(600);
    epoch(&mut timings).next_at = None;
    timings.has(7, 600, 1);
    timings.ends_at(Stage::Transform, 700);
    timings.settle(800);
    let found = [Stage::Shuffle, Stage::Transform].map(|stage| waited(&timings, stage));
    assert_eq!(found, [100.0, 300.0]);
    assert_eq!(timings.work[Stage::Transform as usize].nanos, 500 + 600);
    assert_eq!(timings.transform.starved, 100, "while no worker works");
}

#[test]
fn the_time_between_a_batch_and_the_next_request_is_the_consumers_own() {
    let mut timings = timings();
    timings.asks(7, 0);
    timings.has(7, 10, 1);
    timings.asks(7, 110);
    assert_eq!(timings.has(7, 120, 1), Some((10, 1)));
    // The consumer waits while a batch that it reads is being converted.
    let look = timings.looks(7, 150, Stage::HandOver);
    timings.looked(7, 170, Stage::HandOver, look);
    timings.asks(7, 200);
    timings.gets_nothing(205);
    timings.asks(7, 1_000);
    timings.pauses(7, 1_010);
    timings.asks(7, 1_020);
    assert_eq!(timings.has(7, 1_025, 1), Some((15, 2)), "a wait in two parts is one");
    assert_eq!(waited(&timings, Stage::Consumer), 100.0 + 30.0 + 30.0 + 10.0);
    assert_eq!(waited(&timings, Stage::HandOver), 20.0);
    assert_eq!(waited(&timings, Stage::Shuffle), 10.0 + 10.0 + 5.0 + 15.0);
    assert_eq!((timings.first, timings.next.count(), timings.next.max()), (10, 2, 15));
}

#[test]
fn the_timeline_has_all_that_was_waited_and_spent() {
    const SECOND: u64 = 1_000_000_000;
    let mut timings = timings();
    epoch(&mut timings).making = true;
    let mut now = 5 * SECOND;
    for batch in 0..2_000 {
        timings.asks(7, now);
        timings.begins(Stage::Decode);
        timings.settle(now + SECOND / 4);
        timings.begins(Stage::Parquet);
        now += SECOND / 4 * 3;
        timings.takes(7, now);
        timings.ends(Stage::Decode);
        timings.ends(Stage::Parquet);
        epoch(&mut timings).making = true;
        timings.has(7, now, batch);
        now += SECOND + SECOND / 2;
    }
    timings.asks(7, now);
    let timeline = &timings.timeline;
    for stage in Stage::ALL {
        let sum: f64 = timeline.buckets.iter().map(|bucket| bucket.waits[stage as usize]).sum();
        assert_eq!(sum, waited(&timings, stage), "{}", stage.name());
    }
    assert!(waited(&timings, Stage::Parquet) > 0.0 && waited(&timings, Stage::Consumer) > 0.0);
    assert_eq!(timeline.buckets.iter().map(|bucket| bucket.rows).sum::<u64>(), (0..2_000).sum::<u64>());
    assert_eq!(timeline.buckets.iter().map(|bucket| bucket.batches).sum::<u64>(), 2_000);
    assert_eq!(timeline.width, 8 * SECOND, "4,500 seconds are at most 600 buckets");
    let whole = &timeline.buckets[..timeline.buckets.len() - 1];
    let filled = |nanos: f64| nanos == timeline.width as f64;
    assert!(whole.iter().all(|bucket| filled(bucket.waits.iter().sum())), "each moment is counted once");
}

#[test]
fn an_epoch_that_is_over_is_forgotten_with_all_that_it_had_on_its_way() {
    let mut timings = timings();
    epoch(&mut timings).parts.extend([Phase::Fetch, Phase::Memory]);
    timings.under_way = 1;
    timings.turns(7, 0, Front::At(Stage::HandOver));
    timings.forget(7, 10);
    assert_eq!((timings.under_way, timings.epochs.len(), timings.active), (0, 0, false));
    timings.settle(1_000);
    assert_eq!((timings.active_nanos, timings.work[Stage::HandOver as usize].nanos), (10, 10));
}

#[test]
fn a_batch_that_is_ready_is_waited_for_only_until_who_waits_is_awake() {
    let mut timings = timings();
    epoch(&mut timings).ready = 1;
    timings.asks(7, 0);
    timings.takes(7, 30);
    timings.has(7, 30, 1);
    assert_eq!(waited(&timings, Stage::HandOver), 30.0);
    epoch(&mut timings).assembly = Assembly::Over;
    timings.asks(7, 30);
    timings.has(7, 40, 1);
    assert_eq!((waited(&timings, Stage::Gather), waited(&timings, Stage::Shuffle)), (10.0, 0.0));
    assert_eq!(timings.work[Stage::Shuffle as usize].nanos, 30, "it does not work when it is over");
}

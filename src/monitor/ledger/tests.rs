//! The arithmetic of waits, with times of our own.

use super::{Assembly, Front, Ledger, Phase, Road};
use crate::monitor::stage::Stage;

/// An epoch under way, with one row group on its way.
fn books() -> Ledger {
    let mut books = Ledger::new(2);
    books.roads.push(Road::new(7));
    (books.current, books.active) = (Some(7), true);
    books
}

fn road(books: &mut Ledger) -> &mut Road {
    books.road(7).unwrap()
}

fn waited(books: &Ledger, stage: Stage) -> f64 {
    books.waits[stage as usize]
}

#[test]
fn a_wait_goes_to_the_phase_of_the_row_group_that_is_needed_next() {
    let mut books = books();
    let found = road(&mut books);
    found.assembly = Assembly::Starved;
    found.parts.extend([Phase::Memory, Phase::Store]);
    books.asks(7, 0);
    for (now, phase) in
        [(100, Phase::Cache), (300, Phase::Store), (600, Phase::Writing), (1_000, Phase::Fetched)]
    {
        books.settle(now);
        books.enters(7, 0, phase);
    }
    assert_eq!(books.has(7, 1_500), Some((1_500, 0)));
    let found = [Stage::Memory, Stage::Cache, Stage::Store].map(|stage| waited(&books, stage));
    assert_eq!(found, [100.0, 200.0 + 400.0, 300.0 + 500.0]);
}

#[test]
fn a_wait_for_the_pool_is_shared_out_among_what_it_works_on() {
    let mut books = books();
    road(&mut books).making = true;
    books.asks(7, 0);
    books.settle(100);
    books.begins(Stage::Decode);
    books.settle(200);
    books.begins(Stage::Parquet);
    books.settle(600);
    books.ends(Stage::Parquet);
    books.settle(700);
    books.ends(Stage::Decode);
    books.takes(7, 700);
    assert_eq!(books.has(7, 700), Some((700, 0)));
    let found = [Stage::Gather, Stage::Decode, Stage::Parquet].map(|stage| waited(&books, stage));
    assert_eq!(found, [100.0, 100.0 + 200.0 + 100.0, 200.0]);
    // Of 1,400 ns of two threads, 600 and 400 were worked; assembly did not wait for room.
    assert_eq!(books.work[Stage::Decode as usize].nanos + books.work[Stage::Parquet as usize].nanos, 1_000);
    assert_eq!((books.pool.starved, books.pool.blocked), (400, 0));
}

#[test]
fn what_lies_between_comes_before_the_pipe_and_the_consumers_own_thread_before_that() {
    let mut books = books();
    road(&mut books).apart = true;
    books.asks(7, 0);
    books.turns(7, 100, Front::At(Stage::Transform));
    books.nears(7, 300, Some(Stage::Device));
    books.nears(7, 350, None);
    books.turns(7, 400, Front::Waiting);
    books.has(7, 500);
    let found = [Stage::Shuffle, Stage::Transform, Stage::Device].map(|stage| waited(&books, stage));
    assert_eq!(found, [200.0, 250.0, 50.0]);
    assert_eq!(books.work[Stage::Transform as usize].nanos, 300);
    assert_eq!(books.transform.starved, 200);
}

#[test]
fn the_time_between_a_batch_and_the_next_request_is_the_consumers_own() {
    let mut books = books();
    books.asks(7, 0);
    books.has(7, 10);
    books.asks(7, 110);
    assert_eq!(books.has(7, 120), Some((10, 1)));
    // Looking at a batch is waiting for what it takes.
    let look = books.looks(7, 150, Stage::HandOver);
    books.looked(7, 170, Stage::HandOver, look);
    books.asks(7, 200);
    books.gets_nothing(205);
    books.asks(7, 1_000);
    books.pauses(7, 1_010);
    books.asks(7, 1_020);
    assert_eq!(books.has(7, 1_025), Some((15, 2)), "a wait in two parts is one");
    assert_eq!(waited(&books, Stage::Consumer), 100.0 + 30.0 + 30.0 + 10.0);
    assert_eq!(waited(&books, Stage::HandOver), 20.0);
    assert_eq!(waited(&books, Stage::Shuffle), 10.0 + 10.0 + 5.0 + 15.0);
    assert_eq!((books.first, books.next.count(), books.next.max()), (10, 2, 15));
}

#[test]
fn an_epoch_that_is_over_is_forgotten_with_all_that_it_had_on_its_way() {
    let mut books = books();
    road(&mut books).parts.extend([Phase::Store, Phase::Memory]);
    books.under_way = 1;
    books.turns(7, 0, Front::At(Stage::HandOver));
    books.forget(7, 10);
    assert_eq!((books.under_way, books.roads.len(), books.active), (0, 0, false));
    books.settle(1_000);
    assert_eq!((books.active_nanos, books.work[Stage::HandOver as usize].nanos), (10, 10));
}

#[test]
fn a_batch_that_is_ready_is_waited_for_only_until_who_waits_is_awake() {
    let mut books = books();
    road(&mut books).ready = 1;
    books.asks(7, 0);
    books.takes(7, 30);
    books.has(7, 30);
    assert_eq!(waited(&books, Stage::HandOver), 30.0);
    road(&mut books).assembly = Assembly::Over;
    books.asks(7, 30);
    books.has(7, 40);
    assert_eq!((waited(&books, Stage::Gather), waited(&books, Stage::Shuffle)), (10.0, 0.0));
    assert_eq!(books.work[Stage::Shuffle as usize].nanos, 30, "it does not work when it is over");
}

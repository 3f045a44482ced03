//! The requests to a store, with their bytes and times; and the same rows from every store.

use std::thread::sleep;
use std::time::{Duration, Instant};

use fault_server::{Fault, Latency, Link, LoggedExchange, Match, Operation};
use forebay::filter::{Op, Term};
use forebay::{Dataset, Filter, LoaderBuilder, Shard, Shuffle};

use crate::data::{BUCKET, FILES, GROUPS, copy, rewrite, rows};
use crate::kit::*;

#[test]
fn a_remote_folder_is_read_in_the_order_of_a_local_one() {
    let server = server();
    let remote = open(&server, &[]).unwrap();
    let orders: [(&str, fn(&Dataset) -> LoaderBuilder); 5] = [
        ("shuffled", shuffled),
        ("exact", |dataset| dataset.loader().shuffle(Shuffle::exact(5)).batch_size(BATCH)),
        ("stored", |dataset| dataset.loader().batch_size(BATCH)),
        ("rank 0 of 2", |dataset| shuffled(dataset).shard(Shard::new(0, 2).unwrap())),
        ("rank 1 of 2", |dataset| shuffled(dataset).shard(Shard::new(1, 2).unwrap())),
    ];
    for (name, build) in orders {
        let expected = local(&BUCKET, build);
        let came = run(build(&remote).build().unwrap().epoch(0));
        assert!(came.error.is_none(), "{name}: {:?}", came.error);
        assert!(came.batches == expected, "{name}: another order");
    }
}

#[test]
fn a_position_of_a_local_run_goes_on_in_the_store() {
    let server = server();
    let remote = open(&server, &[]).unwrap();
    let here = Dataset::open(BUCKET.join(crate::data::PREFIX).as_path()).unwrap();
    for taken in [1, 7, 20] {
        let first = shuffled(&here).build().unwrap();
        assert_eq!(first.epoch(0).take(taken).filter(Result::is_ok).count(), taken);
        let second = shuffled(&remote).build().unwrap();
        second.restore(&first.position()).unwrap();
        let tail: Vec<u64> = second.next_epoch().map(|batch| hash(&batch.unwrap())).collect();
        assert!(tail == ORACLE[taken..], "after {taken}");
    }
}

#[test]
fn a_footer_is_one_request_and_none_once_it_is_known() {
    let bucket = copy();
    let server = fault_server::FaultServer::builder().folder("bucket", bucket.path()).start().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("metadata");
    let gets = || {
        server.reset();
        let dataset = open(&server, &[("metadata_cache", folder.to_str().unwrap())]).unwrap();
        assert_eq!(dataset.catalog().rows() as usize, rows());
        reads(&server, dataset.traffic().hedges).len()
    };
    assert_eq!(gets(), FILES, "the first time");
    assert_eq!(gets(), 0, "the second time");
    rewrite(bucket.path(), 3);
    assert_eq!(gets(), 1, "the file that is new");
    assert_eq!(server.log().iter().filter(|asked| asked.operation == Operation::Head).count(), 0);
}

#[test]
fn statistics_are_read_from_footers_that_are_kept() {
    let server = server();
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("metadata");
    let gets = |metadata_cache: &str| {
        let dataset = open(&server, &[("metadata_cache", metadata_cache)]).unwrap();
        server.reset();
        let nothing = Filter::all_of([Term::new("id", Op::Less, -1i64)]);
        let refused = dataset.loader().filter(nothing).build().unwrap_err();
        assert!(refused.to_string().contains("no row is selected"), "{refused}");
        reads(&server, dataset.traffic().hedges).len()
    };
    // The footers have no statistics, so all row groups are read as well.
    let groups = FILES * GROUPS;
    assert_eq!(gets(folder.to_str().unwrap()), groups);
    assert_eq!(gets("off"), groups + FILES);
}

#[test]
fn a_row_group_is_one_request_that_names_the_version() {
    let server = server();
    let dataset = open(&server, &[]).unwrap();
    // There is one lane, because a row group that two lanes share is read by each.
    // Nothing is read ahead for a second epoch.
    let one_lane = || dataset.loader().shuffle(Shuffle::seeded(7).window_rows(150).lanes(1)).epochs(1);
    let loader = one_lane().build().unwrap();
    server.reset();
    let hedges = loader.stats().traffic.hedges;
    assert!(loader.epoch(0).all(|batch| batch.is_ok()));
    settled(&server);
    let (log, traffic) = (server.log(), loader.stats().traffic);
    assert_eq!(reads(&server, dataset.traffic().hedges).len(), FILES * GROUPS, "each row group, {traffic:?}");
    let twice = (traffic.hedges - hedges) as usize;
    assert!(log.len() <= FILES * GROUPS + twice, "each once, but for those that were late: {traffic:?}");
    // The log knows little about a request that was given up.
    let answered = log.iter().filter(|asked| asked.status.is_some());
    assert!(answered.into_iter().all(|asked| asked.operation == Operation::Get && asked.if_match.is_some()));

    // The column that has nearly all bytes is left out.
    drop(loader);
    settled(&server);
    server.reset();
    let loader = one_lane().columns(["id", "weight"]).build().unwrap();
    assert!(loader.epoch(0).all(|batch| batch.is_ok()));
    settled(&server);
    let bytes: u64 = reads(&server, dataset.traffic().hedges).iter().map(|asked| asked.bytes_sent).sum();
    assert!(bytes < 100_000, "{bytes} bytes for two narrow columns");
}

#[test]
fn the_next_epoch_is_asked_for_before_this_one_ends() {
    let server = server();
    let loader = shuffled(&open(&server, &[]).unwrap()).build().unwrap();
    server.reset();
    let mut epoch = loader.epoch(0);
    let most = ORACLE.len() * 3 / 4;
    assert_eq!(epoch.by_ref().take(most).filter(Result::is_ok).count(), most);
    let is_asked_for = until(|| server.stats().gets > (FILES * GROUPS) as u64);
    assert!(is_asked_for, "nothing of the next epoch after three quarters of this one");
}

/// All requests in progress share the link, so only a few others may run beside those for the first batch.
#[test]
fn the_first_batch_shares_the_link_with_little() {
    const HELD: Duration = Duration::from_millis(500);
    // A busy machine may send the other requests after the first answers, but not in each try.
    const TRIES: usize = 3;
    let _turn = one_at_a_time();
    let server = server();
    let shuffle = Shuffle::seeded(7).window_rows(rows() as u64).lanes(1);
    let dataset = open(&server, &[]).unwrap();
    let build = || dataset.loader().shuffle(shuffle).batch_size(60).threads(2).build().unwrap();
    let places = build().which(0, 0, 0).unwrap();
    let mut groups: Vec<_> = places.iter().map(|place| (place.file.to_string(), place.row_group)).collect();
    groups.sort_unstable();
    groups.dedup();
    let most = groups.len() + groups.len() / 3;
    assert!(groups.len() >= 3 && most < FILES * GROUPS / 2, "{} row groups", groups.len());
    server.add(Match::operation(Operation::Get), Fault::delay(HELD));
    // The server holds every request this long, so this is the earliest time at which it can be answered.
    let answered = |read: &LoggedExchange| read.since_start + HELD;
    let something_is_beside_it = || {
        // The loader of an earlier try may still have requests in progress.
        settled(&server);
        server.reset();
        let hedges = dataset.traffic().hedges;
        let rows_that_came = build().epoch(0).map(|batch| batch.unwrap().num_rows()).sum::<usize>();
        assert_eq!(rows_that_came, rows());
        let reads = reads(&server, dataset.traffic().hedges - hedges);
        let of_first: Vec<_> = reads
            .iter()
            .filter(|read| {
                reads.iter().filter(|other| answered(other) <= read.since_start).count() < groups.len()
            })
            .collect();
        for read in &of_first {
            let beside = |other: &&LoggedExchange| {
                other.since_start <= read.since_start && answered(other) > read.since_start
            };
            let under_way = reads.iter().filter(beside).count();
            assert!(
                under_way <= most,
                "{under_way} at once, for a first batch of {} row groups",
                groups.len()
            );
        }
        of_first.len() > groups.len()
    };
    assert!((0..TRIES).any(|_| something_is_beside_it()), "nothing is asked for beside it");
}

#[test]
fn leaving_is_prompt_while_the_store_hangs() {
    // Other programs may slow down some tries, but a loader that waits for the store is late in all.
    const TRIES: usize = 20;
    let _turn = one_at_a_time();
    let server = server();
    let dataset = open(&server, &[]).unwrap();
    for (name, fault) in [
        ("before the head", Fault::StallBeforeHead { lasting: None }),
        ("in the body", Fault::StallAfter { bytes: 100, lasting: None }),
        ("errors", Fault::status(500)),
    ] {
        for leave in ["drop", "close"] {
            let leaves = || {
                server.clear_rules();
                server.add(Match::get().from(9), fault.clone());
                let loader = shuffled(&dataset).build().unwrap();
                let epoch = loader.epoch(0);
                sleep(Duration::from_millis(50));
                let started = Instant::now();
                match leave {
                    "drop" => drop((epoch, loader)),
                    _ => {
                        loader.close();
                        assert!(run(epoch).error.is_some(), "{name}: closed");
                    }
                }
                started.elapsed()
            };
            let is_prompt = (0..TRIES).any(|_| leaves() < Duration::from_millis(200));
            assert!(is_prompt, "{leave} with {name}");
        }
    }
}

#[test]
fn a_slow_consumer_does_not_make_the_store_look_slow() {
    // Other programs may make an answer late in some tries, but a slow consumer is there in each.
    const TRIES: usize = 20;
    let _turn = one_at_a_time();
    let link = Link { first_byte: Some(Latency::constant(Duration::from_millis(100))), ..Link::default() };
    let looks_slow = || {
        let server = serving().link(link).start().unwrap();
        let loader = shuffled(&open(&server, &[]).unwrap()).build().unwrap();
        for batch in loader.epoch(0) {
            batch.unwrap();
            sleep(Duration::from_millis(40));
        }
        let traffic = loader.stats().traffic;
        println!("beside a slow consumer: {traffic}");
        (traffic.hedges, traffic.stalls, traffic.retries) != (0, 0, 0)
    };
    assert!(!(0..TRIES).all(|_| looks_slow()), "it looks slow in each of {TRIES} tries");
}

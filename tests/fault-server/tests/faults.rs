//! Each fault as it appears on the wire.
#![allow(clippy::unwrap_used, reason = "a helper of a test stops it")]

mod common;

use std::time::{Duration, Instant};

use common::*;
use fault_server::{Fault, ListFault, Match, Operation};

/// The answer that a client sees for `bytes=2-7` of the ten digits under a fault.
fn seen(fault: Fault) -> Seen {
    let dir = bucket();
    let server = server(&dir);
    server.add(Match::get(), fault.clone());
    let seen = ask(&server, "GET /bucket/dir/digits", &[("Range", "bytes=2-7")]);
    let log = server.log();
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].fault, Some(fault));
    assert_eq!(log[0].status, (!seen.head.is_empty()).then(|| seen.status()));
    seen
}

/// The status, `Content-Length`, `Content-Range`, body and end of an answer.
type Form<'a> = (u16, Option<&'a str>, Option<&'a str>, &'a [u8], End);

fn form(seen: &Seen) -> Form<'_> {
    (seen.status(), seen.header("content-length"), seen.header("content-range"), &seen.body, seen.end)
}

#[test]
fn a_body_is_damaged_in_the_way_that_its_fault_is_named_for() {
    let all = Some("bytes 2-7/10");
    let cases: [(Fault, Form<'_>); 12] = [
        (Fault::ResetAfter { bytes: 4 }, (206, Some("6"), all, b"2345", End::Reset)),
        (Fault::ResetAfter { bytes: 100 }, (206, Some("6"), all, b"23456", End::Reset)),
        (Fault::ShortContentLength, (206, Some("6"), all, b"234", End::Closed)),
        (Fault::ChunkedEnd { clean: true }, (206, None, all, b"3\r\n234\r\n0\r\n\r\n", End::Silent)),
        (Fault::ChunkedEnd { clean: false }, (206, None, all, b"3\r\n234\r\n", End::Closed)),
        (Fault::Short206, (206, Some("3"), Some("bytes 2-4/10"), b"234", End::Silent)),
        (Fault::Short206FullContentRange, (206, Some("3"), all, b"234", End::Silent)),
        (Fault::WrongContentRange, (206, Some("6"), Some("bytes 3-8/10"), b"234567", End::Silent)),
        (Fault::NoContentRange, (206, Some("6"), None, b"234567", End::Silent)),
        (Fault::WholeBody200, (200, Some("10"), None, DIGITS, End::Silent)),
        // The digit '2' is 0x32.
        (Fault::FlipBit { offset: 2, bit: 3 }, (206, Some("6"), all, b":34567", End::Silent)),
        (Fault::StallAfter { bytes: 4, lasting: None }, (206, Some("6"), all, b"2345", End::Silent)),
    ];
    for (fault, expected) in cases {
        assert_eq!(form(&seen(fault.clone())), expected, "{fault:?}");
    }
}

#[test]
fn without_a_fault_the_range_comes_whole_and_the_connection_stays() {
    let dir = bucket();
    let server = server(&dir);
    let mut wire = RawConnection::to(server.address());
    for _ in 0..3 {
        let seen = wire.ask("GET /bucket/dir/digits", &[("Range", "bytes=2-7")]);
        assert_eq!(form(&seen), (206, Some("6"), Some("bytes 2-7/10"), &b"234567"[..], End::Silent));
    }
    let stats = server.stats();
    assert_eq!((stats.connections, stats.open, stats.gets, stats.bytes_sent, stats.faults), (1, 1, 3, 18, 0));
}

#[test]
fn a_connection_goes_on_after_an_answer_that_was_short_and_whole_as_a_message() {
    let dir = bucket();
    let server = server(&dir);
    for fault in [Fault::Short206, Fault::ChunkedEnd { clean: true }, Fault::status(503)] {
        server.clear_rules();
        server.add(Match::get().nth(1), fault);
        let mut wire = RawConnection::to(server.address());
        wire.ask("GET /bucket/dir/digits", &[("Range", "bytes=2-7")]);
        assert_eq!(wire.ask("GET /bucket/dir/digits", &[("Range", "bytes=2-7")]).body, b"234567");
    }
}

#[test]
fn a_status_comes_with_the_error_document_and_the_time_to_wait() {
    let slow_down = seen(Fault::slow_down(Duration::from_millis(1_500)));
    assert_eq!((slow_down.status(), slow_down.header("retry-after")), (503, Some("2")));
    assert!(slow_down.text().contains("<Error><Code>SlowDown</Code>"));

    let error = Some("ExpiredToken".into());
    let expired = seen(Fault::Status { code: 400, retry_after: None, error });
    assert_eq!((expired.status(), expired.header("retry-after")), (400, None));
    assert!(expired.text().contains("<Code>ExpiredToken</Code>"));

    let gone = seen(Fault::Gone);
    assert!(gone.status() == 404 && gone.text().contains("<Code>NoSuchKey</Code>"));
}

#[test]
fn a_page_of_a_list_is_wrong_in_the_way_that_its_fault_is_named_for() {
    let dir = bucket();
    for name in ["a", "b", "c"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let server = builder(&dir).page(1).start().unwrap();
    let list = |query: &str| ask(&server, &format!("GET /bucket?list-type=2{query}"), &[]).text();
    let first = list("");
    let token = "<NextContinuationToken>0.1</NextContinuationToken>";
    assert!(first.contains(token) && first.contains("<Key>a</Key>"), "{first}");
    let seen = |page: ListFault, query: &str| {
        server.clear_rules();
        server.add(Match::list(), Fault::List { page });
        list(query)
    };
    let next = seen(ListFault::NoToken, "");
    assert!(next.contains("<IsTruncated>true<") && !next.contains("NextContinuationToken"), "{next}");
    let silent = seen(ListFault::Silent, "");
    assert!(!silent.contains("IsTruncated") && !silent.contains("NextContinuationToken"), "{silent}");
    let bare = seen(ListFault::NoKeys, "");
    assert!(bare.contains("NextContinuationToken") && !bare.contains("<Key>"), "{bare}");
    assert!(!seen(ListFault::CutOff, "").contains("</ListBucketResult>"));
    let same = seen(ListFault::SameToken, "&continuation-token=0.1");
    assert!(same.contains(token) && same.contains("<Key>b</Key>"), "{same}");
    assert!(seen(ListFault::SameToken, "").contains("<NextContinuationToken>"), "no candidate");
}

#[test]
fn a_redirect_leads_to_the_same_object_elsewhere() {
    let seen = seen(Fault::Redirect { to: "http://127.0.0.1:9/".into() });
    assert_eq!((seen.status(), seen.header("location")), (307, Some("http://127.0.0.1:9/bucket/dir/digits")));
}

#[test]
fn a_reset_comes_before_a_byte_of_the_answer() {
    let seen = seen(Fault::Reset);
    assert_eq!((seen.head.as_str(), seen.end), ("", End::Reset));
}

#[test]
fn a_connection_can_be_reset_before_anything_is_asked() {
    let dir = bucket();
    let server = server(&dir);
    server.add(Match::connect().nth(2), Fault::Reset);
    let ends = [1, 2, 3].map(|_| RawConnection::to(server.address()).see().end);
    assert_eq!(ends, [End::Silent, End::Reset, End::Silent]);
    let log = server.log();
    assert_eq!((log.len(), log[0].operation, log[0].connection), (1, Operation::Connect, 2));
    assert_eq!((server.stats().connections, server.stats().requests), (3, 0));
}

#[test]
fn a_stall_before_the_head_ends_in_time_or_never() {
    let lasting = Duration::from_millis(150);
    let late = seen(Fault::StallBeforeHead { lasting: Some(lasting) });
    assert!(late.first_byte >= lasting, "{:?}", late.first_byte);
    assert_eq!(late.body, b"234567");

    let never = seen(Fault::StallBeforeHead { lasting: None });
    assert_eq!((never.head.as_str(), never.end), ("", End::Silent));
}

#[test]
fn a_stall_in_the_body_ends_in_time() {
    let dir = bucket();
    let server = server(&dir);
    server.add(Match::get(), Fault::StallAfter { bytes: 4, lasting: Some(2 * PATIENCE) });
    let mut wire = RawConnection::to(server.address());
    assert_eq!(wire.ask("GET /bucket/dir/digits", &[]).body, b"0123");
    assert!(!server.log()[0].done && server.log()[0].bytes_sent == 4);
    wire.0.set_read_timeout(Some(5 * PATIENCE)).unwrap();
    let mut rest = [0; 6];
    std::io::Read::read_exact(&mut wire.0, &mut rest).unwrap();
    assert_eq!(&rest, b"456789");
}

#[test]
fn a_stalled_connection_is_let_go_when_its_client_leaves() {
    let dir = bucket();
    let server = server(&dir);
    server.add(Match::get(), Fault::StallBeforeHead { lasting: None });
    ask(&server, "GET /bucket/dir/digits", &[]);
    let patience = Instant::now();
    while server.stats().open > 0 {
        assert!(patience.elapsed() < Duration::from_secs(30), "the connection is still held");
        std::thread::yield_now();
    }
    assert!(server.log()[0].done);
}

#[test]
fn a_trickle_is_slow_and_alive() {
    let dir = bucket();
    std::fs::write(dir.path().join("long"), vec![1; 60_000]).unwrap();
    let server = server(&dir);
    server.add(Match::get(), Fault::Trickle { rate: 20_000 });
    let start = Instant::now();
    let seen = ask(&server, "GET /bucket/long", &[]);
    assert_eq!(seen.body.len(), 60_000);
    assert!(start.elapsed() > Duration::from_millis(2_930), "{:?}", start.elapsed());
    // The bytes come in small parts all the time, and not all together after a wait.
    assert!(seen.parts > 10, "{}", seen.parts);
}

#[test]
fn a_fault_without_a_meaning_for_a_request_passes_it_by() {
    let dir = bucket();
    let server = server(&dir);
    for fault in [Fault::WholeBody200, Fault::Short206, Fault::FlipBit { offset: 9, bit: 0 }] {
        server.add(Match::request(), fault);
    }
    server.add(Match::request(), Fault::ShortContentLength);
    // A whole object has no range that could be wrong, and contains byte 9. A part does not contain it, and
    // the answer to HEAD has no body.
    assert_eq!(ask(&server, "GET /bucket/dir/digits", &[]).body, b"012345678\x38");
    server.clear_rules();
    server.add(Match::request(), Fault::FlipBit { offset: 9, bit: 0 });
    assert_eq!(ask(&server, "GET /bucket/dir/digits", &[("Range", "bytes=0-8")]).body, b"012345678");
    server.add(Match::request(), Fault::ShortContentLength);
    let head = ask(&server, "HEAD /bucket/dir/digits", &[]);
    assert_eq!((head.status(), head.end), (200, End::Silent));
    assert_eq!(server.stats().faults, 1);
}

#[test]
fn the_same_seed_brings_the_same_faults() {
    let dir = bucket();
    let statuses = |seed| {
        let server = builder(&dir).seed(seed).start().unwrap();
        server.add(Match::get().probability(0.3), Fault::status(503));
        let mut wire = RawConnection::to(server.address());
        (0..20).map(|_| wire.ask("GET /bucket/dir/digits", &[]).status()).collect::<Vec<_>>()
    };
    assert_eq!(statuses(7), statuses(7));
    assert_ne!(statuses(7), statuses(8));
}

//! Storage that refuses or is missing: hosts without an address, and credentials that are refused, expired or
//! missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fault_server::{Credentials, Fault, FaultServer, Match};
use forebay::{Dataset, Error, ErrorKind};

use crate::data::{GROUPS, PREFIX, name_of, rows_of};
use crate::kit::*;
use crate::skipped::skipped;

/// The longest time that a refusal may take if it is not retried; with retries it takes three minutes.
const MAX_REFUSAL_TIME: Duration = Duration::from_secs(30);

#[test]
fn a_host_that_is_not_there_is_named_in_time() {
    let retry = if long() { "180" } else { "2" };
    let cases = [
        ("http://forebay.invalid:9000", "forebay.invalid has no address"),
        // Nobody listens there, and no program is given the port.
        ("http://127.0.0.1:1", "no connection to 127.0.0.1: Connection refused"),
    ];
    side_by_side(times(1, 3) * 2, |turn| {
        let (endpoint, words) = cases[turn as usize % 2];
        let started = Instant::now();
        let options = options_of(endpoint, &[("retry_timeout", retry)]);
        let error = Dataset::open_with_options(url(), &options).unwrap_err();
        let took = started.elapsed();
        println!("N9: {took:.1?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().starts_with(&url()), "{error}");
        assert!(took < Duration::from_secs(retry.parse().unwrap()) + GRACE, "{took:?}");
    });
}

#[test]
fn a_host_that_gets_its_address_late_is_read() {
    // The test changes the machine's own list of hosts, so it runs only on request.
    const HOSTS: &str = "/etc/hosts";
    let before = fs::read_to_string(HOSTS).unwrap_or_default();
    if !long() || fs::write(HOSTS, &before).is_err() {
        return skipped("it is for FOREBAY_LONG=1, as root");
    }
    for turn in 0..10 {
        let server = server();
        let host = format!("late-{turn}.forebay.invalid");
        let endpoint = server.url().replace("127.0.0.1", &host);
        let run = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_secs(3));
                fs::write(HOSTS, format!("{before}\n127.0.0.1 {host}\n")).unwrap();
            });
            let dataset = open(&server, &[("aws_endpoint_url", &endpoint)]).unwrap();
            run(shuffled(&dataset).build().unwrap().epoch(0))
        });
        fs::write(HOSTS, &before).unwrap();
        run.is_right(&format!("turn {turn}"));
    }
    println!("N9: 10 late addresses, all right");
}

fn opening(server: &FaultServer, case: &str) -> Error {
    let started = Instant::now();
    let error = open(server, &[]).unwrap_err();
    assert!(started.elapsed() < MAX_REFUSAL_TIME, "{case}: {:?}", started.elapsed());
    error
}

#[test]
fn a_store_that_refuses_is_an_error_at_once() {
    let server = server();
    let cases = [(403, ErrorKind::Denied), (401, ErrorKind::Denied), (404, ErrorKind::NotFound)];
    for (status, kind) in cases {
        for case in [Match::request(), Match::list(), Match::get()] {
            server.clear_rules();
            server.add(case.clone(), Fault::status(status));
            let error = opening(&server, &format!("{status} {case:?}"));
            assert_eq!(error.kind(), kind, "{status} {case:?}: {error}");
        }
        // The refusals begin after the footers were read.
        server.clear_rules();
        let dataset = open(&server, &[]).unwrap();
        server.add(Match::get().from(9), Fault::status(status));
        let run = run(shuffled(&dataset).build().unwrap().epoch(0));
        let error = run.is_loud("mid-epoch");
        assert!(run.took < MAX_REFUSAL_TIME, "{:?}", run.took);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.place().row_group.is_some(), "{error}");
        println!("N10: {status}: {error}");
    }
}

#[test]
fn an_answer_that_cannot_get_better_is_an_error_at_once() {
    // The requests list the folder and search for a table in the folders above. Each is sent once.
    const REQUESTS: u64 = 7;
    // A request whose answer is late may be sent a second time, but not in each try.
    const TRIES: usize = 10;
    let server = server();
    let dataset = open(&server, &[]).unwrap();
    let cases = [
        (501, "server does not support"),
        (505, "check the URL"),
        (405, "server does not support"),
        (511, "asks for a login"),
    ];
    for (status, hint) in
        cases.into_iter().chain([400, 411, 414, 418].map(|status| (status, "check the URL")))
    {
        // Prefetches of the previous loader are not counted.
        settled(&server);
        server.clear_rules();
        server.add(Match::request(), Fault::status(status));
        let are_sent_once = (0..TRIES).any(|_| {
            server.reset();
            let error = opening(&server, &format!("{status}"));
            assert_eq!(error.kind(), ErrorKind::Io, "{status}: {error}");
            let sentence = error.to_string();
            assert!(
                sentence.contains(&format!("answered {status}")) && sentence.contains(hint),
                "{sentence}"
            );
            server.stats().requests <= REQUESTS
        });
        assert!(are_sent_once, "{status}: {} requests", server.stats().requests);

        let loader = shuffled(&dataset).build().unwrap();
        let run = run(loader.epoch(0));
        assert!(run.took < MAX_REFUSAL_TIME, "{status}: {:?}", run.took);
        assert!(run.is_loud("mid-epoch").to_string().contains(&format!("answered {status}")));
        assert_eq!(loader.stats().traffic.retries, 0, "{status}");
    }
}

#[test]
fn a_refusal_says_why_where_the_store_says_it() {
    let server = server();
    let file = format!("s3://bucket/{PREFIX}/{}", name_of(0));
    for (status, code, hint) in [
        (403, "SignatureDoesNotMatch", "the secret key is not that of the access key"),
        (403, "InvalidAccessKeyId", "the store does not know the access key"),
        (403, "RequestTimeTooSkewed", "this machine's clock is wrong"),
        (403, "AccessDenied", "may not read this"),
        // The code is in the body of the answer, and an answer to a HEAD request has no body.
        (400, "ExpiredToken", "the credentials have expired"),
    ] {
        for location in [url(), file.clone()] {
            server.clear_rules();
            let refused = Fault::Status { code: status, retry_after: None, error: Some(code.into()) };
            server.add(Match::request(), refused);
            let error = Dataset::open_with_options(&location, &options(&server, &[])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            let sentence = error.to_string();
            assert!(sentence.contains(&format!("{status} {code}")) && sentence.contains(hint), "{sentence}");
        }
    }
}

#[test]
fn credentials_that_expire_are_renewed_in_the_middle_of_an_epoch() {
    let Some(home) = alone("refusals::credentials_that_expire_are_renewed_in_the_middle_of_an_epoch") else {
        return;
    };
    let turns = times(5, 20);
    for turn in 0..turns {
        let server = server();
        let write = |token: &str| {
            let text = format!(
                "[default]\naws_access_key_id = AKIAROTATES\naws_secret_access_key = secret\n\
                 aws_session_token = {token}\n"
            );
            fs::create_dir_all(home.join(".aws")).unwrap();
            fs::write(home.join(".aws/credentials"), text).unwrap();
        };
        let demand = |token: &str| {
            server.require(Some(Credentials::new("AKIAROTATES").session_token(token)));
        };
        write("first");
        demand("first");
        let mut options = options(&server, &[("max_concurrency", "2")]);
        options.retain(|key, _| !key.contains("access_key"));
        let dataset = Dataset::open_with_options(url(), &options).unwrap();
        let loader = shuffled(&dataset).build().unwrap();
        let at = 1 + draw(turn, 3) as usize % 20;
        let run = run_with(loader.epoch(0), |batches| {
            if batches == at {
                write("second");
                demand("second");
            }
        });
        run.is_right(&format!("turn {turn}, rotated after batch {at}"));
    }
    println!("N10: {turns} rotations, all right");
}

#[test]
fn without_any_credentials_the_refusal_is_prompt_and_says_what_to_do() {
    let Some(_) = alone("refusals::without_any_credentials_the_refusal_is_prompt_and_says_what_to_do") else {
        return;
    };
    let server = server();
    let mut options = options(&server, &[]);
    options.retain(|key, _| !key.contains("access_key"));
    let started = Instant::now();
    let error = Dataset::open_with_options(url(), &options).unwrap_err();
    println!("N10: no credentials: {:.1?}: {error}", started.elapsed());
    assert!(started.elapsed() < MAX_REFUSAL_TIME, "{:?}", started.elapsed());
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("skip_signature"), "{error}");
    assert_eq!(server.stats().requests, 0, "nothing is asked without a signature");
}

#[test]
fn a_web_server_without_ranges_is_an_error_that_says_so() {
    let server = server();
    let url = format!("{}/bucket/{PREFIX}/{}", server.url(), name_of(0));
    let options = BTreeMap::from([("metadata_cache".to_owned(), "off".to_owned())]);
    let whole = Dataset::open_with_options(&url, &options).unwrap();
    assert_eq!(whole.catalog().rows(), (0..GROUPS).map(|group| rows_of(0, group) as u64).sum::<u64>());
    server.add(Match::get(), Fault::WholeBody200);
    let started = Instant::now();
    let error = Dataset::open_with_options(&url, &options).unwrap_err();
    println!("{:.1?}: {error}", started.elapsed());
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().starts_with(&url), "{error}");
    assert!(error.to_string().contains("the server must support ranged reads"), "{error}");
    // The request is repeated six times, after waits that double from a tenth of a second.
    assert!(started.elapsed() < 2 * MAX_REFUSAL_TIME, "{:?}", started.elapsed());
}

/// Runs a test again in a process without the user's credentials. Returns the home folder to use in that
/// process, and `None` in the process that started it, after it succeeded.
fn alone(test: &str) -> Option<PathBuf> {
    if let Some(home) = std::env::var_os(ALONE) {
        return Some(home.into());
    }
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    let kept = std::env::vars_os().filter(|(name, _)| !name.to_string_lossy().starts_with("AWS_"));
    command.env_clear().envs(kept).env("HOME", home.path()).env(ALONE, home.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{test} is not the name of a test");
    None
}

//! Runs random cases one after the other, and fails if a case breaks a law or hangs.

use std::any::Any;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::laws::{Outcome, check};

/// The number of cases in every run, and in a long run.
const CASES: u64 = 100;
const CASES_IN_A_LONG_RUN: u64 = 2_000;

/// A case takes well under a second; a case that takes this long waits for something that never comes.
const HANGING_TIME: Duration = Duration::from_secs(600);

/// How long to search for a simpler case that fails.
const SIMPLIFYING_TIME: Duration = Duration::from_secs(60);

/// Two failures count as the same if this many characters at their beginnings are equal.
const SAME_WORDS: usize = 30;

/// The beginning of the failure of a case that hangs.
const HANGING: &str = "it hangs";

/// At least one in this many cases must be accepted and run, otherwise nothing is tested.
const RUNS: u64 = 2;

/// At least one in this many cases that were run must have rows from its cache.
const CASES_FOR_A_HIT: u64 = 20;

#[test]
fn whole_loaders_keep_the_laws() {
    let variable = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = if variable("FOREBAY_LONG") == Some(1) { CASES_IN_A_LONG_RUN } else { CASES };
    let seeds = variable("FOREBAY_CASE").map_or(0..count, |seed| seed..seed + 1);
    let (mut ran, mut hit) = (0, 0);
    for seed in seeds.clone() {
        match watched(&Case::draw(seed)) {
            Ok(Outcome::Ran { hits }) => {
                ran += 1;
                hit += u64::from(hits > 0);
            }
            Ok(Outcome::Refused) => {}
            Err(failure) => {
                let (case, failure) = simplest(Case::draw(seed), failure);
                panic!("FOREBAY_CASE={seed} fails: {failure}\nas simple as it could be made: {case:#?}");
            }
        }
    }
    assert!(seeds.end - seeds.start < CASES || ran * RUNS > CASES, "only {ran} cases were not refused");
    let is_hit = ran < CASES / RUNS || hit * CASES_FOR_A_HIT > ran;
    assert!(is_hit, "the cache of only {hit} cases was hit, of {ran}");
}

/// Runs a case on a separate thread, which is abandoned if it hangs.
fn watched(case: &Case) -> Result<Outcome, String> {
    let (tell, told) = channel();
    let own = case.clone();
    let running = thread::spawn(move || {
        let outcome = check(&own);
        tell.send(outcome).ok();
    });
    match told.recv_timeout(HANGING_TIME) {
        Ok(outcome) => Ok(outcome),
        Err(RecvTimeoutError::Timeout) => Err(format!("{HANGING}: {case:#?}")),
        Err(RecvTimeoutError::Disconnected) => Err(words(&*running.join().unwrap_err())),
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

/// Simplifies a case as long as it fails in the same words. A case that hangs is left as it is.
fn simplest(mut case: Case, mut failure: String) -> (Case, String) {
    let until = Instant::now() + SIMPLIFYING_TIME;
    let kind = |failure: &str| {
        failure.chars().filter(|letter| !letter.is_numeric()).take(SAME_WORDS).collect::<String>()
    };
    let first = kind(&failure);
    while let Some((simpler, why)) = case.simpler().into_iter().find_map(|simpler| {
        if Instant::now() > until || failure.starts_with(HANGING) {
            return None;
        }
        let why = watched(&simpler).err()?;
        (kind(&why) == first).then_some((simpler, why))
    }) {
        (case, failure) = (simpler, why);
    }
    (case, failure)
}

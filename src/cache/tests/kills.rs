//! Tests that the entries are right or missing after a process was killed at any point of a write, and that
//! its unfinished files are removed.

use std::os::unix::process::ExitStatusExt;

use super::points::Point;
use super::*;

const SIGKILL: i32 = 9;
const OLD: u64 = 7;

/// Opens the cache after a kill and checks that its rows are right, that half-written files are removed, that
/// the ledger counts all bytes, and that new rows can be put.
fn unharmed(dir: &Path, context: &str) {
    let kept = || files(dir).into_iter().filter(|(path, _)| path.extension().is_some());
    let cache = DiskCache::open(dir, PLENTY).unwrap();
    assert!(with_extension(dir, "part").is_empty(), "{context}: {:?}", kept().collect::<Vec<_>>());
    let bytes: u64 = kept().map(|(_, length)| folder::footprint(length)).sum();
    assert_eq!(cache.stats().bytes, bytes, "{context}");
    for group in 0..OLD + 1 {
        if let Some(entry) = cache.get(&key(group)) {
            assert_eq!(entry.read(), rows(group), "{context}");
        }
        assert!(cache.put(&key(group), &rows(group)), "{context}");
        assert_eq!(cache.get(&key(group)).unwrap().read(), rows(group), "{context}");
    }
    assert_eq!(cache.stats().damaged, 0, "{context}");
}

#[test]
fn a_kill_at_any_point_of_a_write_does_no_harm() {
    use Point::*;
    for point in [Created, Reserved, HalfWritten, Written, Renamed, Evicting, Evicted] {
        for _ in 0..times(4, 20) {
            let dir = folder();
            let mut child = process("kills::evicts_and_writes", dir.path());
            let output = child.env("FOREBAY_KILL_AT", format!("{point:?}")).output().unwrap();
            assert_eq!(output.status.signal(), Some(SIGKILL), "{point:?} was passed: {output:?}");
            unharmed(dir.path(), &format!("{point:?}"));
        }
    }
}

/// Puts an old entry, then a new one, for which the old one must be evicted. The process must be killed only
/// while it puts the new one.
#[test]
#[ignore = "run by a_kill_at_any_point_of_a_write_does_no_harm"]
fn evicts_and_writes() {
    let die = std::env::var("FOREBAY_KILL_AT").unwrap();
    let seven = Encoded::new(&key(OLD), &rows(OLD), &value_numbers(&rows(OLD))).unwrap().bytes;
    let cache = DiskCache::open(given_folder(), folder::footprint(seven)).unwrap();
    // Another process puts the old entry, because `FOREBAY_KILL_AT` would kill this process while it did so.
    let helper = process("kills::writes_the_old_one", &given_folder()).env_remove("FOREBAY_KILL_AT").status();
    assert!(helper.unwrap().success());
    for _ in 0..3 {
        epoch_begins(&cache);
    }
    cache.put(&key(0), &rows(0));
    println!("{die} was not passed: {:?}", cache.stats());
}

#[test]
#[ignore = "run by evicts_and_writes"]
fn writes_the_old_one() {
    assert!(DiskCache::open(given_folder(), PLENTY).unwrap().put(&key(OLD), &rows(OLD)));
}

#[test]
fn a_kill_at_any_moment_does_no_harm() {
    let dir = folder();
    let mut seed = 4;
    for round in 0..times(20, 500) {
        let mut child = process("kills::writes_and_clears", dir.path()).spawn().unwrap();
        nap(5 + random(&mut seed) % 60);
        kill(&mut child);
        unharmed(dir.path(), &format!("round {round}"));
    }
}

#[test]
#[ignore = "run by a_kill_at_any_moment_does_no_harm"]
fn writes_and_clears() {
    let cache = DiskCache::open(given_folder(), PLENTY).unwrap();
    loop {
        cache.clear().unwrap();
        for group in 0..OLD + 1 {
            cache.put(&key(group), &rows(group));
        }
    }
}

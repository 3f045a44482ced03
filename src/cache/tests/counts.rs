//! Tests of the counts that users see.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::*;

#[test]
fn lookups_of_all_processes_are_added_up_once() {
    let dir = folder();
    let [one, other] = [(); 2].map(|()| open(&dir, PLENTY));
    let past = |hits, misses, damaged| PastStats { hits, misses, damaged };
    assert_eq!((one.stats().past, one.stats().past.hit_rate()), (past(0, 0, 0), None));
    assert!(one.get(&key(0)).is_none() && one.put(&key(0), &rows(0)));
    for _ in 0..3 {
        assert!(one.get(&key(0)).is_some());
        one.maintain();
    }
    assert_eq!(other.stats().past, past(3, 1, 0), "each count once, however often they are noted");
    assert!(other.get(&key(0)).is_some() && other.get(&key(1)).is_none());
    fs::write(one.0.space.folder.entry(key(0).name()), "no rows").unwrap();
    assert!(other.get(&key(0)).is_none());
    drop(other);
    assert_eq!(one.stats().past, past(4, 3, 1), "a cache that closes notes its own");
    assert!(one.get(&key(2)).is_none());
    drop(one);
    let found = open(&dir, PLENTY).stats().past;
    assert_eq!((found, found.hit_rate()), (past(4, 4, 1), Some(0.5)));
}

#[test]
fn bytes_are_those_of_the_file_and_single_rows_have_their_share() {
    let dir = folder();
    let cache = open(&dir, PLENTY);
    assert!(cache.put(&key(0), &rows(0)));
    let length = fs::metadata(cache.0.space.folder.entry(key(0).name())).unwrap().len();
    let entry = cache.get(&key(0)).unwrap();
    let stats = cache.stats();
    assert_eq!((entry.bytes(), stats.written, stats.written_bytes, stats.read_bytes), (length, 1, length, 0));
    entry.take(&[3, 3, 0, 9]).unwrap();
    assert_eq!(cache.stats().read_bytes, length * 4 / ROWS as u64);
    entry.read();
    assert_eq!(cache.stats().read_bytes, length * 4 / ROWS as u64 + length);
}

/// All numbers of the statistics, by their names.
fn numbers(stats: &CacheStats) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let mut left = vec![(String::new(), serde_json::to_value(stats).unwrap())];
    while let Some((name, value)) = left.pop() {
        match value {
            Value::Object(fields) => {
                left.extend(fields.into_iter().map(|(field, value)| (format!("{name}/{field}"), value)));
            }
            Value::Number(number) => drop(found.insert(name, number.as_f64().unwrap())),
            _ => {}
        }
    }
    found
}

#[test]
fn counts_of_two_caches_are_added_and_the_size_of_one_folder_is_not() {
    let of = |first: u64| {
        let mut stats = serde_json::to_value(CacheStats::default()).unwrap();
        for (at, name) in numbers(&CacheStats::default()).into_keys().enumerate() {
            *stats.pointer_mut(&name).unwrap() = (first + at as u64).into();
        }
        serde_json::from_value::<CacheStats>(stats).unwrap()
    };
    let (one, other) = (of(1), of(1000));
    let (before, after) = (numbers(&one), numbers(&other));
    let both = numbers(&one.clone().and(other.clone(), false));
    let same = numbers(&one.clone().and(other, true));
    assert!(before.len() > 20);
    for (name, number) in both {
        assert_eq!(number, before[&name] + after[&name], "{name}");
        let is_size = ["/entries", "/bytes", "/max_bytes"].contains(&name.as_str());
        let expected = match name.starts_with("/past/") {
            true => before[&name],
            false if is_size => after[&name],
            false => number,
        };
        assert_eq!(same[&name], expected, "{name} of one folder");
    }
}

#[test]
fn the_most_frequent_reason_is_told() {
    assert_eq!((DeclinedStats::default().all(), DeclinedStats::default().why()), (0, None));
    let declined = DeclinedStats { full: 1, behind: 3, faults: 2, ..DeclinedStats::default() };
    assert_eq!((declined.all(), declined.why()), (6, Some("the disk was too slow")));
    let stats = CacheStats { hits: 3, misses: 1, damaged: 2, declined, ..CacheStats::default() };
    let told = stats.to_string();
    assert!(told.starts_with("75.0 % of 4 lookups hit, 0.0 MB read"), "{told}");
    assert!(told.ends_with("GB used, 2 damaged, 6 not kept: the disk was too slow"), "{told}");
}

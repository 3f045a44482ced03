//! Tests the limit of the cache in bytes, and which entries are evicted if they do not all fit.

use std::time::SystemTime;

use super::*;

/// The size of an entry of [`rows`] on disk, in bytes.
fn entry_bytes() -> u64 {
    folder::footprint(Encoded::new(&key(0), &rows(0), &value_numbers(&rows(0))).unwrap().bytes)
}

fn on_disk(dir: &Path) -> u64 {
    let kept = files(dir).into_iter().filter(|(path, _)| path.extension().is_some());
    kept.map(|(_, length)| folder::footprint(length)).sum()
}

/// Reads the row groups in a random order from `seed`, as the loader does in an epoch: row groups that are
/// not in the cache are fetched and put. Returns the number of hits.
fn epoch(cache: &DiskCache, groups: std::ops::Range<u64>, seed: u64) -> u64 {
    epoch_begins(cache);
    let mut order: Vec<u64> = groups.collect();
    let mut state = seed;
    order.sort_by_cached_key(|_| random(&mut state));
    let mut hits = 0;
    for group in order {
        match cache.claim(&key(group), CLAIM_PATIENCE) {
            Claim::Ready(entry) => {
                assert_eq!(group_of(&entry.read()), group);
                hits += 1;
            }
            Claim::Mine(guard) => {
                guard.put(&rows(group));
            }
            Claim::Alone => {}
        }
    }
    hits
}

#[test]
fn half_of_a_data_set_twice_the_limit_is_hit_in_every_epoch() {
    const GROUPS: u64 = 40;
    let dir = folder();
    let limit = GROUPS / 2 * entry_bytes();
    let cache = open(&dir, limit);
    assert_eq!(epoch(&cache, 0..GROUPS, 1), 0);
    for seed in 2..5 {
        assert_eq!(epoch(&cache, 0..GROUPS, seed), GROUPS / 2);
    }
    let stats = cache.stats();
    assert_eq!((stats.evictions, stats.entries, stats.bytes), (0, GROUPS / 2, limit));
    // A second run must not evict entries in its first epoch, since it may read them later in that epoch.
    let again = open(&dir, limit);
    for seed in 5..8 {
        assert_eq!(epoch(&again, 0..GROUPS, seed), GROUPS / 2);
    }
    assert!(again.stats().declined.full > 0);
}

#[test]
fn another_data_set_takes_the_room_of_one_that_is_no_longer_used() {
    const GROUPS: u64 = 20;
    let dir = folder();
    let limit = GROUPS * entry_bytes();
    epoch(&open(&dir, limit), 0..GROUPS, 1);
    let cache = open(&dir, limit);
    assert_eq!(epoch(&cache, 100..100 + GROUPS, 2), 0, "the first epoch keeps nothing yet");
    assert_eq!(epoch(&cache, 100..100 + GROUPS, 3), 0, "the second replaces");
    assert_eq!(epoch(&cache, 100..100 + GROUPS, 4), GROUPS);
    let stats = cache.stats();
    assert_eq!((stats.evictions, stats.entries), (GROUPS, GROUPS));
}

#[test]
fn the_longest_unused_goes_first() {
    let dir = folder();
    let cache = open(&dir, 3 * entry_bytes());
    let now = SystemTime::now();
    for (group, hours) in [(0, 2), (1, 3), (2, 1)] {
        assert!(cache.put(&key(group), &rows(group)));
        let note = File::open(cache.0.space.folder.last_use(key(group).name())).unwrap();
        note.set_modified(now - Duration::from_secs(3600 * hours)).unwrap();
    }
    let cache = open(&dir, 3 * entry_bytes());
    epoch_begins(&cache);
    assert!(!cache.put(&key(9), &rows(9)));
    epoch_begins(&cache);
    assert!(cache.put(&key(9), &rows(9)));
    let left: Vec<bool> = (0..3).map(|group| cache.get(&key(group)).is_some()).collect();
    assert_eq!(left, [true, false, true]);
}

#[test]
fn a_lower_limit_lets_the_longest_unused_go_unless_a_loader_has_it_open() {
    let dir = folder();
    let cache = open(&dir, PLENTY);
    let now = SystemTime::now();
    for group in 0..4 {
        assert!(cache.put(&key(group), &rows(group)));
        let note = File::open(cache.0.space.folder.last_use(key(group).name())).unwrap();
        note.set_modified(now - Duration::from_secs(3600 * (1 + group % 2))).unwrap();
    }
    let held = cache.hold();
    let lower = open(&dir, 2 * entry_bytes());
    assert_eq!(lower.stats().entries, 4, "somebody uses them");
    assert!(!lower.put(&key(9), &rows(9)), "and no more come");
    drop(held);
    let lower = open(&dir, 2 * entry_bytes());
    assert_eq!([0, 1, 2, 3].map(|group| lower.holds(&key(group))), [true, false, true, false]);
    let stats = lower.stats();
    assert_eq!((stats.evictions, stats.bytes), (2, on_disk(dir.path())));
    epoch_begins(&lower);
    assert!(!lower.put(&key(9), &rows(9)), "the rule holds from then on");
}

#[test]
fn what_another_process_uses_stays() {
    let dir = folder();
    let (ours, theirs) = (open(&dir, 2 * entry_bytes()), open(&dir, 2 * entry_bytes()));
    for group in 0..2 {
        assert!(theirs.put(&key(group), &rows(group)));
        assert!(theirs.get(&key(group)).is_some());
    }
    for _ in 0..4 {
        epoch_begins(&ours);
        epoch_begins(&theirs);
        assert!(theirs.get(&key(0)).is_some());
        ours.put(&key(9), &rows(9));
    }
    let fresh = open(&dir, 2 * entry_bytes());
    assert!(fresh.get(&key(0)).is_some(), "used in every epoch");
    assert!(fresh.get(&key(1)).is_none(), "not used for two");
}

#[test]
fn an_entry_larger_than_the_limit_is_declined() {
    let dir = folder();
    let cache = open(&dir, entry_bytes() - 1);
    assert!(!cache.put(&key(0), &rows(0)));
    assert_eq!(cache.stats().declined.too_large, 1);
    assert_eq!(on_disk(dir.path()), 0);
}

#[test]
fn disk_that_others_need_is_left_free() {
    let dir = folder();
    let mut space = Space::new(Folder::open(dir.path()).unwrap(), PLENTY);
    space.keep_free = Some(|disk| disk);
    let cache = DiskCache::new(space, Health::new());
    assert!(cache.prepare());
    assert!(!cache.put(&key(0), &rows(0)));
    assert_eq!(cache.stats().declined.full, 1);
    assert_eq!(space::keep_free(100 << 30), 10 << 30);
    assert_eq!(space::keep_free(5 << 30), 1 << 30);
}

#[test]
fn a_lost_or_torn_ledger_is_counted_anew() {
    let dir = folder();
    let cache = open(&dir, 4 * entry_bytes());
    for group in 0..3 {
        assert!(cache.put(&key(group), &rows(group)));
    }
    let ledger = cache.0.space.folder.ledger();
    for wrong in [None, Some(&b""[..]), Some(&[0; 24]), Some(&[9; 24]), Some(&[0; 7])] {
        match wrong {
            None => std::fs::remove_file(&ledger).unwrap(),
            Some(wrong) => std::fs::write(&ledger, wrong).unwrap(),
        }
        assert!(cache.put(&key(3), &rows(3)));
        assert_eq!(cache.stats().bytes, 4 * entry_bytes(), "{wrong:?}");
        assert!(!open(&dir, 4 * entry_bytes()).put(&key(4), &rows(4)));
        cache.0.space.remove(&cache.0.space.folder.entry(key(3).name()), entry_bytes()).unwrap();
    }
}

#[test]
fn four_processes_together_stay_within_the_limit_at_every_moment() {
    let dir = folder();
    let (kept, stop) = (dir.path().join("kept"), dir.path().join("stop"));
    let mut writers: Vec<Child> =
        (0..4).map(|_| process("limit::writes_until_it_is_stopped", &kept).spawn().unwrap()).collect();
    let limit = LIMIT_IN_ENTRIES * entry_bytes();
    let (mut most, mut samples, start) = (0, 0, Instant::now());
    let (ours, pause) = (Folder::open(&kept).unwrap(), pause::Pause::default());
    ours.prepare().unwrap();
    while writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()) {
        // Files are added and removed only under this lock. Without it, a listing could count a file that was
        // removed meanwhile together with the file that replaced it.
        if let Some(_still) = Ledger::lock(&ours, &pause).unwrap() {
            most = on_disk(&kept).max(most);
            samples += 1;
        }
        // The test ends early if it has taken enough samples and has seen the cache almost full.
        let enough = samples > 100 && most >= limit - entry_bytes();
        if start.elapsed() > Duration::from_secs(if enough { times(3, 600) } else { 1200 }) {
            std::fs::write(&stop, "").unwrap();
        }
        nap(1);
    }
    assert!(writers.iter_mut().all(|writer| writer.wait().unwrap().success()));
    assert!(samples > 100, "{samples} samples");
    assert!(most <= limit + entry_bytes(), "{most} of {limit}");
    assert!(most >= limit - entry_bytes(), "it was full: {most} of {limit}");
    let cache = DiskCache::open(&kept, limit).unwrap();
    assert_eq!(cache.stats().bytes, on_disk(&kept));
    assert_eq!(cache.verify().unwrap().damaged, 0);
}

const LIMIT_IN_ENTRIES: u64 = 25;

#[test]
#[ignore = "run by four_processes_together_stay_within_the_limit_at_every_moment"]
fn writes_until_it_is_stopped() {
    let cache = DiskCache::open(given_folder(), LIMIT_IN_ENTRIES * entry_bytes()).unwrap();
    let stop = given_folder().with_file_name("stop");
    let (start, mut seed) = (Instant::now(), u64::from(std::process::id()));
    let is_over = || stop.exists() && cache.stats().evictions > 0;
    while start.elapsed() < Duration::from_secs(1800) && !is_over() {
        // Each data set is used for two epochs, so that some entries can always be evicted.
        let first = random(&mut seed) % 10 * 100;
        for _ in 0..2 {
            let order = random(&mut seed);
            epoch(&cache, first..first + 40, order);
        }
    }
    assert!(cache.stats().evictions > 0);
}

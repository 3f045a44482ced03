//! Damaged, truncated, exchanged and foreign files are misses, are counted and removed; sound files stay
//! hits.

use std::fs;

use super::*;

const SEEDS: u64 = 1000;

/// Fills a cache with the entries of groups 0 and 1, and returns their paths.
fn two_entries(dir: &TempDir) -> [std::path::PathBuf; 2] {
    let cache = open(dir, PLENTY);
    [0, 1].map(|group| {
        assert!(cache.put(&key(group), &rows(group)));
        cache.0.space.folder.entry(key(group).name())
    })
}

/// Checks, as a new process would see it, that the entry of `group` is damaged, and that it can be put again.
fn is_a_miss(dir: &TempDir, group: u64) {
    let cache = open(dir, PLENTY);
    assert!(cache.get(&key(group)).is_none());
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.damaged), (0, 1, 1));
    assert_eq!((stats.reading_off, stats.writing_off), (None, None), "damage is no reason to stop");
    assert!(cache.put(&key(group), &rows(group)), "there is room for a right one");
    assert_eq!(cache.get(&key(group)).unwrap().read(), rows(group));
}

#[test]
fn every_flipped_bit_is_a_miss() {
    let dir = folder();
    let [path, _] = two_entries(&dir);
    let right = fs::read(&path).unwrap();
    for seed in 0..SEEDS {
        let mut state = seed;
        // Half of the flips are in the last bytes of the file, which are the key, the lengths and the
        // checksum.
        let tail = if seed % 2 == 0 { right.len() } else { 300 };
        let at = right.len() - 1 - random(&mut state) as usize % tail;
        let mut wrong = right.clone();
        wrong[at] ^= 1 << (random(&mut state) % 8);
        fs::write(&path, wrong).unwrap();
        let cache = open(&dir, PLENTY);
        assert!(cache.get(&key(0)).is_none(), "seed {seed}: byte {at} of {}", right.len());
        assert_eq!(cache.stats().damaged, 1, "seed {seed}");
        assert!(!path.exists(), "seed {seed}");
    }
    fs::write(&path, right).unwrap();
    assert_eq!(open(&dir, PLENTY).get(&key(0)).unwrap().read(), rows(0), "and without a flip a hit");
}

#[test]
fn every_cut_and_every_extension_is_a_miss() {
    let dir = folder();
    let [path, _] = two_entries(&dir);
    let right = fs::read(&path).unwrap();
    for seed in 0..SEEDS {
        let mut state = seed;
        let mut wrong = right.clone();
        let length = match seed {
            0..100 => seed as usize,
            100..200 => right.len() - 1 - (seed as usize - 100),
            200..300 => right.len() + 1 + (seed as usize - 200),
            _ => random(&mut state) as usize % right.len(),
        };
        wrong.resize(length, 0);
        fs::write(&path, wrong).unwrap();
        let cache = open(&dir, PLENTY);
        assert!(cache.get(&key(0)).is_none(), "{length} of {} bytes", right.len());
        assert_eq!(cache.stats().damaged, 1, "{length} of {} bytes", right.len());
    }
}

#[test]
fn exchanged_entries_are_misses() {
    for _ in 0..times(20, SEEDS) {
        let dir = folder();
        let [a, b] = two_entries(&dir);
        let aside = dir.path().join("forebay-rows-v1/aside");
        fs::rename(&a, &aside).unwrap();
        fs::rename(&b, &a).unwrap();
        fs::rename(&aside, &b).unwrap();
        is_a_miss(&dir, 0);
        is_a_miss(&dir, 1);
    }
}

#[test]
fn what_is_not_an_entry_is_a_miss() {
    let dir = folder();
    let [path, other] = two_entries(&dir);
    for wrong in [&b""[..], b"fbrows1\n", &[0; 40], &[255; 4096], b"<html>404</html>"] {
        fs::write(&path, wrong).unwrap();
        is_a_miss(&dir, 0);
    }
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    is_a_miss(&dir, 0);
    assert!(!path.symlink_metadata().unwrap().is_symlink());
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    is_a_miss(&dir, 0);
}

#[test]
fn an_entry_that_another_process_replaced_is_checked_again() {
    let dir = folder();
    let cache = open(&dir, PLENTY);
    let mut unmapped = Folder::open(dir.path()).unwrap();
    unmapped.mapped = false;
    let reader = DiskCache::new(Space::new(unmapped, PLENTY), Health::new());
    assert!(cache.put(&key(0), &rows(0)));
    assert!(reader.get(&key(0)).is_some());
    let path = cache.0.space.folder.entry(key(0).name());
    let mut wrong = fs::read(&path).unwrap();
    wrong[100] ^= 1;
    fs::write(path.with_extension("new"), wrong).unwrap();
    fs::rename(path.with_extension("new"), &path).unwrap();
    assert!(reader.get(&key(0)).is_none());
}

#[test]
fn verifying_counts_and_removes_what_is_damaged() {
    let dir = folder();
    let [path, _] = two_entries(&dir);
    let mut wrong = fs::read(&path).unwrap();
    wrong[1000] ^= 4;
    fs::write(&path, wrong).unwrap();
    fs::write(path.with_file_name("notes.txt"), "mine").unwrap();
    let cache = open(&dir, PLENTY);
    let report = cache.verify().unwrap();
    assert_eq!((report.sound, report.damaged, report.strange, report.rows), (1, 1, 1, ROWS as u64));
    assert_eq!(cache.stats().entries, 1);
    assert_eq!(cache.verify().unwrap().damaged, 0);
    assert_eq!(cache.clear().unwrap().entries, 1);
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.bytes), (0, 0));
    assert!(path.with_file_name("notes.txt").exists(), "what is not ours stays");
}

//! Tests that the cache detects when a program changes an entry whose rows are in use, and that reading them
//! does not fail. A foreign file or folder at the path of an entry keeps only that entry out of the cache.

use std::fs::{self, FileTimes, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;

use super::*;

/// A function that damages the file at a path, or creates something else there.
type Harm = fn(&Path);

/// Returns a cache that holds one entry, an open handle of this entry, and the path of its file.
fn in_use(dir: &TempDir) -> (DiskCache, Entry, std::path::PathBuf) {
    let cache = open(dir, PLENTY);
    assert!(cache.put(&key(0), &rows(0)));
    let entry = cache.get(&key(0)).unwrap();
    assert!(entry.is_mapped() && entry.is_intact());
    let path = cache.0.space.folder.entry(key(0).name());
    (cache, entry, path)
}

fn writable(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Changes the byte in the middle of a file.
fn flip(path: &Path) {
    let file = writable(path);
    let at = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], at).unwrap();
}

/// Sets every byte of a file to `with`.
fn overwrite(path: &Path, with: u8) {
    let length = path.metadata().unwrap().len() as usize;
    writable(path).write_all_at(&vec![with; length], 0).unwrap();
}

#[test]
fn whatever_is_done_to_an_entry_in_use_shows() {
    let harms: [(&str, Harm); 10] = [
        ("a byte changed", flip),
        ("a byte changed, and the times put back", |path| {
            let found = path.metadata().unwrap();
            let times = FileTimes::new().set_accessed(found.accessed().unwrap());
            flip(path);
            writable(path).set_times(times.set_modified(found.modified().unwrap())).unwrap();
        }),
        ("cut", |path| writable(path).set_len(path.metadata().unwrap().len() / 10).unwrap()),
        ("cut to nothing", |path| drop(File::create(path).unwrap())),
        ("cut and made longer again", |path| {
            let (file, length) = (writable(path), path.metadata().unwrap().len());
            file.set_len(10).unwrap();
            file.set_len(length).unwrap();
        }),
        ("made longer", |path| writable(path).set_len(path.metadata().unwrap().len() + 1).unwrap()),
        ("ones all over", |path| overwrite(path, 0xFF)),
        ("zeros all over", |path| overwrite(path, 0)),
        ("exchanged", |path| {
            let other = path.with_extension("other");
            fs::copy(path, &other).unwrap();
            flip(&other);
            fs::rename(other, path).unwrap();
        }),
        ("removed", |path| fs::remove_file(path).unwrap()),
    ];
    for (harm, harms) in harms {
        let dir = folder();
        let (cache, entry, path) = in_use(&dir);
        let copy = cache.get_copy(&key(0)).unwrap();
        harms(&path);
        // Reading changed rows may return any bytes, but must not fail.
        let blob = entry.read().column(1).as_binary_view().data_buffers()[0].clone();
        std::hint::black_box(blob.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        assert!(!entry.is_intact(), "{harm}");
        assert!(copy.is_intact() && copy.read() == rows(0), "{harm}: a copy is nobody else's");
        assert!(cache.get(&key(0)).is_none(), "{harm}");
        assert!(cache.put(&key(0), &rows(0)), "{harm}");
        let again = cache.get(&key(0)).unwrap();
        assert!(again.read() == rows(0) && again.is_intact(), "{harm}");
        assert!(!entry.is_intact(), "{harm}: it is another file");
    }
}

#[test]
fn a_change_shows_whatever_use_is_marked_after_it() {
    let dir = folder();
    let (cache, entry, path) = in_use(&dir);
    let modified = path.metadata().unwrap().modified().unwrap();
    overwrite(&path, 0);
    writable(&path).set_modified(modified).unwrap();
    last_use::mark(&cache.0.space.folder, key(0).name());
    assert!(!entry.is_intact());
    assert!(cache.get(&key(0)).is_none());
}

#[test]
fn an_entry_that_was_written_to_a_moment_ago_is_copied() {
    let dir = folder();
    let (_, _, path) = in_use(&dir);
    let cache = open(&dir, PLENTY);
    // The cache copies an entry, instead of mapping it, for one second after a write. If the machine paused
    // for too long to test that, the test tries again.
    loop {
        let written = Instant::now();
        writable(&path).set_modified(std::time::SystemTime::now()).unwrap();
        let found = cache.get(&key(0)).unwrap();
        assert_eq!(found.read(), rows(0));
        if written.elapsed() < Duration::from_millis(500) {
            assert!(!found.is_mapped(), "the write may go on");
            break;
        }
    }
}

#[test]
fn an_entry_that_only_lost_its_times_is_sealed_again_and_used() {
    let dir = folder();
    let (cache, entry, path) = in_use(&dir);
    let a_moment_ago = std::time::SystemTime::now() - Duration::from_secs(2);
    writable(&path).set_modified(a_moment_ago).unwrap();
    assert!(!entry.is_intact(), "who sets times may have done more");
    let again = cache.get(&key(0)).unwrap();
    assert!(again.is_mapped() && again.is_intact());
    assert_eq!(again.read(), rows(0));
    assert_eq!(cache.stats().damaged, 0);
}

#[test]
fn what_changes_no_entry_is_not_taken_for_a_change() {
    let dir = folder();
    let (cache, entry, path) = in_use(&dir);
    for turn in 0..3 {
        let other = open(&dir, PLENTY);
        epoch_begins(&other);
        assert!(other.get(&key(0)).is_some(), "marks it as used");
        assert!(other.get_copy(&key(0)).is_some());
        assert!(other.put(&key(1 + turn), &rows(1 + turn)));
        other.verify().unwrap();
        assert!(entry.is_intact(), "turn {turn}");
        fs::read(&path).unwrap();
        assert!(entry.is_intact(), "turn {turn}");
        epoch_begins(&cache);
        assert!(cache.get(&key(0)).is_some());
        assert!(entry.is_intact(), "turn {turn}");
    }
}

#[test]
fn notes_of_entries_that_are_gone_go() {
    let dir = folder();
    let (cache, _, path) = in_use(&dir);
    let note = cache.0.space.folder.last_use(key(0).name());
    cache.maintain();
    assert!(note.exists());
    fs::remove_file(path).unwrap();
    cache.maintain();
    assert!(!note.exists());
}

#[test]
fn what_lies_where_an_entry_should_be_keeps_only_that_entry_out() {
    let things: [(&str, bool, Harm); 7] = [
        ("a folder with something in it", false, |path| fs::create_dir_all(path.join("x")).unwrap()),
        ("an empty folder", true, |path| fs::create_dir_all(path).unwrap()),
        ("a pipe", true, |path| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
        ("a socket", true, |path| drop(UnixListener::bind(path).unwrap())),
        ("a link to nothing", true, |path| std::os::unix::fs::symlink("/nowhere", path).unwrap()),
        ("a link to a folder", true, |path| std::os::unix::fs::symlink("/tmp", path).unwrap()),
        ("a file that nobody may read", true, |path| {
            fs::write(path, "x").unwrap();
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        }),
    ];
    for (thing, can_go, make) in things {
        for of_part in [false, true] {
            let dir = folder();
            let cache = open(&dir, PLENTY);
            assert!(cache.put(&key(1), &rows(1)));
            let space = &cache.0.space;
            let path =
                if of_part { space.folder.partial(key(0).name()) } else { space.folder.entry(key(0).name()) };
            space.folder.make_room_for(key(0).name()).unwrap();
            make(&path);
            space.recount();
            let case = format!("{thing} as {}", if of_part { "a part" } else { "an entry" });
            assert!(cache.get(&key(0)).is_none(), "{case}");
            let started = Instant::now();
            match cache.claim(&key(0), CLAIM_PATIENCE) {
                Claim::Mine(guard) => assert!(guard.put(&rows(0)) && can_go, "{case}"),
                Claim::Alone => assert!(!can_go, "{case}"),
                Claim::Ready(_) => panic!("{case}"),
            }
            assert!(started.elapsed() < CLAIM_PATIENCE, "{case}: nobody is waited for");
            assert_eq!(cache.put(&key(0), &rows(0)), can_go, "{case}");
            assert_eq!(cache.get(&key(0)).is_some_and(|entry| entry.read() == rows(0)), can_go, "{case}");
            assert!(cache.put(&key(2), &rows(2)), "{case}: others are kept");
            let stats = cache.stats();
            assert_eq!((&stats.reading_off, &stats.writing_off), (&None, &None), "{case}");
            assert_eq!(stats.declined.blocked > 0, !can_go, "{case}: {:?}", stats.declined);
            // Whatever is in the way at the third entry's path counts neither as an entry nor in bytes. The
            // entry counts if the obstacle could be removed.
            assert_eq!(stats.entries, 2 + u64::from(can_go), "{case}");
            let bytes: u64 = with_extension(dir.path(), "arrows")
                .iter()
                .map(|path| folder::footprint(path.metadata().unwrap().len()))
                .sum();
            assert_eq!(stats.bytes, bytes, "{case}");
        }
    }
}

#[test]
fn a_folder_in_the_place_of_an_entry_that_has_to_go_lets_the_others_go() {
    let dir = folder();
    let limit =
        3 * folder::footprint(Encoded::new(&key(0), &rows(0), &value_numbers(&rows(0))).unwrap().bytes);
    let cache = open(&dir, limit);
    (0..3).for_each(|group| assert!(cache.put(&key(group), &rows(group))));
    let path = cache.0.space.folder.entry(key(0).name());
    fs::remove_file(&path).unwrap();
    fs::create_dir_all(path.join("x")).unwrap();
    (0..2).for_each(|_| epoch_begins(&cache));
    assert!(cache.put(&key(8), &rows(8)) && cache.put(&key(9), &rows(9)));
    assert_eq!(cache.stats().writing_off, None);
}

#[test]
fn a_file_in_the_place_of_a_subfolder_keeps_only_its_entries_out() {
    let dir = folder();
    let cache = open(&dir, PLENTY);
    let subfolder = cache.0.space.folder.entry(key(0).name()).parent().unwrap().to_path_buf();
    fs::write(&subfolder, "mine").unwrap();
    assert!(cache.get(&key(0)).is_none());
    assert!(!cache.put(&key(0), &rows(0)));
    assert!(cache.put(&key(1), &rows(1)));
    let stats = cache.stats();
    assert_eq!((stats.declined.blocked, &stats.reading_off, &stats.writing_off), (1, &None, &None));
    assert_eq!(cache.verify().unwrap().strange, 1);
    assert_eq!(cache.clear().unwrap().entries, 1);
    assert_eq!(fs::read(subfolder).unwrap(), b"mine");
}

#[test]
fn an_entry_in_the_folder_of_others_is_not_counted() {
    let dir = folder();
    let (cache, _, path) = in_use(&dir);
    for folder in ["notes", "0"] {
        let elsewhere = path.parent().unwrap().with_file_name(folder);
        fs::create_dir(&elsewhere).unwrap();
        fs::copy(&path, elsewhere.join(path.file_name().unwrap())).unwrap();
    }
    let report = cache.verify().unwrap();
    assert_eq!((report.sound, report.strange), (1, 2));
    assert_eq!(open(&dir, PLENTY).stats().entries, 1);
}

#[test]
fn a_folder_in_the_place_of_the_ledger_is_named() {
    let dir = folder();
    let (cache, _, _) = in_use(&dir);
    let ledger = cache.0.space.folder.ledger();
    fs::remove_file(&ledger).unwrap();
    fs::create_dir_all(ledger.join("x")).unwrap();
    assert!(!cache.put(&key(1), &rows(1)));
    assert!(cache.get(&key(0)).is_some());
    let why = cache.stats().writing_off.unwrap().why;
    assert!(why.contains(&format!("remove {}", ledger.display())), "{why}");
    assert_eq!(cache.clear().unwrap().entries, 1);
}

#[test]
fn whatever_lies_where_a_last_use_is_noted_notes_it() {
    let things: [(&str, bool, Harm); 3] = [
        ("a folder with something in it", false, |path| fs::create_dir_all(path.join("x")).unwrap()),
        ("an empty folder", true, |path| fs::create_dir(path).unwrap()),
        ("a link", true, |path| std::os::unix::fs::symlink("/tmp", path).unwrap()),
    ];
    for (thing, can_go, make) in things {
        let dir = folder();
        let cache = open(
            &dir,
            folder::footprint(Encoded::new(&key(0), &rows(0), &value_numbers(&rows(0))).unwrap().bytes),
        );
        assert!(cache.put(&key(0), &rows(0)));
        let note = cache.0.space.folder.last_use(key(0).name());
        fs::remove_file(&note).unwrap();
        make(&note);
        for _ in 0..3 {
            epoch_begins(&cache);
            assert!(cache.get(&key(0)).is_some());
            assert!(!cache.put(&key(1), &rows(1)), "{thing}: the entry is in use");
        }
        assert_eq!(cache.verify().unwrap().strange, 1, "{thing}");
        (0..2).for_each(|_| epoch_begins(&cache));
        assert!(cache.put(&key(1), &rows(1)), "{thing}: the entry is not used any more");
        cache.maintain();
        assert_eq!(note.symlink_metadata().is_err(), can_go, "{thing}");
        assert_eq!(cache.clear().unwrap().entries, 1, "{thing}");
        assert_eq!(cache.stats().entries, 0, "{thing}");
    }
}

#[test]
fn writing_stops_where_it_is_not_to_go_on() {
    let dir = folder();
    let cache = open(&dir, PLENTY);
    let Claim::Mine(guard) = cache.claim(&key(0), CLAIM_PATIENCE) else { panic!("nobody else is there") };
    assert!(!guard.put_while(&rows(0), &|| false));
    let stats = cache.stats();
    assert_eq!((stats.declined.behind, stats.entries, stats.bytes), (1, 0, 0));
    assert_eq!(stats.writing_off, None);
    assert!(with_extension(dir.path(), "part").is_empty());
    assert!(cache.put(&key(0), &rows(0)), "another time");
}

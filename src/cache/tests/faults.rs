//! A disk that fails turns the cache off, never the loader; when the disk recovers, it is used again.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const RETRY: Duration = Duration::from_millis(300);

/// Opens a cache that tries a failed disk again soon, and does not check the free space of the disk.
fn impatient(folder: &Path) -> DiskCache {
    let mut space = Space::new(Folder::open(folder).unwrap(), PLENTY);
    space.keep_free = None;
    let cache = DiskCache::new(space, Health::with_retry(RETRY));
    cache.prepare();
    cache
}

/// Checks a failure and its end. Group 0 is put, then `break_it` runs: nothing more is kept, for the reason
/// `why`, with one warning and no delay. Then `heal_it` runs, and the cache recovers by itself.
fn breaks_and_heals(cache: &DiskCache, why: &str, break_it: impl FnOnce(), heal_it: impl FnOnce()) {
    assert!(cache.put(&key(0), &rows(0)));
    assert!(cache.get(&key(0)).is_some());
    break_it();
    let mut group = 1;
    let mut failing = Instant::now();
    while cache.put(&key(group), &rows(group)) {
        group += 1;
        assert!(group < 5000, "it does not break");
        failing = Instant::now();
    }
    let off = cache.stats().writing_off.expect("off");
    assert!(off.why.contains(why), "{off:?}");
    let faults = cache.stats().declined.faults;
    assert!(cache.take_warning().is_some_and(|warning| warning.contains(why)));
    assert!(cache.get(&key(0)).is_none_or(|entry| entry.read() == rows(0)));
    // Other programs may delay some calls, but a cache that waits for the disk delays each of them.
    const CALLS: u32 = 1000;
    const DELAY: Duration = Duration::from_millis(100);
    let mut delayed = 0;
    for _ in 0..CALLS {
        let start = Instant::now();
        assert!(!cache.put(&key(9999), &rows(0)) || failing.elapsed() > RETRY);
        assert!(matches!(cache.claim(&key(9998), CLAIM_PATIENCE), Claim::Alone) || failing.elapsed() > RETRY);
        delayed += u32::from(start.elapsed() > DELAY);
        assert!(delayed < CALLS / 10, "{:?}", start.elapsed());
    }
    assert_eq!(cache.take_warning(), None, "one a minute");
    let declined = cache.stats().declined;
    assert!(
        declined.faults >= faults + u64::from(CALLS) || failing.elapsed() > RETRY,
        "each is counted: {declined:?}"
    );
    heal_it();
    let start = Instant::now();
    while !cache.put(&key(7777), &rows(7777)) {
        assert!(start.elapsed() < 100 * RETRY, "{:?}", cache.stats());
        nap(10);
    }
    assert_eq!(cache.stats().writing_off, None);
    while cache.get(&key(7777)).is_none_or(|entry| entry.read() != rows(7777)) {
        assert!(start.elapsed() < 200 * RETRY, "{:?}", cache.stats());
        nap(10);
    }
    assert_eq!(cache.stats().damaged, 0);
}

/// A small disk that is mounted for one test, if the user may mount one.
struct Mounted(TempDir);

impl Mounted {
    fn new() -> Option<Mounted> {
        let dir = folder();
        let mounted = run(
            "mount",
            &["-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", &dir.path().to_string_lossy()],
        );
        if !mounted {
            skipped("mounting is not permitted");
        }
        mounted.then_some(Mounted(dir))
    }

    fn remount(&self, how: &str) {
        assert!(run("mount", &["-o", how, &self.0.path().to_string_lossy()]));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &["-l", &self.0.path().to_string_lossy()]);
    }
}

/// Makes every operation on an ext4 file system an input/output error, as if its disk were gone.
const SHUT_DOWN: &str = "import fcntl, os, struct, sys; \
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

fn run(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_full_disk_turns_writing_off_until_there_is_room() {
    let Some(disk) = Mounted::new() else { return };
    let cache = impatient(disk.0.path());
    breaks_and_heals(
        &cache,
        "No space left",
        || {},
        || {
            for group in 1..100 {
                let _ = fs::remove_file(cache.0.space.folder.entry(key(group).name()));
            }
        },
    );
    assert!(with_extension(disk.0.path(), "part").is_empty(), "no half-written entry keeps the disk full");
}

#[test]
fn a_disk_that_is_gone_turns_the_cache_off_until_there_is_another() {
    let (images, disk) = (folder(), folder());
    let (image, at) = (images.path().join("disk"), disk.path().to_string_lossy().into_owned());
    File::create(&image).unwrap().set_len(48 << 20).unwrap();
    let image = image.to_string_lossy();
    if !(run("mkfs.ext4", &["-q", "-F", &image])
        && run("mount", &["-o", "loop", &image, &at])
        && run("python3", &["-c", "import fcntl"]))
    {
        return skipped("a disk of its own cannot be mounted");
    }
    let disk = Mounted(disk);
    // The cache gets a folder below the root of the disk, because the file system has its own folder,
    // `lost+found`, in the root.
    let rows = disk.0.path().join("rows");
    let cache = impatient(&rows);
    let others = || {
        assert!(run("mount", &["-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", &at]));
        fs::create_dir(&rows).unwrap();
        fs::set_permissions(&rows, fs::Permissions::from_mode(0o700)).unwrap();
    };
    breaks_and_heals(
        &cache,
        "Input/output error",
        || assert!(run("python3", &["-c", SHUT_DOWN, &at])),
        others,
    );
    run("umount", &["-l", &at]);
}

#[test]
fn a_read_only_disk_turns_writing_off_and_reading_goes_on() {
    let Some(disk) = Mounted::new() else { return };
    let cache = impatient(disk.0.path());
    let fresh = || {
        disk.remount("remount,ro");
        let other = impatient(disk.0.path());
        assert_eq!(other.get(&key(0)).unwrap().read(), rows(0));
        assert!(!other.put(&key(50), &rows(50)));
        assert!(other.stats().writing_off.is_some());
    };
    breaks_and_heals(&cache, "Read-only file system", fresh, || disk.remount("remount,rw"));
}

#[test]
fn a_folder_without_permission_turns_writing_off() {
    let dir = folder();
    let inner = dir.path().join("rows");
    if rustix::process::geteuid().is_root() {
        // Root is never denied, so the test runs as another user, who then must own the folder.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(&inner).unwrap();
        std::os::unix::fs::chown(&inner, Some(NOBODY), None).unwrap();
        let mut child = process("faults::is_denied", &inner);
        std::os::unix::process::CommandExt::uid(&mut child, NOBODY);
        match child.output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => skipped(&error.to_string()),
        }
    } else {
        denied(&inner);
    }
}

const NOBODY: u32 = 65_534;

#[test]
#[ignore = "run by a_folder_without_permission_turns_writing_off"]
fn is_denied() {
    denied(&given_folder());
}

fn denied(folder: &Path) {
    let cache = impatient(folder);
    let allow = |mode| {
        for (path, _) in files(folder) {
            fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(folder.join("forebay-rows-v1"), fs::Permissions::from_mode(mode)).unwrap();
    };
    let deny = || {
        allow(0o500);
        let (error, folder) = (cache.clear().unwrap_err().to_string(), folder.display());
        let start = format!("{folder}: the cache folder cannot be emptied: Permission denied");
        assert!(
            error.starts_with(&start) && error.ends_with(&format!("chmod -R u+rwX {folder})")),
            "{error}"
        );
    };
    breaks_and_heals(&cache, "Permission denied", deny, || allow(0o700));
}

#[test]
fn a_folder_that_is_gone_turns_writing_off_until_it_is_back() {
    let dir = folder();
    let inner = dir.path().join("rows");
    fs::create_dir(&inner).unwrap();
    let cache = impatient(&inner);
    breaks_and_heals(
        &cache,
        "No such file",
        || fs::remove_dir_all(&inner).unwrap(),
        || {
            nap(2 * RETRY.as_millis() as u64);
            assert!(
                !cache.put(&key(1), &rows(1)) && !inner.exists(),
                "what the user named is not made again"
            );
            fs::create_dir(&inner).unwrap();
        },
    );
}

#[test]
fn running_out_of_open_files_turns_the_cache_off_and_leaves_what_is_mapped() {
    let dir = folder();
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "ulimit -n 64 && exec '{}' --exact cache::tests::faults::runs_out --ignored",
        program.display()
    );
    let output =
        Command::new("sh").args(["-c", &script]).env("FOREBAY_TEST_FOLDER", dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
#[ignore = "run by running_out_of_open_files_turns_the_cache_off_and_leaves_what_is_mapped"]
fn runs_out() {
    let cache = impatient(&given_folder());
    let held = std::cell::RefCell::new(Vec::new());
    assert!(cache.put(&key(5), &rows(5)));
    let take_all = || {
        while let Ok(file) = File::open("/dev/null") {
            held.borrow_mut().push(file);
        }
        assert_eq!(cache.get(&key(0)).expect("it is mapped").read(), rows(0));
        assert!(cache.get(&key(5)).is_none());
        assert!(cache.stats().reading_off.unwrap().why.contains("Too many open files"));
    };
    breaks_and_heals(&cache, "Too many open files", take_all, || held.borrow_mut().clear());
}

#[test]
fn a_folder_in_which_nothing_can_be_made_opens_and_says_so() {
    let dir = folder();
    fs::write(dir.path().join("forebay-rows-v1"), "in the way").unwrap();
    assert!(DiskCache::open(dir.path(), PLENTY).is_err(), "but this is no cache");
    let Some(disk) = Mounted::new() else { return };
    disk.remount("remount,ro");
    let cache = DiskCache::open(disk.0.path(), PLENTY).unwrap();
    assert!(!cache.put(&key(0), &rows(0)));
    assert!(cache.get(&key(0)).is_none());
    assert!(cache.stats().writing_off.unwrap().why.contains("Read-only"));
}

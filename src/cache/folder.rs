//! The folder on disk: who may use it, how its files are named and how they are opened.
//!
//! ```text
//! <folder>/                       owned by this user, writable by nobody else, with nothing else in it
//!   forebay-rows-v1/              0700; another layout has another folder
//!     ledger                      the sums of bytes and entries, changed under a lock of this file
//!     3f/                         0700; the first two digits of a name, so that no folder grows long
//!       3f…9c.arrows              0600; a whole entry, which is never written again
//!       3f…9c.used                0600; empty; its time is the entry's last use
//!       3f…9c.note                0600; a few words about a data set, such as what was measured for it
//!       3f…9c.part                0600; locked by the thread that fetches or writes it; an orphan if unlocked
//! ```
//!
//! Symbolic links are never followed. A link in the place of one of our files or folders is removed; a link
//! in the place of a `.used` file is removed with its entry.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind as Io};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forebay_base::{Error, ErrorKind, Place, Result, paths};
use rustix::fs::OFlags;

use super::key::Name;

const VERSION: &str = "forebay-rows-v1";
/// The prefix of the folder names of all layout versions. A folder with this prefix belongs to a cache, so it
/// is not refused as foreign.
const ANY_VERSION: &str = "forebay-rows-v";
/// A folder that the file system itself keeps at the root of a disk.
const KEPT_BY_THE_SYSTEM: &str = "lost+found";
const ENTRY: &str = "arrows";
const LAST_USE: &str = "used";
const NOTE: &str = "note";
const PARTIAL: &str = "part";
const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
/// The permission bits with which other users could change the content of a folder.
const OTHERS_WRITE: u32 = 0o022;
/// The usual unit of allocation of file systems, in bytes; the size of a file on disk is rounded up to it.
const BLOCK_BYTES: u64 = 4096;

/// How many bytes a file of `length` takes on disk.
pub(super) fn footprint(length: u64) -> u64 {
    length.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// The folder of a cache.
#[derive(Debug)]
pub(super) struct Folder {
    given: PathBuf,
    root: PathBuf,
    /// Whether entries may be memory-mapped.
    pub(super) mapped: bool,
}

/// A file of the cache that a scan of the folder found.
#[derive(Debug)]
pub(super) struct ScannedFile {
    pub(super) name: Name,
    pub(super) length: u64,
    /// The time of the last use.
    pub(super) used: SystemTime,
}

/// All files of the cache that a scan of the folder found.
#[derive(Default)]
pub(super) struct FolderScan {
    pub(super) entries: Vec<ScannedFile>,
    pub(super) partials: Vec<ScannedFile>,
    /// Entries that were removed, but whose `.used` file, the time of the last use, still exists.
    pub(super) left_behind: Vec<Name>,
    /// Notes about data sets.
    pub(super) notes: Vec<Name>,
    /// The number of files that do not belong to the cache.
    pub(super) strange: u64,
}

impl Folder {
    /// Opens or creates the folder `given`.
    ///
    /// # Errors
    /// `Invalid` for a folder that a cache must not use, `Io` if it cannot be created or read.
    pub(super) fn open(given: &Path) -> Result<Folder> {
        let at = |error: Error| {
            let error = match error.kind() {
                ErrorKind::Io => {
                    error.hint("name a folder that this user can create and write to with `cache`")
                }
                _ => error,
            };
            error.at(Place::file(given.to_string_lossy()))
        };
        // Collecting the components drops a slash at the end, because `symlink_metadata` would follow a
        // symbolic link that has one.
        let given: PathBuf = paths::absolute(given)?.components().collect();
        if given.symlink_metadata().is_err_and(|error| error.kind() == Io::NotFound) {
            let parent = given.parent().unwrap_or(&given);
            let created = fs::create_dir_all(parent).and_then(|()| make_private(&given));
            created.map_err(|error| at(failed("created", &error)))?;
        }
        let folder = Folder { root: given.join(VERSION), given, mapped: false };
        folder.check().map_err(at)?;
        folder.check_alone().map_err(at)?;
        Ok(Folder { mapped: is_local(&folder.given), ..folder })
    }

    /// The folder as the user named it.
    pub(super) fn given(&self) -> &Path {
        &self.given
    }

    /// Locks the folder, which shows other processes that the cache is in use, until the returned file is
    /// dropped. `None` where files cannot be locked.
    pub(super) fn hold(&self) -> Option<File> {
        let folder = File::open(&self.given).ok()?;
        folder.try_lock_shared().ok().map(|()| folder)
    }

    /// Whether no process [holds](Self::hold) the folder.
    pub(super) fn is_unused(&self) -> bool {
        File::open(&self.given).is_ok_and(|folder| folder.try_lock().is_ok())
    }

    /// The folder that contains the files of this layout.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Checks again that the folder may be used, and creates the folder for the files of this layout. The
    /// user's folder itself is not created again: if its disk was unmounted, a new folder would be on the
    /// disk that holds the mount point, and rows would fill that disk.
    pub(super) fn prepare(&self) -> Result<()> {
        self.check()?;
        make_private(&self.root).map_err(|error| failed("written to", &error))?;
        check_private(&self.root)
    }

    fn check(&self) -> Result<()> {
        check_private(&self.given)?;
        if self.root.symlink_metadata().is_ok() {
            check_private(&self.root)?;
        }
        Ok(())
    }

    fn check_alone(&self) -> Result<()> {
        let unreadable = |error: io::Error| failed("read", &error);
        for found in fs::read_dir(&self.given).map_err(unreadable)? {
            let name = found.map_err(unreadable)?.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(ANY_VERSION) && name != KEPT_BY_THE_SYSTEM {
                return Err(Error::invalid(format!("the cache folder holds {name:?}"))
                    .hint(format!("give the cache a folder of its own: {}", self.beside().display())));
            }
        }
        Ok(())
    }

    /// Another folder, which an error message suggests for the cache: the given folder may hold the data set
    /// itself.
    fn beside(&self) -> PathBuf {
        match self.given.file_name() {
            Some(name) => self.given.with_file_name(format!("{}-cache", name.to_string_lossy())),
            None => self.given.join("var/tmp/forebay-cache"),
        }
    }

    fn subfolder(&self, number: u8) -> PathBuf {
        self.root.join(format!("{number:02x}"))
    }

    /// The number of a subfolder, parsed from its name.
    fn number(&self, found: &fs::DirEntry) -> Option<u8> {
        let number = u8::from_str_radix(found.file_name().to_str()?, 16).ok()?;
        (found.path() == self.subfolder(number)).then_some(number)
    }

    fn place(&self, name: Name, kind: &str) -> PathBuf {
        self.subfolder(name.folder()).join(format!("{name}.{kind}"))
    }

    pub(super) fn entry(&self, name: Name) -> PathBuf {
        self.place(name, ENTRY)
    }

    pub(super) fn partial(&self, name: Name) -> PathBuf {
        self.place(name, PARTIAL)
    }

    /// The file whose time is the last use of an entry.
    pub(super) fn last_use(&self, name: Name) -> PathBuf {
        self.place(name, LAST_USE)
    }

    /// The file of a note.
    pub(super) fn note(&self, name: Name) -> PathBuf {
        self.place(name, NOTE)
    }

    /// The time of the last use of the entry `name`, whose file has the metadata `found`.
    pub(super) fn last_used(&self, name: Name, found: &fs::Metadata) -> SystemTime {
        let noted = self.last_use(name).symlink_metadata().and_then(|note| note.modified());
        noted.unwrap_or_else(|_| changed(found))
    }

    pub(super) fn ledger(&self) -> PathBuf {
        self.root.join("ledger")
    }

    /// Creates the subfolder for the files with this name. Returns whether a file is in the place of the
    /// subfolder.
    pub(super) fn make_room_for(&self, name: Name) -> io::Result<bool> {
        let folder = self.subfolder(name.folder());
        match folder.symlink_metadata() {
            Ok(found) if found.is_dir() || found.is_file() => return Ok(found.is_file()),
            Ok(_) => clear(&folder).and_then(|_| make_private(&folder))?,
            Err(_) => make_private(&folder)?,
        }
        Ok(false)
    }

    /// Scans all files. Files that come or go meanwhile may be included or not.
    pub(super) fn scan(&self) -> io::Result<FolderScan> {
        let mut scan = FolderScan::default();
        let mut used = HashMap::new();
        for folder in fs::read_dir(&self.root)? {
            let folder = folder?;
            let is_folder = folder.file_type()?.is_dir();
            let Some(number) = self.number(&folder).filter(|_| is_folder) else {
                scan.strange += u64::from(folder.path() != self.ledger());
                continue;
            };
            for found in fs::read_dir(folder.path())? {
                scan.take(&found?, number, &mut used)?;
            }
        }
        for entry in &mut scan.entries {
            entry.used = used.remove(&entry.name).unwrap_or(entry.used);
        }
        scan.left_behind = used.into_keys().collect();
        Ok(scan)
    }
}

impl FolderScan {
    /// Adds a file of the subfolder `number` to the scan. If the file notes a last use, its time goes into
    /// `last_uses`.
    fn take(
        &mut self,
        found: &fs::DirEntry,
        number: u8,
        last_uses: &mut HashMap<Name, SystemTime>,
    ) -> io::Result<()> {
        let file_name = found.file_name();
        let parsed = file_name.to_str().and_then(|name| name.split_once('.'));
        let known = parsed.and_then(|(name, kind)| Some((Name::parse(name)?, kind)));
        let known = known.filter(|(name, _)| name.folder() == number);
        let metadata = match found.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == Io::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let file = |name| ScannedFile { name, length: metadata.len(), used: changed(&metadata) };
        match known {
            Some((name, ENTRY)) if metadata.is_file() => self.entries.push(file(name)),
            Some((name, LAST_USE)) => {
                self.strange += u64::from(!metadata.is_file());
                last_uses.insert(name, metadata.modified()?);
            }
            Some((name, PARTIAL)) if metadata.is_file() => self.partials.push(file(name)),
            Some((name, NOTE)) if metadata.is_file() => self.notes.push(name),
            _ => self.strange += 1,
        }
        Ok(())
    }
}

/// The time of a file's last change, which for an entry is when it was published.
fn changed(found: &fs::Metadata) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(found.ctime().try_into().unwrap_or(0))
}

/// Opens a file of the cache for reading, without changing its time of access.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let open = |flags: OFlags| OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    // The file is opened without blocking, since opening a pipe would otherwise wait for a writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    #[cfg(target_os = "linux")]
    match open(flags | OFlags::NOATIME) {
        // Only the owner of a file may open it without changing its time of access.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) => {}
        opened => return opened,
    }
    open(flags)
}

/// Creates a file of the cache. It must not exist yet, unless `or_open` is true.
pub(super) fn create(path: &Path, or_open: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(or_open)
        .create_new(!or_open)
        .mode(PRIVATE_FILE)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)?;
    // The umask may have taken permissions away.
    file.set_permissions(Permissions::from_mode(PRIVATE_FILE))?;
    Ok(file)
}

/// Whether an operation failed because of one path, and not because the disk failed: there is a link or a
/// folder at this path, or a file that may not be read or removed.
pub(super) fn is_in_the_way(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(code, Some(rustix::io::Errno::LOOP | rustix::io::Errno::MLINK | rustix::io::Errno::NXIO))
        || matches!(error.kind(), Io::IsADirectory | Io::DirectoryNotEmpty | Io::PermissionDenied)
}

/// Makes sure that there is nothing but a regular file at `path`: links, pipes, sockets, devices and empty
/// folders are removed. Returns whether something remains that is not a regular file.
pub(super) fn clear(path: &Path) -> io::Result<bool> {
    let kind = match path.symlink_metadata() {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == Io::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if kind.is_file() {
        return Ok(false);
    }
    match if kind.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) } {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == Io::NotFound => Ok(false),
        Err(error) if is_in_the_way(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(PRIVATE_FOLDER).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(PRIVATE_FOLDER)),
        Err(error) if error.kind() == Io::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// The error of an operation on the cache's folder.
pub(super) fn failed(done: &str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("the cache folder cannot be {done}: {error}"))
}

/// Refuses a folder into which another user could put rows.
fn check_private(path: &Path) -> Result<()> {
    let found = path.symlink_metadata().map_err(|error| failed("read", &error))?;
    let refuse = |cause: &str, hint: String| Err(Error::invalid(cause).hint(hint));
    if found.is_symlink() {
        return refuse("the cache folder is a symbolic link", "name the folder that it points to".into());
    }
    if !found.is_dir() {
        return refuse(
            "the cache folder is not a folder",
            "name a folder, or a path that does not exist".into(),
        );
    }
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        let cause = format!("the cache folder belongs to user {owner}, and this is user {user}");
        return Err(Error::invalid(cause).hint("each user needs a cache of their own"));
    }
    if found.mode() & OTHERS_WRITE != 0 {
        let hint = format!("chmod go-w {}", path.display());
        return refuse("others can write to the cache folder", hint);
    }
    Ok(())
}

/// Whether a path is on a disk of this machine, where files may be memory-mapped. On a network file system,
/// mapped pages are lost with the connection, and the times of files show changes late. There, rows are read
/// into memory and checked.
#[cfg(target_os = "linux")]
pub(crate) fn is_local(path: &Path) -> bool {
    /// The magic numbers of ext4, XFS, Btrfs, tmpfs, F2FS, ZFS, overlay and bcachefs, from `statfs(2)` and
    /// linux/magic.h.
    const LOCAL: [u32; 8] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0xF2F5_2010, 0x2FC1_2FC1, 0x794C_7630, 0xCA45_1A4E];
    rustix::fs::statfs(path).is_ok_and(|found| LOCAL.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_local(_: &Path) -> bool {
    false
}

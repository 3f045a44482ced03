//! Keeps the footers of remote files on local disk, so that a data set that is opened again needs a listing
//! and no other request.
//!
//! There is one file for each folder that was opened. All processes of the user share it. An entry is found
//! by the URL, size and version of a data file, and has a checksum; if it is outdated, damaged or cut off,
//! the footer is read from the store again. A file is written under another name and then renamed, so that
//! readers never see a part of it. If anything fails here, footers are read from the store.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::clouds::MetadataCache as Choice;
use crate::snapshot::Pin;

/// The first bytes of each file, which name its format.
const MAGIC: &[u8; 8] = b"FBMETA01";

/// The folder of these files, below the user's folder for caches.
const FOLDER: &str = "forebay/metadata";

/// The limit on the total size of the finished files in the folder, in bytes. Above it, the oldest of them
/// are removed.
const MAX_BYTES: u64 = 2 << 30;

/// The age after which an unfinished file is removed, because its process has probably died.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

const SUFFIX: &str = "footers";
pub(super) const SUFFIX_ROWS: &str = "rows";
const SUFFIX_WRITING: &str = "writing";

/// The footers that are kept for one folder of data files.
#[derive(Debug)]
pub(super) struct MetadataCache {
    path: PathBuf,
    known: HashMap<u64, Bytes>,
}

impl MetadataCache {
    /// Reads the footers that are kept for a data set. Its folder is found from the first file: `whole` is
    /// the file's URL, and `relative` its path below the folder. Returns `None` if footers should not be
    /// kept.
    pub(super) fn load(choice: Option<Choice>, whole: &str, relative: &str) -> Option<Self> {
        let root = whole.strip_suffix(relative)?;
        let path = folder(choice)?.join(format!("{:032x}.{SUFFIX}", xxh3_128(root.as_bytes())));
        let known = fs::read(&path).map(|bytes| entries(bytes.into())).unwrap_or_default();
        Some(MetadataCache { path, known })
    }

    /// The footer with this key, if it is kept.
    pub(super) fn get(&self, key: u64) -> Option<Bytes> {
        self.known.get(&key).cloned()
    }

    /// Starts to write all footers again; `None` if footers with all `keys` are kept already.
    pub(super) fn renew(&self, mut keys: impl Iterator<Item = u64>) -> Option<Renewal> {
        if keys.all(|key| self.known.contains_key(&key)) {
            return None;
        }
        let mut writing = Writing::begin(&self.path)?;
        writing.write(MAGIC).then_some(Renewal { writing, bytes: 0 })
    }
}

/// A new file of footers that is being written. If it is dropped before [`keep`](Self::keep) is called, it is
/// removed.
pub(super) struct Renewal {
    writing: Writing,
    bytes: u64,
}

impl Renewal {
    pub(super) fn add(&mut self, key: u64, footer: &[u8]) {
        self.bytes += footer.len() as u64;
        if self.bytes > MAX_BYTES {
            self.writing.fail();
        }
        entry(&mut self.writing, key, footer);
    }

    /// Replaces the earlier file of footers by this one.
    pub(super) fn keep(self) {
        let path = self.writing.path.clone();
        if self.writing.keep() {
            make_room(&path);
        }
    }
}

/// A file that has another name until it is complete. If it is dropped before [`keep`](Self::keep) is called,
/// it is removed. If a write fails, for example because the disk is full, the earlier file remains.
pub(super) struct Writing {
    file: Option<BufWriter<File>>,
    writing: PathBuf,
    path: PathBuf,
}

impl Writing {
    /// Starts to write a file that will replace the one at `path`. Only this user can read it.
    pub(super) fn begin(path: &Path) -> Option<Self> {
        let writing = path.with_extension(format!("{}.{SUFFIX_WRITING}", std::process::id()));
        let _ = fs::remove_file(&writing);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&writing).ok()?;
        Some(Writing { file: Some(BufWriter::new(file)), writing, path: path.to_owned() })
    }

    /// Writes more bytes, unless an earlier write has failed. Returns whether all writes succeeded.
    pub(super) fn write(&mut self, bytes: &[u8]) -> bool {
        if self.file.as_mut().is_some_and(|file| file.write_all(bytes).is_err()) {
            self.fail();
        }
        self.file.is_some()
    }

    fn fail(&mut self) {
        self.file = None;
    }

    /// Gives the file its final name, if all writes succeeded. Returns whether it did.
    pub(super) fn keep(mut self) -> bool {
        let Some(file) = self.file.take() else { return false };
        file.into_inner().is_ok() && fs::rename(&self.writing, &self.path).is_ok()
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.writing);
    }
}

/// The key of a footer: a hash of the URL of its file, and of the file's size and version.
pub(super) fn key(whole: &str, pin: &Pin) -> u64 {
    xxh3_64(format!("{whole}\0{}\0{}", pin.size, pin.version).as_bytes())
}

fn entry(writing: &mut Writing, key: u64, footer: &[u8]) {
    writing.write(&key.to_le_bytes());
    writing.write(&(footer.len() as u64).to_le_bytes());
    writing.write(&proof(key, footer).to_le_bytes());
    writing.write(footer);
}

fn proof(key: u64, footer: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(footer, key)
}

/// Reads the entries of a file of footers, up to the first damaged one.
fn entries(mut bytes: Bytes) -> HashMap<u64, Bytes> {
    let mut known = HashMap::new();
    if !bytes.starts_with(MAGIC) {
        return known;
    }
    let mut take = |length: u64| {
        let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len())?;
        Some(bytes.split_to(length))
    };
    take(MAGIC.len() as u64);
    while let Some(head) = take(24) {
        let number = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).unwrap_or_default();
        let Some(footer) = take(number(8)) else { break };
        if proof(number(0), &footer) != number(16) {
            break;
        }
        known.insert(number(0), footer);
    }
    known
}

/// The folder in which files are kept; `None` if nothing should be kept.
pub(super) fn folder(choice: Option<Choice>) -> Option<PathBuf> {
    let folder = match choice {
        Some(Choice::Off) => return None,
        Some(Choice::Folder(folder)) => folder,
        None => user_folder()?.join(FOLDER),
    };
    is_private(&folder).then_some(folder)
}

fn user_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    folder.is_absolute().then_some(folder)
}

/// Creates the folder, which only this user can read, because footers contain values. Returns whether the
/// folder belongs to this user, and no other user can write to it.
fn is_private(folder: &Path) -> bool {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let probe = |path: &Path| fs::symlink_metadata(path).ok();
    let Some(about) = probe(folder) else { return false };
    // The folder `/proc/self` belongs to the user of this process.
    let own = probe(Path::new("/proc/self")).map(|own| own.uid());
    about.is_dir() && about.mode() & 0o022 == 0 && own.is_none_or(|own| own == about.uid())
}

/// Removes the oldest files of the folder until the rest is small enough, and unfinished files of processes
/// that have died.
pub(super) fn make_room(kept: &Path) {
    let Some(items) = kept.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return };
    let now = SystemTime::now();
    let mut files = Vec::new();
    for item in items.flatten() {
        let (path, Ok(about)) = (item.path(), item.metadata()) else { continue };
        let Ok(modified) = about.modified() else { continue };
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        match suffix {
            Some(SUFFIX | SUFFIX_ROWS) => files.push((modified, about.len(), path)),
            Some(SUFFIX_WRITING) if now.duration_since(modified).is_ok_and(|age| age > ABANDONED_AFTER) => {
                let _ = fs::remove_file(path);
            }
            _ => {}
        }
    }
    files.sort_unstable();
    let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in files {
        if total <= MAX_BYTES {
            break;
        }
        total -= bytes;
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::FileVersion;

    fn key_of(name: &str, tag: &str) -> u64 {
        let version = FileVersion::ETag(tag.into());
        key(&format!("s3://acme/train/{name}"), &Pin { path: name.into(), size: 100, version })
    }

    fn load(folder: &Path) -> MetadataCache {
        let choice = Some(Choice::Folder(folder.into()));
        MetadataCache::load(choice, "s3://acme/train/a.parquet", "a.parquet").unwrap()
    }

    fn fill(folder: &Path, names: &[String]) {
        let keys = names.iter().map(|name| key_of(name, "1"));
        let mut renewal = load(folder).renew(keys).unwrap();
        names.iter().for_each(|name| renewal.add(key_of(name, "1"), name.as_bytes()));
        renewal.keep();
    }

    #[test]
    fn a_footer_is_known_until_its_file_is_written_again() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("metadata");
        fill(&folder, &["a.parquet".into(), "b.parquet".into()]);
        let cache = load(&folder);
        let (a, b, rewritten) =
            (key_of("a.parquet", "1"), key_of("b.parquet", "1"), key_of("b.parquet", "2"));
        assert_eq!(cache.get(b).as_deref(), Some(&b"b.parquet"[..]));
        assert!(cache.renew([a, b].into_iter()).is_none(), "nothing is new");
        assert_eq!(cache.get(rewritten), None);
        assert!(cache.renew([a, rewritten].into_iter()).is_some());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "what is not kept leaves nothing");
    }

    #[test]
    fn damage_is_a_miss() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("metadata");
        let names: Vec<String> = (0..20).map(|i| format!("{i:02}.parquet")).collect();
        fill(&folder, &names);
        let path = load(&folder).path;
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            fs::write(&path, &flipped).unwrap();
            let cache = load(&folder);
            for name in &names {
                let footer = cache.get(key_of(name, "1"));
                assert!(footer.is_none_or(|footer| footer == name.as_bytes()), "byte {at}");
            }
            fs::write(&path, &whole[..at]).unwrap();
            assert!(load(&folder).get(key_of(&names[19], "1")).is_none(), "cut at {at}");
        }
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let choice = Some(Choice::Folder(scratch.path().into()));
        assert!(MetadataCache::load(choice, "s3://acme/a.parquet", "a.parquet").is_none());
    }
}

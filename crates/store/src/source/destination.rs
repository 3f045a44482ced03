//! The place for new files: a folder of this machine, or a prefix of a store. Existing files are never
//! replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Place, Result, paths};

use super::clouds::Options;
use super::remote::Remote;
use super::shown::shown;
use super::url::{self, Target};

/// The number of files for a store that this process has begun to write, since two of them may be written at
/// once.
static UNFINISHED: AtomicU64 = AtomicU64::new(0);

/// The hidden folder in a local destination that holds all new files until the last of them is complete. So
/// the remains of an interrupted run are not taken for the data set.
const HIDDEN: &str = ".forebay-unfinished";
/// The file that says which job writes into the destination, so that an interrupted one can be continued.
/// Readers pass over its name.
const JOB: &str = "_forebay_write.json";

/// A job that begins or continues.
pub struct Resumed {
    /// The names of the files that are complete.
    pub complete: BTreeSet<String>,
    /// Keeps other processes of this machine from the folder, until it is dropped.
    pub lock: Option<fs::File>,
}

/// The folder or prefix for new files.
#[derive(Clone)]
pub struct Destination(Where);

#[derive(Clone)]
enum Where {
    /// A local folder, by its absolute path.
    Local(PathBuf),
    Remote {
        remote: Remote,
        prefix: String,
    },
}

/// Whether `place` is inside the location `read`: in a folder, which is read with its subfolders, or in the
/// folder below which a glob matches.
pub fn is_inside(place: &str, read: &str) -> Result<bool> {
    let is_within = |folder: &Path, place: &Path| -> Result<bool> {
        Ok(paths::absolute(place)?.starts_with(paths::absolute(folder)?))
    };
    match (url::parse(read)?, url::parse(place)?) {
        (Target::Path(folder), Target::Path(place)) if folder.is_dir() => is_within(&folder, &place),
        (Target::Glob(glob), Target::Path(place)) => is_within(glob.base(), &place),
        (Target::Remote(read), Target::Remote(place)) => {
            Ok(place.same_store(&read) && Path::new(place.key()).starts_with(read.key()))
        }
        _ => Ok(false),
    }
}

impl Destination {
    /// The end of the name of a local file that is not complete.
    pub const UNFINISHED: &str = ".tmp";

    /// Parses a location and the options of its store; nothing is sent yet.
    ///
    /// Fails with `Invalid` for a glob and for a text that is not a location, and with `Unsupported` for a
    /// store that can only be read.
    pub fn parse(location: &str, options: &BTreeMap<String, String>) -> Result<Destination> {
        let options = Options::new(options);
        options.check()?;
        let place = || Place::file(shown(location));
        match url::parse(location)? {
            Target::Path(path) => Ok(Destination(Where::Local(paths::absolute(&path)?))),
            Target::Glob(_) => {
                let error = Error::invalid("files are written into one folder, and this is a glob");
                Err(error.at(place()).hint("name a folder that is empty or does not exist"))
            }
            Target::Remote(address) => {
                if !address.lists() {
                    let error = Error::new(ErrorKind::Unsupported, "plain HTTP servers are only read");
                    return Err(error.at(place()).hint("write to a folder or a bucket"));
                }
                let prefix = address.key().trim_end_matches('/').to_owned();
                let remote = Remote::connect(&address, &options, Arc::default())?;
                Ok(Destination(Where::Remote { remote, prefix }))
            }
        }
    }

    /// Refuses a place that is not empty.
    pub async fn check_empty(&self) -> Result<()> {
        let holds = match &self.0 {
            Where::Local(folder) if folder.join(HIDDEN).exists() => {
                let error = Error::invalid("the folder has the files of a run that did not end");
                return Err(error
                    .at(self.place(HIDDEN))
                    .hint("if it was interrupted, remove the folder and run it again"));
            }
            Where::Local(folder) => match fs::read_dir(folder) {
                Ok(mut entries) => entries.next().is_some(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
                Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                    let error = Error::invalid("this is a file, or in one");
                    return Err(error.at(self.place("")).hint("name a folder that does not exist yet"));
                }
                Err(error) => return Err(error.into_error().at(self.place(""))),
            },
            Where::Remote { remote, prefix } => {
                let prefix = object_path(prefix)?;
                !remote.list(&prefix).await.map_err(|error| error.at(self.place("")))?.is_empty()
            }
        };
        match holds {
            true => {
                let error = Error::invalid("the folder is not empty");
                Err(error.at(self.place("")).hint("name one that does not exist yet"))
            }
            false => Ok(()),
        }
    }

    /// Begins the job that `record` describes, or continues it if it was interrupted.
    ///
    /// # Errors
    /// `Invalid` for a place that holds anything else, such as the files of another job, and for a folder of
    /// this machine that another process writes to.
    pub async fn resume(&self, record: &str) -> Result<Resumed> {
        if self.job().await?.is_none() {
            self.check_empty().await?;
            self.begin(record).await?;
        }
        let lock = self.lock()?;
        let complete = self.complete_files(record).await?;
        Ok(Resumed { complete, lock })
    }

    /// Locks the record of a job in a local folder, until the file is dropped.
    fn lock(&self) -> Result<Option<fs::File>> {
        let Where::Local(folder) = &self.0 else { return Ok(None) };
        let hidden = folder.join(HIDDEN).join(JOB);
        let record = if hidden.exists() { hidden } else { folder.join(JOB) };
        let file = fs::File::open(record).or_fail().map_err(|error: Error| error.at(self.place(JOB)))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => {
                let error = Error::invalid("another process writes into this folder");
                Err(error.at(self.place("")).hint("wait for it, or name another folder"))
            }
            // Some file systems have no locks.
            Err(fs::TryLockError::Error(_)) => Ok(None),
        }
    }

    /// The names of the files of the job that are complete.
    async fn complete_files(&self, record: &str) -> Result<BTreeSet<String>> {
        let earlier = self.job().await?.unwrap_or_default();
        if earlier != record {
            let error = Error::invalid(
                "the folder has the files of another run: of other files, or with other options",
            );
            return Err(error.at(self.place("")).hint("repeat that command, or name another folder"));
        }
        match &self.0 {
            Where::Local(folder) => {
                let mut names = BTreeSet::new();
                for folder in [folder.join(HIDDEN), folder.clone()] {
                    let Ok(entries) = fs::read_dir(&folder) else { continue };
                    names.extend(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()));
                }
                names.retain(|name| name != JOB && name != HIDDEN && !name.ends_with(Self::UNFINISHED));
                Ok(names)
            }
            Where::Remote { remote, prefix } => {
                let prefix = object_path(prefix)?;
                let objects = remote.list(&prefix).await.map_err(|error| error.at(self.place("")))?;
                let names = objects.iter().filter_map(|object| object.location.filename().map(str::to_owned));
                Ok(names.filter(|name| name != JOB).collect())
            }
        }
    }

    /// The record of the job that writes here, if there is one.
    async fn job(&self) -> Result<Option<String>> {
        match &self.0 {
            Where::Local(folder) => {
                let records = [folder.join(HIDDEN).join(JOB), folder.join(JOB)];
                Ok(records.iter().find_map(|record| fs::read_to_string(record).ok()))
            }
            Where::Remote { remote, .. } => {
                let path = self.object(JOB)?;
                let Some(about) = remote.head(&path).await.map_err(|error| error.at(self.place(JOB)))? else {
                    return Ok(None);
                };
                let (_, bytes) =
                    remote.tail(&path, about.size).await.map_err(|error| error.at(self.place(JOB)))?;
                Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
            }
        }
    }

    async fn begin(&self, record: &str) -> Result<()> {
        match &self.0 {
            Where::Local(_) => {
                let path = self.unfinished(JOB)?;
                fs::write(&path, record).or_fail().map_err(|error: Error| error.at(self.place(JOB)))
            }
            Where::Remote { remote, .. } => {
                let written =
                    remote.write(&self.object(JOB)?, Bytes::copy_from_slice(record.as_bytes())).await;
                written.map_err(|error| error.at(self.place(JOB)))
            }
        }
    }

    /// The number of bytes of a complete file.
    pub async fn file_bytes(&self, relative: &str) -> Result<u64> {
        match &self.0 {
            Where::Local(_) => {
                let about = fs::metadata(self.complete(relative)).or_fail();
                Ok(about.map_err(|error: Error| error.at(self.place(relative)))?.len())
            }
            Where::Remote { remote, .. } => {
                let about = remote.head(&self.object(relative)?).await;
                Ok(about.map_err(|error| error.at(self.place(relative)))?.map_or(0, |about| about.size))
            }
        }
    }

    /// The path of a complete file of a local folder, hidden or shown.
    fn complete(&self, relative: &str) -> PathBuf {
        let Where::Local(folder) = &self.0 else { return PathBuf::new() };
        let hidden = folder.join(HIDDEN).join(relative);
        if hidden.exists() { hidden } else { folder.join(relative) }
    }

    /// The key of a file in a store.
    fn object(&self, relative: &str) -> Result<object_store::path::Path> {
        match &self.0 {
            Where::Remote { prefix, .. } if !prefix.is_empty() => {
                object_path(&format!("{prefix}/{relative}"))
            }
            _ => object_path(relative),
        }
    }

    /// The local file in which a new one is written: a hidden one in a local folder, or, for a store, one in
    /// the folder for temporary files. Creates its folder.
    pub fn unfinished(&self, relative: &str) -> Result<PathBuf> {
        let path = match &self.0 {
            Where::Local(folder) => folder.join(HIDDEN).join(relative),
            Where::Remote { .. } => {
                let number = UNFINISHED.fetch_add(1, Ordering::Relaxed);
                std::env::temp_dir().join(format!("forebay-{}-{number}.parquet", std::process::id()))
            }
        };
        let parent = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the folder cannot be made: {error}"))
                .at(Place::file(parent.display().to_string()))
                .hint("name a folder on a disk that this user can write to")
        })?;
        Ok(path)
    }

    /// Takes a complete file: it is sent to a store and then removed here. Files of a local folder get their
    /// names and stay hidden until the [end](Self::finish).
    pub async fn put(&self, whole: &Path, relative: &str) -> Result<()> {
        let remote = match &self.0 {
            Where::Local(folder) => {
                let renamed = fs::rename(whole, folder.join(HIDDEN).join(relative)).or_fail();
                return renamed.map_err(|error: Error| error.at(self.place(relative)));
            }
            Where::Remote { remote, .. } => remote,
        };
        let sent = remote.send(&self.object(relative)?, whole).await;
        let _ = fs::remove_file(whole);
        sent.map_err(|error| error.at(self.place(relative)))
    }

    /// Makes the files of a local folder visible, all of which are complete.
    pub fn finish(&self) -> Result<()> {
        let Where::Local(folder) = &self.0 else { return Ok(()) };
        let hidden = folder.join(HIDDEN);
        if !hidden.exists() {
            return Ok(());
        }
        let show = || -> std::io::Result<()> {
            for entry in fs::read_dir(&hidden)? {
                let entry = entry?;
                fs::rename(entry.path(), folder.join(entry.file_name()))?;
            }
            fs::remove_dir(&hidden)
        };
        show().or_fail().map_err(|error: Error| error.at(self.place(HIDDEN)))
    }

    /// Removes the hidden files of a local folder after a failure, and the folder if nothing else is in it.
    pub fn abandon(&self) {
        if let Where::Local(folder) = &self.0 {
            // Files that cannot be removed stay hidden.
            let _ = fs::remove_dir_all(folder.join(HIDDEN));
            let _ = fs::remove_dir(folder);
        }
    }

    /// The place of a file in the destination, for messages; without a name, that of the folder itself.
    pub fn place(&self, relative: &str) -> Place {
        Place::file(match &self.0 {
            Where::Local(folder) if relative.is_empty() => folder.display().to_string(),
            Where::Local(folder) => folder.join(relative).display().to_string(),
            Where::Remote { remote, prefix } => {
                let parts = [prefix.as_str(), relative].into_iter().filter(|part| !part.is_empty());
                remote.shown(&parts.collect::<Vec<_>>().join("/"))
            }
        })
    }
}

fn object_path(key: &str) -> Result<object_store::path::Path> {
    object_store::path::Path::parse(key).map_err(|error| Error::invalid(error.to_string()))
}

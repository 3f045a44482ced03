//! The place for new files: a folder of this machine, or a prefix of a store. Existing files are never
//! replaced.

mod job;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, ErrorKind, Place, Result, paths};

use super::clouds::Options;
use super::remote::Remote;
use super::shown::shown;
use super::url::{self, Target};

pub use job::Resumed;

/// The number of files for a store that this process has begun to write. The names of temporary files contain
/// it, since two files may be written at once.
static UNFINISHED: AtomicU64 = AtomicU64::new(0);

/// The hidden folder in a local destination that holds all new files until the last of them is complete. So
/// the remains of an interrupted run are not taken for the data set.
const HIDDEN: &str = ".forebay-unfinished";

/// The name of the record of a job that writes many files. Readers of data sets pass over such names.
const JOB: &str = "_forebay_write.json";

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
                Err(error) => return Err(self.unreadable(error)),
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

    /// The error of a local folder that cannot be read.
    fn unreadable(&self, error: std::io::Error) -> Error {
        match error.kind() == std::io::ErrorKind::NotADirectory {
            true => {
                let error = Error::invalid("this is a file, or in one");
                error.at(self.place("")).hint("name a folder that does not exist yet")
            }
            false => error.into_error().at(self.place("")),
        }
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
            let mut entries = fs::read_dir(&hidden)?.collect::<std::io::Result<Vec<_>>>()?;
            // The record shows first, so that an interruption here can be continued.
            entries.sort_by_key(|entry| entry.file_name() != JOB);
            for entry in entries {
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

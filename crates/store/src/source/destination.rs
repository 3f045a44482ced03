//! Writes new files to a destination, which is a local folder or a prefix in a store. Existing files are
//! never replaced.

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

/// Counts the temporary files of this process. Their names contain the count, so that files that are written
/// at the same time have different names.
static UNFINISHED: AtomicU64 = AtomicU64::new(0);

/// The hidden folder inside a local destination that holds the new files until all of them are complete. This
/// keeps readers from taking the remains of an interrupted run for a data set.
const HIDDEN: &str = ".forebay-unfinished";

/// The file that describes the job (a run that writes many files). Readers of data sets skip names that begin
/// with `_`.
const JOB: &str = "_forebay_write.json";

/// The local folder or the prefix in a store that new files are written to.
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

/// Whether files written to `place` would be read as part of the location `read`. That is so if `place` is in
/// the folder `read` or below it, or below the folder that the glob `read` searches.
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
    /// The suffix of the name of a local file that is not complete yet.
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

    /// Fails with `Invalid` unless the destination is empty or does not exist.
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

    /// The error for a local destination that cannot be listed.
    fn unreadable(&self, error: std::io::Error) -> Error {
        match error.kind() == std::io::ErrorKind::NotADirectory {
            true => {
                let error = Error::invalid("this is a file, or in one");
                error.at(self.place("")).hint("name a folder that does not exist yet")
            }
            false => error.into_error().at(self.place("")),
        }
    }

    /// The full key of a file in the store, from its name relative to the destination.
    fn object(&self, relative: &str) -> Result<object_store::path::Path> {
        match &self.0 {
            Where::Remote { prefix, .. } if !prefix.is_empty() => {
                object_path(&format!("{prefix}/{relative}"))
            }
            _ => object_path(relative),
        }
    }

    /// The local path at which the caller writes a new file before it calls [`put`](Self::put). It is in the
    /// hidden folder of a local destination, or in the system's temporary folder if the destination is a
    /// store. The folder is created.
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

    /// Adds the complete local file `whole` to the destination under the name `relative`. If the destination
    /// is a store, `whole` is sent there and then removed. If it is a local folder, `whole` is renamed, and
    /// stays hidden until [`finish`](Self::finish).
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

    /// Moves the files out of the hidden folder of a local destination, once all of them are complete.
    pub fn finish(&self) -> Result<()> {
        let Where::Local(folder) = &self.0 else { return Ok(()) };
        let hidden = folder.join(HIDDEN);
        if !hidden.exists() {
            return Ok(());
        }
        let show = || -> std::io::Result<()> {
            let mut entries = fs::read_dir(&hidden)?.collect::<std::io::Result<Vec<_>>>()?;
            // The job's record is moved first, so that the job can be resumed if it is interrupted here.
            entries.sort_by_key(|entry| entry.file_name() != JOB);
            for entry in entries {
                fs::rename(entry.path(), folder.join(entry.file_name()))?;
            }
            fs::remove_dir(&hidden)
        };
        show().or_fail().map_err(|error: Error| error.at(self.place(HIDDEN)))
    }

    /// Removes the hidden files of a local destination after a failure, and the destination if it is then
    /// empty.
    pub fn abandon(&self) {
        if let Where::Local(folder) = &self.0 {
            // Errors are ignored: files that cannot be removed stay hidden.
            let _ = fs::remove_dir_all(folder.join(HIDDEN));
            let _ = fs::remove_dir(folder);
        }
    }

    /// Names a file of the destination in messages, or the destination itself if `relative` is empty.
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

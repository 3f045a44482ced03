//! Lets a job, which is a run that writes many files, continue after an interruption. Files that are already
//! complete are not written again.
//!
//! A record, which is a file beside the others, describes the job. In a local folder, the process that works
//! on the job locks the record.

use std::collections::BTreeSet;
use std::fs::{self, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use forebay_arrow::fail::{Foreign, OrFail};
use forebay_base::{Error, Result};
use serde_json::Value;

use super::{Destination, HIDDEN, JOB, Where, object_path};

/// The state of a job when it begins or is resumed.
pub struct Resumed {
    /// The names of the files that an earlier run of the job completed.
    pub complete: BTreeSet<String>,
    /// The locked record of a local folder. It keeps other processes out of the folder until it is dropped.
    pub lock: Option<fs::File>,
}

impl Destination {
    /// Begins the job that `record` describes, or continues it if it was interrupted.
    ///
    /// # Errors
    /// `Invalid` if the destination has any other files, such as those of another job, and if another process
    /// is writing to the local folder.
    pub async fn resume(&self, record: &str) -> Result<Resumed> {
        match &self.0 {
            Where::Local(folder) => self.resume_local(folder, record),
            Where::Remote { .. } => {
                match self.remote_record().await? {
                    // A store has no locks: the other job may be at work.
                    Some(earlier) if earlier != record => return Err(self.of_another(&earlier, record)),
                    Some(_) => {}
                    None => {
                        self.check_empty().await?;
                        self.write_record(record).await?;
                    }
                }
                Ok(Resumed { complete: self.remote_files().await?, lock: None })
            }
        }
    }

    fn resume_local(&self, folder: &Path, record: &str) -> Result<Resumed> {
        let hidden = folder.join(HIDDEN);
        let shown = folder.join(JOB);
        let is_shown = shown.exists();
        if !is_shown {
            self.check_holds_nothing(folder, HIDDEN)?;
            // Called for its side effect: it creates the hidden folder.
            self.unfinished(JOB)?;
        }
        let path = if is_shown { shown } else { hidden.join(JOB) };
        let at = |error: std::io::Error| error.into_error().at(self.place(JOB));
        let mut file =
            fs::File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(at)?;
        match file.try_lock() {
            // An error other than a held lock is ignored, because some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => {
                let error = Error::invalid("another process writes into this folder");
                return Err(error.at(self.place("")).hint("wait for it, or name another folder"));
            }
        }
        let mut earlier = String::new();
        file.read_to_string(&mut earlier).map_err(at)?;
        let mut complete: BTreeSet<String> = [&hidden, folder].into_iter().flat_map(names).collect();
        complete.retain(|name| name != JOB && name != HIDDEN && !name.ends_with(Self::UNFINISHED));
        if earlier != record {
            if !complete.is_empty() {
                return Err(self.of_another(&earlier, record));
            }
            // The record is of another job, which completed no file: this job takes its place.
            for name in names(&hidden).iter().filter(|name| name.ends_with(Self::UNFINISHED)) {
                fs::remove_file(hidden.join(name)).map_err(at)?;
            }
            file.set_len(0).and_then(|()| file.rewind()).map_err(at)?;
            file.write_all(record.as_bytes()).map_err(at)?;
        }
        Ok(Resumed { complete, lock: Some(file) })
    }

    /// Fails with `Invalid` if a local folder has any entry other than `expected`.
    fn check_holds_nothing(&self, folder: &Path, expected: &str) -> Result<()> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.unreadable(error)),
        };
        let holds_others = entries.flatten().any(|entry| entry.file_name() != expected);
        match holds_others {
            true => {
                let error = Error::invalid("the folder is not empty").at(self.place(""));
                Err(error.hint("name one that does not exist yet"))
            }
            false => Ok(()),
        }
    }

    /// The error for a destination that has the files of another job, whose record is `earlier`.
    fn of_another(&self, earlier: &str, record: &str) -> Error {
        let cause = format!("the folder has the files of another run: {}", difference(earlier, record));
        Error::invalid(cause)
            .at(self.place(""))
            .hint("repeat that command, name another folder, or delete this one to begin anew")
    }

    /// The names of the complete files in a store, without the record.
    async fn remote_files(&self) -> Result<BTreeSet<String>> {
        let Where::Remote { remote, prefix } = &self.0 else { return Ok(BTreeSet::new()) };
        let objects = remote.list(&object_path(prefix)?).await.map_err(|error| error.at(self.place("")))?;
        let names = objects.iter().filter_map(|object| object.location.filename().map(str::to_owned));
        Ok(names.filter(|name| name != JOB).collect())
    }

    /// The record of the job that writes to a store, if there is one.
    async fn remote_record(&self) -> Result<Option<String>> {
        let Where::Remote { remote, .. } = &self.0 else { return Ok(None) };
        let path = self.object(JOB)?;
        let Some(about) = remote.head(&path).await.map_err(|error| error.at(self.place(JOB)))? else {
            return Ok(None);
        };
        let (_, bytes) = remote.tail(&path, about.size).await.map_err(|error| error.at(self.place(JOB)))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    async fn write_record(&self, record: &str) -> Result<()> {
        let Where::Remote { remote, .. } = &self.0 else { return Ok(()) };
        let written = remote.write(&self.object(JOB)?, Bytes::copy_from_slice(record.as_bytes())).await;
        written.map_err(|error| error.at(self.place(JOB)))
    }

    /// The size of a complete file in bytes; 0 if the store does not have it.
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

    /// The path of a complete file in a local destination, whether it is still in the hidden folder or not.
    fn complete(&self, relative: &str) -> PathBuf {
        let Where::Local(folder) = &self.0 else { return PathBuf::new() };
        let hidden = folder.join(HIDDEN).join(relative);
        if hidden.exists() { hidden } else { folder.join(relative) }
    }
}

/// Describes how the job of the record `earlier` differs from that of `now`. A record is JSON. It may have
/// the options of the command, by name, under `options`, and the program that wrote it under `written_by`.
fn difference(earlier: &str, now: &str) -> String {
    let parsed = |record: &str| serde_json::from_str(record).unwrap_or(Value::Null);
    let (earlier, now): (Value, Value) = (parsed(earlier), parsed(now));
    let named = now["options"].as_object().into_iter().flatten();
    let mut others = named.filter_map(|(name, value)| Some((name, earlier["options"].get(name)?, value)));
    match others.find(|(_, before, value)| before != value) {
        Some((name, before, value)) => format!("{}, and not {}", given(name, before), given(name, value)),
        None => match (&earlier["written_by"], &now["written_by"]) {
            (Value::String(before), Value::String(now)) if before != now => {
                format!("written by {before}, and not by {now}")
            }
            _ if earlier["options"] == now["options"] => {
                "of other files, or of files that changed".to_owned()
            }
            _ => "of other files, or with other options".to_owned(),
        },
    }
}

/// An option as a user gives it.
fn given(name: &str, value: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Null | Value::Bool(false) => format!("without {name}"),
        Value::Array(values) if values.is_empty() => format!("without {name}"),
        Value::Bool(true) => format!("with {name}"),
        Value::Array(values) => {
            format!("with {name} {}", values.iter().map(text).collect::<Vec<_>>().join(","))
        }
        _ => format!("with {name} {}", text(value)),
    }
}

/// The names of the files in a folder of this machine, if there is one.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use futures::executor::block_on;

    use super::*;

    #[test]
    fn a_job_that_is_interrupted_while_its_files_show_can_be_continued() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("out");
        let destination = Destination::parse(folder.to_str().unwrap(), &BTreeMap::new()).unwrap();
        let names = ["a.parquet", "b.parquet", "c.parquet"];
        drop(block_on(destination.resume("one")).unwrap());
        for name in names {
            let path = destination.unfinished(&format!("{name}{}", Destination::UNFINISHED)).unwrap();
            fs::write(&path, name).unwrap();
            block_on(destination.put(&path, name)).unwrap();
            // A folder of the same name keeps `finish` from moving the file out of the hidden folder.
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        destination.finish().unwrap_err();
        names.iter().for_each(|name| fs::remove_dir(folder.join(name)).unwrap());
        fs::rename(folder.join(HIDDEN).join("b.parquet"), folder.join("b.parquet")).unwrap();

        let again = block_on(destination.resume("one")).unwrap();
        assert_eq!(again.complete, names.map(str::to_owned).into());
        destination.finish().unwrap();
        assert!(names.iter().all(|name| fs::read_to_string(folder.join(name)).unwrap() == *name));
        assert!(!folder.join(HIDDEN).exists());
        drop(again);
        assert!(block_on(destination.resume("another")).is_err());
    }

    #[test]
    fn the_difference_of_two_jobs_is_named() {
        let record = |options: &str, version: u32, files: u32| {
            format!(r#"{{"options": {{{options}}}, "written_by": "v{version}", "files": {files}}}"#)
        };
        let first = record(r#""--seed": 7, "--text": ["a", "b"], "--yolo": true, "--coco": null"#, 1, 1);
        for (options, said) in [
            (r#""--seed": 8, "--text": []"#, "with --seed 7, and not with --seed 8"),
            (r#""--seed": 7, "--text": []"#, "with --text a,b, and not without --text"),
            (r#""--seed": 7, "--yolo": false"#, "with --yolo, and not without --yolo"),
            (r#""--seed": 7, "--coco": "x.json""#, "without --coco, and not with --coco x.json"),
            (r#""--seed": 7"#, "of other files, or with other options"),
        ] {
            assert_eq!(difference(&first, &record(options, 1, 1)), said);
        }
        let (options, versions) = (r#""--seed": 7"#, [(1, 2), (2, 1)]);
        let said = versions
            .map(|(version, files)| difference(&record(options, 1, 1), &record(options, version, files)));
        assert_eq!(said, ["of other files, or of files that changed", "written by v1, and not by v2"]);
        assert_eq!(difference("one", &first), "of other files, or with other options");
    }

    #[test]
    fn a_job_begins_anew_where_another_one_has_completed_no_file() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("out");
        let destination = Destination::parse(folder.to_str().unwrap(), &BTreeMap::new()).unwrap();
        drop(block_on(destination.resume("a longer one")).unwrap());
        let unfinished = destination.unfinished(&format!("a{}", Destination::UNFINISHED)).unwrap();
        fs::write(&unfinished, "a").unwrap();
        let another = block_on(destination.resume("another")).unwrap();
        assert!(another.complete.is_empty() && !unfinished.exists());
        assert_eq!(fs::read_to_string(folder.join(HIDDEN).join(JOB)).unwrap(), "another");
    }
}

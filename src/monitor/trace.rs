//! Writes a timeline of the loader's activities to a file that Perfetto and chrome://tracing can open.
//!
//! Only the last [`MAX_SPANS`] spans (activities with their times) are kept. The file of a long run therefore
//! shows the end of the run, and says how many earlier spans are missing. Activities that run at the same
//! time have separate tracks, so the spans of one track never overlap.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_arrow::fail::OrFail;
use forebay_base::{Error, ErrorKind, Place, Result};
use serde_json::json;

/// The characters with which every trace begins. A file that begins like this may be overwritten by a trace.
const BEGIN: &str = "{\"displayTimeUnit\"";

/// The largest number of spans that are kept. They take 13 MB and cover some minutes of a busy loader.
const MAX_SPANS: usize = 200_000;

/// A row of the timeline, which shows a thread or one of several activities that run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Track {
    /// The training loop while it waits for its next batch.
    Consumer,
    /// Work that the training loop's own thread does on a batch before the loop gets it.
    Near,
    /// The thread that takes batches from the loader, such as that of a transform: one track for each open
    /// epoch.
    Front(u32),
    /// The thread that assembles batches: one track for each open epoch.
    Assembly(u32),
    /// A thread of the pool.
    Pool(u32),
    /// A row group that is being fetched. Row groups that are fetched at the same time have different tracks.
    Fetch(u32),
}

impl Track {
    /// The number of the track in the file. Viewers sort tracks by it.
    fn number(self) -> u32 {
        match self {
            Track::Consumer => 1,
            Track::Near => 2,
            Track::Front(place) => 3 + place,
            Track::Assembly(place) => 10 + place,
            Track::Pool(thread) => 100 + thread,
            Track::Fetch(place) => 10_000 + place,
        }
    }

    fn name(self) -> String {
        match self {
            Track::Consumer => "training loop".to_string(),
            Track::Near => "conversion".to_string(),
            Track::Front(place) => format!("hand-over and transform {place}"),
            Track::Assembly(place) => format!("forebay-batches {place}"),
            Track::Pool(thread) => format!("forebay-{thread}"),
            Track::Fetch(place) => format!("fetch {place}"),
        }
    }
}

/// An activity with its beginning and end, in nanoseconds since the loader was built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) name: &'static str,
    pub(crate) track: Track,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The subject of the activity: a name and a number.
    pub(crate) about: Option<(&'static str, u64)>,
}

/// The spans that will be written to a file, and the file's path.
#[derive(Debug)]
pub(crate) struct Trace {
    path: PathBuf,
    /// The process that created the trace. A forked child does not overwrite its parent's file.
    process: u32,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    spans: VecDeque<Span>,
    dropped: u64,
    /// Whether spans were added since the file was last written.
    unwritten: bool,
    failure: Option<String>,
}

impl Trace {
    /// Creates an empty file, which is overwritten when spans are flushed. The path is made absolute, because
    /// the process may change its working directory. A device or a pipe is opened only when spans are
    /// flushed.
    ///
    /// # Errors
    /// The file cannot be created, or the path is a file that is neither empty nor a trace.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let absolute = std::path::absolute(path).or_fail()?;
        let trace = Trace { path: absolute, process: std::process::id(), kept: Mutex::default() };
        let there = std::fs::metadata(&trace.path);
        let is_stream = there.as_ref().is_ok_and(|there| !there.is_file() && !there.is_dir());
        if there.is_ok_and(|there| there.is_file()) && !is_empty_or_trace(&trace.path) {
            return Err(Error::invalid("the file is there already, and is not a trace")
                .at(Place::file(path.to_string_lossy()))
                .hint("name another file for the trace, or remove this one"));
        }
        let made = if is_stream { Ok(()) } else { trace.write(&Kept::default()) };
        made.map_err(|error| {
            Error::new(ErrorKind::Io, format!("the trace could not be written: {error}"))
                .at(Place::file(path.to_string_lossy()))
                .hint("name a file in a folder that can be written to")
        })?;
        Ok(trace)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, span: Span) {
        let mut kept = self.lock();
        if kept.spans.len() >= MAX_SPANS {
            kept.spans.pop_front();
            kept.dropped += 1;
        }
        kept.spans.push_back(span);
        kept.unwritten = true;
    }

    /// Writes the file again if spans were added since it was last written.
    pub(crate) fn flush(&self) {
        if self.process != std::process::id() {
            return;
        }
        let mut kept = self.lock();
        if std::mem::take(&mut kept.unwritten)
            && let Err(error) = self.write(&kept)
        {
            kept.failure = Some(format!("{}: the trace could not be written: {error}", self.path.display()));
        }
    }

    /// Takes the reason why the file could not be written; `None` if it was taken before.
    pub(crate) fn take_failure(&self) -> Option<String> {
        self.lock().failure.take()
    }

    fn write(&self, kept: &Kept) -> std::io::Result<()> {
        // A symbolic link, a device or a pipe is written to directly, because renaming would replace it by a
        // file.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| !there.is_file()) {
            return self.write_to(&self.path, kept);
        }
        // The file is written under another name first and then renamed, so that a reader never finds half a
        // file.
        let mut part = self.path.clone().into_os_string();
        part.push(".part");
        let part = Path::new(&part);
        let written = self.write_to(part, kept).and_then(|()| std::fs::rename(part, &self.path));
        if written.is_err() {
            // The partial file is useless. Removing it may fail, for example if it was never created.
            let _ = std::fs::remove_file(part);
        }
        written
    }

    fn write_to(&self, part: &Path, kept: &Kept) -> std::io::Result<()> {
        const MICROS: f64 = 1e3;
        let mut file = BufWriter::new(opened(part)?);
        let other = json!({
            "program": "forebay",
            "version": env!("CARGO_PKG_VERSION"),
            "spans": kept.spans.len(),
            "spans_dropped": kept.dropped,
            "spans_at_most": MAX_SPANS,
        });
        writeln!(file, "{BEGIN}:\"ms\",\"otherData\":{other},\"traceEvents\":[")?;
        let named = |name: &str, track: u32, value: &str| json!({"name": name, "ph": "M", "pid": self.process, "tid": track, "args": {"name": value}});
        write!(file, "{}", named("process_name", 0, "forebay"))?;
        for track in kept.spans.iter().map(|span| span.track).collect::<BTreeSet<_>>() {
            write!(file, ",\n{}", named("thread_name", track.number(), &track.name()))?;
        }
        for Span { name, track, start, end, about } in &kept.spans {
            let args = about.map_or(json!({}), |(what, number)| json!({what: number}));
            let span = json!({
                "name": name, "cat": "forebay", "ph": "X", "pid": self.process, "tid": track.number(),
                "ts": *start as f64 / MICROS, "dur": (end - start) as f64 / MICROS, "args": args,
            });
            write!(file, ",\n{span}")?;
        }
        writeln!(file, "\n]}}")?;
        file.flush()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Whether a trace may overwrite the file: it is empty, or it is a trace.
fn is_empty_or_trace(path: &Path) -> bool {
    let mut begin = [0; BEGIN.len()];
    // If the file cannot be read, it may contain data, so it is not overwritten.
    let read = File::open(path).and_then(|file| file.take(BEGIN.len() as u64).read(&mut begin));
    read.is_ok_and(|read| read == 0 || begin == BEGIN.as_bytes())
}

/// Opens a file for writing and empties it. If the file is a pipe that nobody reads, this fails instead of
/// waiting for a reader.
fn opened(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    if !std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo()) {
        return options.open(path);
    }
    let pipe = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    // The pipe was opened without blocking. From now on it blocks: writes wait until the reader has read.
    rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::empty())?;
    Ok(pipe)
}

/// Gives out track numbers to activities that run at the same time. Each gets the smallest number that is
/// free.
#[derive(Debug, Default)]
pub(super) struct TraceTracks {
    taken: Vec<bool>,
}

impl TraceTracks {
    pub(super) fn take(&mut self) -> u32 {
        let free = self.taken.iter().position(|taken| !taken).unwrap_or_else(|| {
            self.taken.push(false);
            self.taken.len() - 1
        });
        self.taken[free] = true;
        free as u32
    }

    pub(super) fn give_back(&mut self, place: u32) {
        self.taken[place as usize] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(trace: &Trace, path: &Path) -> serde_json::Value {
        trace.flush();
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn of_a_long_run_the_end_is_kept_and_the_rest_is_counted() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("trace.json");
        let trace = Trace::create(&path).unwrap();
        let total = MAX_SPANS as u64 + 7;
        for number in 0..total {
            let (start, end) = (number * 10, number * 10 + 5);
            let about = Some(("batch", number));
            trace.add(Span { name: "next", track: Track::Consumer, start, end, about });
        }
        let file = written(&trace, &path);
        let events = file["traceEvents"].as_array().unwrap();
        assert_eq!(file["otherData"]["spans_dropped"], 7);
        assert_eq!(events.len(), 2 + MAX_SPANS, "a name of the process, one of the track, and spans");
        assert_eq!(events.last().unwrap()["args"]["batch"], total - 1);
        assert_eq!(events[2]["ts"], 0.07);
    }

    #[test]
    fn a_link_is_followed_and_a_pipe_stays_one() {
        let dir = tempfile::TempDir::new().unwrap();
        let (file, link, dangling) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        drop(Trace::create(&file).unwrap());
        std::os::unix::fs::symlink("a", &link).unwrap();
        std::os::unix::fs::symlink("d", &dangling).unwrap();
        for (path, target) in [(&link, &file), (&dangling, &dir.path().join("d"))] {
            drop(Trace::create(path).unwrap());
            assert!(path.is_symlink());
            assert!(std::fs::read_to_string(target).unwrap().starts_with('{'));
        }
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let trace = Trace::create(&pipe).unwrap();
        trace.add(Span { name: "next", track: Track::Consumer, start: 1, end: 2, about: None });
        // The flush fails because the pipe has no reader yet.
        trace.flush();
        assert!(trace.take_failure().is_some());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).unwrap()
        });
        loop {
            trace.add(Span { name: "next", track: Track::Consumer, start: 3, end: 4, about: None });
            trace.flush();
            if trace.take_failure().is_none() {
                break;
            }
        }
        drop(trace);
        let shown: serde_json::Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
        assert!(shown["otherData"]["spans"].as_u64() >= Some(2), "{shown}");
        assert!(!std::fs::symlink_metadata(&pipe).unwrap().is_file());
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let dir = tempfile::TempDir::new().unwrap();
        let (data, link) = (dir.path().join("data.parquet"), dir.path().join("link"));
        std::fs::write(&data, "PAR1").unwrap();
        std::os::unix::fs::symlink(&data, &link).unwrap();
        for path in [&data, &link] {
            let error = Trace::create(path).unwrap_err();
            assert!(error.to_string().contains("is not a trace"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&data).unwrap(), "PAR1");
        std::fs::write(&data, "").unwrap();
        Trace::create(&data).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error_at_once() {
        let error = Trace::create(Path::new("/nowhere/at/all.json")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().starts_with("/nowhere/at/all.json: the trace"), "{error}");
    }
}

//! `--until fetch`: what storage gives when nothing is done with the bytes; the limit that a loader is held against.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use forebay::{Catalog, Error, ErrorKind, Place, Result};
use serde::Serialize;

use crate::cli::console::Console;
use crate::cli::options::LoaderOptions;
use crate::cli::units::{bytes, count, counted, seconds};

/// Row groups read in their stored order, by several threads, and thrown away.
#[derive(Serialize)]
pub(super) struct Report {
    until: &'static str,
    threads: usize,
    row_groups: usize,
    rows: u64,
    bytes: u64,
    requests: u64,
    seconds: f64,
    bytes_per_second: f64,
    rows_per_second: f64,
}

/// The column chunks of one row group, and whose they are.
struct Task {
    file: usize,
    place: Place,
    ranges: Vec<Range<u64>>,
}

/// Reads the columns of all row groups, or of as many as make `max_batches`.
pub(super) fn measure(
    options: &LoaderOptions,
    threads: usize,
    max_batches: Option<u64>,
    console: &Console,
) -> Result<Report> {
    let dataset = options.open()?;
    let catalog = dataset.catalog();
    let most_rows = max_batches.map_or(u64::MAX, |most| most.saturating_mul(options.batch_size));
    let groups = catalog.groups.partition_point(|group| group.first_row < most_rows);
    let tasks = tasks(catalog, options, groups)?;
    let rows = catalog.groups[..groups].iter().map(|group| group.rows).sum::<u64>();
    let requests = tasks.iter().map(|task| task.ranges.len() as u64).sum();
    let started = Instant::now();
    let read = read_all(catalog, &tasks, threads, console)?;
    let time = started.elapsed().as_secs_f64();
    Ok(Report {
        until: "fetch",
        threads,
        row_groups: groups,
        rows,
        bytes: read,
        requests,
        seconds: time,
        bytes_per_second: read as f64 / time,
        rows_per_second: rows as f64 / time,
    })
}

fn tasks(catalog: &Catalog, options: &LoaderOptions, groups: usize) -> Result<Vec<Task>> {
    let projection = match &options.columns {
        Some(columns) => catalog.project(columns)?,
        None => catalog.project_all()?,
    };
    let task = |group: &forebay::catalog::Group| Task {
        file: group.file,
        place: catalog.place(group),
        ranges: catalog.byte_ranges(group, &projection),
    };
    Ok(catalog.groups[..groups].iter().map(task).collect())
}

/// Threads take the next row group each; the bytes read in all.
fn read_all(catalog: &Catalog, tasks: &[Task], threads: usize, console: &Console) -> Result<u64> {
    let (next, progress) =
        (AtomicUsize::new(0), console.progress("reading", "row groups", tasks.len() as u64));
    let progress = std::sync::Mutex::new(progress);
    let worker = || {
        let (mut buffer, mut total) = (Vec::new(), 0);
        while let Some(task) = tasks.get(next.fetch_add(1, Relaxed)) {
            let location = &catalog.files[task.file].location;
            total += read(location, task, &mut buffer).map_err(|error| error.at(task.place.clone()))?;
            if let Ok(mut progress) = progress.lock() {
                progress.advance(1);
            }
        }
        Ok(total)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum::<Result<u64>>()
    })
}

fn read(location: &str, task: &Task, buffer: &mut Vec<u8>) -> Result<u64> {
    if location.contains("://") {
        return Err(Error::new(ErrorKind::Unsupported, "--until fetch reads local files only")
            .hint("--until rows measures any store"));
    }
    let mut file = File::open(location)?;
    let mut total = 0;
    for range in &task.ranges {
        buffer.resize((range.end - range.start) as usize, 0);
        file.seek(SeekFrom::Start(range.start))?;
        file.read_exact(buffer)?;
        total += std::hint::black_box(buffer.len()) as u64;
    }
    Ok(total)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} in {} by {}: {}/s, {} rows/s\nBytes alone, in stored order; files that were read before come from memory.",
            bytes(self.bytes),
            seconds(self.seconds),
            counted(self.threads as u64, "thread"),
            bytes(self.bytes_per_second as u64),
            count(self.rows_per_second as u64),
        )
    }
}

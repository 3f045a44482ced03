//! Measures planning at scale: the work of one of 1,024 ranks before its first batch, over a folder of 10^5
//! files with 10^6 row groups and 10^9 rows, and over smaller folders.
//!
//!     cargo bench --bench scale [-- [balance] FILES...]
//!
//! The files are real, have ten row groups of 1,000 rows and take 0.5 GB in all; the bench writes them and
//! their index first. A separate process on one processor measures each folder and its largest resident
//! memory. The columns are:
//!
//! * **open**: lists the folder and reads the footers from its index;
//! * **plan**: makes the plan of a rank with `LoaderBuilder::plan`: the order of the epoch, and all steps of
//!   the rank;
//! * **build**: builds a loader of this rank;
//! * **restore**: restores a position in the middle of the epoch;
//! * **rewind**: prepares `Dataset::rewind` for that position and asks for one step, which numbers the files;
//! * **which**: returns the rows of a step of one rank, in another epoch;
//! * **again**: returns the rows of another rank's step in the same epoch.
//!
//! With the word `balance` before the numbers of files, only the plan is made, with and without `balance=` by
//! the column of the files, which is read for this. The loader has 8 GiB.
//!
//! `benches/plan.rs` measures the arithmetic alone.
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use forebay::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use forebay::parquet::arrow::ArrowWriter;
use forebay::parquet::file::properties::WriterProperties;
use forebay::{Dataset, Deny, LoaderBuilder, Shard, Shuffle};

const FILES: [usize; 3] = [1_000, 10_000, 100_000];
const GROUPS: usize = 10;
const ROWS: usize = 1_000;
const WORLD: u32 = 1_024;
const RANK: u32 = 700;
const BATCH: u64 = 256;
const WINDOW: u64 = 65_536;
/// The first argument of a process that measures.
const MEASURE: &str = "measure";
/// The first arguments of processes that measure a balanced plan, and a plan beside it.
const BALANCED: &str = "balanced";
const PLAIN: &str = "plain";
/// The memory of a loader that is balanced, whose costs take two bytes for a row.
const BALANCE_MEMORY: u64 = 8 << 30;

/// Writes a file with one column that takes few bytes.
fn write(path: &Path, at: usize) {
    let properties = WriterProperties::builder().set_created_by("scale".to_owned()).build();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![at as i64; ROWS]));
    let rows = RecordBatch::try_from_iter([("file", column)]).expect("one column");
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).expect("a schema");
    for _ in 0..GROUPS {
        writer.write(&rows).expect("rows");
        writer.flush().expect("a row group");
    }
    writer.close().expect("a footer");
}

/// Returns the options of the rank; the global batch is small enough that an epoch of the smallest folder has
/// several steps.
fn of_rank(dataset: &Dataset) -> LoaderBuilder {
    dataset
        .loader()
        .shuffle(Shuffle::seeded(1).window_rows(WINDOW))
        .shard(Shard::new(RANK, WORLD).expect("a rank of the world"))
        .batch_size(BATCH)
        .memory(1 << 30)
}

/// Measures one folder, in this process.
fn measure(folder: &Path) {
    let mut began = Instant::now();
    let mut took = || {
        let seconds = began.elapsed().as_secs_f64();
        began = Instant::now();
        seconds
    };
    let dataset = Dataset::open(folder).expect("the data set");
    let open = took();
    let opened = resident();
    let plan = of_rank(&dataset).plan(0).expect("a plan");
    let planned = took();
    let planning = resident();
    let loader = of_rank(&dataset).build().expect("a loader");
    let built = took();
    let mut position = loader.position();
    position.row = plan.steps / 2 * BATCH * u64::from(WORLD);
    took();
    loader.restore(&position).expect("the position");
    let restored = took();
    let rewind = dataset.rewind(&position, Deny::default()).expect("the run");
    assert_eq!(rewind.next(RANK).expect("a step").len(), BATCH as usize);
    let rewound = took();
    let first = rewind.step(1, plan.steps / 3, RANK).expect("a step").len();
    let which = took();
    let again = rewind.step(1, plan.steps / 2, RANK - 1).expect("a step").len();
    let next = took();
    assert_eq!((first, again), (BATCH as usize, BATCH as usize));
    println!(
        "{:>13} {:>10} {open:>8.2} {planned:>8.2} {built:>8.2} {restored:>8.3} {rewound:>8.3} {which:>8.3} {next:>8.3} {:>8} {:>8} {:>8}",
        dataset.rows(),
        dataset.catalog().groups.len(),
        opened >> 20,
        planning >> 20,
        resident() >> 20,
    );
}

/// Measures the plan of one folder in this process, balanced by its column if `is_balanced`.
fn measure_balance(folder: &Path, is_balanced: bool) {
    let dataset = Dataset::open(folder).expect("the data set");
    let opened = resident();
    let builder = of_rank(&dataset).memory(BALANCE_MEMORY);
    let builder = if is_balanced { builder.balance(["file"]) } else { builder };
    let began = Instant::now();
    let plan = builder.plan(1).expect("a plan");
    let planned = began.elapsed().as_secs_f64();
    let peak = resident();
    let loader = builder.build().expect("a loader");
    let began = Instant::now();
    let rows = loader.which(2, plan.steps / 2, RANK).expect("a step").len();
    let which = began.elapsed().as_secs_f64();
    assert_eq!(rows, BATCH as usize);
    println!(
        "{:>13} {:>10} {:>8} {planned:>8.2} {which:>8.3} {:>8} {:>8} {:>8}",
        dataset.rows(),
        dataset.catalog().groups.len(),
        is_balanced,
        opened >> 20,
        peak >> 20,
        resident() >> 20,
    );
}

/// Returns the most memory that this process has had resident, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the state of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).expect("a number")
        << 10
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [MEASURE, folder] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return measure(Path::new(folder));
    }
    if let [kind @ (BALANCED | PLAIN), folder] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return measure_balance(Path::new(folder), kind == BALANCED);
    }
    let modes: &[&str] = match words.iter().any(|word| word == "balance") {
        true => &[PLAIN, BALANCED],
        false => &[MEASURE],
    };
    let given: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    println!("seconds on one processor, and MiB at most");
    let columns: &[&str] = match modes {
        [MEASURE] => {
            &["open", "plan", "build", "restore", "rewind", "which", "again", "opened", "planned", "all"]
        }
        _ => &["balance", "plan", "which", "opened", "planned", "all"],
    };
    let columns: String = columns.iter().map(|column| format!(" {column:>8}")).collect();
    println!("{:>13} {:>10}{columns}", "rows", "row groups");
    for files in if given.is_empty() { FILES.to_vec() } else { given } {
        let folder = tempfile::tempdir().expect("a folder");
        (0..files).for_each(|at| write(&folder.path().join(format!("part-{at:06}.parquet")), at));
        Dataset::open(folder.path()).and_then(|dataset| dataset.write_index()).expect("an index");
        let program = env::current_exe().expect("this program");
        for mode in modes {
            let mut command = Command::new("taskset");
            command.args(["-c", "0"]).arg(&program).arg(mode).arg(folder.path());
            assert!(command.status().expect("taskset").success(), "{files} files");
        }
    }
}

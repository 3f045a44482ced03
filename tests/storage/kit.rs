//! The parts that the tests share: a server, a loader over it, and the oracle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fault_server::{Builder, FaultServer, LoggedExchange, Operation};
use forebay::arrow::array::{AsArray, RecordBatch};
use forebay::arrow::datatypes::{Float32Type, Int64Type};
use forebay::{Dataset, Epoch, Error, LoaderBuilder, Shuffle};
use xxhash_rust::xxh3::Xxh3;

use crate::data::{BUCKET, PREFIX};

/// The environment variable with the folder of a test that runs in a separate process.
pub(crate) const ALONE: &str = "FOREBAY_TEST_HOME";

/// How much longer than promised an operation may take on a busy machine.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// Whether the tests run in full: as often and for as long as promised.
pub(crate) fn long() -> bool {
    std::env::var_os("FOREBAY_LONG").is_some_and(|value| value == "1")
}

/// Returns the number of runs: `promised` if the tests run in full, and `few` otherwise.
pub(crate) fn times(few: u64, promised: u64) -> u64 {
    if long() { promised } else { few }
}

/// Lets one test run at a time, because tests that measure time disturb each other.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that looks random and is a function of a seed and a count (SplitMix64).
pub(crate) fn draw(seed: u64, count: u64) -> u64 {
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ count.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(factor);
    }
    bits ^ (bits >> 31)
}

pub(crate) fn server() -> FaultServer {
    serving().start().unwrap()
}

/// A builder for a server of the data set.
pub(crate) fn serving() -> Builder {
    FaultServer::builder().folder("bucket", &*BUCKET)
}

/// Storage options with which a server can be read; `more` replaces some of them.
pub(crate) fn options(server: &FaultServer, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    options_of(&server.url(), more)
}

pub(crate) fn options_of(endpoint: &str, more: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = [
        ("aws_endpoint_url", endpoint),
        ("aws_access_key_id", "AKIATEST"),
        ("aws_secret_access_key", "secret"),
        ("aws_region", "us-east-1"),
        ("allow_http", "true"),
        ("metadata_cache", "off"),
    ];
    own.iter().chain(more).map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

pub(crate) fn url() -> String {
    format!("s3://bucket/{PREFIX}/")
}

pub(crate) fn open(server: &FaultServer, more: &[(&str, &str)]) -> Result<Dataset, Error> {
    Dataset::open_with_options(url(), &options(server, more))
}

/// A loader whose options fix the order of the rows, so that it is the same from any store.
pub(crate) fn shuffled(dataset: &Dataset) -> LoaderBuilder {
    let shuffle = Shuffle::seeded(7).window_rows(150).lanes(2);
    dataset.loader().shuffle(shuffle).batch_size(BATCH).threads(2).memory(64 << 20)
}

pub(crate) const BATCH: u64 = 24;

/// The hash of each batch in epoch 0 of an undisturbed run from the local folder.
pub(crate) static ORACLE: LazyLock<Vec<u64>> = LazyLock::new(|| local(&BUCKET, shuffled));

/// The hash of each batch in epoch 0 of a loader over the local folder.
pub(crate) fn local(bucket: &Path, build: impl Fn(&Dataset) -> LoaderBuilder) -> Vec<u64> {
    let dataset = Dataset::open(bucket.join(PREFIX).as_path()).unwrap();
    build(&dataset).build().unwrap().epoch(0).map(|batch| hash(&batch.unwrap())).collect()
}

/// A hash of every value in a batch, in order.
pub(crate) fn hash(batch: &RecordBatch) -> u64 {
    let column = |name| batch.column_by_name(name).unwrap();
    let mut hash = Xxh3::new();
    column("id").as_primitive::<Int64Type>().values().iter().for_each(|id| hash.update(&id.to_le_bytes()));
    let weights = column("weight").as_primitive::<Float32Type>().values();
    weights.iter().for_each(|weight| hash.update(&weight.to_le_bytes()));
    for payload in column("payload").as_binary::<i64>().iter().flatten() {
        hash.update(&payload.len().to_le_bytes());
        hash.update(payload);
    }
    hash.digest()
}

/// How an epoch went.
#[derive(Debug)]
pub(crate) struct EpochOutcome {
    /// The hash of each batch that was delivered.
    pub(crate) batches: Vec<u64>,
    pub(crate) error: Option<Error>,
    /// The time from the beginning to the last batch or the error.
    pub(crate) took: Duration,
}

/// Reads an epoch to its end. Calls `each` after each batch, with the number of batches so far.
pub(crate) fn run_with(epoch: Epoch, mut each: impl FnMut(usize)) -> EpochOutcome {
    let started = Instant::now();
    let (mut batches, mut error) = (Vec::new(), None);
    for batch in epoch {
        match batch {
            Ok(batch) => batches.push(hash(&batch)),
            Err(failure) => error = Some(failure),
        }
        each(batches.len());
    }
    EpochOutcome { batches, error, took: started.elapsed() }
}

pub(crate) fn run(epoch: Epoch) -> EpochOutcome {
    run_with(epoch, |_| {})
}

impl EpochOutcome {
    /// RIGHT: the run has the same rows, order and bytes as an undisturbed run, and no error.
    pub(crate) fn is_right(&self, case: &str) {
        assert!(self.error.is_none(), "{case}: {}", self.error.as_ref().unwrap());
        assert!(self.batches == *ORACLE, "{case}: other rows");
    }

    /// LOUD: the run ends with an error, and has only right batches before it.
    pub(crate) fn is_loud(&self, case: &str) -> &Error {
        assert!(ORACLE.starts_with(&self.batches), "{case}: other rows before the error");
        self.error.as_ref().unwrap_or_else(|| panic!("{case}: no error"))
    }
}

/// Runs turns at the same time, because they mostly wait. The first one that fails fails the test.
pub(crate) fn side_by_side(turns: u64, turn: impl Fn(u64) + Sync) {
    let turn = &turn;
    std::thread::scope(|scope| {
        (0..turns).for_each(|number| _ = scope.spawn(move || turn(number)));
    });
}

/// Every file below a folder. Files that disappear meanwhile, as entries of a cache in use do, are left out.
pub(crate) fn files_below(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(gone) if folder != root && gone.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => panic!("{}: {error}", folder.display()),
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

/// Waits until a server has had no request for a moment, so that all prefetches have arrived. It looks
/// several times, because a client that is not scheduled asks for nothing either.
pub(crate) fn settled(server: &FaultServer) {
    const LOOKS: u32 = 10;
    let (mut before, mut quiet) = (server.stats(), 0);
    while quiet < LOOKS {
        std::thread::sleep(Duration::from_millis(50));
        let now = server.stats();
        let is_quiet = now.requests == before.requests && now.bytes_sent == before.bytes_sent;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        before = now;
    }
}

/// Waits until something holds, which is bound to happen. Returns whether it did within two minutes.
pub(crate) fn until(mut holds: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > Duration::from_secs(120) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Returns the reads since the log was emptied. On a busy machine a client sends a second request if the
/// first is late: as many repeats of a range are left out as it says that it sent (`hedges`).
pub(crate) fn reads(server: &FaultServer, mut hedges: u64) -> Vec<LoggedExchange> {
    let mut reads: Vec<LoggedExchange> = server.log();
    reads.retain(|asked| asked.operation == Operation::Get && asked.status.is_some());
    let mut seen = BTreeSet::new();
    reads.retain(|asked| {
        let range = asked.range.as_ref().map(|range| (range.start, range.end));
        let is_new = seen.insert((asked.key.clone(), range));
        let is_hedge = !is_new && hedges > 0;
        hedges -= u64::from(is_hedge);
        !is_hedge
    });
    reads
}

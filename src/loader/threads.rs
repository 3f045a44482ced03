//! Starts all threads of forebay.
//!
//! The threads that wait for storage belong to the data set, because the connections of its stores run on
//! them. The threads that decode belong to a loader, and the thread that assembles batches belongs to an
//! epoch.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::bounded;
use forebay_base::panics::caught_future;
use forebay_base::{Error, ErrorKind, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::{Builder, Handle, Runtime};

use super::machine;

/// The number of threads that wait for storage. Two are enough, since they hardly use the processor.
const IO_THREADS: usize = 2;

/// The threads that wait for storage, for one data set and its loaders.
#[derive(Debug)]
pub(crate) struct IoRuntime {
    /// The runtime of the threads. It is `None` only while this value is dropped.
    runtime: Option<Runtime>,
    process: Process,
}

/// The id of the process that started threads. A forked child of it does not have these threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u32);

impl Process {
    fn this() -> Self {
        Process(std::process::id())
    }

    /// Whether this code runs in a forked child of the process that started the threads.
    fn is_forked(self) -> bool {
        self.0 != std::process::id()
    }

    /// Fails in a forked child, where waiting for a thread would never end.
    pub(crate) fn check(self) -> Result<()> {
        if self.is_forked() { Err(forked()) } else { Ok(()) }
    }
}

impl IoRuntime {
    pub(crate) fn start() -> Result<Arc<Self>> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .thread_name("forebay-fetch")
            .enable_all()
            .build()
            .map_err(|error| Error::not_started("the fetching threads", &error))?;
        Ok(Arc::new(IoRuntime { runtime: Some(runtime), process: Process::this() }))
    }

    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// Runs a future on the threads that wait for storage, and blocks the calling thread until the future
    /// ends. The caller may be any thread, even one that belongs to another async runtime.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let (send, receive) = bounded(1);
        // Sending fails only if the waiting thread is gone, and then nobody needs the result.
        self.handle()?.spawn(async move { drop(send.send(caught_future(future).await)) });
        let ended = receive.recv();
        let ended = ended.map_err(|_| Error::new(ErrorKind::Closed, "the fetching threads were ended"))?;
        ended.map_err(|panic| Error::panicked("forebay or in what it reads from", &panic))
    }

    pub(crate) fn handle(&self) -> Result<&Handle> {
        self.process.check()?;
        let runtime = self.runtime.as_ref();
        let runtime =
            runtime.ok_or_else(|| Error::new(ErrorKind::Closed, "the fetching threads were ended"))?;
        Ok(runtime.handle())
    }
}

impl Drop for IoRuntime {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.process.is_forked() {
            // The threads exist only in the parent process, so waiting for them here would never end.
            std::mem::forget(runtime);
            return;
        }
        // This does not wait for the threads, because a store that hangs must not keep a program from ending.
        runtime.shutdown_background();
    }
}

/// Starts the pool of threads that decode for a loader.
pub(super) fn pool(threads: usize) -> Result<Arc<ThreadPool>> {
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|number| format!("forebay-{number}"))
        .build()
        .map_err(|error| Error::not_started("the decoding threads", &error))?;
    Ok(Arc::new(pool))
}

/// The pool of threads that decode images without a loader, and the process that started it.
static SHARED: Mutex<Option<(Process, Arc<ThreadPool>)>> = Mutex::new(None);

/// A pool of `threads` threads that decode images without a loader; `None` means one thread for each
/// processor that the process may use. The pool is kept, and the next call gets the same pool if it asks for
/// the same number of threads.
///
/// # Errors
/// Fails if the threads cannot be started.
pub fn decoding_threads(threads: Option<usize>) -> Result<Arc<ThreadPool>> {
    let threads = threads.unwrap_or_else(machine::processors);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, pool)) = shared.as_ref()
        && pool.current_num_threads() == threads
        && !process.is_forked()
    {
        return Ok(pool.clone());
    }
    let pool = pool(threads)?;
    if let Some((process, before)) = shared.replace((Process::this(), pool.clone()))
        && process.is_forked()
    {
        // The threads of `before` exist only in the parent process, so this process must not try to end them.
        std::mem::forget(before);
    }
    Ok(pool)
}

/// Starts the thread that assembles the batches of an epoch.
pub(super) fn assembling(work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name("forebay-batches".into())
        .spawn(work)
        .map_err(|error| Error::not_started("the assembling thread", &error))?;
    Ok(())
}

/// The error for a loader that is used in a forked child, in Rust and in Python.
pub fn forked() -> Error {
    Error::new(
        ErrorKind::Closed,
        "this loader was built before the process forked; its threads stayed in the parent",
    )
    .hint("build the loader in the child, or start workers with spawn or forkserver")
}

//! Points in a write at which tests kill the process. In release builds they do nothing.

/// A step of writing or evicting an entry. A process that is killed there must leave no harm behind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Point {
    /// The partial file exists and is locked; nothing is reserved.
    Created,
    /// The bytes of the entry are reserved.
    Reserved,
    /// Half of the buffers are written.
    HalfWritten,
    /// The entry is complete, under the name of a partial file.
    Written,
    /// The entry has its own name.
    Renamed,
    /// An entry was chosen to be evicted, and its file still exists.
    Evicting,
    /// The file of an evicted entry is removed, and its bytes are still counted.
    Evicted,
}

/// Kills this process with SIGKILL if the environment variable `FOREBAY_KILL_AT` names `point`.
#[cfg(test)]
pub(super) fn pass(point: Point) {
    if std::env::var("FOREBAY_KILL_AT").is_ok_and(|name| name == format!("{point:?}")) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(test))]
pub(super) fn pass(_: Point) {}

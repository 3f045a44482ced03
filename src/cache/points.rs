//! Places in a write where tests kill the process. In release builds they do nothing.

/// A step of writing or evicting an entry, after which a killed process must leave no harm behind.
#[derive(Clone, Copy, Debug)]
pub(super) enum Point {
    /// The part exists and is locked; nothing is reserved.
    Created,
    /// Its bytes are reserved.
    Reserved,
    /// Half of the buffers are written.
    HalfWritten,
    /// Complete, under the name of a part.
    Written,
    /// Under its own name.
    Renamed,
    /// Chosen to go, the file still there.
    Evicting,
    /// The file gone, its bytes still counted.
    Evicted,
}

/// Kills this process with SIGKILL if `FOREBAY_KILL_AT` names `point`.
#[cfg(test)]
pub(super) fn pass(point: Point) {
    if std::env::var("FOREBAY_KILL_AT").is_ok_and(|name| name == format!("{point:?}")) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(test))]
pub(super) fn pass(_: Point) {}

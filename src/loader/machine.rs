//! The defaults for threads and memory, from the machine or the container.

/// The default memory budget, in bytes, on a machine that has at least twice as much memory.
const DEFAULT_MEMORY: u64 = 4 << 30;

/// The page cache of the operating system is expected to hold as many bytes as the memory available to this
/// process divided by this number.
const PAGE_CACHE_DIVISOR: u64 = 2;

/// Returns the number of processors that this process may use under its CPU affinity and its cgroup.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the default memory budget: 4 GiB, or half of the memory that this process may use if that is less.
pub(super) fn default_memory() -> u64 {
    available_memory().map_or(DEFAULT_MEMORY, |bytes| DEFAULT_MEMORY.min(bytes / 2))
}

/// How many bytes the page cache is expected to keep from one epoch to the next: half of the memory that this
/// process may use; 0 if that cannot be read.
pub fn page_cache() -> u64 {
    available_memory().unwrap_or(0) / PAGE_CACHE_DIVISOR
}

/// The memory of the machine, or of the cgroup if that is less; `None` if neither can be read.
fn available_memory() -> Option<u64> {
    const KIB: u64 = 1 << 10;
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total = total.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * KIB;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    Some(limit.and_then(|limit| limit.trim().parse().ok()).map_or(total, |limit: u64| limit.min(total)))
}

//! What this process has taken of the machine, as Linux tells it; nothing elsewhere.

/// Ticks in a second of `/proc/self/stat`: Linux promises programs this number on every architecture that runs it here.
const TICKS: f64 = 100.0;
const KIB: u64 = 1 << 10;

/// The most memory that was resident so far, in bytes.
pub(super) fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * KIB)
}

/// Processor time of all threads so far, in seconds.
pub(super) fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name may hold anything; the fields after its closing bracket do not.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some((user + system) / TICKS)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_memory_and_time() {
        assert!(peak_rss().unwrap() > 1_000_000);
        assert!(cpu_seconds().unwrap() >= 0.0);
    }
}

//! The resources that this process has used, from Linux; nothing on other systems.

/// Ticks in a second of `/proc/stat`: Linux promises programs this number on every architecture that runs it
/// here.
const TICKS: f64 = 100.0;
const NANOS: f64 = 1e9;
const KIB: u64 = 1 << 10;

/// Other programs that keep more processors busy than this spoil a measurement.
pub(crate) const DISTURBING: f64 = 0.25;

/// The processors that this code was compiled for: all of an architecture, or a level of the x86-64 psABI.
pub const LEVEL: &str = if cfg!(not(target_arch = "x86_64")) {
    std::env::consts::ARCH
} else if cfg!(all(target_feature = "avx2", target_feature = "bmi2", target_feature = "fma")) {
    "x86-64-v3"
} else {
    "x86-64"
};

/// Processor time up to some moment, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    /// By this process.
    pub(crate) own: f64,
    /// By all processes of the machine.
    pub(crate) all: f64,
}

/// Processor time between two moments, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    /// By this process.
    pub(crate) own: f64,
    /// By every other process of the machine.
    pub(crate) others: f64,
}

impl Clock {
    pub(crate) fn now() -> Option<Self> {
        Some(Clock { own: own_seconds()?, all: all_seconds()? })
    }

    pub(crate) fn between(then: Clock, now: Clock) -> Spent {
        let own = now.own - then.own;
        Spent { own, others: (now.all - then.all - own).max(0.0) }
    }
}

/// The processors that this process may use, as affinity and cgroup allow.
pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |processors| processors.get() as u32)
}

/// Processor time of the calling thread, in seconds.
pub(crate) fn thread_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(stat.split_whitespace().next()?.parse::<f64>().ok()? / NANOS)
}

/// The most memory that was resident so far, in bytes.
pub(crate) fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * KIB)
}

/// Processor time of this process, all its threads together.
fn own_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name may hold anything; the fields after its closing bracket do not.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some((user + system) / TICKS)
}

/// Processor time of everything, guests counted once.
fn all_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal: all but the two that mean rest.
    let busy = fields.iter().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4));
    Some(busy.map(|(_, ticks)| ticks).sum::<f64>() / TICKS)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_memory_and_time() {
        assert!(peak_rss().unwrap() > 1_000_000);
        let (before, thread) = (Clock::now().unwrap(), thread_seconds().unwrap());
        let began = std::time::Instant::now();
        // Linux updates the figure a few hundred times a second.
        while thread_seconds().unwrap() == thread && began.elapsed().as_secs() < 20 {
            std::hint::spin_loop();
        }
        assert!(thread_seconds().unwrap() > thread);
        let spent = Clock::between(before, Clock::now().unwrap());
        assert!(spent.own >= 0.0 && spent.others >= 0.0);
    }
}

//! Measures the processor time and memory of this process and of the machine, mostly from Linux's `/proc`. On
//! other systems, the functions that read it return `None`.

use rustix::time::{ClockId, clock_gettime};

/// The clock ticks per second, in which `/proc` counts processor time. Linux uses 100 on every architecture
/// that forebay supports.
const TICKS: f64 = 100.0;
const NANOS: f64 = 1e9;
const KIB: u64 = 1 << 10;

/// How many processors other programs may keep busy without spoiling a measurement.
pub(crate) const MAX_OTHER_CORES: f64 = 0.25;

/// The instruction set that this program was compiled for: the name of the architecture, or `x86-64-v3` if it
/// uses AVX2, BMI2 and FMA.
pub const LEVEL: &str = if cfg!(not(target_arch = "x86_64")) {
    std::env::consts::ARCH
} else if cfg!(all(target_feature = "avx2", target_feature = "bmi2", target_feature = "fma")) {
    "x86-64-v3"
} else {
    "x86-64"
};

/// Whether the compiler optimised this code.
pub(crate) const OPTIMISED: bool = !matches!(env!("FOREBAY_OPT_LEVEL").as_bytes(), b"0" | b"1");

/// A warning that the rates of this build are too low, or `None` for an optimised build without debug
/// assertions.
pub(crate) fn unoptimised() -> Option<String> {
    let checks = if cfg!(debug_assertions) { " and with debug assertions" } else { "" };
    let why = format!(
        "not optimised: this program was built with opt-level {}{checks}, so its rates are lower than those of a \
         release",
        env!("FOREBAY_OPT_LEVEL")
    );
    (!OPTIMISED || cfg!(debug_assertions)).then_some(why)
}

/// A reading of the processor time used so far, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    /// The time that this process used.
    pub(crate) own: f64,
    /// The time that all processes of the machine used.
    pub(crate) all: f64,
}

/// The processor time between two moments, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    /// The time that this process used.
    pub(crate) own: f64,
    /// The time that all other processes of the machine used.
    pub(crate) others: f64,
}

impl Clock {
    pub(crate) fn now() -> Option<Self> {
        Some(Clock { own: own_seconds(), all: all_seconds()? })
    }

    pub(crate) fn between(then: Clock, now: Clock) -> Spent {
        let own = now.own - then.own;
        Spent { own, others: (now.all - then.all - own).max(0.0) }
    }
}

/// The number of processors that this process may use, as affinity and cgroup allow.
pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |processors| processors.get() as u32)
}

/// The processor time of the calling thread, in seconds.
pub(crate) fn thread_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(stat.split_whitespace().next()?.parse::<f64>().ok()? / NANOS)
}

/// The largest resident memory of this process so far, in bytes.
pub(crate) fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * KIB)
}

/// The processor time that all threads of this process used, in seconds. `/proc` gives it too, but in ticks
/// of ten milliseconds.
fn own_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / NANOS
}

/// The processor time that the whole machine used, in seconds. The guest fields are left out, because Linux
/// counts the time of virtual machines in `user` and `nice` too.
fn all_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
    // The fields are user, nice, system, idle, iowait, irq, softirq and steal. The processor works in all but
    // idle and iowait.
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
        // Linux updates the processor time of a thread only a few hundred times a second.
        while thread_seconds().unwrap() == thread && began.elapsed().as_secs() < 20 {
            std::hint::spin_loop();
        }
        assert!(thread_seconds().unwrap() > thread);
        let spent = Clock::between(before, Clock::now().unwrap());
        assert!(spent.own >= 0.0 && spent.others >= 0.0);
    }
}

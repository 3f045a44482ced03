//! The resources that this process has used, from Linux; other systems give nothing.

/// The ticks per second in `/proc/stat`: Linux shows programs this number on every architecture that the
/// program supports.
const TICKS: f64 = 100.0;
const NANOS: f64 = 1e9;
const KIB: u64 = 1 << 10;

/// How many processors other programs may keep busy without spoiling a measurement.
pub(crate) const MAX_OTHER_CORES: f64 = 0.25;

/// The processors that this code was compiled for: all of an architecture, or a level of the x86-64 psABI.
pub const LEVEL: &str = if cfg!(not(target_arch = "x86_64")) {
    std::env::consts::ARCH
} else if cfg!(all(target_feature = "avx2", target_feature = "bmi2", target_feature = "fma")) {
    "x86-64-v3"
} else {
    "x86-64"
};

/// Whether the compiler optimised this code.
pub(crate) const OPTIMISED: bool = !matches!(env!("FOREBAY_OPT_LEVEL").as_bytes(), b"0" | b"1");

/// The sentence that says that figures of this build mean little, if the compiler did not optimise it.
pub(crate) fn unoptimised() -> Option<String> {
    let checks = if cfg!(debug_assertions) { " and with debug assertions" } else { "" };
    let why = format!(
        "not optimised: this program was built with opt-level {}{checks}, so its rates are lower than those of a \
         release",
        env!("FOREBAY_OPT_LEVEL")
    );
    (!OPTIMISED || cfg!(debug_assertions)).then_some(why)
}

/// The processor time up to some moment, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    /// The time of this process.
    pub(crate) own: f64,
    /// The time of all processes of the machine.
    pub(crate) all: f64,
}

/// The processor time between two moments, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    /// The time of this process.
    pub(crate) own: f64,
    /// The time of all other processes of the machine.
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

/// The processor time of this process, over all its threads.
fn own_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name may hold any characters, so fields are counted after its closing bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<f64>().ok()?, fields.next()?.parse::<f64>().ok()?);
    Some((user + system) / TICKS)
}

/// The processor time of the whole machine; guests count once.
fn all_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> =
        stat.lines().next()?.split_whitespace().skip(1).map_while(|n| n.parse().ok()).collect();
    // The fields are user, nice, system, idle, iowait, irq, softirq and steal. All but idle and iowait mean
    // work.
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

//! The calling thread's CPU, how many there are, and how much of them the process may use.

pub(crate) use cmwq_topology::{FollowedQuota, process_cpus};

use cmwq_topology::{CpuQuota, CpuSet};

/// The CPU that the calling thread runs on: a hint, true only at the instant of the call. `None`: the system cannot say.
#[inline]
pub(crate) fn current() -> Option<usize> {
    if cfg!(cmwq_loom) {
        // The real CPU would make runs of a model differ.
        return None;
    }
    // SAFETY: takes no arguments and touches no memory of ours. In glibc it reads the thread's rseq area (1 to 4 ns).
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).ok()
}

/// How many CPUs the system is configured for.
pub(crate) fn configured() -> usize {
    // SAFETY: reads a system constant.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(cpus).unwrap_or(1).max(1)
}

/// How long these CPUs have been busy since the system started, in ns, with the resolution of timer ticks. `None`: the
/// system does not say.
pub(crate) fn busy_ns(cpus: &CpuSet) -> Option<u64> {
    // SAFETY: reads a system constant.
    let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    busy_ticks(&text, cpus).map(|busy| busy * (1_000_000_000 / ticks.max(1)))
}

/// The sum over these CPUs, from the text of `/proc/stat` (proc_stat(5)). `None`: it has none of them.
fn busy_ticks(text: &str, cpus: &CpuSet) -> Option<u64> {
    // user, nice, system, idle, iowait, irq, softirq
    const BUSY: [usize; 5] = [0, 1, 2, 5, 6];
    let of_cpu = |line: &str| {
        let (cpu, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        let times: Vec<u64> = times.split(' ').flat_map(str::parse).collect();
        let busy = BUSY.iter().filter_map(|&at| times.get(at)).sum::<u64>();
        cpus.contains(cpu.parse().ok()?).then_some(busy)
    };
    text.lines().filter_map(of_cpu).reduce(|a, b| a + b)
}

/// The CPU quota of the process as it is now.
pub(crate) fn quota() -> CpuQuota {
    CpuQuota::detect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_busy_unless_it_idles_or_the_host_has_taken_it() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\n\
                    cpu0 100 20 3 4000 500 60 7 8000 0 0\n\
                    cpu1 1 0 0 9 9 0 0 9 0 0\n\
                    cpu12 1000 0 0 9 9 0 0 9 0 0\n\
                    intr 5 6\n";
        let busy = |cpus: &[usize]| busy_ticks(text, &cpus.iter().copied().collect());
        assert_eq!(busy(&[0]), Some(190));
        assert_eq!(busy(&[0, 1]), Some(191));
        assert_eq!(busy(&[12, 13]), Some(1000));
        assert_eq!(busy(&[2]), None);
    }
}

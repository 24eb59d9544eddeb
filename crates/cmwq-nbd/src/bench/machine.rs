//! The machine: what it is called, and how busy it is.

use std::time::Duration;

use cmwq::Engine;
use cmwq::affinity::AffinityScope;
use cmwq::topology::CpuSet;
use procfs::{Current, CurrentSI};

use crate::bench::plan;
use cmwq_command::CliError;
use cmwq_command::figures::{cpu_model, kernel};

/// In one line: CPU model, CPUs, system.
pub(super) fn description() -> String {
    format!("{}, {} CPUs, Linux {}", cpu_model(), cpus(), kernel())
}

/// CPUs that the process may use.
pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The groups of scopes, or of shard sizes, that cut this machine into the same pods; of two and more.
pub(super) fn same_pods(
    scopes: &[&'static str],
    shard_sizes: &[usize],
) -> Result<Vec<Vec<String>>, CliError> {
    let mut groups: Vec<(Vec<CpuSet>, Vec<String>)> = Vec::new();
    for subject in plan::ours(scopes, shard_sizes) {
        // A strict scope has the pods of the other one, and is another thing.
        let plan::Subject::Ours {
            scope, shard_size, ..
        } = subject
        else {
            continue;
        };
        if scope.ends_with(plan::STRICT) {
            continue;
        }
        let layout = pods(scope, shard_size)?;
        match groups.iter_mut().find(|(other, _)| *other == layout) {
            Some((_, labels)) => labels.push(subject.label()),
            None => groups.push((layout, vec![subject.label()])),
        }
    }
    let several = |(_, labels): (_, Vec<String>)| (labels.len() > 1).then_some(labels);
    Ok(groups.into_iter().filter_map(several).collect())
}

/// The CPUs of each pod of a scope of ours, of those that the process may use.
pub(super) fn pods(scope: &str, shard_size: Option<usize>) -> Result<Vec<CpuSet>, CliError> {
    let scope = scope.strip_suffix(plan::STRICT).unwrap_or(scope);
    let cut = AffinityScope::parse_kernel(scope).map_err(CliError::new)?;
    let engine = match shard_size {
        Some(size) => Engine::builder().cache_shard_size(size),
        None => Engine::builder(),
    };
    let engine = engine.build().map_err(CliError::failed)?;
    let pods = engine.pods(cut).pods().iter();
    let allowed = engine.topology().allowed();
    Ok(pods
        .map(|pod| pod.cpus.intersection(allowed))
        .filter(|cpus| !cpus.is_empty())
        .collect())
}

/// Bytes of memory that may be taken without swapping, if the system says so.
pub(super) fn memory_available() -> Option<u64> {
    procfs::Meminfo::current().ok()?.mem_available
}

/// CPU time of the whole machine so far, in ticks.
#[derive(Clone, Copy, Default)]
pub(super) struct Busy {
    busy: u64,
    all: u64,
}

impl Busy {
    pub(super) fn now() -> Self {
        let stat = procfs::KernelStats::current();
        stat.map_or_else(|_| Busy::default(), |stat| Busy::of(&stat.total))
    }

    /// Waiting for a disk is idle. The time of guests is in that of users already.
    fn of(cpu: &procfs::CpuTime) -> Self {
        let others = [cpu.irq, cpu.softirq, cpu.steal].into_iter().flatten();
        let busy = cpu.user + cpu.nice + cpu.system + others.sum::<u64>();
        let all = busy + cpu.idle + cpu.iowait.unwrap_or(0);
        Busy { busy, all }
    }

    /// Percent of all CPUs that were busy since `earlier`.
    pub(super) fn percent_since(self, earlier: Busy) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        self.busy.saturating_sub(earlier.busy) as f64 / all as f64 * 100.0
    }
}

/// CPU use of the machine while the jobs of a run work. fio takes a while to start them, and to end
/// after them, and most CPUs are idle then.
pub(super) struct BusyJobs {
    from: Duration,
    until: Duration,
    first_and_last: Option<(Busy, Busy)>,
}

impl BusyJobs {
    /// Of jobs that work for `runtime`.
    pub(super) fn of(runtime: Duration) -> Self {
        BusyJobs {
            // fio has started its jobs after a second, or else in much less than half of the time.
            from: (runtime / 2).min(Duration::from_secs(1)),
            until: runtime,
            first_and_last: None,
        }
    }

    /// To be called again and again, with the time since fio was started.
    pub(super) fn look(&mut self, elapsed: Duration, now: impl FnOnce() -> Busy) {
        if (self.from..=self.until).contains(&elapsed) {
            let now = now();
            self.first_and_last.get_or_insert((now, now)).1 = now;
        }
    }

    /// In percent of all CPUs.
    pub(super) fn percent(&self) -> f64 {
        let (first, last) = self.first_and_last.unwrap_or_default();
        last.percent_since(first)
    }
}

/// CPU time that process `id` has used so far, with all its threads, the ended ones too.
pub(super) fn cpu_time(id: u32) -> Option<Duration> {
    let stat = procfs::process::Process::new(id as i32).ok()?.stat().ok()?;
    let ticks = stat.utime + stat.stime;
    Some(Duration::from_secs_f64(
        ticks as f64 / procfs::ticks_per_second() as f64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_pods_are_found_whatever_the_machine() {
        // A shard of one core is a core, and one of more cores than there are is the whole cache.
        let groups = same_pods(
            &["cache", "cache-strict", "cache_shard", "smt"],
            &[1, 1 << 20],
        )
        .unwrap();
        let together = |one: &str, other: &str| {
            let has = |group: &Vec<String>, name: &str| group.iter().any(|label| label == name);
            groups
                .iter()
                .any(|group| has(group, one) && has(group, other))
        };
        assert!(together("cache", "cache_shard/1048576"), "{groups:?}");
        assert!(together("smt", "cache_shard/1"), "{groups:?}");
        assert!(!groups.concat().contains(&"cache-strict".to_owned()));
    }

    #[test]
    fn the_cpu_use_is_that_of_the_jobs_and_not_of_their_start_and_end() {
        let ms = Duration::from_millis;
        for runtime in [1_000, 4_000, 60_000] {
            let mut jobs = BusyJobs::of(ms(runtime));
            // The jobs begin after 300 ms. What comes before and after them is idle.
            let (start, end) = (300, 300 + runtime);
            for elapsed in (0..=end + 500).step_by(20) {
                let busy = elapsed.clamp(start, end) - start;
                let all = elapsed;
                jobs.look(ms(elapsed), || Busy { busy, all });
            }
            assert_eq!(jobs.percent(), 100.0, "{runtime} ms");
        }
        assert_eq!(
            BusyJobs::of(ms(1_000)).percent(),
            0.0,
            "it has failed at once"
        );
    }

    #[test]
    fn what_this_process_computes_is_counted_for_it_and_for_the_machine() {
        let (busy, before) = (Busy::now(), cpu_time(std::process::id()).unwrap());
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while cpu_time(std::process::id()).unwrap() < before + Duration::from_millis(50) {
            assert!(
                std::time::Instant::now() < deadline,
                "no CPU time in a minute"
            );
        }
        let used = Busy::now().percent_since(busy);
        assert!(used > 0.0 && used <= 100.0, "{used}");
        assert_eq!(busy.percent_since(busy), 0.0);
        assert_eq!(cpu_time(u32::MAX >> 1), None);
    }
}

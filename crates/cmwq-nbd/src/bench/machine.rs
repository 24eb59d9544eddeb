//! The machine: what it is called, and how busy it is.

use std::time::Duration;

use cmwq::Engine;
use cmwq::affinity::AffinityScope;
use cmwq::topology::CpuSet;

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
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// CPU time of the whole machine so far, in ticks.
#[derive(Clone, Copy)]
pub(super) struct Busy {
    busy: u64,
    all: u64,
}

impl Busy {
    pub(super) fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        parse_stat(&stat)
    }

    /// Percent of all CPUs that were busy since `earlier`.
    pub(super) fn percent_since(self, earlier: Busy) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        self.busy.saturating_sub(earlier.busy) as f64 / all as f64 * 100.0
    }
}

fn parse_stat(stat: &str) -> Busy {
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1)
        // User, nice, system, idle, waiting for I/O, interrupts, soft interrupts, stolen; guests are in user already.
        .take(8)
        .filter_map(|word| word.parse().ok())
        .collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Busy {
        busy: all - idle,
        all,
    }
}

/// CPU time that process `id` has used so far, with all its threads, the ended ones too.
pub(super) fn cpu_time(id: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    parse_cpu_time(&stat, rustix::param::clock_ticks_per_second())
}

fn parse_cpu_time(stat: &str, ticks_per_s: u64) -> Option<Duration> {
    // The name may contain anything, also blanks and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()? + next()?;
    Some(Duration::from_secs_f64(ticks as f64 / ticks_per_s as f64))
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
    fn process_times_are_behind_the_name() {
        let stat = "12 (a (b) c) S 1 12 12 0 -1 4194560 100 0 0 0 150 50 0 0 20 0";
        assert_eq!(parse_cpu_time(stat, 100), Some(Duration::from_secs(2)));
        assert_eq!(parse_cpu_time("12 (a", 100), None);
        assert_eq!(parse_cpu_time("12 (a) S 1", 100), None);
    }

    #[test]
    fn waiting_is_idle() {
        let earlier = parse_stat("cpu  10 0 10 100 20 0 0 0 5 0\ncpu0 1 1 1 1");
        let later = parse_stat("cpu  20 0 20 140 60 0 0 0 5 0\n");
        assert_eq!(later.percent_since(earlier), 20.0);
        assert_eq!(earlier.percent_since(earlier), 0.0);
    }
}

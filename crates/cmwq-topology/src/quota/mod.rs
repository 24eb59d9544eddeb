//! The CPU quota of the process: the CPU time of its cgroup (threads may have groups of their own:
//! that of the calling one) and of all groups above it, as seen from inside a container.
//!
//! These files are read below a root folder, which stands for `/` (`v2` for the unified hierarchy,
//! `v1` for the `cpu` controller's own hierarchy; both are read, and a missing file sets no limit):
//!
//! ```text
//! ROOT/
//! ├── proc/thread-self/cgroup      0::/app/web            v2; without this file: proc/self/cgroup
//! │                                4:cpu,cpuacct:/app     v1
//! ├── proc/self/mountinfo          … / /sys/fs/cgroup … - cgroup2 …
//! └── sys/fs/cgroup/app/web/
//!     ├── cpu.max                  150000 100000          v2: quota and period in µs, or `max`
//!     ├── cpu.weight, cpu.idle                            shown, not used
//!     ├── cpu.stat                 nr_periods, nr_throttled, throttled_usec
//!     └── cpu.cfs_quota_us, cpu.cfs_period_us             v1: -1 is no limit
//! ```
//!
//! Some group is the root of a mounted hierarchy. In a container that is the container's own group,
//! and the groups above are hidden; the path of the process starts there, or at the host's root.
//! Where `/proc` is hidden, the usual mount points are read.

mod groups;

use self::groups::{Group, below, cgroup_file, own_groups, read};
use std::cmp::Ordering;
use std::fmt;
use std::path::{Path, PathBuf};

/// The period where a v1 group gives none: the kernel's default.
const DEFAULT_PERIOD_US: u64 = 100_000;

/// The CPU quota of one group.
///
/// ```
/// use cmwq_topology::GroupLimit;
///
/// let limit = GroupLimit { group: "/".into(), quota_us: 150_000, period_us: 100_000 };
/// assert_eq!((limit.cpus(), limit.threads()), (1.5, 2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// The group's folder, as the process sees it.
    pub group: PathBuf,
    /// CPU time for each period, in microseconds.
    pub quota_us: u64,
    /// The period, in microseconds; never 0.
    pub period_us: u64,
}

/// Tells how often a group was throttled because its quota was used up.
///
/// ```
/// if let Some(throttling) = cmwq_topology::CpuQuota::detect().throttling() {
///     println!("{} periods", throttling.nr_periods);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the group ran.
    pub nr_periods: u64,
    /// Periods in which it was throttled.
    pub nr_throttled: u64,
    /// Total throttled time, in microseconds, summed over CPUs.
    pub throttled_us: u64,
}

/// Tells how much CPU time the control groups of the process allow.
///
/// ```
/// use cmwq_topology::CpuQuota;
///
/// match CpuQuota::detect().limit() {
///     Some(limit) => println!("{} CPUs", limit.cpus()),
///     None => println!("no quota"),
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuQuota {
    limit: Option<GroupLimit>,
    throttling: Option<Throttling>,
    weight: Option<u64>,
    idle: bool,
    hidden: bool,
}

impl GroupLimit {
    /// The limit in CPUs: 1.5 is three halves of one CPU's time.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    /// How many threads can run all the time within the limit, rounded up; at least 1.
    #[must_use]
    pub fn threads(&self) -> u32 {
        let threads = self.quota_us.div_ceil(self.period_us).max(1);
        u32::try_from(threads).unwrap_or(u32::MAX)
    }

    fn cmp_cpus(&self, other: &GroupLimit) -> Ordering {
        let share =
            |own: &GroupLimit, by: &GroupLimit| u128::from(own.quota_us) * u128::from(by.period_us);
        share(self, other).cmp(&share(other, self))
    }
}

impl CpuQuota {
    /// Reads the quota of the calling process; where its threads are in groups of their own
    /// (threaded cgroups), of the calling thread. Files that cannot be read or understood set no
    /// limit.
    #[must_use]
    pub fn detect() -> Self {
        Self::from_root(Path::new("/"))
    }

    /// As [`detect`](Self::detect), with the files below `root` instead of those below `/`.
    #[must_use]
    pub fn from_root(root: &Path) -> Self {
        let groups = own_groups(root, cgroup_file(root).as_deref());
        let mut quota = Self::of_groups(root, &groups);
        for group in &groups {
            let seen = below(root, &group.dir);
            quota.hidden |= group.hides_own;
            quota.weight = quota.weight.or_else(|| number(&seen.join("cpu.weight")));
            quota.idle |= number(&seen.join("cpu.idle")) == Some(1);
        }
        quota
    }

    /// What limits, and nothing that is only displayed.
    fn of_groups(root: &Path, groups: &[Group]) -> Self {
        let mut quota = CpuQuota::default();
        for dir in groups.iter().flat_map(Group::with_ancestors) {
            if let Some((quota_us, period_us)) = limit_of(&below(root, dir)) {
                quota.tighten(GroupLimit {
                    group: dir.to_path_buf(),
                    quota_us,
                    period_us,
                });
            }
        }
        quota.throttling = quota
            .limit
            .as_ref()
            .and_then(|limit| throttling_of(&below(root, &limit.group)));
        quota
    }

    /// Keeps the tighter of two limits; of equal ones, the lower group's.
    fn tighten(&mut self, limit: GroupLimit) {
        let tighter = |now: &GroupLimit| limit.cmp_cpus(now) == Ordering::Less;
        if self.limit.as_ref().is_none_or(tighter) {
            self.limit = Some(limit);
        }
    }

    /// The tightest limit; `None`: no visible group has one.
    #[must_use]
    pub fn limit(&self) -> Option<&GroupLimit> {
        self.limit.as_ref()
    }

    /// How often the group of the tightest limit was throttled, if the system tells.
    #[must_use]
    pub fn throttling(&self) -> Option<Throttling> {
        self.throttling
    }

    /// The own group's `cpu.weight`, if there is one. Only displayed: it does not limit CPU time.
    #[must_use]
    pub fn weight(&self) -> Option<u64> {
        self.weight
    }

    /// The own group runs only on otherwise idle CPUs (`cpu.idle`). Only displayed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.idle
    }
}

/// A quota of this limit and nothing else: for tests and simulators.
impl From<GroupLimit> for CpuQuota {
    fn from(limit: GroupLimit) -> Self {
        CpuQuota {
            limit: Some(limit),
            ..CpuQuota::default()
        }
    }
}

/// Reads the quota again and again, and looks for the groups only when the process is in others
/// than before, or none had a limit.
///
/// ```
/// let mut quota = cmwq_topology::FollowedQuota::default();
/// println!("{:?}", quota.read().limit());
/// ```
#[derive(Debug, Default)]
pub struct FollowedQuota {
    /// The groups if one has a limit, and the file that named them.
    last: Option<(Option<String>, Vec<Group>)>,
}

impl FollowedQuota {
    /// As [`CpuQuota::detect`], without what is only displayed.
    pub fn read(&mut self) -> CpuQuota {
        self.read_from(Path::new("/"))
    }

    /// As [`read`](Self::read), with the files below `root` instead of those below `/`.
    pub fn read_from(&mut self, root: &Path) -> CpuQuota {
        let now = cgroup_file(root);
        let last = self.last.take().filter(|(cgroup, _)| *cgroup == now);
        let (cgroup, groups) = last.unwrap_or_else(|| {
            let groups = own_groups(root, now.as_deref());
            (now, groups)
        });
        let quota = CpuQuota::of_groups(root, &groups);
        self.last = quota.limit().map(|_| (cgroup, groups));
        quota
    }
}

/// One line.
impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.limit {
            None => f.write_str("none")?,
            Some(limit) => write!(
                f,
                "{:.2} CPUs ({} of every {} us, {})",
                limit.cpus(),
                limit.quota_us,
                limit.period_us,
                limit.group.display()
            )?,
        }
        if let Some(Throttling {
            nr_periods,
            nr_throttled,
            ..
        }) = self.throttling
        {
            write!(f, ", throttled in {nr_throttled} of {nr_periods} periods")?;
        }
        // 100 is the default weight.
        if let Some(weight) = self.weight.filter(|&weight| weight != 100) {
            write!(f, ", weight {weight}")?;
        }
        if self.idle {
            f.write_str(", idle class")?;
        }
        if self.hidden {
            f.write_str(", own group not visible")?;
        }
        Ok(())
    }
}

/// Quota and period of a group, in microseconds, if it has a limit.
fn limit_of(dir: &Path) -> Option<(u64, u64)> {
    let unified = || {
        let text = read(&dir.join("cpu.max"))?;
        let mut words = text.split_whitespace();
        let quota = words.next()?.parse().ok()?;
        let period = words
            .next()
            .map_or(Some(DEFAULT_PERIOD_US), |period| period.parse().ok());
        Some((quota, period?))
    };
    let cpu = || {
        // A negative quota means no limit.
        let quota = number(&dir.join("cpu.cfs_quota_us"))?;
        let period = number(&dir.join("cpu.cfs_period_us")).unwrap_or(DEFAULT_PERIOD_US);
        Some((quota, period))
    };
    unified()
        .or_else(cpu)
        .filter(|&(quota, period)| quota > 0 && period > 0)
}

fn throttling_of(dir: &Path) -> Option<Throttling> {
    let text = read(&dir.join("cpu.stat"))?;
    let value = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    Some(Throttling {
        nr_periods: value("nr_periods ")?,
        nr_throttled: value("nr_throttled ")?,
        // v1 counts nanoseconds under another name.
        throttled_us: value("throttled_usec ")
            .or_else(|| value("throttled_time ").map(|ns| ns / 1000))
            .unwrap_or(0),
    })
}

fn number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_compare_by_share_and_round_up_to_threads() {
        let limit = |quota_us, period_us| GroupLimit {
            group: PathBuf::new(),
            quota_us,
            period_us,
        };
        assert_eq!(limit(50_000, 100_000).threads(), 1);
        assert_eq!(limit(100_000, 100_000).threads(), 1);
        assert_eq!(limit(100_001, 100_000).threads(), 2);
        assert_eq!(limit(1, u64::MAX).threads(), 1);
        assert_eq!(limit(u64::MAX, 1).threads(), u32::MAX);
        let (third, half) = (limit(u64::MAX / 3, u64::MAX), limit(1, 2));
        assert_eq!(third.cmp_cpus(&half), Ordering::Less);
        assert_eq!(half.cmp_cpus(&limit(4, 8)), Ordering::Equal);
    }

    #[test]
    fn the_groups_are_looked_for_only_when_the_process_is_in_others() {
        let root =
            std::env::temp_dir().join(format!("cmwq-topology-followed-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        write("proc/self/cgroup", "0::/a\n");
        let mountinfo = "31 23 0:28 / /cgroups rw - cgroup2 cgroup2 rw\n";
        write("proc/self/mountinfo", mountinfo);
        write("cgroups/a/cpu.max", "10000 100000\n");
        write("cgroups/b/cpu.max", "30000 100000\n");
        let mut followed = FollowedQuota::default();
        let mut read = || {
            let quota = followed.read_from(&root);
            quota.limit().map(|limit| limit.quota_us)
        };
        assert_eq!(read(), Some(10_000));
        // Without this file the groups are not found.
        write("proc/self/mountinfo", "");
        write("cgroups/a/cpu.max", "20000 100000\n");
        assert_eq!(read(), Some(20_000), "a new quota of the same group");
        write("proc/self/mountinfo", mountinfo);
        write("proc/self/cgroup", "0::/b\n");
        assert_eq!(read(), Some(30_000), "the quota of another group");
        // Nor are groups kept that have none: they may have been looked for when the files could not be read.
        write("cgroups/b/cpu.max", "max 100000\n");
        assert_eq!(read(), None);
        write("cgroups/b/cpu.max", "40000 100000\n");
        write("proc/self/mountinfo", "");
        assert_eq!(read(), None);
        write("proc/self/mountinfo", mountinfo);
        assert_eq!(read(), Some(40_000));
        std::fs::remove_dir_all(&root).unwrap();
    }
}

//! The CPU quota of the process: the CPU time of its cgroup (threads may have groups of their own: that of the calling one) and of all groups above it, as seen from inside a container.
//!
//! These files are read below a root folder, which stands for `/` (`v2` for the unified hierarchy, `v1` for the `cpu` controller's own
//! hierarchy; both are read, and a missing file sets no limit):
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
//! Some group is the root of a mounted hierarchy. In a container that is the container's own group, and the groups above are hidden; the
//! path of the process starts there, or at the host's root. Where `/proc` is hidden, the usual mount points are read.
#![forbid(unsafe_code)]

use super::sysfs::bytes_of;
use std::cmp::Ordering;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Upper bound of the files read here: `mountinfo` of a host with thousands of containers.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Largest number of nested groups: longer paths cannot be opened.
const MAX_DEPTH: usize = 2048;

/// The period where a v1 group gives none: the kernel's default.
const DEFAULT_PERIOD_US: u64 = 100_000;

/// The CPU quota of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// The group's folder, as the process sees it.
    pub group: PathBuf,
    /// CPU time for each period, in microseconds.
    pub quota_us: u64,
    /// The period, in microseconds; never 0.
    pub period_us: u64,
}

/// How often a group was throttled because its quota was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the group ran.
    pub nr_periods: u64,
    /// Periods in which it was throttled.
    pub nr_throttled: u64,
    /// Total throttled time, in microseconds, summed over CPUs.
    pub throttled_us: u64,
}

/// The CPU quota of the process, from all its visible groups.
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
    /// Reads the quota of the calling process; where its threads are in groups of their own (threaded cgroups), of the calling thread. Files that cannot be read or understood set no limit.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(cmwq_sim)]
        if cmwq_vm::is_inside() {
            return Self::of_virtual_machine();
        }
        Self::from_root(Path::new("/"))
    }

    #[cfg(cmwq_sim)]
    fn of_virtual_machine() -> Self {
        let limit = cmwq_vm::quota().map(|quota| GroupLimit {
            group: "/".into(),
            quota_us: quota.quota_us,
            period_us: quota.period_us,
        });
        CpuQuota {
            limit,
            ..Self::default()
        }
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

/// Reads the quota again and again, and looks for the groups only when the process is in others than before, or
/// none had a limit.
#[derive(Default)]
pub(crate) struct FollowedQuota {
    /// The groups if one has a limit, and the file that named them.
    last: Option<(Option<String>, Vec<Group>)>,
}

impl FollowedQuota {
    /// As [`CpuQuota::detect`], without what is only displayed.
    pub(crate) fn read(&mut self) -> CpuQuota {
        #[cfg(cmwq_sim)]
        if cmwq_vm::is_inside() {
            return CpuQuota::of_virtual_machine();
        }
        self.read_from(Path::new("/"))
    }

    pub(crate) fn read_from(&mut self, root: &Path) -> CpuQuota {
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

/// The process's group in one hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    /// Where the hierarchy is mounted.
    mount: PathBuf,
    /// The group's folder: the mount, or one below it.
    dir: PathBuf,
    /// The process's own group is not there: this is the mount instead.
    hides_own: bool,
}

impl Group {
    fn with_ancestors(&self) -> impl Iterator<Item = &Path> {
        let inside = |dir: &&Path| dir.starts_with(&self.mount);
        self.dir.ancestors().take_while(inside).take(MAX_DEPTH)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    Unified,
    Cpu,
}

impl Hierarchy {
    const ALL: [Hierarchy; 2] = [Hierarchy::Unified, Hierarchy::Cpu];

    /// The usual mount point.
    fn usual_mount(self) -> &'static str {
        match self {
            Hierarchy::Unified => "/sys/fs/cgroup",
            Hierarchy::Cpu => "/sys/fs/cgroup/cpu",
        }
    }

    /// The path in the hierarchy, from `/proc/thread-self/cgroup`.
    fn path_in(self, cgroup: &str) -> Option<PathBuf> {
        cgroup.lines().find_map(|line| {
            let (id, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let own = match self {
                Hierarchy::Unified => id == "0" && controllers.is_empty(),
                Hierarchy::Cpu => controllers.split(',').any(|name| name == "cpu"),
            };
            own.then(|| path_from(path))
        })
    }

    fn is_mounted_by(self, mount: &Mount) -> bool {
        match self {
            Hierarchy::Unified => mount.fstype == "cgroup2",
            Hierarchy::Cpu => {
                mount.fstype == "cgroup" && mount.options.split(',').any(|name| name == "cpu")
            }
        }
    }
}

/// A line of `mountinfo`.
struct Mount {
    /// The group at the root of the mount.
    root: PathBuf,
    point: PathBuf,
    fstype: String,
    options: String,
}

impl Mount {
    /// The mount to expect where `mountinfo` cannot be read.
    fn usual(hierarchy: Hierarchy) -> Mount {
        Mount {
            root: "/".into(),
            point: hierarchy.usual_mount().into(),
            fstype: String::new(),
            options: String::new(),
        }
    }

    fn parse(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let fstype = after.next()?.to_owned();
        Some(Mount {
            root: path_from(&unescape(root)),
            point: path_from(&unescape(point)),
            fstype,
            options: after.nth(1).unwrap_or("").to_owned(),
        })
    }

    /// The folder of the group `path`. `None`: it is not below the root of the mount.
    fn dir_of(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.root).ok()?;
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        // Joined with an empty path, the result would end in a slash.
        let dir = self.point.join(below).components().collect();
        below.components().all(plain).then_some(dir)
    }
}

/// Decodes blanks, tabs, newlines and backslashes, which the kernel writes as three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits = rest.get(1..4).filter(|_| first == '\\');
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.map_or(first, char::from));
        rest = &rest[code.map_or(first.len_utf8(), |_| 4)..];
    }
    plain
}

/// The file that names the process's groups.
fn cgroup_file(root: &Path) -> Option<String> {
    // A new thread is in its creator's group, so workers are in that of the engine's threads.
    let of_thread = read(&root.join("proc/thread-self/cgroup"));
    of_thread.or_else(|| read(&root.join("proc/self/cgroup")))
}

/// The process's group in each hierarchy that exists.
fn own_groups(root: &Path, cgroup: Option<&str>) -> Vec<Group> {
    let mountinfo = read(&root.join("proc/self/mountinfo")).unwrap_or_default();
    let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
    let group = |hierarchy: Hierarchy| {
        // Without `/proc`, assume the root of the container.
        let path = match cgroup {
            Some(text) => hierarchy.path_in(text)?,
            None => PathBuf::from("/"),
        };
        let own = mounts.iter().filter(|mount| hierarchy.is_mounted_by(mount));
        let usual = mounts.is_empty().then(|| Mount::usual(hierarchy));
        let own: Vec<&Mount> = own.chain(&usual).collect();
        let seen = |dir: &Path| below(root, dir).is_dir();
        let found = own.iter().filter_map(|mount| {
            let dir = mount.dir_of(&path).filter(|dir| seen(dir))?;
            Some(Group {
                mount: mount.point.clone(),
                dir,
                hides_own: false,
            })
        });
        // The same group may be seen through several mounts: the one with the most groups above it counts.
        let widest = found.max_by_key(|group| group.with_ancestors().count());
        // The path is outside the mounts: the root of the mount is the nearest visible group.
        let nearest = || {
            let mount = own.first().map(|mount| mount.point.clone())?;
            seen(&mount).then(|| Group {
                dir: mount.clone(),
                mount,
                hides_own: true,
            })
        };
        widest.or_else(nearest)
    };
    Hierarchy::ALL.into_iter().filter_map(group).collect()
}

fn below(root: &Path, absolute: &Path) -> PathBuf {
    root.join(absolute.strip_prefix("/").unwrap_or(absolute))
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

/// The text of a file, a character for each byte: the kernel writes the names of groups and mount points as they are, which need not be UTF-8.
/// `None`: it cannot be read.
fn read(path: &Path) -> Option<String> {
    let bytes = bytes_of(path, MAX_FILE_BYTES).ok()?;
    Some(bytes.into_iter().map(char::from).collect())
}

/// The path that is a part of such a text.
fn path_from(text: &str) -> PathBuf {
    let bytes = text.chars().map(|character| character as u8).collect();
    OsString::from_vec(bytes).into()
}

#[cfg(all(test, not(cmwq_loom)))]
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
    fn octal_escapes_of_mount_points_are_undone_and_others_kept() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"/a\04"), r"/a\04");
        assert_eq!(unescape(r"/a\999"), r"/a\999");
    }
}

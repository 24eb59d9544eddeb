//! How many workers may run at once over all pools: the CPU quota of the process's cgroup, or the
//! program's setting.

use crate::error::Error;
use crate::pool::Share;
use crate::sys::clock;
use crate::sys::cpu::FollowedQuota;
use crate::topology::{CpuQuota, GroupLimit};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A quota that was read longer ago than this, in ns, is read again. The engine asks every 0.4 s
/// while the process works.
pub(crate) const REREAD_NS: u64 = 700_000_000;

/// Says how many workers of an engine may run at once, over all its pools.
///
/// A limit does not change how the machine is cut into pods. A thread that runs the item that it
/// waits for, a blocked worker and a rescuer do not count. Pools with work share the limit in turns
/// of about a millisecond; a pool that waits for its turn for 100 ms runs a worker beyond the
/// limit.
///
/// As text: `auto`, `none`, or a number from 1.
///
/// ```
/// use cmwq::types::CpuLimit;
///
/// assert_eq!("4".parse::<CpuLimit>()?.to_string(), "4");
/// assert_eq!("auto".parse::<CpuLimit>()?, CpuLimit::Auto);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuLimit {
    /// The smallest CPU quota of the process's cgroup and the groups above it, rounded up to whole
    /// CPUs. The engine reads it again about once a second while the process works. There is no
    /// limit if there is no quota, or if the quota is not below the number of CPUs that the process
    /// may use.
    #[default]
    Auto,
    /// No limit, whatever the quota.
    None,
    /// This many workers. A worker that sleeps or is blocked does not count, so others run in its
    /// place; when it comes back, more may run for some milliseconds. To exclude that two items
    /// overlap, use `max_active` or an ordered queue.
    Workers(NonZeroU32),
}

impl fmt::Display for CpuLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuLimit::Auto => f.write_str("auto"),
            CpuLimit::None => f.write_str("none"),
            CpuLimit::Workers(workers) => workers.fmt(f),
        }
    }
}

impl FromStr for CpuLimit {
    type Err = Error;

    /// # Errors
    /// [`Error::CpuLimit`] for anything but `auto`, `none` and a whole number from 1.
    fn from_str(text: &str) -> Result<Self, Error> {
        let number = || {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok())?
        };
        match text {
            "auto" => Ok(CpuLimit::Auto),
            "none" => Ok(CpuLimit::None),
            _ => number().map(CpuLimit::Workers).ok_or(Error::CpuLimit {
                given: text.to_owned(),
            }),
        }
    }
}

/// The setting, and the quota as it was last read.
pub(crate) struct Limit {
    pub(in crate::engine) setting: CpuLimit,
    followed: FollowedQuota,
    /// The quota that was read at the time `read_ns`.
    quota: Option<GroupLimit>,
    pub(in crate::engine) read_ns: u64,
    /// For how long the process had been throttled at that time, in us, summed over its CPUs.
    /// `None`: the system does not tell.
    throttled_us: Option<u64>,
}

impl Limit {
    pub(crate) fn new(setting: CpuLimit) -> Self {
        let mut limit = Limit {
            setting,
            followed: FollowedQuota::default(),
            quota: None,
            read_ns: 0,
            throttled_us: None,
        };
        limit.read();
        limit
    }

    pub(in crate::engine) fn read(&mut self) {
        self.read_ns = clock::now_ns();
        match self.setting {
            CpuLimit::Auto => {
                let quota = self.followed.read();
                self.note(!out_of_files(), &quota);
            }
            _ => self.quota = None,
        }
    }

    /// Takes over a quota that was read. If the files could not be opened, the quota stays as it
    /// was.
    fn note(&mut self, opened: bool, quota: &CpuQuota) {
        if opened {
            self.quota = quota.limit().cloned();
            self.throttled_us = quota.throttling().map(|told| told.throttled_us);
        }
    }

    /// Returns how many workers may run if the process may use `cpus` CPUs.
    pub(crate) fn workers(&self, cpus: usize) -> Option<u32> {
        match self.setting {
            CpuLimit::Auto => {
                let threads = self.quota.as_ref().map(GroupLimit::threads);
                threads.filter(|&threads| (threads as usize) < cpus)
            }
            CpuLimit::None => None,
            CpuLimit::Workers(workers) => Some(workers.get()),
        }
    }

    /// Whether the quota is less CPU time than `cpus` CPUs have, if only by a fraction of a CPU.
    fn is_below(&self, cpus: usize) -> bool {
        match self.setting {
            CpuLimit::Auto => self
                .quota
                .as_ref()
                .is_some_and(|quota| quota.cpus() < cpus as f64),
            CpuLimit::None => false,
            CpuLimit::Workers(workers) => (workers.get() as usize) < cpus,
        }
    }

    /// Returns the CPU time that the process may use, if that is less than `cpus` CPUs have.
    pub(in crate::engine) fn share(&self, cpus: usize) -> Option<Share> {
        let quota = self.quota.as_ref().filter(|_| self.is_below(cpus))?;
        Some(Share {
            quota_us: quota.quota_us,
            period_us: quota.period_us,
        })
    }

    /// Reads the quota again. Returns for how long the process was throttled since the last
    /// reading, and how long ago that reading was, both in us. `None`: the system does not tell.
    pub(in crate::engine) fn read_again(&mut self) -> Option<(u64, u64)> {
        let (before_ns, before_us) = (self.read_ns, self.throttled_us);
        self.read();
        Some((
            self.throttled_since(before_us)?,
            (self.read_ns - before_ns) / 1000,
        ))
    }

    /// Returns how much longer the process has been throttled than `before_us`. `None`: the system
    /// does not tell, or the process has moved to a group that was throttled for a shorter time.
    fn throttled_since(&self, before_us: Option<u64>) -> Option<u64> {
        self.throttled_us?.checked_sub(before_us?)
    }
}

/// Whether opening a file fails because the process, or the system, has no file descriptor left.
fn out_of_files() -> bool {
    const NONE_LEFT: [Option<i32>; 2] = [Some(libc::EMFILE), Some(libc::ENFILE)];
    let opened = std::fs::File::open("/");
    opened.is_err_and(|error| NONE_LEFT.contains(&error.raw_os_error()))
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

    fn limit(setting: CpuLimit, quota_cpus: Option<f64>) -> Limit {
        let quota = quota_cpus.map(|cpus| GroupLimit {
            group: "/".into(),
            quota_us: (cpus * 100_000.0) as u64,
            period_us: 100_000,
        });
        Limit {
            setting,
            followed: FollowedQuota::default(),
            quota,
            read_ns: 0,
            throttled_us: None,
        }
    }

    #[test]
    fn a_quota_holds_until_its_files_can_be_read_again() {
        let mut limit = limit(CpuLimit::Auto, Some(2.0));
        let none = CpuQuota::default();
        limit.note(false, &none);
        assert_eq!(limit.workers(64), Some(2));
        limit.note(true, &none);
        assert_eq!(limit.workers(64), None);
    }

    #[test]
    fn for_how_long_the_process_was_throttled_shows_from_one_reading_to_the_next() {
        // The test makes a tree of system files, which has no /proc.
        let root = std::env::temp_dir().join(format!("cmwq-limit-{}", std::process::id()));
        let group = root.join("sys/fs/cgroup");
        std::fs::create_dir_all(&group).unwrap();
        let mut limit = limit(CpuLimit::Auto, None);
        let mut read = |stat: &str| {
            std::fs::write(group.join("cpu.max"), "100000 100000\n").unwrap();
            std::fs::write(group.join("cpu.stat"), stat).unwrap();
            let before_us = limit.throttled_us;
            limit.note(true, &CpuQuota::from_root(&root));
            limit.throttled_since(before_us)
        };
        let stat = |us| format!("nr_periods 9\nnr_throttled 5\nthrottled_usec {us}\n");
        let found = [3, 3, 40, 40, 7].map(|us| read(&stat(us)));
        assert_eq!(found, [None, Some(0), Some(37), Some(0), None]);
        // The files of cgroup version 1 count in ns.
        let v1 = |ns| format!("nr_periods 9\nnr_throttled 5\nthrottled_time {ns}\n");
        assert_eq!(read(&v1(9_000)), Some(2));
        assert_eq!(read("usage_usec 7\n"), None, "the system does not tell");
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_quota_that_is_not_below_the_cpus_limits_nothing() {
        let auto = |quota| limit(CpuLimit::Auto, quota);
        assert_eq!(auto(None).workers(64), None);
        assert_eq!(auto(Some(2.0)).workers(64), Some(2));
        assert_eq!(auto(Some(64.0)).workers(64), None);
        assert_eq!(limit(CpuLimit::None, Some(2.0)).workers(64), None);
        let three = CpuLimit::Workers(NonZeroU32::new(3).unwrap());
        assert_eq!(limit(three, None).workers(2), Some(3));
    }
}

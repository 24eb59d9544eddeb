//! The CPU quota as containers see it, read from fake trees.
//!
//! Sabotages tried: the own group's limit alone; folders above the mount; a path outside of what is
//! mounted has no group; one hierarchy only.

use cmwq_topology::{CpuQuota, Throttling};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that stands for `/`; removed when dropped.
struct FakeRoot(PathBuf);

impl FakeRoot {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cmwq-fake-root-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).expect("temporary directory");
        FakeRoot(root)
    }

    /// As a process in `path` of the unified hierarchy, of which `mounted` is the root of what it
    /// sees, sees itself.
    fn unified(path: &str, mounted: &str) -> Self {
        let root = Self::new();
        root.write("proc/self/cgroup", &format!("0::{path}\n"));
        root.mount(mounted, "/sys/fs/cgroup", "cgroup2 cgroup2 rw");
        root
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
        fs::write(path, text).expect("file");
        self
    }

    fn mount(&self, root: &str, point: &str, kind: &str) -> &Self {
        let old = fs::read_to_string(self.0.join("proc/self/mountinfo")).unwrap_or_default();
        let line = format!("31 23 0:28 {root} {point} rw,nosuid shared:7 master:1 - {kind}\n");
        self.write("proc/self/mountinfo", &(old + &line));
        self
    }

    fn read(&self) -> CpuQuota {
        CpuQuota::from_root(&self.0)
    }

    /// Quota, period and group of the tightest limit.
    fn limit(&self) -> Option<(u64, u64, String)> {
        let quota = self.read();
        let limit = quota.limit()?;
        let group = limit.group.display().to_string();
        Some((limit.quota_us, limit.period_us, group))
    }
}

impl Drop for FakeRoot {
    fn drop(&mut self) {
        // A left-over directory is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tightest(quota: u64, period: u64, group: &str) -> Option<(u64, u64, String)> {
    Some((quota, period, group.to_owned()))
}

#[test]
fn the_tightest_group_above_the_process_counts() {
    let root = FakeRoot::unified("/a/b/c", "/");
    assert_eq!(root.limit(), None);
    root.write("sys/fs/cgroup/a/b/c/cpu.max", "300000 100000\n");
    assert_eq!(
        root.limit(),
        tightest(300_000, 100_000, "/sys/fs/cgroup/a/b/c")
    );
    // Above it one with less, by another period.
    root.write("sys/fs/cgroup/a/cpu.max", "25000 10000\n");
    assert_eq!(root.limit(), tightest(25_000, 10_000, "/sys/fs/cgroup/a"));
    root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_eq!(root.limit(), tightest(25_000, 10_000, "/sys/fs/cgroup/a"));
    root.write("sys/fs/cgroup/a/b/c/cpu.max", "50000 100000\n");
    assert_eq!(
        root.limit(),
        tightest(50_000, 100_000, "/sys/fs/cgroup/a/b/c")
    );
    // A group that is no ancestor does not count.
    root.write("sys/fs/cgroup/a/x/cpu.max", "1000 100000\n");
    assert_eq!(
        root.limit(),
        tightest(50_000, 100_000, "/sys/fs/cgroup/a/b/c")
    );
    assert_eq!(root.read().limit().expect("a limit").cpus(), 0.5);
}

#[test]
fn a_container_sees_its_own_group_as_the_root() {
    // With a cgroup namespace.
    let root = FakeRoot::unified("/", "/");
    root.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    assert_eq!(root.limit(), tightest(150_000, 100_000, "/sys/fs/cgroup"));
    assert_eq!(root.read().limit().expect("a limit").threads(), 2);
    // Without one the path is the host's, and what is mounted begins there.
    let root = FakeRoot::unified("/docker/17/own", "/docker/17");
    root.write("sys/fs/cgroup/cpu.max", "70000 100000\n");
    root.write("sys/fs/cgroup/own/cpu.max", "90000 100000\n");
    assert_eq!(root.limit(), tightest(70_000, 100_000, "/sys/fs/cgroup"));
    root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_eq!(
        root.limit(),
        tightest(90_000, 100_000, "/sys/fs/cgroup/own")
    );
    // The process is outside of what is mounted: the root of that is nearest.
    for path in ["/../../other", "/dockers/3", "/docker/17/gone"] {
        let root = FakeRoot::unified(path, "/docker/17");
        root.write("sys/fs/cgroup/cpu.max", "60000 100000\n");
        assert_eq!(
            root.limit(),
            tightest(60_000, 100_000, "/sys/fs/cgroup"),
            "{path}"
        );
    }
}

#[test]
fn a_group_that_cannot_be_seen_is_said_to_be_hidden() {
    // A cgroup namespace, below the mount of another one.
    let root = FakeRoot::unified("/", "/../..");
    root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
    root.write("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_eq!(root.read().to_string(), "none, own group not visible");
    assert_eq!(FakeRoot::unified("/", "/").read().to_string(), "none");
}

#[test]
fn nothing_above_the_mount_is_looked_at() {
    let root = FakeRoot::unified("/", "/");
    root.write("sys/fs/cpu.max", "1000 100000\n");
    root.write("sys/cpu.max", "1000 100000\n");
    root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_eq!(root.limit(), None);
}

#[test]
fn the_older_hierarchy_and_both_at_once_are_read() {
    let root = FakeRoot::new();
    root.write(
        "proc/self/cgroup",
        "12:memory:/m\n4:cpu,cpuacct:/app/web\n0::/app\n",
    );
    root.mount("/", "/sys/fs/cgroup/memory", "cgroup cgroup rw,memory");
    root.mount(
        "/",
        "/sys/fs/cgroup/cpu,cpuacct",
        "cgroup cgroup rw,cpu,cpuacct",
    );
    root.mount("/", "/sys/fs/cgroup/unified", "cgroup2 cgroup2 rw");
    let dir = "sys/fs/cgroup/cpu,cpuacct/app";
    root.write(&format!("{dir}/web/cpu.cfs_quota_us"), "-1\n");
    root.write(&format!("{dir}/web/cpu.cfs_period_us"), "100000\n");
    assert_eq!(root.limit(), None);
    root.write(&format!("{dir}/cpu.cfs_quota_us"), "40000\n");
    let group = "/sys/fs/cgroup/cpu,cpuacct/app";
    assert_eq!(
        root.limit(),
        tightest(40_000, 100_000, group),
        "the default period"
    );
    root.write(&format!("{dir}/cpu.cfs_period_us"), "20000\n");
    assert_eq!(root.limit(), tightest(40_000, 20_000, group));
    root.write(
        &format!("{dir}/cpu.stat"),
        "nr_periods 9\nnr_throttled 4\nthrottled_time 2500000\n",
    );
    let throttling = Throttling {
        nr_periods: 9,
        nr_throttled: 4,
        throttled_us: 2500,
    };
    assert_eq!(root.read().throttling(), Some(throttling));
    // Both: the tighter one.
    root.write("sys/fs/cgroup/unified/app/cpu.max", "90000 100000\n");
    assert_eq!(
        root.limit(),
        tightest(90_000, 100_000, "/sys/fs/cgroup/unified/app")
    );
}

#[test]
fn where_proc_is_hidden_the_usual_places_are_looked_at() {
    let root = FakeRoot::new();
    assert_eq!(root.limit(), None);
    root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "80000\n");
    assert_eq!(
        root.limit(),
        tightest(80_000, 100_000, "/sys/fs/cgroup/cpu")
    );
    root.write("sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_eq!(root.limit(), tightest(50_000, 100_000, "/sys/fs/cgroup"));
}

#[test]
fn what_makes_no_sense_limits_nothing() {
    let root = FakeRoot::unified("/a", "/");
    for text in [
        "",
        "max",
        "0 100000",
        "100000 0",
        "-5 100000",
        "x y",
        "1e5 100000",
        "18446744073709551616 1",
    ] {
        root.write("sys/fs/cgroup/a/cpu.max", text);
        assert_eq!(root.limit(), None, "{text:?}");
    }
    root.write("sys/fs/cgroup/a/cpu.max", "70000");
    assert_eq!(root.limit(), tightest(70_000, 100_000, "/sys/fs/cgroup/a"));
    // Lines that no kernel writes.
    root.write("proc/self/mountinfo", "\nx\n - \n1 2 3 - cgroup2\n");
    root.write("proc/self/cgroup", "nonsense\n0:x\n::\n");
    assert_eq!(root.limit(), None);
    fs::write(root.0.join("proc/self/cgroup"), [0xff, 0xfe]).expect("file");
    root.read();
}

#[test]
fn one_line_says_all_of_it() {
    let root = FakeRoot::unified("/a", "/");
    root.write("sys/fs/cgroup/a/cpu.weight", "100\n");
    assert_eq!(root.read().to_string(), "none");
    root.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    let stat = "usage_usec 7\nnr_periods 30\nnr_throttled 12\nthrottled_usec 99\n";
    root.write("sys/fs/cgroup/a/cpu.stat", stat);
    root.write("sys/fs/cgroup/a/cpu.weight", "20\n");
    root.write("sys/fs/cgroup/a/cpu.idle", "1\n");
    let quota = root.read();
    assert_eq!(
        quota.to_string(),
        "1.50 CPUs (150000 of every 100000 us, /sys/fs/cgroup/a), throttled in 12 of 30 periods, weight 20, idle class"
    );
    assert_eq!((quota.weight(), quota.is_idle()), (Some(20), true));
    assert!(quota.throttling().expect("told").throttled_us == 99);
}

#[test]
fn mount_points_with_blanks_are_found() {
    let root = FakeRoot::new();
    root.write("proc/self/cgroup", "0::/x\n");
    root.mount("/", "/my\\040groups", "cgroup2 cgroup2 rw");
    root.write("my groups/x/cpu.max", "10000 100000\n");
    assert_eq!(root.limit(), tightest(10_000, 100_000, "/my groups/x"));
}

#[test]
fn the_mount_that_shows_most_groups_counts_whatever_comes_first() {
    let root = FakeRoot::new();
    root.write("proc/self/cgroup", "0::/a/b\n");
    root.mount("/a/b", "/narrow", "cgroup2 cgroup2 rw");
    root.mount("/", "/wide", "cgroup2 cgroup2 rw");
    root.mount("/a", "/middle", "cgroup2 cgroup2 rw");
    for (name, text) in [
        ("narrow/cpu.max", "max 100000\n"),
        ("middle/b/cpu.max", "max 100000\n"),
        ("wide/a/b/cpu.max", "max 100000\n"),
        ("wide/a/cpu.max", "30000 100000\n"),
    ] {
        root.write(name, text);
    }
    assert_eq!(root.limit(), tightest(30_000, 100_000, "/wide/a"));
}

#[test]
fn names_that_are_not_utf_8_hide_no_quota() {
    // Of another mount, and of a group of another hierarchy.
    let root = FakeRoot::new();
    let write = |name: &str, bytes: &[u8]| {
        root.write(name, "");
        fs::write(root.0.join(name), bytes).expect("file");
    };
    let mounts = b"30 1 0:9 / /m\xe9 rw - tmpfs x rw\n31 1 0:28 / /cg rw - cgroup2 x rw\n";
    write("proc/self/mountinfo", mounts);
    write("proc/self/cgroup", b"5:name=x:/\xe9\n0::/a\n");
    root.write("cg/a/cpu.max", "50000 100000\n");
    assert_eq!(root.limit(), tightest(50_000, 100_000, "/cg/a"));
    // Of the own group.
    write("proc/self/cgroup", b"0::/g\xe9\n");
    let own = root.0.join("cg").join(OsStr::from_bytes(b"g\xe9"));
    fs::create_dir(&own).expect("directory");
    fs::write(own.join("cpu.max"), "20000 100000\n").expect("file");
    let quota = root.read();
    let limit = quota.limit().expect("a limit");
    assert_eq!((limit.quota_us, limit.period_us), (20_000, 100_000));
}

#[test]
fn without_the_table_of_mounts_the_path_is_looked_up_at_the_usual_place() {
    let root = FakeRoot::new();
    root.write("proc/self/cgroup", "4:cpu:/a\n0::/b\n");
    root.write("sys/fs/cgroup/b/cpu.max", "50000 100000\n");
    assert_eq!(root.limit(), tightest(50_000, 100_000, "/sys/fs/cgroup/b"));
    root.write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "20000\n");
    assert_eq!(
        root.limit(),
        tightest(20_000, 100_000, "/sys/fs/cgroup/cpu/a")
    );
    let deep = "/d".repeat(300);
    let root = FakeRoot::unified(&deep, "/");
    root.write(&format!("sys/fs/cgroup{deep}/cpu.max"), "max 100000\n");
    root.write("sys/fs/cgroup/d/cpu.max", "20000 100000\n");
    assert_eq!(root.limit(), tightest(20_000, 100_000, "/sys/fs/cgroup/d"));
}

#[test]
fn this_process_has_a_quota_or_none() {
    let quota = CpuQuota::detect();
    if let Some(limit) = quota.limit() {
        assert!(limit.quota_us > 0 && limit.period_us > 0 && limit.threads() > 0);
        assert!(Path::new(&limit.group).is_dir());
    }
}

#[test]
fn a_thread_in_a_group_of_its_own_has_that_groups_quota() {
    // Threaded: the main thread is in another one.
    let root = FakeRoot::unified("/app/main", "/");
    root.write("sys/fs/cgroup/app/main/cpu.max", "50000 100000\n");
    root.write("sys/fs/cgroup/app/workers/cpu.max", "150000 100000\n");
    root.write("sys/fs/cgroup/app/cpu.max", "max 100000\n");
    let main = tightest(50_000, 100_000, "/sys/fs/cgroup/app/main");
    assert_eq!(root.limit(), main);
    root.write("proc/thread-self/cgroup", "0::/app/workers\n");
    let own = tightest(150_000, 100_000, "/sys/fs/cgroup/app/workers");
    assert_eq!(root.limit(), own);
}

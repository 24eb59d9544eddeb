//! Fake machines: a sysfs tree in a temporary directory.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use cmwq_topology::{Topology, TopologyError};

/// A directory that stands for `/sys`; removed when dropped.
pub(crate) struct FakeSysfs {
    root: PathBuf,
}

/// The levels of the caches that [`FakeSysfs::cache`] writes: an L3 has the index it has on real machines.
pub(crate) const L3: (usize, &str, &str) = (3, "3", "Unified");
pub(crate) const L2: (usize, &str, &str) = (2, "2", "Unified");

impl FakeSysfs {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cmwq-fake-sysfs-{}-{number}", std::process::id());
        // Trees have thousands of files: in memory they take a twentieth of the time.
        let memory = Path::new("/dev/shm");
        let root = match fs::create_dir(memory.join(&name)) {
            Ok(()) => memory.join(&name),
            Err(_) => std::env::temp_dir().join(&name),
        };
        fs::create_dir_all(root.join("devices/system")).expect("temporary directory");
        Self { root }
    }

    /// A tree whose `online` file holds `list`.
    pub(crate) fn online(list: &str) -> Self {
        let tree = Self::new();
        tree.write("cpu/online", list);
        tree
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where `devices/system/NAME` is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join("devices/system").join(name)
    }

    /// Writes `devices/system/NAME`, with the newline that the kernel puts behind everything.
    pub(crate) fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, format!("{text}\n").as_bytes());
    }

    pub(crate) fn write_bytes(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
        fs::write(path, bytes).expect("file");
    }

    pub(crate) fn siblings(&self, cpu: usize, list: &str) {
        self.write(&format!("cpu/cpu{cpu}/topology/thread_siblings_list"), list);
    }

    pub(crate) fn cache(&self, cpu: usize, (index, level, kind): (usize, &str, &str), list: &str) {
        let dir = format!("cpu/cpu{cpu}/cache/index{index}");
        self.write(&format!("{dir}/level"), level);
        self.write(&format!("{dir}/type"), kind);
        self.write(&format!("{dir}/shared_cpu_list"), list);
    }

    /// The first-level caches and the second-level one that every core of a real machine has.
    pub(crate) fn core_caches(&self, cpu: usize, siblings: &str) {
        self.cache(cpu, (0, "1", "Data"), siblings);
        self.cache(cpu, (1, "1", "Instruction"), siblings);
        self.cache(cpu, L2, siblings);
    }

    pub(crate) fn node(&self, number: u32, list: &str) {
        self.write(&format!("node/node{number}/cpulist"), list);
    }

    pub(crate) fn read(&self) -> Result<Topology, TopologyError> {
        Topology::from_sysfs(&self.root)
    }

    pub(crate) fn topology(&self) -> Topology {
        self.read().unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for FakeSysfs {
    fn drop(&mut self) {
        // A left-over directory is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Sets in list form.
pub(crate) fn lists<'a>(sets: impl IntoIterator<Item = &'a cmwq_topology::CpuSet>) -> Vec<String> {
    sets.into_iter().map(ToString::to_string).collect()
}

//! Reads a machine from a sysfs tree. A missing file has a fallback, and so has one that exists but
//! cannot be read or understood; `Topology::faults` names those.

mod files;
pub(crate) use files::bytes_of;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use self::files::{Files, Form};
use crate::allowed::process_cpus;
use crate::assumed::Assumption;
use crate::caches::assumed_caches;
use crate::cpuset::CpuSet;
use crate::error::{TopologyError, shown};
use crate::machine::{REAL_SYSFS, Topology};
use crate::partition::partition;

/// Higher cache levels are not plausible.
const MAX_CACHE_LEVEL: u32 = 16;

/// The node of every CPU where the tree has no nodes.
const ONLY_NODE: u32 = 0;

const NO_SET: &CpuSet = &CpuSet::new();

impl Topology {
    /// Reads the machine described by the sysfs tree at `root`, which stands for `/sys`: it holds
    /// `devices/system/cpu` and `devices/system/node`.
    ///
    /// Parts that may be missing, and the assumption then ([`Topology::assumed`]): `online`
    /// (`present`, or else `possible`, or else the `cpuN` directories, without the CPUs whose own
    /// `cpuN/online` says 0); the sibling lists (every CPU is a core of its own); the caches of a
    /// CPU (it shares the LLC of its SMT siblings, or of a CPU whose list names it; those that are
    /// left share one in a package, or else in a node, or else in a core); the nodes, or their CPUs
    /// (one node, 0); `physical_package_id` (unknown). The LLC of a CPU is its cache of the highest
    /// level that holds data, which may be an L2; it is cut at nodes ([`Topology::llcs`]). A
    /// cache's list that leaves out its own CPU counts as missing, and so does an empty list of
    /// siblings. Where lists contradict each other, two CPUs share only what both lists say they
    /// share. Trailing blanks and NULs of a value are ignored. A file that cannot be read or
    /// understood counts as missing ([`Topology::faults`]).
    ///
    /// Kinds of cores ([`Topology::core_kinds`]) come from `devices/cpu_core/cpus` and the like on
    /// x86, where CPUs that none of these lists are another kind, the fastest if `cpu_core` is
    /// missing; or from each CPU's `cpu_capacity`. Implausible values there mean one kind. Dies and
    /// clusters are not read: no scope is cut by them.
    ///
    /// With `/sys` itself, [`Topology::allowed`] is the affinity mask of the process cut to the
    /// online CPUs. A CPU in that mask counts as online whatever a container's view of `/sys` says,
    /// also without `/sys`. Any other root is an injected topology.
    ///
    /// # Errors
    /// [`TopologyError::Root`] when `root` is no readable directory, [`TopologyError::NoCpus`] when
    /// no file below it tells which CPUs are online, or [`TopologyError::Read`] or
    /// [`TopologyError::Parse`] for the first file at fault if there is one.
    pub fn from_sysfs(root: &Path) -> Result<Self, TopologyError> {
        let injected = root != Path::new(REAL_SYSFS);
        // A container may have no `/sys`: the affinity mask still gives CPUs.
        if injected {
            check_root(root)?;
        }
        let mut tree = Tree {
            cpu_dir: root.join("devices/system/cpu"),
            node_dir: root.join("devices/system/node"),
            files: Files::default(),
            assumed: Vec::new(),
        };
        let mut online = tree.online();
        let allowed = if injected {
            online.clone()
        } else {
            let allowed = process_cpus()?;
            online = online.union(&allowed);
            allowed
        };
        if online.is_empty() {
            let path = tree.cpu_dir.join("online");
            let fault = tree.files.into_faults()?.into_iter().next();
            return Err(fault.unwrap_or(TopologyError::NoCpus { path }));
        }
        let possible = tree.files.set(&tree.cpu_dir.join("possible"), Form::List);
        let possible = possible.unwrap_or_else(|| tree.cpu_directories());
        let cores = tree.cores(&online);
        let nodes = tree.nodes(&online);
        let packages = tree.packages(&online);
        let kinds = tree.kinds(root, &online);
        let llcs = tree.llcs(&online, &cores, &packages, &nodes);
        let faults = tree.files.into_faults()?;
        let machine = Topology {
            injected,
            possible,
            online,
            allowed,
            places: Vec::new(),
            cores,
            llcs,
            nodes,
            kinds,
            assumed: tree.assumed,
            faults: faults.iter().map(ToString::to_string).collect(),
        };
        Ok(machine.assembled(packages))
    }
}

fn check_root(root: &Path) -> Result<(), TopologyError> {
    match fs::read_dir(root) {
        Ok(_) => Ok(()),
        Err(error) => Err(TopologyError::Root {
            path: root.into(),
            error,
        }),
    }
}

struct Tree {
    cpu_dir: PathBuf,
    node_dir: PathBuf,
    files: Files,
    /// What the tree does not tell.
    assumed: Vec<Assumption>,
}

impl Tree {
    /// The CPUs that are online, as far as the tree tells; empty when it does not.
    fn online(&mut self) -> CpuSet {
        // Some CPU is online: an empty list tells nothing.
        let mut told = |name| {
            let set = self.files.set(&self.cpu_dir.join(name), Form::List);
            set.filter(|set| !set.is_empty())
        };
        if let Some(online) = told("online") {
            return online;
        }
        let cpus = told("present").or_else(|| told("possible"));
        self.assumed.push(Assumption::Online);
        let directories = self.cpu_directories();
        let mut cpus = cpus.unwrap_or_else(|| directories.clone());
        for cpu in &directories {
            if self.is_switched_off(cpu) {
                cpus.remove(cpu);
            }
        }
        cpus
    }

    /// Reads the CPU's own file, which exists for CPUs that can be switched off.
    fn is_switched_off(&mut self, cpu: usize) -> bool {
        let path = self.of_cpu(cpu, "online");
        let off = self.files.value(&path, |text| match text {
            "1" => Ok(false),
            "0" => Ok(true),
            other => Err(format!("{} is not 0 or 1", shown(other))),
        });
        off == Some(true)
    }

    fn cpu_directories(&mut self) -> CpuSet {
        let mut cpus = CpuSet::new();
        for (number, path) in self.files.directories(&self.cpu_dir, "cpu") {
            if let Err(error) = cpus.try_insert(number) {
                self.files.parse_fault(path, error.to_string());
            }
        }
        cpus
    }

    fn cores(&mut self, online: &CpuSet) -> Vec<CpuSet> {
        // The first two are names of the same list, the older first; older kernels have masks.
        const FILES: [(&str, Form); 4] = [
            ("thread_siblings_list", Form::List),
            ("core_cpus_list", Form::List),
            ("thread_siblings", Form::Mask),
            ("core_cpus", Form::Mask),
        ];
        let mut siblings = HashMap::new();
        for cpu in online {
            let dir = self.of_cpu(cpu, "topology");
            let told = |set: &CpuSet| !set.is_empty();
            if let Some(set) = self.files.first_set(&dir, &FILES, told) {
                siblings.insert(cpu, set);
            }
        }
        if siblings.is_empty() && online.len() > 1 {
            self.assumed.push(Assumption::Cores);
        }
        partition(online, |cpu| siblings.get(&cpu).unwrap_or(NO_SET))
    }

    /// A CPU without cache data joins the LLC of its siblings, else that of a CPU which shares its
    /// cache with it; what is left is guessed.
    fn llcs(
        &mut self,
        online: &CpuSet,
        cores: &[CpuSet],
        packages: &[(u32, CpuSet)],
        nodes: &[(u32, CpuSet)],
    ) -> Vec<CpuSet> {
        let read = online
            .iter()
            .filter_map(|cpu| Some((cpu, self.llc_of(cpu)?)));
        let told: BTreeMap<usize, CpuSet> = read.collect();
        let (mut shared, mut unknown) = (told.clone(), CpuSet::new());
        for core in cores {
            let of_sibling = core.iter().find_map(|cpu| told.get(&cpu));
            let known = of_sibling.or_else(|| told.values().find(|set| set.intersects(core)));
            let Some(known) = known else {
                unknown = unknown.union(core);
                continue;
            };
            for cpu in core {
                shared.entry(cpu).or_insert_with(|| known.union(core));
            }
        }
        let assumed = assumed_caches(&unknown, cores, packages, nodes);
        self.assumed.extend(assumed.as_assumption(told.is_empty()));
        for llc in assumed.llcs {
            shared.extend(llc.iter().map(|cpu| (cpu, llc.clone())));
        }
        partition(online, |cpu| shared.get(&cpu).unwrap_or(NO_SET))
    }

    /// The CPUs that share the highest data cache of `cpu`; `None` without cache data.
    fn llc_of(&mut self, cpu: usize) -> Option<CpuSet> {
        const FILES: [(&str, Form); 2] = [
            ("shared_cpu_list", Form::List),
            ("shared_cpu_map", Form::Mask),
        ];
        let mut best: Option<(u32, CpuSet)> = None;
        let caches = self.files.directories(&self.of_cpu(cpu, "cache"), "index");
        // The highest cache mostly comes last. What is below it need not be read further.
        for (_, index) in caches.into_iter().rev() {
            let Some(level) = self.cache_level(&index) else {
                continue;
            };
            // Of two caches of one level, the one that comes first counts.
            let is_lower = best.as_ref().is_some_and(|(highest, _)| *highest > level);
            if is_lower || !self.holds_data(&index) {
                continue;
            }
            // Some firmware leaves the set of a cache empty.
            let without_it = Cell::new(false);
            let set = self.files.first_set(&index, &FILES, |set| {
                without_it.set(!set.contains(cpu));
                set.contains(cpu)
            });
            match set {
                Some(set) => best = Some((level, set)),
                None if without_it.get() => {
                    let path = index.join("shared_cpu_list");
                    self.files
                        .parse_fault(path, format!("CPU {cpu} is not in it"));
                }
                None => {}
            }
        }
        best.map(|(_, set)| set)
    }

    fn nodes(&mut self, online: &CpuSet) -> Vec<(u32, CpuSet)> {
        const FILES: [(&str, Form); 2] = [("cpulist", Form::List), ("cpumap", Form::Mask)];
        let mut nodes = Vec::new();
        for (number, dir) in self.files.directories(&self.node_dir, "node") {
            let Ok(number) = u32::try_from(number) else {
                let reason = format!("node numbers run from 0 to {}", u32::MAX);
                self.files.parse_fault(dir, reason);
                continue;
            };
            if let Some(set) = self.files.first_set(&dir, &FILES, |_| true) {
                nodes.push((number, set));
            }
        }
        if !nodes.iter().any(|(_, cpus)| cpus.intersects(online)) {
            nodes = vec![(ONLY_NODE, online.clone())];
            if online.len() > 1 {
                self.assumed.push(Assumption::Nodes);
            }
        }
        nodes
    }

    fn packages(&mut self, online: &CpuSet) -> Vec<(u32, CpuSet)> {
        let mut packages: HashMap<u32, CpuSet> = HashMap::new();
        for cpu in online {
            let path = self.of_cpu(cpu, "topology").join("physical_package_id");
            let id = self.files.value(&path, |text| {
                let id = text.trim_start().parse::<i64>();
                id.map_err(|_| format!("{} is not a package number", shown(text)))
            });
            // A negative number (-1) means unknown.
            if let Some(id) = id.and_then(|id| u32::try_from(id).ok()) {
                packages.entry(id).or_default().insert(cpu);
            }
        }
        packages.into_iter().collect()
    }

    /// The CPUs of each kind of core, the fastest first; none if there is only one kind, or no file tells.
    fn kinds(&mut self, root: &Path, online: &CpuSet) -> Vec<CpuSet> {
        // The names of the event sources of x86's kinds.
        let by_name = ["cpu_core", "cpu_atom", "cpu_lowpower"].map(|name| {
            let path = root.join("devices").join(name).join("cpus");
            self.files.set(&path, Form::List)
        });
        let fastest_is_named = by_name[0].is_some();
        let mut left = online.clone();
        let mut kinds = Vec::new();
        for kind in by_name.into_iter().flatten() {
            let kind = kind.intersection(&left);
            left = left.difference(&kind);
            kinds.push(kind);
        }
        if kinds.iter().all(CpuSet::is_empty) {
            kinds = by_capacity(left.iter().map(|cpu| (cpu, self.capacity_of(cpu))));
        } else {
            // CPUs that no file lists are one more kind. Where the fastest has no file, they are
            // taken for it.
            let at = if fastest_is_named { kinds.len() } else { 0 };
            kinds.insert(at, left);
        }
        kinds.retain(|kind| !kind.is_empty());
        if kinds.len() < 2 { Vec::new() } else { kinds }
    }

    /// The capacity of the CPU, of 1024.
    fn capacity_of(&mut self, cpu: usize) -> Option<u32> {
        let path = self.of_cpu(cpu, "cpu_capacity");
        self.files.value(&path, |text| {
            let capacity = text.trim_start().parse();
            capacity.map_err(|_| format!("{} is not a capacity", shown(text)))
        })
    }

    /// The level of the cache described in `index`; `None`: it is not known.
    fn cache_level(&mut self, index: &Path) -> Option<u32> {
        self.files.value(&index.join("level"), |text| {
            let level = text.trim_start().parse::<u32>().ok();
            level
                .filter(|&level| level <= MAX_CACHE_LEVEL)
                .ok_or_else(|| {
                    let shown = shown(text);
                    format!("{shown} is not a cache level from 0 to {MAX_CACHE_LEVEL}")
                })
        })
    }

    /// Whether the cache described in `index` is known to hold data.
    fn holds_data(&mut self, index: &Path) -> bool {
        let data = self
            .files
            .value(&index.join("type"), |text| match text.trim_start() {
                "Data" | "Unified" => Ok(true),
                "Instruction" => Ok(false),
                other => Err(format!(
                    "{} is not Data, Instruction or Unified",
                    shown(other)
                )),
            });
        data == Some(true)
    }

    fn of_cpu(&self, cpu: usize, name: &str) -> PathBuf {
        self.cpu_dir.join(format!("cpu{cpu}")).join(name)
    }
}

/// Groups CPUs of about the same capacity into kinds, the fastest first. CPUs without a capacity
/// are of the fastest kind.
fn by_capacity(cpus: impl Iterator<Item = (usize, Option<u32>)>) -> Vec<CpuSet> {
    let mut cpus: Vec<(u32, usize)> = cpus
        .map(|(cpu, capacity)| (capacity.unwrap_or(u32::MAX), cpu))
        .collect();
    cpus.sort_by_key(|&(capacity, cpu)| (std::cmp::Reverse(capacity), cpu));
    // Cores of one kind may differ a little in clock rate.
    let alike = |highest: u32, capacity: u32| capacity >= highest - highest / 8;
    let mut kinds: Vec<(u32, CpuSet)> = Vec::new();
    for (capacity, cpu) in cpus {
        match kinds.last_mut() {
            Some((highest, kind)) if *highest == u32::MAX || alike(*highest, capacity) => {
                if *highest == u32::MAX {
                    // CPUs without a capacity join the fastest that have one.
                    *highest = capacity;
                }
                kind.insert(cpu);
            }
            _ => kinds.push((capacity, CpuSet::from_iter([cpu]))),
        }
    }
    kinds.into_iter().map(|(_, kind)| kind).collect()
}

//! Reads a machine from a sysfs tree. A missing file has a fallback; a file that exists but cannot be read or understood is an error that
//! names it.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::allowed::process_cpus;
use super::assumed::{Assumption, Substitute};
use super::cpuset::CpuSet;
use super::cpuset_error::MAX_CPUS;
use super::error::{TopologyError, shown};
use super::machine::{Parts, REAL_SYSFS, Topology, disjoint};
use super::partition::partition;

/// Upper bound of the files read here: a list of every second CPU below `MAX_CPUS` takes 20 KiB.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Higher cache levels are not plausible.
const MAX_CACHE_LEVEL: u32 = 16;

/// The node of every CPU where the tree has no nodes.
const ONLY_NODE: u32 = 0;

const NO_SET: &CpuSet = &CpuSet::new();

impl Topology {
    /// Reads the machine described by the sysfs tree at `root`, which stands for `/sys`: it holds
    /// `devices/system/cpu` and `devices/system/node`.
    ///
    /// Parts that may be missing, and the assumption then ([`Topology::assumed`]): `online` (`present`, or else `possible`, or else the
    /// `cpuN` directories, without the CPUs whose own `cpuN/online` says 0); the sibling lists (every CPU is a core of its own); the caches
    /// of all CPUs (a package is a cache, or else a node is), or of one CPU (it shares the LLC of its SMT siblings, and nothing more); the
    /// nodes (one node, 0); `physical_package_id` (unknown). The LLC of a CPU is its cache of the highest level that holds data, which may
    /// be an L2. Where lists contradict each other, two CPUs share only what both lists say they share. Trailing blanks and NULs of a value
    /// are ignored.
    ///
    /// Kinds of cores ([`Topology::core_kinds`]) come from `devices/cpu_core/cpus` and the like on x86, or from each CPU's `cpu_capacity`;
    /// implausible values there mean one kind. Dies and clusters are not read: no scope is cut by them.
    ///
    /// With `/sys` itself, [`Topology::allowed`] is the affinity mask of the process cut to the online CPUs. A CPU in that mask counts as
    /// online whatever a container's view of `/sys` says, also without `/sys`. Any other root is an injected topology.
    ///
    /// # Errors
    /// [`TopologyError::Root`] when `root` is no readable directory, [`TopologyError::NoCpus`] when no file below it tells which CPUs are
    /// online, [`TopologyError::Read`] and [`TopologyError::Parse`] for a file at fault.
    pub fn from_sysfs(root: &Path) -> Result<Self, TopologyError> {
        let injected = root != Path::new(REAL_SYSFS);
        // A container may have no `/sys`: the affinity mask still gives CPUs.
        if injected {
            check_root(root)?;
        }
        let mut tree = Tree {
            cpu_dir: root.join("devices/system/cpu"),
            node_dir: root.join("devices/system/node"),
            sets: HashMap::new(),
            assumed: Vec::new(),
        };
        let mut online = tree.online()?;
        let allowed = if injected {
            online.clone()
        } else {
            let allowed = process_cpus()?;
            online = online.union(&allowed);
            allowed
        };
        if online.is_empty() {
            return Err(TopologyError::NoCpus {
                path: tree.cpu_dir.join("online"),
            });
        }
        let possible = match tree.set(&tree.cpu_dir.join("possible"), Form::List)? {
            Some(possible) => possible,
            None => tree.cpu_directories()?,
        };
        let cores = tree.cores(&online)?;
        let nodes = tree.nodes(&online)?;
        let packages = tree.packages(&online)?;
        let kinds = tree.kinds(root, &online);
        let llcs = match tree.llcs(&online, &cores)? {
            Some(llcs) => llcs,
            None => tree.in_place_of_caches(&online, &cores, &packages, &nodes),
        };
        Ok(Self::assemble(Parts {
            injected,
            possible,
            online,
            allowed,
            cores,
            llcs,
            nodes,
            packages,
            kinds,
            assumed: tree.assumed,
        }))
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

/// The format of a set of CPUs in a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    List,
    Mask,
}

struct Tree {
    cpu_dir: PathBuf,
    node_dir: PathBuf,
    /// Parsed sets by their text: most CPUs of a machine share theirs with other CPUs, and long lists are slow to parse.
    sets: HashMap<(Form, String), CpuSet>,
    /// What the tree does not tell.
    assumed: Vec<Assumption>,
}

impl Tree {
    /// The CPUs that are online, as far as the tree tells; empty when it does not.
    fn online(&mut self) -> Result<CpuSet, TopologyError> {
        if let Some(online) = self.set(&self.cpu_dir.join("online"), Form::List)? {
            return Ok(online);
        }
        self.assumed.push(Assumption::Online);
        let mut cpus = None;
        for name in ["present", "possible"] {
            if cpus.is_none() {
                cpus = self.set(&self.cpu_dir.join(name), Form::List)?;
            }
        }
        let directories = self.cpu_directories()?;
        let mut cpus = cpus.unwrap_or_else(|| directories.clone());
        for cpu in &directories {
            if self.is_switched_off(cpu)? {
                cpus.remove(cpu);
            }
        }
        Ok(cpus)
    }

    /// Reads the CPU's own file, which exists for CPUs that can be switched off.
    fn is_switched_off(&self, cpu: usize) -> Result<bool, TopologyError> {
        let path = self.of_cpu(cpu, "online");
        match read(&path)?.as_deref() {
            None | Some("1") => Ok(false),
            Some("0") => Ok(true),
            Some(other) => Err(TopologyError::Parse {
                reason: format!("{} is not 0 or 1", shown(other)),
                path,
            }),
        }
    }

    fn cpu_directories(&self) -> Result<CpuSet, TopologyError> {
        let mut cpus = CpuSet::new();
        for (number, path) in numbered_directories(&self.cpu_dir, "cpu")? {
            cpus.try_insert(number)
                .map_err(|error| TopologyError::Parse {
                    path,
                    reason: error.to_string(),
                })?;
        }
        Ok(cpus)
    }

    fn cores(&mut self, online: &CpuSet) -> Result<Vec<CpuSet>, TopologyError> {
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
            if let Some(set) = self.first_set(&dir, &FILES)? {
                siblings.insert(cpu, set);
            }
        }
        if siblings.is_empty() && online.len() > 1 {
            self.assumed.push(Assumption::Cores);
        }
        Ok(partition(online, |cpu| {
            siblings.get(&cpu).unwrap_or(NO_SET)
        }))
    }

    /// `None`: no CPU has cache data.
    fn llcs(
        &mut self,
        online: &CpuSet,
        cores: &[CpuSet],
    ) -> Result<Option<Vec<CpuSet>>, TopologyError> {
        let mut shared = HashMap::new();
        for cpu in online {
            if let Some(set) = self.llc_of(cpu)? {
                shared.insert(cpu, set);
            }
        }
        if shared.is_empty() {
            return Ok(None);
        }
        // A CPU without cache data joins the LLC of its siblings; without one, the core is its own LLC.
        for core in cores {
            let known = core.iter().find_map(|cpu| shared.get(&cpu));
            let assumed = known.map_or_else(|| core.clone(), |set| set.union(core));
            for cpu in core {
                shared.entry(cpu).or_insert_with(|| assumed.clone());
            }
        }
        let shares = |cpu| shared.get(&cpu).unwrap_or(NO_SET);
        Ok(Some(partition(online, shares)))
    }

    /// The substitute for LLCs where no CPU has cache data (a masked tree, some virtual machines and boards): the packages; for CPUs
    /// without a known package the nodes, and else the cores.
    fn in_place_of_caches(
        &mut self,
        online: &CpuSet,
        cores: &[CpuSet],
        packages: &[(u32, CpuSet)],
        nodes: &[(u32, CpuSet)],
    ) -> Vec<CpuSet> {
        let numbered = |groups: &[(u32, CpuSet)]| disjoint(groups.to_vec(), online);
        let packages = numbered(packages).into_iter();
        let nodes = numbered(nodes).into_iter();
        let cores = cores.iter().map(|core| (Substitute::Core, core.clone()));
        let candidates = packages
            .map(|(_, cpus)| (Substitute::Package, cpus))
            .chain(nodes.map(|(_, cpus)| (Substitute::Node, cpus)))
            .chain(cores);
        let (mut left, mut llcs, mut widest) = (online.clone(), Vec::new(), None);
        for (substitute, cpus) in candidates {
            let cpus = cpus.intersection(&left);
            if !cpus.is_empty() {
                left = left.difference(&cpus);
                widest.get_or_insert(substitute);
                llcs.push(cpus);
            }
        }
        if let (Some(substitute), true) = (widest, online.len() > 1) {
            self.assumed.push(Assumption::Caches(substitute));
        }
        llcs
    }

    /// The CPUs that share the highest data cache of `cpu`; `None` without cache data.
    fn llc_of(&mut self, cpu: usize) -> Result<Option<CpuSet>, TopologyError> {
        const FILES: [(&str, Form); 2] = [
            ("shared_cpu_list", Form::List),
            ("shared_cpu_map", Form::Mask),
        ];
        let mut best: Option<(u32, CpuSet)> = None;
        for (_, index) in numbered_directories(&self.of_cpu(cpu, "cache"), "index")? {
            let Some(level) = data_cache_level(&index)? else {
                continue;
            };
            if best.as_ref().is_some_and(|(highest, _)| *highest >= level) {
                continue;
            }
            if let Some(set) = self.first_set(&index, &FILES)? {
                best = Some((level, set));
            }
        }
        Ok(best.map(|(_, set)| set))
    }

    fn nodes(&mut self, online: &CpuSet) -> Result<Vec<(u32, CpuSet)>, TopologyError> {
        const FILES: [(&str, Form); 2] = [("cpulist", Form::List), ("cpumap", Form::Mask)];
        let mut nodes = Vec::new();
        for (number, dir) in numbered_directories(&self.node_dir, "node")? {
            let number = u32::try_from(number).map_err(|_| TopologyError::Parse {
                path: dir.clone(),
                reason: format!("node numbers run from 0 to {}", u32::MAX),
            })?;
            if let Some(set) = self.first_set(&dir, &FILES)? {
                nodes.push((number, set));
            }
        }
        if nodes.is_empty() {
            nodes.push((ONLY_NODE, online.clone()));
            if online.len() > 1 {
                self.assumed.push(Assumption::Nodes);
            }
        }
        Ok(nodes)
    }

    fn packages(&self, online: &CpuSet) -> Result<Vec<(u32, CpuSet)>, TopologyError> {
        let mut packages: HashMap<u32, CpuSet> = HashMap::new();
        for cpu in online {
            let path = self.of_cpu(cpu, "topology").join("physical_package_id");
            let Some(text) = read(&path)? else { continue };
            let id: i64 = text
                .trim_start()
                .parse()
                .map_err(|_| TopologyError::Parse {
                    path: path.clone(),
                    reason: format!("{} is not a package number", shown(&text)),
                })?;
            // A negative number (-1) means unknown.
            if let Ok(id) = u32::try_from(id) {
                packages.entry(id).or_default().insert(cpu);
            }
        }
        Ok(packages.into_iter().collect())
    }

    /// The CPUs of each kind of core, the fastest first; none if there is only one kind, or no file tells.
    fn kinds(&mut self, root: &Path, online: &CpuSet) -> Vec<CpuSet> {
        // The names of the event sources of x86's kinds.
        let by_name = ["cpu_core", "cpu_atom", "cpu_lowpower"].map(|name| {
            let path = root.join("devices").join(name).join("cpus");
            self.set(&path, Form::List).ok().flatten()
        });
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
            kinds.push(left);
        }
        kinds.retain(|kind| !kind.is_empty());
        if kinds.len() < 2 { Vec::new() } else { kinds }
    }

    /// The capacity of the CPU, of 1024.
    fn capacity_of(&self, cpu: usize) -> Option<u32> {
        let text = read(&self.of_cpu(cpu, "cpu_capacity")).ok().flatten()?;
        text.trim_start().parse().ok()
    }

    fn of_cpu(&self, cpu: usize, name: &str) -> PathBuf {
        self.cpu_dir.join(format!("cpu{cpu}")).join(name)
    }

    /// The set in the first of `files` that exists.
    fn first_set(
        &mut self,
        dir: &Path,
        files: &[(&str, Form)],
    ) -> Result<Option<CpuSet>, TopologyError> {
        for (name, form) in files {
            if let Some(set) = self.set(&dir.join(name), *form)? {
                return Ok(Some(set));
            }
        }
        Ok(None)
    }

    fn set(&mut self, path: &Path, form: Form) -> Result<Option<CpuSet>, TopologyError> {
        let Some(text) = read(path)? else {
            return Ok(None);
        };
        let key = (form, text);
        if let Some(set) = self.sets.get(&key) {
            return Ok(Some(set.clone()));
        }
        let parsed = match form {
            Form::List => CpuSet::parse_list(&key.1),
            Form::Mask => CpuSet::parse_mask(&key.1),
        };
        let set = parsed.map_err(|error| TopologyError::Parse {
            path: path.into(),
            reason: error.to_string(),
        })?;
        self.sets.insert(key, set.clone());
        Ok(Some(set))
    }
}

/// Groups CPUs of about the same capacity into kinds, the fastest first. CPUs without a capacity are of the fastest kind.
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

/// The level of the cache described in `index`, if it holds data. `None` too if the level or the type is missing.
fn data_cache_level(index: &Path) -> Result<Option<u32>, TopologyError> {
    let (level_file, type_file) = (index.join("level"), index.join("type"));
    let (Some(level), Some(kind)) = (read(&level_file)?, read(&type_file)?) else {
        return Ok(None);
    };
    let level = match level.trim_start().parse::<u32>() {
        Ok(level) if level <= MAX_CACHE_LEVEL => level,
        _ => {
            return Err(TopologyError::Parse {
                path: level_file,
                reason: format!(
                    "{} is not a cache level from 0 to {MAX_CACHE_LEVEL}",
                    shown(&level)
                ),
            });
        }
    };
    match kind.trim_start() {
        "Data" | "Unified" => Ok(Some(level)),
        "Instruction" => Ok(None),
        other => Err(TopologyError::Parse {
            path: type_file,
            reason: format!("{} is not Data, Instruction or Unified", shown(other)),
        }),
    }
}

/// The entries `prefixN` of a directory, ascending by `N`; none when the directory is missing.
fn numbered_directories(dir: &Path, prefix: &str) -> Result<Vec<(usize, PathBuf)>, TopologyError> {
    let error = |error| TopologyError::Read {
        path: dir.into(),
        error,
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(other) => return Err(error(other)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(error)?;
        let name = entry.file_name();
        let Some(digits) = name.to_str().and_then(|name| name.strip_prefix(prefix)) else {
            continue;
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        // All are digits: a number that does not fit is larger than any limit.
        found.push((digits.parse().unwrap_or(usize::MAX), entry.path()));
    }
    found.sort();
    found.truncate(MAX_CPUS + 1);
    Ok(found)
}

/// The text of a file, without a trailing newline, or blanks or NULs of some kernels and copies of trees. `None` when the file is missing.
fn read(path: &Path) -> Result<Option<String>, TopologyError> {
    let error = |error| TopologyError::Read {
        path: path.into(),
        error,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(other) => return Err(error(other)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(error)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(TopologyError::Parse {
            path: path.into(),
            reason: format!("it is longer than {MAX_FILE_BYTES} bytes"),
        });
    }
    let behind = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    let length = bytes.iter().rposition(|byte| !behind(byte));
    bytes.truncate(length.map_or(0, |last| last + 1));
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| TopologyError::Parse {
            path: path.into(),
            reason: "it is not text".into(),
        })
}

//! A machine as boxes in boxes: packages, nodes, last-level caches, cache shards, and cores by their CPUs.

use cmwq::affinity::AffinityScope;
use cmwq::topology::{CpuQuota, CpuSet, Topology};
use cmwq::types::CpuLimit;

use super::View;
use super::boxes::{FRAME_COLUMNS, Lines, flow, frame, wrap};

/// Machines up to this size are drawn in full; of larger ones, alike parts in a row are drawn once.
const FULL_MAX_CPUS: usize = 64;
/// On a large machine, this many alike shards of a cache are still drawn one by one.
const ALIKE_SHARDS_MAX: usize = 12;
/// Cores are set in lines of about this width, so that boxes are not all wide and low.
const CORES_COLUMNS: usize = 36;

/// The drawing, with a line about the whole in front and the meaning of its marks behind.
pub(super) fn draw(view: &View, columns: usize) -> String {
    let artist = Artist {
        view,
        compact: !view.full && view.topology.cpus().len() > FULL_MAX_CPUS,
    };
    let mut lines = wrap(&artist.summary(), columns);
    lines.extend(artist.quota(columns));
    lines.extend(artist.assumed(columns));
    lines.push(String::new());
    lines.extend(artist.packages(columns));
    lines.extend(artist.legend(columns));
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

struct Artist<'a> {
    view: &'a View,
    compact: bool,
}

/// A part of the machine that is drawn as a box, and what makes it alike to another.
struct Part {
    /// `LLC`, `shard` …
    kind: &'static str,
    number: Option<usize>,
    /// Said in the title behind kind and number.
    more: String,
    cpus: CpuSet,
    /// Equal for parts that look the same but for their numbers.
    shape: String,
}

impl Part {
    fn new<N: TryInto<usize>>(
        kind: &'static str,
        number: Option<N>,
        more: String,
        cpus: CpuSet,
        shape: String,
    ) -> Self {
        Part {
            kind,
            number: number.and_then(|number| number.try_into().ok()),
            more,
            cpus,
            shape,
        }
    }

    fn name(&self) -> String {
        match self.number {
            Some(number) => format!("{} {number}", self.kind),
            None => self.kind.into(),
        }
    }
}

impl Artist<'_> {
    fn topology(&self) -> &Topology {
        &self.view.topology
    }

    fn summary(&self) -> Vec<String> {
        let topology = self.topology();
        let shards = self.view.pods(AffinityScope::CacheShard).pods().len();
        let packages = split(topology.cpus(), |cpu| topology.package_of(cpu)).len();
        let of = if topology.is_injected() {
            "Described machine:"
        } else {
            "This machine:"
        };
        let text = [
            of.to_string(),
            format!("{},", count(topology.cpus().len(), "CPU")),
            format!("{},", count(topology.cores().len(), "core")),
            format!("{},", count(topology.llcs().len(), "last-level cache")),
            format!("{},", count(topology.nodes().len(), "NUMA node")),
            format!("{};", count(packages, "package")),
            format!(
                "{} of about {}",
                count(shards, "cache shard"),
                count(self.view.shard_size, "core")
            ),
        ]
        .join(" ");
        text.split(' ').map(String::from).collect()
    }

    /// The CPU quota of this process, and its group's weight; nothing if it has no quota and the
    /// usual weight.
    fn quota(&self, columns: usize) -> Lines {
        let Some(quota) = &self.view.quota else {
            return Lines::new();
        };
        let shown = quota.to_string();
        let text = match quota.limit() {
            None if shown == CpuQuota::default().to_string() => return Lines::new(),
            None => format!("CPU quota: {shown}"),
            Some(limit) => {
                let (threads, cpus) = (limit.threads() as usize, self.topology().allowed().len());
                let effect = match threads {
                    _ if self.view.limit != CpuLimit::Auto => {
                        format!("not followed, as CMWQ_CPU_LIMIT is {}", self.view.limit)
                    }
                    _ if limit.cpus() >= cpus as f64 => "not below the CPUs".to_owned(),
                    _ if threads >= cpus => "workers pause before it is used up".to_owned(),
                    1 => "at most 1 worker runs at once".to_owned(),
                    _ => format!("at most {threads} workers run at once"),
                };
                format!("CPU quota: {shown}: {effect}")
            }
        };
        let words: Vec<String> = text.split(' ').map(String::from).collect();
        wrap(&words, columns)
    }

    /// What the description did not tell, or not in a way that can be understood; nothing if it told all.
    fn assumed(&self, columns: usize) -> Lines {
        let assumed = self.topology().assumed().iter();
        let assumed: Vec<String> = assumed.map(ToString::to_string).collect();
        let mut lines = Lines::new();
        let mut say = |text: String| {
            let words: Vec<String> = text.split(' ').map(String::from).collect();
            lines.extend(wrap(&words, columns));
        };
        if !assumed.is_empty() {
            say(format!("Assumed: {}", assumed.join("; ")));
        }
        for fault in self.topology().faults() {
            say(format!("Taken as missing: {fault}"));
        }
        lines
    }

    fn legend(&self, columns: usize) -> Lines {
        let topology = self.topology();
        let wrapped = |text: &str| {
            let words: Vec<String> = text.split(' ').map(String::from).collect();
            wrap(&words, columns)
        };
        let mut lines = wrapped("Inside the boxes: each core, by the CPUs it consists of");
        let mut say = |cpus: &CpuSet, what: &str| {
            if !cpus.is_empty() {
                lines.extend(wrapped(&format!("{what} {cpus}")));
            }
        };
        say(
            &topology.online().difference(topology.allowed()),
            "In parentheses: not allowed to this process, CPUs",
        );
        say(
            &topology.possible().difference(topology.online()),
            "Not online, and so in no pod: CPUs",
        );
        lines
    }

    fn packages(&self, columns: usize) -> Lines {
        let parts = split(self.topology().cpus(), |cpu| {
            self.topology().package_of(cpu)
        })
        .into_iter()
        .map(|(number, cpus)| {
            let nodes = self.nodes(&cpus);
            let kind = if number.is_some() {
                "package"
            } else {
                "machine"
            };
            let more = match nodes.as_slice() {
                // A package's only node is said in its title.
                [node] => format!(" · {}", node.name()),
                _ => String::new(),
            };
            Part::new(kind, number, more, cpus, joined(&nodes))
        })
        .collect();
        self.draw_parts(parts, 1, columns, &|part, width| {
            let nodes = self.nodes(&part.cpus);
            match nodes.as_slice() {
                [node] => self.caches_drawn(&node.cpus, width),
                _ => self.draw_parts(nodes, 2, width, &|node, width| {
                    self.caches_drawn(&node.cpus, width)
                }),
            }
        })
    }

    fn nodes(&self, cpus: &CpuSet) -> Vec<Part> {
        split(cpus, |cpu| self.topology().node_of(cpu))
            .into_iter()
            .map(|(number, cpus)| {
                let kind = if number.is_some() { "node" } else { "no node" };
                let shape = joined(&self.caches(&cpus));
                Part::new(kind, number, String::new(), cpus, shape)
            })
            .collect()
    }

    fn caches(&self, cpus: &CpuSet) -> Vec<Part> {
        split(cpus, |cpu| self.topology().llc_of(cpu))
            .into_iter()
            .map(|(number, cpus)| {
                let shards = self.shards(&cpus);
                let more = match shards.as_slice() {
                    // A cache that is not cut has its shard in its title.
                    [shard] => format!(" · {}", shard.name()),
                    _ => String::new(),
                };
                Part::new("LLC", number, more, cpus, joined(&shards))
            })
            .collect()
    }

    fn caches_drawn(&self, cpus: &CpuSet, width: usize) -> Lines {
        self.draw_parts(self.caches(cpus), 2, width, &|cache, width| {
            let shards = self.shards(&cache.cpus);
            match shards.as_slice() {
                [shard] => self.cores(&shard.cpus, width),
                _ => self.draw_parts(shards, ALIKE_SHARDS_MAX, width, &|shard, width| {
                    self.cores(&shard.cpus, width)
                }),
            }
        })
    }

    fn shards(&self, cpus: &CpuSet) -> Vec<Part> {
        let pods = self.view.pods(AffinityScope::CacheShard);
        split(cpus, |cpu| pods.pod_of(cpu))
            .into_iter()
            .map(|(number, cpus)| {
                let cores = split(&cpus, |cpu| self.topology().core_of(cpu));
                let cores: Vec<String> = cores
                    .iter()
                    .map(|(_, cpus)| self.core_shape(cpus))
                    .collect();
                Part::new("shard", number, String::new(), cpus, cores.join(" "))
            })
            .collect()
    }

    /// One letter for each hardware thread.
    fn core_shape(&self, cpus: &CpuSet) -> String {
        let allowed = self.topology().allowed();
        cpus.iter()
            .map(|cpu| if allowed.contains(cpu) { 'a' } else { 'n' })
            .collect()
    }

    /// The cores of a shard, each by its CPUs; those that are not allowed in parentheses.
    fn cores(&self, cpus: &CpuSet, width: usize) -> Lines {
        let allowed = self.topology().allowed();
        let cores: Vec<String> = split(cpus, |cpu| self.topology().core_of(cpu))
            .iter()
            .map(|(_, core)| {
                let (yes, no) = (core.intersection(allowed), core.difference(allowed));
                match (yes.is_empty(), no.is_empty()) {
                    (_, true) => yes.to_string(),
                    (true, false) => format!("({no})"),
                    (false, false) => format!("{yes},({no})"),
                }
            })
            .collect();
        // Lines of equal length: first how many there must be, then how many cores that makes for each.
        let total: usize = cores.iter().map(|core| core.len() + 1).sum();
        let rows = total.div_ceil(width.clamp(1, CORES_COLUMNS) + 1).max(1);
        let in_row = cores.len().div_ceil(rows).max(1);
        cores
            .chunks(in_row)
            .flat_map(|row| wrap(row, width))
            .collect()
    }

    /// The parts as boxes side by side. On a large machine, of more than `alike_max` alike parts in
    /// a row one is drawn, and the others are named below it.
    fn draw_parts(
        &self,
        parts: Vec<Part>,
        alike_max: usize,
        width: usize,
        inside: &dyn Fn(&Part, usize) -> Lines,
    ) -> Lines {
        let mut out = Vec::new();
        let mut row = Vec::new();
        for alike in parts.chunk_by(|a, b| a.kind == b.kind && a.shape == b.shape) {
            let collapse = self.compact && alike.len() > alike_max;
            let drawn = if collapse { &alike[..1] } else { alike };
            for part in drawn {
                let title = format!("{}{} · {}", part.name(), part.more, cpus_named(&part.cpus));
                let body = inside(part, width.saturating_sub(FRAME_COLUMNS));
                row.push(frame(&title, &body, width));
            }
            if collapse {
                out.extend(flow(std::mem::take(&mut row), width));
                out.extend(others(&alike[1..], width));
            }
        }
        out.extend(flow(row, width));
        out
    }
}

/// `… and 7 more like it: LLC 1-7, CPUs 8-63`, on as many lines as it takes.
fn others(parts: &[Part], width: usize) -> Lines {
    let numbers: CpuSet = parts
        .iter()
        .filter_map(|part| part.number)
        .filter(|&number| number < cmwq::topology::MAX_CPUS)
        .collect();
    let cpus = parts
        .iter()
        .fold(CpuSet::new(), |all, part| all.union(&part.cpus));
    let kind = parts.first().map_or("", |part| part.kind);
    let text = format!(
        "… and {} more like it: {kind} {numbers} · {}",
        parts.len(),
        cpus_named(&cpus)
    );
    let words: Vec<String> = text.split(' ').map(String::from).collect();
    wrap(&words, width)
}

fn cpus_named(cpus: &CpuSet) -> String {
    if cpus.len() == 1 {
        format!("CPU {cpus}")
    } else {
        format!("CPUs {cpus}")
    }
}

fn joined(parts: &[Part]) -> String {
    let shapes: Vec<String> = parts
        .iter()
        .map(|part| format!("[{}]", part.shape))
        .collect();
    shapes.concat()
}

/// The CPUs in groups of equal key, in the order of their lowest CPUs.
fn split<K: PartialEq + Copy>(cpus: &CpuSet, key: impl Fn(usize) -> K) -> Vec<(K, CpuSet)> {
    let mut groups: Vec<(K, CpuSet)> = Vec::new();
    for cpu in cpus {
        let own = key(cpu);
        // Adjacent CPUs mostly belong together: try the last group first.
        match groups.iter_mut().rev().find(|(group, _)| *group == own) {
            Some((_, set)) => {
                set.insert(cpu);
            }
            None => groups.push((own, CpuSet::from_iter([cpu]))),
        }
    }
    groups
}

/// `1 core`, `2 cores`.
fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

//! Builds a machine from a synthetic description such as `pack:2 l3:4 core:8 pu:2`.

mod indexes;
mod text;

use self::indexes::Indexes;
use self::text::{Description, Kind, Level, parse_description, refuse};
use crate::caches::assumed_caches;
use crate::cpuset::{CpuSet, MAX_CPUS};
use crate::error::TopologyError;
use crate::machine::Topology;

impl Topology {
    /// Builds the machine that `text` describes in hwloc's synthetic syntax: levels from the
    /// outermost to the innermost, each with the number of its objects in *each* object of the
    /// level before. `pack:2 l3:4 core:8 pu:2` is two packages, each with four L3 caches, each over
    /// eight cores of two hardware threads. CPUs are numbered depth first from 0.
    ///
    /// Levels, outermost first (any may be left out): `pack`age or `socket`; `die`; caches `l5` to
    /// `l1` (also `l3u`, `L3Cache`; `l1i` to `l3i` for instruction caches, which do not count as
    /// LLC); `core`; `pu`, by default one per core. `numa` (or `node`) and `group` may be anywhere
    /// above `core`. Case does not matter.
    ///
    /// Nodes may instead be attached to the objects of the level before them, also several at one
    /// place or at several: `pack:2 [numa] l3:2 core:4`. A CPU is on one node: the first one at the
    /// innermost place. The others are taken for nodes of memory only, and so are not among
    /// [`Topology::nodes`], but count when nodes are numbered. Nodes cannot be a level and attached
    /// as well.
    ///
    /// The LLC is the highest cache level given, cut at nodes ([`Topology::llcs`]). Without one,
    /// the CPUs of a package share an LLC, which [`Topology::assumed`] tells. Without `numa` all
    /// CPUs are on node 0.
    ///
    /// Attributes in parentheses are accepted and ignored, except `indexes=` of `pu` and `numa`,
    /// which numbers the CPUs and nodes: a list of all the numbers (`pu:2(indexes=0,2,1,3)`); or
    /// loops `STEP*COUNT`, in which COUNT successive numbers go to objects that are STEP apart
    /// (`core:2 pu:2(indexes=2*2:1*2)` is `0,2,1,3`); or levels, in which successive numbers go to
    /// different objects of the first level and then of the next (`core:2 pu:2(indexes=core)` is
    /// the same).
    ///
    /// # Errors
    /// [`TopologyError::Synthetic`] with the part at fault, also when there are more than [`MAX_CPUS`] CPUs.
    pub fn from_synthetic(text: &str) -> Result<Self, TopologyError> {
        let mut description = parse_description(text)?;
        let levels = &mut description.levels;
        if levels.last().is_none_or(|level| level.kind != Kind::Pu) {
            levels.push(Level::implied_pu());
        }
        Described::new(&description)?.machine()
    }
}

/// A description whose objects are counted and whose CPUs are numbered.
struct Described<'a> {
    description: &'a Description,
    /// Each level, and how many objects the machine has of it.
    totals: Vec<(Kind, usize)>,
    /// The CPUs, depth first.
    cpus: Vec<usize>,
}

impl<'a> Described<'a> {
    fn new(description: &'a Description) -> Result<Self, TopologyError> {
        let totals = object_totals(&description.levels)?;
        let mut described = Described {
            description,
            totals,
            cpus: Vec::new(),
        };
        let last = description.levels.len() - 1;
        described.cpus = described.numbers(last)?;
        Ok(described)
    }

    fn machine(&self) -> Result<Topology, TopologyError> {
        let levels = &self.description.levels;
        let everything: CpuSet = self.cpus.iter().copied().collect();
        let cores = self.objects(self.position(Kind::Core).unwrap_or(levels.len() - 1));
        let nodes = self.nodes()?;
        let packages = match self.position(Kind::Package) {
            Some(at) => numbered(0..self.totals[at].1, self.objects(at)),
            None => vec![(0, everything.clone())],
        };
        let caches = levels.iter().enumerate();
        let highest = caches
            .filter_map(|(at, level)| Some((level.kind.data_cache_level()?, at)))
            .max();
        let (llcs, assumed) = match highest {
            Some((_, at)) => (self.objects(at), None),
            None => {
                let assumed = assumed_caches(&everything, &cores, &packages, &nodes);
                let assumption = assumed.as_assumption(true);
                (assumed.llcs, assumption)
            }
        };
        let machine = Topology {
            injected: true,
            possible: everything.clone(),
            allowed: everything.clone(),
            online: everything,
            cores,
            llcs,
            nodes,
            places: Vec::new(),
            kinds: Vec::new(),
            assumed: assumed.into_iter().collect(),
            faults: Vec::new(),
        };
        Ok(machine.assembled(packages))
    }

    fn position(&self, kind: Kind) -> Option<usize> {
        self.totals.iter().position(|&(level, _)| level == kind)
    }

    /// The objects of one level, each a set of CPUs.
    fn objects(&self, at: usize) -> Vec<CpuSet> {
        let sets = self.cpus.chunks(self.cpus.len() / self.totals[at].1);
        sets.map(|cpus| cpus.iter().copied().collect()).collect()
    }

    /// The numbers of one level's objects.
    fn numbers(&self, at: usize) -> Result<Vec<usize>, TopologyError> {
        let total = self.totals[at].1;
        match &self.description.levels[at].indexes {
            Some(indexes) => Indexes::new(indexes).numbers(total, &self.totals[..at]),
            None => Ok((0..total).collect()),
        }
    }

    fn nodes(&self) -> Result<Vec<(u32, CpuSet)>, TopologyError> {
        if let Some(at) = self.position(Kind::Numa) {
            return Ok(numbered(self.numbers(at)?, self.objects(at)));
        }
        // The innermost place.
        match self.description.attached.last() {
            Some(&levels) => self.attached_nodes(levels),
            None => Ok(vec![(0, self.cpus.iter().copied().collect())]),
        }
    }

    /// The first node that is attached to each object which `levels` levels lead to.
    fn attached_nodes(&self, levels: usize) -> Result<Vec<(u32, CpuSet)>, TopologyError> {
        // As in hwloc, the nodes inside an object are numbered before those attached to it.
        let attached_to = |levels: usize| {
            let attached = self.description.attached.iter();
            attached.filter(|&&place| place == levels).count()
        };
        let count = |level: usize| self.description.levels[level].count;
        let mut inside = vec![0; levels + 1];
        for level in (0..=levels).rev() {
            let nested = inside
                .get(level + 1)
                .map_or(0, |nested| nested * count(level));
            inside[level] = nested + attached_to(level);
        }
        let total = inside[0];
        let numbers = match &self.description.attached_indexes {
            Some(indexes) => Indexes::new(indexes).numbers(total, &self.totals)?,
            None => (0..total).collect(),
        };
        let first_of = |object: usize| {
            let mut object = object;
            let mut first = 0;
            for level in (0..levels).rev() {
                first += object % count(level) * inside[level + 1];
                object /= count(level);
            }
            numbers[first]
        };
        let sets = match levels.checked_sub(1) {
            Some(at) => self.objects(at),
            None => vec![self.cpus.iter().copied().collect()],
        };
        Ok(numbered((0..sets.len()).map(first_of), sets))
    }
}

fn numbered(ids: impl IntoIterator<Item = usize>, sets: Vec<CpuSet>) -> Vec<(u32, CpuSet)> {
    // A text has no room for so many nodes that a number does not fit.
    ids.into_iter()
        .map(|id| u32::try_from(id).unwrap_or(u32::MAX))
        .zip(sets)
        .collect()
}

/// How many objects of each level the machine has.
fn object_totals(levels: &[Level]) -> Result<Vec<(Kind, usize)>, TopologyError> {
    let mut total = 1_usize;
    levels
        .iter()
        .map(|level| {
            total = total
                .checked_mul(level.count)
                .filter(|&total| total <= MAX_CPUS)
                .ok_or_else(|| {
                    refuse(
                        &level.token,
                        format!("more than {MAX_CPUS} CPUs, the largest machine allowed"),
                    )
                })?;
            Ok((level.kind, total))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Assumption, Substitute};

    fn lists(sets: &[CpuSet]) -> Vec<String> {
        sets.iter().map(ToString::to_string).collect()
    }

    fn machine(text: &str) -> Topology {
        Topology::from_synthetic(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
    }

    #[test]
    fn levels_are_numbered_depth_first() {
        let m = machine("pack:2 l3:2 core:2 pu:2");
        assert_eq!(m.cpus().to_string(), "0-15");
        assert_eq!(lists(m.llcs()), ["0-3", "4-7", "8-11", "12-15"]);
        assert_eq!(m.cores().len(), 8);
        assert_eq!(m.smt_siblings(5).to_string(), "4-5");
        assert_eq!(m.package_of(8), Some(1));
        assert_eq!(m.nodes().len(), 1, "without numa there is one node");
        assert_eq!(m.node_of(15), Some(0));
        assert!(m.is_injected());
        assert_eq!(m.allowed(), m.online());
    }

    #[test]
    fn a_level_left_out_is_one_of_each() {
        assert_eq!(machine("core:3").cpus().to_string(), "0-2");
        assert_eq!(
            lists(machine("pack:2 pu:2").cores()),
            ["0", "1", "2", "3"],
            "no core"
        );
        assert_eq!(lists(machine("l3:2").llcs()), ["0", "1"]);
    }

    #[test]
    fn the_llc_is_the_highest_data_cache() {
        assert_eq!(lists(machine("l3:1 l2:2 l1:2 core:1").llcs()), ["0-3"]);
        assert_eq!(lists(machine("l2:2 l1i:1 core:2").llcs()), ["0-1", "2-3"]);
    }

    #[test]
    fn without_a_cache_the_packages_are_taken_for_caches_as_without_one_in_sys() {
        for (text, llcs) in [
            ("core:2 pu:2", &["0-3"][..]),
            ("l1i:1 core:2 pu:2", &["0-3"]),
            ("pack:2 core:2 pu:2", &["0-3", "4-7"]),
            ("numa:2 pack:2 core:2", &["0-1", "2-3", "4-5", "6-7"]),
            (
                "pack:2 [numa] die:2 [numa] core:2",
                &["0-1", "2-3", "4-5", "6-7"],
            ),
        ] {
            let m = machine(text);
            assert_eq!(lists(m.llcs()), llcs, "{text}");
            assert_eq!(
                m.assumed(),
                [Assumption::Caches(Substitute::Package)],
                "{text}"
            );
        }
        assert_eq!(machine("l3:1 core:2 pu:2").assumed(), []);
        assert_eq!(machine("core:1").assumed(), []);
    }

    fn nodes(m: &Topology) -> Vec<(u32, String)> {
        let nodes = m.nodes().iter();
        nodes
            .map(|(number, set)| (*number, set.to_string()))
            .collect()
    }

    /// The numbers are those of hwloc 2.9.0.
    #[test]
    fn several_nodes_may_be_attached_at_one_place_or_at_several() {
        for (text, expected) in [
            ("pack:2 [numa] [numa] core:2", &[(0, "0-1"), (2, "2-3")][..]),
            ("[numa] [numa] pack:2 core:2", &[(0, "0-3")]),
            // Brackets separate without blanks, too. The numbers follow from the first row.
            ("pack:2[numa][numa]core:2", &[(0, "0-1"), (2, "2-3")]),
            (
                "pack:2 [numa] l3:2 [numa] core:2",
                &[(0, "0-1"), (1, "2-3"), (3, "4-5"), (4, "6-7")],
            ),
            (
                "pack:2 [numa] l3:2 [numa] [numa] core:1",
                &[(0, "0"), (2, "1"), (5, "2"), (7, "3")],
            ),
            (
                "pack:2 [numa(indexes=0,2,1,3)] [numa] core:2",
                &[(0, "0-1"), (1, "2-3")],
            ),
            (
                "pack:2 [numa] [numa(indexes=pack memory=1GB)] core:2",
                &[(0, "0-1"), (1, "2-3")],
            ),
        ] {
            let expected: Vec<_> = expected.iter().map(|&(n, set)| (n, set.into())).collect();
            assert_eq!(nodes(&machine(text)), expected, "{text}");
        }
    }

    #[test]
    fn nodes_are_a_level_or_attached_to_one() {
        for text in [
            "numa:2 l3:2 core:2",
            "pack:2 [numa] l3:2 core:2",
            "pack:2 [NUMANode(memory=8GB)] l3:2 core:2",
            "Package:2 Node:1 L3Cache:2(size=32MB) Core:2 PU:1",
        ] {
            let m = machine(text);
            assert_eq!(nodes(&m), [(0, "0-3".into()), (1, "4-7".into())], "{text}");
        }
        assert_eq!(machine("[numa] pack:2 core:2").nodes().len(), 1);
        assert_eq!(
            machine("(memory=1GB) group:2 numa:2 core:1").nodes().len(),
            4
        );
    }

    #[test]
    fn indexes_number_cpus_and_nodes() {
        for text in [
            "core:2 pu:2(indexes=0,2,1,3)",
            "core:2 pu:2(indexes=2*2:1*2)",
        ] {
            assert_eq!(lists(machine(text).cores()), ["0,2", "1,3"], "{text}");
        }
        // As hwloc 2.9.0 numbers them.
        for (text, cores) in [
            ("core:3 pu:2(indexes=3*2:1*3)", &["0,2", "1,4", "3,5"][..]),
            ("core:3 pu:2(indexes=2*3:1*2)", &["0,3", "1,4", "2,5"]),
            ("core:3 pu:2(indexes=2*3)", &["0,3", "1,4", "2,5"]),
            ("core:3 pu:2(indexes=core)", &["0,3", "1,4", "2,5"]),
            (
                "node:2 core:2 pu:2(indexes=node:core)",
                &["0,4", "1,5", "2,6", "3,7"],
            ),
            (
                "numa:2 core:2 pu:2(indexes=core:numa)",
                &["0,4", "1,5", "2,6", "3,7"],
            ),
            (
                "group:2 group:2 core:1 pu:2(indexes=group:core)",
                &["0,4", "1,5", "2,6", "3,7"],
            ),
            (
                "pack:2 numa:2 core:2 pu:2(indexes=numa:core:pack)",
                &["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"],
            ),
        ] {
            assert_eq!(lists(machine(text).cores()), cores, "{text}");
        }
        let m = machine("node:2 core:2 pu:2(indexes=node:core)");
        assert_eq!(nodes(&m), [(0, "0,2,4,6".into()), (1, "1,3,5,7".into())]);
        let m = machine("numa:2 core:2 pu:2(indexes=core:numa)");
        assert_eq!(nodes(&m), [(0, "0-1,4-5".into()), (1, "2-3,6-7".into())]);
        let m = machine("pack:2 numa:2(indexes=pack) core:2");
        assert_eq!(
            nodes(&m),
            [(0, "0-1"), (1, "4-5"), (2, "2-3"), (3, "6-7")].map(|(n, set)| (n, set.to_owned()))
        );
        let m = machine("numa:2(memory=1GB indexes=1,0) core:1");
        assert_eq!((m.node_of(0), m.node_of(1)), (Some(1), Some(0)));
        // The given numbers need not be contiguous from 0.
        assert_eq!(machine("pu:2(indexes=8,100)").cpus().to_string(), "8,100");
    }

    #[test]
    fn the_largest_machine_is_accepted_and_one_more_cpu_is_not() {
        assert_eq!(machine("pack:8 core:512 pu:2").cpus().len(), MAX_CPUS);
        for text in [
            "pack:8 core:512 pu:3",
            "pack:8191 core:8191 pu:8191",
            "pu:99999999999999999999",
        ] {
            let error = Topology::from_synthetic(text).expect_err(text).to_string();
            assert!(error.contains("8192"), "{error}");
        }
    }
}

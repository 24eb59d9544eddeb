//! Builds a machine from a synthetic description such as `pack:2 l3:4 core:8 pu:2`.
#![forbid(unsafe_code)]

use super::Topology;
use super::cpuset::CpuSet;
use super::cpuset_error::MAX_CPUS;
use super::error::TopologyError;
use super::synthetic_text::{Kind, Level, parse_levels, refuse};

impl Topology {
    /// Builds the machine that `text` describes in hwloc's synthetic syntax: levels from the outermost to the innermost, each with the
    /// number of its objects in *each* object of the level before. `pack:2 l3:4 core:8 pu:2` is two packages, each with four L3 caches,
    /// each over eight cores of two hardware threads. CPUs are numbered depth first from 0.
    ///
    /// Levels, outermost first (any may be left out): `pack`age or `socket`; `die`; caches `l5` to `l1` (also `l3u`, `L3Cache`; `l1i` to
    /// `l3i` for instruction caches, which do not count as LLC); `core`; `pu`, by default one per core. `numa` (or `node`) and `group` may
    /// be anywhere above `core`. A node may instead be attached to the objects of the level before it: `pack:2 [numa] l3:2 core:4`. Case
    /// does not matter.
    ///
    /// The LLC is the highest cache level given; without one, the CPUs of a core share an LLC. Without `numa` all CPUs are on node 0.
    /// Attributes in parentheses are accepted and ignored, except `indexes=` of `pu` and `numa`, which numbers the CPUs and nodes: a list
    /// of all the numbers (`pu:2(indexes=0,2,1,3)`), or loops `STEP*COUNT`, the innermost first (`indexes=2*2:1*2` is `0,2,1,3`).
    ///
    /// # Errors
    /// [`TopologyError::Synthetic`] with the part at fault, also when there are more than [`MAX_CPUS`] CPUs.
    pub fn from_synthetic(text: &str) -> Result<Self, TopologyError> {
        let mut levels = parse_levels(text)?;
        if levels.last().is_none_or(|level| level.kind != Kind::Pu) {
            levels.push(Level::implied_pu());
        }
        let totals = object_totals(&levels)?;
        // There are one or more levels: the loop above ensures it.
        let cpus = totals.last().copied().unwrap_or(1);
        let numbers = match levels.last().and_then(|level| level.indexes.as_ref()) {
            Some(indexes) => indexes.numbers(cpus)?,
            None => (0..cpus).collect(),
        };
        // The objects of one level, each a set of CPUs.
        let objects = |position: usize| -> Vec<CpuSet> {
            numbers
                .chunks(cpus / totals[position])
                .map(|chunk| chunk.iter().copied().collect())
                .collect()
        };
        let position = |kind: Kind| levels.iter().position(|level| level.kind == kind);
        let core = position(Kind::Core).unwrap_or(levels.len() - 1);
        let llc = levels
            .iter()
            .enumerate()
            .filter_map(|(at, level)| Some((level.kind.data_cache_level()?, at)))
            .max()
            .map_or(core, |(_, at)| at);
        let everything: CpuSet = numbers.iter().copied().collect();
        let nodes = match position(Kind::Numa) {
            Some(at) => {
                let ids = match &levels[at].indexes {
                    Some(indexes) => indexes.numbers(totals[at])?,
                    None => (0..totals[at]).collect(),
                };
                numbered(ids, objects(at))
            }
            None => vec![(0, everything.clone())],
        };
        let packages = position(Kind::Package).map_or_else(
            || vec![(0, everything.clone())],
            |at| numbered(0..totals[at], objects(at)),
        );
        let machine = Topology {
            injected: true,
            possible: everything.clone(),
            allowed: everything.clone(),
            online: everything,
            cores: objects(core),
            llcs: objects(llc),
            nodes,
            places: Vec::new(),
            kinds: Vec::new(),
            assumed: Vec::new(),
            faults: Vec::new(),
        };
        Ok(machine.assembled(packages))
    }
}

fn numbered(ids: impl IntoIterator<Item = usize>, sets: Vec<CpuSet>) -> Vec<(u32, CpuSet)> {
    // Never more than MAX_CPUS objects, so every number fits.
    ids.into_iter()
        .map(|id| u32::try_from(id).unwrap_or(u32::MAX))
        .zip(sets)
        .collect()
}

/// How many objects of each level the machine has.
fn object_totals(levels: &[Level]) -> Result<Vec<usize>, TopologyError> {
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
            Ok(total)
        })
        .collect()
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;

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
            lists(machine("core:2 pu:2").llcs()),
            ["0-1", "2-3"],
            "no cache"
        );
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
        assert_eq!(lists(machine("l1i:1 core:2 pu:2").llcs()), ["0-1", "2-3"]);
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
            let nodes: Vec<_> = m
                .nodes()
                .iter()
                .map(|(n, set)| (*n, set.to_string()))
                .collect();
            assert_eq!(nodes, [(0, "0-3".into()), (1, "4-7".into())], "{text}");
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

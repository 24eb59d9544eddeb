//! What is measured, in which order.

use cmwq::affinity::{AffinityScope, Pods};
use cmwq::topology::CpuSet;

use super::args::Options;

/// One thing that is measured once per run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) scope: AffinityScope,
    /// `None`: the engine's own default.
    pub(super) shard_size: Option<usize>,
    /// This is one size of several.
    pub(super) in_sweep: bool,
}

impl Config {
    /// The scope's name, with the shard size where several are compared.
    pub(super) fn label(&self) -> String {
        match self.shard_size {
            Some(size) if self.in_sweep => format!("{}/{size}", self.scope.name()),
            _ => self.scope.name().to_owned(),
        }
    }
}

/// Everything to measure in one round, in order.
pub(super) fn configs(options: &Options) -> Vec<Config> {
    let mut configs = Vec::new();
    for &scope in &options.scopes {
        let in_sweep = scope == AffinityScope::CacheShard && options.shard_sizes.len() > 1;
        let sizes: Vec<Option<usize>> = match options.shard_sizes.as_slice() {
            sizes if in_sweep => sizes.iter().copied().map(Some).collect(),
            &[size] if scope == AffinityScope::CacheShard => vec![Some(size)],
            _ => vec![None],
        };
        for shard_size in sizes {
            configs.push(Config {
                scope,
                shard_size,
                in_sweep,
            });
        }
    }
    configs
}

/// The CPUs of each pod that has some of the `allowed` ones: what a process on these CPUs can tell of a cut.
pub(super) fn layout(pods: &Pods, allowed: &CpuSet) -> Vec<CpuSet> {
    pods.pods()
        .iter()
        .map(|pod| pod.cpus.intersection(allowed))
        .filter(|cpus| !cpus.is_empty())
        .collect()
}

/// For each configuration the index of the one that is measured for it: itself, or one that has the
/// same pods. What is equal to `cache` is measured as `cache`, which all are compared with, else as
/// the first of its kind. `layouts[i]` is the layout of `configs[i]`.
pub(super) fn measured_as(configs: &[Config], layouts: &[Vec<CpuSet>]) -> Vec<usize> {
    (0..configs.len())
        .map(|index| {
            let mut equal = (0..configs.len()).filter(|&other| layouts[other] == layouts[index]);
            let first = equal.clone().next().unwrap_or(index);
            equal
                .find(|&other| configs[other].scope == AffinityScope::Cache)
                .unwrap_or(first)
        })
        .collect()
}

/// The turns: each of the configurations in `measured` once, then all of them again, every other
/// time in reverse order, so that none always goes before another. Yields (run, index of the
/// configuration).
pub(super) fn turns(measured: &[usize], runs: usize) -> Vec<(usize, usize)> {
    let mut turns = Vec::with_capacity(runs * measured.len());
    for run in 0..runs {
        let round = measured.iter().map(|&index| (run, index));
        if run % 2 == 0 {
            turns.extend(round);
        } else {
            turns.extend(round.rev());
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::super::args::PUBLISHED_ORDER;
    use super::*;
    use crate::bench::args::{Args, Options};
    use cmwq::topology::Topology;

    fn options(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Args::default().options().unwrap();
        // Those of the published runs: what is added to the table comes behind.
        options.scopes.truncate(6);
        change(&mut options);
        options
    }

    fn labels(configs: &[Config]) -> Vec<String> {
        configs.iter().map(Config::label).collect()
    }

    /// What is measured for what on a machine of `text`, by labels.
    fn stands_for(text: &str, change: impl FnOnce(&mut Options)) -> Vec<(String, String)> {
        let machine = Topology::from_synthetic(text).unwrap();
        let configs = configs(&options(change));
        let layouts: Vec<_> = configs
            .iter()
            .map(|config| {
                let pods = Pods::build(&machine, config.scope, config.shard_size.unwrap_or(8));
                layout(&pods, machine.allowed())
            })
            .collect();
        let labels = labels(&configs);
        measured_as(&configs, &layouts)
            .into_iter()
            .enumerate()
            .filter(|&(index, by)| index != by)
            .map(|(index, by)| (labels[index].clone(), labels[by].clone()))
            .collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |&(one, by): &(&str, &str)| (one.to_owned(), by.to_owned());
        expected.iter().map(owned).collect()
    }

    #[test]
    fn scopes_with_the_same_pods_are_measured_as_one() {
        assert_eq!(
            stands_for("l3:1 core:2 pu:1", |_| ()),
            pairs(&[
                ("smt", "cpu"),
                ("cache_shard", "cache"),
                ("numa", "cache"),
                ("system", "cache")
            ])
        );
        // Two nodes of two caches of sixteen cores of two CPUs: no two scopes are the same.
        assert_eq!(stands_for("node:2 l3:2 core:16 pu:2", |_| ()), pairs(&[]));
        assert_eq!(
            stands_for("l3:4 core:16 pu:1", |o| {
                o.scopes.retain(|scope| *scope != AffinityScope::Cache);
            }),
            pairs(&[("smt", "cpu"), ("system", "numa")])
        );
    }

    #[test]
    fn sizes_beyond_the_cache_are_measured_as_the_cache() {
        assert_eq!(
            stands_for("l3:2 core:8 pu:2", |o| {
                o.scopes = vec![AffinityScope::CacheShard, AffinityScope::Cache];
                o.shard_sizes = vec![2, 4, 8, 16];
            }),
            pairs(&[("cache_shard/8", "cache"), ("cache_shard/16", "cache")])
        );
    }

    #[test]
    fn only_the_allowed_cpus_make_a_layout() {
        let machine = Topology::from_synthetic("l3:2 core:2 pu:1").unwrap();
        let of = |scope, cpus: &[usize]| {
            let mut allowed = CpuSet::new();
            for &cpu in cpus {
                allowed.insert(cpu);
            }
            layout(&Pods::build(&machine, scope, 8), &allowed)
        };
        let [cpu, cache] = [AffinityScope::Cpu, AffinityScope::Cache];
        assert_ne!(of(cpu, &[0, 1, 2]), of(cache, &[0, 1, 2]));
        assert_eq!(of(cpu, &[1, 2]), of(cache, &[1, 2]));
    }

    #[test]
    fn scopes_take_turns_and_every_other_round_is_reversed() {
        assert_eq!(
            turns(&[0, 3, 4], 3),
            [
                (0, 0),
                (0, 3),
                (0, 4),
                (1, 4),
                (1, 3),
                (1, 0),
                (2, 0),
                (2, 3),
                (2, 4)
            ]
        );
    }

    #[test]
    fn scopes_are_in_the_published_order() {
        let labels = labels(&configs(&options(|_| ())));
        assert_eq!(PUBLISHED_ORDER.len(), AffinityScope::CONCRETE.len());
        let published = ["cpu", "smt", "cache_shard", "cache", "numa", "system"];
        assert_eq!(labels[..published.len()], published);
    }

    #[test]
    fn a_sweep_runs_cache_shard_once_per_size_and_the_others_once() {
        let configs = configs(&options(|o| {
            o.scopes = vec![AffinityScope::CacheShard, AffinityScope::Cache];
            o.shard_sizes = vec![1, 2, 32];
        }));
        assert_eq!(
            labels(&configs),
            ["cache_shard/1", "cache_shard/2", "cache_shard/32", "cache"]
        );
    }

    #[test]
    fn a_single_shard_size_sets_it_without_changing_the_name() {
        let configs = configs(&options(|o| o.shard_sizes = vec![4]));
        assert_eq!(configs[2].shard_size, Some(4));
        assert_eq!(configs[2].label(), "cache_shard");
        assert_eq!(configs[3].shard_size, None);
    }
}

//! What is measured, in which order.

use cmwq::affinity::AffinityScope;

use super::args::Options;

/// The order of the published runs.
pub(super) const PUBLISHED_ORDER: [AffinityScope; 6] = [
    AffinityScope::Cpu,
    AffinityScope::Smt,
    AffinityScope::CacheShard,
    AffinityScope::Cache,
    AffinityScope::Numa,
    AffinityScope::System,
];

/// When the engine issues the wake-up it has decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// After the pool's lock is let go: the engine's own way.
    Deferred,
    /// While the lock is held: the older protocol, for comparison.
    UnderLock,
}

impl Wake {
    /// The word in tables.
    pub(super) fn words(self) -> &'static str {
        match self {
            Wake::Deferred => "deferred",
            Wake::UnderLock => "under lock",
        }
    }

    /// The word in JSON.
    pub(super) fn key(self) -> &'static str {
        match self {
            Wake::Deferred => "deferred",
            Wake::UnderLock => "under_lock",
        }
    }
}

/// One thing that is measured once per run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) scope: AffinityScope,
    /// `None`: the engine's own default.
    pub(super) shard_size: Option<usize>,
    /// This is one size of several.
    pub(super) in_sweep: bool,
    pub(super) wake: Wake,
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
    let wakes: &[Wake] = if options.wake_under_lock {
        &[Wake::Deferred, Wake::UnderLock]
    } else {
        &[Wake::Deferred]
    };
    let mut configs = Vec::new();
    for &scope in &options.scopes {
        let in_sweep = scope == AffinityScope::CacheShard && options.shard_sizes.len() > 1;
        let sizes: Vec<Option<usize>> = match options.shard_sizes.as_slice() {
            sizes if in_sweep => sizes.iter().copied().map(Some).collect(),
            &[size] if scope == AffinityScope::CacheShard => vec![Some(size)],
            _ => vec![None],
        };
        for shard_size in sizes {
            for &wake in wakes {
                configs.push(Config {
                    scope,
                    shard_size,
                    in_sweep,
                    wake,
                });
            }
        }
    }
    configs
}

/// The turns: every configuration once, then all of them again. Yields (run, index of the configuration).
///
/// With two protocols every other run takes each pair the other way round, so that neither always goes first.
pub(super) fn turns(configs: &[Config], runs: usize) -> Vec<(usize, usize)> {
    let mut turns = Vec::with_capacity(runs * configs.len());
    for run in 0..runs {
        let mut index = 0;
        while index < configs.len() {
            let paired = configs[index].wake == Wake::Deferred
                && configs
                    .get(index + 1)
                    .is_some_and(|next| next.wake == Wake::UnderLock);
            match (paired, run % 2) {
                (true, 0) => turns.extend([(run, index), (run, index + 1)]),
                (true, _) => turns.extend([(run, index + 1), (run, index)]),
                (false, _) => turns.push((run, index)),
            }
            index += if paired { 2 } else { 1 };
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::args::{Args, Options};

    fn options(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Args::default().options().unwrap();
        change(&mut options);
        options
    }

    fn labels(configs: &[Config]) -> Vec<String> {
        configs.iter().map(Config::label).collect()
    }

    #[test]
    fn scopes_take_turns_in_the_published_order() {
        let configs = configs(&options(|_| ()));
        assert_eq!(
            labels(&configs),
            ["cpu", "smt", "cache_shard", "cache", "numa", "system"]
        );
        let turns = turns(&configs, 2);
        let expected: Vec<_> = (0..2)
            .flat_map(|run| (0..6).map(move |index| (run, index)))
            .collect();
        assert_eq!(turns, expected);
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

    #[test]
    fn the_two_protocols_alternate_and_swap_places_every_run() {
        let configs = configs(&options(|o| {
            o.scopes = vec![AffinityScope::Cpu, AffinityScope::Smt];
            o.wake_under_lock = true;
        }));
        assert_eq!(
            turns(&configs, 2),
            [
                (0, 0),
                (0, 1),
                (0, 2),
                (0, 3),
                (1, 1),
                (1, 0),
                (1, 3),
                (1, 2)
            ]
        );
    }
}

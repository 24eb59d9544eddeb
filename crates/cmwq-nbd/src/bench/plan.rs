//! What is measured: loads, as published, and the servers that are put under them.

/// Our server's scopes, in the order of the tables; `-strict`: requests stay in their pod.
pub(super) const SCOPES: [&str; 7] = [
    "system",
    "cache",
    "cache-strict",
    "cache_shard",
    "cache_shard-strict",
    "cpu",
    "smt",
];

/// Other servers.
pub(super) const PEERS: [&str; 6] = [
    "nbdkit-memory",
    "nbdkit-memory-luks",
    "nbdkit-file",
    "nbdkit-file-luks",
    "qemu",
    "qemu-luks",
];

/// The groups of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// The published dm-crypt test with so many jobs, the CPUs of whose machine were 24.
    Jobs(usize),
    /// The same with jobs in proportion to this machine's CPUs.
    Scaled,
    /// Small blocks, one job per CPU.
    Small,
    /// Many jobs over a mounted file, as over NFS.
    Mounted,
}

impl Scenario {
    pub(super) const ALL: [Scenario; 6] = [
        Scenario::Jobs(24),
        Scenario::Jobs(8),
        Scenario::Jobs(4),
        Scenario::Scaled,
        Scenario::Small,
        Scenario::Mounted,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Scenario::Jobs(24) => "1",
            Scenario::Jobs(8) => "2",
            Scenario::Jobs(_) => "3",
            Scenario::Scaled => "scaled",
            Scenario::Small => "4k",
            Scenario::Mounted => "nfs",
        }
    }

    /// Its loads on a machine of so many CPUs, without those that `Jobs` has already.
    pub(super) fn loads(self, cpus: usize) -> Vec<Load> {
        match self {
            Scenario::Jobs(jobs) => vec![Load::verified(jobs)],
            Scenario::Scaled => {
                let mut jobs = [cpus, cpus.div_ceil(3), cpus.div_ceil(6)].to_vec();
                jobs.dedup();
                jobs.into_iter().map(Load::verified).collect()
            }
            Scenario::Small => ["randread", "randwrite", "randrw"]
                .map(|pattern| Load {
                    title: format!("{pattern}, 4k, depth 128, {cpus} jobs"),
                    pattern,
                    engine: "nbd",
                    block: 4 << 10,
                    depth: 128,
                    jobs: cpus,
                    verify: false,
                })
                .into(),
            Scenario::Mounted => ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio"]
                .into_iter()
                .flat_map(|engine| {
                    ["write", "read"].map(|pattern| Load {
                        title: format!(
                            "{pattern}, 512 bytes, {engine}, 200 jobs over a mounted file"
                        ),
                        pattern,
                        engine,
                        block: 512,
                        depth: 1,
                        jobs: 200,
                        verify: false,
                    })
                })
                .collect(),
        }
    }

    /// Which of the chosen scopes it compares, the first being what the others are compared with.
    pub(super) fn scopes(self, chosen: &[&'static str]) -> Vec<&'static str> {
        let published: &[&str] = match self {
            Scenario::Jobs(_) | Scenario::Scaled => &SCOPES,
            Scenario::Small | Scenario::Mounted => &["cache", "cache_shard"],
        };
        let is_published = |scope: &&'static str| published.contains(scope);
        chosen.iter().copied().filter(is_published).collect()
    }
}

/// One way to run fio.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) title: String,
    pub(super) pattern: &'static str,
    /// fio's; `nbd`, or one that works on the mounted file.
    pub(super) engine: &'static str,
    pub(super) block: u64,
    pub(super) depth: usize,
    pub(super) jobs: usize,
    pub(super) verify: bool,
}

impl Load {
    fn verified(jobs: usize) -> Self {
        Load {
            title: format!("randrw, 32k, depth 64, sha512, {jobs} jobs"),
            pattern: "randrw",
            engine: "nbd",
            block: 32 << 10,
            depth: 64,
            jobs,
            verify: true,
        }
    }

    pub(super) fn is_mounted(&self) -> bool {
        self.engine != "nbd"
    }
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Ours, encrypted, with a scope of [`SCOPES`].
    Ours(&'static str),
    /// Ours, not encrypted, with the default scope.
    OursPlain,
    /// One of [`PEERS`].
    Peer(&'static str),
}

impl Subject {
    pub(super) fn label(self) -> &'static str {
        match self {
            Subject::Ours(scope) => scope,
            Subject::OursPlain => "plain",
            Subject::Peer(name) => name,
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Subject::Ours(_) => "cmwq-nbd, encrypted",
            Subject::OursPlain => "cmwq-nbd, not encrypted",
            Subject::Peer(name) if name.ends_with("-luks") => "peer, encrypted",
            Subject::Peer(_) => "peer, not encrypted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_those_published_and_scaled() {
        let jobs = |scenario: Scenario, cpus| {
            let loads = scenario.loads(cpus);
            loads.iter().map(|load| load.jobs).collect::<Vec<_>>()
        };
        assert_eq!(jobs(Scenario::Jobs(8), 64), [8]);
        assert_eq!(jobs(Scenario::Scaled, 24), [24, 8, 4]);
        assert_eq!(jobs(Scenario::Scaled, 2), [2, 1]);
        assert_eq!(jobs(Scenario::Scaled, 1), [1]);
        assert_eq!(jobs(Scenario::Small, 2), [2, 2, 2]);
        assert_eq!(jobs(Scenario::Mounted, 2), [200; 12]);
        assert_eq!(Scenario::Small.scopes(&SCOPES), ["cache", "cache_shard"]);
        assert_eq!(Scenario::Scaled.scopes(&SCOPES), SCOPES);
        assert_eq!(Scenario::Mounted.scopes(&["cpu", "cache"]), ["cache"]);
    }
}

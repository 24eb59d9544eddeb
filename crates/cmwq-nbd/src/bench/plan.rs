//! What is measured: loads, as published, and the servers that are put under them.

/// Our server's scopes, in the order of the published tables; `-strict`: requests stay in their pod.
pub(super) const SCOPES: [&str; 7] = [
    "system",
    "cache",
    "cache-strict",
    "cache_shard",
    "cache_shard-strict",
    "cpu",
    "smt",
];

/// The size of a disk, if it is not said.
pub(super) const DEFAULT_SIZE: u64 = 512 << 20;

/// What the names of scopes begin with whose pods the shard size decides.
pub(super) const SHARDS: &str = "cache_shard";

/// What the names of scopes end with that are strict.
pub(super) const STRICT: &str = "-strict";

/// Other servers.
pub(super) const PEERS: [&str; 6] = [
    "nbdkit-memory",
    "nbdkit-memory-luks",
    "nbdkit-file",
    "nbdkit-file-luks",
    "qemu",
    "qemu-luks",
];

/// Which of fio's rates is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Rate {
    /// Reads, as published for the verified loads.
    Read,
    /// Reads and writes together.
    Both,
}

/// The groups of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// The published dm-crypt test with so many jobs, the CPUs of whose machine were 24.
    Jobs(usize),
    /// The same with jobs in proportion to this machine's CPUs.
    Scaled,
    /// Small blocks, one job per CPU.
    Small,
    /// The same through the page cache, over a file system on the export.
    Buffered,
    /// Many jobs over a mounted file, as over NFS.
    Mounted,
}

impl Scenario {
    pub(super) const ALL: [Scenario; 7] = [
        Scenario::Jobs(24),
        Scenario::Jobs(8),
        Scenario::Jobs(4),
        Scenario::Scaled,
        Scenario::Small,
        Scenario::Buffered,
        Scenario::Mounted,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Scenario::Jobs(24) => "1",
            Scenario::Jobs(8) => "2",
            Scenario::Jobs(_) => "3",
            Scenario::Scaled => "scaled",
            Scenario::Small => "4k",
            Scenario::Buffered => "buffered",
            Scenario::Mounted => "nfs",
        }
    }

    /// Which of its rates was published.
    pub(super) fn rate(self) -> Rate {
        match self {
            Scenario::Jobs(_) | Scenario::Scaled => Rate::Read,
            Scenario::Small | Scenario::Buffered | Scenario::Mounted => Rate::Both,
        }
    }

    /// The size of its disk: as published where that matters.
    pub(super) fn size(self) -> u64 {
        match self {
            Scenario::Mounted => 4 << 30,
            _ => DEFAULT_SIZE,
        }
    }

    /// The bits of its published key: `-s 256` for small blocks, and else cryptsetup's default.
    pub(super) fn key_bits(self) -> usize {
        match self {
            Scenario::Small | Scenario::Buffered => 256,
            Scenario::Jobs(_) | Scenario::Scaled | Scenario::Mounted => 512,
        }
    }

    /// Whether readers would carry out its requests, if they may.
    pub(super) fn is_short(self) -> bool {
        self.rate() == Rate::Both
    }

    /// Its loads on a machine of so many CPUs. `nfs_blocks`: the block sizes of [`Scenario::Mounted`].
    pub(super) fn loads(self, cpus: usize, nfs_blocks: &[u64]) -> Vec<Load> {
        match self {
            Scenario::Jobs(jobs) => vec![Load::verified(jobs)],
            Scenario::Scaled => {
                let mut jobs = [cpus, cpus.div_ceil(3), cpus.div_ceil(6)].to_vec();
                jobs.dedup();
                jobs.into_iter().map(Load::verified).collect()
            }
            Scenario::Small => small(cpus, Target::Export, "nbd", ""),
            Scenario::Buffered => small(
                cpus,
                Target::FileSystem,
                "io_uring",
                ", buffered, a file on ext4",
            ),
            Scenario::Mounted => nfs_blocks
                .iter()
                .flat_map(|&block| NFS_ENGINES.map(|engine| (block, engine)))
                .flat_map(|(block, engine)| {
                    ["write", "read"].map(|pattern| Load {
                        title: format!(
                            "{pattern}, {block} bytes, {engine}, {NFS_JOBS} jobs over a mounted file"
                        ),
                        target: Target::File,
                        pattern,
                        engine,
                        block,
                        depth: 1,
                        jobs: NFS_JOBS,
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
            Scenario::Small | Scenario::Buffered => &["cache", "cache_shard"],
            Scenario::Mounted => &["cache", "cache-strict", "cache_shard", "cache_shard-strict"],
        };
        let is_published = |scope: &&'static str| published.contains(scope);
        chosen.iter().copied().filter(is_published).collect()
    }
}

/// Blocks of 4 KiB, a job for each CPU.
fn small(cpus: usize, target: Target, engine: &'static str, where_to: &str) -> Vec<Load> {
    let load = |pattern| Load {
        title: format!("{pattern}, 4k, depth 128, {cpus} jobs{where_to}"),
        target,
        pattern,
        engine,
        block: 4 << 10,
        depth: 128,
        jobs: cpus,
        verify: false,
    };
    ["randread", "randwrite", "randrw"].map(load).into()
}

/// Our server with each of `scopes`; the scopes whose pods are shards once with each of
/// `shard_sizes`, if there are any.
pub(super) fn ours(scopes: &[&'static str], shard_sizes: &[usize]) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for &scope in scopes {
        let of = |shard_size| Subject::Ours {
            scope,
            shard_size,
            inline: false,
        };
        if scope.starts_with(SHARDS) && !shard_sizes.is_empty() {
            subjects.extend(shard_sizes.iter().map(|&size| of(Some(size))));
        } else {
            subjects.push(of(None));
        }
    }
    subjects
}

/// The jobs of the published NFS test.
const NFS_JOBS: usize = 200;
/// The block size of the published NFS test.
pub(super) const NFS_BLOCK: u64 = 512;
/// Its ways to read and write.
const NFS_ENGINES: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio"];

/// What fio works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The export itself.
    Export,
    /// The export as a file, by nbdfuse.
    File,
    /// A file in a file system on the export.
    FileSystem,
}

/// One way to run fio.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) title: String,
    pub(super) target: Target,
    pub(super) pattern: &'static str,
    /// fio's; `nbd` for the export itself, and for nothing else.
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
            target: Target::Export,
            pattern: "randrw",
            engine: "nbd",
            block: 32 << 10,
            depth: 64,
            jobs,
            verify: true,
        }
    }
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Ours, encrypted, with a scope of [`SCOPES`].
    Ours {
        scope: &'static str,
        /// In cores; `None`: the default.
        shard_size: Option<usize>,
        /// Readers carry out short requests. If not, each request is a work item.
        inline: bool,
    },
    /// Ours, not encrypted, with the default scope.
    OursPlain { inline: bool },
    /// One of [`PEERS`].
    Peer(&'static str),
}

impl Subject {
    /// As in tables: `cache_shard-strict/4` is the scope `cache_shard`, strict, with shards of 4 cores.
    pub(super) fn label(self) -> String {
        let inline = |inline| if inline { ", inline" } else { "" };
        match self {
            Subject::Ours {
                scope,
                shard_size,
                inline: is_inline,
            } => {
                let size = shard_size.map_or_else(String::new, |size| format!("/{size}"));
                format!("{scope}{size}{}", inline(is_inline))
            }
            Subject::OursPlain { inline: is_inline } => format!("plain{}", inline(is_inline)),
            Subject::Peer(name) => name.to_owned(),
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Subject::Ours { .. } => "cmwq-nbd, encrypted",
            Subject::OursPlain { .. } => "cmwq-nbd, not encrypted",
            Subject::Peer(name) if name.ends_with("-luks") => "peer, encrypted",
            Subject::Peer(_) => "peer, not encrypted",
        }
    }

    /// Whether readers may carry out requests of it.
    pub(super) fn is_inline(self) -> bool {
        matches!(
            self,
            Subject::Ours { inline: true, .. } | Subject::OursPlain { inline: true }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_those_published_and_scaled() {
        let jobs = |scenario: Scenario, cpus| {
            let loads = scenario.loads(cpus, &[512, 4096]);
            loads.iter().map(|load| load.jobs).collect::<Vec<_>>()
        };
        assert_eq!(jobs(Scenario::Jobs(8), 64), [8]);
        assert_eq!(jobs(Scenario::Scaled, 24), [24, 8, 4]);
        assert_eq!(jobs(Scenario::Scaled, 2), [2, 1]);
        assert_eq!(jobs(Scenario::Scaled, 1), [1]);
        assert_eq!(jobs(Scenario::Small, 2), [2, 2, 2]);
        assert_eq!(jobs(Scenario::Buffered, 2), [2, 2, 2]);
        assert_eq!(
            jobs(Scenario::Mounted, 2),
            [200; 24],
            "twelve for each block size"
        );
        assert_eq!(Scenario::Buffered.scopes(&SCOPES), ["cache", "cache_shard"]);
        assert_eq!(Scenario::Small.scopes(&SCOPES), ["cache", "cache_shard"]);
        assert_eq!(Scenario::Scaled.scopes(&SCOPES), SCOPES);
        assert_eq!(
            Scenario::Mounted.scopes(&["cpu", "cache-strict"]),
            ["cache-strict"]
        );
    }

    #[test]
    fn the_nfs_test_is_made_with_each_block_size() {
        let loads = Scenario::Mounted.loads(2, &[512, 65536]);
        let titles: Vec<&str> = loads.iter().map(|load| load.title.as_str()).collect();
        assert_eq!(
            titles[0],
            "write, 512 bytes, sync, 200 jobs over a mounted file"
        );
        assert_eq!(
            titles[23],
            "read, 65536 bytes, libaio, 200 jobs over a mounted file"
        );
        assert!(loads[..12].iter().all(|load| load.block == 512));
        assert!(loads[12..].iter().all(|load| load.block == 65536));
    }

    #[test]
    fn shard_sizes_multiply_the_sharded_scopes_and_no_other() {
        let labels = |scopes: &[&'static str], sizes: &[usize]| -> Vec<String> {
            ours(scopes, sizes)
                .iter()
                .map(|subject| subject.label())
                .collect()
        };
        assert_eq!(
            labels(&["cache", "cache_shard"], &[]),
            ["cache", "cache_shard"]
        );
        assert_eq!(
            labels(
                &["cache", "cache_shard", "cache_shard-strict", "cpu"],
                &[2, 4]
            ),
            [
                "cache",
                "cache_shard/2",
                "cache_shard/4",
                "cache_shard-strict/2",
                "cache_shard-strict/4",
                "cpu"
            ]
        );
    }
}

//! The options of `cmwq-nbd bench`.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::bench::plan::{NFS_BLOCK, PEERS, SCOPES, SHARDS, Scenario};
use crate::bench::subject::Medium;
use crate::serve::size;
use cmwq_command::{CliError, whole};
use cmwq_nbd::store::FileStore;

/// The smallest disk.
pub(super) const LEAST: u64 = 64 << 20;
const MAX_RUNS: usize = 1000;
const MAX_RUNTIME: u64 = 3600;

#[derive(clap::Args, Debug, Clone)]
#[command(after_help = "Examples:
  cmwq-nbd bench --runtime 1 --runs 1 --scenarios 3,4k     # a minute
  cmwq-nbd bench --runtime 10 --runs 5 --html nbd.html     # hours
  cmwq-nbd bench --scenarios nfs --scopes cache_shard-strict --shard-size 1,2,4,8
  cmwq-nbd bench --scenarios buffered --peers none         # as root
  cmwq-nbd bench --scenarios 1,2,3 --runs 5 --runtime 60 --file /var/tmp --io-uring --peers none

Needs fio with its nbd engine (Debian: apt-get install fio). Uses, where they are installed: nbdkit, qemu-nbd and qemu-img \
(nbdkit, qemu-utils) as peers, nbdfuse (libnbd-bin, fuse3) for the scenarios nfs and buffered. The latter mounts a file system, by a \
loop device over nbdfuse's file: it needs root, mkfs.ext4 (e2fsprogs), losetup and mount besides. What is missing is said in a line, and \
the scenario left out.

Exit status: 0 done, 1 the measurement could not be made, 2 a value was refused.")]
pub(crate) struct Args {
    /// What to measure: 1, 2, 3 (24, 8 and 4 jobs of 32k randrw with sha512), scaled (1, 1/3 and
    /// 1/6 jobs per CPU), 4k, buffered (4k through the page cache of a file system), nfs [default:
    /// all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = scenario())]
    scenarios: Vec<Scenario>,

    /// The scopes to serve with [default: all]
    #[arg(long, alias = "scope", value_name = "LIST", value_delimiter = ',', value_parser = one_of(&SCOPES))]
    scopes: Vec<&'static str>,

    /// Numbers of cores in a cache shard; the scopes cache_shard and cache_shard-strict are
    /// measured with each of them [default: CMWQ_CACHE_SHARD_SIZE, or else 8]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = whole(1, u32::MAX as usize), allow_hyphen_values = true)]
    shard_size: Vec<usize>,

    /// Block sizes for the scenario nfs, in bytes or with K
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size, default_values_t = [NFS_BLOCK], allow_hyphen_values = true)]
    nfs_block_size: Vec<u64>,

    /// Other NBD servers to compare with; -luks: encrypted [default: those that are installed]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(&PEERS_OR_NONE))]
    peers: Vec<&'static str>,

    /// How often each measurement is made; they take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole(1, MAX_RUNS), allow_hyphen_values = true)]
    pub(super) runs: usize,

    /// How long a measurement lasts, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = whole(1, MAX_RUNTIME), allow_hyphen_values = true)]
    runtime: u64,

    /// Size of the disk, 64M or more [default: 512M; for the scenario nfs the published 4G, or half of
    /// the free memory where a disk in memory is to have more]
    #[arg(long, value_name = "SIZE", value_parser = disk_size, allow_hyphen_values = true)]
    pub(super) size: Option<u64>,

    /// Let all servers serve new files in FOLDER instead of memory
    #[arg(long, value_name = "FOLDER", value_parser = folder, group = "medium")]
    file: Option<PathBuf>,

    /// Let all servers but those with -luks serve this block device instead of memory. ITS CONTENTS ARE LOST
    #[arg(long, value_name = "DEVICE", value_parser = device, group = "medium")]
    device: Option<PathBuf>,

    /// Read and write the file or device by io_uring: a request that has to wait for the disk is one
    /// work item before the disk works and one after, as in dm-crypt
    #[arg(long, requires = "medium")]
    pub(super) io_uring: bool,

    /// Length of the key in bits [default: as in the published tests, 256 for 4k and buffered, else 512]
    #[arg(long, value_name = "BITS", value_parser = key_bits())]
    pub(super) key_size: Option<usize>,

    /// Print the job file that fio gets for each load, and measure nothing
    #[arg(long)]
    pub(super) print_jobs: bool,

    /// Text to read, or JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,

    /// Also write a page with charts
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people to read.
    Text,
    /// For programs to read.
    Json,
}

/// What `--peers` may name.
const PEERS_OR_NONE: [&str; PEERS.len() + 1] = {
    let mut names = ["none"; PEERS.len() + 1];
    let mut at = 0;
    while at < PEERS.len() {
        names[at] = PEERS[at];
        at += 1;
    }
    names
};

impl Args {
    /// Checks what the parser cannot: whether the options are of use together.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let has_shards = self.scopes().iter().any(|scope| scope.starts_with(SHARDS));
        if !self.shard_size.is_empty() && !has_shards {
            return Err(CliError::new(
                "--shard-size needs the scope cache_shard or cache_shard-strict, and --scopes leaves them out",
            ));
        }
        if self.peers.len() > 1 && self.peers.contains(&"none") {
            return Err(CliError::new(format!(
                "--peers: {:?} has more than none: it must be none, or the names of peers",
                self.peers.join(",")
            )));
        }
        // A block must fit into the smallest disk.
        match self.nfs_block_size.iter().find(|&&block| block > LEAST) {
            Some(block) => Err(CliError::new(format!(
                "--nfs-block-size: {block} is too large: it must be {LEAST} bytes or less"
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn scenarios(&self) -> Vec<Scenario> {
        chosen(&self.scenarios, &Scenario::ALL)
    }

    pub(super) fn scopes(&self) -> Vec<&'static str> {
        chosen(&self.scopes, &SCOPES)
    }

    /// In cores. Empty: the server's default.
    pub(super) fn shard_sizes(&self) -> Vec<usize> {
        each_once(&self.shard_size)
    }

    /// In bytes.
    pub(super) fn nfs_blocks(&self) -> Vec<u64> {
        each_once(&self.nfs_block_size)
    }

    /// `None`: those installed.
    pub(super) fn peers(&self) -> Option<Vec<&'static str>> {
        let named = PEERS.into_iter().filter(|name| self.peers.contains(name));
        (!self.peers.is_empty()).then(|| named.collect())
    }

    pub(super) fn runtime(&self) -> Duration {
        Duration::from_secs(self.runtime)
    }

    pub(super) fn medium(&self) -> Medium {
        match (&self.file, &self.device) {
            (Some(folder), _) => Medium::Folder(folder.clone()),
            (None, Some(device)) => Medium::Device(device.clone()),
            (None, None) => Medium::Memory,
        }
    }
}

/// One of these names.
fn one_of(names: &'static [&'static str]) -> impl TypedValueParser<Value = &'static str> {
    PossibleValuesParser::new(names.iter().copied()).map(|name| {
        let known = names.iter().find(|known| **known == name);
        *known.expect("one of the possible values")
    })
}

fn scenario() -> impl TypedValueParser<Value = Scenario> {
    PossibleValuesParser::new(Scenario::ALL.map(Scenario::name)).map(|name| {
        let mut known = Scenario::ALL.into_iter();
        let found = known.find(|scenario| scenario.name() == name);
        found.expect("one of the possible values")
    })
}

fn key_bits() -> impl TypedValueParser<Value = usize> {
    PossibleValuesParser::new(["256", "512"]).try_map(|bits| bits.parse::<usize>())
}

/// The size of a disk that has room for all jobs.
fn disk_size(text: &str) -> Result<u64, String> {
    let size = size(text)?;
    let enough = (size >= LEAST).then_some(size);
    enough.ok_or_else(|| "it must be 64M or more".to_owned())
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let found = std::fs::metadata(text).map_err(|error| error.to_string())?;
    let folder = found.is_dir().then(|| PathBuf::from(text));
    folder.ok_or_else(|| "it is not a folder: new files are made in it".to_owned())
}

fn device(text: &str) -> Result<PathBuf, String> {
    let found = std::fs::metadata(text).map_err(|error| error.to_string())?;
    if !found.file_type().is_block_device() {
        return Err("it is not a block device".to_owned());
    }
    // As a server opens it, for which a device that is mounted is none.
    let opened = FileStore::open(Path::new(text), false, 512);
    opened.map_err(|error| error.to_string())?;
    Ok(PathBuf::from(text))
}

/// What was named, in the order of all; if nothing was, all.
fn chosen<T: Copy + PartialEq>(named: &[T], all: &[T]) -> Vec<T> {
    let is_named = |each: &T| named.is_empty() || named.contains(each);
    all.iter().copied().filter(is_named).collect()
}

/// Each value once, in the order given.
fn each_once<T: Copy + PartialEq>(given: &[T]) -> Vec<T> {
    let first = |(at, value): (usize, &T)| (!given[..at].contains(value)).then_some(*value);
    given.iter().enumerate().filter_map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn read(words: &[&str]) -> Result<Args, CliError> {
        let words = ["bench"].iter().chain(words);
        let Cli { args } =
            Cli::try_parse_from(words).map_err(|error| CliError::from_clap(&error))?;
        args.check()?;
        Ok(args)
    }

    fn refused(words: &[&str]) -> String {
        let message = read(words).expect_err("must be refused").to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message
    }

    #[test]
    fn defaults_are_everything() {
        let args = read(&[]).unwrap();
        assert_eq!(args.scenarios(), Scenario::ALL);
        assert_eq!(args.scopes(), SCOPES);
        assert!(args.peers().is_none() && args.format == Format::Text);
        assert!(args.shard_sizes().is_empty());
        assert_eq!(args.nfs_blocks(), [512]);
        assert_eq!((args.runs, args.runtime()), (3, Duration::from_secs(5)));
    }

    #[test]
    fn lists_name_what_is_not_known() {
        assert!(refused(&["--scenarios", "1,5"]).contains("'5'"));
        assert!(refused(&["--scopes", "Cache"]).contains("cache-strict"));
        assert!(refused(&["--peers", "ceph"]).contains("none"));
        let both = refused(&["--peers", "qemu,none"]);
        assert!(both.contains(r#""qemu,none""#), "{both}");
        assert!(refused(&["--format", "xml"]).contains("text, json"));
        for bad in ["0", "", "x", "1.5"] {
            assert!(refused(&["--runs", bad]).contains("from 1 to"));
            assert!(refused(&["--runtime", bad]).contains("from 1 to"));
        }
        assert!(refused(&["--size", "1M"]).contains("64M"));
        let args = read(&["--scenarios", "nfs,1", "--peers", "none"]).unwrap();
        let names: Vec<_> = args.scenarios().iter().map(|each| each.name()).collect();
        assert_eq!(names, ["1", "nfs"]);
        assert_eq!(args.peers(), Some(vec![]));
        let two = read(&["--peers", "qemu,nbdkit-file"]).unwrap();
        assert_eq!(two.peers().unwrap(), ["nbdkit-file", "qemu"]);
    }

    #[test]
    fn the_disk_is_in_memory_or_where_it_is_said_to_be() {
        let args = read(&["--file", "/", "--io-uring", "--key-size", "256"]).unwrap();
        assert_eq!(args.medium(), Medium::Folder("/".into()));
        assert!(args.io_uring && args.key_size == Some(256));
        assert!(refused(&["--io-uring"]).contains("--file"));
        for (words, why) in [
            (["--key-size", "128"], "256, 512"),
            (["--file", "/dev/null"], "not a folder"),
            (["--device", "/dev/null"], "not a block device"),
            (["--device", "/nowhere/at/all"], "No such file"),
        ] {
            let message = refused(&words);
            assert!(
                message.contains(why) && message.contains(words[1]),
                "{message}"
            );
        }
        assert!(refused(&["--file", "/", "--device", "/"]).contains("--device"));
    }

    #[test]
    fn sizes_are_lists_that_must_be_of_use() {
        let args = read(&["--shard-size", "4,1,4", "--nfs-block-size", "4K,512,4096"]).unwrap();
        assert_eq!(args.shard_sizes(), [4, 1]);
        assert_eq!(args.nfs_blocks(), [4096, 512]);
        for bad in ["0", "", "1,,2", "-1", "x", "4294967296"] {
            let message = refused(&["--shard-size", bad]);
            assert!(
                message.contains("--shard-size") && message.contains("from 1 to"),
                "{message}"
            );
        }
        for bad in ["", "0", "1000", "512,", "4k", "-512"] {
            let message = refused(&["--nfs-block-size", bad]);
            assert!(message.contains("--nfs-block-size"), "{message}");
        }
        // Each job has the whole disk, and not a part of it.
        assert_eq!(
            read(&["--nfs-block-size", "16M"]).unwrap().nfs_blocks(),
            [16 << 20]
        );
        let message = refused(&["--nfs-block-size", "65M"]);
        assert!(
            message.contains("68157440 is too large") && message.contains("67108864 bytes"),
            "{message}"
        );
        let message = refused(&["--scopes", "cache,cpu", "--shard-size", "4"]);
        assert!(message.contains("cache_shard"), "{message}");
    }
}

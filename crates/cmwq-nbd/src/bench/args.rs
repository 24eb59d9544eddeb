//! The options of `cmwq-nbd bench`, and their reading.

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::bench::plan::{NFS_BLOCK, NFS_JOBS, PEERS, SCOPES, SHARDS, Scenario};
use crate::bench::subject::Medium;
use crate::serve::{size, whole_number};
use cmwq_command::CliError;

/// The smallest disk.
const LEAST: u64 = 64 << 20;
const MAX_RUNS: usize = 1000;
const MAX_RUNTIME: usize = 3600;

#[derive(clap::Args, Debug, Clone, Default)]
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
    /// A list of: 1, 2, 3 (24, 8 and 4 jobs of 32k randrw with sha512), scaled (1, 1/3 and 1/6 jobs per CPU), 4k, buffered
    /// (4k through the page cache of a file system), nfs [default: all]
    #[arg(long, value_name = "LIST")]
    scenarios: Option<String>,

    #[arg(long, alias = "scope", value_name = "LIST", help = format!("A list of scopes to serve with: {} [default: all]", SCOPES.join(", ")))]
    scopes: Option<String>,

    /// A list of numbers of cores in a cache shard; the scopes cache_shard and cache_shard-strict are measured with each of them [default:
    /// CMWQ_CACHE_SHARD_SIZE, or else 8]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    shard_size: Option<String>,

    /// A list of block sizes for the scenario nfs, in bytes or with K [default: 512]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    nfs_block_size: Option<String>,

    /// A list of other NBD servers to compare with, or none: nbdkit-memory, nbdkit-file and qemu, each also with -luks for encryption [default: those that are installed]
    #[arg(long, value_name = "LIST")]
    peers: Option<String>,

    /// How often each measurement is made; they take turns [default: 3]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    runs: Option<String>,

    /// How long a measurement lasts, in seconds [default: 5]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    runtime: Option<String>,

    /// Size of the disk [default: 512M; for the scenario nfs the published 4G. A disk in memory has
    /// half of the free memory at most]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    size: Option<String>,

    /// Let all servers serve new files in FOLDER instead of memory
    #[arg(long, value_name = "FOLDER", conflicts_with = "device")]
    file: Option<PathBuf>,

    /// Let all servers but those with -luks serve this block device instead of memory. ITS CONTENTS ARE LOST
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,

    /// Read and write the file or device by io_uring: a request is one work item before the disk works and one after, as in dm-crypt
    #[arg(long)]
    io_uring: bool,

    /// Length of the key in bits, 256 or 512 [default: as in the published tests, 256 for 4k and buffered, else 512]
    #[arg(long, value_name = "BITS")]
    key_size: Option<String>,

    /// Print the job file that fio gets for each load, and measure nothing
    #[arg(long)]
    print_jobs: bool,

    /// Format of the output: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// Also write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) struct Options {
    pub(super) scenarios: Vec<Scenario>,
    pub(super) scopes: Vec<&'static str>,
    /// In cores. Empty: the server's default.
    pub(super) shard_sizes: Vec<usize>,
    /// In bytes.
    pub(super) nfs_blocks: Vec<u64>,
    /// `None`: those installed.
    pub(super) peers: Option<Vec<&'static str>>,
    pub(super) runs: usize,
    pub(super) runtime: Duration,
    /// `None`: the scenario's.
    pub(super) size: Option<u64>,
    pub(super) medium: Medium,
    pub(super) io_uring: bool,
    /// `None`: the scenario's.
    pub(super) key_bits: Option<usize>,
    pub(super) print_jobs: bool,
    pub(super) json: bool,
    pub(super) html: Option<PathBuf>,
}

impl Args {
    pub(super) fn options(&self) -> Result<Options, CliError> {
        let number = |option: &str, text: &Option<String>, default, most| match text {
            None => Ok(default),
            Some(text) => whole_number(option, text, most),
        };
        let scenarios = match &self.scenarios {
            None => Scenario::ALL.to_vec(),
            Some(text) => {
                let names = Scenario::ALL.map(Scenario::name);
                let chosen = list("--scenarios", text, &names)?;
                let is_chosen = |scenario: &Scenario| chosen.contains(&scenario.name());
                Scenario::ALL.into_iter().filter(is_chosen).collect()
            }
        };
        let peers = match self.peers.as_deref() {
            None => None,
            Some("none") => Some(Vec::new()),
            Some(text) => Some(list("--peers", text, &PEERS)?),
        };
        let size = self.size.as_deref().map(disk_size).transpose()?;
        let medium = self.medium()?;
        if self.io_uring && medium == Medium::Memory {
            return Err(CliError::new("--io-uring: it needs --file or --device"));
        }
        let scopes = self
            .scopes
            .as_deref()
            .map_or(Ok(SCOPES.to_vec()), |text| list("--scopes", text, &SCOPES))?;
        let shard_sizes = match self.shard_size.as_deref() {
            None => Vec::new(),
            Some(text) => shard_sizes(text, &scopes)?,
        };
        let nfs_blocks = match self.nfs_block_size.as_deref() {
            None => vec![NFS_BLOCK],
            Some(text) => nfs_blocks(text, size.unwrap_or(LEAST))?,
        };
        Ok(Options {
            scenarios,
            scopes,
            shard_sizes,
            nfs_blocks,
            peers,
            runs: number("--runs", &self.runs, 3, MAX_RUNS)?,
            runtime: Duration::from_secs(number("--runtime", &self.runtime, 5, MAX_RUNTIME)? as u64),
            size,
            medium,
            io_uring: self.io_uring,
            key_bits: match self.key_size.as_deref() {
                None => None,
                Some("256") => Some(256),
                Some("512") => Some(512),
                Some(other) => {
                    return Err(CliError::new(format!(
                        "--key-size: {other:?} is not possible: it must be 256 or 512"
                    )));
                }
            },
            print_jobs: self.print_jobs,
            json: match self.format.as_deref() {
                None | Some("text") => false,
                Some("json") => true,
                Some(other) => {
                    return Err(CliError::new(format!(
                        "--format: {other:?} is not a format: it must be text or json"
                    )));
                }
            },
            html: self.html.clone(),
        })
    }
}

impl Args {
    fn medium(&self) -> Result<Medium, CliError> {
        let kind = |option: &str, path: &PathBuf| {
            let shown = path.display();
            let found = std::fs::metadata(path);
            found.map_err(|error| CliError::new(format!("{option}: {shown}: {error}")))
        };
        match (&self.file, &self.device) {
            (Some(folder), _) if kind("--file", folder)?.is_dir() => {
                Ok(Medium::Folder(folder.clone()))
            }
            (Some(other), _) => Err(CliError::new(format!(
                "--file: {} is not a folder: new files are made in it",
                other.display()
            ))),
            (None, Some(device)) if kind("--device", device)?.file_type().is_block_device() => {
                Ok(Medium::Device(device.clone()))
            }
            (None, Some(other)) => Err(CliError::new(format!(
                "--device: {} is not a block device",
                other.display()
            ))),
            (None, None) => Ok(Medium::Memory),
        }
    }
}

/// The size of a disk that has room for all jobs.
fn disk_size(text: &str) -> Result<u64, CliError> {
    let size = size("--size", text)?;
    let enough = size >= LEAST;
    enough.then_some(size).ok_or_else(|| {
        CliError::new(format!(
            "--size: {text:?} is too small: it must be 64M or more"
        ))
    })
}

/// A list of shard sizes, each once, in the order given. They must be of use to one of the scopes.
fn shard_sizes(text: &str, scopes: &[&'static str]) -> Result<Vec<usize>, CliError> {
    if !scopes.iter().any(|scope| scope.starts_with(SHARDS)) {
        return Err(CliError::new(format!(
            "--shard-size: {text:?} needs the scope cache_shard or cache_shard-strict, and --scopes leaves them out"
        )));
    }
    each_once(text, |word| {
        whole_number("--shard-size", word, u32::MAX as usize)
    })
}

/// A list of block sizes, each once, in the order given. Each job must have a block of a disk of `disk` bytes.
fn nfs_blocks(text: &str, disk: u64) -> Result<Vec<u64>, CliError> {
    let most = disk / NFS_JOBS as u64;
    each_once(text, |word| {
        let block = size("--nfs-block-size", word)?;
        if block > most {
            return Err(CliError::new(format!(
                "--nfs-block-size: {word:?} is too large: each of the {NFS_JOBS} jobs has {most} bytes of the disk"
            )));
        }
        Ok(block)
    })
}

fn each_once<T: PartialEq>(
    text: &str,
    read: impl Fn(&str) -> Result<T, CliError>,
) -> Result<Vec<T>, CliError> {
    let mut values = Vec::new();
    for word in text.split(',') {
        let value = read(word)?;
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Ok(values)
}

/// A list of names, each once, in the order of `allowed`.
fn list(option: &str, text: &str, allowed: &[&'static str]) -> Result<Vec<&'static str>, CliError> {
    let given: Vec<&str> = text.split(',').collect();
    if let Some(unknown) = given.iter().find(|name| !allowed.contains(name)) {
        return Err(CliError::new(format!(
            "{option}: {unknown:?} is not known: it must be one of {}, or a list of them{}",
            allowed.join(", "),
            if option == "--peers" { ", or none" } else { "" },
        )));
    }
    let chosen = allowed.iter().filter(|name| given.contains(name));
    Ok(chosen.copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Args)) -> String {
        let mut args = Args::default();
        change(&mut args);
        let message = args.options().err().expect("must be refused").to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message
    }

    #[test]
    fn defaults_are_everything() {
        let options = Args::default().options().unwrap();
        assert_eq!(options.scenarios, Scenario::ALL);
        assert_eq!(options.scopes, SCOPES);
        assert!(options.peers.is_none() && !options.json);
        assert!(options.shard_sizes.is_empty());
        assert_eq!(options.nfs_blocks, [512]);
        assert_eq!((options.runs, options.runtime), (3, Duration::from_secs(5)));
    }

    #[test]
    fn lists_name_what_is_not_known() {
        assert!(refused(|args| args.scenarios = Some("1,5".into())).contains("\"5\""));
        assert!(refused(|args| args.scopes = Some("Cache".into())).contains("cache-strict"));
        assert!(refused(|args| args.peers = Some("ceph".into())).ends_with(", or none"));
        assert!(refused(|args| args.format = Some("xml".into())).contains("text or json"));
        for bad in ["0", "", "x", "1.5"] {
            assert!(refused(|args| args.runs = Some(bad.into())).contains("from 1 to"));
            assert!(refused(|args| args.runtime = Some(bad.into())).contains("from 1 to"));
        }
        assert!(refused(|args| args.size = Some("1M".into())).contains("64M"));
        let some = Args {
            scenarios: Some("nfs,1".into()),
            peers: Some("none".into()),
            ..Args::default()
        };
        let options = some.options().unwrap();
        let names: Vec<_> = options.scenarios.iter().map(|each| each.name()).collect();
        assert_eq!(names, ["1", "nfs"]);
        assert_eq!(options.peers, Some(vec![]));
    }

    #[test]
    fn the_disk_is_in_memory_or_where_it_is_said_to_be() {
        let some = Args {
            file: Some("/".into()),
            io_uring: true,
            key_size: Some("256".into()),
            ..Args::default()
        };
        let options = some.options().unwrap();
        assert_eq!(options.medium, Medium::Folder("/".into()));
        assert!(options.io_uring && options.key_bits == Some(256));
        assert!(refused(|args| args.io_uring = true).contains("--file or --device"));
        let message = refused(|args| args.key_size = Some("128".into()));
        assert!(message.contains("256 or 512"), "{message}");
        let message = refused(|args| args.file = Some("/dev/null".into()));
        assert!(message.contains("not a folder"), "{message}");
        let message = refused(|args| args.device = Some("/dev/null".into()));
        assert!(message.contains("not a block device"), "{message}");
        let message = refused(|args| args.device = Some("/nowhere/at/all".into()));
        assert!(
            message.contains("--device: /nowhere/at/all: No such file"),
            "{message}"
        );
    }

    #[test]
    fn sizes_are_lists_that_must_be_of_use() {
        let some = Args {
            shard_size: Some("4,1,4".into()),
            nfs_block_size: Some("4K,512,4096".into()),
            ..Args::default()
        };
        let options = some.options().unwrap();
        assert_eq!(options.shard_sizes, [4, 1]);
        assert_eq!(options.nfs_blocks, [4096, 512]);
        for bad in ["0", "", "1,,2", "-1", "x", "4294967296"] {
            let message = refused(|args| args.shard_size = Some(bad.into()));
            assert!(
                message.contains("--shard-size") && message.contains("from 1 to"),
                "{message}"
            );
        }
        for bad in ["", "0", "1000", "512,", "4k", "-512"] {
            let message = refused(|args| args.nfs_block_size = Some(bad.into()));
            assert!(message.contains("--nfs-block-size"), "{message}");
        }
        let message = refused(|args| args.nfs_block_size = Some("16M".into()));
        assert!(
            message.contains("too large") && message.contains("335544 bytes"),
            "{message}"
        );
        let message = refused(|args| {
            args.scopes = Some("cache,cpu".into());
            args.shard_size = Some("4".into());
        });
        assert!(message.contains("cache_shard"), "{message}");
    }
}

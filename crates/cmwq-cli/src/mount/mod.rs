//! `cmwq mount`: the serving processes as a file system, in the layout of the kernel's files.
//!
//! | file | holds |
//! |---|---|
//! | `tree` | what there is: paths, and what reading and writing them does |
//! | `fs` | the same to FUSE |

mod fs;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::output;
use cmwq_command::CliError;

const EXAMPLES: &str = "\
Examples:
  mkdir -p /tmp/wq && cmwq mount /tmp/wq &
  cat /tmp/wq/1234/io/affinity_scope
  echo cache_shard > /tmp/wq/1234/io/affinity_scope
  echo cache > /tmp/wq/1234/parameters/default_affinity_scope
  umount /tmp/wq

In the folder of each serving process: a folder for each workqueue with its attributes (see `cmwq get --help`), cpumask, cpumask_requested and \
cpumask_isolated, and parameters/ (see `cmwq param --help`). A write that the kernel's file would refuse fails with the same error. \
It ends with `umount`, or when it is interrupted. It needs /dev/fuse and, unless you are root, fusermount3 (package fuse3).";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An empty folder
    dir: PathBuf,
}

/// How often the command polls whether it was unmounted or is to end.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let dir = &args.dir;
    let failed = |why: &str| CliError::new(format!("cannot mount on {}: {why}", dir.display()));
    if !Path::new("/dev/fuse").exists() {
        return Err(failed(
            "/dev/fuse is missing; load the kernel module fuse, or give the container the device",
        ));
    }
    if !dir.is_dir() {
        return Err(failed("it is not a folder"));
    }
    let end = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, end.clone())
            .map_err(|error| failed(&error.to_string()))?;
    }
    let mut config = fuser::Config::default();
    config.mount_options = vec![
        fuser::MountOption::FSName("cmwq".to_owned()),
        fuser::MountOption::NoSuid,
        fuser::MountOption::NoDev,
        fuser::MountOption::NoExec,
    ];
    let session = fuser::spawn_mount(fs::ControlFs::new(), dir, &config)
        .map_err(|error| failed(&error.to_string()))?;
    output::print(&format!("mounted on {}\n", dir.display()))?;
    while !end.load(Ordering::Relaxed) && !session.guard.is_finished() {
        std::thread::sleep(LOOK);
    }
    if session.guard.is_finished() {
        // Unmounted by another process.
        return Ok(());
    }
    session
        .umount_and_join()
        .map_err(|error| CliError::new(format!("cannot unmount {}: {error}", dir.display())))
}

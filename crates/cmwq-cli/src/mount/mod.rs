//! `cmwq mount`: the serving processes as a file system, in the layout of the kernel's files.
//!
//! | file | holds |
//! |---|---|
//! | `tree` | what there is: paths, and what reading and writing them does |
//! | `fs` | the same to FUSE |

mod fs;
mod tree;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::{output, signals};
use cmwq_command::CliError;
use rustix::mount::UnmountFlags;

const EXAMPLES: &str = "\
Examples:
  mkdir -p /tmp/wq && cmwq mount /tmp/wq &
  cat /tmp/wq/1234/io/affinity_scope
  echo cache_shard > /tmp/wq/1234/io/affinity_scope
  echo cache > /tmp/wq/1234/parameters/default_affinity_scope
  umount /tmp/wq

In the folder of each serving process: a folder for each workqueue with its attributes (see `cmwq get --help`), cpumask, cpumask_requested and \
cpumask_isolated, and parameters/ (see `cmwq param --help`). A write that the kernel's file would refuse fails with the same error. \
The files of a process that does not answer, as one that is stopped, fail with ETIMEDOUT after 5 s. \
It ends with `umount`, or when it is interrupted. One that was killed leaves its mount behind, in which everything fails with \
ENOTCONN: `fusermount3 -u DIR` (or, as root, `umount DIR`) removes it. It needs /dev/fuse and, unless you are root, fusermount3 (package fuse3).";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An empty folder
    dir: PathBuf,
}

/// How often the command polls whether it was unmounted or is to end.
const LOOK: Duration = Duration::from_millis(100);
/// One that waits for a process which does not answer leaves the others to the rest.
const THREADS: usize = 8;

/// The mount point in which `dir` is, or which it is: the first folder of its path that is not connected.
fn stale_mount(dir: &Path) -> PathBuf {
    let path = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let is_stale = |folder: &&Path| {
        let entry = std::fs::metadata(folder);
        entry.is_err_and(|error| error.kind() == ErrorKind::NotConnected)
    };
    let stale = path.ancestors().take_while(is_stale).last();
    stale.map_or(path.clone(), Path::to_owned)
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let dir = &args.dir;
    let failed = |why: &str| CliError::failed(format!("cannot mount on {}: {why}", dir.display()));
    if !Path::new("/dev/fuse").exists() {
        return Err(failed(
            "/dev/fuse is missing; load the kernel module fuse, or give the container the device",
        ));
    }
    match std::fs::metadata(dir) {
        Ok(entry) if entry.is_dir() => {}
        // The system's words are of a transport endpoint.
        Err(error) if error.kind() == ErrorKind::NotConnected => {
            let dir = stale_mount(dir);
            let dir = dir.display();
            return Err(failed(&format!(
                "the command that was mounted there was killed, and its mount is left; run \
                 `fusermount3 -u {dir}` (or, as root, `umount {dir}`), and try again"
            )));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(failed(&error.to_string()));
        }
        _ => return Err(failed("it is not a folder")),
    }
    // What lies in it would be out of sight, and so would the files of another `cmwq mount`.
    if std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(failed("the folder is not empty"));
    }
    let end = signals::told_to_end().map_err(|error| failed(&error.to_string()))?;
    let mut config = fuser::Config::default();
    config.mount_options = vec![
        fuser::MountOption::FSName("cmwq".to_owned()),
        fuser::MountOption::NoSuid,
        fuser::MountOption::NoDev,
        fuser::MountOption::NoExec,
    ];
    config.n_threads = Some(THREADS);
    let session = fuser::spawn_mount(fs::ControlFs::new(), dir, &config).map_err(|error| {
        let privileged = rustix::process::geteuid().is_root();
        failed(&match error.kind() {
            // The system's words do not say what of.
            ErrorKind::NotFound | ErrorKind::PermissionDenied if !privileged => {
                format!(
                    "{error}; users other than root need /dev/fuse and fusermount3 (package fuse3)"
                )
            }
            _ => error.to_string(),
        })
    })?;
    output::print(&format!("mounted on {}\n", dir.display()))?;
    while !end.load(Ordering::Relaxed) && !session.guard.is_finished() {
        std::thread::sleep(LOOK);
    }
    if session.guard.is_finished() {
        // Unmounted by another process.
        return Ok(());
    }
    // Even if it is in use; for users other than root `fusermount3` does the same.
    if rustix::mount::unmount(dir, UnmountFlags::DETACH).is_ok() {
        return Ok(());
    }
    session
        .umount_and_join()
        .map_err(|error| CliError::failed(format!("cannot unmount {}: {error}", dir.display())))
}

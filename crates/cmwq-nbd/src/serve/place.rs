//! Where a server listens that is not told where: at a Unix socket, in a folder that only its user
//! can change.
#![forbid(unsafe_code)]

use std::env;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use cmwq_command::CliError;

/// The folder below the user's own, or the system's.
const FOLDER: &str = "cmwq-nbd";

/// The socket of an export: `$XDG_RUNTIME_DIR/cmwq-nbd/NAME.sock`, or, for root without that,
/// `/run/cmwq-nbd/NAME.sock`. Its folder is made if it is not there.
pub(super) fn default_socket(name: &str) -> Result<PathBuf, CliError> {
    if name.contains('/') {
        return Err(CliError::new(format!(
            "--name: {name:?} has a '/', so no socket can be named after it: say where to listen, with --socket PATH"
        )));
    }
    let own = rustix::process::geteuid().as_raw();
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    // That of another user, as sudo may leave it, is none of ours.
    let belongs_to_own = |dir: &PathBuf| std::fs::metadata(dir).is_ok_and(|dir| dir.uid() == own);
    let (parent, mode) = match runtime
        .filter(|dir| dir.is_absolute())
        .filter(belongs_to_own)
    {
        Some(dir) => (dir, 0o700),
        // Where the service manager makes its sockets.
        None if own == 0 => (PathBuf::from("/run"), 0o755),
        None => {
            return Err(CliError::new(
                "this user has no folder for sockets (XDG_RUNTIME_DIR): say where to listen, with --socket PATH",
            ));
        }
    };
    let folder = parent.join(FOLDER);
    make(&folder, mode, own)?;
    Ok(folder.join(format!("{name}.sock")))
}

fn make(folder: &Path, mode: u32, own: u32) -> Result<(), CliError> {
    let because = |why: &str| {
        CliError::failed(format!(
            "cannot listen in {}: {why}; --socket PATH says where else",
            folder.display()
        ))
    };
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(because(&error.to_string()));
        }
        _ => {}
    }
    let there = std::fs::symlink_metadata(folder).map_err(|error| because(&error.to_string()))?;
    match () {
        () if !there.is_dir() => Err(because("it is not a folder")),
        () if there.uid() != own => Err(because("it belongs to another user")),
        () if there.mode() & 0o022 != 0 => Err(because("others may change it")),
        () => Ok(()),
    }
}

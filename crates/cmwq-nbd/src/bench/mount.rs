//! The export as a file, and a file system on it.
//!
//! ```text
//! server ◄─ NBD ─ nbdfuse ◄─ FUSE ─ file ◄─ loop device ◄─ ext4 ◄─ fio
//! ```
//!
//! The kernel's own NBD client would make the two steps in the middle one, but few systems have its
//! module loaded, and nbdfuse needs none. The loop device does its I/O directly, past the page
//! cache: data are cached once, by the file system.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::subject::{Workspace, install, own_group, stop};
use cmwq_command::CliError;

/// A mount that does not come up within this time is given up.
const GRACE: Duration = Duration::from_secs(120);
/// A file system that stays busy for longer is detached.
const UNMOUNT_GRACE: Duration = Duration::from_secs(20);
/// Of the disk for the trial: ext4 takes less.
const TRIAL_SIZE: u64 = 16 << 20;

/// The export as a file, by nbdfuse, until dropped.
pub(super) struct ExportedFile {
    file: PathBuf,
    child: Child,
}

impl ExportedFile {
    /// Whether this machine can; if not, what it lacks.
    pub(super) fn is_possible() -> Result<(), String> {
        for (program, package) in [("nbdfuse", "libnbd-bin"), ("fusermount3", "fuse3")] {
            install(program, package)?;
        }
        if !Path::new("/dev/fuse").exists() {
            return Err("there is no /dev/fuse".to_owned());
        }
        Ok(())
    }

    pub(super) fn new(uri: &str, workspace: &Workspace) -> Result<Self, CliError> {
        let file = workspace.path("mounted");
        let ready = workspace.path("nbdfuse.pid");
        let _ = std::fs::remove_file(&ready);
        let child = std::fs::write(&file, b"").and_then(|()| {
            own_group(&mut Command::new("nbdfuse"))
                .arg("-P")
                .args([&ready, &file])
                .arg(uri)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
        });
        let child = child.map_err(|error| CliError::failed(format!("nbdfuse: {error}")))?;
        let mut mounted = ExportedFile { file, child };
        let since = Instant::now();
        // It writes its pid when the file is there.
        while !ready.exists() {
            let ended = !matches!(mounted.child.try_wait(), Ok(None));
            if ended || since.elapsed() > GRACE {
                return Err(CliError::failed("nbdfuse does not mount the export"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(mounted)
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }
}

impl Drop for ExportedFile {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3")
            .arg("-u")
            .arg(&self.file)
            .status();
        // nbdfuse does not end by itself if the unmounting failed.
        stop(&mut self.child);
    }
}

/// A file system on the export, until dropped.
pub(super) struct FileSystem {
    // Dropped in this order: what is mounted, and then what it is on.
    mount: Mount,
    _on: ExportedFile,
}

impl FileSystem {
    /// Whether this machine can, found out by trying it on a small file; if not, what it lacks.
    pub(super) fn is_possible(workspace: &Workspace) -> Result<(), String> {
        ExportedFile::is_possible()?;
        for (program, package) in [
            ("mkfs.ext4", "e2fsprogs"),
            ("losetup", "mount"),
            ("mount", "mount"),
            ("umount", "mount"),
        ] {
            install(program, package)?;
        }
        if !rustix::process::geteuid().is_root() {
            return Err("mounting a file system needs root".to_owned());
        }
        if let Err(error) = io_uring::IoUring::new(1) {
            return Err(format!("io_uring cannot be used: {error}"));
        }
        let mounted = workspace
            .sparse_file("trial", TRIAL_SIZE)
            .and_then(|file| Mount::new(Path::new(&file), Direct::No, workspace).map(drop));
        let _ = std::fs::remove_file(workspace.path("trial"));
        mounted.map_err(|error| format!("a file system cannot be mounted here: {error}"))
    }

    pub(super) fn new(uri: &str, workspace: &Workspace) -> Result<Self, CliError> {
        let file = ExportedFile::new(uri, workspace)?;
        Ok(FileSystem {
            mount: Mount::new(file.path(), Direct::Yes, workspace)?,
            _on: file,
        })
    }

    /// Where the file to be measured is, or is to be.
    pub(super) fn file(&self) -> PathBuf {
        self.mount.dir.join("file")
    }

    /// The bytes of that file: the rest is for the file system itself.
    pub(super) fn room(disk: u64) -> u64 {
        disk / 4 * 3
    }
}

/// Whether a loop device goes around the page cache of the file that it is on.
#[derive(Clone, Copy)]
enum Direct {
    Yes,
    No,
}

/// A new ext4 in a file, mounted until dropped.
struct Mount {
    dir: PathBuf,
}

impl Mount {
    fn new(file: &Path, direct: Direct, workspace: &Workspace) -> Result<Self, CliError> {
        let dir = workspace.path("fs");
        std::fs::create_dir_all(&dir)
            .map_err(|error| CliError::failed(format!("{}: {error}", dir.display())))?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show"]);
        if let Direct::Yes = direct {
            losetup.arg("--direct-io=on");
        }
        let device = LoopDevice(said(losetup.arg(file))?.trim().to_owned());
        // All at once, and nothing later in the background.
        said(
            Command::new("mkfs.ext4")
                .args(["-q", "-F", "-E"])
                .arg("lazy_itable_init=0,lazy_journal_init=0,nodiscard")
                .arg(&device.0),
        )?;
        said(
            Command::new("mount")
                .args(["-o", "noatime", &device.0])
                .arg(&dir),
        )?;
        // `device` is dropped here: it goes with the mount, also if this process is killed and
        // another one unmounts.
        Ok(Mount { dir })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let umount = |option: Option<&str>| {
            let mut command = Command::new("umount");
            said(command.args(option).arg(&self.dir)).is_ok()
        };
        let since = Instant::now();
        while !umount(None) {
            if since.elapsed() > UNMOUNT_GRACE {
                umount(Some("--lazy"));
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A loop device. After its drop the kernel detaches it with its last user.
struct LoopDevice(String);

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = said(Command::new("losetup").args(["--detach", &self.0]));
    }
}

/// Runs a program to its end; what it printed. If it fails, its first complaint.
fn said(command: &mut Command) -> Result<String, CliError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| CliError::failed(format!("{program}: {error}")))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&done.stderr);
    let complaint = complaint.lines().find(|line| !line.trim().is_empty());
    Err(CliError::failed(match complaint {
        // Most begin with their name.
        Some(line) if line.starts_with(&program) => line.to_owned(),
        Some(line) => format!("{program}: {line}"),
        None => format!("{program}: {}", done.status),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_complains_of_is_one_line_with_its_name() {
        let sh = |script: &str| said(Command::new("sh").args(["-c", script]));
        assert_eq!(sh("echo fine").unwrap(), "fine\n");
        let complaint = |script: &str| sh(script).unwrap_err().to_string();
        assert_eq!(
            complaint("echo >&2; echo first >&2; echo second >&2; false"),
            "sh: first"
        );
        assert_eq!(complaint("echo 'sh: its name' >&2; false"), "sh: its name");
        assert!(complaint("exit 3").contains("exit status: 3"));
        let missing = said(&mut Command::new("no-such-program")).unwrap_err();
        assert!(
            missing.to_string().starts_with("no-such-program: "),
            "{missing}"
        );
    }
}

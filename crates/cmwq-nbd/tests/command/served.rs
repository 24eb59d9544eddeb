//! The command, serving, and other programs on it. What is not installed is skipped, with a line
//! that says so.

use crate::common::{Deadline, Dir, pattern};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Programs and the Debian packages they are in.
const PACKAGES: [(&str, &str); 9] = [
    ("nbdinfo", "libnbd-bin"),
    ("nbdcopy", "libnbd-bin"),
    ("nbdfuse", "libnbd-bin"),
    ("nbdsh", "python3-libnbd"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("mkfs.ext4", "e2fsprogs"),
    ("fusermount3", "fuse3"),
    ("fio", "fio"),
];

/// Whether all are there. Says which is not.
pub(super) fn have(test: &str, programs: &[&str]) -> bool {
    for program in programs {
        let package = PACKAGES
            .iter()
            .find(|(name, _)| name == program)
            .expect("in the table")
            .1;
        let found = std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path)
                .chain(["/sbin".into(), "/usr/sbin".into()])
                .any(|dir| dir.join(program).exists())
        });
        if !found {
            println!("{test}: skipped, because {program} is missing (apt-get install {package})");
            return false;
        }
    }
    true
}

/// The command, serving.
pub(super) struct Served {
    pub(super) child: Child,
    pub(super) uri: String,
    pub(super) dir: Dir,
    _deadline: Deadline,
}

impl Served {
    pub(super) fn start(dir: Dir, args: &[&str]) -> Served {
        let deadline = Deadline::long("a test of the command that serves");
        let mut child = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
            .arg("serve")
            .args(args)
            .arg("--socket")
            .arg(dir.file("socket"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let uri = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(uri.starts_with("nbd+unix:///?socket="), "{line}");
        Served {
            child,
            uri,
            dir,
            _deadline: deadline,
        }
    }

    /// Encrypted, in a new sparse file.
    pub(super) fn encrypted(size: u64) -> Served {
        Self::encrypted_by(size, &[])
    }

    pub(super) fn encrypted_by(size: u64, way: &[&str]) -> Served {
        let dir = Dir::new();
        let (key, image) = (key_file(&dir), dir.file("image"));
        std::fs::File::create(&image)
            .unwrap()
            .set_len(size)
            .unwrap();
        Self::start(
            dir,
            &[
                &[
                    path(&image),
                    "--cipher",
                    "aes-xts-plain64",
                    "--key-file",
                    path(&key),
                ],
                way,
            ]
            .concat(),
        )
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.file("socket")
    }

    /// SIGTERM; the exit status.
    pub(super) fn stop(mut self) -> i32 {
        terminate(&self.child);
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Options for each way in which a file can be read and written here.
pub(super) fn ways() -> impl Iterator<Item = &'static [&'static str]> {
    let dir = Dir::new();
    let file = dir.file("any");
    std::fs::write(&file, b"some").unwrap();
    let stores = crate::common::ways(&file, 1).count();
    [&[][..], &["--io-uring"]].into_iter().take(stores)
}

pub(super) fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

pub(super) fn key_file(dir: &Dir) -> PathBuf {
    let key = dir.file("key");
    std::fs::write(&key, pattern(12345, 64, 77)).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    key
}

pub(super) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a program to its end; what it printed. It must succeed.
pub(super) fn run(program: &str, args: &[&str]) -> String {
    // The system's first: nbdsh wants the Python that it was installed for.
    let path =
        "/usr/sbin:/usr/bin:/sbin:/bin:".to_owned() + &std::env::var("PATH").unwrap_or_default();
    let done = Command::new(program)
        .args(args)
        .env("PATH", path)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let (out, errors) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(
        done.status.success(),
        "{program} {args:?}: {}\n{out}\n{errors}",
        done.status
    );
    out.into_owned()
}

/// A file that is partly data and partly holes.
pub(super) fn some_file(dir: &Dir, size: usize) -> PathBuf {
    let file = dir.file("original");
    let mut bytes = pattern(0, size, 3);
    bytes[size / 4..size / 2].fill(0);
    std::fs::write(&file, bytes).unwrap();
    file
}

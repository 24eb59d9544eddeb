//! Starting and stopping the servers.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cmwq_nbd::protocol::{OPTION_MAGIC, handshake, option};

use crate::bench::counts::Counts;
use crate::bench::plan::{STRICT, Subject};
use crate::serve::{INLINE, REQUESTS};
use cmwq_command::CliError;

/// A server that does not come up, or does not go, within this time is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of LUKS images. They hold nothing.
const PASSPHRASE: &str = "benchmark";
/// Times that the image is tried to be made.
const ATTEMPTS: usize = 10;

/// The error of a run that was told to stop.
pub(super) fn interrupted() -> CliError {
    CliError::failed("stopped by a signal")
}

/// That a program can be found; if not, what to do about it.
pub(super) fn install(program: &str, package: &str) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    found
        .then_some(())
        .ok_or_else(|| format!("{program} is missing (apt-get install {package})"))
}

/// Makes `command` a process group of its own: Ctrl-C reaches only this process, which stops it
/// when it is unused.
pub(super) fn own_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// The programs that a subject needs, and their packages.
pub(super) fn programs(subject: Subject) -> &'static [(&'static str, &'static str)] {
    const NBDKIT: (&str, &str) = ("nbdkit", "nbdkit");
    const QEMU: (&str, &str) = ("qemu-nbd", "qemu-utils");
    // It makes the images.
    const IMAGES: (&str, &str) = ("qemu-img", "qemu-utils");
    match subject {
        Subject::Ours { .. } | Subject::OursPlain { .. } => &[],
        Subject::Peer("nbdkit-memory" | "nbdkit-file") => &[NBDKIT],
        Subject::Peer("qemu") => &[QEMU],
        Subject::Peer("qemu-luks") => &[QEMU, IMAGES],
        Subject::Peer(_) => &[NBDKIT, IMAGES],
    }
}

/// Where the data of the disk are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Memory,
    /// A new file in this folder, for each run.
    Folder(PathBuf),
    /// A block device, whose contents are lost.
    Device(PathBuf),
}

/// The disk that a server is to have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    /// In bytes.
    pub(super) size: u64,
    pub(super) key_bits: usize,
}

/// A directory for sockets and the keys: in memory, if the system has such a place; and one for images.
pub(super) struct Workspace {
    dir: PathBuf,
    /// The same, but for [`Medium::Folder`].
    images: PathBuf,
    medium: Medium,
    io_uring: bool,
    interrupted: Arc<AtomicBool>,
}

impl Workspace {
    /// From now on the first signal to stop is only noted: the command unmounts and stops servers
    /// in order. A Ctrl-C after it ends the process; no other signal does, since timeout(1) sends
    /// SIGTERM twice, to its command and to its process group.
    pub(super) fn new(medium: Medium, io_uring: bool) -> Result<Self, CliError> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let failed = |error| CliError::failed(format!("cannot wait for signals: {error}"));
        let status = i32::from(CliError::FAILED);
        // Before the flag: a first Ctrl-C finds it down.
        signal_hook::flag::register_conditional_shutdown(libc::SIGINT, status, interrupted.clone())
            .map_err(failed)?;
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register(signal, interrupted.clone()).map_err(failed)?;
        }
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let name = format!("cmwq-nbd-bench-{}", std::process::id());
        let dir = base.join(&name);
        let images = match &medium {
            Medium::Folder(folder) => folder.join(&name),
            Medium::Memory | Medium::Device(_) => dir.clone(),
        };
        let workspace = Workspace {
            dir,
            images,
            medium,
            io_uring,
            interrupted,
        };
        for dir in [&workspace.dir, &workspace.images] {
            std::fs::create_dir_all(dir)
                .map_err(|error| CliError::failed(format!("{}: {error}", dir.display())))?;
        }
        workspace.write_keys()?;
        Ok(workspace)
    }

    /// The key of each length.
    fn write_keys(&self) -> Result<(), CliError> {
        let mut key = [0; 64];
        let write = |name: &str, key: &[u8]| {
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600);
            file.open(self.path(name))?.write_all(key)
        };
        File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut key))
            .and_then(|()| write("key-256", &key[..32]))
            .and_then(|()| write("key-512", &key))
            .map_err(|error| CliError::failed(format!("cannot make a key: {error}")))
    }

    /// Whether the command was told to stop.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(super) fn sparse_file(&self, name: &str, size: u64) -> Result<String, CliError> {
        let path = self.images.join(name);
        File::create(&path)
            .and_then(|file| file.set_len(size))
            .map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
        Ok(path.display().to_string())
    }

    /// The header of a LUKS image, made once. Its key is derived quickly: nothing but the cipher is measured.
    fn luks_header(&self, key_bits: usize) -> Result<String, CliError> {
        let path = self.text(&format!("luks-header-{key_bits}"));
        // XTS has two keys.
        let cipher = format!("key-secret=s,iter-time=10,cipher-alg=aes-{}", key_bits / 2);
        if Path::new(&path).exists() {
            return Ok(path);
        }
        let secret = format!("secret,id=s,data={PASSPHRASE}");
        let mut problem = String::new();
        for _ in 0..ATTEMPTS {
            let made = Command::new("qemu-img")
                .args(["create", "-q", "-f", "luks", "--object", &secret])
                .args(["-o", &cipher, &path, "0"])
                .output()
                .map_err(|error| CliError::failed(format!("qemu-img: {error}")))?;
            if made.status.success() {
                return Ok(path);
            }
            // It times the derivation, and finds the machine too busy at times.
            problem = String::from_utf8_lossy(&made.stderr).into_owned();
            let _ = std::fs::remove_file(&path);
        }
        Err(CliError::failed(format!("qemu-img create: {problem}")))
    }

    /// A LUKS image of the size of the disk, with nothing in it; its path and its whole size.
    fn luks_image(&self, disk: &Disk, is_sparse: bool) -> Result<(String, u64), CliError> {
        let header = self.luks_header(disk.key_bits)?;
        let path = self.images.join("luks").display().to_string();
        std::fs::copy(&header, &path)
            .and_then(|length| {
                let whole = length + disk.size;
                if is_sparse {
                    File::options().write(true).open(&path)?.set_len(whole)?;
                }
                Ok((path.clone(), whole))
            })
            .map_err(|error| CliError::failed(format!("{path}: {error}")))
    }

    /// This program as a server, without a cipher. Its control endpoint, which has the counts, is
    /// in this directory.
    fn ours(&self, disk: &Disk, inline: bool) -> Result<Command, CliError> {
        let own = std::env::current_exe()
            .map_err(|error| CliError::failed(format!("cannot find its own program: {error}")))?;
        let mut command = Command::new(own);
        command.arg("serve");
        match &self.medium {
            Medium::Memory => command.args(["--memory", &disk.size.to_string()]),
            Medium::Folder(_) => command.arg(self.sparse_file("disk", disk.size)?),
            Medium::Device(device) => command.arg(device),
        };
        if self.io_uring {
            command.arg("--io-uring");
        }
        command.args(["--inline", if inline { "short" } else { "none" }]);
        command.args([
            "--name",
            NAME,
            "--socket",
            &self.text("socket"),
            "--control",
        ]);
        command.env("XDG_RUNTIME_DIR", &self.dir);
        Ok(command)
    }

    /// The image or device that a peer serves as it is.
    fn raw(&self, disk: &Disk) -> Result<String, CliError> {
        match &self.medium {
            Medium::Device(device) => Ok(device.display().to_string()),
            Medium::Memory | Medium::Folder(_) => self.sparse_file("disk", disk.size),
        }
    }

    /// How to start `subject`. Its files are made anew, so that no run depends on an earlier one.
    fn command(&self, subject: Subject, disk: &Disk) -> Result<Command, CliError> {
        let socket = self.text("socket");
        let size = disk.size.to_string();
        let started = |program: &str, own: &[&str], words: &[&str]| {
            let mut command = Command::new(program);
            command.args(own).args(words);
            command
        };
        let nbdkit =
            |words: &[&str]| started("nbdkit", &["--foreground", "--unix", &socket], words);
        let shared = ["--socket", &socket, "--persistent", "--shared=300"];
        let qemu = |words: &[&str]| started("qemu-nbd", &shared, words);
        let passphrase = format!("passphrase={PASSPHRASE}");
        Ok(match subject {
            Subject::Ours {
                scope,
                shard_size,
                inline,
            } => {
                let mut command = self.ours(disk, inline)?;
                let key = self.text(&format!("key-{}", disk.key_bits));
                command.args(["--cipher", "aes-xts-plain64", "--key-file", &key]);
                let strict = scope.strip_suffix(STRICT);
                command.args(["--affinity-scope", strict.unwrap_or(scope)]);
                command.args(strict.map(|_| "--strict"));
                if let Some(size) = shard_size {
                    command.args(["--shard-size", &size.to_string()]);
                }
                command
            }
            Subject::OursPlain { inline } => self.ours(disk, inline)?,
            Subject::Peer("nbdkit-memory") => nbdkit(&["memory", &size]),
            Subject::Peer("nbdkit-memory-luks") => {
                // The header is loaded into the same memory that the plugin `memory` uses; the rest
                // is sparse.
                let (header, whole) = self.luks_image(disk, false)?;
                let (header, whole) = (format!("<{header}"), format!("size={whole}"));
                nbdkit(&["--filter=luks", "data", &header, &whole, &passphrase])
            }
            Subject::Peer("nbdkit-file") => nbdkit(&["file", &self.raw(disk)?]),
            Subject::Peer("nbdkit-file-luks") => {
                let (image, _) = self.luks_image(disk, true)?;
                nbdkit(&["--filter=luks", "file", &image, &passphrase])
            }
            Subject::Peer("qemu") => qemu(&["--format=raw", &self.raw(disk)?]),
            Subject::Peer(_) => {
                let (image, _) = self.luks_image(disk, true)?;
                let secret = format!("secret,id=s,data={PASSPHRASE}");
                let image =
                    format!("driver=luks,key-secret=s,file.driver=file,file.filename={image}");
                qemu(&["--object", &secret, "--image-opts", &image])
            }
        })
    }

    /// Starts `subject` and waits until it listens.
    pub(super) fn start(&self, subject: Subject, disk: &Disk) -> Result<Running<'_>, CliError> {
        let what = |problem: &dyn std::fmt::Display| {
            CliError::failed(format!(
                "{} ({}): {problem}",
                subject.label(),
                subject.kind()
            ))
        };
        let mut child = own_group(&mut self.command(subject, disk)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| what(&error))?;
        let since = Instant::now();
        while !answers(&self.path("socket")) {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(what(&format_args!("did not start: {status}")));
            }
            if since.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                return Err(what(&"did not listen"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Running {
            child,
            workspace: self,
        })
    }
}

/// Whether a server listens at `socket`: says hello, and goodbye as the protocol wants it.
fn answers(socket: &Path) -> bool {
    let talk = || -> std::io::Result<()> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.read_exact(&mut [0; 18])?;
        let flags = u32::from(handshake::FIXED_NEWSTYLE);
        let mut goodbye = flags.to_be_bytes().to_vec();
        goodbye.extend(OPTION_MAGIC.to_be_bytes());
        goodbye.extend(option::ABORT.to_be_bytes());
        goodbye.extend(0u32.to_be_bytes());
        stream.write_all(&goodbye)?;
        // Its answer, or the end: until then it may still be writing.
        let _ = stream.read(&mut [0; 20]);
        Ok(())
    };
    talk().is_ok()
}

impl Drop for Workspace {
    fn drop(&mut self) {
        for dir in [&self.images, &self.dir] {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

/// A server that runs, until dropped.
pub(super) struct Running<'a> {
    child: Child,
    workspace: &'a Workspace,
}

impl Running<'_> {
    /// As NBD tools want it.
    pub(super) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.workspace.text("socket"))
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// What a server of ours has counted so far, asked from outside.
    pub(super) fn counts(&self) -> Result<Counts, CliError> {
        let socket = self.workspace.path(&format!("cmwq/{}.sock", self.id()));
        let state = cmwq_control::Client::connect_to(&socket).and_then(|mut client| client.state());
        let state =
            state.map_err(|error| CliError::failed(format!("asking the server: {error}")))?;
        let counter = |name: &str| {
            let counter = state.counters.iter().find(|counter| counter.name == name);
            counter.map_or(0, |counter| counter.value)
        };
        let queues = state.engines.iter().flat_map(|engine| &engine.queues);
        let names = [format!("kcryptd/{NAME}"), format!("nbd/{NAME}")];
        let carrying_out = queues.filter(|queue| names.contains(&queue.name));
        Ok(Counts {
            requests: counter(REQUESTS),
            inline: counter(INLINE),
            items: carrying_out.map(|queue| queue.started).sum(),
        })
    }
}

/// The name of our export.
const NAME: &str = "disk";

impl Drop for Running<'_> {
    fn drop(&mut self) {
        stop(&mut self.child);
        let _ = std::fs::remove_file(self.workspace.path("socket"));
        for name in ["disk", "luks"] {
            let _ = std::fs::remove_file(self.workspace.images.join(name));
        }
    }
}

/// SIGTERM, and SIGKILL for what does not heed it.
pub(super) fn stop(child: &mut Child) {
    let pid = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    let since = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if since.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

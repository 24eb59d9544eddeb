//! Seeing and steering a running process that uses [`cmwq`].
//!
//! A process that calls [`serve`] (or [`serve_if_asked`], and was started with `CMWQ_CONTROL=1`)
//! listens on a Unix socket that only its own user and root can use. The command `cmwq` shows
//! through it what a kernel shows of its workqueues, and changes what there can be changed: `cmwq
//! list`, `dump`, `monitor`, `busy`, `get`, `set`, `param`, `top`, `mount`, `trace`. The protocol
//! is lines of JSON, described in `docs/control.md`; [`connect`] gives a [`Client`] that speaks it.
//!
//! ```
//! let _control = cmwq_control::serve_if_asked()?;
//! // ... the program's own work ...
//! # Ok::<(), cmwq_control::ControlError>(())
//! ```
//!
//! A program to try the tools on is the example [`serve`][example]; the crate `cmwq` has services:
//! [`tokio_server`], [`http_server`] and [`epoll_server`].
//!
//! [example]: https://github.com/cmwq/cmwq/blob/HEAD/crates/cmwq-control/examples/serve.rs
//! [`tokio_server`]: https://github.com/cmwq/cmwq/blob/HEAD/crates/cmwq/examples/tokio_server.rs
//! [`http_server`]: https://github.com/cmwq/cmwq/blob/HEAD/crates/cmwq/examples/http_server.rs
//! [`epoll_server`]: https://github.com/cmwq/cmwq/blob/HEAD/crates/cmwq/examples/epoll_server.rs
//!
//! # What it costs
//!
//! One thread, which sleeps until a client comes, but samples the running workers every 10 ms
//! (every 100 ms while none runs) to charge CPU time to queues. About every 64th call of `queue()`
//! is timed. No worker and no issuer ever waits for a client.
#![deny(unsafe_code)]

mod client;
mod connection;
mod counter;
mod error;
#[cfg(test)]
mod fuzz;
mod http;
mod methods;
mod metrics;
mod place;
pub mod protocol;
mod server;
mod state;
mod sys;
mod trace;

pub use client::{Client, connect, processes, serving};
pub use counter::Counter;
pub use error::ControlError;

use cmwq::observe::EnqueueTiming;
use rustix::event::{EventfdFlags, eventfd};
use server::Server;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

/// The variable that asks for an endpoint.
pub const CONTROL_VARIABLE: &str = "CMWQ_CONTROL";
/// The variable that asks for metrics over HTTP too: a loopback address and a port, such as `127.0.0.1:9464`.
pub const HTTP_VARIABLE: &str = "CMWQ_CONTROL_HTTP";

/// The process that serves, and thereby whether one does: one endpoint a process. A fork's child
/// does not serve, whatever its parent did.
static SERVING: AtomicU32 = AtomicU32::new(0);

/// The right of a process to serve.
#[derive(Debug)]
struct Serving(u32);

impl Serving {
    fn claim() -> Option<Self> {
        let pid = std::process::id();
        let before = SERVING.swap(pid, Ordering::AcqRel);
        (before != pid).then_some(Serving(pid))
    }

    fn is_ours(&self) -> bool {
        self.0 == std::process::id()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // In a fork's child it is the parent's.
        if self.is_ours() {
            SERVING.store(0, Ordering::Release);
        }
    }
}

/// Serves until it is dropped: on the socket `PID.sock` in `$XDG_RUNTIME_DIR/cmwq`, or, where that
/// variable is not set, in `/tmp/cmwq-UID`.
///
/// ```
/// let control = cmwq_control::serve()?;
/// println!("serving at {}", control.path().display());
/// drop(control); // the endpoint is closed
/// # Ok::<(), cmwq_control::ControlError>(())
/// ```
#[derive(Debug)]
#[must_use = "the process serves only while it lives"]
pub struct Control {
    path: PathBuf,
    /// `None`: removed.
    file: Option<SocketFile>,
    http: Option<SocketAddr>,
    stop: rustix::fd::OwnedFd,
    thread: Option<JoinHandle<()>>,
    _timing: EnqueueTiming,
    // Last: no other endpoint begins before this one has ended.
    serving: Serving,
}

/// Chooses where the endpoint is: its folder, and an address for metrics.
///
/// ```
/// let control = cmwq_control::ControlBuilder::new().http(([127, 0, 0, 1], 0).into()).serve()?;
/// println!("metrics at {:?}", control.http());
/// # Ok::<(), cmwq_control::ControlError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `serve` is called"]
pub struct ControlBuilder {
    http: Option<SocketAddr>,
    dir: Option<PathBuf>,
}

impl ControlBuilder {
    /// Nothing beside the socket.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves the metrics over HTTP as well, to all clients that reach `address`, which must be a
    /// loopback one.
    pub fn http(mut self, address: SocketAddr) -> Self {
        self.http = Some(address);
        self
    }

    /// Puts the socket into this folder instead of the [usual](Control) one. It must belong to the
    /// user and be closed to others; the commands find it there if it is `cmwq` in their
    /// `XDG_RUNTIME_DIR`, and [`Client::connect_to`] does anywhere.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Begins to serve, all engines that the process has and will have.
    ///
    /// # Errors
    /// `EBUSY`: the process serves already. `EPERM`: the folder for the sockets is not the user's
    /// own. What the system says when the socket or the thread cannot be made.
    pub fn serve(self) -> Result<Control, ControlError> {
        let serving = Serving::claim()
            .ok_or_else(|| ControlError::new("EBUSY", "the process serves already"))?;
        let http = self.http.map(listen_http).transpose()?;
        let http_address = http.as_ref().and_then(|http| http.local_addr().ok());
        let failed = |what: &str, error: std::io::Error| ControlError::io(what, &error);
        let stop =
            eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| failed("eventfd", error.into()))?;
        let for_thread = stop.try_clone().map_err(|error| failed("eventfd", error))?;
        let dir = place::make_dir(self.dir.unwrap_or_else(place::own_dir))?;
        place::clean(&dir);
        let (listener, file) = SocketFile::listen(dir.join(place::socket_name(serving.0)))?;
        let server =
            Server::new(listener, http, for_thread).map_err(|error| failed("the socket", error))?;
        let thread = std::thread::Builder::new()
            .name("cmwq-control".to_owned())
            .spawn(move || {
                sys::block_signals();
                server.run();
            })
            .map_err(|error| failed("the endpoint's thread", error))?;
        Ok(Control {
            path: file.path.clone(),
            file: Some(file),
            http: http_address,
            stop,
            thread: Some(thread),
            _timing: EnqueueTiming::begin(),
            serving,
        })
    }
}

/// Begins to serve, until the guard is dropped. One endpoint serves the whole process: all engines
/// that it has and will have.
///
/// # Errors
/// As [`ControlBuilder::serve`].
pub fn serve() -> Result<Control, ControlError> {
    ControlBuilder::new().serve()
}

/// Serves if the environment asks for it: `CMWQ_CONTROL=1`. With `CMWQ_CONTROL_HTTP=127.0.0.1:PORT`
/// the metrics are served there too. The library itself does not look at these variables: a program
/// decides, by calling this at its start.
///
/// # Errors
/// `EINVAL`: a variable holds something that it must not. As [`ControlBuilder::serve`].
pub fn serve_if_asked() -> Result<Option<Control>, ControlError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let bad = |name: &str, value: &std::ffi::OsStr, allowed: &str| {
        let value = value.to_string_lossy();
        ControlError::inval(format!("{name} is '{value}'; allowed: {allowed}"))
    };
    match variable(CONTROL_VARIABLE) {
        None => return Ok(None),
        Some(value) if value == "0" => return Ok(None),
        Some(value) if value == "1" => {}
        Some(value) => return Err(bad(CONTROL_VARIABLE, &value, "0, 1")),
    }
    let mut builder = ControlBuilder::new();
    if let Some(value) = variable(HTTP_VARIABLE) {
        let address = value.to_str().and_then(|text| text.parse().ok());
        let allowed = "a loopback address and a port, such as 127.0.0.1:9464";
        builder = builder.http(address.ok_or_else(|| bad(HTTP_VARIABLE, &value, allowed))?);
    }
    builder.serve().map(Some)
}

fn listen_http(address: SocketAddr) -> Result<TcpListener, ControlError> {
    if !address.ip().is_loopback() {
        return Err(ControlError::inval(format!(
            "metrics are served on a loopback address only, not on {address}; allowed: such as 127.0.0.1:9464"
        )));
    }
    TcpListener::bind(address).map_err(|error| ControlError::io(&address.to_string(), &error))
}

/// The file of the socket. Dropping it removes it.
#[derive(Debug)]
struct SocketFile {
    pid: u32,
    path: PathBuf,
    /// Its identity: another process could have replaced the file.
    inode: u64,
}

impl SocketFile {
    /// A socket at `path`, in a folder that no other user can enter.
    fn listen(path: PathBuf) -> Result<(UnixListener, Self), ControlError> {
        let shown = path.display().to_string();
        let failed = |error: std::io::Error| ControlError::io(&shown, &error);
        // It gets its name when it is listened on: another process that begins to serve removes
        // what no process listens on.
        let pid = std::process::id();
        let hidden = path.with_file_name(format!(".{}", place::socket_name(pid)));
        match std::fs::remove_file(&hidden) {
            // Left behind by an ended process with the same pid.
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let listener = UnixListener::bind(&hidden).map_err(failed)?;
        let inode = std::fs::symlink_metadata(&hidden).map_err(failed)?.ino();
        let mut file = SocketFile {
            pid,
            path: hidden,
            inode,
        };
        let owner_only = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&file.path, owner_only).map_err(failed)?;
        std::fs::rename(&file.path, &path).map_err(failed)?;
        file.path = path;
        Ok((listener, file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // In a fork's child it is the parent's.
        let ours = self.pid == std::process::id()
            && std::fs::symlink_metadata(&self.path)
                .is_ok_and(|metadata| metadata.ino() == self.inode);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Control {
    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the metrics are served over HTTP.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // In a fork's child the thread is not there, and the socket is the parent's. One that the
        // child has started may have the thread's id.
        if !self.serving.is_ours() {
            std::mem::forget(self.thread.take());
            return;
        }
        // While it is listened on: another process that removes what no process listens on cannot
        // take a later one for it.
        drop(self.file.take());
        let one = 1_u64.to_ne_bytes();
        // A counter that is only ever raised once.
        let _ = rustix::io::write(&self.stop, &one);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_socket_is_not_removed_before_it_is_listened_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(place::socket_name(7));
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // As many processes do that begin to serve at the same time.
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    place::clean(dir.path());
                }
            });
            let mut listeners = VecDeque::new();
            let mut stays = |_| {
                let (listener, _file) = SocketFile::listen(path.clone()).ok()?;
                // What is being connected to is not closed: it would be another process's that has ended.
                listeners.push_back(listener);
                if listeners.len() > 100 {
                    listeners.pop_front();
                }
                path.exists().then_some(())
            };
            let all = (0..5_000).map_while(&mut stays).count();
            ends.store(true, Ordering::Relaxed);
            assert_eq!(all, 5_000);
        });
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0);
    }
}

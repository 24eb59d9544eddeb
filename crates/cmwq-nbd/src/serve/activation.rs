//! The service manager: the socket that it has passed, and status notifications to it. The protocols of sd_listen_fds(3) and sd_notify(3).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use cmwq_command::CliError;

/// Descriptors are passed from this one on.
const FIRST: i32 = 3;

/// Whether the manager has passed descriptors to this process.
pub(super) fn is_activated() -> bool {
    count().is_some()
}

fn count() -> Option<String> {
    let pid = std::env::var("LISTEN_PID").ok()?;
    let count = std::env::var("LISTEN_FDS").ok()?;
    (pid == std::process::id().to_string() && count != "0").then_some(count)
}

/// The one socket that was passed.
///
/// To be called once, before the process opens a descriptor of its own.
pub(super) fn socket() -> Result<OwnedFd, CliError> {
    let count = count().unwrap_or_default();
    if count != "1" {
        return Err(CliError::new(format!(
            "LISTEN_FDS: {count:?} sockets were passed: it must be 1"
        )));
    }
    // SAFETY: only asks about a descriptor, which there may not be, and sets a flag of it.
    if unsafe { libc::fcntl(FIRST, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        let error = io::Error::last_os_error();
        return Err(CliError::new(format!(
            "the socket that was passed: {error}"
        )));
    }
    // SAFETY: it is open, and was given to this process to own; this is called once.
    Ok(unsafe { OwnedFd::from_raw_fd(FIRST) })
}

/// Notifies the manager, if there is one that asks.
pub(super) fn notify(state: &str) {
    // A manager that does not listen any more is no reason to stop.
    let _ = std::env::var_os("NOTIFY_SOCKET").map(|path| send(&path, state));
}

fn send(path: &OsStr, state: &str) -> io::Result<()> {
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

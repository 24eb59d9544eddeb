//! The service manager: the socket that it has passed, and status notifications to it.

use std::os::fd::{FromRawFd, OwnedFd};

use cmwq_command::CliError;
use sd_notify::NotifyState;

/// The one socket that the manager has passed to this process, if it has passed any.
///
/// To be called once, before the process opens a descriptor of its own.
pub(super) fn socket() -> Result<Option<OwnedFd>, CliError> {
    let passed = sd_notify::listen_fds();
    let mut passed =
        passed.map_err(|error| CliError::new(format!("LISTEN_PID, LISTEN_FDS: {error}")))?;
    match (passed.next(), passed.len()) {
        (None, _) => Ok(None),
        // SAFETY: it is open, as its flags were set, and was given to this process to own; this is
        // called once.
        (Some(fd), 0) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        (Some(_), more) => Err(CliError::new(format!(
            "LISTEN_FDS: {} sockets were passed: it must be 1",
            1 + more
        ))),
    }
}

/// Notifies the manager, if there is one that asks.
pub(super) fn notify(state: NotifyState<'_>, status: &str) {
    // A manager that does not listen any more is no reason to stop.
    let _ = sd_notify::notify(&[state, NotifyState::Status(status)]);
}

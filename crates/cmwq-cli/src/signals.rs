//! Being told to end, and other signals that are noticed later.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// These tell a command to end.
pub(crate) const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// From now on such a signal does no more than set this.
pub(crate) fn told_to_end() -> io::Result<Arc<AtomicBool>> {
    let end = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        signal_hook::flag::register(signal, end.clone())?;
    }
    Ok(end)
}

/// From now on the signal does no more than set this.
pub(crate) fn flag(signal: i32) -> io::Result<Arc<AtomicBool>> {
    let came = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, came.clone())?;
    Ok(came)
}

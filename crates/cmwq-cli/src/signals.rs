//! Being told to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// These tell a command to end.
pub(crate) const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// From now on such a signal does no more than set this.
pub(crate) fn told_to_end() -> io::Result<Arc<AtomicBool>> {
    let end = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        flag::register(signal, end.clone())?;
    }
    Ok(end)
}

//! Noticing that the process is the child of a fork: it has the memory of its parent, but only the thread that forked.

use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicU32;
use std::sync::Once;

/// How many forks this process is away from the one that first asked.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The generation of the process: it differs in a child from what it was in its parent.
#[inline]
pub(crate) fn generation() -> u32 {
    // Relaxed: written only in a child that has one thread.
    GENERATION.load(Ordering::Relaxed)
}

/// From now on forks are noticed, and every child calls `f` first.
pub(crate) fn watch(f: fn()) {
    static WATCH: Once = Once::new();
    static IN_CHILD: std::sync::OnceLock<fn()> = std::sync::OnceLock::new();

    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        if let Some(f) = IN_CHILD.get() {
            f();
        }
    }

    WATCH.call_once(|| {
        let _ = IN_CHILD.set(f);
        // SAFETY: the handler touches atomics only. That it cannot be registered (no memory) leaves forks unnoticed.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

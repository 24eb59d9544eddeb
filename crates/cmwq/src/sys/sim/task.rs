//! What a waiting virtual thread does.
#![forbid(unsafe_code)]

use cmwq_vm::os;

pub(crate) fn yield_now() {
    #[cfg(test)]
    YIELDS.set(YIELDS.get() + 1);
    os::yield_now();
}

pub(crate) fn pause() {
    os::pause();
}

/// How many of these polls a thread does between two yields.
pub(crate) fn polls(polls: u32) -> u32 {
    os::polls(polls)
}

#[cfg(test)]
crate::sys::local::thread_local! {
    static YIELDS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How often the calling thread has yielded.
#[cfg(test)]
pub(crate) fn yields() -> usize {
    YIELDS.get()
}

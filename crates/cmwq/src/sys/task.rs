//! What a waiting thread does: pause, yield.
#![forbid(unsafe_code)]

/// Yields the CPU.
#[inline]
pub(crate) fn yield_now() {
    #[cfg(all(test, not(cmwq_loom)))]
    YIELDS.set(YIELDS.get() + 1);
    #[cfg(not(cmwq_loom))]
    std::thread::yield_now();
    #[cfg(cmwq_loom)]
    loom::thread::yield_now();
}

/// Tells the CPU that this is a wait loop.
#[inline]
pub(crate) fn pause() {
    #[cfg(not(cmwq_loom))]
    std::hint::spin_loop();
    #[cfg(cmwq_loom)]
    loom::thread::yield_now();
}

/// How many of these polls a thread does between two yields: all. A simulator may do fewer.
#[inline]
pub(crate) const fn polls(polls: u32) -> u32 {
    polls
}

#[cfg(all(test, not(cmwq_loom)))]
thread_local! {
    static YIELDS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How often the calling thread has yielded.
#[cfg(all(test, not(cmwq_loom)))]
pub(crate) fn yields() -> usize {
    YIELDS.get()
}

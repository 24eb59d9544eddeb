//! The interface of the crate `affinitypool` 0.8 on a workqueue:
//!
//! ```toml
//! [patch.crates-io]
//! affinitypool = { path = "../cmwq/dropins/affinitypool" }
//! ```
//!
//! A [`Threadpool`] is a workqueue. Its number of threads is the workqueue's `max_active`: how many
//! closures may have begun and not ended. How many threads that takes depends on what they do,
//! since one that computes keeps others of its pool from beginning, and one that sleeps does not.
//!
//! ```
//! # futures_lite::future::block_on(async {
//! let pool = affinitypool::Builder::new().worker_threads(4).build();
//! let entries = pool.spawn(|| std::fs::read_dir(".").map(Iterator::count)).await?;
//! # assert!(entries > 0);
//! # std::io::Result::Ok(()) }).unwrap();
//! ```
//!
//! In a child process after `fork` a pool is its parent's: awaiting one of its closures there
//! panics. The original waits for ever.

mod builder;
mod local;

pub use builder::Builder;
pub use local::SpawnFuture;

use cmwq::Workqueue;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

/// The largest number of threads of a pool.
pub const MAX_THREADS: usize = 512;

static GLOBAL: OnceLock<Threadpool> = OnceLock::new();

/// What a closure came to: what it returned, or its panic.
type Outcome<R> = Result<R, Box<dyn Any + Send>>;

fn outcome<R>(f: impl FnOnce() -> R) -> Outcome<R> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Why there is no global pool.
#[derive(Debug)]
pub enum Error {
    /// There is one already.
    GlobalThreadpoolExists,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("A global threadpool has already been initialised")
    }
}

impl std::error::Error for Error {}

/// Runs `func` on the global pool; at once and here if there is none.
pub async fn spawn<F, R>(func: F) -> R
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    match GLOBAL.get() {
        Some(pool) => pool.spawn(func).await,
        None => func(),
    }
}

/// As [`Threadpool::spawn_local`], on the global pool; at once and here if there is none.
///
/// # Safety
/// The future must not be leaked while `func` borrows what lives shorter than the process.
pub async unsafe fn spawn_local<'pool, F, R>(func: F) -> R
where
    F: FnOnce() -> R + Send + 'pool,
    R: Send + 'pool,
{
    match GLOBAL.get() {
        // SAFETY: the caller does not leak this future, which owns that one.
        Some(pool) => unsafe { pool.spawn_local(func) }.await,
        None => func(),
    }
}

/// A pool of threads: a workqueue.
pub struct Threadpool {
    queue: Arc<Workqueue>,
    threads: usize,
}

impl Default for Threadpool {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, usize::from))
    }
}

impl Threadpool {
    /// A pool of so many threads, 1 to [`MAX_THREADS`].
    pub fn new(workers: usize) -> Self {
        Builder::new().worker_threads(workers).build()
    }

    /// Has `func` run, now or later. The future gives what it returns, and hands on its panic.
    /// Dropping the future cancels `func` if it has not begun.
    pub fn spawn<F, R>(&self, func: F) -> impl Future<Output = R> + Send + 'static
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let handle = self.queue.spawn(move || outcome(func)).abort_on_drop();
        async move {
            match handle.await {
                Ok(Ok(value)) => value,
                Ok(Err(panic)) => resume_unwind(panic),
                // In a fork's child, for instance.
                Err(error) => panic!("the closure does not run: {error}"),
            }
        }
    }

    /// As [`spawn`](Self::spawn), for a closure that borrows. It is queued with the first poll;
    /// dropping the future waits until it does not run.
    ///
    /// # Safety
    /// The future must not be leaked (by [`forget`](std::mem::forget), for instance) while `func`
    /// borrows what lives shorter than the process: only its destructor keeps that from being used
    /// afterwards.
    pub unsafe fn spawn_local<'pool, F, R>(&'pool self, func: F) -> SpawnFuture<'pool, R>
    where
        F: FnOnce() -> R + Send + 'pool,
        R: Send + 'pool,
    {
        // SAFETY: the caller's.
        unsafe { SpawnFuture::new(self.queue.clone(), func) }
    }

    /// Makes this the pool of [`spawn`].
    ///
    /// # Errors
    /// There is one already.
    pub fn build_global(self) -> Result<(), Error> {
        let set = GLOBAL.set(self);
        set.map_err(|_| Error::GlobalThreadpoolExists)
    }

    /// As [`num_threads`](Self::num_threads): how many of them the workqueue has made is not told.
    pub fn thread_count(&self) -> usize {
        self.threads
    }

    /// The number of threads that was asked for.
    pub fn num_threads(&self) -> usize {
        self.threads
    }
}

impl Drop for Threadpool {
    /// Waits until all that was spawned has run.
    fn drop(&mut self) {
        // Futures that are on their way out may still hold the queue: it is empty then, and ends
        // with the last of them. An item of the pool itself cannot wait for that, and the queue
        // ends without it.
        let _ = self.queue.drain();
    }
}

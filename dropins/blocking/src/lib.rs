//! The interface of the crate `blocking` 1.7 on a workqueue, for programs that use it through smol,
//! async-fs or async-std:
//!
//! ```toml
//! [patch.crates-io]
//! blocking = { path = "../cmwq/dropins/blocking" }
//! ```
//!
//! All closures are items of one workqueue, `blocking`. `BLOCKING_MAX_THREADS` and
//! [`set_max_blocking_threads`] set its `max_active`: how many closures may have begun and not
//! ended, on each NUMA node. How many threads that takes depends on what the closures do, since one
//! that computes keeps others of its pool from beginning, and one that sleeps does not.
//!
//! ```
//! use blocking::unblock;
//!
//! # futures_lite::future::block_on(async {
//! let entries = unblock(|| std::fs::read_dir(".").map(Iterator::count)).await?;
//! # assert!(entries > 0);
//! # std::io::Result::Ok(()) }).unwrap();
//! ```
//!
//! In a child process after `fork` the workqueue is the parent's: awaiting a [`Task`] there panics.
//! The original waits for ever.

mod ended;
mod io;
mod items;
mod job;

use async_task::{Runnable, Schedule, ScheduleInfo, WithInfo};
use cmwq::Workqueue;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

pub use async_task::Task;
pub use io::Unblock;

/// Names the largest number of closures at a time, 1 to 10000, before the first one.
const MAX_THREADS_ENV: &str = "BLOCKING_MAX_THREADS";
/// As in the original.
const DEFAULT_MAX_THREADS: usize = 500;
const MOST_THREADS: usize = 10_000;

static QUEUE: LazyLock<Workqueue> = LazyLock::new(|| {
    let asked = std::env::var(MAX_THREADS_ENV).ok();
    let asked = asked.and_then(|text| text.parse().ok());
    Workqueue::builder("blocking")
        .max_active(limit(asked.unwrap_or(DEFAULT_MAX_THREADS)))
        .build()
        .unwrap_or_else(|error| panic!("no workqueue for blocking closures: {error}"))
});

/// A number of threads as a limit of the workqueue.
fn limit(threads: usize) -> usize {
    threads.clamp(1, MOST_THREADS).min(cmwq::raw::WQ_MAX_ACTIVE)
}

/// From now on at most so many closures are active at a time on each NUMA node; more than
/// [`WQ_MAX_ACTIVE`](cmwq::raw::WQ_MAX_ACTIVE) is cut to that. Those that have begun go on.
pub fn set_max_blocking_threads(threads: NonZeroUsize) {
    let changed = QUEUE.set_max_active(limit(threads.get()));
    debug_assert!(changed.is_ok(), "the queue is unbound and not ordered");
}

/// Runs `f`, which may block, on the workqueue. The task gives its result, and hands on its panic.
/// Dropping the task cancels `f` if it has not begun; [`detach`](Task::detach) does not.
pub fn unblock<T, F>(f: F) -> Task<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let schedule = |task, info: ScheduleInfo| match info.woken_while_running {
        true => ended::complete_later(task),
        false => queue(task),
    };
    spawn(ended::run(f), WithInfo(schedule))
}

/// Polls `future`, which may block, on the workqueue.
fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
    schedule: impl Schedule + Send + Sync + 'static,
) -> Task<T> {
    let (runnable, task) = async_task::Builder::new()
        .propagate_panic(true)
        .spawn(|()| future, schedule);
    runnable.schedule();
    task
}

fn queue(task: Runnable) {
    // Refused in a fork's child only: the task is then cancelled.
    let _ = QUEUE.execute(move || {
        task.run();
    });
}

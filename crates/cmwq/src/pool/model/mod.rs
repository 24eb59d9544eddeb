//! The pool's protocol under the model checker: the real inbox, lock, workers and settling, on
//! loom's threads.
//!
//! A lost wake-up shows as a deadlock; a double claim as a failed assertion (a picked worker must
//! be idle); a use of an item by two threads at once, or after it was freed, as a causality error
//! of its guarded fields.
//!
//! This module has the common parts of all models, those of `workqueue` included. `SABOTAGES.md`
//! lists the sabotages that were tried, and which model caught each.

mod batches;
mod chains;
mod chunks;
mod holds;
mod protocol;
mod rescuer;
mod slots;

pub(crate) use item::{Item, Touched};

use crate::item::{MOST_IN_BATCH, Pending, RawWork};
use crate::pool::attrs::params::Params;
use crate::pool::queue::pwq::{PwqKey, Traits};
use crate::pool::silent::{self, Made};
use crate::pool::state::pool::{Pool, PoolService, Rescue};
use crate::sys::atomic::Ordering;
use crate::sys::park::Parker;
use loom::thread;
use std::sync::Arc;

/// A pool of `cpus` CPUs that creates no workers, and whose workers take single items.
pub(crate) fn pool(id: u32, cpus: usize) -> Arc<Pool> {
    made(cpus).pool(id)
}

/// As [`pool`], with workers that take all that they find.
pub(crate) fn batching_pool(id: u32, cpus: usize) -> Arc<Pool> {
    let made = Made {
        batch: MOST_IN_BATCH,
        ..made(cpus)
    };
    made.pool(id)
}

fn made(cpus: usize) -> Made {
    Made {
        cpus: (0..cpus).collect(),
        ..Made::default()
    }
}

/// A pool with a pool workqueue.
fn pool_and_pwq(cpus: usize) -> (Arc<Pool>, PwqKey) {
    let pool = pool(1, cpus);
    let pwq = add_pwq(&pool, None);
    (pool, pwq)
}

fn add_pwq(pool: &Arc<Pool>, rescuer: Option<Arc<dyn Rescue>>) -> PwqKey {
    silent::add_pwq(pool, Traits::default(), 64, rescuer)
}

/// Items that unpark `done` when they end.
pub(crate) fn items<const N: usize>(done: &Arc<Parker>) -> [Arc<Item>; N] {
    std::array::from_fn(|_| Item::new(&Touched::new(), Some(done)))
}

/// As [`items`], which must not run at the same time: they touch the same memory.
pub(crate) fn exclusive_items<const N: usize>(done: &Arc<Parker>) -> [Arc<Item>; N] {
    let touched = Touched::new();
    std::array::from_fn(|_| Item::new(&touched, Some(done)))
}

/// Waits until `item` has run `runs` times.
pub(crate) fn wait(item: &Item, runs: usize, done: &Parker) {
    while item.runs() < runs {
        done.park();
    }
}

/// Waits until each of these items has run.
pub(crate) fn wait_all<'i>(items: impl IntoIterator<Item = &'i Arc<Item>>, done: &Parker) {
    for item in items {
        wait(item, 1, done);
    }
}

/// Starts a worker.
pub(crate) fn start(pool: &Arc<Pool>) -> thread::JoinHandle<()> {
    let (id, handle) = pool.enroll();
    let pool = pool.clone();
    thread::spawn(move || pool.work(id, &handle))
}

/// Ends the workers. An error that loom found inside a work function was caught like any panic: it
/// shows here.
pub(crate) fn finish(pool: &Arc<Pool>, workers: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    pool.shut_down();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(pool.lock().stats.panics, 0, "a work function failed");
}

/// Queues an item that outlives its runs.
fn queue(pool: &Arc<Pool>, pwq: PwqKey, item: &Arc<Item>) -> bool {
    let Ok(mut pending) = item.claim() else {
        return false;
    };
    pending.set_destination(pool.id, pwq.index);
    pool.publish_single(pending);
    true
}

mod item {
    //! Items whose runs touch memory that only one thread at a time may touch, and count
    //! themselves. The only unsafe code of the models: claiming an item, touching, and going from a
    //! raw item back to the whole.
    #![allow(unsafe_code)]
    use super::*;
    use crate::item::Unclaimed;
    use std::mem::offset_of;
    use std::ptr::NonNull;
    use std::sync::atomic::AtomicUsize;

    /// Memory that loom watches: a touch that is not ordered after the one before it is an error.
    pub(crate) struct Touched(loom::cell::UnsafeCell<usize>);

    // SAFETY: that accesses are ordered is what the models are about.
    unsafe impl Sync for Touched {}
    // SAFETY: nothing in it belongs to a thread.
    unsafe impl Send for Touched {}

    impl Touched {
        pub(crate) fn new() -> Arc<Touched> {
            Arc::new(Touched(loom::cell::UnsafeCell::new(0)))
        }

        /// Returns how often it was touched before.
        pub(crate) fn touch(&self) -> usize {
            // SAFETY: checked by loom: that is the point.
            self.0.with_mut(|times| unsafe {
                *times += 1;
                *times - 1
            })
        }
    }

    #[repr(C)]
    pub(crate) struct Item {
        raw: RawWork,
        touched: Arc<Touched>,
        /// A plain count: the models' own book-keeping orders nothing.
        runs: AtomicUsize,
        done: Option<Arc<Parker>>,
        /// A run unparks the first when it begins, then waits for the second.
        waits: Option<[Arc<Parker>; 2]>,
    }

    impl Item {
        /// An item that unparks `done` at its end.
        pub(crate) fn new(touched: &Arc<Touched>, done: Option<&Arc<Parker>>) -> Arc<Item> {
            Self::made(touched, done, None)
        }

        /// An item that unparks `begun` when it begins, and then waits.
        pub(crate) fn waiting(
            touched: &Arc<Touched>,
            begun: &Arc<Parker>,
            waits_for: &Arc<Parker>,
        ) -> Arc<Item> {
            Self::made(touched, None, Some([begun, waits_for]))
        }

        pub(super) fn made(
            touched: &Arc<Touched>,
            done: Option<&Arc<Parker>>,
            waits: Option<[&Arc<Parker>; 2]>,
        ) -> Arc<Item> {
            Arc::new(Item {
                raw: RawWork::new(run),
                touched: touched.clone(),
                runs: AtomicUsize::new(0),
                done: done.cloned(),
                waits: waits.map(|waits| waits.map(Arc::clone)),
            })
        }

        pub(crate) fn raw(&self) -> &RawWork {
            &self.raw
        }

        pub(crate) fn runs(&self) -> usize {
            self.runs.load(Ordering::Relaxed)
        }

        pub(crate) fn claim(&self) -> Result<Pending, Unclaimed> {
            // SAFETY: the Arc that every item of the models is in outlives the model's pools.
            unsafe { Pending::claim(NonNull::from(&self.raw)) }
        }
    }

    unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
        assert_eq!(offset_of!(Item, raw), 0);
        // SAFETY: claimed through an Arc that outlives the pool.
        let item = unsafe { item.cast::<Item>().as_ref() };
        if let Some([begun, waits_for]) = &item.waits {
            begun.unpark();
            waits_for.park();
        }
        item.touched.touch();
        item.runs.fetch_add(1, Ordering::Relaxed);
        if let Some(done) = &item.done {
            done.unpark();
        }
    }
}

/// Explores all interleavings with up to `preemptions` forced switches of threads (loom finds
/// nearly everything with two or three); `LOOM_MAX_PREEMPTIONS` overrides it.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(
        std::env::var("LOOM_MAX_PREEMPTIONS")
            .ok()
            .and_then(|bound| bound.parse().ok())
            .unwrap_or(preemptions),
    );
    builder.check(model);
}

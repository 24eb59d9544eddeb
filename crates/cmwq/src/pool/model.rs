//! The pool's protocol under the model checker: the real inbox, lock, workers and settling, on loom's threads.
//!
//! A lost wake-up shows as a deadlock, a double claim as a failed assertion (a picked worker must be idle), a use of an
//! item by two at once or after it was freed as a causality error of its guarded fields.
//!
//! Sabotages tried, each caught by the test named:
//! see the list at the end of `PROTOCOL.md`.

use super::*;
use crate::sys::atomic::AtomicUsize;
use crate::work::{RawWork, WorkFn};
use loom::thread;
use std::mem::offset_of;
use std::ptr::NonNull;

/// A queue that is told nothing of interest.
struct NoFront;

impl FrontEnd for NoFront {
    fn name(&self) -> &str {
        "model"
    }
    fn flags(&self) -> String {
        String::new()
    }
    fn check_dependency(&self, _: Option<WorkFn>) {}
    fn pool_that_runs(&self, _item: &RawWork, _but: u32) -> Option<u32> {
        None
    }
    fn colour_done(&self, _: u32) {}
    fn must_wait(&self, _: &Arc<Pool>, _: PwqKey) {}
    fn credits_freed(&self, _: usize) {}
    fn pwq_gone(&self, _: &Arc<Pool>, _: PwqKey) {}
}

/// Creates workers at once, as loom's threads.
struct Spawner {
    threads: std::sync::Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Helper for Spawner {
    fn create_worker(&self, pool: &Arc<Pool>) {
        let handle = start(pool);
        self.threads.lock().unwrap().push(handle);
    }
    fn watch(&self, _: &Arc<Pool>) {}
    fn cull_later(&self, _: &Arc<Pool>) {}
    fn woke(&self) {}
}

/// Refuses to create any: what is there must do.
struct Refuser;

impl Helper for Refuser {
    fn create_worker(&self, _: &Arc<Pool>) {}
    fn watch(&self, _: &Arc<Pool>) {}
    fn cull_later(&self, _: &Arc<Pool>) {}
    fn woke(&self) {}
}

fn pool_of(cpus: usize, helper: Arc<dyn Helper>) -> (Arc<Pool>, PwqKey) {
    let cpus: CpuSet = (0..cpus).collect();
    let binding = Binding {
        target: cpus.len() as u32,
        cpus: cpus.clone(),
    };
    let attrs = PoolAttrs {
        kind: PoolKind::Unbound,
        nice: 0,
        strict: true,
        cpus,
        place: Place::default(),
        wake_under_lock: false,
        idle_timeout_ns: 0,
        params: Arc::default(),
    };
    let pool = Pool::new(1, attrs, binding, helper, Group::new());
    let limit = Arc::new(NodeLimit::new(64, 1));
    let state = PwqState::new(Arc::new(NoFront), Traits::default(), limit, 0, 0);
    let pwq = pool.lock().add_pwq(state);
    (pool, pwq)
}

fn start(pool: &Arc<Pool>) -> thread::JoinHandle<()> {
    let (id, handle) = pool.enroll();
    let pool = pool.clone();
    thread::spawn(move || pool.work(id, &handle))
}

/// Ends the workers. What loom found inside a work function was caught there like any panic: it shows here.
fn finish(pool: &Arc<Pool>, workers: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    pool.shut_down();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(pool.lock().stats().panics, 0, "a work function failed");
}

/// An item that counts its runs and says when it has run.
#[repr(C)]
struct Item {
    raw: RawWork,
    runs: Arc<AtomicUsize>,
    done: Arc<Parker>,
    /// Set before queueing with a plain store; the function must see it.
    flag: Arc<AtomicUsize>,
}

impl Item {
    fn new(func: WorkFn) -> Box<Item> {
        Box::new(Item {
            raw: RawWork::new(func),
            runs: Arc::new(AtomicUsize::new(0)),
            done: Arc::new(Parker::new()),
            flag: Arc::new(AtomicUsize::new(0)),
        })
    }
}

mod raw {
    //! The only unsafe code of the models: queueing raw items, and going back from a raw item to its whole.
    #![allow(unsafe_code)]
    use super::*;

    fn publish(pool: &Arc<Pool>, pwq: PwqKey, item: NonNull<RawWork>) -> bool {
        // SAFETY: every item of the models lives until its function has run, or the model ends.
        let Ok(mut item) = (unsafe { Pending::claim(item) }) else {
            return false;
        };
        item.aim(pool.id, pwq.place);
        pool.publish(item);
        true
    }

    /// Queues an item that its function frees.
    pub(super) fn queue_boxed(pool: &Arc<Pool>, pwq: PwqKey, item: Box<Item>) {
        let item = NonNull::from(Box::leak(item));
        assert!(publish(pool, pwq, item.cast()));
    }

    /// Queues an item that outlives its runs.
    pub(super) fn queue(pool: &Arc<Pool>, pwq: PwqKey, item: &Arc<Item>) -> bool {
        let at = Arc::as_ptr(item).cast_mut().cast::<RawWork>();
        publish(pool, pwq, NonNull::new(at).unwrap())
    }

    pub(super) unsafe extern "C-unwind" fn run_and_free(item: NonNull<RawWork>) {
        assert_eq!(offset_of!(Item, raw), 0);
        // SAFETY: queued by `queue_boxed`, which leaked the box.
        let item = unsafe { Box::from_raw(item.cast::<Item>().as_ptr()) };
        item.runs.fetch_add(1, Ordering::Relaxed);
        item.done.unpark();
    }

    pub(super) unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
        // SAFETY: queued by `queue` through an Arc that outlives the pool.
        let item = unsafe { item.cast::<Item>().as_ref() };
        item.runs.fetch_add(1, Ordering::Relaxed);
        if item.flag.load(Ordering::Relaxed) != 0 {
            item.done.unpark();
        }
    }
}

/// Explores all interleavings with up to `preemptions` forced switches of threads (loom finds nearly everything with two
/// or three); `LOOM_MAX_PREEMPTIONS` overrides it.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(
        std::env::var("LOOM_MAX_PREEMPTIONS")
            .ok()
            .and_then(|bound| bound.parse().ok())
            .unwrap_or(preemptions),
    );
    builder.check(model);
}

#[test]
fn an_item_published_while_the_worker_goes_to_sleep_is_run() {
    explore(3, || {
        let (pool, pwq) = pool_of(1, Arc::new(Refuser));
        let worker = start(&pool);
        let item = Item::new(raw::run_and_free);
        let done = item.done.clone();
        raw::queue_boxed(&pool, pwq, item);
        done.park();
        finish(&pool, [worker]);
    });
}

#[test]
fn two_issuers_and_a_sleeping_worker_lose_nothing() {
    explore(3, || {
        let (pool, pwq) = pool_of(1, Arc::new(Refuser));
        let worker = start(&pool);
        let item = Item::new(raw::run_and_free);
        let done = item.done.clone();
        let other = thread::spawn({
            let pool = pool.clone();
            move || {
                let item = Item::new(raw::run_and_free);
                let done = item.done.clone();
                raw::queue_boxed(&pool, pwq, item);
                done.park();
            }
        });
        raw::queue_boxed(&pool, pwq, item);
        done.park();
        other.join().unwrap();
        finish(&pool, [worker]);
    });
}

#[test]
fn the_chain_kick_brings_the_second_worker_when_the_first_item_blocks() {
    explore(3, || {
        let (pool, pwq) = pool_of(2, Arc::new(Refuser));
        let workers = [start(&pool), start(&pool)];
        // The first item ends only when the second has run.
        let second = Item::new(raw::run_and_free);
        let second_done = second.done.clone();
        let first = Blocker::new(second_done);
        let first_done = first.item.done.clone();
        queue_blocker(&pool, pwq, first);
        raw::queue_boxed(&pool, pwq, second);
        first_done.park();
        finish(&pool, workers);
    });
}

/// An item that waits for another one.
#[repr(C)]
struct Blocker {
    item: Item,
    waits_for: Arc<Parker>,
}

impl Blocker {
    fn new(waits_for: Arc<Parker>) -> Box<Blocker> {
        Box::new(Blocker {
            item: *Item::new(blocker::run),
            waits_for,
        })
    }
}

fn queue_blocker(pool: &Arc<Pool>, pwq: PwqKey, item: Box<Blocker>) {
    blocker::queue(pool, pwq, item);
}

mod blocker {
    //! As `raw`, for the item that waits.
    #![allow(unsafe_code)]
    use super::*;

    pub(super) fn queue(pool: &Arc<Pool>, pwq: PwqKey, item: Box<Blocker>) {
        let item = NonNull::from(Box::leak(item)).cast();
        // SAFETY: leaked; its function frees it.
        let Ok(mut item) = (unsafe { Pending::claim(item) }) else {
            panic!("a new item is idle")
        };
        item.aim(pool.id, pwq.place);
        pool.publish(item);
    }

    pub(super) unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
        // SAFETY: queued by `queue`, which leaked the box.
        let item = unsafe { Box::from_raw(item.cast::<Blocker>().as_ptr()) };
        item.waits_for.park();
        item.item.done.unpark();
    }
}

#[test]
fn a_worker_let_go_while_an_item_is_published_strands_nothing() {
    explore(2, || {
        let spawner = Arc::new(Spawner {
            threads: std::sync::Mutex::new(Vec::new()),
        });
        let (pool, pwq) = pool_of(1, spawner.clone());
        let worker = start(&pool);
        let culler = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.cull(u64::MAX / 2);
            }
        });
        let item = Item::new(raw::run_and_free);
        let done = item.done.clone();
        raw::queue_boxed(&pool, pwq, item);
        done.park();
        culler.join().unwrap();
        finish(&pool, [worker]);
        loop {
            let more = spawner.threads.lock().unwrap().pop();
            let Some(more) = more else { break };
            more.join().unwrap();
        }
    });
}

#[test]
fn a_flag_set_before_queueing_is_seen_whether_queueing_says_true_or_false() {
    explore(3, || {
        let (pool, pwq) = pool_of(1, Arc::new(Refuser));
        let worker = start(&pool);
        let item = Arc::new(*Item::new(raw::run));
        raw::queue(&pool, pwq, &item);
        // Relaxed: only the PENDING bit orders this with the function.
        item.flag.store(1, Ordering::Relaxed);
        raw::queue(&pool, pwq, &item);
        // Some run has to see the flag, or this never returns.
        item.done.park();
        finish(&pool, [worker]);
    });
}

#[test]
fn an_item_never_runs_on_two_workers_at_once() {
    explore(3, || {
        let (pool, pwq) = pool_of(2, Arc::new(Refuser));
        let workers = [start(&pool), start(&pool)];
        let item = Arc::new(ExclusiveItem::new());
        exclusive::queue(&pool, pwq, &item);
        exclusive::queue(&pool, pwq, &item);
        item.done.park();
        finish(&pool, workers);
    });
}

/// An item whose runs touch memory that only one run at a time may touch.
#[repr(C)]
struct ExclusiveItem {
    raw: RawWork,
    touched: loom::cell::UnsafeCell<u32>,
    done: Parker,
}

impl ExclusiveItem {
    fn new() -> Self {
        ExclusiveItem {
            raw: RawWork::new(exclusive::run),
            touched: loom::cell::UnsafeCell::new(0),
            done: Parker::new(),
        }
    }
}

mod exclusive {
    //! As `raw`, for the item that must not run twice at once.
    #![allow(unsafe_code)]
    use super::*;

    // SAFETY: `touched` is what the model is about: loom reports two accesses at once.
    unsafe impl Sync for ExclusiveItem {}
    // SAFETY: nothing in it belongs to a thread.
    unsafe impl Send for ExclusiveItem {}

    pub(super) fn queue(pool: &Arc<Pool>, pwq: PwqKey, item: &Arc<ExclusiveItem>) -> bool {
        let at = NonNull::from(&item.raw);
        // SAFETY: the Arc outlives the pool.
        let Ok(mut item) = (unsafe { Pending::claim(at) }) else {
            return false;
        };
        item.aim(pool.id, pwq.place);
        pool.publish(item);
        true
    }

    pub(super) unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
        // SAFETY: `raw` is the first field of an item that outlives the pool.
        let item = unsafe { item.cast::<ExclusiveItem>().as_ref() };
        // SAFETY: checked by loom: that is the point.
        item.touched.with_mut(|touched| unsafe { *touched += 1 });
        item.done.unpark();
    }
}

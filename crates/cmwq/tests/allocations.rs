//! Queueing and running cost no allocation; nor does `spawn` once memory of earlier items is there,
//! unless the closure is large.
//!
//! Both sides may allocate now and then: for *events* (the pool asks for a spare worker, or to be
//! watched while it is saturated), which come with time and not with items. So the measure is
//! windows of some items: one allocation per item, or per fifty, would leave none without.

#[path = "harness/allocations.rs"]
mod count;
mod harness;

use cmwq::raw::RawWork;
use cmwq::types::Queued;
use cmwq::{Completion, Work};
use count::here;
use harness::{Deadline, engine};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What items see of their workers' allocations: what happened on the thread since its last item ended.
#[derive(Default)]
struct Between(AtomicU64);

thread_local! {
    static AT_LAST_END: Cell<Option<u64>> = const { Cell::new(None) };
}

impl Between {
    fn an_item(&self) {
        let now = here();
        if let Some(before) = AT_LAST_END.replace(Some(now)) {
            self.0.fetch_add(now - before, Ordering::Relaxed);
        }
    }
}

const WINDOW: usize = 50;
const WINDOWS: usize = 200;
/// Tables have grown to their size by then, spares are there.
const WARM_UP: usize = 1_000;

/// Calls `issue` for `WINDOWS` windows of `WINDOW` calls. In most of them the caller must have
/// allocated `each` times per call exactly, and in some the workers not at all.
fn allocations_are(each: u64, between: &Between, mut issue: impl FnMut()) {
    for _ in 0..WARM_UP {
        issue();
    }
    let (mut exact, mut free) = (0, 0);
    for _ in 0..WINDOWS {
        let (issuer, workers) = (here(), between.0.load(Ordering::Relaxed));
        for _ in 0..WINDOW {
            issue();
        }
        let own = here() - issuer;
        assert!(own >= each * WINDOW as u64, "{own} in a window");
        exact += usize::from(own == each * WINDOW as u64);
        free += usize::from(between.0.load(Ordering::Relaxed) == workers);
    }
    assert!(
        exact > WINDOWS / 2,
        "an issuer allocated {each} times per item in {exact} of {WINDOWS} windows only"
    );
    assert!(
        free > 0,
        "workers allocated in each of {WINDOWS} windows of {WINDOW} items"
    );
}

#[test]
fn queueing_and_running_a_reusable_item_allocates_nothing() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("reusable", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let between = Arc::new(Between::default());
    let done = Arc::new(Completion::new());
    // Other items keep the pool busy: their runs are measured as well.
    let noise: Vec<Work> = (0..8)
        .map(|_| {
            let between = between.clone();
            Work::new(move || between.an_item())
        })
        .collect();
    let work = Work::new({
        let (between, done) = (between.clone(), done.clone());
        move || {
            between.an_item();
            done.complete();
        }
    });
    allocations_are(0, &between, || {
        done.reinit();
        for other in &noise {
            let _ = wq.queue(other);
        }
        assert!(wq.queue(&work).is_accepted());
        let _ = wq.queue(&noise[0]);
        done.wait();
    });
}

#[test]
fn small_closures_without_a_handle_need_no_memory_once_there_are_chunks() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("closures", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let between = Arc::new(Between::default());
    let done = Arc::new(Completion::new());
    let mut number = 0;
    allocations_are(0, &between, || {
        let between = between.clone();
        number += 1;
        // The first few after a wait are items of their own, the others lie in chunks.
        if number % WINDOW != 0 {
            return wq.execute(move || between.an_item()).unwrap();
        }
        done.reinit();
        let completed = done.clone();
        wq.execute(move || completed.complete()).unwrap();
        done.wait();
    });
}

#[test]
fn queueing_and_running_a_raw_item_allocates_nothing() {
    #[repr(C)]
    struct Raw {
        raw: RawWork,
        between: Between,
        done: Completion,
    }
    unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
        // SAFETY: only the item below has this function; it is the first field of a `Raw` that
        // outlives the queue. The pointer was made from the whole struct.
        let item = unsafe { item.cast::<Raw>().as_ref() };
        item.between.an_item();
        item.done.complete();
    }
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("raw", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let item = Box::new(Raw {
        raw: RawWork::new(run),
        between: Between::default(),
        done: Completion::new(),
    });
    let address = NonNull::from(&*item).cast::<RawWork>();
    allocations_are(0, &item.between, || {
        item.done.reinit();
        // SAFETY: the item outlives the queue, which is flushed below.
        assert_eq!(unsafe { wq.queue_raw(address) }, Queued::Accepted);
        item.done.wait();
    });
    wq.flush().unwrap();
}

#[test]
fn spawning_small_closures_uses_memory_of_earlier_ones() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("small", &engine);
    let on_workers = engine.workqueue("t").workers_only().build().unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    let between = Arc::new(Between::default());
    let mut n = 0_u64;
    // Run by the thread that joins.
    allocations_are(0, &between, || {
        n += 1;
        let small = [n; 2];
        let handle = wq.spawn(move || small.iter().sum::<u64>());
        assert_eq!(handle.join().unwrap(), 2 * n);
    });
    allocations_are(0, &between, || {
        n += 1;
        let (between, small) = (between.clone(), [n; 2]);
        let handle = on_workers.spawn(move || {
            between.an_item();
            small.iter().sum::<u64>()
        });
        assert_eq!(handle.join().unwrap(), 2 * n);
    });
}

#[test]
fn spawning_a_large_closure_costs_one_allocation() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("spawn", &engine);
    let on_workers = engine.workqueue("t").workers_only().build().unwrap();
    let wq = engine.workqueue("t").build().unwrap();
    let between = Arc::new(Between::default());
    let mut n = 0_u64;
    // Run by the thread that joins.
    allocations_are(1, &between, || {
        n += 1;
        let big = [n; 16];
        let handle = wq.spawn(move || big.iter().sum::<u64>());
        assert_eq!(handle.join().unwrap(), 16 * n);
    });
    allocations_are(1, &between, || {
        n += 1;
        let (between, big) = (between.clone(), [n; 16]);
        let handle = on_workers.spawn(move || {
            between.an_item();
            big.iter().sum::<u64>()
        });
        assert_eq!(handle.join().unwrap(), 16 * n);
    });
}

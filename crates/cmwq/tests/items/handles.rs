//! What handles, queues and engines promise besides running items.

use crate::harness::{Deadline, Door, block_on, counting, engine, eventually, quiet_panic};
use cmwq::raw::{NoSuchWorkqueue, RawWork, WorkqueueHandle, current_work, wake_deferred};
use cmwq::types::{FlushError, WorkqueueAttrs};
use cmwq::{Completion, Error, JoinError, JoinHandle, Work, Workqueue};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

#[test]
fn a_handle_is_a_future() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("futures", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for n in 0..2_000 {
        assert_eq!(block_on(wq.spawn(move || n * 2)).unwrap(), n * 2);
    }
    let door = Door::new();
    let waits = wq.spawn({
        let door = door.clone();
        move || {
            door.pass();
            "late"
        }
    });
    door.wait_for(1);
    assert!(!waits.is_finished());
    let all = async {
        let handles: Vec<_> = (0..100).map(|n| wq.spawn(move || n)).collect();
        let mut sum = 0;
        for handle in handles {
            sum += handle.await.unwrap();
        }
        door.open.complete();
        (sum, waits.await.unwrap())
    };
    assert_eq!(block_on(all), (4950, "late"));
    let panicked = block_on(wq.spawn(|| quiet_panic()));
    assert!(matches!(panicked, Err(JoinError::Panicked(_))));
}

#[test]
fn closures_and_results_are_dropped_once_with_and_without_their_handle() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("drops", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (closures, results) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for n in 0..3_000 {
        let (closure, result) = (Counted(closures.clone()), Counted(results.clone()));
        let handle = wq.spawn(move || {
            let _held = &closure;
            result
        });
        match n % 3 {
            0 => drop(handle),
            1 => drop(handle.join()),
            _ => drop(block_on(handle)),
        }
    }
    wq.flush().unwrap();
    // The queue's own reference goes right after the item has been counted as completed.
    eventually(|| closures.load(Ordering::SeqCst) == 3_000);
    eventually(|| results.load(Ordering::SeqCst) == 3_000);
}

// ---- the queue itself ----

#[test]
fn a_queue_may_be_dropped_by_its_own_item() {
    let engine = engine("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("dropped by its own item", &engine);
    for round in 0..50 {
        let runs = Arc::new(AtomicUsize::new(0));
        let builder = engine.workqueue("t");
        let wq = if round % 2 == 0 {
            builder
        } else {
            builder.ordered()
        };
        let wq = Arc::new(wq.build().unwrap());
        let door = Door::new();
        drop(wq.spawn({
            let (inner, door, runs) = (wq.clone(), door.clone(), runs.clone());
            move || {
                door.pass();
                for _ in 0..10 {
                    let runs = runs.clone();
                    drop(inner.spawn(move || runs.fetch_add(1, Ordering::SeqCst)));
                }
                drop(inner);
                runs.fetch_add(1, Ordering::SeqCst);
            }
        }));
        door.wait_for(1);
        drop(wq);
        door.open.complete();
        eventually(|| runs.load(Ordering::SeqCst) == 11);
        eventually(|| engine.stats().pools == 0);
    }
    assert_eq!(engine.stats().panics, 0);
}

#[test]
fn threads_end_with_the_last_queue_and_the_engine_comes_back() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("threads end", &engine);
    for _ in 0..20 {
        let wq = engine.workqueue("t").build().unwrap();
        for cpu in 0..4 {
            let done = Arc::new(Completion::new());
            let work = Work::new({
                let done = done.clone();
                move || done.complete()
            });
            assert!(wq.queue_on(cpu, &work).unwrap().is_accepted());
            done.wait();
        }
        drop(wq);
        let stats = engine.stats();
        assert_eq!((stats.pools, stats.workers), (0, 0));
    }
    let stats = engine.stats();
    assert_eq!(stats.started, stats.completed);
    assert_eq!(
        stats.completed, 80,
        "counts of pools that are gone are kept"
    );
}

#[test]
fn an_unknown_cpu_and_a_wrong_nice_level_change_nothing() {
    let engine = engine("l3:1 core:2 pu:1");
    let wq = engine.workqueue("t").build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let work = counting(&runs);
    assert!(matches!(
        wq.queue_on(2, &work),
        Err(Error::NoSuchCpu { cpu: 2, .. })
    ));
    assert!(!work.is_pending());
    let before = wq.attrs();
    let wrong = WorkqueueAttrs {
        nice: 20,
        affinity_strict: true,
        ..WorkqueueAttrs::default()
    };
    assert!(matches!(wq.apply_attrs(wrong), Err(Error::Nice(20))));
    assert_eq!(wq.attrs(), before);
}

#[test]
fn a_number_whose_slot_is_used_again_names_no_queue() {
    // As many as there are slots, and one more: however they are given out, the live one has the
    // slot of one before.
    const SLOTS: usize = 1 << 16;
    extern "C-unwind" fn nothing(_: NonNull<RawWork>) {}
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("numbers", &engine);
    let build = || Arc::new(engine.workqueue("t").build().unwrap());
    let (gone, live) = (build(), build());
    let before: Vec<WorkqueueHandle> = (0..=SLOTS)
        .map(|_| {
            let handle = WorkqueueHandle::new(gone.clone()).unwrap();
            handle.destroy().unwrap();
            handle
        })
        .collect();
    let live = WorkqueueHandle::new(live).unwrap();
    let item = RawWork::new(nothing);
    for handle in before {
        assert!(handle.get().is_err(), "{handle:?} is {live:?}");
        // SAFETY: it outlives the queue that it would go to.
        let queued = unsafe { handle.queue_raw(NonNull::from(&item)) };
        assert_eq!(queued, Err(NoSuchWorkqueue));
        assert_eq!(handle.destroy(), Err(NoSuchWorkqueue));
        assert!(!item.is_pending());
    }
    assert_eq!(live.get().unwrap().spawn(|| 1).join().unwrap(), 1);
    live.destroy().unwrap();
}

#[test]
fn a_name_with_a_nul_byte_is_refused_and_any_other_is_not() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("names", &engine);
    for name in ["\0", "a\0b", "a\0"] {
        for rescuer in [false, true] {
            let builder = engine.workqueue(name);
            let builder = if rescuer {
                builder.mem_reclaim()
            } else {
                builder
            };
            let refused = builder.build().unwrap_err();
            let text = refused.to_string();
            assert!(matches!(refused, Error::Name(given) if given == name));
            assert!(text.contains("NUL"), "{text}");
        }
    }
    for name in ["", "\n", "a/b", "\u{1f980}"] {
        let wq = engine.workqueue(name).mem_reclaim().build().unwrap();
        assert_eq!(wq.name(), name);
        assert_eq!(wq.spawn(|| 1).join().unwrap(), 1);
    }
}

/// Counts its calls; the first that is deferred, after the item, drops the queue.
struct DropsQueue {
    woken: AtomicUsize,
    wq: Mutex<Option<Arc<Workqueue>>>,
}

impl Wake for DropsQueue {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        if current_work().is_none() {
            let last = self.wq.lock().unwrap().take();
            drop(last);
        }
    }
}

/// Queues items that hand over the waker. The monitor allows deferring wake-ups once it has seen a
/// backlog. Returns how many were queued.
fn hand_over(wq: &Workqueue, waker: &Arc<impl Wake + Send + Sync + 'static>) -> usize {
    const ITEMS: usize = 50;
    for _ in 0..ITEMS {
        let waker = Waker::from(waker.clone());
        let item = move || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(20) {}
            wake_deferred(waker);
        };
        wq.execute(item).unwrap();
    }
    ITEMS
}

#[test]
fn a_waker_may_drop_the_last_handle_of_a_queue_with_a_backlog() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("a waker that drops a queue", &engine);
    for builder in [engine.workqueue("t"), engine.workqueue("t").per_cpu()] {
        let wq = Arc::new(builder.build().unwrap());
        let waker = Arc::new(DropsQueue {
            woken: AtomicUsize::new(0),
            wq: Mutex::new(Some(wq)),
        });
        let mut queued = 0;
        loop {
            let wq = waker.wq.lock().unwrap();
            let Some(wq) = &*wq else { break };
            queued += hand_over(wq, &waker);
        }
        eventually(|| waker.woken.load(Ordering::SeqCst) == queued);
    }
}

/// Waits, in the calls that are deferred, for what its worker may have claimed.
struct Waits {
    wq: Weak<Workqueue>,
    work: Work,
    /// Of an item that has not ended.
    handle: Mutex<Option<JoinHandle<()>>>,
    waited: AtomicUsize,
}

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        let Some(wq) = self.wq.upgrade().filter(|_| current_work().is_none()) else {
            return;
        };
        assert_eq!(wq.flush(), Err(FlushError::InWaker));
        assert_eq!(wq.drain(), Err(FlushError::InWaker));
        let _ = wq.queue(&self.work);
        assert_eq!(self.work.flush(), Err(FlushError::InWaker));
        self.work.cancel_sync();
        if let Some(handle) = self.handle.lock().unwrap().take() {
            let refused = handle.join().unwrap_err();
            assert!(matches!(refused, JoinError::InWaker), "{refused}");
        }
        self.waited.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_waker_does_not_wait() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("a waker that waits", &engine);
    for builder in [engine.workqueue("t"), engine.workqueue("t").per_cpu()] {
        let wq = Arc::new(builder.build().unwrap());
        let gate = Arc::new(Completion::new());
        let opened = gate.clone();
        let waker = Arc::new(Waits {
            wq: Arc::downgrade(&wq),
            work: Work::new(|| ()),
            handle: Mutex::new(Some(wq.spawn(move || opened.wait()))),
            waited: AtomicUsize::new(0),
        });
        while waker.waited.load(Ordering::SeqCst) == 0 {
            hand_over(&wq, &waker);
        }
        gate.complete();
        wq.flush().unwrap();
    }
}

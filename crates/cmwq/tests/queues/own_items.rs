//! Waits of an item for itself, which would never end: each is an error, through every kind of
//! handle, wherever the item runs.

use crate::harness::{Deadline, Door, Heard, block_on, engine, eventually, in_own_process};
use cmwq::raw::{EmbeddedDelayedWork, EmbeddedWork};
use cmwq::types::FlushError;
use cmwq::{CompletionQueue, DelayedWork, Engine, JoinError, JoinHandle, Refused, Work, Workqueue};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1 << 20);
const OWN: Result<bool, FlushError> = Err(FlushError::OwnItem);

/// A place from which an item takes its own handle.
type Slot<T> = Arc<Mutex<Option<JoinHandle<T>>>>;

fn take<T>(slot: &Slot<T>) -> JoinHandle<T> {
    eventually(|| slot.lock().unwrap().is_some());
    slot.lock().unwrap().take().unwrap()
}

/// Spawns what is given its own handle.
fn spawn_with_handle<T: Send + 'static>(
    wq: &Workqueue,
    func: impl FnOnce(JoinHandle<T>) -> T + Send + 'static,
) {
    let slot = Slot::default();
    let own = slot.clone();
    *slot.lock().unwrap() = Some(wq.spawn(move || func(take(&own))));
}

fn one_of_each_kind(engine: &Engine) -> Vec<Arc<Workqueue>> {
    let builders = [
        engine.workqueue("unbound"),
        engine.workqueue("workers").workers_only(),
        engine.workqueue("narrow").max_active(1),
        engine.workqueue("percpu").per_cpu(),
        engine.workqueue("intensive").per_cpu().cpu_intensive(),
        engine.workqueue("bh").bh(),
        engine.workqueue("ordered").ordered(),
        engine.workqueue("reclaim").mem_reclaim(),
    ];
    let queues = builders.into_iter();
    queues
        .map(|builder| Arc::new(builder.build().unwrap()))
        .collect()
}

/// Everything by which a handle waits, called in the item itself.
fn all_joins_are_refused<T: Send + 'static>(mut own: JoinHandle<T>) -> bool {
    let refused = |result| matches!(result, Err(JoinError::OwnItem));
    let with_timeouts = [Duration::ZERO, LONG].map(|timeout| own.join_timeout(timeout));
    let with_timeouts = with_timeouts
        .into_iter()
        .all(|told| told.is_some_and(refused));
    // As in an executor, which may have other tasks.
    let mut context = Context::from_waker(Waker::noop());
    let polled = pin!(&mut own).poll(&mut context).is_pending();
    with_timeouts && polled && refused(own.join())
}

/// How an item waits for itself: from its function, or from an item that its thread runs while the
/// function joins it.
#[derive(Clone)]
struct Way(Option<Arc<Workqueue>>);

impl Way {
    /// Both, the second with items of `inner`.
    fn both(inner: &Arc<Workqueue>) -> [Way; 2] {
        [Way(None), Way(Some(inner.clone()))]
    }

    fn call<R: Send + 'static>(&self, wait: impl Fn() -> R + Send + Sync + 'static) -> R {
        let Some(inner) = &self.0 else {
            return wait();
        };
        let (caller, wait) = (thread::current().id(), Arc::new(wait));
        loop {
            let wait = wait.clone();
            // On another thread it would wait for a thread that waits for it, which is no wait for itself.
            let here = move || (thread::current().id() == caller).then(|| wait());
            if let Some(told) = inner.spawn(here).join().unwrap() {
                return told;
            }
        }
    }
}

/// Waits of one item, and what it was told.
type Told = Arc<Mutex<Vec<Result<bool, FlushError>>>>;

fn of_work(wq: &Arc<Workqueue>, way: &Way, told: &Told) {
    let (me, way, told) = (Arc::new(OnceLock::<Work>::new()), way.clone(), told.clone());
    let own = me.clone();
    let work = Work::new(move || {
        let own = own.get().unwrap().clone();
        let waits = way.call(move || {
            assert!(!own.cancel_sync() && !own.disable_sync().removed_pending());
            let now = own.flush_timeout(Duration::ZERO);
            [own.flush(), own.flush_timeout(LONG), now]
        });
        told.lock().unwrap().extend(waits);
    });
    me.set(work.clone()).unwrap();
    assert!(wq.queue(&work).is_accepted());
    wq.flush().unwrap();
}

fn of_delayed(wq: &Arc<Workqueue>, way: &Way, told: &Told) {
    let me = Arc::new(OnceLock::<DelayedWork>::new());
    let (own, way, told) = (me.clone(), way.clone(), told.clone());
    let queue = Arc::downgrade(wq);
    let work = DelayedWork::new(move || {
        let own = own.get().unwrap().clone();
        let queue = queue.upgrade().unwrap();
        let waits = way.call(move || {
            // A wait that is refused leaves the timer alone.
            let again = queue.queue_delayed(&own, LONG);
            let waits = [own.flush(), own.flush_timeout(LONG)];
            assert!(again.is_accepted() && !own.time_left().is_zero());
            assert!(own.cancel_sync() && !own.disable_sync().removed_pending());
            waits
        });
        told.lock().unwrap().extend(waits);
    });
    me.set(work.clone()).unwrap();
    assert!(wq.queue_delayed(&work, Duration::ZERO).is_accepted());
    wq.flush().unwrap();
}

/// A value that waits for its own items.
struct Embedded {
    way: Way,
    told: Told,
    work: EmbeddedWork<Embedded>,
    delayed: EmbeddedDelayedWork<Embedded>,
}

fn of_embedded(wq: &Arc<Workqueue>, way: &Way, told: &Told) {
    let value = Arc::new(Embedded {
        way: way.clone(),
        told: told.clone(),
        work: EmbeddedWork::new(|value: Arc<Embedded>| {
            let own = value.clone();
            let waits = value.way.call(move || {
                assert!(own.work.cancel_sync().is_none());
                [own.work.flush(), own.work.flush_timeout(LONG)]
            });
            value.told.lock().unwrap().extend(waits);
        }),
        delayed: EmbeddedDelayedWork::new(|value: Arc<Embedded>| {
            let own = value.clone();
            let waits = value.way.call(move || {
                assert!(own.delayed.cancel_sync().is_none());
                [own.delayed.flush(), own.delayed.flush_timeout(LONG)]
            });
            value.told.lock().unwrap().extend(waits);
        }),
    });
    assert!(wq.queue_embedded(&value, |value| &value.work).is_accepted());
    wq.flush().unwrap();
    let queued = wq.queue_delayed_embedded(&value, |value| &value.delayed, Duration::ZERO);
    assert!(queued.is_accepted());
    wq.flush().unwrap();
}

fn of_queue(wq: &Arc<Workqueue>, way: &Way, told: &Told) {
    let (way, told, queue) = (way.clone(), told.clone(), Arc::downgrade(wq));
    let waits = move || {
        let queue = queue.upgrade().unwrap();
        let waits = way.call(move || [queue.flush(), queue.drain()]);
        let waits = waits.map(|told| told.map(|()| true));
        told.lock().unwrap().extend(waits);
    };
    wq.execute(waits).unwrap();
    wq.flush().unwrap();
}

fn of_handle(wq: &Arc<Workqueue>, way: &Way, told: &Told) {
    for _ in 0..20 {
        let (way, told) = (way.clone(), told.clone());
        spawn_with_handle(wq, move |own| {
            let own = Mutex::new(Some(own));
            let refused = way.call(move || {
                let own = own.lock().unwrap().take();
                all_joins_are_refused(own.unwrap())
            });
            let told_own = if refused { OWN } else { Ok(false) };
            told.lock().unwrap().push(told_own);
        });
    }
    wq.flush().unwrap();
}

type Of = fn(&Arc<Workqueue>, &Way, &Told);
const EVERY_HANDLE: [(&str, Of, usize); 5] = [
    ("work", of_work, 3),
    ("delayed", of_delayed, 2),
    ("embedded", of_embedded, 4),
    ("queue", of_queue, 2),
    ("handle", of_handle, 20),
];

#[test]
fn an_item_cannot_wait_for_itself_through_any_handle() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("own item", &engine);
        let inner = Arc::new(engine.workqueue("inner").build().unwrap());
        for wq in one_of_each_kind(&engine) {
            for way in Way::both(&inner) {
                for (handle, of, waits) in EVERY_HANDLE {
                    let told = Told::default();
                    of(&wq, &way, &told);
                    let nested = way.0.is_some();
                    let told = &*told.lock().unwrap();
                    assert_eq!(*told, vec![OWN; waits], "{} {handle} {nested}", wq.name());
                }
            }
        }
        // Once, however many there are; the reporter says what an item on a worker has warned of.
        for text in [
            "join was called from inside",
            "flush was called from",
            "cancel or disable",
        ] {
            eventually(|| heard.count(text) == 1);
        }
        assert_eq!(engine.stats().panics, 0);
    });
}

#[test]
fn nor_when_a_waiting_thread_runs_it() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("own item of a waiter", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let by_waiter = Arc::new(AtomicBool::new(false));
    let me = Arc::new(OnceLock::<Work>::new());
    let (own, seen, caller) = (me.clone(), by_waiter.clone(), thread::current().id());
    let work = Work::new(move || {
        let own = own.get().unwrap();
        assert_eq!([own.flush(), own.flush_timeout(LONG)], [OWN; 2]);
        assert!(!own.cancel_sync());
        seen.fetch_or(thread::current().id() == caller, Ordering::SeqCst);
    });
    me.set(work.clone()).unwrap();
    while !by_waiter.load(Ordering::SeqCst) {
        assert!(wq.queue(&work).is_accepted());
        work.flush().unwrap();
    }
    assert_eq!(engine.stats().panics, 0);
}

/// Dropping a workqueue waits for its items.
#[test]
fn a_queue_that_ends_inside_one_of_its_items_ends_elsewhere() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("own end", &engine);
    let inner = Arc::new(engine.workqueue("inner").build().unwrap());
    for way in Way::both(&inner) {
        let wq = Arc::new(engine.workqueue("t").build().unwrap());
        let last = Mutex::new(Some(wq.clone()));
        let ended = wq.spawn(move || {
            // The only one once the test has dropped its own.
            let last = last.lock().unwrap().take().unwrap();
            eventually(|| Arc::strong_count(&last) == 1);
            let last = Mutex::new(Some(last));
            way.call(move || drop(last.lock().unwrap().take()));
        });
        drop(wq);
        ended.join().unwrap();
    }
    eventually(|| engine.live_queues().len() == 1);
}

#[test]
fn a_handle_is_still_good_after_its_item_has_waited_for_it() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("good handle", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (slot, back) = (Slot::default(), Slot::default());
    let (own, leave) = (slot.clone(), back.clone());
    *slot.lock().unwrap() = Some(wq.spawn(move || {
        let mut own = take(&own);
        let told = own.join_timeout(LONG);
        *leave.lock().unwrap() = Some(own);
        matches!(told, Some(Err(JoinError::OwnItem)))
    }));
    assert!(take(&back).join().unwrap());
}

/// The only item of a completion queue waits for an entry of that queue.
#[test]
fn an_item_cannot_wait_for_its_own_entry() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("own entry", &engine);
        let wq = Arc::new(engine.workqueue("t").build().unwrap());
        let inner = Arc::new(engine.workqueue("inner").build().unwrap());
        for way in Way::both(&inner) {
            let done = Arc::new(CompletionQueue::new());
            let other = Door::new();
            let (queue, open) = (Arc::downgrade(&done), other.clone());
            let waits = move || {
                let queue = queue.upgrade().unwrap();
                way.call(move || {
                    let mut entries = Vec::new();
                    // The other item's entry comes.
                    open.open.complete();
                    let first = queue.wait(8, &mut entries);
                    let more = (
                        queue.wait(8, &mut entries),
                        queue.wait_timeout(8, &mut entries, LONG),
                    );
                    (first, more)
                })
            };
            let pass = other.clone();
            done.submit(&wq, 1, move || {
                pass.pass();
                (0, (0, 0))
            })
            .unwrap();
            other.wait_for(1);
            done.submit(&wq, 2, waits).unwrap();
            eventually(|| wq.flush().is_ok());
            let entry = done.try_next().expect("its own, at last");
            assert_eq!((entry.token, entry.result.unwrap()), (2, (1, (0, 0))));
        }
        eventually(|| heard.count("waits for its own entry") == 1);
    });
}

/// A drain and a shutdown that an item of the queue polls could only end after that item, and the
/// task would not be queued again.
#[test]
fn an_item_cannot_await_the_drain_or_the_shutdown_of_its_queue() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("awaited by own items", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for way in Way::both(&Arc::new(engine.workqueue("inner").build().unwrap())) {
        let own = wq.clone();
        let drained = wq.spawn(move || way.call(move || block_on(own.drain_async())));
        assert_eq!(drained.join().unwrap(), Err(FlushError::OwnItem));
        wq.execute(|| ()).expect("it is open again");
    }
    let own = wq.clone();
    let shut = wq.spawn(move || {
        let mut shutdown = own.shutdown();
        (block_on(&mut shutdown), shutdown)
    });
    let (told, shutdown) = shut.join().unwrap();
    assert_eq!(told, Err(FlushError::OwnItem));
    assert_eq!(wq.execute(|| ()), Err(Refused::Draining));
    assert_eq!(block_on(shutdown), Ok(()));
}

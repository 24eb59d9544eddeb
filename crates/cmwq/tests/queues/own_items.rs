//! Waits of an item for itself, which would never end: each is an error, through every kind of handle, wherever the item runs.

use crate::harness::{Deadline, Door, Heard, engine, eventually, held, in_own_process};
use cmwq::{
    Chunks, CompletionQueue, ConcurrencyGroup, DelayedWork, EmbeddedDelayedWork, EmbeddedWork,
    Engine, FlushError, JoinError, JoinHandle, Work, Workqueue, WorkqueueBuilder, scope,
};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

/// How an item waits for itself: from its function, or from an item that its thread runs while the function joins it.
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
        // Once, however many there are.
        for text in [
            "join was called from inside",
            "flush was called from",
            "cancel or disable",
        ] {
            assert_eq!(heard.count(text), 1, "{text}");
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

/// Queues with one place, which an item has that waits for another one.
fn with_one_place(engine: &Engine) -> Vec<[Arc<Workqueue>; 2]> {
    let same = |builder: WorkqueueBuilder| {
        let wq = Arc::new(builder.build().unwrap());
        [wq.clone(), wq]
    };
    let group = ConcurrencyGroup::new("one place", 1);
    let grouped = |name| engine.workqueue(name).group(&group);
    vec![
        same(engine.workqueue("ordered").ordered()),
        same(engine.workqueue("one").max_active(1)),
        same(
            engine
                .workqueue("strict")
                .max_active(1)
                .affinity_strict(true),
        ),
        same(engine.workqueue("nice").max_active(1).nice(1)),
        same(engine.workqueue("one percpu").per_cpu().max_active(1)),
        same(grouped("grouped")),
        [grouped("first"), grouped("second")].map(|builder| Arc::new(builder.build().unwrap())),
        [grouped("o1"), grouped("o2")].map(|builder| Arc::new(builder.ordered().build().unwrap())),
    ]
}

/// An item that has the only place of its queue or group waits for an item that needs it.
#[test]
fn an_item_cannot_wait_for_one_that_needs_its_place() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("one place", &engine);
        let ran = Arc::new(AtomicUsize::new(0));
        let mut expected = 0;
        for [outer, inner] in with_one_place(&engine) {
            let (wq, count) = (inner.clone(), ran.clone());
            let item = move || {
                let count = || {
                    let ran = count.clone();
                    move || ran.fetch_add(1, Ordering::SeqCst)
                };
                let refused = |result| matches!(result, Err(JoinError::OwnItem));
                let mut told = vec![refused(wq.spawn(count()).join())];
                told.push(wq.spawn(count()).join_timeout(LONG).is_some_and(refused));
                let batch = wq.spawn_batch((0..3).map(|_| count()));
                told.extend(batch.into_iter().map(|handle| refused(handle.join())));
                let one = count();
                let work = Work::new(move || {
                    one();
                });
                assert!(wq.queue(&work).is_accepted());
                told.extend([work.flush() == OWN, work.flush_timeout(LONG) == OWN]);
                told
            };
            let told = outer.spawn(item).join().unwrap();
            assert_eq!(told, [true; 7], "{}", outer.name());
            // What could not be waited for runs all the same.
            inner.flush().unwrap();
            expected += 6;
            assert_eq!(ran.load(Ordering::SeqCst), expected, "{}", outer.name());
        }
        assert_eq!(heard.count("cannot begin before it ends"), 1);
        assert_eq!(engine.stats().panics, 0);
    });
}

#[test]
fn a_scope_whose_items_need_its_place_is_an_error_and_they_do_not_run() {
    in_own_process(|| {
        let _heard = Heard::warnings();
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("scope in one place", &engine);
        for [outer, inner] in with_one_place(&engine) {
            let (wq, of) = (inner.clone(), outer.name().to_owned());
            let item = move || {
                let ran = AtomicUsize::new(0);
                let inside = AssertUnwindSafe(|| {
                    scope(&wq, |s| {
                        for _ in 0..3 {
                            s.spawn(|| {
                                ran.fetch_add(1, Ordering::SeqCst);
                            });
                        }
                    });
                });
                let error = catch_unwind(inside).expect_err("they need the item's place");
                let error = error.downcast::<String>().expect("a text");
                assert!(error.contains("cannot begin before it ends"), "{error}");
                let ran = ran.into_inner();
                // A loop does without them.
                let sum = AtomicUsize::new(0);
                let chunks = Chunks {
                    max_threads: 4,
                    ..Chunks::default()
                };
                wq.for_each_chunk(0..100, chunks, |chunk| {
                    sum.fetch_add(chunk.sum::<usize>(), Ordering::SeqCst);
                });
                (ran, sum.into_inner())
            };
            let told = outer.spawn(item).join();
            assert_eq!(told.unwrap(), (0, 4950), "{of}");
            inner.flush().unwrap();
        }
        assert_eq!(engine.stats().panics, 0);
    });
}

/// What another thread's item holds ends, and a frozen queue is thawed: such waits end.
#[test]
fn a_wait_for_a_place_that_another_item_has_goes_on() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("another place", &engine);
    let wq = Arc::new(engine.workqueue("two").max_active(2).build().unwrap());
    let door = Door::new();
    let holds = held(&wq, 0, 1, &door);
    door.wait_for(1);
    let (queue, begun) = (wq.clone(), Arc::new(AtomicBool::new(false)));
    let begins = begun.clone();
    let waits = wq.spawn(move || {
        // Both places are taken, one of them by this item.
        let inner = queue.spawn(|| 7);
        begins.store(true, Ordering::SeqCst);
        inner.join().unwrap()
    });
    eventually(|| begun.load(Ordering::SeqCst));
    door.open.complete();
    assert_eq!(waits.join().unwrap(), 7);
    assert_eq!(holds.len(), 1);

    let (free, frozen) = (
        engine.workqueue("free").build().unwrap(),
        engine
            .workqueue("frozen")
            .max_active(1)
            .freezable()
            .build()
            .unwrap(),
    );
    engine.freeze_workqueues_begin();
    let (frozen, begun) = (Arc::new(frozen), Arc::new(AtomicBool::new(false)));
    let (queue, begins) = (frozen.clone(), begun.clone());
    let waits = free.spawn(move || {
        let inner = queue.spawn(|| 8);
        begins.store(true, Ordering::SeqCst);
        inner.join().unwrap()
    });
    eventually(|| begun.load(Ordering::SeqCst));
    engine.thaw_workqueues();
    assert_eq!(waits.join().unwrap(), 8);
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
        assert_eq!(heard.count("waits for its own entry"), 1);
    });
}

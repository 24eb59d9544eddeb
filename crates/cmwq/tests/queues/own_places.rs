//! Waits of an item for what needs the item's own place, in an ordered queue, below `max_active` or
//! in a group: each is an error.

use crate::harness::{Deadline, Door, Heard, engine, eventually, held, in_own_process};
use cmwq::raw::{RawDelayedWork, RawWork, WorkqueueHandle};
use cmwq::types::{Chunks, FlushError};
use cmwq::{
    CompletionQueue, ConcurrencyGroup, Engine, JoinError, JoinSet, Refused, Work, Workqueue,
    WorkqueueBuilder, scope,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(1 << 20);
const OWN: Result<bool, FlushError> = Err(FlushError::OwnItem);

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
        same(engine.workqueue("bh").bh()),
        ["bh 1", "bh 2"].map(|name| Arc::new(engine.workqueue(name).bh().build().unwrap())),
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
        eventually(|| heard.count("cannot begin before it ends") == 1);
        assert_eq!(engine.stats().panics, 0);
    });
}

/// Items in memory of the program, as in C, which only workers run. The item that has the place waits
/// for them, or an item that its thread runs while it joins that one.
#[test]
fn nor_when_workers_are_to_run_it() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C-unwind" fn count(_: NonNull<RawWork>) {
        RAN.fetch_add(1, Ordering::SeqCst);
    }
    in_own_process(|| {
        let _heard = Heard::warnings();
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("one place, workers only", &engine);
        let between = Arc::new(engine.workqueue("between").build().unwrap());
        let mut expected = 0;
        for ([outer, inner], nested) in [false, true].into_iter().flat_map(|nested| {
            with_one_place(&engine)
                .into_iter()
                .map(move |q| (q, nested))
        }) {
            let item: &RawWork = Box::leak(Box::new(RawWork::new(count)));
            let delayed: &RawDelayedWork = Box::leak(Box::new(RawDelayedWork::new(count)));
            let wq = inner.clone();
            let wait = move || {
                // SAFETY: neither is ever freed.
                let queued = unsafe {
                    let timed = wq.queue_delayed_raw(None, NonNull::from(delayed), LONG);
                    [wq.queue_raw(NonNull::from(item)), timed.unwrap()]
                };
                assert!(queued.into_iter().all(|queued| queued.is_accepted()));
                [item.flush_by_workers(), delayed.flush_by_workers()]
            };
            let between = between.clone();
            let told = outer.spawn(move || {
                let (caller, wait) = (thread::current().id(), Arc::new(wait));
                if !nested {
                    return wait();
                }
                loop {
                    let wait = wait.clone();
                    let here = move || (thread::current().id() == caller).then(|| wait());
                    if let Some(told) = between.spawn(here).join().unwrap() {
                        return told;
                    }
                }
            });
            let (told, of) = (told.join().unwrap(), outer.name());
            assert_eq!(told, [OWN; 2], "{of}, nested: {nested}");
            inner.flush().unwrap();
            expected += 2;
            assert_eq!(RAN.load(Ordering::SeqCst), expected, "{of}");
        }
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

/// Waits of an item for a whole queue whose items wait for the place that the item has: the wait
/// and the queue.
type WaitForQueue = (&'static str, fn(Workqueue) -> Option<String>);

/// The group's only place is taken by an item that waits for another queue of the group, of which
/// an item waits for that place.
#[test]
fn an_item_cannot_wait_for_a_queue_whose_items_need_its_place() {
    let waits: [WaitForQueue; 7] = [
        ("flush", |wq| wq.flush().err().map(|why| why.to_string())),
        ("drain", |wq| wq.drain().err().map(|why| why.to_string())),
        ("room", |wq| {
            wq.room().wait().err().map(|why| why.to_string())
        }),
        ("room for a time", |wq| {
            let told = wq.room().wait_timeout(LONG).err();
            told.map(|why| why.to_string())
        }),
        ("shutdown", |wq| {
            let told = wq.shutdown().wait().err();
            told.map(|unfinished| unfinished.why.to_string())
        }),
        ("drop", |wq| {
            drop(wq);
            None
        }),
        ("destroy", |wq| {
            WorkqueueHandle::new(wq).unwrap().destroy().unwrap();
            None
        }),
    ];
    in_own_process(move || {
        let _heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("a queue in one place", &engine);
        for (name, wait) in waits {
            let group = ConcurrencyGroup::new("one place", 1);
            let outer = engine.workqueue("outer").group(&group).build().unwrap();
            let inner = engine.workqueue("inner").group(&group).max_waiting(1);
            let inner = inner.build().unwrap();
            let ran = Arc::new(AtomicUsize::new(0));
            let runs = ran.clone();
            let told = outer.spawn(move || {
                inner
                    .execute(move || {
                        runs.fetch_add(1, Ordering::SeqCst);
                    })
                    .unwrap();
                wait(inner)
            });
            let told = told.join().unwrap();
            let is_told = !matches!(name, "drop" | "destroy");
            assert_eq!(told.is_some(), is_told, "{name}: {told:?}");
            // What could not be waited for runs all the same.
            eventually(|| ran.load(Ordering::SeqCst) == 1);
            eventually(|| engine.live_queues().len() == 1);
        }
    });
}

/// A stage hands its items on to the next one, with a bound between them and one place for both.
#[test]
fn an_item_gets_the_room_that_there_is_in_a_queue_behind_it() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("stages", &engine);
    let group = ConcurrencyGroup::new("one place", 1);
    let first = engine.workqueue("first").group(&group).build().unwrap();
    let next = engine.workqueue("next").group(&group).max_waiting(2);
    let next = next.build().unwrap();
    let hands_on = first.spawn(move || {
        for _ in 0..2 {
            next.room().wait().unwrap().execute(|| ()).unwrap();
        }
        let full = next.room().wait().map(|_| ());
        (next, full)
    });
    let (next, full) = hands_on.join().unwrap();
    assert_eq!(full, Err(Refused::OwnItem));
    next.flush().unwrap();
    assert_eq!(next.counts().1, 2);
}

/// The results of items that need the place of the item that waits for them would never come.
#[test]
fn an_item_cannot_wait_for_results_of_items_that_need_its_place() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("results in one place", &engine);
        for [outer, inner] in with_one_place(&engine) {
            let (wq, name) = (inner.clone(), outer.name().to_owned());
            let results = outer.spawn(move || {
                let mut set = JoinSet::new(&wq);
                (0..3).for_each(|n| _ = set.spawn(move || n));
                assert!(set.wait_next().is_none() && set.wait_next_timeout(LONG).is_none());
                let done = CompletionQueue::new();
                done.submit(&wq, 3, || 3).unwrap();
                let mut entries = Vec::new();
                assert_eq!(done.wait(9, &mut entries), 0);
                // The items run when this one has ended.
                (set, done)
            });
            let (mut set, done) = results.join().unwrap();
            let mut sum = 0;
            while let Some(ended) = set.wait_next() {
                sum += ended.result.unwrap();
            }
            let mut entries = Vec::new();
            assert_eq!((done.wait(9, &mut entries), sum), (1, 3), "{name}");
        }
        // The reporter says what an item on a worker has warned of.
        eventually(|| heard.count("it would never come") == 1);
    });
}

/// Of results that an item waits for, some come from a queue with places.
#[test]
fn an_item_waits_for_the_results_that_can_come() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("results that can come", &engine);
    let wq = engine.workqueue("one").max_active(1).build().unwrap();
    let other = engine.workqueue("other").build().unwrap();
    let door = Door::new();
    let (own, opens) = (wq.clone(), door.clone());
    let waits = wq.spawn(move || {
        let done = CompletionQueue::new();
        done.submit(&own, 1, || ()).unwrap();
        done.submit(&other, 2, move || opens.pass()).unwrap();
        let mut tokens = Vec::new();
        let mut entries = Vec::new();
        while done.wait(9, &mut entries) > 0 {
            tokens.extend(entries.drain(..).map(|entry| entry.token));
        }
        tokens
    });
    door.wait_for(1);
    door.open.complete();
    assert_eq!(waits.join().unwrap(), [2]);
}

/// A poster may post at any time, and a frozen queue goes on when it is thawed.
#[test]
fn an_item_waits_for_the_results_that_may_come_one_day() {
    const TIME: Duration = Duration::from_millis(30);
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("results that may come", &engine);
    let wq = engine.workqueue("one").max_active(1).build().unwrap();
    let frozen = engine.workqueue("frozen").freezable().build().unwrap();
    engine.freeze_workqueues_begin();
    let [by_poster, by_frozen] = [true, false].map(|by_poster| {
        let (own, frozen) = (wq.clone(), frozen.clone());
        let waits = wq.spawn(move || {
            let done = CompletionQueue::new();
            // This one needs the place of its issuer.
            done.submit(&own, 1, || ()).unwrap();
            let poster = by_poster.then(|| done.poster());
            if poster.is_none() {
                done.submit(&frozen, 2, || ()).unwrap();
            }
            let begun = Instant::now();
            let came = done.wait_timeout(9, &mut Vec::new(), TIME);
            (came, begun.elapsed() >= TIME)
        });
        waits.join().unwrap()
    });
    engine.thaw_workqueues();
    assert_eq!(by_poster, (0, true), "a poster is there");
    assert_eq!(by_frozen, (0, true), "one will be thawed");
}

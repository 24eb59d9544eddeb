//! Completion queues: each entry is drained once, in order, by one owner; no owner sleeps beside an
//! entry; no poster makes system calls for an owner that is awake.

use crate::harness::{
    Alive, Deadline, Door, Random, engine, eventually, hold, is_asleep, quiet_panic, seed,
};
use cmwq::types::{Completed, NotPosted, NotSubmitted};
use cmwq::{CompletionQueue, JoinError, Refused, Work};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn with_eventfd<T>() -> CompletionQueue<T> {
    CompletionQueue::<T>::builder().eventfd().build().unwrap()
}

/// Whether the eventfd is readable now, or becomes so until the test's deadline.
fn is_readable<T>(queue: &CompletionQueue<T>, wait: bool) -> bool {
    let fd = queue.fd().unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let timeout = (!wait).then(Timespec::default);
    poll(&mut fds, timeout.as_ref()).unwrap() == 1
}

fn tokens<T>(entries: &[Completed<T>]) -> Vec<u64> {
    entries.iter().map(|entry| entry.token).collect()
}

/// What an event loop does until it has `count` entries in all.
fn poll_for<T>(queue: &CompletionQueue<T>, count: usize, entries: &mut Vec<Completed<T>>) {
    while entries.len() < count {
        if queue.drain(64, entries) == 0 && queue.arm() {
            assert!(is_readable(queue, true));
        }
    }
}

#[test]
fn every_item_delivers_its_token_and_its_result_to_an_owner_that_polls() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("polling", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = with_eventfd();
    let mut entries = Vec::new();
    for token in 0..5_000 {
        done.submit(&wq, token, move || token * 3).unwrap();
        if token % 50 == 49 {
            poll_for(&done, token as usize + 1, &mut entries);
        }
    }
    assert_eq!(entries.len(), 5_000);
    entries.sort_by_key(|entry| entry.token);
    for (token, entry) in entries.into_iter().enumerate() {
        assert_eq!(
            (entry.token, entry.result.unwrap()),
            (token as u64, token as u64 * 3)
        );
    }
}

#[test]
fn the_eventfd_is_readable_only_if_something_came_after_an_arming() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("arming", &engine);
    let done = with_eventfd::<u32>();
    let (poster, mut entries) = (done.poster(), Vec::new());
    poster.post(1, 10).unwrap();
    assert!(!is_readable(&done, false), "nobody has armed");
    assert!(!done.arm(), "there is something");
    assert_eq!(done.drain(9, &mut entries), 1);
    poster.post(2, 20).unwrap();
    assert!(!is_readable(&done, false), "nobody has armed since");
    assert_eq!(done.drain(9, &mut entries), 1);
    assert!(done.arm() && done.arm());
    assert!(!is_readable(&done, false), "there is nothing");
    poster.post(3, 30).unwrap();
    poster.post(4, 40).unwrap();
    assert!(is_readable(&done, false));
    // One of two: it is unreadable, and cannot be armed.
    assert_eq!(done.drain(1, &mut entries), 1);
    assert!(!is_readable(&done, false));
    assert!(!done.arm());
    assert_eq!(done.drain(9, &mut entries), 1);
    // Draining disarms: the owner is awake.
    assert!(done.arm());
    assert_eq!(done.drain(9, &mut entries), 0);
    poster.post(5, 50).unwrap();
    assert!(!is_readable(&done, false));
    assert_eq!(done.try_next().map(|entry| entry.result.unwrap()), Some(50));
    assert!(done.try_next().is_none());
    assert_eq!(tokens(&entries), [1, 2, 3, 4]);
}

#[test]
fn entries_are_drained_in_the_order_in_which_they_were_posted() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("order", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let done = CompletionQueue::new();
    let mut entries = Vec::new();
    assert_eq!(
        done.submit_batch(&wq, (0..1_000).map(|token| (token, || ()))),
        Ok(1_000)
    );
    while entries.len() < 1_000 {
        assert!(done.wait(7, &mut entries) > 0);
    }
    assert_eq!(tokens(&entries), (0..1_000).collect::<Vec<_>>());
}

#[test]
fn a_panic_is_the_result_of_its_item() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a panic", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = CompletionQueue::<u32>::new();
    done.submit(&wq, 5, || quiet_panic()).unwrap();
    let mut entries = Vec::new();
    assert_eq!(done.wait(9, &mut entries), 1);
    let entry = entries.pop().unwrap();
    assert_eq!(entry.token, 5);
    assert!(matches!(entry.result, Err(JoinError::Panicked(_))));
    wq.flush().unwrap();
    assert_eq!(engine.stats().panics, 1);
}

#[test]
fn a_full_queue_takes_nothing_before_it_is_drained() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a limit", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = CompletionQueue::<u32>::builder()
        .capacity(3)
        .build()
        .unwrap();
    let (poster, mut entries) = (done.poster(), Vec::new());
    let many = || (0..10).map(|token| (token, move || token as u32));
    assert_eq!(done.submit_batch(&wq, many()), Ok(3));
    assert_eq!(done.submit(&wq, 9, || 9), Err(NotSubmitted::Full));
    assert_eq!(poster.post(9, 9), Err(NotPosted::Full(9)));
    wq.flush().unwrap();
    assert_eq!(
        done.submit(&wq, 9, || 9),
        Err(NotSubmitted::Full),
        "it was not drained"
    );
    assert_eq!(done.drain(2, &mut entries), 2);
    assert_eq!(poster.post(9, 9), Ok(()));
    done.submit(&wq, 9, || 9).unwrap();
    assert_eq!(done.submit(&wq, 9, || 9), Err(NotSubmitted::Full));
    wq.flush().unwrap();
    assert_eq!(done.drain(9, &mut entries), 3);
    // What a queue refuses keeps no room.
    let door = hold(&wq, 1);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| wq.drain().unwrap());
        while wq.execute(|| {}).is_ok() {
            std::thread::yield_now();
        }
        for _ in 0..4 {
            let refused = Err(NotSubmitted::Refused(Refused::Draining));
            assert_eq!(done.submit(&wq, 9, || 9), refused);
            assert_eq!(
                done.submit_batch(&wq, many()).unwrap_err().why,
                Refused::Draining
            );
        }
        door.open.complete();
        drain.join().unwrap();
    });
    assert_eq!(done.submit_batch(&wq, many()), Ok(3));
}

#[test]
fn a_poster_to_a_full_queue_learns_that_the_owner_has_gone() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("full and closed", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let door = hold(&wq, 1);
    let done = CompletionQueue::<u32>::builder().capacity(2).build();
    let done = done.unwrap();
    let poster = done.poster();
    poster.post(1, 10).unwrap();
    done.submit(&wq, 2, || 20).unwrap();
    assert_eq!(poster.post(3, 30), Err(NotPosted::Full(30)));
    drop(done);
    assert_eq!(poster.post(3, 30), Err(NotPosted::Closed(30)));
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(poster.post(3, 30), Err(NotPosted::Closed(30)));
}

#[test]
fn a_batch_takes_one_item_more_than_the_capacity_allows() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("one more", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for (capacity, taken) in [(3, 4), (128, 129), (200, 201)] {
        let done = CompletionQueue::<u64>::builder().capacity(capacity).build();
        let mut items = (0..500).map(|token| (token, move || token));
        let submitted = done.unwrap().submit_batch(&wq, items.by_ref());
        assert_eq!(submitted, Ok(capacity));
        assert_eq!(items.count(), 500 - taken);
    }
}

/// Counts itself off, and panics.
struct PanickingDrop {
    _alive: Alive,
}

impl Drop for PanickingDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            quiet_panic();
        }
    }
}

#[test]
fn a_destructor_that_panics_keeps_no_entry_and_leaves_the_queue_closed() {
    let alive = Arc::new(AtomicUsize::new(0));
    let value = || PanickingDrop {
        _alive: Alive::new(&alive),
    };
    for drained in 0..3 {
        let done = CompletionQueue::new();
        let poster = done.poster();
        for token in 0..5 {
            assert!(poster.post(token, value()).is_ok());
        }
        for _ in 0..drained {
            std::mem::forget(done.try_next());
            alive.fetch_sub(1, Ordering::SeqCst);
        }
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(done)));
        assert!(dropped.is_err());
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        let closed = poster.post(9, value());
        assert!(matches!(closed, Err(NotPosted::Closed(_))));
        std::mem::forget(closed);
        alive.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn an_owner_that_goes_away_loses_nothing_but_its_entries() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("no owner", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (alive, ran) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let door = Door::new();
    for armed in [false, true] {
        let done = with_eventfd();
        let poster = done.poster();
        assert!(poster.post(0, Alive::new(&alive)).is_ok());
        assert!(done.try_next().is_some());
        for token in 0..100 {
            let (alive, ran, door) = (alive.clone(), ran.clone(), door.clone());
            done.submit(&wq, token, move || {
                ran.fetch_add(1, Ordering::SeqCst);
                if token > 50 {
                    door.open.wait();
                }
                Alive::new(&alive)
            })
            .unwrap();
        }
        if armed {
            while !done.arm() {
                done.drain(1, &mut Vec::new());
            }
        }
        drop(done);
        assert!(matches!(
            poster.post(0, Alive::new(&alive)),
            Err(NotPosted::Closed(_))
        ));
    }
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 200);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn an_armed_owner_that_goes_away_leaves_the_signal_to_the_others() {
    let done = with_eventfd();
    let other = done.clone();
    assert!(done.arm() && other.arm());
    done.post(1, ()).expect("it is open");
    drop(done);
    assert!(is_readable(&other, false));
    let mut entries = Vec::new();
    assert_eq!(other.drain(1, &mut entries), 1);
    // And before the entry is posted.
    let third = other.clone();
    assert!(other.arm() && third.arm());
    drop(other);
    third.post(2, ()).expect("it is open");
    assert!(is_readable(&third, true));
}

#[test]
fn an_owner_that_waits_sleeps_until_an_entry_comes() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("sleeps", &engine);
    let done = CompletionQueue::new();
    let poster = done.poster();
    let (sender, tid) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            done.wait(1, &mut Vec::new())
        });
        let tid = tid.recv().unwrap().as_raw_nonzero().get();
        eventually(|| is_asleep(tid));
        poster.post(1, ()).unwrap();
        assert_eq!(waiter.join().unwrap(), 1);
    });
}

#[test]
fn an_item_that_is_shown_as_another_function_posts_its_result() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("shown", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = CompletionQueue::new();
    done.submit_as(&wq, 7, quiet_panic as fn() -> ! as usize, || 42)
        .unwrap();
    wq.flush().unwrap();
    let Completed { token, result, .. } = done.try_next().expect("it has ended");
    assert_eq!((token, result.unwrap()), (7, 42));
}

#[test]
fn a_wait_ends_when_its_time_is_over_and_the_next_one_gets_its_entry() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a deadline", &engine);
    let done = CompletionQueue::new();
    let mut entries = Vec::new();
    for wait in [Duration::ZERO, Duration::from_millis(3)] {
        assert_eq!(done.wait_timeout(9, &mut entries, wait), 0);
    }
    assert_eq!(done.wait(0, &mut entries), 0);
    let poster = done.poster();
    std::thread::scope(|scope| {
        scope.spawn(move || poster.post(1, ()).unwrap());
        assert_eq!(done.wait_timeout(9, &mut entries, Duration::MAX), 1);
    });
}

#[test]
fn a_reusable_item_posts_each_of_its_runs() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("reusable", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = CompletionQueue::new();
    let poster = done.poster();
    let work = Work::new(move || poster.post(7, "again").unwrap());
    let mut entries = Vec::new();
    for runs in 1..=1_000 {
        while !wq.queue(&work).is_accepted() {}
        while entries.len() < runs {
            done.wait(9, &mut entries);
        }
    }
    assert_eq!(entries.len(), 1_000);
}

/// Owners that poll, owners that wait, owners that come and go; posters on workers and on other
/// threads. Each entry is drained once.
#[test]
fn several_owners_get_each_entry_once() {
    const POSTS: usize = 4_000;
    let seed = seed("several owners");
    for round in 0..6 {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("several owners", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        let done = with_eventfd();
        let drained: Vec<AtomicUsize> = (0..POSTS).map(AtomicUsize::new).collect();
        let (left, stop) = (AtomicUsize::new(POSTS), u64::MAX);
        std::thread::scope(|scope| {
            for owner in 0..3u64 {
                let (mut done, left, drained) = (done.clone(), &left, &drained);
                scope.spawn(move || {
                    let mut random = Random::new(seed + round * 3 + owner);
                    let mut entries = Vec::new();
                    loop {
                        match (owner, random.below(20)) {
                            // Owners are cloned and dropped meanwhile.
                            (_, 0) => done = done.clone(),
                            (0, _) => drop(done.wait(1 + random.below(9), &mut entries)),
                            _ => {
                                let some = done.drain(1 + random.below(9), &mut entries);
                                if some == 0 && done.arm() && !random.one_in(4) {
                                    is_readable(&done, true);
                                }
                            }
                        }
                        for entry in entries.drain(..) {
                            if entry.token == stop {
                                // For the next owner.
                                return done.poster().post(stop, ()).unwrap();
                            }
                            let before =
                                drained[entry.token as usize].fetch_add(1 << 32, Ordering::SeqCst);
                            assert_eq!(before, entry.token as usize, "it was drained before");
                            if left.fetch_sub(1, Ordering::SeqCst) == 1 {
                                done.poster().post(stop, ()).unwrap();
                            }
                        }
                    }
                });
            }
            let half = POSTS as u64 / 2;
            scope.spawn({
                let poster = done.poster();
                move || {
                    for token in 0..half {
                        poster.post(token, ()).unwrap();
                        if token % 64 == 0 {
                            std::thread::yield_now();
                        }
                    }
                }
            });
            for token in half..POSTS as u64 {
                done.submit(&wq, token, || ()).unwrap();
            }
        });
        assert_eq!(left.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn the_queue_is_as_if_an_armed_owner_had_never_been_when_it_is_dropped() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("an armed owner goes", &engine);
    let done = with_eventfd::<()>();
    let other = done.clone();
    assert!(other.arm());
    drop(other);
    done.post(1, ()).unwrap();
    assert!(!is_readable(&done, false), "no owner has armed");
    assert_eq!(done.drain(9, &mut Vec::new()), 1);
    done.post(2, ()).unwrap();
    assert!(!is_readable(&done, false), "no owner has armed");
}

#[test]
fn a_submitted_closure_that_is_refused_is_dropped() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("refused closures", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = CompletionQueue::new();
    wq.clone().shutdown().wait().unwrap();
    let alive = Arc::new(AtomicUsize::new(0));
    let own = Alive::new(&alive);
    let refused = Err(NotSubmitted::Refused(Refused::Draining));
    assert_eq!(done.submit(&wq, 1, move || drop(own)), refused);
    let own = Alive::new(&alive);
    assert_eq!(done.submit_as(&wq, 1, 0, move || drop(own)), refused);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn only_what_panics_counts_as_a_panic() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("panics of submitted items", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let done = CompletionQueue::new();
    for (token, panics) in [(0, false), (1, true)] {
        let item = move || {
            if panics {
                quiet_panic();
            }
        };
        done.submit(&wq, token, item).unwrap();
        wq.flush().unwrap();
        assert_eq!(engine.stats().panics, token);
    }
}

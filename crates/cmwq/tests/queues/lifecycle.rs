//! Flushes, drains and shutdowns that are awaited; clones of a queue, and the drop of the last one.

use crate::harness::{Deadline, Door, block_on, engine, eventually};
use cmwq::types::{FlushError, WorkqueueAttrs};
use cmwq::{Completion, CompletionQueue, JoinSet, Refused, Workqueue};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Counts its wake-ups.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counts {
    fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn held(wq: &cmwq::Workqueue, door: &Arc<Door>) {
    let own = door.clone();
    let arrived = door.arrived();
    wq.execute(move || own.pass()).unwrap();
    door.wait_for(arrived + 1);
}

#[test]
fn an_awaited_flush_covers_what_was_queued_before_and_no_more() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("awaited flushes", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (first, second) = (Door::new(), Door::new());
    held(&wq, &first);
    let counts = Arc::new(Counts::default());
    let waker = Waker::from(counts.clone());
    let mut context = Context::from_waker(&waker);
    let mut flush = pin!(wq.flush_async());
    assert!(flush.as_mut().poll(&mut context).is_pending());
    held(&wq, &second);
    // More than the 15 generations that may be outstanding, and one that is given up.
    let mut others: Vec<_> = (0..40).map(|_| Box::pin(wq.flush_async())).collect();
    for other in &mut others {
        assert!(other.as_mut().poll(&mut context).is_pending());
    }
    others.pop();
    first.open.complete();
    eventually(|| counts.woken() > 0);
    eventually(|| flush.as_mut().poll(&mut context) == Poll::Ready(Ok(())));
    assert!(others[0].as_mut().poll(&mut context).is_pending());
    second.open.complete();
    others
        .into_iter()
        .for_each(|other| block_on(other).unwrap());
    assert_eq!(block_on(wq.flush_async()), Ok(()));
}

#[test]
fn a_flush_that_is_given_up_leaves_no_waker_behind() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("given up", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let door = Door::new();
    held(&wq, &door);
    let counts = Arc::new(Counts::default());
    let waker = Waker::from(counts.clone());
    let mut context = Context::from_waker(&waker);
    for _ in 0..3 {
        let mut flush = Box::pin(wq.flush_async());
        assert!(flush.as_mut().poll(&mut context).is_pending());
        drop(flush);
        assert_eq!(Arc::strong_count(&counts), 2, "the waker and its clones");
    }
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(counts.woken(), 0);
}

#[test]
fn a_canceller_of_the_last_item_wakes_a_flush_too() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("flushed by a cancel", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let (door, ran) = (Door::new(), Arc::new(AtomicUsize::new(0)));
    held(&wq, &door);
    let work = crate::harness::counting(&ran);
    assert!(wq.queue(&work).is_accepted());
    let counts = Arc::new(Counts::default());
    let waker = Waker::from(counts.clone());
    let mut context = Context::from_waker(&waker);
    let mut flush = pin!(wq.flush_async());
    assert!(flush.as_mut().poll(&mut context).is_pending());
    // The cancel ends the pending instance, not the flush; then the running item does.
    assert!(work.cancel());
    door.open.complete();
    eventually(|| counts.woken() > 0);
    assert_eq!(block_on(flush), Ok(()));
    // By a cancel that ends the last item: of a frozen queue.
    let frozen = engine.workqueue("frozen").freezable().build().unwrap();
    engine.freeze_workqueues_begin();
    assert!(frozen.queue(&work).is_accepted());
    let before = counts.woken();
    let mut flush = pin!(frozen.flush_async());
    assert!(flush.as_mut().poll(&mut context).is_pending());
    assert!(work.cancel());
    eventually(|| counts.woken() > before);
    assert_eq!(flush.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    engine.thaw_workqueues();
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[test]
fn waits_for_a_queue_end_by_their_deadlines() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("waits with deadlines", &engine);
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let (door, hour) = (Door::new(), Duration::from_secs(3600));
    held(&wq, &door);
    for short in [Duration::ZERO, Duration::from_millis(1)] {
        assert_eq!(wq.flush_timeout(short), Err(FlushError::TimedOut));
        assert_eq!(wq.drain_timeout(short), Err(FlushError::TimedOut));
    }
    // The drains that have timed out have opened the queue again.
    let ran = Arc::new(AtomicUsize::new(0));
    let work = crate::harness::counting(&ran);
    assert!(wq.queue(&work).is_accepted());
    door.open.complete();
    assert_eq!(wq.flush_timeout(hour), Ok(()));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert!(wq.queue(&work).is_accepted());
    assert_eq!(wq.drain_timeout(hour), Ok(()));
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    let own = wq.clone();
    let waits = move || [own.flush_timeout(hour), own.drain_timeout(hour)];
    // On a worker: a thread that joins the item may run it.
    let said = wq.spawn(waits);
    eventually(|| said.is_finished());
    assert_eq!(said.join().unwrap(), [Err(FlushError::OwnItem); 2]);
}

#[test]
fn an_awaited_drain_closes_the_queue_until_it_is_ready_or_dropped() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("awaited drains", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (door, ran) = (Door::new(), Arc::new(AtomicUsize::new(0)));
    let chain = {
        let (door, ran, wq) = (door.clone(), ran.clone(), wq.clone());
        move || {
            door.pass();
            let ran = ran.clone();
            // From the queue's own item: accepted while it drains.
            wq.execute(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        }
    };
    wq.execute(chain).unwrap();
    door.wait_for(1);
    let mut context = Context::from_waker(Waker::noop());
    let mut given_up = Box::pin(wq.drain_async());
    assert!(given_up.as_mut().poll(&mut context).is_pending());
    assert_eq!(wq.execute(|| ()), Err(Refused::Draining));
    drop(given_up);
    assert_eq!(wq.execute(|| ()), Ok(()));
    let mut drain = Box::pin(wq.drain_async());
    assert!(drain.as_mut().poll(&mut context).is_pending());
    assert_eq!(wq.execute(|| ()), Err(Refused::Draining));
    door.open.complete();
    assert_eq!(block_on(drain), Ok(()));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(wq.execute(|| ()), Ok(()));
}

/// Each of several drains keeps the queue closed until it is over itself.
#[test]
fn a_drain_that_is_over_leaves_the_queue_closed_for_the_other() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("two drains", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let door = Door::new();
    held(&wq, &door);
    let mut context = Context::from_waker(Waker::noop());
    let [mut first, mut second] = [0, 1].map(|_| Box::pin(wq.drain_async()));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    door.open.complete();
    wq.drain().unwrap();
    assert_eq!(wq.execute(|| ()), Err(Refused::Draining));
    assert_eq!(block_on(second), Ok(()));
    assert_eq!(wq.execute(|| ()), Err(Refused::Draining));
    assert_eq!(block_on(first), Ok(()));
    assert_eq!(wq.execute(|| ()), Ok(()));
}

/// The item may wait for the thread that polls.
#[test]
fn a_poll_of_a_drain_returns_while_an_item_runs_that_came_during_the_drain() {
    const LONG: Duration = Duration::from_secs(10);
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("polls of a drain", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let doors = [Door::new(), Door::new()];
    let ([first, second], its_queue) = (doors.clone(), wq.clone());
    let chain = move || {
        first.pass();
        its_queue.execute(move || second.pass()).unwrap();
    };
    wq.execute(chain).unwrap();
    doors[0].wait_for(1);
    let counts = Arc::new(Counts::default());
    let waker = Waker::from(counts.clone());
    let mut context = Context::from_waker(&waker);
    let mut drain = Box::pin(wq.drain_async());
    assert!(drain.as_mut().poll(&mut context).is_pending());
    doors[0].open.complete();
    doors[1].wait_for(1);
    eventually(|| counts.woken() > 0);
    let polled = Completion::new();
    let is_pending = std::thread::scope(|scope| {
        // A poll that waits gets the end of the item at last.
        scope.spawn(|| {
            polled.wait_timeout(LONG);
            doors[1].open.complete();
        });
        let is_pending = drain.as_mut().poll(&mut context).is_pending();
        polled.complete();
        is_pending
    });
    assert!(is_pending, "it has waited for the item");
    assert_eq!(block_on(drain), Ok(()));
}

#[test]
fn a_shutdown_with_a_deadline_says_what_still_runs() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("shutdown", &engine);
    let wq = engine.workqueue("requests").max_active(1).build().unwrap();
    let other = wq.clone();
    let door = Door::new();
    held(&wq, &door);
    wq.execute(|| ()).unwrap();
    let mut shutdown = wq.shutdown();
    let unfinished = shutdown.wait_timeout(Duration::from_millis(5)).unwrap_err();
    assert_eq!(unfinished.why, FlushError::TimedOut);
    assert_eq!((unfinished.running.len(), unfinished.waiting), (1, 1));
    let text = unfinished.to_string();
    assert!(
        text.starts_with("workqueue requests: 1 running and 1 waiting items have not ended\n"),
        "{text}"
    );
    assert_eq!(other.execute(|| ()), Err(Refused::Draining), "shut for all");
    assert_eq!(other.unfinished().running.len(), 1);
    // Neither waits, though the item runs.
    drop(shutdown);
    drop(other);
    assert_eq!(engine.live_queues().len(), 1);
    door.open.complete();
    eventually(|| engine.live_queues().is_empty());
}

#[test]
fn an_awaited_shutdown_runs_what_is_queued_and_releases_the_queue() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("awaited shutdown", &engine);
    let ran = Arc::new(AtomicUsize::new(0));
    for reclaim in [false, true] {
        let builder = engine.workqueue("t");
        let wq = match reclaim {
            true => builder.mem_reclaim(),
            false => builder,
        };
        let wq = wq.build().unwrap();
        ran.store(0, Ordering::SeqCst);
        for _ in 0..1_000 {
            let ran = ran.clone();
            wq.execute(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        }
        let kept = wq.clone();
        assert_eq!(block_on(wq.shutdown()), Ok(()));
        assert_eq!(ran.load(Ordering::SeqCst), 1_000);
        assert!(engine.live_queues().is_empty());
        assert_eq!(kept.execute(|| ()), Err(Refused::Draining));
        assert_eq!(kept.flush(), Ok(()));
        // Again, of a queue that has ended.
        assert_eq!(block_on(kept.clone().shutdown()), Ok(()));
        kept.apply_attrs(WorkqueueAttrs::default()).unwrap();
    }
}

#[test]
fn an_item_of_the_queue_cannot_wait_for_its_shutdown() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("own shutdown", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let own = wq.clone();
    let result = wq.spawn(move || own.shutdown().wait().unwrap_err().why);
    assert_eq!(result.join().unwrap(), FlushError::OwnItem);
}

#[test]
fn the_last_clone_that_is_dropped_runs_what_is_left() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("clones", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let clones: Vec<_> = (0..4).map(|_| wq.clone()).collect();
    drop(wq);
    for clone in clones {
        let ran = ran.clone();
        clone
            .execute(move || {
                ran.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
    }
    assert_eq!(ran.load(Ordering::SeqCst), 4);
    assert!(engine.live_queues().is_empty());
}

/// Each is looked for when it asks again and when it gives up: that costs the same however many
/// there are. (If each look passed all the others, this would take minutes.)
#[test]
fn many_tasks_may_await_room_and_a_flush() {
    const TASKS: usize = 300_000;
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("many tasks", &engine);
    let wq = engine.workqueue("t").max_active(1).max_waiting(1);
    let wq = wq.build().unwrap();
    let door = Door::new();
    let opens = door.clone();
    wq.execute(move || opens.pass()).unwrap();
    door.wait_for(1);
    wq.try_execute(|| ()).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut rooms: Vec<_> = (0..TASKS).map(|_| wq.room()).collect();
    let mut flushes: Vec<_> = (0..TASKS).map(|_| wq.flush_async()).collect();
    for _ in 0..2 {
        for room in rooms.iter_mut().rev() {
            assert!(Pin::new(room).poll(&mut context).is_pending());
        }
        for flush in flushes.iter_mut().rev() {
            assert!(Pin::new(flush).poll(&mut context).is_pending());
        }
    }
    rooms.drain(..TASKS / 2);
    flushes.drain(TASKS / 2..);
    let mut shutdown = wq.shutdown();
    for room in &mut rooms {
        assert!(Pin::new(room).poll(&mut context).is_ready());
    }
    door.open.complete();
    shutdown.wait().unwrap();
    for flush in &mut flushes {
        assert!(Pin::new(flush).poll(&mut context).is_ready());
    }
}

/// Begins what is awaited.
type Begins = fn(Workqueue) -> Pin<Box<dyn Future<Output = ()>>>;

/// A future that is moved to another task leaves that task's waker in place of the first one.
#[test]
fn the_task_that_polled_a_future_last_is_woken() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("futures of two tasks", &engine);
    let cases: [(&str, Begins); 7] = [
        ("an item", |wq| {
            let handle = wq.spawn(|| ());
            Box::pin(async { handle.await.unwrap() })
        }),
        ("a flush", |wq| {
            Box::pin(async move { wq.flush_async().await.unwrap() })
        }),
        ("a drain", |wq| {
            Box::pin(async move { wq.drain_async().await.unwrap() })
        }),
        ("a shutdown", |wq| {
            Box::pin(async move { wq.shutdown().await.unwrap() })
        }),
        ("room", |wq| {
            wq.try_execute(|| ()).unwrap();
            Box::pin(async move { drop(wq.room().await.unwrap()) })
        }),
        ("a completion queue", |wq| {
            let done = CompletionQueue::new();
            done.submit(&wq, 1, || ()).unwrap();
            Box::pin(async move { drop(done.next().await) })
        }),
        ("a join set", |wq| {
            let mut set = JoinSet::new(&wq);
            set.spawn(|| ());
            Box::pin(async move { drop(set.join_next().await) })
        }),
    ];
    for (what, begin) in cases {
        let wq = engine.workqueue(what).max_active(1).max_waiting(1);
        let wq = wq.build().unwrap();
        let door = Door::new();
        held(&wq, &door);
        let mut awaited = begin(wq.clone());
        let tasks = [0, 1].map(|_| Arc::new(Counts::default()));
        for task in &tasks {
            let waker = Waker::from(task.clone());
            let polled = awaited.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending(), "{what}");
        }
        door.open.complete();
        eventually(|| tasks[1].woken() > 0);
        block_on(awaited);
    }
}

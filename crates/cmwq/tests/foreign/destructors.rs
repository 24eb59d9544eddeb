//! Destructors and wakers that panic or wait: of what closures capture, of results, of what items panic with.

use crate::harness::{
    Deadline, Door, Heard, block_on, engine, engine_without_hogs, eventually, hold, in_own_process,
    quiet_panic,
};
use crate::panics::returns;
use cmwq::{CompletionQueue, JoinSet, Work, Workqueue, scope};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// Panics when it is dropped.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        quiet_panic();
    }
}

/// Counts when it is dropped, and panics.
struct CountsAndPanics(Arc<AtomicUsize>);

impl Drop for CountsAndPanics {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        quiet_panic();
    }
}

// ---- payloads and results ----

/// A payload whose destructor waits for all items of a queue.
struct Flushes {
    wq: Arc<Workqueue>,
    flushed: Arc<AtomicUsize>,
}

impl Drop for Flushes {
    fn drop(&mut self) {
        self.wq.flush().unwrap();
        self.flushed.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_the_items_of_a_scope_panic_with_may_wait_for_the_queue_when_it_is_dropped() {
    in_own_process(|| {
        second_panic();
    });
}

fn second_panic() {
    let engine = engine_without_hogs("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("the second panic", &engine);
    let other = engine.workqueue("other").build().unwrap();
    // The joining thread runs the items itself.
    let door = hold(&other, 1);
    let _issuer = engine.become_issuer(0).unwrap();
    let wq = Arc::new(engine.workqueue("panics").build().unwrap());
    let flushed = Arc::new(AtomicUsize::new(0));
    let items = || {
        scope(&wq, |s| {
            for _ in 0..2 {
                let (wq, flushed) = (wq.clone(), flushed.clone());
                s.spawn(move || resume_unwind(Box::new(Flushes { wq, flushed })));
            }
        });
    };
    let payload = catch_unwind(AssertUnwindSafe(items)).unwrap_err();
    assert_eq!(
        flushed.load(Ordering::SeqCst),
        1,
        "the other is the scope's"
    );
    drop(payload);
    assert_eq!(flushed.load(Ordering::SeqCst), 2);
    door.open.complete();
}

#[test]
fn a_scopes_result_is_dropped_before_its_items_panic_goes_on() {
    in_own_process(|| {
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("the result", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        let spawns = || {
            scope(&wq, |s| {
                s.spawn(|| resume_unwind(Box::new(7_u32)));
                // Would be dropped while the other panic unwinds, which ends the process.
                PanicsInDrop
            });
        };
        let payload = catch_unwind(AssertUnwindSafe(spawns)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&7_u32));
    });
}

#[test]
fn captures_that_panic_when_they_are_dropped_end_neither_the_process_nor_a_worker() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("captures", &engine);
        let wq = engine.workqueue("t").workers_only().build().unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        let door = Door::new();
        // The function panics, and then what it has captured, which its run is the last to hold.
        let fragile = CountsAndPanics(dropped.clone());
        let passes = door.clone();
        let work = Work::new(move || {
            let _fragile = &fragile;
            passes.pass();
            quiet_panic();
        });
        assert!(wq.queue(&work).is_accepted());
        door.wait_for(1);
        drop(work);
        door.open.complete();
        eventually(|| dropped.load(Ordering::SeqCst) == 1);
        // The same for a result that no handle takes.
        let (fragile, begun) = (dropped.clone(), Door::new());
        let begins = begun.clone();
        drop(wq.spawn(move || {
            begins.pass();
            CountsAndPanics(fragile)
        }));
        begun.open.complete();
        eventually(|| dropped.load(Ordering::SeqCst) == 2);
        wq.flush().unwrap();
        assert_eq!(
            engine.stats().panics,
            2,
            "of the function, and of the result, which is a part of its item's run"
        );
        eventually(|| heard.count("a destructor panicked") == 1);
        assert_eq!(wq.spawn(|| 7).join().unwrap(), 7);
    });
}

/// Whoever queues a closure need not know what it has captured. And two panics in one call would end
/// the process.
#[test]
fn captures_of_refused_closures_that_panic_do_so_in_no_call_that_queues_them() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("refused closures", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        wq.clone().shutdown().wait().unwrap();
        let (made, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let made_here = made.clone();
        let fragile = |dropped: &Arc<AtomicUsize>| {
            made.fetch_add(1, Ordering::SeqCst);
            CountsAndPanics(dropped.clone())
        };
        let small = || {
            let fragile = fragile(&dropped);
            move || drop(fragile)
        };
        // Too large to be queued without an item.
        let large = || {
            let (fragile, ballast) = (fragile(&dropped), [0_u64; 32]);
            move || {
                drop(fragile);
                let _ = ballast;
            }
        };
        assert!(wq.execute(small()).is_err());
        assert!(wq.execute(large()).is_err());
        assert!(wq.execute_batch([small(), small(), small()]).is_err());
        assert!(wq.execute_batch([large(), large(), large()]).is_err());
        assert!(wq.spawn(small()).join().is_err());
        for handle in wq.spawn_batch([small(), small(), small()]) {
            assert!(handle.join().is_err());
        }
        assert!(wq.spawn_on(2, small()).is_err(), "no such CPU");
        let done = CompletionQueue::new();
        assert!(done.submit(&wq, 1, small()).is_err());
        assert!(
            done.submit_batch(&wq, [(2, small()), (3, small())])
                .is_err()
        );
        let full = CompletionQueue::builder().capacity(1).build().unwrap();
        full.post(0, ()).unwrap();
        let open = engine.workqueue("open").build().unwrap();
        assert!(full.submit(&open, 1, small()).is_err());
        assert_eq!(full.submit_batch(&open, [(2, small())]).unwrap(), 0);
        let mut set = JoinSet::new(&wq);
        set.spawn(small());
        assert_eq!(set.len(), 1);
        assert!(set.wait_next().unwrap().result.is_err());
        assert!(made_here.load(Ordering::SeqCst) >= 18);
        eventually(|| dropped.load(Ordering::SeqCst) == made_here.load(Ordering::SeqCst));
    });
}

#[test]
fn entries_of_a_completion_queue_may_panic_when_they_are_dropped_with_it() {
    in_own_process(|| {
        let _heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("entries", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        let done = cmwq::CompletionQueue::new();
        let submit = |token| {
            let dropped = dropped.clone();
            let submitted = done.submit(&wq, token, || CountsAndPanics(dropped));
            assert!(submitted.is_ok());
            wq.flush().unwrap();
        };
        (0..4).for_each(submit);
        // The others of the first four are ready, and the last ones are posted only.
        std::mem::forget(done.try_next().expect("it has ended"));
        (4..6).for_each(submit);
        // The first panic is the owner's, as that of any value that it drops.
        assert!(catch_unwind(AssertUnwindSafe(|| drop(done))).is_err());
        assert_eq!(dropped.load(Ordering::SeqCst), 5);
    });
}

// ---- wakers ----

/// A waker that panics in all that it does, except when it is cloned.
fn waker_panics() -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |_| RawWaker::new(std::ptr::null(), &TABLE),
        |_| quiet_panic(),
        |_| quiet_panic(),
        |_| quiet_panic(),
    );
    // SAFETY: the functions use no data.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

#[test]
fn wakers_may_panic_when_they_are_called_and_when_they_are_dropped() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine_without_hogs("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("wakers", &engine);
        let wq = engine.workqueue("t").workers_only().build().unwrap();
        // Never dropped itself.
        let waker = std::mem::ManuallyDrop::new(waker_panics());
        let mut context = Context::from_waker(&waker);
        // It is called.
        let door = hold(&wq, 1);
        let mut handle = pin!(wq.spawn(|| 7));
        assert!(handle.as_mut().poll(&mut context).is_pending());
        door.open.complete();
        eventually(|| handle.is_finished());
        assert!(matches!(
            handle.as_mut().poll(&mut context),
            Poll::Ready(Ok(7))
        ));
        eventually(|| heard.count("a waker panicked") == 1);
        // Another one takes its place: it is dropped on the polling thread.
        let door = hold(&wq, 1);
        let mut handle = wq.spawn(|| 7);
        assert!(
            std::pin::Pin::new(&mut handle)
                .poll(&mut context)
                .is_pending()
        );
        let opens = door.clone();
        let opener = std::thread::spawn(move || opens.open.complete());
        assert_eq!(returns(|| block_on(&mut handle)).unwrap(), 7);
        opener.join().unwrap();
        // It is left when the handle goes: the worker drops it.
        let door = hold(&wq, 1);
        let mut handle = wq.spawn(|| 7);
        assert!(
            std::pin::Pin::new(&mut handle)
                .poll(&mut context)
                .is_pending()
        );
        drop(handle);
        door.open.complete();
        wq.flush().unwrap();
        assert_eq!(engine.stats().panics, 0);
        // The program's own call.
        returns(|| cmwq::raw::wake_deferred(waker_panics()));
        assert_eq!(wq.spawn(|| 7).join().unwrap(), 7);
        assert!(heard.count("panicked") <= 2, "{:?}", heard.with("panicked"));
    });
}

// ---- entries ----

/// An entry that panics when it is dropped, with something that panics when it is dropped.
struct PanicsTwice;

impl Drop for PanicsTwice {
    fn drop(&mut self) {
        resume_unwind(Box::new(PanicsInDrop));
    }
}

/// A second panic would end the process.
#[test]
fn what_a_dropped_entry_panics_with_is_disposed_of_while_its_owner_panics() {
    let payload = catch_unwind(|| {
        let done = CompletionQueue::new();
        done.post(1, PanicsTwice).map_err(drop).unwrap();
        resume_unwind(Box::new("the owner's"));
    });
    let payload = payload.unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"the owner's"));
}

//! Foreign code that panics, each in a process of its own: a handler is the whole process's, and
//! that it panicked is said once.

use crate::harness::{
    Deadline, Heard, engine, engine_without_hogs, eventually, hold, in_own_process, own_process,
    quiet_panic,
};
use cmwq::observe::set_run_hooks;
use cmwq::raw::{EmbeddedWork, SystemWorkqueue, WorkqueueHandle};
use cmwq::types::Queued;
use cmwq::{Completion, Engine, Refused, Work, WorkerThreads, Workqueue, scope};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `call` returns. That it unwinds fails the test.
pub(crate) fn returns<T>(call: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => value,
        Err(_) => panic!("a panic of foreign code has unwound through the library"),
    }
}

/// From now on the handler of warnings panics. Returns how often it was called.
fn handler_panics() -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    cmwq::observe::set_warning_handler(move |_| {
        called.fetch_add(1, Ordering::SeqCst);
        quiet_panic();
    });
    calls
}

// ---- the handler of warnings ----

#[test]
fn a_scope_on_a_deprecated_queue_waits_for_its_item_though_the_handler_panics() {
    in_own_process(|| {
        let _deadline = Deadline::with_dump("deprecated", String::new);
        let wq = SystemWorkqueue::DeprecatedWq.get().unwrap();
        let calls = handler_panics();
        let ran = AtomicUsize::new(0);
        returns(|| {
            scope(&wq, |s| {
                s.spawn(|| {
                    Completion::new().wait_timeout(std::time::Duration::from_millis(20));
                    ran.fetch_add(1, Ordering::SeqCst);
                });
            });
        });
        assert_eq!(
            ran.load(Ordering::SeqCst),
            1,
            "the scope has ended before its item"
        );
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn that_the_handler_of_warnings_panics_is_said_once_on_standard_error() {
    let warns = || {
        let calls = handler_panics();
        for _ in 0..3 {
            returns(|| cmwq::observe::warn("a warning"));
        }
        assert_eq!(calls.load(Ordering::SeqCst), 3, "it is still called");
    };
    let Some(output) = own_process(&warns) else {
        return warns();
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(
        said.matches("the warning handler panicked").count(),
        1,
        "{said}"
    );
}

/// What a queue that is draining refuses is given back and dropped, whatever the handler does.
#[test]
fn what_a_draining_queue_refuses_is_dropped_though_the_handler_panics() {
    struct Whole {
        item: EmbeddedWork<Whole>,
    }
    in_own_process(|| {
        let engine = engine_without_hogs("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("refused", &engine);
        let calls = handler_panics();
        let held = Arc::new(());
        let work = Work::new({
            let held = held.clone();
            move || {
                let _held = &held;
            }
        });
        let whole = Arc::new(Whole {
            item: EmbeddedWork::new(|_| ()),
        });
        // Of each kind one, on a queue of its own, which warns once.
        let queue = |wq: &Workqueue| {
            assert_eq!(wq.queue(&work), Queued::Refused(Refused::Draining));
        };
        let queue_embedded = |wq: &Workqueue| {
            let queued = wq.queue_embedded(&whole, |whole| &whole.item);
            assert_eq!(queued, Queued::Refused(Refused::Draining));
        };
        let spawn = |wq: &Workqueue| {
            let held = held.clone();
            let handle = wq.spawn(move || drop(held));
            assert!(handle.is_finished() && handle.join().is_err());
        };
        let execute = |wq: &Workqueue| {
            let held = held.clone();
            assert_eq!(wq.execute(move || drop(held)), Err(Refused::Draining));
        };
        let execute_large = |wq: &Workqueue| {
            let (held, large) = (held.clone(), [0_u64; 8]);
            let func = move || drop((held, large));
            assert_eq!(wq.execute(func), Err(Refused::Draining));
        };
        let execute_batch = |wq: &Workqueue| {
            let funcs = (0..3).map(|_| held.clone()).map(|held| move || drop(held));
            assert_eq!(wq.execute_batch(funcs).unwrap_err().accepted, 0);
        };
        let spawn_batch = |wq: &Workqueue| {
            let funcs = (0..3).map(|_| held.clone()).map(|held| move || drop(held));
            let handles = wq.spawn_batch(funcs);
            assert!(handles.into_iter().all(|handle| handle.join().is_err()));
        };
        let queue_batch = |wq: &Workqueue| {
            let queued = wq.queue_batch(&[work.clone(), work.clone()]);
            assert_eq!(queued.accepted(), 0);
        };
        let ways: [&dyn Fn(&Workqueue); 8] = [
            &queue,
            &queue_embedded,
            &spawn,
            &execute,
            &execute_large,
            &execute_batch,
            &spawn_batch,
            &queue_batch,
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let handle = WorkqueueHandle::new(engine.workqueue("closed").build().unwrap());
            let (handle, wq) = handle
                .map(|handle| (handle, handle.get().unwrap()))
                .unwrap();
            handle.destroy().unwrap();
            returns(|| way(&wq));
            assert_eq!(calls.load(Ordering::SeqCst), number + 1, "it warned");
        }
        assert_eq!(
            Arc::strong_count(&whole),
            1,
            "a reference of an embedded item leaked"
        );
        drop(work);
        assert_eq!(Arc::strong_count(&held), 1, "a reference leaked");
    });
}

#[test]
fn a_drain_that_takes_long_ends_as_any_other_though_the_handler_panics() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("drains", &engine);
        let calls = handler_panics();
        let wq = Arc::new(engine.workqueue("again").build().unwrap());
        let me: Arc<std::sync::OnceLock<Work>> = Arc::default();
        let work = Work::new({
            let (me, wq, calls) = (Arc::downgrade(&me), Arc::downgrade(&wq), calls.clone());
            move || {
                if calls.load(Ordering::SeqCst) == 0 {
                    let (me, wq) = (me.upgrade().unwrap(), wq.upgrade().unwrap());
                    assert!(wq.queue(me.get().unwrap()).is_accepted());
                }
            }
        });
        me.set(work.clone()).unwrap();
        assert!(wq.queue(&work).is_accepted());
        returns(|| wq.drain()).unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(wq.spawn(|| 7).join().unwrap(), 7, "it is open again");
    });
}

// ---- the handler of reports ----

#[test]
fn reports_go_on_though_their_handler_panics() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        cmwq::observe::set_report_handler(move |_| {
            called.fetch_add(1, Ordering::SeqCst);
            quiet_panic();
        });
        let engine = engine_without_hogs("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("reports", &engine);
        engine.set_watchdog_threshold(std::time::Duration::from_millis(20));
        let wq = engine.workqueue("stalls").workers_only().build().unwrap();
        let door = hold(&wq, 1);
        let behind = wq.spawn(|| 7);
        eventually(|| calls.load(Ordering::SeqCst) >= 2);
        door.open.complete();
        assert_eq!(behind.join().unwrap(), 7);
        eventually(|| heard.count("the report handler panicked") == 1);
    });
}

// ---- run hooks ----

/// Items of a scope that the joining thread runs, and items that workers run.
fn items_run_beside_hooks() {
    const ITEMS: usize = 200;
    let heard = Heard::warnings();
    let engine = engine_without_hogs("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("hooks", &engine);
    let wq = engine.workqueue("hooked").build().unwrap();
    let other = engine.workqueue("other").build().unwrap();
    let door = hold(&other, 1);
    let _issuer = engine.become_issuer(0).unwrap();
    let ran = AtomicUsize::new(0);
    returns(|| {
        scope(&wq, |s| {
            for _ in 0..ITEMS {
                s.spawn(|| {
                    ran.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
    });
    assert_eq!(
        ran.load(Ordering::SeqCst),
        ITEMS,
        "the scope has ended before its items"
    );
    door.open.complete();
    let ran = Arc::new(AtomicUsize::new(0));
    let workers = engine.workqueue("workers").workers_only().build().unwrap();
    for _ in 0..ITEMS {
        let ran = ran.clone();
        let ends = move || {
            ran.fetch_add(1, Ordering::SeqCst);
        };
        workers.execute(ends).unwrap();
    }
    workers.flush().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), ITEMS);
    assert_eq!(engine.stats().panics, 0, "no item has panicked");
    eventually(|| heard.count("a run hook panicked") == 1);
}

#[test]
fn items_run_though_the_run_hooks_panic() {
    in_own_process(|| {
        assert!(set_run_hooks(|_| quiet_panic(), |_| quiet_panic()));
        items_run_beside_hooks();
    });
}

#[test]
fn items_run_though_the_run_hook_of_their_end_panics() {
    in_own_process(|| {
        assert!(set_run_hooks(|_| (), |_| quiet_panic()));
        items_run_beside_hooks();
    });
}

// ---- hooks of threads ----

#[test]
fn a_pool_gets_its_workers_though_the_hook_and_the_handler_of_its_warning_panic() {
    in_own_process(|| {
        let calls = handler_panics();
        let threads = WorkerThreads::new()
            .on_start(|_| quiet_panic())
            .on_exit(|_| quiet_panic());
        let engine = Engine::builder().worker_threads(threads).build().unwrap();
        let _deadline = Deadline::new("fragile", &engine);
        let wq = engine.workqueue("t").mem_reclaim().build().unwrap();
        assert_eq!(wq.spawn(|| 7).join().unwrap(), 7);
        eventually(|| calls.load(Ordering::SeqCst) == 1);
        drop((wq, engine));
        // The hook of the end is another.
        eventually(|| calls.load(Ordering::SeqCst) == 2);
    });
}

//! No thread can be created: what the library would have done on a new thread waits, or is done by
//! one that was started in time. No timer and no warning waits for it.

use crate::harness::{Deadline, Door, engine, eventually, in_own_process, threads_named};
use crate::thread_creation::Shortage;
use cmwq::raw::WorkqueueHandle;
use cmwq::types::Queued;
use cmwq::{Completion, DelayedWork, Engine, Refused, Workqueue};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(3600);

fn queue(engine: &Engine) -> Workqueue {
    engine.workqueue("timers").build().unwrap()
}

fn timers_work(wq: &Workqueue) {
    let done = Arc::new(Completion::new());
    let completes = done.clone();
    let work = DelayedWork::new(move || completes.complete());
    assert!(wq.queue_delayed(&work, SOON).is_accepted());
    done.wait();
}

/// Calls something when it is dropped.
struct WhenDropped(Option<Box<dyn FnOnce() + Send>>);

impl Drop for WhenDropped {
    fn drop(&mut self) {
        if let Some(what) = self.0.take() {
            what();
        }
    }
}

/// Drops a queue while a timer of an item is armed that drops `captured` when it expires and is refused.
fn refuse(engine: &Engine, captured: WhenDropped) {
    let gone = queue(engine);
    let captured = Mutex::new(captured);
    let refused = DelayedWork::new(move || {
        let _kept = &captured;
    });
    let delay = Duration::from_millis(300);
    assert!(gone.queue_delayed(&refused, delay).is_accepted());
    drop((refused, gone));
}

#[test]
fn a_refused_items_destructor_may_wait_for_a_timer() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("a destructor", &engine);
        let wq = Arc::new(queue(&engine));
        timers_work(&wq);
        let shortage = Shortage::of_all();
        let dropped = Arc::new(Completion::new());
        let (inner, drops) = (wq.clone(), dropped.clone());
        let waits = move || {
            timers_work(&inner);
            drops.complete();
        };
        refuse(&engine, WhenDropped(Some(Box::new(waits))));
        dropped.wait();
        timers_work(&wq);
        drop(shortage);
    });
}

#[test]
fn the_handler_of_a_timers_warning_may_wait_for_a_timer() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("a handler", &engine);
        let wq = Arc::new(queue(&engine));
        timers_work(&wq);
        let (inner, warned) = (wq.clone(), Arc::new(Completion::new()));
        let warns = warned.clone();
        cmwq::observe::set_warning_handler(move |text| {
            if text.contains("was dropped") {
                timers_work(&inner);
                warns.complete();
            }
        });
        let shortage = Shortage::of_all();
        refuse(&engine, WhenDropped(None));
        warned.wait();
        timers_work(&wq);
        drop(shortage);
    });
}

/// The thread that would destroy it cannot be created. It is destroyed when one can, and the
/// reporter does not wait for that.
#[test]
fn a_queue_that_its_own_item_destroys_waits_for_a_thread() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("destroys", &engine);
        let per_cpu = engine.workqueue("hogs").per_cpu().build().unwrap();
        per_cpu.spawn_on(1, || ()).unwrap().join().unwrap();
        let (name, destroyed) = ("gone", Arc::new(Completion::new()));
        let heard = crate::harness::Heard::warnings();
        let handle = WorkqueueHandle::new(engine.workqueue(name).build().unwrap()).unwrap();
        let door = Door::new();
        let passes = door.clone();
        let held = handle.get().unwrap().spawn(move || passes.pass());
        door.wait_for(1);
        let shortage = Shortage::of_all();
        let ends = destroyed.clone();
        let destroys = handle.get().unwrap().spawn(move || {
            handle.destroy().unwrap();
            ends.complete();
        });
        destroys.join().unwrap();
        destroyed.wait();
        eventually(|| shortage.refused() > 0);
        // What a hog causes, the reporter says.
        for count in 1..=4 {
            let stop = Arc::new(Completion::new());
            let stopped = stop.clone();
            let hog = per_cpu.spawn_on(1, move || while !stopped.is_done() {});
            eventually(|| engine.stats().cpu_intensive >= count);
            stop.complete();
            hog.unwrap().join().unwrap();
        }
        eventually(|| heard.count("workqueue hogs") == 1);
        assert!(is_there(&engine, name), "its item has not ended");
        drop(shortage);
        door.open.complete();
        held.join().unwrap();
        eventually(|| !is_there(&engine, name));
    });
}

fn is_there(engine: &Engine, name: &str) -> bool {
    let queues = engine.live_queues();
    queues.iter().any(|queue| queue.name() == name)
}

#[test]
fn the_handler_of_a_refused_timers_warning_may_cancel_the_item() {
    in_own_process(|| {
        static WORK: OnceLock<DelayedWork> = OnceLock::new();
        static CANCELLED: AtomicUsize = AtomicUsize::new(0);
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("cancels", &engine);
        let wq = queue(&engine);
        let work = WORK.get_or_init(|| DelayedWork::new(|| ()));
        cmwq::observe::set_warning_handler(|text| {
            if text.contains("the timer thread cannot be created") {
                assert!(!WORK.get().unwrap().cancel(), "it is refused");
                // By another thread as well, for as long as the handler runs.
                assert!(!WORK.get().unwrap().is_pending());
                CANCELLED.fetch_add(1, Ordering::SeqCst);
            }
        });
        // The first timer of the process.
        let shortage = Shortage::of_all();
        let refused = Queued::Refused(Refused::NoTimer);
        assert_eq!(wq.queue_delayed(work, LONG), refused);
        assert_eq!(CANCELLED.load(Ordering::SeqCst), 1);
        assert_eq!(wq.queue_delayed(work, LONG), refused, "said once");
        assert_eq!(CANCELLED.load(Ordering::SeqCst), 1);
        drop(shortage);
        timers_work(&wq);
    });
}

#[test]
fn the_reporter_of_a_timer_thread_that_cannot_be_created_goes() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("its reporter", &engine);
        let wq = queue(&engine);
        wq.spawn(|| ()).join().unwrap();
        let work = DelayedWork::new(|| ());
        // The reporter is created, the timer thread is not.
        let shortage = Shortage::of_every_second();
        for refused in 1..=3 {
            let queued = wq.queue_delayed(&work, LONG);
            assert_eq!(queued, Queued::Refused(Refused::NoTimer));
            assert_eq!(shortage.refused(), refused);
        }
        eventually(|| threads_named("cmwq-t-reporter").is_empty());
        drop(shortage);
        timers_work(&wq);
        assert_eq!(threads_named("cmwq-t-reporter").len(), 1);
    });
}

//! The timer thread: how long it sleeps, what may delay it, and the visible state of an item whose
//! timer is armed.

use crate::harness::{
    Deadline, Door, engine, eventually, in_own_process, is_asleep, threads_named,
};
use cmwq::raw::{MoveIf, RawDelayedWork, RawWork};
use cmwq::types::{Moved, Queued};
use cmwq::{Completion, DelayedWork, Engine, Work, WorkerThreads, Workqueue};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(3);

fn queue(engine: &Engine) -> Workqueue {
    engine.workqueue("timers").build().unwrap()
}

/// Timers still expire.
fn timers_work(wq: &Workqueue) {
    let done = Arc::new(Completion::new());
    let work = DelayedWork::new({
        let done = done.clone();
        move || done.complete()
    });
    assert!(
        wq.queue_delayed(&work, Duration::from_millis(1))
            .is_accepted()
    );
    done.wait();
}

// ---- delays that end after the clock does ----

/// How often the thread has gone to sleep.
fn sleeps(tid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    let field = |line: &str| {
        line.strip_prefix("voluntary_ctxt_switches:")
            .map(str::to_owned)
    };
    status
        .lines()
        .find_map(field)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn a_delay_without_end_costs_nothing() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("without end", &engine);
        let wq = queue(&engine);
        let work = || DelayedWork::new(|| panic!("it never runs"));
        let delays = [
            Duration::MAX,
            Duration::from_secs(u64::MAX),
            Duration::from_nanos(u64::MAX),
            Duration::from_nanos(u64::MAX - 1),
        ];
        let armed = delays.map(|delay| {
            let work = work();
            assert!(wq.queue_delayed(&work, delay).is_accepted());
            work
        });
        let timer = || threads_named("cmwq-timer");
        eventually(|| timer().len() == 1);
        let (tid, _) = timer()[0];
        eventually(|| is_asleep(tid));
        let before = sleeps(tid);
        // As long as nothing else is armed, it has nothing to wake up for.
        Completion::new().wait_timeout(Duration::from_millis(200));
        let slept = sleeps(tid) - before;
        assert!(slept < 50, "it slept {slept} times with nothing to do");
        timers_work(&wq);
        for work in armed {
            assert!(work.is_pending() && work.cancel());
        }
    });
}

// ---- what runs when an item is refused as its timer expires ----

/// Calls something when it is dropped, and completes `done` afterwards.
struct WhenDropped {
    what: Option<Box<dyn FnOnce() + Send>>,
    done: Arc<Completion>,
}

impl Drop for WhenDropped {
    fn drop(&mut self) {
        if let Some(what) = self.what.take() {
            what();
        }
        self.done.complete();
    }
}

/// An item without a handle that its queue will refuse when its timer expires: its captures are
/// dropped then, which calls `what`. Another timer is armed `beside` it, before or after. Returns,
/// once they are dropped, whether it was refused: on a busy machine it may expire before its queue
/// goes, and run.
fn refused(
    engine: &Engine,
    what: impl FnOnce() + Send + 'static,
    beside: impl FnOnce(),
    before: bool,
) -> bool {
    let gone = queue(engine);
    let done = Arc::new(Completion::new());
    let captured = Mutex::new(WhenDropped {
        what: Some(Box::new(what)),
        done: done.clone(),
    });
    let ran = Arc::new(AtomicBool::new(false));
    let runs = ran.clone();
    let refused = DelayedWork::new(move || {
        let _kept = &captured;
        runs.store(true, Ordering::SeqCst);
    });
    let arm = || assert!(gone.queue_delayed(&refused, SOON).is_accepted());
    if before {
        beside();
        arm();
    } else {
        arm();
        beside();
    }
    drop((refused, gone));
    done.wait();
    !ran.load(Ordering::SeqCst)
}

#[test]
fn what_a_refused_item_drops_may_cancel_others_that_are_due() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("cancels others", &engine);
    let wq = queue(&engine);
    for round in 0..30 {
        let others: Arc<Vec<DelayedWork>> =
            Arc::new((0..10).map(|_| DelayedWork::new(|| ())).collect());
        let cancel = {
            let others = others.clone();
            move || {
                others.iter().for_each(|other| {
                    other.cancel_sync();
                });
            }
        };
        let arm_others = || {
            for other in others.iter() {
                assert!(wq.queue_delayed(other, SOON).is_accepted());
            }
        };
        refused(&engine, cancel, arm_others, round % 2 == 0);
        assert!(others.iter().all(|other| !other.is_pending()));
    }
    timers_work(&wq);
}

#[test]
fn what_a_refused_item_drops_may_wait_for_an_item_that_waits_for_a_timer() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("waits for a timer", &engine);
    let wq = Arc::new(queue(&engine));
    let waits = {
        let wq = wq.clone();
        move || {
            let inner = wq.clone();
            let work = Work::new(move || timers_work(&inner));
            assert!(wq.queue(&work).is_accepted());
            work.flush().unwrap();
        }
    };
    refused(&engine, waits, || (), false);
    timers_work(&wq);
}

/// Waits for a timer when it is dropped.
struct WaitsForTimer {
    wq: Workqueue,
    dropped: Arc<Completion>,
}

impl Drop for WaitsForTimer {
    fn drop(&mut self) {
        timers_work(&self.wq);
        self.dropped.complete();
    }
}

/// An armed item keeps its queue, and with it the engine and what hooks have captured.
#[test]
fn what_hooks_have_captured_may_wait_for_a_timer_when_the_last_queue_goes() {
    let other = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("hooks go", &other);
    let dropped = Arc::new(Completion::new());
    let captured = WaitsForTimer {
        wq: queue(&other),
        dropped: dropped.clone(),
    };
    let threads = WorkerThreads::new().on_exit(move |_| {
        let _kept = &captured;
    });
    let engine = Engine::builder().worker_threads(threads).build().unwrap();
    let (wq, work) = (queue(&engine), DelayedWork::new(|| ()));
    let queued = wq.queue_delayed(&work, Duration::from_millis(50));
    assert!(queued.is_accepted());
    drop((wq, engine));
    dropped.wait();
    timers_work(&queue(&other));
}

#[test]
fn a_handler_of_the_warning_may_cancel_others_that_are_due() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("the handler cancels", &engine);
        let wq = queue(&engine);
        static OTHERS: Mutex<Vec<DelayedWork>> = Mutex::new(Vec::new());
        static WARNED: AtomicUsize = AtomicUsize::new(0);
        cmwq::observe::set_warning_handler(|text| {
            if text.contains("was dropped") {
                let others = std::mem::take(&mut *OTHERS.lock().unwrap());
                others.iter().for_each(|other| {
                    other.cancel_sync();
                });
                WARNED.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut warned = 0;
        for round in 0..30 {
            let others: Vec<DelayedWork> = (0..10).map(|_| DelayedWork::new(|| ())).collect();
            *OTHERS.lock().unwrap() = others.clone();
            let arm_others = || {
                for other in &others {
                    assert!(wq.queue_delayed(other, SOON).is_accepted());
                }
            };
            warned += usize::from(refused(&engine, || (), arm_others, round % 2 == 0));
            eventually(|| WARNED.load(Ordering::SeqCst) == warned);
        }
        timers_work(&wq);
    });
}

#[test]
fn a_handler_of_the_warning_may_wait_for_a_timer() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("the handler waits", &engine);
        static WARNED: AtomicUsize = AtomicUsize::new(0);
        let in_handler = queue(&engine);
        cmwq::observe::set_warning_handler(move |text| {
            if text.contains("was dropped") {
                timers_work(&in_handler);
                WARNED.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut warned = 0;
        for round in 0..3 {
            warned += usize::from(refused(&engine, || (), || (), round % 2 == 0));
            eventually(|| WARNED.load(Ordering::SeqCst) == warned);
        }
    });
}

// ---- the item inside one that is armed ----

#[repr(C)]
struct Item {
    delayed: RawDelayedWork,
    door: Door,
    runs: AtomicUsize,
}

/// # Safety
/// It is the first field of an [`Item`].
unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
    // SAFETY: by the contract, and the tests' items are never freed.
    let item: &Item = unsafe { item.cast().as_ref() };
    item.door.pass();
    item.runs.fetch_add(1, Ordering::SeqCst);
}

fn item() -> &'static Item {
    Box::leak(Box::new(Item {
        delayed: RawDelayedWork::new(run),
        door: Door::default(),
        runs: AtomicUsize::new(0),
    }))
}

fn arm(wq: &Workqueue, item: &'static Item) {
    // SAFETY: it is never freed.
    let queued = unsafe { wq.queue_delayed_raw(None, NonNull::from(item).cast(), LONG) };
    assert!(matches!(queued, Ok(Queued::Accepted)));
}

#[test]
fn the_flush_of_an_item_does_not_see_its_timer() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("does not see its timer", &engine);
    let wq = queue(&engine);
    let item = item();
    let inner = item.delayed.work();
    item.door.open.complete();
    for runs in 0..3 {
        // The first time it was on no queue before.
        arm(&wq, item);
        assert_eq!(
            (inner.flush(), inner.flush_by_workers()),
            (Ok(false), Ok(false))
        );
        assert!(inner.is_pending());
        assert_eq!(item.runs.load(Ordering::SeqCst), runs);
        assert!(
            item.delayed.flush().unwrap(),
            "the item with its timer is queued"
        );
        assert_eq!(item.runs.load(Ordering::SeqCst), runs + 1);
    }
    // Taken off its timer it is an item as any other.
    arm(&wq, item);
    assert!(item.delayed.cancel());
    // SAFETY: it is never freed.
    let queued = unsafe { wq.queue_raw(NonNull::from(item).cast()) };
    assert_eq!(queued, Queued::Accepted);
    inner.flush().unwrap();
    assert_eq!(item.runs.load(Ordering::SeqCst), 4);
}

#[test]
fn the_flush_of_an_item_that_runs_and_is_armed_again_waits_for_the_run() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("waits for the run", &engine);
    let wq = queue(&engine);
    let item = item();
    let inner = item.delayed.work();
    // SAFETY: it is never freed.
    let queued = unsafe { wq.queue_raw(NonNull::from(item).cast()) };
    assert_eq!(queued, Queued::Accepted);
    item.door.wait_for(1);
    arm(&wq, item);
    std::thread::scope(|scope| {
        let flushed = scope.spawn(|| (inner.flush(), item.runs.load(Ordering::SeqCst)));
        // No call shows that the flush waits. A flush without a wait returns well within this time.
        Completion::new().wait_timeout(Duration::from_millis(50));
        item.door.open.complete();
        let (waited, runs) = flushed.join().unwrap();
        // Come too late, it finds no run any more.
        assert!(runs == 1, "waited: {waited:?}, runs: {runs}");
    });
    assert!(inner.is_pending() && item.delayed.cancel());
}

// ---- a timer that ends early enough ----

#[test]
fn a_timer_that_ends_before_the_new_delay_would_stays_as_it_is() {
    unsafe extern "C-unwind" fn nothing(_: NonNull<RawWork>) {}
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("later", &engine);
    let wq = queue(&engine);
    let item = Box::new(RawDelayedWork::new(nothing));
    let at = NonNull::from(&*item);
    let sooner = |delay| {
        // SAFETY: the item is cancelled before it goes.
        let moved = unsafe { wq.mod_delayed_raw_if(MoveIf::Later, None, at, delay, None) };
        moved.unwrap()
    };
    assert_eq!(sooner(2 * LONG), Some(Moved::Accepted), "it was idle");
    assert_eq!(sooner(3 * LONG), None);
    assert!(item.work().is_pending() && item.time_left() <= 2 * LONG + SOON);
    assert_eq!(sooner(LONG), Some(Moved::Pending));
    assert!(item.time_left() <= LONG + SOON);
    assert!(item.cancel());
}

/// As the kernel's `enable_delayed_work` does with an item that was not disabled.
#[test]
fn enabling_what_is_not_disabled_takes_it_off_its_timer() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("enabled", &engine);
        let wq = queue(&engine);
        let item = item();
        arm(&wq, item);
        assert!(item.delayed.enable_work());
        assert!(!item.delayed.work().is_pending());
        arm(&wq, item);
        assert!(item.delayed.cancel());
    });
}

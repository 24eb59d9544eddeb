//! What the user's code may do where the library calls it, or where it calls the library: in
//! functions that reuse their item's memory, in destructors of a thread's locals, in destructors of
//! what handlers have captured.

use crate::harness::{
    Deadline, Door, Heard, engine, engine_without_hogs, eventually, in_own_process,
};
use cmwq::raw::RawWork;
use cmwq::types::Queued;
use cmwq::{Completion, Engine, Work, Workqueue};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// How long an awaited item runs: a caller that does not wait for it returns long before.
const LONG_RUN: Duration = Duration::from_millis(50);

// ---- an item at the address of one that was freed ----

/// What is done with the second item, and whether it runs then, or may be pending.
struct Wait {
    by: fn(&RawWork) -> bool,
    runs: bool,
}

struct Reuse {
    wq: Workqueue,
    wait: Wait,
    long_run: Duration,
    begun: Completion,
    ended: AtomicBool,
    /// What the wait returned, and whether the second had ended then.
    outcome: Mutex<Option<(bool, bool)>>,
}

#[repr(C)]
struct Item {
    raw: RawWork,
    reuse: Arc<Reuse>,
}

impl Item {
    /// # Safety
    /// It is the first field of an `Item`.
    unsafe fn reuse_of(item: NonNull<RawWork>) -> Arc<Reuse> {
        // SAFETY: by the contract.
        unsafe { (*item.cast::<Item>().as_ptr()).reuse.clone() }
    }
}

unsafe extern "C-unwind" fn first(item: NonNull<RawWork>) {
    // SAFETY: all items of these tests are such.
    let reuse = unsafe { Item::reuse_of(item) };
    // As if it were freed now, and another item made at the same address: the library does not
    // touch it any more. SAFETY: the memory is the test's, and no other thread uses it.
    unsafe { item.write(RawWork::new(second)) };
    // SAFETY: the test keeps the memory.
    let queued = unsafe { reuse.wq.queue_raw(item) };
    if reuse.wait.runs {
        reuse.begun.wait();
    }
    // SAFETY: as above.
    let returned = (reuse.wait.by)(unsafe { item.as_ref() });
    let ended = reuse.ended.load(Ordering::SeqCst);
    let outcome = (queued == Queued::Accepted).then_some((returned, ended));
    *reuse.outcome.lock().unwrap() = outcome;
}

unsafe extern "C-unwind" fn second(item: NonNull<RawWork>) {
    // SAFETY: as above.
    let reuse = unsafe { Item::reuse_of(item) };
    reuse.begun.complete();
    Completion::new().wait_timeout(reuse.long_run);
    reuse.ended.store(true, Ordering::SeqCst);
}

/// Returns what the wait did.
fn waits_for_the_second(engine: &Engine, wait: Wait, long_run: Duration) -> bool {
    let runs = wait.runs;
    let reuse = Arc::new(Reuse {
        wq: engine.workqueue("reuse").build().unwrap(),
        wait,
        long_run,
        begun: Completion::new(),
        ended: AtomicBool::new(false),
        outcome: Mutex::new(None),
    });
    let item = Box::into_raw(Box::new(Item {
        raw: RawWork::new(first),
        reuse: reuse.clone(),
    }));
    let raw = NonNull::new(item).expect("not null").cast();
    // SAFETY: it is freed when the queue is empty.
    assert_eq!(unsafe { reuse.wq.queue_raw(raw) }, Queued::Accepted);
    reuse.wq.drain().unwrap();
    let outcome = *reuse.outcome.lock().unwrap();
    // SAFETY: nothing is queued any more.
    drop(unsafe { Box::from_raw(item) });
    let (returned, ended) = outcome.expect("the second was accepted");
    assert!(ended, "runs: {runs}");
    returned
}

#[test]
fn a_function_waits_for_another_item_at_its_own_address() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("its own address", &engine);
    let disable_sync = |item: &RawWork| {
        let removed = item.disable_sync();
        item.enable_work();
        removed
    };
    let wait = |by, runs, returns| {
        // On a busy machine the second may end before the wait begins: then once more, with more time.
        let mut long_run = LONG_RUN;
        while waits_for_the_second(&engine, Wait { by, runs }, long_run) != returns {
            assert!(returns, "none was pending");
            long_run *= 4;
        }
    };
    let flush = |item: &RawWork| item.flush().unwrap();
    let by_workers = |item: &RawWork| item.flush_by_workers().unwrap();
    wait(flush, true, true);
    wait(by_workers, true, true);
    wait(RawWork::cancel_sync, true, false);
    wait(disable_sync, true, false);
    wait(flush, false, true);
    wait(by_workers, false, true);
}

// ---- a thread that ends ----

/// Called when the thread's locals are dropped.
struct AtTheEnd(Box<dyn FnOnce()>);

thread_local! {
    static AT_THE_END: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        std::mem::replace(&mut self.0, Box::new(|| ()))();
    }
}

fn asleep(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|rest| rest.starts_with('S'))
}

/// What a destructor may do: queue, wait, and run items that wait, wake others, and spawn.
fn works(wq: &Workqueue) -> usize {
    let mut done = 0;
    let me = thread::current().id();
    let who = move || thread::current().id() == me;
    done += usize::from(wq.spawn(who).join().unwrap());
    let work = Work::new(|| ());
    done += usize::from(wq.queue(&work).is_accepted() && work.flush() == Ok(true));
    // It blocks while it runs an item.
    let waited = wq.spawn(|| Completion::new().wait_timeout(Duration::from_micros(1)));
    done += usize::from(!waited.join().unwrap());
    // It wakes another thread while it runs an item.
    let told = Arc::new(Completion::new());
    let (tell_tid, tid) = mpsc::channel();
    let sleeper = thread::spawn({
        let told = told.clone();
        move || {
            // SAFETY: asks for a number.
            tell_tid.send(unsafe { libc::gettid() }).unwrap();
            told.wait();
        }
    });
    let tid = tid.recv().unwrap();
    eventually(|| asleep(tid));
    wq.spawn(move || told.complete()).join().unwrap();
    done += usize::from(sleeper.join().is_ok());
    done
}

#[test]
fn a_destructor_of_a_threads_local_may_wait_for_items() {
    in_own_process(|| {
        // One CPU, which an item occupies: so a waiter runs its item itself.
        let engine = engine_without_hogs("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("the end of a thread", &engine);
        let wq = Arc::new(engine.workqueue("t").build().unwrap());
        let door = Door::new();
        let busy = Work::new({
            let door = door.clone();
            move || door.pass_awake()
        });
        assert!(wq.queue(&busy).is_accepted());
        door.wait_for(1);
        // The library's locals are gone already, or not yet, when the destructor runs.
        for library_first in [false, true] {
            let done = Arc::new(AtomicUsize::new(0));
            let (engine, wq, at_end) = (engine.clone(), wq.clone(), done.clone());
            let ends = thread::spawn(move || {
                // Issuer of the item's CPU as long as it lives, or it would not run the item itself.
                std::mem::forget(engine.become_issuer(0).unwrap());
                let last = AtTheEnd(Box::new({
                    let wq = wq.clone();
                    move || at_end.store(works(&wq), Ordering::SeqCst)
                }));
                if library_first {
                    assert_eq!(works(&wq), 4);
                }
                AT_THE_END.with(|at_the_end| *at_the_end.borrow_mut() = Some(last));
                assert_eq!(works(&wq), 4);
            });
            ends.join().unwrap();
            assert_eq!(done.load(Ordering::SeqCst), 4);
        }
        door.open.complete();
        wq.flush().unwrap();
    });
}

// ---- handlers ----

/// Calls something when it is dropped.
struct WhenDropped(fn());

impl Drop for WhenDropped {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn what_a_replaced_handler_has_captured_may_use_the_handler() {
    in_own_process(|| {
        let _deadline = Deadline::with_dump("replaced handlers", String::new);
        let warns = WhenDropped(|| cmwq::observe::warn("the old one goes"));
        cmwq::observe::set_warning_handler(move |_| {
            let _kept = &warns;
        });
        let heard = Heard::warnings();
        assert_eq!(heard.count("the old one goes"), 1);
        static REPLACED: AtomicUsize = AtomicUsize::new(0);
        let replaces = WhenDropped(|| {
            cmwq::observe::set_report_handler(|_| ());
            REPLACED.fetch_add(1, Ordering::SeqCst);
        });
        cmwq::observe::set_report_handler(move |_| {
            let _kept = &replaces;
        });
        cmwq::observe::set_report_handler(|_| ());
        assert_eq!(REPLACED.load(Ordering::SeqCst), 1);
    });
}

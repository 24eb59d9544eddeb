//! Read-copy-update: readers that never wait, and grace periods.
//!
//! One counter numbers the grace periods. A reader notes its present value when its outermost
//! section begins, and 0 when it ends. A thread that waits for a grace period raises the counter
//! and then waits until every thread has noted 0 or the new value. A section that began before
//! either is seen by that, or has noted its value after the look; then the fences on both sides
//! make it see what was done before the counter was raised.

use crate::call::{Wrong, abi, caught};
use crate::system;
use crate::task;
use cmwq::raw::RawWork;
use cmwq::types::{FlushError, Queued};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
use std::time::Duration;

static PERIOD: AtomicU64 = AtomicU64::new(1);

/// The child of a fork has callbacks of its own.
fn watch_forks() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    // May be registered more than once.
    extern "C" fn in_child() {
        // What waited was the parent's. Its item may stay pending for ever; the child has one of its own.
        WAITING.store(std::ptr::null_mut(), Ordering::Release);
        let own = Box::leak(Box::new(RawWork::new(run_callbacks)));
        OF_CHILD.store(own, Ordering::Release);
    }
    // Set only when it is true: a thread that finds it set relies on the handler.
    if !WATCHED.load(Ordering::Acquire) {
        // SAFETY: the handler allocates, which glibc and musl permit there.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
        WATCHED.store(true, Ordering::Release);
    }
}

fn synchronize() {
    // What the caller has taken away is not found by sections that begin after this.
    fence(Ordering::SeqCst);
    let period = PERIOD.fetch_add(1, Ordering::SeqCst) + 1;
    fence(Ordering::SeqCst);
    let mut pause = Duration::from_micros(5);
    loop {
        let waits = task::any(|task| {
            let began = task.rcu_began.load(Ordering::SeqCst);
            began != 0 && began < period
        });
        if !waits {
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
    // What the sections did has happened before this.
    fence(Ordering::SeqCst);
}

/// `struct cmwq_rcu_head`.
#[repr(C)]
pub struct Head {
    next: *mut Head,
    func: Option<unsafe extern "C-unwind" fn(*mut Head)>,
}

/// A function below this is none but the offset of the head in memory from malloc(), which is
/// freed: no function lies there.
const MOST_OFFSET: usize = 4096;

/// Those that wait for a grace period, the last one first.
static WAITING: AtomicPtr<Head> = AtomicPtr::new(std::ptr::null_mut());
static CALLBACKS: RawWork = RawWork::new(run_callbacks);
/// In the child of a fork: what stands for it.
static OF_CHILD: AtomicPtr<RawWork> = AtomicPtr::new(std::ptr::null_mut());

/// The item that runs what waits.
fn callbacks() -> &'static RawWork {
    // SAFETY: NULL, or leaked.
    unsafe { OF_CHILD.load(Ordering::Acquire).as_ref() }.unwrap_or(&CALLBACKS)
}

unsafe extern "C-unwind" fn run_callbacks(_item: NonNull<RawWork>) {
    let mut last = WAITING.swap(std::ptr::null_mut(), Ordering::AcqRel);
    let mut first: *mut Head = std::ptr::null_mut();
    while let Some(head) = NonNull::new(last) {
        // SAFETY: it is the list's until its function is called.
        unsafe {
            last = (*head.as_ptr()).next;
            (*head.as_ptr()).next = first;
        }
        first = head.as_ptr();
    }
    cmwq::blocking(synchronize);
    let mut ends = false;
    while let Some(head) = NonNull::new(first) {
        // SAFETY: as above; the function may free it.
        unsafe {
            first = (*head.as_ptr()).next;
            match (*head.as_ptr()).func {
                Some(func) if (func as usize) < MOST_OFFSET => {
                    libc::free(head.as_ptr().byte_sub(func as usize).cast());
                }
                // Those behind it are called whatever it does.
                Some(func) => match caught(|| cmwq::raw::call_c(|| func(head.as_ptr()))) {
                    Some(ended) => ends |= ended.is_none(),
                    None => cmwq::observe::warn("a callback of cmwq_call_rcu panicked"),
                },
                // An offset of 0.
                None => libc::free(head.as_ptr().cast()),
            }
        }
    }
    if ends {
        cmwq::raw::end_item();
    }
}

/// Waits for the run of the callbacks. If the calling item has the only place of their workqueue, they
/// move to another one; `false`: it has the places of all.
fn wait_for_callbacks() -> bool {
    let mut others = [system::DFL, system::PERCPU].into_iter().peekable();
    // Not from their own item, as the caller has looked.
    while callbacks().flush_by_workers() == Err(FlushError::OwnItem) {
        let Some(Ok(queue)) = others.peek().map(|&which| system::handle_of(which)) else {
            return false;
        };
        // If there is nothing to remove, they have begun meanwhile, or another thread moves them.
        // SAFETY: a static item.
        let moved = callbacks().cancel()
            && unsafe { queue.queue_raw(NonNull::from(callbacks())) }
                .is_ok_and(Queued::is_accepted);
        if moved {
            others.next();
        }
    }
    true
}

abi! {
    fn cmwq_rcu_read_lock(_call) {
        let task = task::current();
        // SAFETY: the thread's own.
        let task = unsafe { task.as_ref() };
        let depth = task.rcu_depth.get();
        task.rcu_depth.set(depth + 1);
        if depth == 0 {
            task.rcu_began.store(PERIOD.load(Ordering::SeqCst), Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    fn cmwq_rcu_read_unlock(_call) {
        let task = task::current();
        // SAFETY: the thread's own.
        let task = unsafe { task.as_ref() };
        let depth = task.rcu_depth.get();
        if depth <= 1 {
            fence(Ordering::SeqCst);
            task.rcu_began.store(0, Ordering::SeqCst);
        }
        task.rcu_depth.set(depth.saturating_sub(1));
    }

    fn cmwq_rcu_read_lock_held(_call) -> bool {
        // SAFETY: the thread's own.
        unsafe { task::current().as_ref() }.rcu_depth.get() > 0
    }

    fn cmwq_synchronize_rcu(call) {
        // SAFETY: the thread's own.
        if unsafe { task::current().as_ref() }.rcu_depth.get() > 0 {
            return call.wrong(Wrong::OwnItem, "called within a read-side section, which it would wait for");
        }
        cmwq::blocking(synchronize);
    }

    fn cmwq_call_rcu(call, head: *mut Head, func: Option<unsafe extern "C-unwind" fn(*mut Head)>) {
        if head.is_null() {
            return call.wrong(Wrong::NullArgument, "the head is NULL");
        }
        watch_forks();
        // SAFETY: the header asks for a head that is the library's until its function is called.
        unsafe { (*head).func = func };
        let mut last = WAITING.load(Ordering::Relaxed);
        loop {
            // SAFETY: as above.
            unsafe { (*head).next = last };
            match WAITING.compare_exchange_weak(last, head, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => last = now,
            }
        }
        let queue = match system::handle_of(system::DFL_LONG) {
            Ok(queue) => queue,
            Err(error) => return call.error(&error),
        };
        // SAFETY: a static item.
        let queued = unsafe { queue.queue_raw(NonNull::from(callbacks())) };
        debug_assert!(
            queued.is_ok_and(Queued::will_run),
            "system workqueues stay"
        );
    }

    fn cmwq_rcu_barrier(call) {
        if cmwq::raw::current_work().is_some_and(|work| std::ptr::eq(work, callbacks())) {
            return call.wrong(Wrong::OwnItem, "called by a callback, which it would wait for");
        }
        // SAFETY: the thread's own.
        if unsafe { task::current().as_ref() }.rcu_depth.get() > 0 {
            let why = "called within a read-side section, for which callbacks wait";
            return call.wrong(Wrong::OwnItem, why);
        }
        // One item runs all callbacks, in the order in which they came. If none waits, those that
        // did are in the run that is flushed.
        loop {
            let none_waits = WAITING.load(Ordering::Acquire).is_null();
            if !wait_for_callbacks() {
                let why = "called by an item that has all places in which the callbacks could run";
                return call.wrong(Wrong::OwnItem, why);
            }
            if none_waits {
                break;
            }
            std::thread::yield_now();
        }
    }
}

//! Threads that wait for one another under the kernel's names: what `<linux/sched.h>`, wait queues
//! and kernel threads stand on.

use crate::attrs::Mask;
use crate::call::{Call, Failed, Wrong, abi};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering,
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `struct cmwq_task`: a thread, as others know it. It outlives the thread while there are references.
#[repr(C)]
pub struct Task {
    /// 0: it runs; otherwise it sleeps or is about to. C programs set it in place.
    state: AtomicU32,
    refs: AtomicU32,
    /// Of its thread, which is another one in the child of a fork.
    pid: AtomicI32,
    reserved: u32,
    /// What a kernel thread is; belongs to the headers, and is freed with the task.
    thread: Cell<*mut c_void>,
    /// How deep the thread is in read-side sections. Its own.
    pub(crate) rcu_depth: Cell<u32>,
    /// The grace period that its outermost section began in; 0: it is in none.
    pub(crate) rcu_began: AtomicU64,
    /// Its name, and zeros. Others may read it; only its own thread writes it.
    name: [AtomicU8; 16],
}

// What the headers say of its layout.
const _: () = assert!(offset_of!(Task, pid) == 8 && offset_of!(Task, thread) == 16);
const _: () = assert!(offset_of!(Task, name) == 40 && size_of::<Task>() == 56);

/// The calling thread's name.
fn own_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the system writes 16 bytes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

thread_local! {
    /// The calling thread's. Without a destructor, so that those of other thread-local values find it.
    static OWN: Cell<*mut Task> = const { Cell::new(std::ptr::null_mut()) };
}

/// The calling thread's.
pub(crate) fn current() -> NonNull<Task> {
    NonNull::new(OWN.get()).unwrap_or_else(begin)
}

fn own_tid() -> c_int {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// A task on the list of all: it stays valid until it is taken off, under the same lock.
struct Listed(NonNull<Task>);

// SAFETY: others only look at its atomics.
unsafe impl Send for Listed {}

/// The tasks of all threads.
static ALL: Mutex<Vec<Listed>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Listed>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether any thread's task is so.
pub(crate) fn any(is_so: impl Fn(&Task) -> bool) -> bool {
    // SAFETY: listed, and the lock is held.
    all()
        .iter()
        .any(|listed| is_so(unsafe { listed.0.as_ref() }))
}

/// In a fork's child only the calling thread is left, and no thread holds the lock, since it was
/// taken for the fork.
fn watch_forks() {
    static HELD: AtomicPtr<MutexGuard<'static, Vec<Listed>>> = AtomicPtr::new(std::ptr::null_mut());
    static WATCHED: AtomicBool = AtomicBool::new(false);
    fn release() -> Option<Box<MutexGuard<'static, Vec<Listed>>>> {
        let held = HELD.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: `before` has put it there, and the swap gives it to one.
        (!held.is_null()).then(|| unsafe { Box::from_raw(held) })
    }
    thread_local! {
        /// The thread forks. The handlers may be registered more than once: the first call counts.
        static FORKS: Cell<bool> = const { Cell::new(false) };
    }
    extern "C" fn before() {
        if !FORKS.replace(true) {
            HELD.store(Box::into_raw(Box::new(all())), Ordering::Release);
        }
    }
    extern "C" fn in_parent() {
        if FORKS.replace(false) {
            drop(release());
        }
    }
    extern "C" fn in_child() {
        if !FORKS.replace(false) {
            return;
        }
        let own = OWN.get();
        if let Some(mut all) = release() {
            all.retain(|listed| listed.0.as_ptr() == own);
        }
        // SAFETY: the thread's own, if it has one.
        if let Some(task) = unsafe { own.as_ref() } {
            task.pid.store(own_tid(), Ordering::Relaxed);
        }
    }
    // Set only when it is true: a thread that finds it set relies on the handlers.
    if !WATCHED.load(Ordering::Acquire) {
        // SAFETY: the handlers hold a lock over the fork and do nothing else.
        unsafe {
            libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
        }
        WATCHED.store(true, Ordering::Release);
    }
}

/// The key whose destructor ends a thread's task.
fn key() -> libc::pthread_key_t {
    /// Plus one; 0: none. No Once: were it torn by a fork, the child would wait for it.
    static KEY: AtomicU64 = AtomicU64::new(0);
    let known = KEY.load(Ordering::Acquire);
    if known != 0 {
        return (known - 1) as libc::pthread_key_t;
    }
    let mut key = 0;
    // SAFETY: the destructor is given what `begin` sets.
    let failed = unsafe { libc::pthread_key_create(&mut key, Some(end)) };
    assert!(failed == 0, "there are too many thread-specific keys");
    let new = u64::from(key) + 1;
    match KEY.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => key,
        Err(first) => {
            // SAFETY: no thread has set anything by it.
            unsafe { libc::pthread_key_delete(key) };
            (first - 1) as libc::pthread_key_t
        }
    }
}

#[cold]
fn begin() -> NonNull<Task> {
    let key = key();
    let task = Box::new(Task {
        state: AtomicU32::new(0),
        refs: AtomicU32::new(1),
        pid: AtomicI32::new(own_tid()),
        reserved: 0,
        thread: Cell::new(std::ptr::null_mut()),
        rcu_depth: Cell::new(0),
        rcu_began: AtomicU64::new(0),
        name: own_name().map(AtomicU8::new),
    });
    let task = NonNull::from(Box::leak(task));
    OWN.set(task.as_ptr());
    watch_forks();
    all().push(Listed(task));
    // SAFETY: the key is valid for ever.
    unsafe { libc::pthread_setspecific(key, task.as_ptr().cast()) };
    task
}

/// The thread ends, and gives back its reference. If the destructor of another key needs a task
/// afterwards, this is called again for that one.
extern "C" fn end(task: *mut c_void) {
    OWN.set(std::ptr::null_mut());
    all().retain(|listed| listed.0.as_ptr() != task.cast());
    // SAFETY: the thread's own reference.
    unsafe { put(task.cast()) };
}

/// # Safety
/// The reference is the caller's.
unsafe fn put(task: *mut Task) {
    // SAFETY: there is a reference.
    if unsafe { &(*task).refs }.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: that was the last, and what the headers keep came from malloc().
        unsafe {
            libc::free((*task).thread.get());
            drop(Box::from_raw(task));
        }
        // No tail call: ThreadSanitizer knows by the caller that it is the library that frees.
        std::hint::black_box(task);
    }
}

/// Sleeps until the state is 0 or the time is over; afterwards it is 0. `false`: the time was over.
fn sleep(task: &Task, ns: u64) -> bool {
    let deadline = crate::process::now_ns().saturating_add(ns);
    loop {
        let state = task.state.load(Ordering::SeqCst);
        if state == 0 {
            return true;
        }
        let left = deadline.saturating_sub(crate::process::now_ns());
        if left == 0 {
            // A waker that comes at this moment has woken it.
            return task.state.swap(0, Ordering::SeqCst) == 0;
        }
        let span = libc::timespec {
            tv_sec: (left / 1_000_000_000).min(i32::MAX as u64) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the state is a futex of this process, and valid as long as the thread; so is the
        // span for the call.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                task.state.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                state,
                &raw const span,
            );
        }
    }
}

/// Wakes the thread if its state is among these bits.
fn wake(state: &AtomicU32, states: u32) -> bool {
    let mut was = state.load(Ordering::SeqCst);
    loop {
        // A write in any case, so that what the waker did before is seen by the thread that reads
        // the state next.
        let to = if was & states != 0 { 0 } else { was };
        match state.compare_exchange(was, to, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => break,
            Err(now) => was = now,
        }
    }
    if was & states == 0 {
        return false;
    }
    // SAFETY: a futex of this process; one whose thread has gone wakes no thread.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            state.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        );
    }
    true
}

impl Call {
    fn with_task<R: Failed>(&self, task: *mut Task, f: impl FnOnce(NonNull<Task>) -> R) -> R {
        match NonNull::new(task) {
            Some(task) => f(task),
            None => self.wrong(Wrong::NullArgument, "the task is NULL"),
        }
    }
}

abi! {
    fn cmwq_current_task(_call) -> *mut Task {
        current().as_ptr()
    }

    fn cmwq_task_get(call, task: *mut Task) {
        call.with_task(task, |task| {
            // SAFETY: the header asks for a task of which there is a reference.
            unsafe { task.as_ref() }.refs.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn cmwq_task_put(call, task: *mut Task) {
        // SAFETY: the header asks for a reference of the caller's.
        call.with_task(task, |task| unsafe { put(task.as_ptr()) })
    }

    fn cmwq_task_wake(call, task: *mut Task, states: c_uint) -> bool {
        // SAFETY: the header asks for a task of which there is a reference.
        call.with_task(task, |task| wake(&unsafe { task.as_ref() }.state, states))
    }

    fn cmwq_task_bind(call, task: *mut Task, cpu: c_int) -> c_int {
        let Some(cpu) = usize::try_from(cpu).ok().filter(|&cpu| cpu < cmwq::topology::MAX_CPUS) else {
            return -libc::ENODEV;
        };
        let mut mask = [0u64; cmwq::topology::MAX_CPUS / 64];
        mask[cpu / 64] = 1 << (cpu % 64);
        call.with_task(task, |task| {
            // SAFETY: the header asks for a task of which there is a reference; the mask is as long
            // as is said.
            let done = unsafe { libc::sched_setaffinity(task.as_ref().pid.load(Ordering::Relaxed), size_of_val(&mask), mask.as_ptr().cast()) };
            if done == 0 { 0 } else { -libc::ENODEV }
        })
    }

    fn cmwq_task_allow(call, task: *mut Task, cpus: *const Mask) -> c_int {
        if cpus.is_null() {
            return call.wrong(Wrong::NullArgument, "the CPUs are NULL");
        }
        call.with_task(task, |task| {
            // SAFETY: the header asks for a task of which there is a reference, and for a set of CPUs.
            let done = unsafe { libc::sched_setaffinity(task.as_ref().pid.load(Ordering::Relaxed), size_of::<Mask>(), cpus.cast()) };
            if done == 0 { 0 } else { -libc::EINVAL }
        })
    }

    fn cmwq_task_name(call, name: *const c_char) {
        if name.is_null() {
            return call.wrong(Wrong::NullArgument, "the name is NULL");
        }
        // SAFETY: the header asks for a text; the system reads it up to its end, or 15 bytes.
        let bytes = unsafe {
            libc::prctl(libc::PR_SET_NAME, name);
            CStr::from_ptr(name).to_bytes()
        };
        // SAFETY: the thread's own.
        let task = unsafe { current().as_ref() };
        let (last, rest) = task.name.split_last().expect("16 bytes");
        for (i, byte) in rest.iter().enumerate() {
            byte.store(bytes.get(i).copied().unwrap_or(0), Ordering::Relaxed);
        }
        last.store(0, Ordering::Relaxed);
    }

    fn cmwq_task_call(call, func: Option<unsafe extern "C-unwind" fn(*mut c_void)>, arg: *mut c_void) -> bool {
        match func {
            // SAFETY: the header asks for a function that may be called with the argument.
            Some(func) => cmwq::raw::call_c_anywhere(|| unsafe { func(arg) }).is_ok(),
            None => call.wrong(Wrong::NullArgument, "the function is NULL"),
        }
    }

    fn cmwq_task_sleep_ns(_call, ns: u64) -> bool {
        // SAFETY: the thread has a reference of its own.
        let task = unsafe { current().as_ref() };
        cmwq::blocking(|| sleep(task, ns))
    }
}

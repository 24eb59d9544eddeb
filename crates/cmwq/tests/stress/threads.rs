//! What the system does to the engine's threads.
//!
//! The creation of workers fails: the program's own `pthread_create` comes before the C library's, and refuses, now and then,
//! what the engine's service thread asks for, and only that.
//!
//! CPUs come and go: the service thread takes those for the process's that it is bound to, so binding it is enough.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One creation in this many fails; 0: none.
static REFUSE_ONE_IN: AtomicUsize = AtomicUsize::new(0);
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// While it lives, workers are hard to get.
pub(crate) struct Shortage;

impl Shortage {
    /// The caller sees to it that no other test runs meanwhile.
    pub(crate) fn of_one_in(n: usize) -> Self {
        REFUSE_ONE_IN.store(n, Ordering::Relaxed);
        Shortage
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        REFUSE_ONE_IN.store(0, Ordering::Relaxed);
    }
}

pub(crate) fn are_short() -> bool {
    REFUSE_ONE_IN.load(Ordering::Relaxed) != 0
}

fn is_refused() -> bool {
    let one_in = REFUSE_ONE_IN.load(Ordering::Relaxed);
    if one_in == 0 {
        return false;
    }
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.starts_with(b"cmwq-service\0")
        && ASKED.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in)
}

type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attr: *const libc::pthread_attr_t,
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if is_refused() {
        return libc::EAGAIN;
    }
    // SAFETY: the names end with 0; what is found under them is the C library's function, of this type, or the race detector's
    // own in its place, which this one has hidden; the arguments are the caller's.
    unsafe {
        let detectors = c"__interceptor_pthread_create".as_ptr();
        let mut next = libc::dlsym(libc::RTLD_DEFAULT, detectors);
        if next.is_null() {
            next = libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr());
        }
        assert!(!next.is_null(), "there is a C library");
        std::mem::transmute::<*mut c_void, Create>(next)(thread, attr, main, argument)
    }
}

/// The CPUs that the calling thread may run on.
pub(crate) fn my_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).expect("one's own CPUs can be asked for");
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    all.filter(|&cpu| set.is_set(cpu)).collect()
}

/// To the engines of this process, it has these CPUs from now on (that is, from their next look).
pub(crate) fn seem_to_have(cpus: &[usize]) {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    let tasks = std::fs::read_dir("/proc/self/task").expect("a process has threads");
    for task in tasks.flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let tid = task.file_name().to_string_lossy().parse().ok();
        if let (true, Some(tid)) = (name == "cmwq-service\n", tid) {
            // It may have ended by now.
            let _ = rustix::thread::sched_setaffinity(rustix::thread::Pid::from_raw(tid), &set);
        }
    }
}

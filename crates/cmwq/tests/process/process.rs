//! What a program has once and shares with the library: its signals and its file descriptors.
//!
//! Sabotages tried: a library thread that blocks every signal fails
//! `faults_and_profilers_reach_work_functions` and the two about a fault; one that only adds to its
//! creator's mask fails `threads_made_by_one_that_blocks_everything_leave_faults_open`; workers
//! with the mask of the library's other threads fail all of `signals_of_items`; a monitor that
//! takes "cannot tell" for awake fails
//! `items_that_wait_for_each_other_end_without_a_free_descriptor`.

use crate::harness::{Deadline, eventually, in_own_process, own_process, threads_named};
use cmwq::affinity::AffinityScope;
use cmwq::raw::reset_signal_mask;
use cmwq::{Engine, WorkerThreads, Workqueue};
use libc::{
    SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGPROF, SIGSEGV, SIGSTOP, SIGSYS, SIGTERM, SIGTRAP,
};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// The standard signals that thread `tid` leaves open.
fn open_signals(tid: i32) -> Vec<i32> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).expect("/proc");
    let blocked = status
        .lines()
        .find_map(|line| line.strip_prefix("SigBlk:"))
        .expect("a mask");
    let blocked = u64::from_str_radix(blocked.trim(), 16).expect("hexadecimal digits");
    // These two cannot be blocked.
    let others = (1..32).filter(|signal| ![SIGKILL, SIGSTOP].contains(signal));
    others
        .filter(|signal| blocked >> (signal - 1) & 1 == 0)
        .collect()
}

/// The library's threads of this process, of every kind.
fn library_threads() -> Vec<(i32, String)> {
    let names = ["cmwq-service", "cmwq-timer", "kworker/R-", "kworker/u"];
    // A thread names itself, and may not have begun yet.
    eventually(|| names.iter().all(|name| !threads_named(name).is_empty()));
    names.map(threads_named).concat()
}

/// Waits until all of the library's threads leave these signals open and no others.
fn expect_open(open: &[i32]) {
    for (tid, name) in library_threads() {
        let mut seen = open_signals(tid);
        if seen != open {
            // The C library blocks all signals in a thread for as long as it creates another.
            eprintln!("{name}: {seen:?}");
            eventually(|| {
                seen = open_signals(tid);
                seen == open
            });
        }
    }
}

/// Starts threads of every kind, workers that block signals among them.
fn started() -> (Engine, Workqueue) {
    let blocked = WorkerThreads::new().block_signals(true);
    let engine = Engine::builder().worker_threads(blocked).build().unwrap();
    let wq = engine.workqueue("t").mem_reclaim().build().unwrap();
    assert_eq!(wq.spawn(|| 1).join().unwrap(), 1);
    let later = cmwq::DelayedWork::new(|| ());
    assert!(
        wq.queue_delayed(&later, std::time::Duration::from_nanos(1))
            .is_accepted()
    );
    later.flush().unwrap();
    (engine, wq)
}

#[test]
fn faults_and_profilers_reach_work_functions() {
    in_own_process(|| {
        let (engine, _wq) = started();
        let _deadline = Deadline::new("signal masks", &engine);
        let mut open = [
            SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF, SIGABRT,
        ];
        open.sort_unstable();
        expect_open(&open);
    });
}

#[test]
fn threads_made_by_one_that_blocks_everything_leave_faults_open() {
    in_own_process(|| {
        // SAFETY: changes the mask of this thread, which is the test's own.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
        }
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let open_here = open_signals(own);
        assert!(
            ![SIGTERM, SIGPROF]
                .iter()
                .any(|signal| open_here.contains(signal))
        );
        let (engine, _wq) = started();
        let _deadline = Deadline::new("signal masks", &engine);
        let mut open = [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS];
        open.sort_unstable();
        expect_open(&open);
        assert_eq!(
            open_signals(own),
            open_here,
            "the creator's mask is as it was"
        );
        reset_signal_mask().unwrap();
        assert_eq!(open_signals(own).len(), 29, "all that can be blocked");
    });
}

/// The page that [`give_access`] opens.
static PAGE: AtomicUsize = AtomicUsize::new(0);
static FAULTS: AtomicUsize = AtomicUsize::new(0);

/// A handler of SIGSEGV that mends what was wrong.
extern "C" fn give_access(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    FAULTS.fetch_add(1, Ordering::SeqCst);
    let page = PAGE.load(Ordering::SeqCst);
    // SAFETY: the system hands over a valid siginfo; the page is the test's own; both calls may be
    // made by a handler.
    unsafe {
        if (*info).si_addr().addr() != page
            || libc::mprotect(
                std::ptr::with_exposed_provenance_mut(page),
                1,
                libc::PROT_READ | libc::PROT_WRITE,
            ) != 0
        {
            libc::_exit(70);
        }
    }
}

#[test]
fn a_fault_in_a_work_function_runs_the_programs_handler() {
    in_own_process(|| {
        let engine = Engine::builder().build().unwrap();
        let _deadline = Deadline::new("a fault", &engine);
        // SAFETY: a page of the test's own, and a handler that only makes calls that handlers may make.
        let page = unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                1,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(page, libc::MAP_FAILED);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = give_access as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(SIGSEGV, &action, std::ptr::null_mut()), 0);
            page.expose_provenance()
        };
        PAGE.store(page, Ordering::SeqCst);
        let wq = engine.workqueue("t").workers_only().build().unwrap();
        let written = wq.spawn(move || {
            let byte: *mut u8 = std::ptr::with_exposed_provenance_mut(page);
            // SAFETY: the handler makes the page writable, and the store is made again.
            unsafe {
                byte.write_volatile(7);
                byte.read_volatile()
            }
        });
        assert_eq!(written.join().unwrap(), 7);
        assert_eq!(FAULTS.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_stack_overflow_in_a_work_function_is_said() {
    fn deep(n: u64) -> u64 {
        let page = std::hint::black_box([n; 512]);
        if n == u64::MAX {
            return 0;
        }
        deep(n + 1) + page[(n % 512) as usize]
    }
    let test = || {
        let wq = Workqueue::builder("t").workers_only().build().unwrap();
        let _ = wq.spawn(|| deep(0)).join();
    };
    let Some(output) = own_process(&test) else {
        return test();
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGABRT), "{said}");
    assert!(
        said.contains("kworker") && said.contains("overflowed its stack"),
        "{said}"
    );
}

/// The limit of open files, changed.
struct NoDescriptors(libc::rlimit);

impl NoDescriptors {
    fn begin() -> Self {
        // SAFETY: reads and writes plain data. Lowering the soft limit closes nothing.
        unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
            let none = libc::rlimit {
                rlim_cur: 0,
                ..limit
            };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &none), 0);
            NoDescriptors(limit)
        }
    }
}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        // SAFETY: the limit as it was.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &self.0) };
    }
}

#[test]
fn items_that_wait_for_each_other_end_without_a_free_descriptor() {
    in_own_process(|| {
        let engine = Engine::builder().build().unwrap();
        let _deadline = Deadline::new("no descriptors", &engine);
        // In one pod: items that thieves run are not looked at.
        let builder = engine.workqueue("t").affinity_scope(AffinityScope::System);
        let wq = builder.workers_only().build().unwrap();
        let cpus = engine.topology().cpus().len();
        let none = NoDescriptors::begin();
        let refused = std::fs::File::open("/proc/self/stat").map(drop);
        assert_eq!(
            refused.unwrap_err().raw_os_error(),
            Some(libc::EMFILE),
            "descriptors are to be had"
        );
        // These block undeclared: the monitor has to find each, most of them while all others sleep as well.
        let all = Arc::new(Barrier::new(4 * cpus));
        let items: Vec<_> = (0..4 * cpus)
            .map(|_| {
                let all = all.clone();
                wq.spawn(move || all.wait().is_leader())
            })
            .collect();
        let leaders = items.into_iter().map(|item| item.join().unwrap());
        assert_eq!(leaders.filter(|&leader| leader).count(), 1);
        drop(none);
        assert!(engine.stats().blocked_seen >= 3 * cpus as u64);
    });
}

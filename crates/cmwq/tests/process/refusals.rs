//! What a system or a sandbox may refuse: the calls, threads, files and memory that the library
//! asks for. Each is made to happen, in a process of its own: items run, nothing hangs, and what
//! degrades is warned of once.
//!
//! Sabotages tried: a worker that cannot be bound ends; no warning, or one for each worker; an
//! engine that cannot be built where the affinity mask must be read from the file; a monitor that
//! takes "cannot tell" for awake.

use crate::harness::{Deadline, Heard, eventually, in_own_process};
use cmwq::{Completion, DelayedWork, Engine, Work};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// From now on these calls of any thread of the process fail with `errno`: a seccomp filter.
/// `false`: there are none here, as under qemu's user emulation.
#[must_use]
fn refuse(calls: &[i64], errno: i32) -> bool {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    // The number is the first word of what a filter sees.
    let mut filter = vec![step(LOAD, 0, 0, 0)];
    for &call in calls {
        filter.push(step(IF_EQUAL, 0, 1, call as u32));
        filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its steps outlive the calls, which copy them.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let set = libc::SECCOMP_SET_MODE_FILTER;
        let all_threads = libc::SECCOMP_FILTER_FLAG_TSYNC;
        libc::syscall(libc::SYS_seccomp, set, all_threads, &raw const program)
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        eprintln!("skipped, because no filter of system calls can be had here ({error})");
    }
    result == 0
}

/// As [`refuse`], from the process's first instruction on: the C library asks for some things when
/// it begins, and ends a process in which they are refused later.
#[must_use]
fn refuse_from_the_start(calls: &[i64], errno: i32) -> bool {
    const REFUSED: &str = "CMWQ_TEST_REFUSED";
    if std::env::var_os(REFUSED).is_some() {
        return true;
    }
    if !refuse(calls, errno) {
        return false;
    }
    let mut again = Command::new(std::env::current_exe().expect("this program"));
    let error = again
        .args(std::env::args().skip(1))
        .env(REFUSED, "1")
        .exec();
    panic!("it cannot be started again: {error}");
}

/// Everything that the library does with the system: workers of every kind, rescuers, timers, waits
/// of every kind.
fn use_everything(engine: &Engine) {
    let count = Arc::new(AtomicUsize::new(0));
    let queues = [
        engine.workqueue("unbound").build(),
        engine.workqueue("workers").workers_only().build(),
        engine.workqueue("per_cpu").per_cpu().build(),
        engine.workqueue("bh").bh().build(),
        engine.workqueue("nice").nice(5).build(),
        engine.workqueue("ordered").ordered().build(),
        engine.workqueue("reclaim").mem_reclaim().build(),
    ];
    let queues = queues.map(|queue| queue.expect("a queue"));
    for wq in &queues {
        for _ in 0..200 {
            let count = count.clone();
            wq.execute(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
            .expect("it takes items");
        }
        assert_eq!(wq.spawn(|| 7).join().expect("no panic"), 7);
    }
    let rang = Arc::new(Completion::new());
    let rings = rang.clone();
    let later = DelayedWork::new(move || rings.complete());
    assert!(
        queues[0]
            .queue_delayed(&later, Duration::from_millis(1))
            .is_accepted()
    );
    rang.wait();
    // Each sleeps until all have begun, without declaring it.
    let cpus = engine.usable_cpus().len();
    let all = Arc::new(Barrier::new(2 * cpus + 1));
    let items: Vec<_> = (0..=2 * cpus)
        .map(|_| {
            let all = all.clone();
            queues[1].spawn(move || all.wait().is_leader())
        })
        .collect();
    let leaders = items.into_iter().map(|item| item.join().expect("no panic"));
    assert_eq!(leaders.filter(|&leader| leader).count(), 1);
    for wq in &queues {
        wq.flush().expect("not an item");
    }
    assert_eq!(count.load(Ordering::SeqCst), 7 * 200);
}

/// With these calls refused everything works, with `said` warnings of a refused binding.
fn works_without(test: &'static str, calls: &[i64], errno: i32, said: usize) {
    if !refuse_from_the_start(calls, errno) {
        return;
    }
    let heard = Heard::warnings();
    let engine = Engine::builder().build().expect("an engine");
    let _deadline = Deadline::new(test, &engine);
    use_everything(&engine);
    // The warning worker may not have started yet.
    eventually(|| heard.count(BINDING) >= said);
    assert_eq!(heard.count(""), said, "{:?}", heard.with(""));
}

const BINDING: &str = "cannot be bound";

#[test]
fn workers_that_may_not_be_bound_work_and_it_is_said_once() {
    in_own_process(|| {
        works_without(
            "setaffinity",
            &[libc::SYS_sched_setaffinity],
            libc::EPERM,
            1,
        );
    });
}

#[test]
fn nor_where_the_call_is_not_known_at_all() {
    in_own_process(|| {
        let calls = [libc::SYS_sched_setaffinity, libc::SYS_sched_getaffinity];
        works_without("affinity", &calls, libc::ENOSYS, 1);
    });
}

/// What only makes it faster, or is for the C library.
const FASTER: [i64; 11] = [
    libc::SYS_sched_setattr,
    libc::SYS_sched_getattr,
    libc::SYS_membarrier,
    libc::SYS_getcpu,
    libc::SYS_futex_waitv,
    libc::SYS_rseq,
    libc::SYS_io_uring_setup,
    libc::SYS_setpriority,
    libc::SYS_getpriority,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getscheduler,
];

#[test]
fn what_only_makes_it_faster_may_be_forbidden_in_silence() {
    in_own_process(|| {
        works_without("faster", &FASTER, libc::EPERM, 0);
    });
}

#[test]
fn what_only_makes_it_faster_may_be_unknown_in_silence() {
    in_own_process(|| {
        works_without("faster", &FASTER, libc::ENOSYS, 0);
    });
}

#[test]
fn threads_come_by_the_older_call_where_the_newer_is_not_known() {
    in_own_process(|| {
        works_without("clone3", &[libc::SYS_clone3], libc::ENOSYS, 0);
    });
}

#[test]
fn where_no_thread_can_be_had_a_queue_cannot_be_built_and_says_so() {
    in_own_process(|| {
        let engine = Engine::builder().build().expect("an engine");
        let _deadline = Deadline::new("no threads", &engine);
        if !refuse(&[libc::SYS_clone3, libc::SYS_clone], libc::EPERM) {
            return;
        }
        let error = engine
            .workqueue("t")
            .build()
            .map(drop)
            .expect_err("no thread");
        assert!(
            error.to_string().contains("thread cannot be created"),
            "{error}"
        );
        // And again: nothing was left half made.
        assert!(engine.workqueue("t").build().is_err());
    });
}

#[test]
fn workers_that_cannot_be_had_any_more_are_missed_by_nobody_who_waits() {
    in_own_process(|| {
        let engine = Engine::builder().build().expect("an engine");
        let _deadline = Deadline::new("no more threads", &engine);
        let wq = engine.workqueue("t").mem_reclaim().workers_only().build();
        let wq = wq.expect("a queue");
        if !refuse(&[libc::SYS_clone3, libc::SYS_clone], libc::EAGAIN) {
            return;
        }
        let count = Arc::new(AtomicUsize::new(0));
        let works: Vec<Work> = (0..50).map(|_| crate::harness::counting(&count)).collect();
        for work in &works {
            assert!(wq.queue(work).is_accepted());
        }
        // The rescuer runs them.
        wq.flush().expect("not an item");
        assert_eq!(count.load(Ordering::SeqCst), 50);
        eventually(|| engine.stats().create_failures > 0);
    });
}

/// Sets both limits, the soft one and the hard one, by `set`.
fn limit(most: u64, set: impl FnOnce(&libc::rlimit) -> i32) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    assert_eq!(set(&limit), 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn no_locked_memory_and_a_tiny_stack_are_enough() {
    in_own_process(|| {
        // SAFETY: each reads plain data.
        limit(0, |limit| unsafe {
            libc::setrlimit(libc::RLIMIT_MEMLOCK, limit)
        });
        // SAFETY: as above.
        limit(64 * 1024, |limit| unsafe {
            libc::setrlimit(libc::RLIMIT_STACK, limit)
        });
        let heard = Heard::warnings();
        let engine = Engine::builder().build().expect("an engine");
        let _deadline = Deadline::new("limits", &engine);
        use_everything(&engine);
        assert_eq!(heard.count(""), 0, "{:?}", heard.with(""));
    });
}

#[test]
fn without_proc_blocked_workers_are_found_by_their_clocks() {
    in_own_process(|| {
        // SAFETY: a namespace of this process's own, in which nothing is left at /proc.
        let hidden = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    c"none".as_ptr(),
                    c"/".as_ptr(),
                    std::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    std::ptr::null(),
                ) == 0
                && libc::mount(
                    c"none".as_ptr(),
                    c"/proc".as_ptr(),
                    c"tmpfs".as_ptr(),
                    0,
                    std::ptr::null(),
                ) == 0
        };
        if !hidden {
            eprintln!("skipped, because this user may not mount");
            return;
        }
        let heard = Heard::warnings();
        let engine = Engine::builder().build().expect("an engine");
        let _deadline = Deadline::new("no /proc", &engine);
        // Emulators answer for some files there themselves.
        assert!(std::fs::read_dir("/proc/self/task").is_err());
        use_everything(&engine);
        assert!(engine.stats().blocked_seen > 0);
        assert_eq!(heard.count(""), 0, "{:?}", heard.with(""));
    });
}

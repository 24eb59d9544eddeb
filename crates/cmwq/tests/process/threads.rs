//! The threads: when there are any, what they are called, how nice they are, what signals they get,
//! and what becomes of them when the process ends.

use crate::harness::{
    Deadline, Door, engine, eventually, held, in_own_process, own_name, own_process, threads_named,
};
use cmwq::topology::Topology;
use cmwq::{DelayedWork, Engine, WorkerThreads, Workqueue};
use std::time::Duration;

fn threads() -> usize {
    threads_named("").len()
}

#[test]
fn there_is_no_thread_before_the_first_queue_and_no_worker_before_the_first_item() {
    in_own_process(|| {
        let before = threads();
        let engine = Engine::builder().build().unwrap();
        let global = Engine::global().unwrap();
        assert_eq!(threads(), before, "engines are only memory");
        let queues = [
            engine.workqueue("a").workers_only().build().unwrap(),
            engine.workqueue("b").per_cpu().build().unwrap(),
            engine.workqueue("c").bh().build().unwrap(),
            engine.workqueue("d").ordered().build().unwrap(),
            engine.workqueue("e").mem_reclaim().build().unwrap(),
        ];
        // The service thread, the creator, the reporter; and the rescuer.
        assert_eq!(threads(), before + 4);
        eventually(|| threads_named("kworker/").len() == 1);
        assert_eq!(engine.stats().workers, 0);
        for wq in &queues {
            wq.flush().unwrap();
            wq.drain().unwrap();
        }
        assert_eq!(
            threads(),
            before + 4,
            "nothing to wait for, nobody to do it"
        );
        assert_eq!(queues[0].spawn(|| 1).join().unwrap(), 1);
        assert!(engine.stats().workers >= 1);
        drop((queues, engine, global));
        eventually(|| threads() == before);
    });
}

#[test]
fn threads_are_named_as_the_kernel_names_its_workers() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("names", &engine);
        let name_of = |wq: &Workqueue| wq.spawn_on(1, own_name).unwrap().join().unwrap();
        let queue = |name| engine.workqueue(name).workers_only();
        let numbered = |name: &str, prefix: &str, suffix: &str| {
            let id = name
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_suffix(suffix));
            assert!(
                id.is_some_and(|id| id.parse::<u32>().is_ok()),
                "{name} is not {prefix}ID{suffix}"
            );
        };
        let per_cpu = queue("p").per_cpu().build().unwrap();
        numbered(&name_of(&per_cpu), "kworker/1:", "");
        let high = queue("h").per_cpu().highpri().build().unwrap();
        numbered(&name_of(&high), "kworker/1:", "H");
        let bh = queue("b").bh().build().unwrap();
        numbered(&name_of(&bh), "kworker/b1:", "H");
        let unbound = queue("u").build().unwrap();
        let name = name_of(&unbound);
        let (pool, id) = name.split_once(':').expect("pool and worker");
        numbered(pool, "kworker/u", "");
        numbered(id, "", "");
        let _reclaim = queue("filesystem").mem_reclaim().build().unwrap();
        eventually(|| {
            threads_named("")
                .iter()
                .any(|(_, name)| name == "kworker/R-files")
        });
        // A new thread has its creator's name for a moment.
        for name in ["cmwq-service", "cmwq-creator", "cmwq-reporter"] {
            eventually(|| threads_named(name).len() == 1);
        }
        let delayed = DelayedWork::new(|| ());
        assert!(
            unbound
                .queue_delayed(&delayed, Duration::from_secs(3600))
                .is_accepted()
        );
        eventually(|| threads_named("cmwq-timer").len() == 1);
        delayed.cancel();
    });
}

/// The signals that a thread has blocked, as the bits of /proc.
fn blocked_signals(tid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("SigBlk:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[test]
fn threads_that_block_signals_leave_them_to_the_program() {
    in_own_process(|| {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("l3:1 core:2 pu:1").unwrap())
            .worker_threads(WorkerThreads::new().block_signals(true))
            .build()
            .unwrap();
        let _deadline = Deadline::new("signals", &engine);
        let wq = engine.workqueue("t").mem_reclaim().build().unwrap();
        let delayed = DelayedWork::new(|| ());
        assert!(
            wq.queue_delayed(&delayed, Duration::from_secs(3600))
                .is_accepted()
        );
        let door = Door::new();
        let _held = held(&wq, 0, 5, &door);
        door.wait_for(5);
        let own = || -> Vec<(i32, String)> {
            let named = ["kworker/", "cmwq-"].map(threads_named);
            named.into_iter().flatten().collect()
        };
        // Five workers, the rescuer, service, creator, reporter and timer; a spare may be on its way.
        eventually(|| own().len() >= 10);
        let own = own();
        for (tid, name) in own {
            let Some(blocked) = blocked_signals(tid) else {
                continue;
            };
            for signal in [
                libc::SIGHUP,
                libc::SIGINT,
                libc::SIGTERM,
                libc::SIGCHLD,
                libc::SIGALRM,
                libc::SIGUSR1,
                libc::SIGRTMIN(),
                libc::SIGRTMAX(),
            ] {
                assert!(blocked >> (signal - 1) & 1 == 1, "{name}: signal {signal}");
            }
        }
        // SAFETY: asks for this thread's own id, which takes no arguments.
        let me = unsafe { libc::gettid() };
        let of_caller = blocked_signals(me).unwrap();
        assert_eq!(of_caller >> (libc::SIGTERM - 1) & 1, 0, "the caller's stay");
        door.open.complete();
        delayed.cancel();
    });
}

#[test]
fn a_queue_says_how_nice_its_workers_really_are() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("nice", &engine);
    let process = rustix::process::getpriority_process(None).unwrap();
    // SAFETY: takes no arguments, cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let nice_of = |wq: &Workqueue| {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        wq.spawn(nice).join().unwrap()
    };
    for nice in [-20, 0, process, 7.max(process), 19] {
        let wq = engine.workqueue("t").nice(nice).workers_only();
        let wq = wq.build().unwrap();
        let real = nice_of(&wq);
        assert_eq!(wq.effective_nice(), Some(real));
        // Lowering the priority is always allowed; raising it may not be; 0 stands for the process's own.
        if nice != 0 && (nice >= process || root) {
            assert_eq!(real, nice);
        }
    }
    for builder in [
        engine.workqueue("h").highpri(),
        engine.workqueue("p").per_cpu().highpri(),
        engine.workqueue("b").bh().highpri(),
    ] {
        let wq = builder.build().unwrap();
        assert_eq!(wq.effective_nice(), None, "no worker has begun");
        let real = nice_of(&wq);
        assert_eq!(wq.effective_nice(), Some(real));
        assert!(real == -20 || real == process, "{real}");
    }
}

/// Any thread of the program may be the first that makes a queue or arms a timer.
#[test]
fn the_librarys_threads_are_as_nice_as_the_process_whichever_thread_starts_them() {
    use rustix::process::{Pid, getpriority_process, setpriority_process};
    in_own_process(|| {
        let process = getpriority_process(None).unwrap();
        let nicer = (process + 5).min(19);
        let on_a_nicer_thread = std::thread::spawn(move || {
            setpriority_process(None, nicer).unwrap();
            if setpriority_process(None, process).is_err() {
                return None;
            }
            setpriority_process(None, nicer).unwrap();
            let engine = engine("l3:1 core:2 pu:1");
            let wq = engine.workqueue("t").workers_only().build().unwrap();
            let delayed = DelayedWork::new(|| ());
            assert!(
                wq.queue_delayed(&delayed, Duration::from_secs(600))
                    .is_accepted()
            );
            Some((engine, wq, delayed))
        });
        let Some((engine, wq, delayed)) = on_a_nicer_thread.join().unwrap() else {
            println!("skipped, because nice levels cannot be raised");
            return;
        };
        let _deadline = Deadline::new("nice as the process", &engine);
        let nice_of = |tid| getpriority_process(Pid::from_raw(tid)).ok();
        let nice = || getpriority_process(None).unwrap();
        assert_eq!(wq.spawn(nice).join().unwrap(), process);
        // Each names itself, some time after it was started.
        eventually(|| {
            let all = threads_named("cmwq-");
            all.len() >= 4 && all.iter().all(|&(tid, _)| nice_of(tid) == Some(process))
        });
        delayed.cancel();
    });
}

/// The scheduling policy of a thread; 0 is the calling one.
fn policy_of(tid: i32) -> i64 {
    // SAFETY: it only returns a number.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) }
}

/// Whether the system permits it.
fn set_policy(tid: i32, policy: i32, priority: i32) -> bool {
    // SAFETY: the priority is only read.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            tid,
            policy,
            &raw const priority,
        ) == 0
    }
}

/// A thread of this policy makes the first queue, if it may have it: then the library's threads
/// have the policy `wanted`. Returns whether it may.
fn threads_have(wanted: i64, policy: i32, priority: i32) -> bool {
    let on_its_thread = std::thread::spawn(move || {
        if !set_policy(0, policy, priority) {
            println!("left out, because policy {policy} is not permitted");
            return None;
        }
        let engine = engine("l3:1 core:2 pu:1");
        let deadline = Deadline::new("policies", &engine);
        let wq = engine.workqueue("t").workers_only().mem_reclaim();
        let wq = wq.build().unwrap();
        Some((engine, deadline, wq))
    });
    let Some((_engine, _deadline, wq)) = on_its_thread.join().unwrap() else {
        return false;
    };
    assert_eq!(wq.spawn(|| policy_of(0)).join().unwrap(), wanted);
    // A new thread takes its policy after its name.
    eventually(|| {
        let (service, rescuers) = (threads_named("cmwq-"), threads_named("kworker/R"));
        let mut all = service.iter().chain(&rescuers);
        let are_there = service.len() >= 3 && !rescuers.is_empty();
        are_there && all.all(|&(tid, _)| policy_of(tid) == wanted)
    });
    true
}

#[test]
fn the_librarys_threads_have_the_policy_of_the_process_but_no_real_time_one() {
    in_own_process(|| {
        const OTHER: i64 = libc::SCHED_OTHER as i64;
        const BATCH: i64 = libc::SCHED_BATCH as i64;
        let process = std::process::id() as i32;
        for (policy, priority) in [
            (libc::SCHED_BATCH, 0),
            (libc::SCHED_FIFO, 1),
            (libc::SCHED_RR, 1),
        ] {
            threads_have(OTHER, policy, priority);
        }
        if set_policy(process, libc::SCHED_FIFO, 1) {
            assert!(threads_have(OTHER, libc::SCHED_FIFO, 1));
        }
        assert!(set_policy(process, libc::SCHED_BATCH, 0));
        assert!(threads_have(BATCH, libc::SCHED_OTHER, 0));
    });
}

#[test]
fn a_process_ends_with_its_own_status_whatever_is_queued() {
    let main = || {
        let engine = Engine::builder().build().unwrap();
        let door = Door::new();
        for builder in [
            engine.workqueue("u"),
            engine.workqueue("p").per_cpu().max_active(2),
            engine.workqueue("b").bh(),
            engine.workqueue("o").ordered(),
            engine.workqueue("r").mem_reclaim(),
        ] {
            let wq = builder.build().unwrap();
            // Running for ever, waiting for ever, and on a timer.
            std::mem::forget(held(&wq, 0, 20, &door));
            for _ in 0..100 {
                drop(wq.spawn(|| {
                    loop {
                        std::hint::spin_loop();
                    }
                }));
            }
            let late = DelayedWork::new(|| ());
            let _ = wq.queue_delayed(&late, Duration::from_millis(1));
            std::mem::forget((wq, late));
        }
        door.wait_for(5);
        std::process::exit(42);
    };
    let output = own_process(&main);
    match output {
        None => main(),
        Some(output) => assert_eq!(
            output.status.code(),
            Some(42),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

//! Items run with the signal mask of the thread that built the engine, and what they start inherits it.

use crate::harness::{Deadline, eventually, in_own_process, threads_named};
use cmwq::raw::reset_signal_mask;
use cmwq::{DelayedWork, Engine, WorkerThreads, Workqueue, WorkqueueBuilder};
use libc::{SIGPIPE, SIGSEGV, SIGTERM, SIGUSR1, SIGUSR2};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// Changes which of `signals` the calling thread blocks.
fn change(how: i32, signals: &[i32]) {
    // SAFETY: the set is initialised before it is used; the call changes the calling thread, which
    // is the test's own.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        assert_eq!(libc::pthread_sigmask(how, &set, ptr::null_mut()), 0);
    }
}

/// Which of these signals the calling thread blocks.
fn blocked_of(signals: &[i32]) -> Vec<i32> {
    // SAFETY: without a new set the call only fills in the old one.
    unsafe {
        let mut set = std::mem::zeroed();
        assert_eq!(libc::pthread_sigmask(0, ptr::null(), &mut set), 0);
        let blocked = signals.iter().copied();
        blocked
            .filter(|&signal| libc::sigismember(&set, signal) == 1)
            .collect()
    }
}

const ASKED: [i32; 4] = [SIGSEGV, SIGTERM, SIGUSR1, SIGUSR2];

fn kinds(engine: &Engine) -> Vec<WorkqueueBuilder> {
    vec![
        engine.workqueue("unbound"),
        engine.workqueue("percpu").per_cpu(),
        engine.workqueue("highpri").highpri(),
        engine.workqueue("bh").bh(),
        engine.workqueue("ordered").ordered(),
        engine.workqueue("rescued").mem_reclaim(),
    ]
}

#[test]
fn items_have_the_mask_that_the_builder_had_and_the_librarys_threads_block_all() {
    in_own_process(|| {
        change(libc::SIG_BLOCK, &[SIGSEGV, SIGUSR1]);
        let engine = Engine::builder().build().unwrap();
        change(libc::SIG_UNBLOCK, &[SIGUSR1]);
        change(libc::SIG_BLOCK, &[SIGUSR2]);
        let _deadline = Deadline::new("masks of items", &engine);
        let queues: Vec<Workqueue> = kinds(&engine)
            .into_iter()
            .map(|builder| builder.workers_only().build().unwrap())
            .collect();
        for wq in &queues {
            let blocked = wq.spawn(|| blocked_of(&ASKED)).join().unwrap();
            assert_eq!(blocked, [SIGUSR1], "{}", wq.name());
        }
        let wq = engine.workqueue("timed").build().unwrap();
        let delayed = DelayedWork::new(|| ());
        let armed = wq.queue_delayed(&delayed, Duration::from_secs(3600));
        assert!(armed.is_accepted());
        // Rescuers, and the threads that run no items.
        for (name, expected) in [
            ("kworker/R-", "0000000000000200"),
            ("cmwq-service", "all"),
            ("cmwq-creator", "all"),
            ("cmwq-reporter", "all"),
            ("cmwq-timer", "all"),
        ] {
            eventually(|| {
                let masks: Vec<_> = threads_named(name)
                    .iter()
                    .map(|(tid, _)| mask(*tid))
                    .collect();
                // A mask without the signal to end and the two of the users.
                let is_so = |mask: &Option<String>| match (mask, expected) {
                    (Some(mask), "all") => [SIGTERM, SIGUSR1, SIGUSR2].iter().all(|signal| {
                        let bits = u64::from_str_radix(mask, 16).expect("digits");
                        bits >> (signal - 1) & 1 == 1
                    }),
                    (Some(mask), expected) => mask == expected,
                    (None, _) => true,
                };
                !masks.is_empty() && masks.iter().all(is_so)
            });
        }
        delayed.cancel();
    });
}

/// The signals that a thread blocks, as `/proc` has them.
fn mask(tid: i32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    line.map(|line| line.trim().to_owned())
}

/// Of an engine that is built by an item the worker is the builder.
#[test]
fn threads_that_are_asked_to_block_signals_do() {
    in_own_process(|| {
        let blocked = WorkerThreads::new().block_signals(true);
        let engine = Engine::builder().build().unwrap();
        let _deadline = Deadline::new("threads that block signals", &engine);
        let blocks = engine.workqueue("blocks").worker_threads(blocked);
        let blocks = blocks.workers_only().build().unwrap();
        let seen = blocks.spawn(|| blocked_of(&ASKED)).join().unwrap();
        assert_eq!(seen, [SIGTERM, SIGUSR1, SIGUSR2]);
        let does_not = engine.workqueue("does not").workers_only().build().unwrap();
        let seen = does_not.spawn(|| blocked_of(&ASKED)).join().unwrap();
        assert_eq!(seen, []);
        let inner = blocks.spawn(|| {
            let engine = Engine::builder().build().unwrap();
            let wq = engine.workqueue("inner").workers_only().build().unwrap();
            wq.spawn(|| blocked_of(&ASKED)).join().unwrap()
        });
        assert_eq!(inner.join().unwrap(), [SIGTERM, SIGUSR1, SIGUSR2]);
    });
}

/// A queue of the global engine whose items run on workers, and the deadline of the test.
fn on_workers(test: &'static str, threads: WorkerThreads) -> (Workqueue, Deadline) {
    let engine = Engine::builder().worker_threads(threads).build().unwrap();
    let deadline = Deadline::new(test, &engine);
    let wq = engine.workqueue("t").workers_only().build().unwrap();
    (wq, deadline)
}

fn ends_itself() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -TERM $$; exit 5"]);
    command
}

#[test]
fn a_process_that_an_item_starts_can_be_ended() {
    let (wq, _deadline) = on_workers("a child is ended", WorkerThreads::new());
    let status = wq.spawn(|| ends_itself().status()).join().unwrap();
    let status = status.expect("a shell");
    assert_eq!(status.signal(), Some(SIGTERM), "{status}");
}

#[test]
fn a_process_that_resets_its_mask_can_be_ended_where_items_block_signals() {
    let threads = WorkerThreads::new().block_signals(true);
    let (wq, _deadline) = on_workers("a child resets its mask", threads);
    let statuses = wq.spawn(|| {
        let inherits = ends_itself().status().expect("a shell");
        let mut command = ends_itself();
        // SAFETY: it may be called between fork and exec.
        unsafe { command.pre_exec(reset_signal_mask) };
        [inherits, command.status().expect("a shell")]
    });
    let ends = statuses
        .join()
        .unwrap()
        .map(|status| (status.signal(), status.code()));
    assert_eq!(ends, [(None, Some(5)), (Some(SIGTERM), None)]);
}

#[test]
fn a_pipeline_that_an_item_starts_ends_by_the_signal_for_pipes() {
    let (wq, _deadline) = on_workers("a pipeline", WorkerThreads::new());
    let status = wq.spawn(|| -> std::io::Result<ExitStatus> {
        let mut writer = Command::new("yes").stdout(Stdio::piped()).spawn()?;
        let mut reader = writer.stdout.take().expect("piped");
        reader.read_exact(&mut [0])?;
        drop(reader);
        writer.wait()
    });
    let status = status.join().unwrap().expect("yes");
    assert_eq!(status.signal(), Some(SIGPIPE), "{status}");
}

static TAKEN_BY: AtomicI32 = AtomicI32::new(0);

extern "C" fn note_thread(_: i32) {
    // SAFETY: asks for the thread's own id.
    TAKEN_BY.store(unsafe { libc::gettid() }, Ordering::SeqCst);
}

/// A signal to the process may be taken by a worker; an item that sleeps in the system is
/// interrupted if the handler was installed so.
#[test]
fn a_handler_may_run_on_a_worker_and_interrupts_the_call_of_its_item() {
    in_own_process(|| {
        // SAFETY: the handler stores an integer and makes one system call. No flags: calls are not restarted.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note_thread as extern "C" fn(i32) as usize;
            assert_eq!(libc::sigaction(SIGUSR1, &action, ptr::null_mut()), 0);
        }
        let (wq, _deadline) = on_workers("a handler on a worker", WorkerThreads::new());
        let item = wq.spawn(|| {
            let mut ends = [0; 2];
            // SAFETY: the array has room for both ends, and the buffer for the byte that never comes.
            unsafe {
                assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
                let sender = libc::gettid();
                let pid = libc::getpid();
                let child = libc::fork();
                if child == 0 {
                    // Until the parent sleeps and was interrupted.
                    loop {
                        libc::syscall(libc::SYS_tgkill, pid, sender, SIGUSR1);
                        libc::usleep(1000);
                    }
                }
                let read = libc::read(ends[0], [0_u8].as_mut_ptr().cast(), 1);
                let error = std::io::Error::last_os_error();
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, ptr::null_mut(), 0);
                (sender, read, error.kind())
            }
        });
        let (worker, read, kind) = item.join().unwrap();
        assert_eq!((read, kind), (-1, std::io::ErrorKind::Interrupted));
        assert_eq!(TAKEN_BY.load(Ordering::SeqCst), worker);
    });
}

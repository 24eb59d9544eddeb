//! A child of fork has the queues of its parent but not their workers: calls return an error, and never hang.

mod harness;

use cmwq::observe::{EnqueueTiming, Recording};
use cmwq::raw::SystemWorkqueue;
use cmwq::types::{FlushError, Moved, NotPosted, NotSubmitted, Queued};
use cmwq::{
    CompletionQueue, DelayedWork, Engine, Error, JoinError, JoinSet, Refused, Work, Workqueue,
};
use harness::{Deadline, in_own_process, quiet_panic};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Runs `child` in a forked process; its answer is the exit status. A child that hangs is killed by
/// its alarm. What the child would have used up is given back to the parent.
fn in_child<F: FnOnce() -> Result<(), String>>(child: F) -> (Result<(), String>, Option<F>) {
    // SAFETY: the child calls nothing that needs threads of the parent: that is what is tested; and
    // it leaves by _exit.
    match unsafe { libc::fork() } {
        -1 => (Err("fork failed".into()), Some(child)),
        0 => {
            // SAFETY: sets a timer whose signal ends the process.
            unsafe { libc::alarm(100) };
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            let status = match answer {
                Ok(Ok(())) => 0,
                Ok(Err(text)) => {
                    eprintln!("in the child: {text}");
                    1
                }
                Err(_) => 2,
            };
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(status) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: waits for our own child; `status` is valid for writes.
            unsafe { libc::waitpid(pid, &mut status, 0) };
            let result = match status {
                0 => Ok(()),
                _ => Err(format!("the child ended with wait status {status:#x}")),
            };
            (result, Some(child))
        }
    }
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        quiet_panic();
    }
}

fn expect(what: &str, is: bool) -> Result<(), String> {
    if is {
        Ok(())
    } else {
        Err(format!("not so: {what}"))
    }
}

#[test]
fn the_child_of_a_fork_is_refused_and_can_build_its_own() {
    let engine = Engine::builder().build().unwrap();
    let _deadline = Deadline::new("the child of a fork", &engine);
    let wq = engine.workqueue("parent").build().unwrap();
    let global = Workqueue::builder("global").build().unwrap();
    let (stop, work, delayed) = (
        Arc::new(AtomicBool::new(false)),
        Work::new(|| {}),
        DelayedWork::new(|| {}),
    );
    assert_eq!(global.spawn(|| 1).join().unwrap(), 1);
    let system = SystemWorkqueue::Dfl.get().unwrap();
    assert_eq!(system.spawn(|| 1).join().unwrap(), 1);
    assert!(
        wq.queue_delayed(&DelayedWork::new(|| {}), Duration::from_secs(3600))
            .is_accepted(),
        "the timer thread runs"
    );
    let ran = Work::new(|| {});
    assert!(wq.queue(&ran).is_accepted());
    ran.flush().unwrap();
    // Busy while forking: a worker runs, and this thread's item is in flight.
    let running = wq.spawn({
        let stop = stop.clone();
        move || while !stop.load(Ordering::Relaxed) {}
    });
    let pending = wq.spawn(|| 2);
    // This thread has a chunk that it adds to.
    for _ in 0..100 {
        wq.execute(|| {}).unwrap();
    }
    // Behind an item that does not end: pending at the fork.
    let ordered = engine.workqueue("ordered").ordered().build().unwrap();
    let holds = ordered.spawn({
        let stop = stop.clone();
        move || while !stop.load(Ordering::Relaxed) {}
    });
    let (behind, armed) = (Work::new(|| {}), DelayedWork::new(|| {}));
    assert!(ordered.queue(&behind).is_accepted());
    assert!(
        ordered
            .queue_delayed(&armed, Duration::from_secs(3600))
            .is_accepted()
    );
    let (result, unused) = in_child(|| {
        expect(
            "queue is refused",
            wq.queue(&work) == Queued::Refused(Refused::Forked),
        )?;
        expect("a refused item is idle", !work.is_pending())?;
        expect(
            "execute is refused",
            (0..100).all(|_| wq.execute(|| {}) == Err(Refused::Forked)),
        )?;
        expect(
            "delayed work is refused",
            wq.queue_delayed(&delayed, Duration::from_millis(1))
                == Queued::Refused(Refused::Forked),
        )?;
        expect(
            "spawn is refused",
            matches!(
                wq.spawn(|| 3).join(),
                Err(JoinError::Refused(Refused::Forked))
            ),
        )?;
        expect("flush says so", wq.flush() == Err(FlushError::Forked))?;
        expect("drain says so", wq.drain() == Err(FlushError::Forked))?;
        expect(
            "attributes say so",
            matches!(wq.apply_attrs(wq.attrs()), Err(Error::Forked)),
        )?;
        expect(
            "max_active says so",
            matches!(wq.set_max_active(3), Err(Error::Forked)),
        )?;
        expect(
            "join says so",
            matches!(running.join(), Err(JoinError::Refused(Refused::Forked))),
        )?;
        expect(
            "building on it says so",
            matches!(engine.workqueue("late").build(), Err(Error::Forked)),
        )?;
        expect(
            "its parameters say so",
            matches!(
                engine.set_unbound_cpumask(engine.topology().cpus()),
                Err(Error::Forked)
            ),
        )?;
        expect(
            "a system queue is a new one",
            SystemWorkqueue::Dfl
                .get()
                .is_ok_and(|system| system.spawn(|| 5).join().ok() == Some(5)),
        )?;
        // The item stays the parent's: no call waits for it, or waits to remove it.
        expect("nothing is removed", !behind.cancel_sync())?;
        expect(
            "nothing is waited for",
            behind.flush() == Err(FlushError::Forked),
        )?;
        expect("it does not run here", !behind.busy().running)?;
        expect(
            "moving says so",
            matches!(
                ordered.mod_delayed(&armed, Duration::from_millis(1)),
                Moved::Refused {
                    why: Refused::Forked,
                    was_pending: false
                }
            ),
        )?;
        expect("its timer is stopped here", armed.cancel_sync())?;
        expect("what has run may be waited for", ran.flush() == Ok(false))?;
        // These calls do nothing and touch no lock.
        engine.freeze_workqueues_begin();
        expect("nothing is busy", !engine.freeze_workqueues_busy())?;
        expect("nothing is counted", engine.stats().workers == 0)?;
        expect("nothing is counted", wq.counts() == (0, 0))?;
        drop(engine.dump());
        drop((wq, global, engine));
        let own = Workqueue::builder("child")
            .build()
            .map_err(|error| error.to_string())?;
        expect(
            "its own queue works",
            own.spawn(|| 4).join().ok() == Some(4),
        )?;
        expect(
            "it takes what the parent has run",
            own.queue(&ran).is_accepted(),
        )?;
        expect("and whose timer was stopped", {
            let _ = own.mod_delayed(&armed, Duration::ZERO);
            armed.flush().unwrap();
            !armed.is_pending()
        })?;
        let late = Arc::new(cmwq::Completion::new());
        let timed = DelayedWork::new({
            let late = late.clone();
            move || late.complete()
        });
        expect(
            "a timer is armed",
            own.queue_delayed(&timed, Duration::from_millis(1))
                .is_accepted(),
        )?;
        late.wait();
        own.flush().map_err(|error| error.to_string())
    });
    stop.store(true, Ordering::Relaxed);
    drop(unused);
    assert_eq!(pending.join().ok(), Some(2), "the parent goes on");
    holds.join().unwrap();
    assert!(armed.cancel(), "the parent's timer is as it was");
    result.unwrap();
}

#[test]
fn a_childs_completion_queue_is_closed_and_leaves_the_parents_alone() {
    let engine = Engine::builder().build().unwrap();
    let _deadline = Deadline::new("a completion queue at a fork", &engine);
    let wq = engine.workqueue("parent").build().unwrap();
    let done = CompletionQueue::<u32>::builder().eventfd().build().unwrap();
    let other = done.clone();
    assert!(done.arm());
    done.poster().post(1, 10).unwrap();
    let (result, unused) = in_child(move || {
        let done = other;
        let mut entries = Vec::new();
        let refused = Err(NotSubmitted::Refused(Refused::Forked));
        expect("no item", done.submit(&wq, 2, || 20) == refused)?;
        let own = Workqueue::builder("child").build();
        let own = own.map_err(|error| error.to_string())?;
        expect("not from its own", done.submit(&own, 2, || 20) == refused)?;
        let panics = PanicsInDrop;
        let submitted = done.submit(&own, 2, move || {
            let _kept = &panics;
            20
        });
        expect("whatever dropping it does", submitted == refused)?;
        let posted = done.poster().post(3, 30);
        expect("no post", posted == Err(NotPosted::Closed(30)))?;
        expect("no entry", done.drain(9, &mut entries) == 0)?;
        expect("no wait", done.wait(9, &mut entries) == 0 && done.arm())?;
        drop(done);
        let done = CompletionQueue::<u32>::builder().eventfd().build();
        let done = done.map_err(|error| error.to_string())?;
        let submitted = done.submit(&own, 4, || 40).is_ok();
        expect("its own", submitted && done.wait(9, &mut entries) == 1)
    });
    let readable = |done: &CompletionQueue<u32>| {
        let fd = done.fd().unwrap();
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    };
    assert!(readable(&done), "the child has taken the parent's signal");
    assert_eq!(done.drain(9, &mut Vec::new()), 1);
    assert!(done.arm() && !readable(&done));
    drop(unused);
    result.unwrap();
}

/// In the child another thread may hold every lock for ever: futures of the parent are refused
/// there, and can be dropped.
#[test]
fn futures_of_the_parent_are_refused_in_the_child() {
    let engine = Engine::builder().build().unwrap();
    let _deadline = Deadline::new("futures in a fork's child", &engine);
    let builder = engine.workqueue("parent").max_active(1).max_waiting(1);
    let wq = builder.build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let own = stop.clone();
    let mut holds = wq.spawn(move || while !own.load(Ordering::Relaxed) {});
    while engine.pool_states().iter().all(|pool| pool.runs.is_empty()) {
        std::thread::yield_now();
    }
    wq.execute(|| {}).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let (mut flush, mut drain) = (wq.flush_async(), wq.drain_async());
    let mut room = wq.room();
    let mut set = JoinSet::new(&wq);
    assert!(Pin::new(&mut flush).poll(&mut context).is_pending());
    assert!(Pin::new(&mut room).poll(&mut context).is_pending());
    assert!(Pin::new(&mut drain).poll(&mut context).is_pending());
    let (result, unused) = in_child(|| {
        let mut context = Context::from_waker(Waker::noop());
        let forked = Poll::Ready(Err(FlushError::Forked));
        let polled = Pin::new(&mut flush).poll(&mut context);
        expect("an awaited flush says so", polled == forked)?;
        let polled = Pin::new(&mut drain).poll(&mut context);
        expect("an awaited drain says so", polled == forked)?;
        let polled = Pin::new(&mut room).poll(&mut context);
        let refused = matches!(polled, Poll::Ready(Err(Refused::Forked)));
        expect("a wait for room says so", refused)?;
        expect("there is no room", wq.try_room().is_err())?;
        let given_back = wq.try_spawn(|| 7).err();
        let given_back = given_back.map(|refused| (refused.why, (refused.func)()));
        expect(
            "a closure comes back",
            given_back == Some((Refused::Forked, 7)),
        )?;
        expect("a set says so", {
            set.spawn(|| 1);
            set.wait_next().is_none()
        })?;
        let polled = set.poll_join_next(&mut context);
        expect(
            "an awaited set says so",
            matches!(polled, Poll::Ready(None)),
        )?;
        let joined = holds.join_timeout(Duration::ZERO);
        let refused = matches!(joined, Some(Err(JoinError::Refused(Refused::Forked))));
        expect("a join that gives up says so", refused)?;
        let unfinished = wq.clone().shutdown().wait().expect_err("refused");
        expect("a shutdown says so", unfinished.why == FlushError::Forked)?;
        drop((flush, drain, room, set));
        Ok(())
    });
    stop.store(true, Ordering::Relaxed);
    drop(unused);
    result.unwrap();
    holds.join().unwrap();
}

#[test]
fn a_child_that_is_forked_while_others_are_observed_can_observe() {
    let _deadline = Deadline::long("forked while others are observed");
    let recording = Recording::begin(64).unwrap();
    let _timing = EnqueueTiming::begin();
    let wq = Arc::new(Workqueue::builder("observed").build().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let noise: Vec<_> = (0..3)
        .map(|_| {
            let (wq, stop) = (wq.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    wq.spawn(|| ()).join().unwrap();
                    drop(Engine::builder().build());
                }
            })
        })
        .collect();
    let mut failed = Ok(());
    for _ in 0..100 {
        let (result, _) = in_child(|| {
            drop(Engine::all());
            let _timing = EnqueueTiming::begin();
            let own = Workqueue::builder("child")
                .build()
                .map_err(|error| error.to_string())?;
            expect("it runs", own.spawn(|| 4).join().ok() == Some(4))?;
            drop(recording.take());
            let engine = Engine::global().map_err(|error| error.to_string())?;
            drop(engine.queue_states());
            Ok(())
        });
        failed = failed.and(result);
    }
    stop.store(true, Ordering::Relaxed);
    for thread in noise {
        thread.join().unwrap();
    }
    failed.unwrap();
}

#[test]
fn the_child_goes_under_its_own_thread_id() {
    in_own_process(|| {
        // SAFETY: asks for a number.
        let tid = || unsafe { libc::gettid() };
        let recording = Recording::begin(64).unwrap();
        let recorded = || -> Vec<i32> {
            let traces = recording.take().into_iter();
            traces.map(|trace| trace.tid).collect()
        };
        let wq = Workqueue::builder("parent").build().unwrap();
        wq.spawn(|| ()).join().unwrap();
        let parent = tid();
        assert!(recorded().contains(&parent));
        let (result, _) = in_child(|| {
            drop(recorded());
            let own = Workqueue::builder("child")
                .build()
                .map_err(|error| error.to_string())?;
            own.spawn(|| ()).join().map_err(|error| error.to_string())?;
            let all = recorded();
            expect("its own id is there", all.contains(&tid()))?;
            expect("its parent's is not", !all.contains(&parent))
        });
        result.unwrap();
    });
}

/// What a thread uses for the first time while another one forks is whole in the child. The handler
/// of this test is called after the library's, since it is registered before them.
#[test]
fn a_first_use_in_the_middle_of_a_fork_is_not_caught_half_way() {
    static USER: AtomicI32 = AtomicI32::new(0);
    static FORKS: AtomicBool = AtomicBool::new(false);
    extern "C" fn prepare() {
        let user = USER.load(Ordering::Acquire);
        if user == 0 || FORKS.swap(true, Ordering::AcqRel) {
            return;
        }
        // Until it waits for the end of the fork.
        let mut asleep = 0;
        while asleep < 1_000 {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{user}/stat"));
            let sleeps = stat.is_ok_and(|stat| {
                let after_name = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
                after_name.is_some_and(|rest| rest.starts_with('S'))
            });
            asleep = if sleeps { asleep + 1 } else { 0 };
            std::thread::yield_now();
        }
    }
    in_own_process(|| {
        // SAFETY: the handler may be called on any thread that forks.
        let registered = unsafe { libc::pthread_atfork(Some(prepare), None, None) };
        assert_eq!(registered, 0);
        let engine = Engine::builder().build().unwrap();
        let wq = engine.workqueue("noticed").build().unwrap();
        wq.spawn(|| ()).join().unwrap();
        let user = std::thread::spawn(|| {
            // SAFETY: asks for a number.
            USER.store(unsafe { libc::gettid() }, Ordering::Release);
            while !FORKS.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            SystemWorkqueue::Dfl
                .get()
                .unwrap()
                .spawn(|| 3)
                .join()
                .unwrap()
        });
        while USER.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let (result, _) = in_child(|| {
            let own = SystemWorkqueue::Dfl
                .get()
                .map_err(|error| error.to_string())?;
            expect("it runs", own.spawn(|| 4).join().ok() == Some(4))
        });
        result.unwrap();
        assert_eq!(user.join().unwrap(), 3);
    });
}

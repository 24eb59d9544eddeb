//! What a program may want of the threads that run items: hooks, names, stacks.

use crate::harness::{
    Deadline, Heard, engine, eventually, in_own_process, own_name, threads_named,
};
use cmwq::raw::current_is_rescuer;
use cmwq::topology::Topology;
use cmwq::types::EngineBuilder;
use cmwq::{Engine, Error, WorkerThreads, WorkqueueBuilder, blocking};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

thread_local! {
    /// Whether the start hook was called on this thread, and the exit hook was not.
    static HOOKED: Cell<bool> = const { Cell::new(false) };
}

fn engine_builder(synthetic: &str) -> EngineBuilder {
    Engine::builder().topology(Topology::from_synthetic(synthetic).unwrap())
}

/// A deadline of tests that outlive their engine.
fn deadline_of_another(test: &'static str) -> (Engine, Deadline) {
    let other = engine("l3:1 core:1 pu:1");
    let deadline = Deadline::new(test, &other);
    (other, deadline)
}

/// How often each hook was called.
#[derive(Default)]
struct Calls {
    started: AtomicUsize,
    exited: AtomicUsize,
}

impl Calls {
    fn all_have_ended(&self) -> bool {
        // In this order: a thread that begins meanwhile makes the numbers unequal.
        let exited = self.exited.load(Ordering::SeqCst);
        exited == self.started.load(Ordering::SeqCst)
    }
}

/// Threads that know whether they were hooked.
fn counting(calls: &Arc<Calls>) -> WorkerThreads {
    let (start, exit) = (calls.clone(), calls.clone());
    WorkerThreads::new()
        .on_start(move |_| {
            assert!(!HOOKED.replace(true), "once");
            start.started.fetch_add(1, Ordering::SeqCst);
        })
        .on_exit(move |_| {
            assert!(HOOKED.replace(false), "after the other");
            exit.exited.fetch_add(1, Ordering::SeqCst);
        })
}

fn kinds(engine: &Engine) -> Vec<WorkqueueBuilder> {
    vec![
        engine.workqueue("u"),
        engine.workqueue("s").affinity_strict(true),
        engine.workqueue("p").per_cpu(),
        engine.workqueue("h").per_cpu().highpri(),
        engine.workqueue("b").bh(),
        engine.workqueue("o").ordered(),
        engine.workqueue("r").mem_reclaim(),
    ]
}

#[test]
fn every_item_runs_on_a_thread_between_its_two_hooks() {
    let calls = Arc::new(Calls::default());
    let threads = counting(&calls);
    let engine = engine_builder("l3:2 core:2 pu:1")
        .worker_threads(threads)
        .build()
        .unwrap();
    let _deadline = deadline_of_another("hooks");
    for builder in kinds(&engine) {
        let wq = builder.build().unwrap();
        for round in 0..200 {
            // Spawned and joined at once: without hooks this thread would run them itself.
            let hooked = wq.spawn(|| HOOKED.get());
            assert!(hooked.join().unwrap(), "{} {round}", wq.name());
        }
        let many: Vec<_> = (0..100).map(|_| wq.spawn(|| HOOKED.get())).collect();
        for hooked in many {
            assert!(hooked.join().unwrap(), "{}", wq.name());
        }
    }
    assert!(calls.started.load(Ordering::SeqCst) > 0);
    assert!(!HOOKED.get());
    drop(engine);
    eventually(|| calls.all_have_ended());
}

#[test]
fn hooks_know_their_thread() {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let note = |hook: &'static str| {
        let seen = seen.clone();
        move |worker: &cmwq::types::WorkerThread<'_>| {
            let queue = worker.rescuer_of().map(str::to_owned);
            assert_eq!(queue.is_some(), worker.pool().is_none());
            if queue.is_some() {
                assert!(current_is_rescuer());
            }
            // Blocking is allowed, as on any thread.
            let name = blocking(|| worker.name().to_owned());
            seen.lock()
                .unwrap()
                .insert((hook, name, worker.cpu(), queue));
        }
    };
    let threads = WorkerThreads::new()
        .on_start(note("start"))
        .on_exit(note("exit"))
        .name("t-%p%h");
    let engine = engine_builder("l3:1 core:2 pu:1")
        .worker_threads(threads)
        .build()
        .unwrap();
    let _deadline = deadline_of_another("hooks know");
    let queue = |builder: WorkqueueBuilder| builder.build().unwrap();
    let per_cpu = queue(engine.workqueue("p").per_cpu());
    let bh = queue(engine.workqueue("b").bh());
    let reclaim = queue(engine.workqueue("disk").mem_reclaim());
    for wq in [&per_cpu, &bh] {
        wq.spawn_on(1, || ()).unwrap().join().unwrap();
    }
    let expected = |hook| {
        [
            (hook, "t-1".to_owned(), Some(1), None),
            (hook, "t-b1H".to_owned(), Some(1), None),
            (hook, "t-RH".to_owned(), None, Some("disk".to_owned())),
        ]
    };
    eventually(|| {
        expected("start")
            .iter()
            .all(|call| seen.lock().unwrap().contains(call))
    });
    drop((per_cpu, bh, reclaim, engine));
    eventually(|| {
        expected("exit")
            .iter()
            .all(|call| seen.lock().unwrap().contains(call))
    });
}

#[test]
fn a_hook_that_panics_is_warned_of_and_its_thread_works() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let threads = WorkerThreads::new()
            .on_start(|_| crate::harness::quiet_panic())
            .on_exit(|_| crate::harness::quiet_panic())
            .name("fragile");
        let engine = engine_builder("l3:1 core:1 pu:1")
            .worker_threads(threads)
            .build()
            .unwrap();
        let _deadline = deadline_of_another("panics");
        let wq = engine.workqueue("t").build().unwrap();
        assert_eq!(wq.spawn(|| 7).join().unwrap(), 7);
        eventually(|| heard.count("on_start of worker threads panicked") == 1);
        drop((wq, engine));
        eventually(|| heard.count("on_exit of worker threads panicked") == 1);
    });
}

#[test]
fn a_queue_may_have_threads_of_its_own_and_share_them() {
    let engine = engine_builder("l3:1 core:1 pu:1").build().unwrap();
    let _deadline = Deadline::new("own threads", &engine);
    let own = WorkerThreads::new().name("own-%i");
    let queue = |threads: Option<WorkerThreads>| {
        let builder = engine.workqueue("q").workers_only();
        match threads {
            Some(threads) => builder.worker_threads(threads).build().unwrap(),
            None => builder.build().unwrap(),
        }
    };
    let queues = [
        queue(None),
        queue(Some(own.clone())),
        queue(Some(own)),
        queue(Some(WorkerThreads::new().name("own-%i"))),
    ];
    let names = queues
        .each_ref()
        .map(|wq| wq.spawn(own_name).join().unwrap());
    assert!(names[0].starts_with("kworker/u"), "{names:?}");
    assert!(
        names[1..].iter().all(|name| name.starts_with("own-")),
        "{names:?}"
    );
    // One pool of the default threads, one of those that two share, one of equal ones that are others.
    assert_eq!(engine.stats().pools, 3);
}

fn set_own_name(name: &std::ffi::CStr) {
    // SAFETY: PR_SET_NAME reads a string that ends with 0.
    let result = unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    assert_eq!(result, 0);
}

#[test]
fn a_name_that_an_item_sets_is_put_back() {
    in_own_process(|| {
        let engine = engine_builder("l3:1 core:1 pu:1").build().unwrap();
        let _deadline = Deadline::new("names", &engine);
        // BH: one worker, which runs all of them.
        let threads = |each_item| {
            let name = if each_item { "each" } else { "asleep" };
            WorkerThreads::new().name(name).restore_names(each_item)
        };
        for each_item in [true, false] {
            let threads = threads(each_item);
            let wq = engine.workqueue("n").bh().worker_threads(threads);
            let wq = wq.build().unwrap();
            for _ in 0..100 {
                let sets = wq.spawn(|| set_own_name(c"borrowed"));
                let sees = wq.spawn(own_name);
                sets.join().unwrap();
                let name = sees.join().unwrap();
                if each_item {
                    assert_eq!(name, "each");
                }
            }
            eventually(|| threads_named("borrowed").is_empty());
            let own = if each_item { "each" } else { "asleep" };
            assert_eq!(threads_named(own).len(), 1);
        }
    });
}

/// The size of the calling thread's stack.
fn stack_size() -> usize {
    // SAFETY: the attributes are initialised by the first call, read by the second, and let go by the third.
    unsafe {
        let mut attrs: libc::pthread_attr_t = std::mem::zeroed();
        assert_eq!(
            libc::pthread_getattr_np(libc::pthread_self(), &mut attrs),
            0
        );
        let mut size = 0;
        assert_eq!(libc::pthread_attr_getstacksize(&attrs, &mut size), 0);
        libc::pthread_attr_destroy(&mut attrs);
        size
    }
}

#[test]
fn stacks_are_as_large_as_was_said() {
    const SIZE: usize = 24 << 20;
    let threads = WorkerThreads::new().stack_size(SIZE);
    let engine = engine_builder("l3:1 core:1 pu:1")
        .worker_threads(threads)
        .build()
        .unwrap();
    let _deadline = Deadline::new("stacks", &engine);
    let wq = engine.workqueue("t").per_cpu().build().unwrap();
    let size = wq.spawn(stack_size).join().unwrap();
    assert!((SIZE..SIZE + (1 << 20)).contains(&size), "{size}");
    // A thread that waits has another stack: it runs nothing itself.
    let unbound = engine.workqueue("u").build().unwrap();
    for _ in 0..100 {
        let size = unbound.spawn(stack_size).join().unwrap();
        assert!((SIZE..SIZE + (1 << 20)).contains(&size), "{size}");
    }
}

#[test]
fn a_stack_that_cannot_be_had_is_refused_when_the_queue_is_built() {
    let engine = engine_builder("l3:1 core:1 pu:1").build().unwrap();
    let _deadline = Deadline::new("no stack", &engine);
    // More than the address space; and more than what a rounding up of the size leaves a number for.
    for bytes in [usize::MAX, usize::MAX - 4096, 1 << 62, 1 << 50] {
        let threads = || WorkerThreads::new().stack_size(bytes);
        let errors = [
            threads().check().unwrap_err(),
            engine
                .workqueue("t")
                .worker_threads(threads())
                .build()
                .unwrap_err(),
            Engine::builder()
                .worker_threads(threads())
                .build()
                .unwrap_err(),
        ];
        for error in errors {
            let Error::StackSize { bytes: given, most } = error else {
                panic!("{error}");
            };
            assert_eq!(given, bytes);
            // What is said to be allowed can be had.
            assert!((1 << 20..1 << 50).contains(&most), "{most}");
            let text = error.to_string();
            assert!(
                text.contains(&bytes.to_string()) && text.contains(&most.to_string()),
                "{text}"
            );
        }
    }
    // A small one is rounded up to what the system asks for.
    for bytes in [0, 1, 1 << 20] {
        let threads = WorkerThreads::new().stack_size(bytes);
        let wq = engine
            .workqueue("t")
            .worker_threads(threads)
            .build()
            .unwrap();
        assert_eq!(wq.spawn(|| 6 * 7).join().unwrap(), 42);
    }
}

#[test]
fn a_wrong_format_is_refused() {
    let wrong = || WorkerThreads::new().name("worker %d");
    let refused = |error: Error| matches!(error, Error::ThreadName(name) if name == "worker %d");
    assert!(refused(
        Engine::builder()
            .worker_threads(wrong())
            .build()
            .unwrap_err()
    ));
    let engine = engine_builder("l3:1 core:1 pu:1").build().unwrap();
    let wq = engine.workqueue("t").worker_threads(wrong());
    assert!(refused(wq.build().unwrap_err()));
}

/// Uses the engine when it is dropped.
struct UsesEngine {
    engine: Engine,
    dropped: Arc<AtomicUsize>,
}

impl Drop for UsesEngine {
    fn drop(&mut self) {
        assert!(self.engine.stats().pools < 100);
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_hooks_have_captured_may_use_the_engine_when_it_is_dropped() {
    let engine = engine_builder("l3:1 core:2 pu:1").build().unwrap();
    let (_other, _deadline) = deadline_of_another("captured");
    let dropped = Arc::new(AtomicUsize::new(0));
    for round in 1..=5 {
        let uses = UsesEngine {
            engine: engine.clone(),
            dropped: dropped.clone(),
        };
        let threads = WorkerThreads::new().on_exit(move |_| {
            let _kept = &uses;
        });
        let hooked = engine.workqueue("hooked").worker_threads(threads);
        drop(hooked.build().unwrap());
        eventually(|| {
            drop(engine.workqueue("plain").build().unwrap());
            dropped.load(Ordering::SeqCst) == round
        });
    }
}

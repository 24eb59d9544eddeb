//! Case 28: pools that get on with nothing.
//!
//! The monitor soon finds an item that sleeps, and an item over the CPU-intensive threshold gets
//! company. So what holds a pool up here computes, without such a threshold; a BH pool is held up
//! by anything.

use super::*;
use cmwq::JoinHandle;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::os::unix::process::ExitStatusExt;
use std::sync::Condvar;

const THRESHOLD: Duration = Duration::from_millis(200);

/// A moment of the coarse clock, by which standstills begin. It is behind the other by a tick, and
/// by more where the host takes the CPU away.
struct Moment(Timespec);

impl Moment {
    fn now() -> Self {
        Moment(clock_gettime(ClockId::MonotonicCoarse))
    }

    /// At least as long as whatever began since.
    fn elapsed(&self) -> Duration {
        let passed = clock_gettime(ClockId::Monotonic) - self.0;
        passed.try_into().expect("it was before")
    }
}

/// On a busy machine a pool's first worker may take longer to come than a threshold: tests that
/// read the first report set it once all have begun.
fn watched(threshold: Duration) -> Engine {
    let engine = Engine::builder()
        .topology(Topology::from_synthetic("l3:1 core:2 pu:1").unwrap())
        .watchdog_threshold(threshold)
        .build()
        .unwrap();
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    engine
}

/// A per-CPU workqueue whose pool of that CPU runs an item that computes until the door opens.
fn stuck(engine: &Engine, cpu: usize) -> (Workqueue, Arc<Door>, JoinHandle<()>) {
    let wq = engine.workqueue("stuck").per_cpu().build().unwrap();
    let door = Door::new();
    let spinner = wq.spawn_on(cpu, {
        let door = door.clone();
        move || door.pass_awake()
    });
    door.wait_for(1);
    (wq, door, spinner.unwrap())
}

#[test]
fn case_28_a_per_cpu_pool_behind_an_item_that_computes_is_reported() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = watched(Duration::ZERO);
        let _deadline = Deadline::new("case 28", &engine);
        let (wq, door, spinner) = stuck(&engine, 1);
        engine.set_watchdog_threshold(THRESHOLD);
        let begun = Moment::now();
        let waiting = wq.spawn_on(1, || ()).unwrap();
        eventually(|| reports.count("lockup") >= 1);
        assert!(begun.elapsed() >= THRESHOLD, "not before the threshold");
        let report = reports.with("lockup").remove(0);
        let first = report.lines().next().unwrap();
        assert!(
            first.contains("cpus=1 ") && first.contains("per-CPU"),
            "{report}"
        );
        assert!(report.contains("workqueue stuck: percpu"), "{report}");
        assert!(report.contains("in-flight:"), "{report}");
        assert!(report.contains("pending:"), "{report}");
        assert!(
            report.contains("kworker/1:"),
            "what its threads do: {report}"
        );
        eventually(|| reports.count("lockup") >= 2);
        assert!(
            begun.elapsed() >= THRESHOLD * 3 / 2,
            "again after another one, which begins by the coarse clock as well"
        );
        door.open.complete();
        spinner.join().unwrap();
        waiting.join().unwrap();
        assert_eq!(reports.count("lockup"), reports.count("cpus=1 "));
    });
}

#[test]
fn case_28_a_bh_pool_behind_an_item_that_sleeps_is_reported() {
    in_own_process(|| {
        let (reports, _warnings) = (Heard::reports(), Heard::warnings());
        let engine = watched(Duration::ZERO);
        let _deadline = Deadline::new("case 28", &engine);
        let wq = engine.workqueue("stuck").bh().build().unwrap();
        let door = Door::new();
        let _held = held(&wq, 0, 1, &door);
        door.wait_for(1);
        engine.set_watchdog_threshold(THRESHOLD);
        let waiting = wq.spawn_on(0, || ()).unwrap();
        eventually(|| reports.count("lockup") >= 1);
        let report = reports.with("lockup").remove(0);
        let first = report.lines().next().unwrap();
        assert!(
            first.contains("cpus=0 ") && first.contains("BH"),
            "{report}"
        );
        assert!(report.contains("workqueue stuck: bh"), "{report}");
        door.open.complete();
        waiting.join().unwrap();
    });
}

#[test]
fn case_28_long_items_alone_and_pools_that_get_on_are_not_reported() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = watched(Duration::ZERO);
        let unwatched = watched(Duration::ZERO);
        let _deadline = Deadline::new("case 28", &engine);
        let door = Door::new();
        let awake = |wq: &Workqueue| {
            let door = door.clone();
            wq.spawn_on(1, move || door.pass_awake()).unwrap()
        };
        // Long, but with a CPU to spare; long, but with nothing behind it; stuck, but with the
        // watchdog off; frozen, with more items than may be active.
        let spare = engine.workqueue("spare").build().unwrap();
        let frozen = engine.workqueue("frozen").freezable().max_active(1);
        let frozen = frozen.cpumask(CpuSet::from_iter([0])).build().unwrap();
        let alone = engine.workqueue("alone").per_cpu().highpri();
        let alone = alone.build().unwrap();
        let unseen = unwatched.workqueue("unseen").per_cpu().build().unwrap();
        // And the one that will be reported: the test's clock.
        let stuck = engine.workqueue("stuck").per_cpu().build().unwrap();
        let mut handles: Vec<_> = [&spare, &frozen, &alone, &unseen, &stuck].map(awake).into();
        door.wait_for(5);
        // Not before: on a busy machine a pool's first worker may take longer to come.
        engine.freeze_workqueues_begin();
        engine.set_watchdog_threshold(THRESHOLD);
        handles.push(frozen.spawn_on(1, || ()).unwrap());
        handles.push(unseen.spawn_on(1, || ()).unwrap());
        handles.push(stuck.spawn_on(1, || ()).unwrap());
        eventually(|| {
            spare.spawn_on(1, || ()).unwrap().join().unwrap();
            reports.count("lockup") >= 2
        });
        for report in reports.with("lockup") {
            let lockups = report.lines().filter(|line| line.contains("lockup"));
            for line in lockups {
                assert!(
                    line.contains("cpus=1 ") && line.contains("nice=0"),
                    "{report}"
                );
            }
            assert!(!report.contains("unseen"), "{report}");
        }
        engine.thaw_workqueues();
        door.open.complete();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

#[test]
fn case_28_the_threshold_can_be_changed_while_a_pool_is_stuck() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = watched(Duration::ZERO);
        let _deadline = Deadline::new("case 28", &engine);
        let (wq, door, spinner) = stuck(&engine, 0);
        let waiting = wq.spawn_on(0, || ()).unwrap();
        let begun = Moment::now();
        engine.set_watchdog_threshold(THRESHOLD);
        assert_eq!(engine.watchdog_threshold(), THRESHOLD);
        eventually(|| reports.count("lockup") >= 1);
        assert!(begun.elapsed() >= THRESHOLD);
        engine.set_watchdog_threshold(Duration::ZERO);
        door.open.complete();
        spinner.join().unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn case_28_items_on_all_cpus_of_an_unbound_pool_hold_up_what_waits() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = watched(Duration::ZERO);
        let _deadline = Deadline::new("case 28", &engine);
        let full = engine.workqueue("full").cpumask(CpuSet::from_iter([0]));
        let full = full.build().unwrap();
        let door = Door::new();
        let spinner = full.spawn({
            let door = door.clone();
            move || door.pass_awake()
        });
        door.wait_for(1);
        engine.set_watchdog_threshold(THRESHOLD);
        let waiting = full.spawn(|| ());
        eventually(|| reports.count("lockup") >= 1);
        let report = reports.with("lockup").remove(0);
        let first = report.lines().next().unwrap();
        assert!(
            first.contains("unbound") && first.contains("1 items run, as many as may"),
            "{report}"
        );
        door.open.complete();
        spinner.join().unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn case_28_items_that_wait_for_max_active_are_reported_with_that_reason() {
    in_own_process(|| {
        let reports = Heard::reports();
        // They would not stop the process: the limit is the program's own.
        let engine = watched(Duration::ZERO);
        engine.set_panic_on_stall(1);
        engine.set_panic_on_stall_time(Duration::from_nanos(1));
        let _deadline = Deadline::new("case 28", &engine);
        let wq = engine.workqueue("limited").max_active(3).build().unwrap();
        // Three block, declared, a fourth waits for a credit: there are CPUs enough, and the
        // worklist is empty.
        let door = Door::new();
        let held = held(&wq, 0, 4, &door);
        door.wait_for(3);
        engine.set_watchdog_threshold(THRESHOLD);
        eventually(|| reports.count("lockup") >= 2);
        let report = reports.with("lockup").remove(0);
        let first = report.lines().next().unwrap();
        assert!(
            first
                .contains("max_active of workqueue limited admits 3 here, 3 are active and 1 wait"),
            "{report}"
        );
        assert!(report.contains("inactive:"), "{report}");
        assert_eq!(door.arrived(), 3);
        door.open.complete();
        wq.flush().unwrap();
        assert_eq!(door.arrived(), 4);
        drop(held);
    });
}

#[test]
fn case_28_an_ordered_queues_items_behind_a_change_wait_for_those_of_before_it() {
    in_own_process(|| {
        let reports = Heard::reports();
        let engine = watched(THRESHOLD);
        let _deadline = Deadline::new("case 28", &engine);
        let wq = engine.workqueue("o").ordered().build().unwrap();
        let door = Door::new();
        let held = held(&wq, 0, 1, &door);
        door.wait_for(1);
        let mut attrs = wq.attrs();
        attrs.nice = 1;
        wq.apply_attrs(attrs).unwrap();
        let behind = wq.spawn(|| ());
        eventually(|| reports.count("workqueue o is ordered") >= 1);
        door.open.complete();
        behind.join().unwrap();
        drop(held);
    });
}

/// A handler that returns only when the test lets it.
#[derive(Default)]
struct Blocks {
    called: AtomicUsize,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Blocks {
    fn block(&self) {
        self.called.fetch_add(1, Ordering::SeqCst);
        let closed = self
            .opened
            .wait_while(self.open.lock().unwrap(), |open| !*open);
        drop(closed.unwrap());
    }

    fn is_blocked(&self) -> bool {
        self.called.load(Ordering::SeqCst) == 1
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// What the service thread and the creator do goes on.
fn goes_on(engine: &Engine) {
    let wq = engine.workqueue("goes on").nice(1).workers_only();
    let wq = wq.build().unwrap();
    // More workers than there are: they must be created.
    let created = engine.stats().workers_created;
    let door = Door::new();
    let blocked = held(&wq, 0, 8, &door);
    door.wait_for(8);
    assert!(engine.stats().workers_created >= created + 8);
    door.open.complete();
    drop(blocked);
    wq.flush().unwrap();
    // Items that sleep undeclared, on more than the pod's CPUs: what is behind them starts only if
    // the monitor samples the pool.
    let (wakes, sleeps) = std::sync::mpsc::channel::<()>();
    let sleeps = Arc::new(Mutex::new(sleeps));
    let sleepers: Vec<_> = (0..3)
        .map(|_| {
            let sleeps = sleeps.clone();
            wq.spawn(move || sleeps.lock().unwrap().recv().is_err())
        })
        .collect();
    wq.spawn(|| ()).join().unwrap();
    drop(wakes);
    for sleeper in sleepers {
        assert!(sleeper.join().unwrap());
    }
}

#[test]
fn case_28_a_report_handler_that_blocks_holds_up_nothing() {
    in_own_process(|| {
        let blocks: Arc<Blocks> = Arc::default();
        cmwq::observe::set_report_handler({
            let blocks = blocks.clone();
            move |_| blocks.block()
        });
        let engine = watched(THRESHOLD);
        let deadline = Deadline::with_dump("case 28", String::new);
        let (wq, door, spinner) = stuck(&engine, 1);
        let waiting = wq.spawn_on(1, || ()).unwrap();
        eventually(|| blocks.is_blocked());
        goes_on(&engine);
        door.open.complete();
        spinner.join().unwrap();
        waiting.join().unwrap();
        // The engine goes without waiting for the handler.
        drop((wq, engine));
        eventually(|| threads_named("cmwq-service").is_empty());
        eventually(|| threads_named("cmwq-creator").is_empty());
        assert_eq!(threads_named("cmwq-reporter").len(), 1);
        blocks.open();
        eventually(|| threads_named("cmwq-").is_empty());
        drop(deadline);
    });
}

#[test]
fn case_28_a_warning_handler_that_blocks_holds_up_nothing_but_the_thread_that_is_warned() {
    in_own_process(|| {
        let blocks: Arc<Blocks> = Arc::default();
        let warned_on = Arc::new(Mutex::new(String::new()));
        cmwq::observe::set_warning_handler({
            let (blocks, warned_on) = (blocks.clone(), warned_on.clone());
            move |text| {
                if text.contains("used the CPU") {
                    blocks.block();
                } else {
                    *warned_on.lock().unwrap() = own_name();
                }
            }
        });
        let engine = watched(Duration::ZERO);
        let _deadline = Deadline::new("case 28", &engine);
        engine.set_cpu_intensive_threshold(Duration::from_millis(1));
        engine.set_cpu_intensive_warning_threshold(1);
        let (wq, door, hog) = stuck(&engine, 1);
        let waiting = wq.spawn_on(1, || ()).unwrap();
        waiting.join().unwrap();
        eventually(|| blocks.is_blocked());
        goes_on(&engine);
        // A warning about the caller's own mistake comes at once, on its thread.
        drop(engine.workqueue("w").max_active(1_000_000).build().unwrap());
        assert_eq!(*warned_on.lock().unwrap(), own_name());
        door.open.complete();
        hog.join().unwrap();
        blocks.open();
    });
}

/// Runs until the watchdog aborts the process, with a handler or without. Returns what came of the process.
fn aborted<F: FnOnce()>(test: &F) -> Option<std::process::Output> {
    let output = own_process(test)?;
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    Some(output)
}

/// A pool is stuck for ever.
fn stick(builder: cmwq::types::EngineBuilder) {
    // No file is to be left behind by the abort.
    let none = rustix::process::Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    rustix::process::setrlimit(rustix::process::Resource::Core, none).unwrap();
    let engine = builder.build().unwrap();
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    let _deadline = Deadline::new("case 28", &engine);
    let (wq, _door, _spinner) = stuck(&engine, 0);
    wq.spawn_on(0, || ()).unwrap().join().unwrap();
}

#[test]
fn case_28_panic_on_stall_aborts_at_the_report_of_that_number() {
    let test = || {
        stick(
            Engine::builder()
                .watchdog_threshold(THRESHOLD)
                .panic_on_stall(2),
        )
    };
    let Some(output) = aborted(&test) else {
        return test();
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("cmwq: workqueue lockup").count(), 2, "{said}");
    assert!(
        said.contains("the process is aborted: panic_on_stall is 2: this was report 2"),
        "{said}"
    );
}

#[test]
fn case_28_panic_on_stall_time_aborts_even_if_the_handler_blocks() {
    let test = || {
        let blocks: Arc<Blocks> = Arc::default();
        cmwq::observe::set_report_handler(move |text| {
            // Not `eprintln`, whose text is kept by the test harness.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            blocks.block();
        });
        let builder = Engine::builder().watchdog_threshold(THRESHOLD);
        stick(builder.panic_on_stall_time(Duration::from_nanos(1)));
    };
    let Some(output) = aborted(&test) else {
        return test();
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("panic_on_stall_time is"), "{said}");
}

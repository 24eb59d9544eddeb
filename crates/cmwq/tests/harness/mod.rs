//! What the tests of the running engine share: seeds that replay, a deadline that turns a hang into
//! a failure with a dump, and a list of broken promises, since an assertion inside a work function
//! is only one more panic to the engine.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part")]

pub(crate) mod broken;
mod deadline;
pub(crate) mod random;

pub(crate) use broken::{Broken, quiet_panic};
use cmwq::topology::Topology;
use cmwq::{Completion, Engine, Work, Workqueue, WorkqueueBuilder};
pub(crate) use deadline::Deadline;
pub(crate) use random::{Random, number, seed};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub(crate) fn engine(synthetic: &str) -> Engine {
    let topology = Topology::from_synthetic(synthetic).expect("a valid description");
    Engine::builder()
        .topology(topology)
        .build()
        .expect("an engine")
}

/// The same, and it takes no item for a CPU hog: as long as items compute on all its CPUs, however
/// long that takes, no worker takes another.
pub(crate) fn engine_without_hogs(synthetic: &str) -> Engine {
    let engine = engine(synthetic);
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    engine
}

/// Whether the library runs far slower than it was made to: what it does only if a thread is fast
/// enough cannot be expected then. `CMWQ_TEST_SLOW=1`, set by `scripts/race-detector`.
pub(crate) fn is_slow() -> bool {
    number("CMWQ_TEST_SLOW", 0) != 0
}

impl Deadline {
    pub(crate) fn new(test: &'static str, engine: &Engine) -> Self {
        let engine = engine.clone();
        Self::with_dump(test, move || {
            format!("{:?}\n{}", engine.stats(), engine.dump())
        })
    }
}

/// Polls until it is so; the test's [`Deadline`] ends it if it never is.
pub(crate) fn eventually(mut so: impl FnMut() -> bool) {
    while !so() {
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

/// Runs a future on the calling thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Work functions wait here until the test lets them go.
#[derive(Default)]
pub(crate) struct Door {
    pub(crate) arrived: AtomicUsize,
    pub(crate) open: Completion,
}

impl Door {
    pub(crate) fn new() -> Arc<Door> {
        Arc::default()
    }

    pub(crate) fn pass(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        self.open.wait();
    }

    /// Passes without going to sleep: to the engine the item computes.
    pub(crate) fn pass_awake(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        while !self.open.is_done() {
            std::thread::yield_now();
        }
    }

    pub(crate) fn arrived(&self) -> usize {
        self.arrived.load(Ordering::SeqCst)
    }

    pub(crate) fn wait_for(&self, arrived: usize) {
        eventually(|| self.arrived() >= arrived);
    }
}

/// An item that counts its runs.
pub(crate) fn counting(count: &Arc<AtomicUsize>) -> Work {
    let count = count.clone();
    Work::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    })
}

/// Items that stay active until the door opens, queued from `cpu`.
pub(crate) fn held(wq: &Workqueue, cpu: usize, count: usize, door: &Arc<Door>) -> Vec<Work> {
    (0..count)
        .map(|_| {
            let door = door.clone();
            let work = Work::new(move || door.pass());
            assert!(wq.queue_on(cpu, &work).unwrap().is_accepted());
            work
        })
        .collect()
}

/// All that may start has started: items of a queue of the same pools, queued behind it, have run.
pub(crate) fn settle_with(engine: &Engine, builder: WorkqueueBuilder) {
    let probe = builder.workers_only().build().unwrap();
    for _ in 0..3 {
        for cpu in engine.topology().cpus().iter() {
            drop(probe.spawn_on(cpu, || ()).unwrap().join());
        }
    }
}

/// All texts that a handler was called with.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    /// Of all warnings of the process.
    pub(crate) fn warnings() -> Self {
        let heard = Heard::default();
        let all = heard.0.clone();
        cmwq::observe::set_warning_handler(move |text| all.lock().unwrap().push(text.to_owned()));
        heard
    }

    /// Of all reports of the process.
    pub(crate) fn reports() -> Self {
        let heard = Heard::default();
        let all = heard.0.clone();
        cmwq::observe::set_report_handler(move |text| all.lock().unwrap().push(text.to_owned()));
        heard
    }

    pub(crate) fn with(&self, part: &str) -> Vec<String> {
        let all = self.0.lock().unwrap();
        all.iter()
            .filter(|text| text.contains(part))
            .cloned()
            .collect()
    }

    /// How many texts contain this.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.with(part).len()
    }
}

/// What a test prints when something that it needs is missing.
const SKIPPED: &str = "skipped, because ";

/// Runs a test in a process of its own, for what a process has once: its handlers, its limits, its
/// CPUs, warnings that come once. The process runs this very program with only the calling test.
pub(crate) fn in_own_process<F: FnOnce()>(test: F) {
    let output = own_process(&test);
    let Some(output) = output else {
        return test();
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    for line in said.lines().filter(|line| line.contains(SKIPPED)) {
        println!("{line}");
    }
    assert!(
        output.status.success() && said.contains("1 passed"),
        "in a process of its own: {}\n{said}",
        output.status
    );
}

/// Runs the calling test, whose body `_test` is, in a process of its own and returns its result;
/// `None`: this is that process.
pub(crate) fn own_process<F: FnOnce()>(_test: &F) -> Option<std::process::Output> {
    const OWN_PROCESS: &str = "CMWQ_TEST_OWN_PROCESS";
    let path = std::any::type_name::<F>();
    let (_, name) = path.split_once("::").expect("a path in this program");
    let name = name.trim_end_matches("::{{closure}}");
    if std::env::var(OWN_PROCESS).is_ok_and(|own| own == name) {
        return None;
    }
    // The process's own deadline comes first, if it has one.
    let _deadline = Deadline::long(name);
    let this = std::env::current_exe().expect("the path of this program");
    let output = std::process::Command::new(this)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(OWN_PROCESS, name)
        .output();
    Some(output.expect("a process"))
}

/// The threads of this process: id and name.
pub(crate) fn threads_named(part: &str) -> Vec<(i32, String)> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
    tasks
        .flatten()
        .filter_map(|task| {
            let tid = task.file_name().to_str()?.parse().ok()?;
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
            Some((tid, name.trim_end().to_owned()))
        })
        .filter(|(_, name)| name.contains(part))
        .collect()
}

/// Whether the thread sleeps.
pub(crate) fn is_asleep(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).expect("/proc");
    let (_, state) = stat.rsplit_once(") ").expect("the name is in brackets");
    state.starts_with('S')
}

/// The calling thread's name.
pub(crate) fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/thread-self/comm").expect("/proc");
    name.trim_end().to_owned()
}

/// Counts itself as long as it lives.
pub(crate) struct Alive(Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Binds the calling thread to those of these CPUs that it may use, if there are any.
pub(crate) fn bind_to(cpus: &[usize]) {
    let own = rustix::thread::sched_getaffinity(None).expect("its CPUs");
    let mut set = rustix::thread::CpuSet::new();
    let usable = cpus.iter().filter(|&&cpu| own.is_set(cpu));
    usable.for_each(|&cpu| set.set(cpu));
    // Of an empty set it is an error.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Holds as many CPUs of a pod until it is opened, or, unless it is of an engine without CPU hogs,
/// for some milliseconds.
pub(crate) fn hold(wq: &Workqueue, cpus: usize) -> Arc<Door> {
    let door = Door::new();
    for _ in 0..cpus {
        let door = door.clone();
        wq.execute(move || door.pass_awake()).unwrap();
    }
    while door.arrived() < cpus {
        std::thread::yield_now();
    }
    door
}

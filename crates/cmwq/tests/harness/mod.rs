//! What the tests of the running engine share: seeds that replay, a deadline that turns a hang into a failure with a dump,
//! and a list of broken promises, since an assertion inside a work function is only one more panic to the engine.
#![allow(dead_code, reason = "each test binary uses a part")]

use cmwq::topology::Topology;
use cmwq::{Completion, Engine, Work, Workqueue, WorkqueueBuilder};
use std::io::Write;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub(crate) fn engine(synthetic: &str) -> Engine {
    let topology = Topology::from_synthetic(synthetic).expect("a valid description");
    Engine::builder()
        .topology(topology)
        .build()
        .expect("an engine")
}

/// A number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable} is '{text}'; allowed: a whole number")),
        Err(_) => default,
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): a few lines, and any seed will do.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The seed of this run: `CMWQ_TEST_SEED`, or one made of the clock; printed, so that a failing run can be replayed (the
/// operations are then the same; their interleaving is the machine's).
pub(crate) fn seed(test: &str) -> u64 {
    let fresh = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64);
    let seed = number("CMWQ_TEST_SEED", Random::new(fresh).next() >> 16);
    eprintln!("{test}: CMWQ_TEST_SEED={seed}");
    seed
}

/// Aborts the process with a dump if it is not dropped in time. The time is no measurement: it only has to be far longer
/// than any machine needs. `CMWQ_TEST_DEADLINE` in seconds.
pub(crate) struct Deadline {
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Deadline {
    pub(crate) fn new(test: &'static str, engine: &Engine) -> Self {
        let engine = engine.clone();
        Self::with_dump(test, move || {
            format!("{:?}\n{}", engine.stats(), engine.dump())
        })
    }

    pub(crate) fn with_dump(
        test: &'static str,
        dump: impl FnOnce() -> String + Send + 'static,
    ) -> Self {
        Self::of_progress(test, Arc::default(), dump)
    }

    /// As the others, but the time begins anew whenever `progress` has changed: for tests of any length.
    pub(crate) fn of_progress(
        test: &'static str,
        progress: Arc<AtomicU64>,
        dump: impl FnOnce() -> String + Send + 'static,
    ) -> Self {
        let limit = Duration::from_secs(number("CMWQ_TEST_DEADLINE", 60));
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let watched = ended.clone();
        std::thread::spawn(move || {
            let mut ended = watched.0.lock().unwrap();
            let mut seen = None;
            while !*ended {
                let now = Some(progress.load(Ordering::Relaxed));
                if seen == now {
                    // Not `eprintln`: what a test prints is captured, and lost when the process is aborted.
                    let _ = write!(
                        std::io::stderr(),
                        "{test}: hangs, no progress for {} s\n{}{}\n",
                        limit.as_secs(),
                        threads(),
                        dump()
                    );
                    std::process::abort();
                }
                seen = now;
                let waited = watched.1.wait_timeout_while(ended, limit, |ended| !*ended);
                ended = waited.unwrap().0;
            }
        });
        Deadline { ended }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        *self.ended.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.1.notify_all();
    }
}

/// Name, state and place of every thread of the process.
fn threads() -> String {
    let mut text = String::new();
    for task in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let stat = read("stat");
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next())
            .unwrap_or('?');
        text += &format!("  {} {state} {}\n", read("comm").trim_end(), read("wchan"));
    }
    text
}

/// Looks again and again until it is so; the test's [`Deadline`] ends it if it never is.
pub(crate) fn eventually(mut so: impl FnMut() -> bool) {
    while !so() {
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

/// Broken promises, written down by work functions and issuers, read at the end.
#[derive(Default)]
pub(crate) struct Broken {
    texts: Mutex<Vec<String>>,
    any: AtomicBool,
}

impl Broken {
    pub(crate) fn expect(&self, kept: bool, promise: impl FnOnce() -> String) {
        if !kept {
            let mut texts = self.texts.lock().unwrap();
            if texts.len() < 20 {
                texts.push(promise());
            }
            self.any.store(true, Ordering::Release);
        }
    }

    pub(crate) fn none(&self) {
        let texts = self.texts.lock().unwrap();
        assert!(texts.is_empty(), "broken promises:\n{}", texts.join("\n"));
    }
}

/// Unwinds out of a work function without the message that `panic!` prints.
pub(crate) fn quiet_panic() -> ! {
    std::panic::resume_unwind(Box::new("on purpose"))
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
            assert!(wq.queue_on(cpu, &work).unwrap());
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

/// Everything that was said to a handler.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    /// Of all warnings of the process.
    pub(crate) fn warnings() -> Self {
        let heard = Heard::default();
        let all = heard.0.clone();
        cmwq::set_warning_handler(move |text| all.lock().unwrap().push(text.to_owned()));
        heard
    }

    /// Of all reports of the process.
    pub(crate) fn reports() -> Self {
        let heard = Heard::default();
        let all = heard.0.clone();
        cmwq::set_report_handler(move |text| all.lock().unwrap().push(text.to_owned()));
        heard
    }

    pub(crate) fn with(&self, part: &str) -> Vec<String> {
        let all = self.0.lock().unwrap();
        all.iter()
            .filter(|text| text.contains(part))
            .cloned()
            .collect()
    }

    /// How often something with this in it was said.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.with(part).len()
    }
}

/// Runs a test in a process of its own, for what a process has once: its handlers, its limits, its CPUs, warnings that are
/// said once. The process is this very program, told to run only the calling test.
pub(crate) fn in_own_process<F: FnOnce()>(test: F) {
    let output = own_process(&test);
    let Some(output) = output else {
        return test();
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success() && text(&output.stdout).contains("1 passed"),
        "in a process of its own: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Runs the calling test, whose body `_test` is, in a process of its own and returns what came of it; `None`: this is that process.
pub(crate) fn own_process<F: FnOnce()>(_test: &F) -> Option<std::process::Output> {
    const OWN_PROCESS: &str = "CMWQ_TEST_OWN_PROCESS";
    let path = std::any::type_name::<F>();
    let (_, name) = path.split_once("::").expect("a path in this program");
    let name = name.trim_end_matches("::{{closure}}");
    if std::env::var(OWN_PROCESS).is_ok_and(|own| own == name) {
        return None;
    }
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

/// Holds as many CPUs of a pod until it is opened.
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

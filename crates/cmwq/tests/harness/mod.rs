//! What the tests of the running engine share: seeds that replay, a deadline that turns a hang into a failure with a dump,
//! and a list of broken promises, since an assertion inside a work function is only one more panic to the engine.
#![allow(dead_code, reason = "each test binary uses a part")]

use cmwq::Engine;
use cmwq::topology::Topology;
use std::io::Write;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
        Self::with_dump(test, move || format!("{:?}", engine.stats()))
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

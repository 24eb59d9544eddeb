//! Await-cache: asynchronous tasks that have a pool open, read and search small files of the page
//! cache, one after the other, as a package manager does with what it has cached. That package
//! manager has a pool of four threads, a constant that its authors found by measuring.
//!
//! Await-reads: asynchronous tasks that have a pool read from the page cache and await that, each
//! then sleeping for half a millisecond, on a machine whose CPUs are all kept busy by other threads
//! of the program. What is measured is the hand-over: how long a short read waits for a thread, and
//! its task for the CPU.

use super::awaited::Awaiting;
use super::{Phase, Tally, timed_by};
use crate::job::{Job, Target, forever};
use crate::machine::{cpu_time, now_ns, spin, thread_cpu_time};
use crate::options::Options;
use crate::report::Report;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A read of so much takes about ten microseconds.
const READ_BYTES: usize = 64 << 10;
const FILE_BYTES: usize = 16 * READ_BYTES;
const CACHED_FILES: usize = 64;
const CACHED_BYTES: usize = 16 << 10;
const SLEEP: Duration = Duration::from_micros(500);
/// Steps between two looks of a hog at the clock: a tenth of a millisecond or so.
const HOG_STEPS: u64 = 50_000;

/// What the tasks read.
enum Source {
    /// A piece of a file that is open.
    Open(File),
    /// A whole file, as a package manager reads what it has cached: opened, read and looked through.
    Cached(PathBuf),
}

impl Source {
    fn read(&self, number: u32, buffer: &mut Vec<u8>) -> io::Result<()> {
        let number = number as usize;
        match self {
            Source::Open(file) => {
                buffer.resize(READ_BYTES, 0);
                file.read_exact_at(buffer, (number * READ_BYTES % FILE_BYTES) as u64)
            }
            Source::Cached(folder) => {
                buffer.clear();
                let path = folder.join((number % CACHED_FILES).to_string());
                File::open(path)?.read_to_end(buffer)?;
                let step = |sum: u32, byte: &u8| sum.rotate_left(5) ^ u32::from(*byte);
                black_box(buffer.iter().fold(0, step));
                Ok(())
            }
        }
    }
}

/// Takes the files away with the end of a run.
struct Removed(Arc<Source>);

impl Drop for Removed {
    fn drop(&mut self) {
        if let Source::Cached(folder) = &*self.0 {
            // One that stays is in a folder for what is temporary.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// A task's read.
#[repr(align(128))]
struct Read {
    source: Arc<Source>,
    buffer: Mutex<Vec<u8>>,
    started_ns: AtomicU64,
    ended_ns: AtomicU64,
    runs: AtomicU64,
}

impl Target for Read {
    fn run(&self, number: u32) {
        self.started_ns.store(now_ns(), Ordering::Relaxed);
        let mut buffer = self.buffer.lock().expect("no read panics");
        let read = self.source.read(number, &mut buffer);
        read.expect("a file of this size");
        // One read of a task at a time.
        let runs = self.runs.load(Ordering::Relaxed);
        self.runs.store(runs + 1, Ordering::Relaxed);
        self.ended_ns.store(now_ns(), Ordering::Relaxed);
    }
}

/// Threads that compute, one for each CPU, and the CPU time that they have used.
struct Hogs {
    stop: AtomicBool,
    cpu_ns: Vec<AtomicU64>,
}

impl Hogs {
    fn compute(&self, number: usize) {
        while !self.stop.load(Ordering::Relaxed) {
            spin(HOG_STEPS);
            self.cpu_ns[number].store(thread_cpu_time().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    fn cpu_time(&self) -> Duration {
        let ns = self.cpu_ns.iter().map(|ns| ns.load(Ordering::Relaxed));
        Duration::from_nanos(ns.sum())
    }
}

/// What is in the page cache afterwards; of a name that no other process takes.
fn cached(lap: &str) -> io::Result<Source> {
    let path = std::env::temp_dir().join(format!("peer-reads-{}", std::process::id()));
    if lap == "await-cache" {
        std::fs::create_dir(&path)?;
        for number in 0..CACHED_FILES {
            std::fs::write(path.join(number.to_string()), vec![7; CACHED_BYTES])?;
        }
        return Ok(Source::Cached(path));
    }
    let mut options = File::options();
    let mut file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(&vec![7; FILE_BYTES])?;
    Ok(Source::Open(file))
}

/// As many tasks as the options have issuers.
pub(super) fn reads<P: Awaiting>(
    runtime: &Runtime,
    pool: P,
    options: &Options,
) -> Result<Report, String> {
    let source = cached(&options.lap).map_err(|error| format!("a file to read: {error}"))?;
    let source = Arc::new(source);
    let _removed = Removed(source.clone());
    let pause = (options.lap == "await-reads").then_some(SLEEP);
    let pool = Arc::new(pool);
    let hogs = if pause.is_some() { options.workers } else { 0 };
    let hogs = Hogs {
        stop: AtomicBool::new(false),
        cpu_ns: (0..hogs).map(|_| AtomicU64::new(0)).collect(),
    };
    thread::scope(|scope| {
        for number in 0..hogs.cpu_ns.len() {
            let hogs = &hogs;
            scope.spawn(move || hogs.compute(number));
        }
        let cpu_time = || cpu_time().saturating_sub(hogs.cpu_time());
        let report = timed_by(options, cpu_time, |phase| {
            let phase: &'static Phase = forever(phase);
            let tasks: Vec<_> = (0..options.issuers)
                .map(|_| {
                    let read = Read {
                        source: source.clone(),
                        buffer: Mutex::default(),
                        started_ns: AtomicU64::new(0),
                        ended_ns: AtomicU64::new(0),
                        runs: AtomicU64::new(0),
                    };
                    runtime.spawn(task(pool.clone(), phase, read, pause))
                })
                .collect();
            let wait = move |sum: &mut Tally| {
                runtime.block_on(async {
                    for task in tasks {
                        sum.add(task.await.map_err(|_| "a task panicked")?);
                    }
                    Ok(())
                })
            };
            (phase, wait)
        });
        hogs.stop.store(true, Ordering::Relaxed);
        report
    })
}

async fn task<P: Awaiting>(
    pool: Arc<P>,
    phase: &'static Phase,
    read: Read,
    pause: Option<Duration>,
) -> Tally {
    let read = forever(read);
    let mut tally = Tally::default();
    let mut measuring = false;
    while phase.go_on(&mut tally, &mut measuring) {
        let queued_ns = now_ns();
        pool.run(Job::new(read, tally.queued as u32)).await;
        let told_ns = now_ns();
        let [started_ns, ended_ns] =
            [&read.started_ns, &read.ended_ns].map(|ns| ns.load(Ordering::Relaxed));
        tally.start_ns.push(started_ns.saturating_sub(queued_ns));
        tally.wake_ns.push(told_ns.saturating_sub(ended_ns));
        tally.told_ns.push(told_ns - queued_ns);
        tally.queued += 1;
        tally.items += 1;
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
    tally.ran = read.runs.load(Ordering::Relaxed);
    tally
}

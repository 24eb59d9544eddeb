//! The measured loop: the published ping-pong procedure, once.
//!
//! Every measurement has an engine and a workqueue of its own, so that "workers created" means
//! something and nothing is left over from the scope before. As published, there is no warm-up
//! between the gate and the clock: the first items pay for the workers they make the engine create,
//! and those workers are counted.
//!
//! The issuer that finishes last flushes the workqueue and takes the end time itself, so that no
//! wake-up of another thread is part of the measurement. The main thread only watches: it gives up
//! when no item has ended for [`STALL_LIMIT`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cmwq::observe::EngineStats;
use cmwq::topology::Topology;
use cmwq::{Completion, Engine, Work, Workqueue};
use rustix::time::{ClockId, clock_gettime};

use cmwq_command::CliError;

use super::gate::{Gate, Watch};
use super::plan::Config;
use super::stats::{Latency, items_per_s};

/// The longest time without one item done.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// How often the main thread polls for progress.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// Stack of an issuer: it calls queue() and little else.
const ISSUER_STACK_BYTES: usize = 256 * 1024;

/// Memory that must be left before an issuer is started: the standard library and the allocator
/// take some inside the new thread and abort without it. More than 32 MiB, so that the allocator
/// asks the system each time.
const HEADROOM_BYTES: usize = 33 << 20;

/// What one measurement gave.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) items_per_thread: u64,
    pub(super) elapsed: Duration,
    pub(super) items_per_s: u64,
    pub(super) enqueue: Latency,
    pub(super) round_trip: Latency,
    pub(super) workers_created: u64,
    pub(super) wakeups_per_item: f64,
    pub(super) stolen_per_item: f64,
    pub(super) cpu_percent: f64,
}

/// What stays the same over all measurements.
#[derive(Debug)]
pub(super) struct Setting<'a> {
    pub(super) topology: &'a Topology,
    /// The CPU that each issuer queues from.
    pub(super) cpus: &'a [usize],
    pub(super) strict: bool,
    /// CPUs that this process may really run on, of those given to it.
    pub(super) real_cpus: usize,
}

/// What an issuer shares with its item. Alone on its cache lines: issuers must not slow each other.
#[derive(Default)]
#[repr(align(128))]
struct Seat {
    done: Completion,
    /// Incremented by the work function.
    executed: AtomicU64,
}

struct Shared {
    queue: Workqueue,
    engine: Engine,
    gate: Gate,
    items: u64,
    seats: Vec<Arc<Seat>>,
    /// Issuers that have not finished.
    running: AtomicUsize,
    /// Set when the main thread has given up.
    abandoned: AtomicBool,
}

/// The latencies of one issuer.
struct Samples {
    enqueue_ns: Vec<u32>,
    round_trip_ns: Vec<u32>,
    /// Times that queue() said the item was still pending. It never is: its completion was seen.
    refused: u64,
}

impl Samples {
    /// Sets the memory aside, so that a lack of it is an error now and not an abort later.
    fn reserve(items: u64) -> Result<Self, std::collections::TryReserveError> {
        let mut samples = Samples {
            enqueue_ns: Vec::new(),
            round_trip_ns: Vec::new(),
            refused: 0,
        };
        samples.enqueue_ns.try_reserve_exact(items as usize)?;
        samples.round_trip_ns.try_reserve_exact(items as usize)?;
        Ok(samples)
    }

    /// Adds those of one issuer.
    fn add(&mut self, own: &Samples) {
        self.enqueue_ns.extend_from_slice(&own.enqueue_ns);
        self.round_trip_ns.extend_from_slice(&own.round_trip_ns);
        self.refused += own.refused;
    }

    /// Touches the memory from the CPU that will fill it: no page fault inside the measured loop.
    fn touch(&mut self) {
        for samples in [&mut self.enqueue_ns, &mut self.round_trip_ns] {
            samples.resize(samples.capacity(), u32::MAX);
            samples.clear();
        }
    }
}

/// The state of the process when the last item was flushed.
struct End {
    at: Instant,
    cpu: Duration,
    stats: EngineStats,
    flushed: Result<(), String>,
}

enum Message {
    Ready,
    NoIssuer(String),
    Finished(End),
}

fn failed(config: &Config, what: &str, error: &str) -> CliError {
    CliError::failed(format!(
        "cannot {what} for scope {}: {error}",
        config.label()
    ))
}

/// An engine for one configuration.
pub(super) fn engine(setting: &Setting<'_>, config: &Config) -> Result<Engine, CliError> {
    let mut builder = Engine::builder().topology(setting.topology.clone());
    if let Some(size) = config.shard_size {
        builder = builder.cache_shard_size(size);
    }
    builder
        .build()
        .map_err(|error| failed(config, "start an engine", &error.to_string()))
}

/// Measures one configuration once.
pub(super) fn measure(
    setting: &Setting<'_>,
    config: &Config,
    items: u64,
) -> Result<Measured, CliError> {
    let threads = setting.cpus.len();
    let failed = |what: &str, error: String| failed(config, what, &error);
    let engine = engine(setting, config)?;
    let queue = engine
        .workqueue("bench_wq")
        .affinity_scope(config.scope)
        .affinity_strict(setting.strict)
        .build()
        .map_err(|error| failed("create a workqueue", error.to_string()))?;

    // Memory for the merged samples is set aside first, like that of the issuers.
    let mut merged = Samples::reserve(threads as u64 * items)
        .map_err(|error| failed("keep the samples", error.to_string()))?;
    let shared = Arc::new(Shared {
        queue,
        engine,
        gate: Gate::default(),
        items,
        seats: (0..threads).map(|_| Arc::default()).collect(),
        running: AtomicUsize::new(threads),
        abandoned: AtomicBool::new(false),
    });
    let (sender, receiver) = mpsc::channel();
    let issuers = start_issuers(&shared, setting.cpus, &sender, &receiver)?;
    drop(sender);

    let stats_before = shared.engine.stats();
    let cpu_before = process_cpu();
    let start = Instant::now();
    shared.gate.set(true);
    let end = match await_end(&shared, &receiver) {
        Ok(end) => end,
        Err(progress) => return Err(give_up(shared, config, progress, threads)),
    };
    let elapsed = end.at.duration_since(start);
    let cpu = end.cpu.saturating_sub(cpu_before);

    for issuer in issuers {
        let ended = "an issuer thread ended early";
        let samples = issuer.join().ok().flatten();
        merged.add(&samples.ok_or_else(|| failed("finish the measurement", ended.to_owned()))?);
    }
    end.flushed.map_err(|error| failed("flush", error))?;
    let total = threads as u64 * items;
    check(executed(&shared), total, merged.refused)
        .map_err(|why| failed("trust the measurement", why))?;

    let per_item = |after: u64, before: u64| after.saturating_sub(before) as f64 / total as f64;
    let available_s = elapsed.as_secs_f64() * setting.real_cpus as f64;
    Ok(Measured {
        items_per_thread: items,
        elapsed,
        items_per_s: items_per_s(total, elapsed.as_micros()),
        enqueue: Latency::of(merged.enqueue_ns),
        round_trip: Latency::of(merged.round_trip_ns),
        workers_created: end.stats.workers_created,
        wakeups_per_item: per_item(end.stats.wakeups, stats_before.wakeups),
        stolen_per_item: per_item(end.stats.stolen, stats_before.stolen),
        cpu_percent: if available_s > 0.0 {
            cpu.as_secs_f64() / available_s * 100.0
        } else {
            0.0
        },
    })
}

/// Whether each item that was queued has run.
fn check(executed: u64, total: u64, refused: u64) -> Result<(), String> {
    match executed == total && refused == 0 {
        true => Ok(()),
        false => Err(format!(
            "{total} items were queued, {executed} ran and {refused} were refused as still pending"
        )),
    }
}

type Issuer = JoinHandle<Option<Samples>>;

/// Starts all issuers, or none. Each waits at the gate before the next is started: when memory runs
/// out, then it does so here, where that is an error, and not in a thread half started, where it
/// would abort the process.
fn start_issuers(
    shared: &Arc<Shared>,
    cpus: &[usize],
    sender: &Sender<Message>,
    receiver: &Receiver<Message>,
) -> Result<Vec<Issuer>, CliError> {
    let mut issuers = Vec::with_capacity(cpus.len());
    for (index, &cpu) in cpus.iter().enumerate() {
        let started = patiently(|| start_issuer(shared, index, cpu, sender))
            .map(|issuer| issuers.push(issuer))
            .map_err(|error| error.to_string())
            .and_then(|()| match receiver.recv_timeout(STALL_LIMIT) {
                Ok(Message::Ready | Message::Finished(_)) => Ok(()),
                Ok(Message::NoIssuer(reason)) => Err(reason),
                Err(_) => Err(format!(
                    "it did not start within {} s",
                    STALL_LIMIT.as_secs()
                )),
            });
        if let Err(reason) = started {
            send_home(shared, issuers);
            let threads = cpus.len();
            let allowed = match index {
                0 => "at least one is needed".to_owned(),
                _ => format!("allowed here: about --threads {index}"),
            };
            return Err(CliError::failed(format!(
                "cannot start issuer thread {} of {threads} for CPU {cpu}: {reason}; {allowed}",
                index + 1
            )));
        }
    }
    Ok(issuers)
}

/// Tries again for a second while the system has no thread to give: those of the engine before may
/// still be about to end.
fn patiently<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begun = Instant::now();
    loop {
        match start() {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    && begun.elapsed() < Duration::from_secs(1) =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            result => return result,
        }
    }
}

fn start_issuer(
    shared: &Arc<Shared>,
    index: usize,
    cpu: usize,
    sender: &Sender<Message>,
) -> io::Result<Issuer> {
    let samples = Samples::reserve(shared.items)?;
    let mut headroom: Vec<u8> = Vec::new();
    headroom.try_reserve_exact(HEADROOM_BYTES)?;
    // Hidden from the optimiser, which may drop an unused allocation.
    drop(std::hint::black_box(headroom));
    let shared = Arc::clone(shared);
    let sender = sender.clone();
    std::thread::Builder::new()
        .name(format!("issuer/{index}"))
        .stack_size(ISSUER_STACK_BYTES)
        .spawn(move || issue(&shared, index, cpu, samples, &sender))
}

/// Releases issuers that wait at the gate, and joins them.
fn send_home(shared: &Shared, issuers: Vec<Issuer>) {
    shared.gate.set(false);
    for issuer in issuers {
        // A panicked issuer has ended too.
        let _ = issuer.join();
    }
}

/// Waits for the last issuer; on a stall returns the number of items done.
fn await_end(shared: &Shared, receiver: &Receiver<Message>) -> Result<End, u64> {
    let mut watch = Watch::new(STALL_LIMIT, Instant::now());
    loop {
        match receiver.recv_timeout(WATCH_INTERVAL) {
            Ok(Message::Finished(end)) => return Ok(end),
            Ok(Message::Ready | Message::NoIssuer(_)) => {}
            Err(RecvTimeoutError::Timeout) => {
                let progress = executed(shared);
                if watch.stalled(Instant::now(), progress) {
                    return Err(progress);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(executed(shared)),
        }
    }
}

/// Reports the stall. The engine is leaked: destroying it would wait for the items that never run.
fn give_up(shared: Arc<Shared>, config: &Config, progress: u64, threads: usize) -> CliError {
    shared.abandoned.store(true, Ordering::Relaxed);
    for seat in &shared.seats {
        seat.done.complete();
    }
    let stats = shared.engine.stats();
    let total = threads as u64 * shared.items;
    let error = CliError::failed(format!(
        "no item made progress for {} s under scope {}: {progress} of {total} done, {} workers alive, \
         {} could not be created; allow more threads (ulimit -u, pids cgroup) or use fewer --threads",
        STALL_LIMIT.as_secs(),
        config.label(),
        stats.workers,
        stats.create_failures
    ));
    std::mem::forget(shared);
    error
}

fn executed(shared: &Shared) -> u64 {
    shared
        .seats
        .iter()
        .map(|seat| seat.executed.load(Ordering::Relaxed))
        .sum()
}

/// The loop of one issuer.
fn issue(
    shared: &Shared,
    index: usize,
    cpu: usize,
    mut samples: Samples,
    sender: &Sender<Message>,
) -> Option<Samples> {
    // A send fails only when the main thread has given up and reads no results.
    let _issuer = match shared.engine.become_issuer(cpu) {
        Ok(guard) => guard,
        Err(error) => {
            let _ = sender.send(Message::NoIssuer(error.to_string()));
            return None;
        }
    };
    let seat = &shared.seats[index];
    let work = Work::new({
        let seat = Arc::clone(seat);
        move || {
            seat.executed.fetch_add(1, Ordering::Relaxed);
            seat.done.complete();
        }
    });
    samples.touch();
    let _ = sender.send(Message::Ready);
    if !shared.gate.wait() {
        return None;
    }
    for _ in 0..shared.items {
        seat.done.reinit();
        let t0 = Instant::now();
        let accepted = shared.queue.queue(&work).is_accepted();
        let t1 = Instant::now();
        seat.done.wait();
        let t2 = Instant::now();
        if shared.abandoned.load(Ordering::Relaxed) {
            return None;
        }
        samples.refused += u64::from(!accepted);
        samples.enqueue_ns.push(nanoseconds(t1 - t0));
        samples.round_trip_ns.push(nanoseconds(t2 - t0));
    }
    if shared.running.fetch_sub(1, Ordering::AcqRel) == 1 {
        let flushed = shared.queue.flush().map_err(|error| error.to_string());
        let end = End {
            at: Instant::now(),
            cpu: process_cpu(),
            stats: shared.engine.stats(),
            flushed,
        };
        let _ = sender.send(Message::Finished(end));
    }
    Some(samples)
}

/// A latency as it is kept: one beyond 4.29 s counts as 4.29 s.
fn nanoseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_nanos()).unwrap_or(u32::MAX)
}

/// CPU time that this process has used, all threads together.
fn process_cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_beyond_the_kept_range_saturate() {
        assert_eq!(nanoseconds(Duration::from_nanos(7)), 7);
        assert_eq!(nanoseconds(Duration::from_secs(5)), u32::MAX);
    }

    #[test]
    fn threads_that_are_about_to_end_are_waited_for_and_other_errors_are_not() {
        let mut tries = 0;
        let third = patiently(|| {
            tries += 1;
            match tries {
                3 => Ok(tries),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        assert_eq!(third.unwrap(), 3);
        let mut others = vec![Ok(()), Err(io::ErrorKind::OutOfMemory.into())];
        assert!(patiently(|| others.pop().unwrap()).is_err());
        assert_eq!(others.len(), 1, "it did not try again");
    }

    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        assert!(Samples::reserve(u64::MAX / 8).is_err());
    }
}

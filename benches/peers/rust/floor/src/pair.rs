//! What two threads pay together, on one CPU and on two.

use crate::{Cost, least, median, pin};
use rustix::thread::futex;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Short rounds, and many: some of them nobody disturbs.
const ROUNDS: usize = 101;

/// A number on lines of its own.
#[repr(align(128))]
struct Line<T>(T);

pub(crate) fn costs_on_one(cpu: usize) -> Vec<Cost> {
    let round_trip = futex_trips(cpu, cpu, 500);
    vec![
        (
            "futex_round_trip_same_cpu_ns",
            "two threads that wake each other, one CPU: there and back",
            round_trip,
        ),
        (
            "context_switch_ns",
            "half of that: a wake-up, a sleep, a switch",
            round_trip / 2.0,
        ),
        (
            "yield_ns",
            "a yield to another thread of the same CPU",
            yields(cpu),
        ),
        (
            "futex_wake_same_cpu_ns",
            "in the waker: waking a sleeper of the same CPU",
            wakes(cpu, cpu),
        ),
    ]
}

pub(crate) fn costs_on_two(first: usize, second: usize) -> Vec<Cost> {
    let round_trip = futex_trips(first, second, 100);
    let kept_awake = with_spinner(second, || futex_trips(first, second, 100));
    vec![
        (
            "line_transfer_ns",
            "a cache line to the other CPU, one way",
            line_transfer(first, second),
        ),
        (
            "atomic_contended_ns",
            "an atomic addition that both CPUs make all the time",
            contended(first, second, |line, _| {
                line.fetch_add(1, Ordering::Relaxed);
            }),
        ),
        (
            "mutex_contended_ns",
            "a lock that both CPUs take all the time",
            contended(first, second, |_, mutex| {
                *mutex.lock().expect("not poisoned") += 1;
            }),
        ),
        (
            "futex_round_trip_other_cpu_ns",
            "two threads that wake each other, two CPUs: there and back",
            round_trip,
        ),
        (
            "futex_round_trip_awake_cpu_ns",
            "the same while the other CPU is kept from halting",
            kept_awake,
        ),
        (
            "futex_wake_other_cpu_ns",
            "in the waker: waking a sleeper of the other CPU",
            wakes(first, second),
        ),
    ]
}

/// Half a round trip over one line, both sides looking all the time.
fn line_transfer(first: usize, second: usize) -> f64 {
    const TRIPS: u64 = 5_000;
    let line = Line(AtomicU64::new(0));
    let time = on_two(
        first,
        second,
        || {
            for trip in 0..TRIPS {
                line.0.store(2 * trip + 1, Ordering::Release);
                while line.0.load(Ordering::Acquire) != 2 * trip + 2 {
                    std::hint::spin_loop();
                }
            }
            // For the next round; the other side has written its last.
            line.0.store(0, Ordering::Relaxed);
        },
        || {
            for trip in 0..TRIPS {
                while line.0.load(Ordering::Acquire) != 2 * trip + 1 {
                    std::hint::spin_loop();
                }
                line.0.store(2 * trip + 2, Ordering::Release);
            }
        },
    );
    time / TRIPS as f64 / 2.0
}

/// Nanoseconds of an operation by either, both at it.
fn contended(
    first: usize,
    second: usize,
    operation: impl Fn(&AtomicU64, &Mutex<u64>) + Sync,
) -> f64 {
    const CALLS: u64 = 20_000;
    let (line, mutex) = (Line(AtomicU64::new(0)), Line(Mutex::new(0)));
    let calls = || (0..CALLS).for_each(|_| operation(&line.0, &mutex.0));
    on_two(first, second, calls, calls) / (2 * CALLS) as f64
}

/// Yields between two threads of one CPU: the time of one.
fn yields(cpu: usize) -> f64 {
    const YIELDS: u32 = 500;
    let calls = || (0..YIELDS).for_each(|_| thread::yield_now());
    on_two(cpu, cpu, calls, calls) / f64::from(2 * YIELDS)
}

/// Waits asleep until the word has come to a value; a waiter that was late may find a later one.
fn wait_for(word: &AtomicU32, value: u32) {
    loop {
        let seen = word.load(Ordering::Acquire);
        if seen >= value {
            return;
        }
        // Whatever it returns, the word says whether to go on.
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, None);
    }
}

fn hand_over(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}

/// A round trip of two threads that sleep while they wait: the median of many rounds of some trips.
fn futex_trips(first: usize, second: usize, trips: u32) -> f64 {
    let (there, back) = (Line(AtomicU32::new(0)), Line(AtomicU32::new(0)));
    let times = Mutex::new(Vec::new());
    on_two(
        first,
        second,
        || {
            // The other side is asleep when the first trip begins. Two that are awake would go on
            // without ever sleeping.
            thread::sleep(Duration::from_millis(1));
            let start = Instant::now();
            for trip in 1..=trips {
                hand_over(&there.0, trip);
                wait_for(&back.0, trip);
            }
            let time = start.elapsed().as_nanos() as f64;
            times
                .lock()
                .expect("not poisoned")
                .push(time / f64::from(trips));
            // For the next round; the other side has seen the last.
            back.0.store(0, Ordering::Relaxed);
        },
        || {
            for trip in 1..=trips {
                wait_for(&there.0, trip);
                hand_over(&back.0, trip);
            }
            there.0.store(0, Ordering::Relaxed);
        },
    );
    median(times.into_inner().expect("not poisoned").into_iter())
}

/// What the wake-up costs the waker, when the sleeper sleeps for certain.
fn wakes(waker: usize, sleeper: usize) -> f64 {
    const WAKES: u32 = 300;
    let word = Line(AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(sleeper);
            (1..=WAKES).for_each(|wake| wait_for(&word.0, wake));
        });
        let waking = scope.spawn(|| {
            pin(waker);
            let timed_wake = |wake| {
                // Long enough for the sleeper to be asleep, and its CPU idle.
                thread::sleep(Duration::from_micros(300));
                word.0.store(wake, Ordering::Release);
                let start = Instant::now();
                let _ = futex::wake(&word.0, futex::Flags::PRIVATE, 1);
                start.elapsed().as_nanos() as f64
            };
            median((1..=WAKES).map(timed_wake))
        });
        waking.join().expect("measuring does not panic")
    })
}

/// Runs `work` while a thread that yields to everything keeps a CPU from halting.
fn with_spinner<R>(cpu: usize, work: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(cpu);
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: reads the parameters that it is given; the calling thread becomes one that
            // runs when no other does.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let result = work();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// Where two threads meet without sleeping: a wake-up would take longer than what is measured.
#[derive(Default)]
struct AwakeBarrier(AtomicU64);

impl AwakeBarrier {
    fn wait(&self) {
        // The first of a pair leaves an odd number, the second makes it even.
        let pair = self.0.fetch_add(1, Ordering::AcqRel) / 2;
        let mut looks = 0_u32;
        while self.0.load(Ordering::Acquire) < 2 * pair + 2 {
            looks += 1;
            if looks.is_multiple_of(1_000) {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Nanoseconds from the first start to the last end, the least of many rounds in which both started
/// together: one that has the memory for itself is not measured.
fn on_two(first: usize, second: usize, one: impl Fn() + Sync, other: impl Fn() + Sync) -> f64 {
    let (together, apart) = (AwakeBarrier::default(), AwakeBarrier::default());
    let epoch = Instant::now();
    let timed = |cpu: usize, work: &(dyn Fn() + Sync)| {
        pin(cpu);
        let round = |_| {
            together.wait();
            let start = epoch.elapsed().as_nanos() as f64;
            work();
            let end = epoch.elapsed().as_nanos() as f64;
            apart.wait();
            (start, end)
        };
        (0..ROUNDS).map(round).collect::<Vec<_>>()
    };
    let (timings, others) = thread::scope(|scope| {
        let threads = [
            scope.spawn(|| timed(first, &one)),
            scope.spawn(|| timed(second, &other)),
        ];
        let [timings, others] =
            threads.map(|thread| thread.join().expect("measuring does not panic"));
        (timings, others)
    });
    let rounds = timings.iter().zip(&others).map(|(one, other)| {
        let time = one.1.max(other.1) - one.0.min(other.0);
        ((one.0 - other.0).abs() / time, time)
    });
    // Two threads of one CPU never start together.
    let together = rounds
        .clone()
        .filter(|(apart, _)| first == second || *apart < 0.05);
    let time = least(together.map(|(_, time)| time));
    if time.is_finite() {
        time
    } else {
        median(rounds.map(|(_, time)| time))
    }
}

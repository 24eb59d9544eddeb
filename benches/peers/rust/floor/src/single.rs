//! What one thread pays alone.

use crate::{Cost, per_call, pin};
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

pub(crate) fn costs(cpu: usize) -> Vec<Cost> {
    thread::scope(|scope| {
        let measure = || {
            pin(cpu);
            measured()
        };
        scope
            .spawn(measure)
            .join()
            .expect("measuring does not panic")
    })
}

fn measured() -> Vec<Cost> {
    const QUICK: u32 = 200_000;
    const SLOW: u32 = 20_000;
    let counter = AtomicU64::new(0);
    let mutex = Mutex::new(0_u64);
    let nobody = AtomicU32::new(0);
    vec![
        (
            "atomic_ns",
            "an uncontended atomic addition",
            per_call(QUICK, || {
                black_box(&counter).fetch_add(1, Ordering::Relaxed);
            }),
        ),
        (
            "mutex_ns",
            "an uncontended lock and unlock",
            per_call(QUICK, || {
                *black_box(&mutex).lock().expect("not poisoned") += 1;
            }),
        ),
        (
            "malloc_ns",
            "malloc and free of 64 bytes",
            per_call(QUICK, || {
                black_box(Box::new([0_u64; 8]));
            }),
        ),
        (
            "clock_ns",
            "reading the monotonic clock",
            per_call(QUICK, || {
                black_box(clock_gettime(ClockId::Monotonic));
            }),
        ),
        (
            "getcpu_ns",
            "asking on which CPU one is",
            per_call(QUICK, || {
                black_box(rustix::thread::sched_getcpu());
            }),
        ),
        (
            "system_call_ns",
            "the shortest system call",
            per_call(SLOW, || {
                black_box(rustix::process::getppid());
            }),
        ),
        (
            "futex_wake_nobody_ns",
            "a futex wake with nobody waiting",
            per_call(SLOW, || {
                let _ = futex::wake(black_box(&nobody), futex::Flags::PRIVATE, 1);
            }),
        ),
    ]
}

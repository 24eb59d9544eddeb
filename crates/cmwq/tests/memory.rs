//! Millions of items leave the process as large as it was.
//!
//! `CMWQ_TEST_ITEMS` sets the number of items; ten million take seconds in release mode.

mod harness;

use cmwq::{Completion, CompletionQueue, JoinHandle, Work};
use harness::{Deadline, engine, number};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What resident memory may grow by after the warm-up: stacks of workers that are created late, and
/// the allocator's arenas. One leaked item per hundred would exceed it.
const SLACK_BYTES: u64 = 4 << 20;
/// Items in flight at a time, so that the test measures what is left behind and not a backlog.
const BATCH: u64 = 1_000;

/// The tests of this file measure the memory of the whole process: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .expect("the second field of statm is resident pages");
    // SAFETY: only asks for a number.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

fn stays_flat(what: &str, items: u64, mut batch: impl FnMut(u64)) {
    let batches = (items / BATCH).max(2);
    for n in 0..batches / 2 {
        batch(n);
    }
    let before = resident_bytes();
    for n in batches / 2..batches {
        batch(n);
    }
    let after = resident_bytes();
    eprintln!(
        "{what}: {} items, resident {} KiB after half of them, {} KiB at the end",
        batches * BATCH,
        before >> 10,
        after >> 10
    );
    assert!(
        after <= before + SLACK_BYTES,
        "{what}: resident memory grew from {before} to {after} bytes"
    );
}

#[test]
fn reusable_items_leave_nothing_behind() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("reusable items", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let ran = Arc::new(AtomicU64::new(0));
    let done = Arc::new(Completion::new());
    let works: Vec<Work> = (0..BATCH)
        .map(|_| {
            let (ran, done) = (ran.clone(), done.clone());
            Work::new(move || {
                if (ran.fetch_add(1, Ordering::AcqRel) + 1).is_multiple_of(BATCH) {
                    done.complete();
                }
            })
        })
        .collect();
    let items = number("CMWQ_TEST_ITEMS", 2_000_000);
    stays_flat("reusable", items, |_| {
        done.reinit();
        for work in &works {
            assert!(
                wq.queue(work).is_accepted(),
                "the item of the batch before has run"
            );
        }
        done.wait();
    });
    wq.flush().unwrap();
    assert_eq!(wq.counts().1, ran.load(Ordering::Relaxed));
}

#[test]
fn spawned_items_leave_nothing_behind() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("spawned items", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let items = number("CMWQ_TEST_ITEMS", 2_000_000);
    let mut handles: VecDeque<JoinHandle<u64>> = VecDeque::with_capacity(BATCH as usize);
    let mut sum = 0;
    stays_flat("spawned", items, |batch| {
        for n in 0..BATCH {
            if n % 4 == 3 {
                // No thread waits for this one.
                drop(wq.spawn(move || n));
            } else {
                handles.push_back(wq.spawn(move || batch ^ n));
            }
        }
        for handle in handles.drain(..) {
            sum ^= handle.join().unwrap();
        }
    });
    wq.flush().unwrap();
    std::hint::black_box(sum);
}

/// A thread keeps the memory of some small objects that it has freed.
#[test]
fn threads_that_end_leave_nothing_behind() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("threads that end", &engine);
    const THREADS: u64 = 3_000;
    stays_flat("threads", THREADS * BATCH, |_| {
        let thread = std::thread::spawn(|| {
            let done = CompletionQueue::new();
            (0..64).for_each(|token| done.post(token, ()).unwrap());
            assert_eq!(done.drain(64, &mut Vec::new()), 64);
        });
        thread.join().unwrap();
    });
}

#[test]
fn large_closures_leave_nothing_behind() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("large closures", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let items = number("CMWQ_TEST_ITEMS", 2_000_000) / 50;
    stays_flat("large", items, |batch| {
        for n in 0..BATCH {
            let large = [batch ^ n; 128];
            wq.execute(move || _ = std::hint::black_box(large)).unwrap();
        }
        wq.flush().unwrap();
    });
}

//! How soon an idle pod begins to take from a backlogged neighbour: bursts of items, all queued to
//! one of two pods of a CPU each.
//!
//! `cargo run --release -p cmwq-measure --bin steal_latency [MICROSECONDS [ITEMS [PAUSE_MS]]]`: how
//! long an item computes (1000), how many items a burst has (16), and how long the process is idle
//! between two bursts (5). Printed are percentiles, over 200 bursts, of the time from when a
//! burst's first item has started, so that its pod's CPU is taken, and its second one is queued and
//! waits, to the first start of one on the other pod, and how many bursts were over before that.
//! (Where the system lets the first item preempt the thread that queues, the second one comes a
//! time slice later.) On a machine with one CPU it says nothing.

use cmwq::topology::Topology;
use cmwq::{Completion, Engine};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BURSTS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut number = |default| numbers.next().unwrap_or(Ok(default));
    let (item, items, pause) = (number(1000)?, number(16)?, number(5)?);
    let engine = Engine::builder()
        .topology(Topology::from_synthetic("l3:2 core:1 pu:1")?)
        .build()?;
    let queue = engine.workqueue("steal").workers_only().build()?;
    // Both pods have a worker before the first burst.
    for cpu in [0, 1] {
        queue.spawn_on(cpu, || ())?.join()?;
    }
    let mut delays = Vec::new();
    let mut over = 0;
    for _ in 0..BURSTS {
        std::thread::sleep(Duration::from_millis(pause));
        let threads = Arc::new(Mutex::new(Vec::new()));
        let base = Instant::now();
        let mut backlog_from_ns = 0;
        let stolen_at_ns = Arc::new(AtomicU64::new(u64::MAX));
        let first_at_ns = Arc::new(AtomicU64::new(0));
        let done = Arc::new(Completion::new());
        let left = Arc::new(AtomicU64::new(items));
        for number in 0..items {
            let (threads, first_at, stolen_at, done, left) = (
                threads.clone(),
                first_at_ns.clone(),
                stolen_at_ns.clone(),
                done.clone(),
                left.clone(),
            );
            let handle = queue.spawn_on(0, move || {
                let begun = Instant::now();
                let me = std::thread::current().id();
                let mut threads = threads.lock().unwrap_or_else(|error| error.into_inner());
                if !threads.contains(&me) {
                    threads.push(me);
                    let at_ns = (begun - base).as_nanos() as u64;
                    match threads.len() {
                        1 => first_at.store(at_ns, Ordering::Relaxed),
                        2 => stolen_at.store(at_ns, Ordering::Relaxed),
                        _ => {}
                    }
                }
                drop(threads);
                while begun.elapsed() < Duration::from_micros(item) {}
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    done.complete();
                }
            })?;
            drop(handle);
            if number == 1 {
                backlog_from_ns = base.elapsed().as_nanos() as u64;
            }
        }
        done.wait();
        backlog_from_ns = backlog_from_ns.max(first_at_ns.load(Ordering::Relaxed));
        match stolen_at_ns.load(Ordering::Relaxed) {
            u64::MAX => over += 1,
            ns => delays.push(ns.saturating_sub(backlog_from_ns)),
        }
    }
    delays.sort_unstable();
    let at = |percent: usize| {
        delays
            .get(delays.len() * percent / 100)
            .map_or(0, |ns| ns / 1000)
    };
    println!(
        "{items} items of {item} us, every {pause} ms: stolen from after p50 {} p90 {} p99 {} us; {over} of {BURSTS} bursts were over before; {} items stolen",
        at(50),
        at(90),
        at(99),
        engine.stats().stolen
    );
    Ok(())
}

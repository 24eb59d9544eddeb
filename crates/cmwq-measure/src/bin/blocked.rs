//! How soon a worker that blocks is replaced, if it says so and if it does not.
//!
//! `cargo run --release -p cmwq-measure --bin blocked`
//!
//! On a per-CPU queue one item runs at a time. The first goes to sleep, the second is queued behind
//! it: the time from the one to the start of the other is how long the CPU was left idle.
//! Undeclared, the monitor has to find the sleeper: it looks at busy pools every 2 ms, and needs
//! two looks.

use cmwq::{Completion, Engine, Workqueue, blocking};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::global()?;
    let wq = engine.workqueue("blocked").per_cpu().build()?;
    for declared in [true, false] {
        let mut times: Vec<Duration> = (0..ROUNDS)
            .map(|round| replace(&wq, declared, round))
            .collect();
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        println!(
            "{}: until another worker went on, of {ROUNDS}: min {:.3} ms, p50 {:.3}, p90 {:.3}, p99 {:.3}, max {:.3}",
            if declared { "declared" } else { "undeclared" },
            at(0),
            at(50),
            at(90),
            at(99),
            at(100)
        );
    }
    println!("found by the monitor: {}", engine.stats().blocked_seen);
    Ok(())
}

fn replace(wq: &Workqueue, declared: bool, round: usize) -> Duration {
    // Not in step with the monitor.
    std::thread::sleep(Duration::from_micros((round * 137 % 2_000) as u64));
    let (asleep, second_ran) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
    let first = {
        let (asleep, second_ran) = (asleep.clone(), second_ran.clone());
        let sleep = move || {
            // Sleeps in the system until the second item has run, which needs another worker.
            asleep.complete();
            let started = Instant::now();
            while !second_ran.is_done() {
                std::thread::sleep(Duration::from_millis(1));
                assert!(
                    started.elapsed() < Duration::from_secs(10),
                    "nobody took over"
                );
            }
        };
        wq.spawn_on(0, move || if declared { blocking(sleep) } else { sleep() })
    };
    asleep.wait();
    let start = Instant::now();
    let second = wq.spawn_on(0, move || {
        let waited = start.elapsed();
        second_ran.complete();
        waited
    });
    let waited = second.expect("CPU 0").join().expect("no panic");
    first.expect("CPU 0").join().expect("no panic");
    waited
}

//! What `queue()` of a reusable item costs on a busy pool, alone on its line: the issuer queues
//! idle items in rounds while every worker of the pool runs, so nobody is woken and nobody
//! contends. Then the same while about every 64th call is timed, as it is in a process that serves
//! a control endpoint.
//!
//! `cargo run --release -p cmwq-measure --bin enqueue_cost`

use cmwq::observe::EnqueueTiming;
use cmwq::topology::Topology;
use cmwq::{Engine, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const ITEMS: usize = 1_000;
const ROUNDS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    measure("queue()")?;
    let _timing = EnqueueTiming::begin();
    measure("queue(), every 64th timed")
}

fn measure(what: &str) -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().topology(Topology::detect()?).build()?;
    let wq = engine.workqueue("enqueue_cost").build()?;
    let works: Vec<Work> = (0..ITEMS).map(|_| Work::new(|| {})).collect();
    let mut costs_ns: Vec<f64> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        // Keep every worker busy, awake on purpose: `stop` ends them.
        let stop = Arc::new(AtomicBool::new(false));
        let busy: Vec<_> = (0..engine.topology().allowed().len() - 1)
            .map(|_| {
                let stop = stop.clone();
                wq.spawn(move || while !stop.load(Ordering::Relaxed) {})
            })
            .collect();
        let start = Instant::now();
        for work in &works {
            let _ = wq.queue(work);
        }
        costs_ns.push(start.elapsed().as_nanos() as f64 / ITEMS as f64);
        stop.store(true, Ordering::Relaxed);
        for handle in busy {
            handle.join()?;
        }
        wq.flush()?;
    }
    costs_ns.sort_by(f64::total_cmp);
    println!(
        "{what}: {:.1} ns median, {:.1} min, {:.1} max of {ROUNDS} rounds of {ITEMS} items",
        costs_ns[ROUNDS / 2],
        costs_ns[0],
        costs_ns[ROUNDS - 1]
    );
    Ok(())
}

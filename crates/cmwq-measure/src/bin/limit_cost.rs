//! What `max_active` costs, counted: how often a pod goes to the store of active places that all
//! pods of a queue share, per item, with 1, 2 and 4 issuers on four pods. Every such visit writes a
//! line that the pods share; nothing else in the accounting does.
//!
//! `cargo run --release -p cmwq-measure --bin limit_cost`
//!
//! Each issuer queues its item and waits for it, over and over, from a pod of its own. The second
//! half of the table is a queue with fewer places than issuers: then the places have to change
//! hands.

use cmwq::topology::Topology;
use cmwq::{Completion, Engine, Work};
use std::error::Error;
use std::sync::{Arc, Barrier};
use std::time::Instant;

const ITEMS: u64 = 100_000;
const RUNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "max_active  issuers     items/s (median of {RUNS})  visits to shared places per item"
    );
    for max_active in [1024, 2] {
        for issuers in [1, 2, 4] {
            let mut runs: Vec<(f64, f64)> = (0..RUNS)
                .map(|_| measure(max_active, issuers))
                .collect::<Result<_, _>>()?;
            runs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (rate, visits) = runs[RUNS / 2];
            println!("{max_active:>10}  {issuers:>7}  {rate:>10.0}                {visits:.6}");
        }
    }
    Ok(())
}

/// Items per second, and visits per item.
fn measure(max_active: usize, issuers: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let topology = Topology::from_synthetic("l3:4 core:1 pu:1")?;
    let engine = Engine::builder().topology(topology).build()?;
    let wq = engine
        .workqueue("limit_cost")
        .max_active(max_active)
        .build()?;
    wq.set_min_active(1)?;
    let start_together = Barrier::new(issuers + 1);
    let start = std::thread::scope(|scope| {
        let (engine, wq, start_together) = (&engine, &wq, &start_together);
        for cpu in 0..issuers {
            scope.spawn(move || {
                let _issuer = engine.become_issuer(cpu).expect("a CPU of the topology");
                let done = Arc::new(Completion::new());
                let work = Work::new({
                    let done = done.clone();
                    move || done.complete()
                });
                start_together.wait();
                for _ in 0..ITEMS {
                    done.reinit();
                    let _ = wq.queue(&work);
                    done.wait();
                }
            });
        }
        start_together.wait();
        Instant::now()
    });
    let seconds = start.elapsed().as_secs_f64();
    let items = (ITEMS * issuers as u64) as f64;
    Ok((items / seconds, engine.stats().limit_visits as f64 / items))
}

//! `spawn(..).join()` of an empty closure, in a loop, by as many issuers as asked for, each bound
//! to a CPU in turn.
//!
//! `cargo run --release -p cmwq-measure --bin spawn_join -- 1 2 4 16`

use cmwq::Engine;
use cmwq::topology::Topology;
use std::sync::Barrier;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let topology = Topology::detect()?;
    let cpus: Vec<usize> = topology.allowed().iter().collect();
    let mut numbers = Vec::new();
    for argument in std::env::args().skip(1) {
        let number = argument
            .parse()
            .map_err(|_| format!("'{argument}' is no number of issuers"))?;
        numbers.push(number);
    }
    if numbers.is_empty() {
        numbers = vec![1, cpus.len(), 2 * cpus.len(), 8 * cpus.len()];
    }
    let engine = Engine::builder().topology(topology).build()?;
    let wq = engine.workqueue("spawn_join").build()?;
    for issuers in numbers {
        let start = Barrier::new(issuers);
        let per_issuer: Vec<(u64, f64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..issuers)
                .map(|issuer| {
                    let (wq, start, cpu) = (&wq, &start, cpus[issuer % cpus.len()]);
                    scope.spawn(move || {
                        bind(cpu);
                        start.wait();
                        let (mut rounds, begin) = (0, Instant::now());
                        while begin.elapsed() < Duration::from_millis(500) {
                            for _ in 0..100 {
                                wq.spawn(|| ()).join().expect("the closure returns");
                            }
                            rounds += 100;
                        }
                        (rounds, begin.elapsed().as_secs_f64())
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("an issuer"))
                .collect()
        });
        let per_s: f64 = per_issuer
            .iter()
            .map(|(rounds, seconds)| *rounds as f64 / seconds)
            .sum();
        println!("{issuers:>3} issuers: {:.3} million/s", per_s / 1e6);
    }
    Ok(())
}

fn bind(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    // Refused outside the process's CPUs: the loop then runs unbound.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

//! What stealing between pods brings, and what it costs where nobody needs it: items of about 20 us
//! on four pods of one CPU each.
//!
//! `cargo run --release -p cmwq-measure --bin stealing`
//!
//! *One pod*: all items are queued from the first pod, 256 in flight. Strict, that pod's CPU does
//! all of it, and the others idle; not strict, idle neighbours steal. *All pods*: the same number
//! in flight, spread over the pods. No pod needs thieves then, and what stealing costs shows: items
//! that a neighbour ran, and the rate. The two kinds of queue take turns.

use cmwq::topology::Topology;
use cmwq::{Completion, Engine, Work, Workqueue};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PODS: usize = 4;
const IN_FLIGHT: usize = 256;
const ITEMS: usize = 20_000;
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let steps = calibrate(Duration::from_micros(20));
    println!(
        "queued from   queue       items/s, median of {RUNS} (min .. max)   CPU for an item   run by a neighbour"
    );
    for (what, issuing_pods) in [("one pod", 1), ("all pods", PODS)] {
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..RUNS {
            for (strict, runs) in [true, false].into_iter().zip(&mut runs) {
                runs.push(measure(strict, issuing_pods, steps)?);
            }
        }
        for (kind, mut runs) in ["strict", "not strict"].into_iter().zip(runs) {
            runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            let median = &runs[RUNS / 2];
            println!(
                "{what:<12}  {kind:<10}  {:>10.0} ({:.0} .. {:.0})   {:>18.1} us   {:>10.1} %",
                median.rate,
                runs[0].rate,
                runs[RUNS - 1].rate,
                median.cpu.as_secs_f64() * 1e6,
                median.stolen * 100.0
            );
        }
    }
    Ok(())
}

struct Run {
    rate: f64,
    /// CPU time of the process for each item.
    cpu: Duration,
    /// The share of the items that a neighbour ran.
    stolen: f64,
}

fn measure(strict: bool, issuing_pods: usize, steps: u64) -> Result<Run, Box<dyn Error>> {
    let topology = Topology::from_synthetic(&format!("l3:{PODS} core:1 pu:1"))?;
    let engine = Engine::builder().topology(topology).build()?;
    let queue = engine
        .workqueue("stealing")
        .affinity_strict(strict)
        .build()?;
    let items: Vec<(Arc<Completion>, Work)> = (0..IN_FLIGHT)
        .map(|_| {
            let done = Arc::new(Completion::new());
            let its_own = done.clone();
            let work = Work::new(move || {
                compute(steps);
                its_own.complete();
            });
            (done, work)
        })
        .collect();
    rounds(&queue, &items, issuing_pods, ITEMS / 10);
    let stolen = engine.stats().stolen;
    let (start, cpu) = (Instant::now(), cpu_time());
    rounds(&queue, &items, issuing_pods, ITEMS);
    let (took, cpu) = (start.elapsed(), cpu_time() - cpu);
    Ok(Run {
        rate: ITEMS as f64 / took.as_secs_f64(),
        cpu: cpu / ITEMS as u32,
        stolen: (engine.stats().stolen - stolen) as f64 / ITEMS as f64,
    })
}

/// Keeps all items in flight, each queued on one of the pods, until `number` have run.
fn rounds(queue: &Workqueue, items: &[(Arc<Completion>, Work)], pods: usize, number: usize) {
    let mut left = number;
    let start = |(index, item): (usize, &(Arc<Completion>, Work))| {
        item.0.reinit();
        let queued = queue.queue_on(index % pods, &item.1);
        assert!(queued.expect("a CPU of the topology").will_run());
    };
    items.iter().enumerate().for_each(start);
    while left > 0 {
        for (index, item) in items.iter().enumerate() {
            item.0.wait();
            left = left.saturating_sub(1);
            if left > 0 {
                start((index, item));
            }
        }
    }
    queue.flush().expect("not called from one of its items");
}

fn compute(steps: u64) {
    black_box((0..black_box(steps)).fold(1_u64, |a, n| black_box(a.wrapping_mul(31) ^ n)));
}

/// Steps that take about so long.
fn calibrate(time: Duration) -> u64 {
    let once = |steps: u64| {
        let start = Instant::now();
        compute(steps);
        start.elapsed()
    };
    const STEPS: u64 = 100_000;
    let fastest = (0..20).map(|_| once(STEPS)).min().unwrap_or_default();
    (STEPS as f64 * time.as_secs_f64() / fastest.as_secs_f64()) as u64
}

fn cpu_time() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}

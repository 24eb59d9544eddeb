//! What submission costs for each item, one by one and as a batch: one issuer queues a burst of
//! reusable items, waits until all have run, and repeats.
//!
//! `cargo run --release -p cmwq-measure --bin batch_cost`

use cmwq::{Completion, Engine, Work, Workqueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ROUND: Duration = Duration::from_millis(100);
const ROUNDS: usize = 9;

struct Burst {
    left: Line<AtomicUsize>,
    done: Line<Completion>,
}

/// The issuer polls one of them while items write to the other.
#[repr(align(128))]
struct Line<T>(T);

impl Burst {
    fn item_ends(&self) {
        if self.left.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.0.complete_one();
        }
    }
}

/// A name, how to submit a burst, and what came of it.
type Way<'a> = (&'a str, &'a dyn Fn(), Vec<(f64, f64)>);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().build()?;
    let queue = engine.workqueue("bursts").build()?;
    println!(
        "items of a burst: ns of submission for each item, and items/s of the whole (medians of {ROUNDS})"
    );
    for size in [1, 10, 100, 1000] {
        let burst = Arc::new(Burst {
            left: Line(AtomicUsize::new(0)),
            done: Line(Completion::new()),
        });
        let works: Vec<Work> = (0..size)
            .map(|_| {
                let burst = burst.clone();
                Work::new(move || burst.item_ends())
            })
            .collect();
        let mut ways: [Way<'_>; 4] = [
            (
                "queue",
                &|| {
                    works
                        .iter()
                        .for_each(|work| assert!(queue.queue(work).is_accepted()))
                },
                vec![],
            ),
            (
                "queue_batch",
                &|| assert!(queue.queue_batch(&works).is_complete()),
                vec![],
            ),
            ("execute", &|| execute_each(&queue, &burst, size), vec![]),
            (
                "execute_batch",
                &|| execute_batch(&queue, &burst, size),
                vec![],
            ),
        ];
        // In turns, so that a slow minute of the machine is everybody's.
        for _ in 0..ROUNDS {
            for (_, submit, results) in &mut ways {
                results.push(measure(&burst, size, submit));
            }
        }
        for (name, _, mut results) in ways {
            results.sort_by(|one, other| one.0.total_cmp(&other.0));
            let cost = results[ROUNDS / 2].0;
            results.sort_by(|one, other| one.1.total_cmp(&other.1));
            println!(
                "{size:>5} {name:<14} {cost:>7.1} ns {:>12.0} items/s",
                results[ROUNDS / 2].1
            );
        }
    }
    Ok(())
}

fn execute_each(queue: &Workqueue, burst: &Arc<Burst>, size: usize) {
    for _ in 0..size {
        let burst = burst.clone();
        queue
            .execute(move || burst.item_ends())
            .expect("it does not drain");
    }
}

fn execute_batch(queue: &Workqueue, burst: &Arc<Burst>, size: usize) {
    let items = (0..size).map(|_| {
        let burst = burst.clone();
        move || burst.item_ends()
    });
    assert_eq!(queue.execute_batch(items), Ok(size));
}

/// The cost of submission in ns for each item, and how many items ran in a second.
fn measure(burst: &Burst, size: usize, submit: &dyn Fn()) -> (f64, f64) {
    let (begin, mut submitting, mut items) = (Instant::now(), Duration::ZERO, 0);
    while begin.elapsed() < ROUND {
        burst.left.0.store(size, Ordering::Relaxed);
        let start = Instant::now();
        submit();
        submitting += start.elapsed();
        burst.done.0.wait();
        items += size;
    }
    let items = items as f64;
    (
        submitting.as_nanos() as f64 / items,
        items / begin.elapsed().as_secs_f64(),
    )
}

//! Rates of this package and of the original, in turns: `cargo run --release --example threadpool_rates [ROUNDS]`.

use std::hint::black_box;
use std::process::exit;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// The same loops for both packages.
macro_rules! loops {
    ($package:ident) => {
        fn rate(jobs: usize, f: fn(usize)) -> f64 {
            let pool = $package::ThreadPool::new(8);
            // Its threads are there.
            (0..8).for_each(|_| pool.execute(|| thread::sleep(Duration::from_millis(1))));
            pool.join();
            let begin = Instant::now();
            for i in 0..jobs {
                pool.execute(move || f(i));
            }
            pool.join();
            jobs as f64 / begin.elapsed().as_secs_f64()
        }

        pub(super) fn empty() -> f64 {
            rate(200_000, |i| {
                black_box(i);
            })
        }

        pub(super) fn compute() -> f64 {
            rate(20_000, |_| spin())
        }

        pub(super) fn block() -> f64 {
            rate(2_000, |i| match i % 4 {
                0 => thread::sleep(Duration::from_millis(1)),
                _ => spin(),
            })
        }
    };
}

/// Computes for about 20 microseconds on a CPU alone. Not until that time has passed: it passes for a thread that was preempted as well, and
/// the more threads a pool has the less it would compute.
fn spin() {
    /// So many steps, each of which needs the one before it.
    fn steps(count: u32) {
        let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..count {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        black_box(x);
    }
    /// So many take 20 microseconds, when nothing disturbs them.
    static COUNT: LazyLock<u32> = LazyLock::new(|| {
        const TRIAL: u32 = 10_000;
        let takes = |_| {
            let begin = Instant::now();
            steps(TRIAL);
            begin.elapsed()
        };
        let trial = (0..1000).map(takes).min().expect("some");
        (20_000 * u64::from(TRIAL) / (trial.as_nanos() as u64).max(1)) as u32
    });
    steps(*COUNT);
}

mod ours {
    use super::*;
    loops!(threadpool);
}
mod theirs {
    use super::*;
    loops!(original);
}

type Loop = fn() -> f64;

const LOOPS: [(&str, Loop, Loop); 3] = [
    ("empty jobs, /s", ours::empty, theirs::empty),
    ("jobs of 20 us, /s", ours::compute, theirs::compute),
    ("every fourth sleeps 1 ms, /s", ours::block, theirs::block),
];

/// "median (min to max)", and the median.
fn summary(mut rates: Vec<f64>) -> (String, f64) {
    rates.sort_by(f64::total_cmp);
    let (min, max) = (rates[0], rates[rates.len() - 1]);
    let median = rates[rates.len() / 2];
    (format!("{median:9.0} ({min:9.0} to {max:9.0})"), median)
}

fn main() {
    let rounds = match std::env::args().nth(1).as_deref() {
        None => 7,
        Some("--help" | "-h") => {
            println!(
                "usage: threadpool_rates [ROUNDS]\n\nEach loop with both packages in turns, ROUNDS times (7). For example: threadpool_rates 3"
            );
            return;
        }
        Some(text) => text
            .parse()
            .ok()
            .filter(|&rounds| rounds > 0)
            .unwrap_or_else(|| {
                eprintln!("threadpool_rates: '{text}' is no number of rounds");
                exit(2)
            }),
    };
    println!(
        "{:28} {:^34} {:^34}  ratio",
        "median (min to max), 8 threads", "on cmwq", "original"
    );
    for (name, ours, theirs) in LOOPS {
        let both: (Vec<f64>, Vec<f64>) = (0..rounds).map(|_| (ours(), theirs())).unzip();
        let ((ours, a), (theirs, b)) = (summary(both.0), summary(both.1));
        println!("{name:28} {ours} {theirs}  {:.2}", a / b);
    }
}

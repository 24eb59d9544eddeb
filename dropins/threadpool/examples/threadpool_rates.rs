//! Rates of this package and of the original, in turns: `cargo run --release --example threadpool_rates [ROUNDS]`.

use std::process::exit;
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
                std::hint::black_box(i);
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

/// Computes for about 20 microseconds.
fn spin() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(20) {
        std::hint::spin_loop();
    }
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

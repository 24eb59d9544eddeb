//! Rates of this package and of the original, in turns: `cargo run --release --example threadpool_rates [ROUNDS]`.

#[path = "../../rates.rs"]
mod rates;

use rates::{Loop, compare, spin};
use std::hint::black_box;
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

mod ours {
    use super::*;
    loops!(threadpool);
}
mod theirs {
    use super::*;
    loops!(original);
}

const LOOPS: [(&str, Loop, Loop); 3] = [
    ("empty jobs, /s", ours::empty, theirs::empty),
    ("jobs of 20 us, /s", ours::compute, theirs::compute),
    ("every fourth sleeps 1 ms, /s", ours::block, theirs::block),
];

fn main() {
    compare("threadpool_rates", ", 8 threads", &LOOPS);
}

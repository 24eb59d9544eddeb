//! Rates of this package and of the original, in turns: `cargo run --release --example
//! affinitypool_rates [ROUNDS]`.

#[path = "../../rates.rs"]
mod rates;

use futures_lite::future::block_on;
use rates::{Loop, compare, spin};
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// `threads` threads call `f`, and the sum of what they return is divided by the time that it takes.
fn rate(threads: usize, f: impl Fn() -> usize + Sync) -> f64 {
    let begin = Instant::now();
    let sum: usize = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(&f)).collect();
        handles
            .into_iter()
            .map(|h| h.join().expect("no panic"))
            .sum()
    });
    sum as f64 / begin.elapsed().as_secs_f64()
}

/// The same loops for both packages, on pools with as many threads as CPUs; those whose closures
/// block have 16.
macro_rules! loops {
    ($package:ident) => {
        pub(super) fn one_at_a_time() -> f64 {
            let pool = $package::Threadpool::default();
            rate(1, || {
                let all = 0..20_000_usize;
                let sum = async {
                    let mut sum = 0;
                    for i in all.clone() {
                        sum += pool.spawn(move || black_box(i)).await;
                    }
                    sum
                };
                assert_eq!(block_on(sum), all.clone().sum());
                all.len()
            })
        }

        /// Of closures that borrow.
        pub(super) fn local() -> f64 {
            let pool = $package::Threadpool::default();
            rate(1, || {
                let mut done = 0;
                block_on(async {
                    for i in 0..20_000_usize {
                        // SAFETY: it is awaited at once.
                        done += unsafe { pool.spawn_local(|| black_box(&i).min(&1)) }.await;
                    }
                });
                assert_eq!(done, 19_999);
                20_000
            })
        }

        /// `windows` times 64 closures at once, and all are waited for.
        fn windows(pool: &$package::Threadpool, windows: usize, f: fn(usize)) -> usize {
            block_on(async {
                for _ in 0..windows {
                    let tasks: Vec<_> = (0..64).map(|i| pool.spawn(move || f(i))).collect();
                    for task in tasks {
                        task.await;
                    }
                }
            });
            windows * 64
        }

        pub(super) fn empty() -> f64 {
            let pool = $package::Threadpool::default();
            rate(1, || {
                windows(&pool, 1000, |i| {
                    black_box(i);
                })
            })
        }

        pub(super) fn metadata() -> f64 {
            let pool = $package::Threadpool::default();
            rate(1, || {
                windows(&pool, 500, |_| {
                    black_box(std::fs::metadata("/").expect("a root"));
                })
            })
        }

        pub(super) fn compute() -> f64 {
            let pool = $package::Threadpool::default();
            rate(2, || windows(&pool, 150, |_| spin()))
        }

        pub(super) fn block() -> f64 {
            let pool = $package::Threadpool::new(16);
            rate(2, || {
                windows(&pool, 50, |i| match i % 4 {
                    0 => thread::sleep(Duration::from_millis(1)),
                    _ => spin(),
                })
            })
        }
    };
}

mod ours {
    use super::*;
    loops!(affinitypool);
}
mod theirs {
    use super::*;
    loops!(original);
}

const LOOPS: [(&str, Loop, Loop); 6] = [
    (
        "one at a time, /s",
        ours::one_at_a_time,
        theirs::one_at_a_time,
    ),
    ("one that borrows, /s", ours::local, theirs::local),
    ("64 empty ones, /s", ours::empty, theirs::empty),
    ("64 fs::metadata, /s", ours::metadata, theirs::metadata),
    ("64 of 20 us, 2 issuers, /s", ours::compute, theirs::compute),
    ("every fourth sleeps 1 ms, /s", ours::block, theirs::block),
];

fn main() {
    compare("affinitypool_rates", "", &LOOPS);
}

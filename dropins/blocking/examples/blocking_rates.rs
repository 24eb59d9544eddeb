//! Rates of this package and of the original, in turns: `cargo run --release --example
//! blocking_rates [ROUNDS]`.

#[path = "../../rates.rs"]
mod rates;

use futures_lite::future::block_on;
use futures_lite::{AsyncReadExt, StreamExt};
use rates::{Loop, compare, spin};
use std::hint::black_box;
use std::io::Cursor;
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

/// The same loops for both packages.
macro_rules! loops {
    ($package:ident) => {
        pub(super) fn one_at_a_time() -> f64 {
            rate(1, || {
                let all = 0..20_000_usize;
                let sum = async {
                    let mut sum = 0;
                    for i in all.clone() {
                        sum += $package::unblock(move || black_box(i)).await;
                    }
                    sum
                };
                assert_eq!(block_on(sum), all.clone().sum());
                all.len()
            })
        }

        /// `windows` times 64 closures at once, and all are waited for.
        fn windows(windows: usize, f: fn(usize)) -> usize {
            block_on(async {
                for _ in 0..windows {
                    let tasks: Vec<_> = (0..64).map(|i| $package::unblock(move || f(i))).collect();
                    for task in tasks {
                        task.await;
                    }
                }
            });
            windows * 64
        }

        pub(super) fn empty() -> f64 {
            rate(1, || {
                windows(1000, |i| {
                    black_box(i);
                })
            })
        }

        pub(super) fn metadata() -> f64 {
            rate(1, || {
                windows(500, |_| {
                    black_box(std::fs::metadata("/").expect("a root"));
                })
            })
        }

        pub(super) fn compute() -> f64 {
            rate(2, || windows(150, |_| spin()))
        }

        pub(super) fn block() -> f64 {
            rate(2, || {
                windows(50, |i| match i % 4 {
                    0 => thread::sleep(Duration::from_millis(1)),
                    _ => spin(),
                })
            })
        }

        pub(super) fn read() -> f64 {
            rate(1, || {
                let mut source = $package::Unblock::new(Cursor::new(vec![1; 64 << 20]));
                let (mut buf, mut all) = (vec![0; 64 << 10], 0);
                block_on(async {
                    while let n @ 1.. = source.read(&mut buf).await.expect("it reads") {
                        all += n;
                    }
                });
                all >> 20
            })
        }

        pub(super) fn items() -> f64 {
            rate(1, || block_on($package::Unblock::new(0..200_000).count()))
        }
    };
}

mod ours {
    use super::*;
    loops!(blocking);
}
mod theirs {
    use super::*;
    loops!(original);
}

const LOOPS: [(&str, Loop, Loop); 7] = [
    (
        "one at a time, /s",
        ours::one_at_a_time,
        theirs::one_at_a_time,
    ),
    ("64 empty ones, /s", ours::empty, theirs::empty),
    ("64 fs::metadata, /s", ours::metadata, theirs::metadata),
    ("64 of 20 us, 2 issuers, /s", ours::compute, theirs::compute),
    ("every fourth sleeps 1 ms, /s", ours::block, theirs::block),
    ("Unblock reads, MiB/s", ours::read, theirs::read),
    ("Unblock iterates, items/s", ours::items, theirs::items),
];

fn main() {
    compare("blocking_rates", "", &LOOPS);
}

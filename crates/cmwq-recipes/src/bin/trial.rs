//! A first trial: the same requests on tokio's blocking threads and on a workqueue, in turns. One
//! file, to be copied into an empty project that depends on cmwq and tokio; then put your own work
//! in the place of `compute` and `wait`.

use cmwq::Workqueue;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const ROUNDS: usize = 7;

/// A few microseconds of computing.
fn compute(request: u64) -> u64 {
    (0..2_000).fold(request, |hash: u64, step| {
        hash.wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(step)
            .rotate_left(17)
    })
}

/// A system call that takes a while: a read from a disk, a request to a server.
fn wait() {
    std::thread::sleep(Duration::from_millis(1));
}

/// Every fourth request waits, if `waits`.
fn must_wait(request: u64, waits: bool) -> bool {
    waits && request.is_multiple_of(4)
}

async fn with_tokio(requests: u64, waits: bool) -> Result<u64, tokio::task::JoinError> {
    let spawn = |request| {
        tokio::task::spawn_blocking(move || {
            if must_wait(request, waits) {
                wait();
            }
            compute(request)
        })
    };
    let handles: Vec<_> = (0..requests).map(spawn).collect();
    let mut sum = 0_u64;
    for handle in handles {
        sum = sum.wrapping_add(handle.await?);
    }
    Ok(sum)
}

async fn with_cmwq(queue: &Workqueue, requests: u64, waits: bool) -> Result<u64, cmwq::JoinError> {
    let spawn = |request| {
        queue.spawn(move || {
            if must_wait(request, waits) {
                // Says that the worker blocks: another one runs meanwhile.
                cmwq::blocking(wait);
            }
            compute(request)
        })
    };
    let handles: Vec<_> = (0..requests).map(spawn).collect();
    let mut sum = 0_u64;
    for handle in handles {
        sum = sum.wrapping_add(handle.await?);
    }
    Ok(sum)
}

/// Items each second, from the least to the greatest of the rounds.
fn rates(requests: u64, mut times: Vec<Duration>) -> Vec<f64> {
    times.sort_unstable();
    let rate = |time: &Duration| requests as f64 / time.as_secs_f64();
    times.iter().rev().map(rate).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new()?;
    let queue = Workqueue::builder("trial").max_active(512).build()?;
    for (what, requests, waits) in [
        ("computing", 20_000, false),
        ("every fourth waits for 1 ms", 4_000, true),
    ] {
        let (mut tokio_times, mut cmwq_times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let before = runtime.block_on(with_tokio(requests, waits))?;
            tokio_times.push(start.elapsed());
            let start = Instant::now();
            let after = runtime.block_on(with_cmwq(&queue, requests, waits))?;
            cmwq_times.push(start.elapsed());
            assert_eq!(before, after, "the same results");
        }
        let [tokio, cmwq] = [tokio_times, cmwq_times].map(|times| rates(requests, times));
        println!("{what}, {requests} requests, median of {ROUNDS} rounds (least to greatest):");
        for (name, rates) in [("spawn_blocking", &tokio), ("cmwq", &cmwq)] {
            let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| rates[at]);
            println!("  {name:<14} {median:>9.0} items/s ({least:.0} to {most:.0})");
        }
        println!(
            "  cmwq makes {:.2} times as many",
            cmwq[ROUNDS / 2] / tokio[ROUNDS / 2]
        );
    }
    Ok(())
}

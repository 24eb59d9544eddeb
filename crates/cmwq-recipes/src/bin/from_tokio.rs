//! From tokio's `spawn_blocking`: the same requests, computed on tokio's blocking threads and on a workqueue.

use cmwq::{JoinError, Workqueue};
use cmwq_recipes::{digest, rate};
use std::ops::Range;
use tokio::runtime::Runtime;

async fn with_tokio(requests: Range<u64>) -> Result<u64, tokio::task::JoinError> {
    let mut sum = 0_u64;
    let handles: Vec<_> = requests
        .map(|request| tokio::task::spawn_blocking(move || digest(request)))
        .collect();
    for handle in handles {
        sum = sum.wrapping_add(handle.await?);
    }
    Ok(sum)
}

async fn with_cmwq(queue: &Workqueue, requests: Range<u64>) -> Result<u64, JoinError> {
    let mut sum = 0_u64;
    let handles: Vec<_> = requests
        .map(|request| queue.spawn(move || digest(request)))
        .collect();
    for handle in handles {
        sum = sum.wrapping_add(handle.await?);
    }
    Ok(sum)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const REQUESTS: u64 = 20_000;
    let runtime = Runtime::new()?;
    let queue = Workqueue::builder("digest").max_active(512).build()?;
    let before = rate("spawn_blocking", REQUESTS, || {
        runtime.block_on(with_tokio(0..REQUESTS))
    })?;
    let after = rate("cmwq", REQUESTS, || {
        runtime.block_on(with_cmwq(&queue, 0..REQUESTS))
    })?;
    assert_eq!(before, after);
    println!("equal results");
    Ok(())
}

//! From rayon: `join`, a loop over parts of a slice, and a sum, with rayon and on a workqueue.

use cmwq::Workqueue;
use cmwq::types::Chunks;
use cmwq_recipes::{digest, rate};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

fn join_with_rayon(left: &mut [u64], right: &mut [u64]) {
    rayon::join(|| left.sort_unstable(), || right.sort_unstable());
}

fn join_with_cmwq(queue: &Workqueue, left: &mut [u64], right: &mut [u64]) {
    cmwq::scope(queue, |s| {
        s.spawn(|| left.sort_unstable());
        right.sort_unstable();
    });
}

fn fill_with_rayon(out: &mut [u64]) {
    out.par_chunks_mut(1_000).enumerate().for_each(fill);
}

fn fill_with_cmwq(queue: &Workqueue, out: &mut [u64]) {
    cmwq::scope(queue, |s| {
        for part in out.chunks_mut(1_000).enumerate() {
            s.spawn(|| fill(part));
        }
    });
}

fn fill((number, part): (usize, &mut [u64])) {
    for (index, value) in part.iter_mut().enumerate() {
        *value = digest((number * 1_000 + index) as u64);
    }
}

fn sum_with_rayon(values: &[u64]) -> u64 {
    values.par_iter().map(|&value| digest(value) >> 32).sum()
}

fn sum_with_cmwq(queue: &Workqueue, values: &[u64]) -> u64 {
    let sum = AtomicU64::new(0);
    queue.for_each_chunk(0..values.len(), Chunks::default(), |chunk| {
        let part = values[chunk].iter().map(|&value| digest(value) >> 32).sum();
        sum.fetch_add(part, Ordering::Relaxed);
    });
    sum.into_inner()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const LEN: usize = 20_000;
    let queue = Workqueue::builder("loops").build()?;
    let (mut one, mut two) = (vec![0; LEN], vec![0; LEN]);
    rate("rayon", LEN as u64, || fill_with_rayon(&mut one));
    rate("cmwq", LEN as u64, || fill_with_cmwq(&queue, &mut two));
    assert_eq!(one, two);
    assert_eq!(sum_with_rayon(&one), sum_with_cmwq(&queue, &two));
    let half = LEN / 2;
    let (left, right) = one.split_at_mut(half);
    join_with_rayon(left, right);
    let (left, right) = two.split_at_mut(half);
    join_with_cmwq(&queue, left, right);
    assert_eq!(one, two);
    println!("equal results");
    Ok(())
}

//! What the recipes of docs/adopting.md have in common: something to compute, and a clock around it.

use std::time::Instant;

/// Stands for the work that a program hands over: a few microseconds of computing.
pub fn digest(request: u64) -> u64 {
    (0..2_000).fold(request, |hash, step| {
        hash.wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(step)
            .rotate_left(17)
    })
}

/// Runs `items`, prints how many a second were done, and gives their result.
pub fn rate<T>(what: &str, count: u64, items: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = items();
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {:.0} items/s", count as f64 / seconds);
    result
}

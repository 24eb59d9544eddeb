//! What the functions of items do: compute, wait, panic.

use super::library::{Completion, blocking};
use super::world::World;
use super::{Random, os};
use std::sync::Arc;
use std::time::Duration;

/// Computes, mostly for an instant.
pub(crate) fn compute(random: &mut Random) {
    let ns = match random.below(256) {
        // A CPU hog.
        0 => 15_000_000,
        1..4 => 50_000,
        4..16 => 3_000,
        _ => random.below(400),
    };
    os::compute(ns as u64);
    if random.one_in(8) {
        // No sleep: a BH item may do it too, and gives others the chance to get in wrongly.
        os::yield_now();
    }
}

/// Waits for something in one of the ways that there are, now and then.
pub(crate) fn block(world: &World, random: &mut Random) {
    match random.below(1024) {
        // Long enough for others to queue up behind.
        0..64 => {
            let time = Duration::from_micros(random.below(400) as u64);
            blocking(|| os::sleep(time));
        }
        64..80 => os::sleep(Duration::from_micros(random.below(400) as u64)),
        // Long enough for the monitor to find out.
        80 => os::sleep(Duration::from_millis(6)),
        81..97 => {
            let value = random.bits();
            let got = world.helper.spawn(move || value).join();
            let answered = got.is_ok_and(|got| got == value);
            world
                .broken
                .expect(answered, || "the helper did not answer".into());
        }
        97..113 => {
            let done = Arc::new(Completion::new());
            let of_item = done.clone();
            drop(world.helper.spawn(move || of_item.complete()));
            if !done.wait_timeout(Duration::from_micros(20)) {
                done.wait();
            }
        }
        113..117 => world.helper.flush().expect("not one of its items"),
        _ => {}
    }
}

/// Lasts for up to so many us, in one of the ways that there are, most of the time.
pub(crate) fn linger(most_us: u64, random: &mut Random) {
    if most_us == 0 {
        return;
    }
    let time = Duration::from_micros(random.below(most_us as usize) as u64);
    match random.below(8) {
        0 => os::compute(time.as_nanos() as u64),
        1 | 2 => os::sleep(time),
        3..6 => blocking(|| os::sleep(time)),
        _ => {}
    }
}

/// The caller sleeps until the condition holds: `first` the first time, and twice as long each
/// further time, up to 5 ms.
pub(crate) fn sleep_until(first: Duration, mut holds: impl FnMut() -> bool) {
    let mut pause = first;
    while !holds() {
        os::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(5));
    }
}

//! Which items are samples, and for how many each stands.

use super::*;
use crate::Work;
use crate::pool::queue::pwq::Traits;
use crate::pool::stubs;

/// Queues items as an issuer does, and says which of them are samples. Their addresses are their
/// numbers times 64.
fn samples(sampler: &Sampler, items: std::ops::Range<usize>) -> Vec<usize> {
    items
        .filter(|item| sampler.is_due() && sampler.sample(item * 64))
        .collect()
}

#[test]
fn a_sample_has_a_wait_and_a_run() {
    let sampler = Sampler::new();
    let mut times = Times::new(sampler.clone());
    assert!(sampler.is_due(), "the very first item is one");
    assert!(sampler.sample(0x1000));
    let now_ns = clock::now_ns();
    assert!(
        sampler
            .longest_wait_ns(now_ns + 5_000)
            .is_some_and(|ns| ns >= 5_000)
    );
    let coarse_ns = 7 << TICK_SHIFT;
    assert_eq!(times.start(0x3000, 1, coarse_ns), 0, "another item");
    let started_ns = times.start(0x1000, 2, coarse_ns);
    assert!(started_ns > 0);
    assert_eq!(sampler.longest_wait_ns(now_ns), None);
    times.end(started_ns);
    times.batch(10, 5_000);
    let counts = times.histograms().map(LatencyHistogram::count);
    assert_eq!(counts, [1, 2]);
    // A taken slot, and a sample that is cancelled.
    assert!(sampler.sample(0x1000) && !sampler.sample(0x1000));
    times.forget(0x1000);
    assert!(sampler.sample(0x1000));
}

/// The first items of a burst wait for the shortest time, the last ones for the longest.
#[test]
fn the_samples_of_a_burst_come_from_all_of_it_and_stand_for_the_others() {
    // All live until the end. A thread knows samplers by their addresses, so a new one at the
    // address of one that is gone would go on with its burst.
    let samplers = [(); 4].map(|()| Sampler::new());
    for (sampler, burst) in samplers.iter().zip([1, 20, 150, 5_000]) {
        let mut times = Times::new(sampler.clone());
        let taken = samples(sampler, 1..burst + 1);
        for two in taken.windows(2) {
            assert!(two[1] - two[0] <= two[0] * 3 / 4 + 4, "{taken:?}");
        }
        assert!(taken.len() < SLOTS, "{taken:?}");
        let last = *taken.last().expect("the first item");
        assert!(last * 3 / 2 >= burst, "{burst}: {taken:?}");
        for item in 1..=burst {
            let timed = times.start(item * 64, item as u64, 0) > 0;
            assert_eq!(timed, taken.contains(&item), "{item}");
        }
        let [wait, _] = times.histograms();
        assert_eq!(wait.count(), last as u64, "{taken:?}");
    }
}

#[test]
fn a_tick_brings_new_samples_and_not_too_many() {
    let sampler = Sampler::new();
    let mut times = Times::new(sampler.clone());
    let first = samples(&sampler, 1..100);
    assert!(samples(&sampler, 100..101).is_empty());
    for item in &first {
        times.forget(item * 64);
    }
    // Something starts, in the same tick and in the next one.
    times.start(0x3000, 1, 0);
    assert!(samples(&sampler, 100..101).is_empty());
    times.start(0x3000, 1, 1 << TICK_SHIFT);
    assert_eq!(samples(&sampler, 101..102), [101]);
    times.forget(101 * 64);
    // Many threads are issuers.
    let mut all = 0;
    for _ in 0..SLOTS {
        let own = std::thread::scope(|scope| {
            let issuer = scope.spawn(|| samples(&sampler, 1..10));
            issuer.join().expect("no panic")
        });
        own.iter().for_each(|item| times.forget(item * 64));
        all += own.len();
    }
    assert_eq!(all, SLOTS - 1);
}

#[test]
fn an_issuer_that_goes_on_goes_on_with_few_samples() {
    for (ticks, most) in [(1, 8), (NO_PAUSE, 8), (NO_PAUSE + 1, SLOTS)] {
        let sampler = Sampler::new();
        let mut times = Times::new(sampler.clone());
        for item in samples(&sampler, 1..5_000) {
            times.forget(item * 64);
        }
        times.start(0, 1, u64::from(ticks) << TICK_SHIFT);
        let again = samples(&sampler, 5_000..10_000);
        assert_eq!(again[0], 5_000);
        let few = again.len() <= 8;
        assert_eq!(few, most == 8, "{ticks} ticks: {again:?}");
    }
}

/// The item after a chunk can be the next sample.
#[test]
fn a_chunk_ends_where_a_sample_is_due() {
    let sampler = Sampler::new();
    let _times = Times::new(sampler.clone());
    let taken = samples(&sampler, 1..7);
    assert_eq!(taken, [1, 2, 4, 6]);
    // The next one is number 10.
    assert!(samples(&sampler, 7..8).is_empty());
    assert_eq!(until_sample(4, 128), None, "number 7 and two more");
    assert_eq!(until_sample(3, 128), Some(3));
    // If its slot is in use, one of the next ones.
    assert_eq!(samples(&sampler, 10..14).len(), 1);
}

#[test]
fn a_wait_stands_for_no_item_that_was_queued_much_earlier() {
    let sampler = Sampler::new();
    let mut times = Times::new(sampler.clone());
    times.counted_ns = clock::now_ns() - (2 << TICK_SHIFT);
    assert_eq!(samples(&sampler, 1..2), [1]);
    times.start(64, 500, 0);
    assert_eq!(times.histograms()[0].count(), 1);
}

#[test]
fn an_item_that_is_no_sample_has_no_run_either() {
    let pool = stubs::pool(1024, 0);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 8);
    stubs::queue(&pool, pwq, &Work::new(|| ()));
    stubs::run_all(&pool);
    let guard = pool.lock();
    let histograms = guard.pwqs[pwq.index].times.histograms();
    assert_eq!(histograms.map(LatencyHistogram::count), [0, 0]);
    assert_eq!(guard.stats.completed, 1);
}

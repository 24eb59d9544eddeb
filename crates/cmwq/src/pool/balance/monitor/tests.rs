//! The monitor's ticks, in virtual time, at pools that have no threads.

use super::*;
use crate::Work;
use crate::pool::attrs::cpu_budget::Share;
use crate::pool::attrs::params::Params;
use crate::pool::queue::pwq::Traits;
use crate::pool::state::group::Group;
use crate::pool::stubs;
use crate::sys::atomic::Ordering;

const START: u64 = 1_000_000_000;

fn monitor(pool: &Arc<Pool>) -> Monitor {
    let mut monitor = Monitor::default();
    monitor.add(Arc::downgrade(pool));
    monitor
}

fn wants_thieves(pool: &Pool) -> bool {
    pool.wants_thieves.load(Ordering::Relaxed)
}

/// Those of these pools that were asked to send a thief: none has a worker, so each asked for one.
fn called(pools: &[Arc<Pool>]) -> Vec<u32> {
    let called = pools.iter().filter(|pool| pool.lock().creating);
    called.map(|pool| pool.id).collect()
}

#[test]
fn what_waits_is_offered_to_neighbours_within_100_us_of_the_first_tick() {
    let group = Group::new();
    let pool = stubs::saturated(&group, 41, &[0], 2);
    let neighbours =
        [(42, 3), (43, 1), (44, 2)].map(|(id, cpu)| stubs::pool_on(&group, id, &[cpu]));
    let mut monitor = monitor(&pool);
    let next = monitor.tick(START).expect("it goes on");
    assert!((START + 1..START + 50_000).contains(&next), "{next}");
    assert_eq!(monitor.tick(next - 1), Some(next));
    assert!(!wants_thieves(&pool) && called(&neighbours).is_empty());
    assert_eq!(monitor.tick(next), Some(START + 2_000_000), "2 ms");
    assert!(wants_thieves(&pool));
    assert_eq!(
        called(&neighbours),
        [43, 44],
        "one for each item, the nearest"
    );
    // It is taken back at the first look at which nothing waits.
    stubs::run_all(&pool);
    assert_eq!(monitor.tick(START + PERIOD_NS), Some(START + 2 * PERIOD_NS));
    assert!(!wants_thieves(&pool));
}

#[test]
fn a_pool_that_gets_on_wants_help_only_if_its_items_are_long_enough_and_the_last_waits_for_longer_than_a_steal()
 {
    // So many wait, and between two ticks so many have ended.
    for (waiting, ended, wants) in [
        (100, 0, true),
        (100, 100, true),
        (10, 1290, true),
        (10, 1340, false),
        (1000, 1900, true),
        (1000, 2100, false),
        (1000, 100_000, false),
    ] {
        let group = Group::new();
        let pool = stubs::saturated(&group, 45, &[0], waiting);
        let neighbour = stubs::pool_on(&group, 46, &[1]);
        let mut monitor = monitor(&pool);
        let second = monitor.tick(START).expect("it goes on");
        monitor.tick(second);
        let third = START + PERIOD_NS;
        pool.lock().stats.completed += ended;
        monitor.tick(third);
        assert_eq!(wants_thieves(&pool), wants, "{waiting} wait, {ended} ended");
        assert_eq!(called(&[neighbour]), [46], "by the second");
    }
}

#[test]
fn a_pool_without_neighbours_asks_for_no_thief() {
    let pool = stubs::saturated(&Group::new(), 47, &[0], 2);
    let mut alone = monitor(&pool);
    assert_eq!(alone.tick(START), Some(START + PERIOD_NS));
}

/// It may wait for its CPU, or a new one for the thread that creates it.
#[test]
fn what_waits_for_a_worker_on_its_way_is_offered_to_neighbours_too() {
    for looks in [2, 3] {
        let group = Group::new();
        let pool = stubs::saturated(&group, 48, &[0], 2);
        let neighbour = stubs::pool_on(&group, 49, &[1]);
        let mut monitor = monitor(&pool);
        // It is saturated until the last look.
        let mut at = START;
        for look in 1..=looks {
            if look == looks {
                pool.set_wants_thieves(false);
                neighbour.lock().creating = false;
                pool.lock().counts.set_running(0);
                assert!(pool.lock().creating, "nobody else comes");
            }
            at = monitor.tick(at).expect("it goes on");
        }
        assert!(wants_thieves(&pool), "{looks} looks");
        assert_eq!(called(&[neighbour]), [49], "{looks} looks");
    }
}

#[test]
fn a_pool_where_nothing_waits_any_more_is_forgotten_after_25_looks() {
    let pool = stubs::saturated(&Group::new(), 50, &[0], 1);
    pool.lock().watched = true;
    let mut monitor = monitor(&pool);
    let mut now = START;
    let tick = |monitor: &mut Monitor, now: &mut u64| {
        let next = monitor.tick(*now);
        *now += PERIOD_NS;
        next.is_some()
    };
    for _ in 0..100 {
        assert!(tick(&mut monitor, &mut now), "something waits");
    }
    stubs::run_all(&pool);
    let ticks = (1..100).find(|_| !tick(&mut monitor, &mut now));
    assert_eq!(ticks, Some(FORGET_AFTER));
    assert!(monitor.is_empty() && !pool.lock().watched);
}

#[test]
fn a_pool_is_looked_at_for_as_long_as_others_want_its_slot() {
    let params = Arc::new(Params::default());
    params.slots.set_limit(Some(1));
    let [holds, waits] = [51, 52].map(|id| {
        let pool = stubs::pool_of(&params, id);
        let pwq = stubs::add_pwq(&pool, Traits::default(), 10);
        stubs::queue(&pool, pwq, &Work::new(|| ()));
        pool
    });
    assert_eq!(params.slots.usage(), (1, 1));
    holds.lock().counts.set_running(1);
    stubs::run_all(&holds);
    let mut monitor = monitor(&holds);
    let tick = |nth| monitor.tick(START + nth * PERIOD_NS);
    assert!((0..100).map(tick).all(|next| next.is_some()));
    drop(waits);
}

#[test]
fn a_pool_that_pauses_below_a_quota_stays_saturated_and_as_fast_as_it_was() {
    const PART: u64 = PERIOD_NS / 4;
    let pool = stubs::saturated(&Group::new(), 56, &[0], 20);
    let mut monitor = monitor(&pool);
    // Items of 20 us.
    let mut runs_until = |now, ns: u64| {
        pool.lock().stats.completed += ns / 20_000;
        let next = monitor.tick(now).expect("it is watched");
        (pool.pending_wakeups.may_defer(), next)
    };
    let mut now = START;
    for nth in 0..4 {
        now += PERIOD_NS;
        assert_eq!(runs_until(now, PERIOD_NS).0, nth > 0, "tick {nth}");
    }
    // A pause has begun before each tick, and nothing runs.
    let budget = &pool.attrs.params.cpu_budget;
    pool.lock().counts.set_running(0);
    for nth in 0..PROMPT_AFTER + 1 {
        budget.pauses_from(now + 3 * PART, 2 * PART);
        now += 4 * PART;
        assert!(runs_until(now, 3 * PART).0, "pause {nth}");
        now += PART;
    }
    // A long one: too little time is left to tell how fast items end.
    budget.pauses_from(now, 100 * PERIOD_NS);
    let ends = now + 100 * PERIOD_NS;
    for _ in 0..50 {
        now += PERIOD_NS;
        let (may_defer, next) = runs_until(now, 0);
        assert!(may_defer, "the pause lasts");
        assert!(next > ends, "a tick would only use up CPU time");
    }
    now += 51 * PERIOD_NS;
    pool.lock().counts.set_running(1);
    assert!(runs_until(now, PERIOD_NS).0, "it is not counted");
    drop(pool.pending_wakeups.forbid());
}

#[test]
fn below_a_small_quota_ticks_are_rare() {
    let pool = stubs::saturated(&Group::new(), 57, &[0], 20);
    let mut monitor = monitor(&pool);
    let mut now = START;
    let mut periods = |quota_us| {
        let period_us = 100_000;
        let share = Share {
            quota_us,
            period_us,
        };
        pool.attrs.params.cpu_budget.set(Some(share));
        let passed_ns = monitor.tick(now).expect("it is watched") - now;
        now += passed_ns;
        passed_ns / PERIOD_NS
    };
    // The first two ticks follow each other at once.
    let _ = [(); 2].map(|()| periods(100_000));
    let found = [100_000, 25_000, 10_000, 1_000, 100].map(periods);
    assert_eq!(found, [1, 1, 3, 25, 50]);
    drop(pool.pending_wakeups.forbid());
}

#[test]
fn what_was_allowed_for_sleepers_goes_when_nothing_waits() {
    let pool = stubs::pool(53, 0);
    pool.lock().allow_sleepers(20, 20);
    assert!(pool.lock().target() > 22);
    let mut monitor = monitor(&pool);
    let targets: Vec<u32> = (0..20)
        .map(|nth| {
            monitor.tick(START + nth * PERIOD_NS);
            pool.lock().target()
        })
        .collect();
    // Bit by bit, and the first look only finds out where the pool stands.
    assert!(
        targets
            .windows(2)
            .skip(1)
            .all(|two| two[1] < two[0] || two[1] == 2)
    );
    assert!(targets[19] < targets[0] / 2, "{targets:?}");
}

/// Where `max_active` admits no more items than sleepers are allowed for, nothing waits while all
/// of them run. If the allowance went then, a worker would park after its item, and its place would
/// be empty until the next tick.
#[test]
fn what_is_allowed_for_sleepers_stays_while_it_is_used() {
    let pool = stubs::pool(55, 0);
    let mut guard = pool.lock();
    guard.allow_sleepers(4, 0);
    guard.counts.set_running(8);
    drop(guard);
    let mut monitor = monitor(&pool);
    let mut now = START;
    // The last target, whether it changed on the way, and whether the monitor has kept the pool.
    let mut ticks_with = |running| {
        pool.lock().counts.set_running(running);
        let targets = (0..2 * u64::from(FORGET_AFTER)).map(|_| {
            now += PERIOD_NS;
            monitor.tick(now);
            pool.lock().target()
        });
        let targets: Vec<u32> = targets.collect();
        let last = targets[targets.len() - 1];
        (last, targets[0] != last, !monitor.is_empty())
    };
    assert_eq!(ticks_with(8), (10, false, true));
    // One has ended, and none has followed it.
    assert_eq!(ticks_with(7), (7, false, true));
    assert_eq!(ticks_with(0), (2, true, false));
}

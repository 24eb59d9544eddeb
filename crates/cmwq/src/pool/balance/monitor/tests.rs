//! The monitor's looks, in virtual time, at pools that have no threads.

use super::*;
use crate::Work;
use crate::pool::queue::pwq::Traits;
use crate::pool::state::group::Group;
use crate::pool::stubs;
use crate::pool::task::call::run_item;
use crate::pool::task::run::Task;

const START: u64 = 1_000_000_000;

/// A pool of one CPU, on which a worker runs and so many items wait.
fn saturated(group: &Arc<Group<Pool>>, id: u32, cpu: usize, waiting: usize) -> Arc<Pool> {
    let pool = stubs::pool_on(group, id, &[cpu]);
    let pwq = stubs::add_pwq(&pool, Traits::default(), 1000);
    for _ in 0..waiting {
        stubs::queue(&pool, pwq, &Work::new(|| ()));
    }
    let mut guard = pool.lock();
    guard.call_no_thief();
    guard.drain();
    let target = guard.target();
    guard.counts.set_running(target);
    drop(guard);
    pool
}

fn watch(pool: &Arc<Pool>) -> Watch {
    let mut watch = Watch::default();
    watch.add(Arc::downgrade(pool));
    watch
}

/// Runs what waits, on this thread.
fn run_all(pool: &Arc<Pool>) {
    let next = || pool.lock().task_for_helper();
    while let Some(Task { started, run }) = next() {
        let panicked = run_item(started, run);
        assert!(pool.lock().end_task(run, panicked).is_none());
    }
}

fn wants_help(pool: &Pool) -> bool {
    pool.help_wanted.load(Ordering::Relaxed)
}

/// Those of these pools that were asked to send a thief: none has a worker, so each asked for one.
fn called(pools: &[Arc<Pool>]) -> Vec<u32> {
    let called = pools.iter().filter(|pool| pool.lock().creating);
    called.map(|pool| pool.id).collect()
}

#[test]
fn what_waits_is_offered_to_neighbours_within_100_us_of_the_first_look() {
    let group = Group::new();
    let pool = saturated(&group, 41, 0, 2);
    let neighbours =
        [(42, 3), (43, 1), (44, 2)].map(|(id, cpu)| stubs::pool_on(&group, id, &[cpu]));
    let mut watch = watch(&pool);
    let next = watch.look(START).expect("it goes on");
    assert!((START + 1..START + 50_000).contains(&next), "{next}");
    assert_eq!(watch.look(next - 1), Some(next));
    assert!(!wants_help(&pool) && called(&neighbours).is_empty());
    assert_eq!(watch.look(next), Some(START + PERIOD_NS));
    assert!(wants_help(&pool));
    assert_eq!(
        called(&neighbours),
        [43, 44],
        "one for each item, the nearest"
    );
    // It is taken back at the first look at which nothing waits.
    run_all(&pool);
    assert_eq!(watch.look(START + PERIOD_NS), Some(START + 2 * PERIOD_NS));
    assert!(!wants_help(&pool));
}

#[test]
fn a_pool_that_gets_on_wants_help_only_if_its_last_item_waits_for_longer_than_a_steal() {
    // Between two looks so many of the 100 that wait have ended.
    for (ended, wants) in [
        (0, true),
        (100, true),
        (3900, true),
        (4001, false),
        (100_000, false),
    ] {
        let group = Group::new();
        let pool = saturated(&group, 45, 0, 100);
        let neighbour = stubs::pool_on(&group, 46, &[1]);
        let mut watch = watch(&pool);
        let second = watch.look(START).expect("it goes on");
        watch.look(second);
        let third = START + PERIOD_NS;
        pool.lock().stats.completed += ended;
        watch.look(third);
        assert_eq!(wants_help(&pool), wants, "{ended}");
        assert_eq!(called(&[neighbour]), [46], "by the second");
    }
}

#[test]
fn a_pool_without_neighbours_and_one_that_is_not_saturated_ask_nobody() {
    let pool = saturated(&Group::new(), 47, 0, 2);
    let mut alone = watch(&pool);
    assert_eq!(alone.look(START), Some(START + PERIOD_NS));
    let group = Group::new();
    let pool = saturated(&group, 48, 0, 2);
    let neighbour = stubs::pool_on(&group, 49, &[1]);
    pool.lock().counts.set_running(0);
    let mut calm = watch(&pool);
    let second = calm.look(START).expect("it goes on");
    calm.look(second);
    assert!(!wants_help(&pool) && called(&[neighbour]).is_empty());
}

#[test]
fn a_pool_where_nothing_waits_any_more_is_forgotten_after_25_looks() {
    let pool = saturated(&Group::new(), 50, 0, 1);
    pool.lock().watched = true;
    let mut watch = watch(&pool);
    let mut now = START;
    let look = |watch: &mut Watch, now: &mut u64| {
        let next = watch.look(*now);
        *now += PERIOD_NS;
        next.is_some()
    };
    for _ in 0..100 {
        assert!(look(&mut watch, &mut now), "something waits");
    }
    run_all(&pool);
    let looks = (1..100).find(|_| !look(&mut watch, &mut now));
    assert_eq!(looks, Some(FORGET_AFTER));
    assert!(watch.is_empty() && !pool.lock().watched);
}

//! The line, turns, and changes of the limit, with pools that have no threads.

use super::*;
use crate::Work;
use crate::pool::attrs::params::Params;
use crate::pool::queue::pwq::Traits;
use crate::pool::stubs;

/// Pools of two CPUs each below a limit, and for each an item, which is queued.
fn pools(limit: u32) -> (Arc<Params>, Vec<(Arc<Pool>, Work)>) {
    let params = Arc::new(Params::default());
    params.slots.set_limit(Some(limit));
    let pools = [901, 902].map(|id| {
        let pool = stubs::pool_of(&params, id);
        let pwq = stubs::add_pwq(&pool, traits(), 100);
        let work = Work::new(|| ());
        stubs::queue(&pool, pwq, &work);
        (pool, work)
    });
    (params, pools.into())
}

fn traits() -> Traits {
    Traits {
        waiters_run: true,
        ..Traits::default()
    }
}

fn slots_of(pools: &[(Arc<Pool>, Work)]) -> Vec<u32> {
    let slots = pools.iter().map(|(pool, _)| pool.lock().slots);
    slots.collect()
}

fn run((pool, work): &(Arc<Pool>, Work)) {
    assert!(pool.run_only(work.as_raw(), None));
}

#[test]
fn a_slot_goes_to_the_first_in_line_when_nothing_waits_where_it_was() {
    let (params, pools) = pools(1);
    assert_eq!(slots_of(&pools), [1, 0]);
    assert_eq!(params.slots.usage(), (1, 1));
    run(&pools[0]);
    assert_eq!(slots_of(&pools), [0, 1]);
    assert_eq!(params.slots.usage(), (1, 0));
    run(&pools[1]);
    assert_eq!(params.slots.usage(), (0, 0));
}

#[test]
fn who_needs_none_any_more_leaves_the_line() {
    let (params, pools) = pools(1);
    run(&pools[1]);
    assert_eq!(params.slots.usage(), (1, 0));
    assert_eq!(slots_of(&pools), [1, 0]);
}

#[test]
fn a_pool_that_goes_away_leaves_its_slot_to_others() {
    let (params, mut pools) = pools(1);
    let (first, work) = pools.remove(0);
    first.lock().dying = true;
    drop((first, work));
    params.slots.hand_out(0);
    assert_eq!(slots_of(&pools), [1]);
    assert_eq!(params.slots.usage(), (1, 0));
}

#[test]
fn a_pool_in_line_for_long_has_a_slot_beyond_the_limit_which_is_owed_back() {
    let (params, pools) = pools(1);
    let all: Vec<_> = pools.iter().map(|(pool, _)| pool.clone()).collect();
    // Its only item runs: the first pool needs one slot, and keeps it.
    pools[0].0.lock().counts.set_running(1);
    run(&pools[0]);
    let now = clock::now_ns();
    assert_eq!(
        Pool::tend_slots(&params, &all, now),
        Some(now + LINE_CHECK_NS)
    );
    assert_eq!(slots_of(&pools), [1, 0]);
    Pool::tend_slots(&params, &all, now + LONGEST_WAIT_NS + TURN_NS);
    assert_eq!(slots_of(&pools), [1, 1]);
    assert_eq!(params.slots.usage(), (2, 0));
    assert_eq!(
        Pool::tend_slots(&params, &all, now),
        None,
        "there is no line"
    );
    // The first pool has had its turn, and owes: its target sinks while its worker runs.
    pools[0].0.lock().holding.since_ns = 0;
    // The first release finds that its turn is over.
    drop(pools[0].0.lock());
    let guard = pools[0].0.lock();
    assert_eq!((guard.holding.owed, guard.target()), (1, 0));
    drop(guard);
    pools[0].0.lock().counts.set_running(0);
    assert_eq!(slots_of(&pools), [0, 1]);
    assert_eq!(params.slots.usage(), (1, 0));
    run(&pools[1]);
    assert_eq!(params.slots.usage(), (0, 0));
}

#[test]
fn a_limit_that_changes_is_followed_by_pools_that_hold_slots_and_by_those_in_line() {
    let (params, pools) = pools(1);
    let follow = |limit| {
        params.slots.set_limit(limit);
        pools.iter().for_each(|(pool, _)| pool.follow_limit());
        params.slots.hand_out(0);
    };
    let targets = || -> Vec<u32> { pools.iter().map(|(pool, _)| pool.lock().target()).collect() };
    assert_eq!(targets(), [1, 0]);
    follow(Some(2));
    assert_eq!(targets(), [1, 1]);
    follow(None);
    assert_eq!(targets(), [2, 2]);
    assert_eq!(params.slots.usage(), (0, 0));
    // Pools that run items when a limit comes keep their slots until they owe them.
    pools
        .iter()
        .for_each(|(pool, _)| pool.lock().counts.set_running(2));
    follow(Some(1));
    let (held, in_line) = params.slots.usage();
    assert_eq!((held, in_line), (4, 0));
    pools
        .iter()
        .for_each(|(pool, _)| pool.lock().counts.set_running(0));
    assert!(
        params.slots.usage().0 <= 2,
        "no more than one each, of what both wait for"
    );
    pools.iter().for_each(run);
    assert_eq!(params.slots.usage(), (0, 0));
}

/// As if a worker of the pool ran, whose turn is not over.
fn runs_in_its_turn(pool: &Arc<Pool>) {
    let mut guard = pool.lock();
    guard.holding.since_ns = u64::MAX;
    guard.counts.set_running(1);
}

#[test]
fn a_slot_that_is_reserved_for_a_pool_that_is_gone_is_free_again() {
    let (params, mut pools) = pools(1);
    let (gone, work) = pools.pop().expect("the second");
    gone.lock().dying = true;
    drop((gone, work));
    // In line still, as far as the table knows.
    run(&pools[0]);
    assert_eq!(params.slots.usage(), (0, 0));
    assert!(params.slots.borrow_free());
}

#[test]
fn a_pool_whose_cpus_have_become_fewer_takes_no_slot_for_those_that_are_gone() {
    let (params, pools) = pools(1);
    let (first, _) = &pools[0];
    // Its one slot is used, and one more item waits.
    runs_in_its_turn(first);
    assert_eq!(params.slots.usage(), (1, 2));
    let mut guard = first.lock_beside_batches();
    guard.cpus = 1;
    guard.retarget();
    drop(guard);
    params.slots.set_limit(Some(4));
    params.slots.hand_out(0);
    assert_eq!(slots_of(&pools), [1, 1]);
    assert_eq!(params.slots.usage(), (2, 0));
    first.lock().counts.set_running(0);
    pools.iter().for_each(run);
    assert_eq!(params.slots.usage(), (0, 0));
}

#[test]
fn a_thief_gets_a_slot_only_if_one_is_free_and_its_pool_has_a_cpu_for_it_and_owes_none() {
    let (params, pools) = pools(2);
    assert_eq!(params.slots.usage(), (2, 0));
    let mut guard = pools[0].0.lock();
    guard.hands_out_nothing = true;
    assert!(!guard.borrow_slot_to_steal(), "none is free");
    params.slots.set_limit(Some(8));
    guard.holding.owed = 1;
    assert!(!guard.borrow_slot_to_steal(), "it owes one");
    guard.holding.owed = 0;
    assert!(guard.borrow_slot_to_steal());
    assert_eq!((guard.slots, guard.cpus), (2, 2));
    assert!(!guard.borrow_slot_to_steal(), "no CPU is left");
    drop(guard);
    // No worker has come to use it.
    pools.iter().for_each(run);
    assert_eq!(params.slots.usage(), (0, 0));
}

#[test]
fn a_pool_that_owes_a_slot_has_a_new_turn_and_holders_are_watched_while_there_is_a_line() {
    let (params, pools) = pools(1);
    let (first, _) = &pools[0];
    runs_in_its_turn(first);
    run(&pools[0]);
    first.lock().watched = false;
    assert!(!first.lock().watched, "nothing waits here");
    let first = std::slice::from_ref(first);
    Pool::tend_slots(&params, first, clock::now_ns());
    let first = &first[0];
    assert!(first.lock().watched, "it holds the slot");
    first.lock().holding.since_ns = 0;
    let owes = || {
        let guard = first.lock();
        (guard.holding.owed, guard.holding.since_ns > 0)
    };
    assert_eq!(owes(), (1, true));
    first.lock().counts.set_running(0);
    assert_eq!(owes(), (0, true));
    run(&pools[1]);
    assert_eq!(params.slots.usage(), (0, 0));
}

/// Without a slot no worker is awake that would find what is published; and the monitor looks only
/// every other millisecond.
#[test]
fn an_issuer_enters_a_watched_pool_without_a_slot_in_the_line() {
    let (params, pools) = pools(1);
    let (pool, _) = &pools[1];
    pool.lock().watched = true;
    run(&pools[1]);
    assert_eq!(params.slots.usage(), (1, 0));
    let pwq = stubs::add_pwq(pool, traits(), 100);
    let work = Work::new(|| ());
    stubs::queue(pool, pwq, &work);
    assert_eq!(params.slots.usage(), (1, 1));
    assert!(pool.run_only(work.as_raw(), None));
    run(&pools[0]);
}

/// Two pools with a waiting item each, whose workers arrive later than a turn lasts, would pass the
/// slot to each other for ever.
#[test]
fn a_turn_begins_when_the_worker_has_arrived() {
    let (params, pools) = pools(1);
    let (first, _) = &pools[0];
    let owed = |since_ns| {
        first.lock().holding.since_ns = since_ns;
        // This release settles.
        drop(first.lock());
        first.lock().holding.owed
    };
    first.lock().counts.set_searching(1);
    assert_eq!(owed(0), 0, "its worker is on the way");
    assert!(first.lock().holding.since_ns > 0, "the turn begins anew");
    assert_eq!(slots_of(&pools), [1, 0]);
    let mut guard = first.lock();
    guard.counts.set_searching(0);
    guard.counts.set_running(1);
    drop(guard);
    assert_eq!(owed(0), 1, "an item has run for longer than a turn");
    first.lock().counts.set_running(0);
    assert_eq!(slots_of(&pools), [0, 1]);
    pools.iter().for_each(run);
    assert_eq!(params.slots.usage(), (0, 0));
}

#[test]
fn a_pool_whose_cpus_have_become_fewer_gives_back_the_slot_of_one_that_is_gone() {
    let (params, pools) = pools(4);
    let (first, _) = &pools[0];
    assert_eq!(slots_of(&pools), [1, 1]);
    runs_in_its_turn(first);
    let mut guard = first.lock_beside_batches();
    assert!(params.slots.borrow_free());
    guard.add_slot();
    drop(guard);
    let both = (first.lock().slots, params.slots.usage().0);
    assert_eq!(both, (2, 3), "an item waits for the second one");
    first.lock_beside_batches().cpus = 1;
    assert_eq!(slots_of(&pools), [1, 1]);
    assert_eq!(params.slots.usage(), (2, 0));
    first.lock().counts.set_running(0);
    pools.iter().for_each(run);
    assert_eq!(params.slots.usage(), (0, 0));
}

//! Which wake-ups are deferred, and for how long.

use super::*;

#[test]
fn threads_are_told_by_its_number_whether_a_pool_has_a_backlog() {
    // No pool of this process has such a number.
    const POOL: u32 = 1023;
    let tells = |wait_ns| {
        tell_backlog(POOL, wait_ns);
        has_backlog(POOL)
    };
    assert!(!tells(BACKLOG_NS - 1) && tells(BACKLOG_NS) && !tells(0));
}

/// No thread sleeps on these words.
#[test]
fn who_is_entered_is_woken_when_the_delay_is_over_or_deferring_is_forbidden() {
    let pending_wakeups = PendingWakeups::default();
    let words = [AtomicU32::new(1), AtomicU32::new(1)];
    let [one, other] = [0, 1].map(|at: usize| std::ptr::from_ref(&words[at]).addr());
    let entered = || pending_wakeups.entered();
    pending_wakeups.within_ns.store(u64::MAX, Ordering::Relaxed);
    assert!(pending_wakeups.enter(one) && pending_wakeups.enter(other));
    pending_wakeups.wake_if_expired();
    assert_eq!(entered(), [one, other]);
    pending_wakeups.within_ns.store(1, Ordering::Relaxed);
    pending_wakeups.since_ns.store(0, Ordering::Relaxed);
    pending_wakeups.wake_if_expired();
    assert!(entered().is_empty() && !pending_wakeups.is_any());
    // Entered by a worker that had read that it may: the next worker that ends an item wakes all.
    pending_wakeups.within_ns.store(1, Ordering::Relaxed);
    assert!(pending_wakeups.enter(one));
    pending_wakeups.since_ns.store(u64::MAX, Ordering::Relaxed);
    pending_wakeups.within_ns.store(0, Ordering::Relaxed);
    pending_wakeups.wake_if_expired();
    assert!(entered().is_empty() && !pending_wakeups.is_any());
}

/// No thread sleeps on this word.
#[test]
fn the_monitor_leaves_those_who_have_not_expired_to_workers() {
    let pending_wakeups = PendingWakeups::default();
    let look = |waiting| drop(pending_wakeups.allow(waiting, 200, 2_000_000));
    let word = AtomicU32::new(1);
    let enter = |since_ns| {
        assert!(pending_wakeups.enter(std::ptr::from_ref(&word).addr()));
        pending_wakeups.since_ns.store(since_ns, Ordering::Relaxed);
    };
    look(400);
    enter(u64::MAX);
    look(400);
    assert!(pending_wakeups.is_any());
    pending_wakeups.since_ns.store(0, Ordering::Relaxed);
    look(400);
    assert!(!pending_wakeups.is_any(), "nobody has told who has expired");
    enter(u64::MAX);
    look(0);
    assert!(!pending_wakeups.is_any(), "there is no backlog any more");
}

#[test]
fn as_long_as_an_item_waits_unless_items_are_long_or_the_wait_is_short() {
    const PERIOD: u64 = 2_000_000;
    // Two workers, items of 20 us: 200 a period; 31 wait for 310 us.
    assert_eq!(deferral_ns(31, 200, PERIOD), 310_000);
    assert_eq!(deferral_ns(400, 200, PERIOD), LATEST_NS);
    assert_eq!(deferral_ns(1, 200, PERIOD), 0);
    assert_eq!(deferral_ns(1000, 10, PERIOD), 0);
    assert_eq!(deferral_ns(1000, 0, PERIOD), 0);
}

/// A program with few items in flight, most of which have ended: their sleepers queue the next ones.
#[test]
fn who_is_entered_counts_as_much_as_what_waits() {
    let pending_wakeups = PendingWakeups::default();
    let allowed = |waiting| {
        drop(pending_wakeups.allow(waiting, 200, 2_000_000));
        pending_wakeups.within_ns.load(Ordering::Relaxed)
    };
    assert_eq!(allowed(4), 40_000);
    // No thread sleeps on these words.
    let words = [AtomicU32::new(1), AtomicU32::new(1)];
    for word in &words {
        assert!(pending_wakeups.enter(std::ptr::from_ref(word).addr()));
    }
    pending_wakeups.since_ns.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(allowed(4), 60_000);
    assert_eq!(allowed(0), 20_000);
}

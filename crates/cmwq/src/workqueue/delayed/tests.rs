//! An item that is disabled and still pending, because the thread that disables it has not removed
//! the pending instance yet.

use super::*;
use crate::Engine;
use crate::Workqueue;
use crate::pool::stubs;
use crate::topology::Topology;

const LONG: Duration = Duration::from_secs(3600);

fn queue() -> Workqueue {
    let topology = Topology::from_synthetic("l3:1 core:1 pu:1").expect("a valid description");
    let engine = Engine::builder().topology(topology).build();
    let builder = engine.expect("an engine").workqueue("delayed");
    builder.build().expect("a queue")
}

#[test]
fn a_pending_item_that_is_being_disabled_is_moved_and_left_to_who_disables_it() {
    let wq = queue();
    let work = DelayedWork::new(|| ());
    for delay in [LONG, 2 * LONG] {
        assert_eq!(wq.queue_delayed(&work, LONG), Queued::Accepted);
        // This is the first half of `disable`.
        work.work.as_raw().disable_once_more();
        assert_eq!(wq.mod_delayed(&work, delay), Moved::Pending);
        assert!(work.is_pending(), "nobody would know that it was dropped");
        // This is the second half of `disable`.
        assert!(work.cancel(), "the thread that disables it has removed it");
        // From here on the item cannot be moved.
        assert_eq!(wq.mod_delayed(&work, delay), Moved::Disabled);
        assert!(!work.is_pending());
        assert!(work.work.as_raw().enable_work());
    }
}

/// A cancel that waits disables the item meanwhile, unless the depth is at its maximum already.
#[test]
fn a_cancel_at_the_greatest_depth_leaves_the_depth_as_it_is() {
    const MOST: usize = 65_535;
    let item = RawDelayedWork::new(stubs::nothing);
    for with_timer in [true, false] {
        (0..MOST).for_each(|_| assert!(!item.disable_work()));
        let removed = match with_timer {
            true => item.cancel_sync(),
            false => item.work().cancel_sync(),
        };
        assert!(!removed, "it is not pending");
        let enabled = (0..MOST).filter(|_| item.enable_work());
        assert_eq!(enabled.count(), 1, "with its timer: {with_timer}");
    }
}

#[test]
fn a_cancel_leaves_an_item_enabled() {
    let item = RawDelayedWork::new(stubs::nothing);
    for with_timer in [true, false] {
        let removed = match with_timer {
            true => item.cancel_sync(),
            false => item.work().cancel_sync(),
        };
        let is_disabled = item.work().is_disabled();
        assert_eq!(
            (removed, is_disabled),
            (false, false),
            "with its timer: {with_timer}"
        );
    }
}

#[test]
fn an_item_with_too_many_instances_is_idle_after_the_panic_that_says_so() {
    let wq = queue();
    let work = DelayedWork::new(|| ());
    let instances = std::iter::from_fn(|| work.work.lend().map(std::mem::forget));
    let instances = instances.count();
    let queue = std::panic::AssertUnwindSafe(|| wq.queue_delayed(&work, LONG));
    let queued = std::panic::catch_unwind(queue);
    assert!(queued.is_err());
    assert!(!work.is_pending());
    (0..instances).for_each(|_| work.work.unlend());
    assert_eq!(wq.queue_delayed(&work, LONG), Queued::Accepted);
    assert!(work.cancel());
}

//! Tests of which items a drain waits for, and of the numbers of pools.

use super::WqCore;
use crate::engine::epochs;
use crate::item::{Pending, closure};
use crate::pool::{Pool, stubs};
use crate::sys::atomic::Ordering;
use crate::sys::epoch::Replaced;
use crate::topology::Topology;
use crate::types::WorkqueueAttrs;
use crate::workqueue::parts::kind::{Flags, WorkqueueKind};
use crate::workqueue::parts::limits::Limits;
use crate::{Engine, Workqueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

/// Much longer than the drain of an idle queue takes. The test expects that nothing happens in this
/// time.
const TIME_TO_RETURN: Duration = Duration::from_millis(100);

#[test]
fn a_drain_waits_for_issuers_that_have_found_the_queue_open() {
    let engine = Engine::builder().build().unwrap();
    let wq = engine.workqueue("drains").build().unwrap();
    let core = &wq.core;
    let ran = Arc::new(AtomicUsize::new(0));
    let drained = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // At this point the issuer has pinned the epoch and looked up its route.
        let pin = epochs().pin(0);
        let pwq = core.slots.get().unwrap()[core.issuing_cpu()].load(&pin);
        let drain = scope.spawn(|| {
            core.drain().unwrap();
            drained.store(true, Ordering::SeqCst);
            ran.load(Ordering::SeqCst)
        });
        stubs::eventually(|| core.closed.load(Ordering::SeqCst) != 0);
        let until = Instant::now() + TIME_TO_RETURN;
        while Instant::now() < until && !drained.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        assert!(
            !drained.load(Ordering::SeqCst),
            "the queue was drained while an item was on its way to it"
        );
        let counts = ran.clone();
        let item = closure::into_raw(move || {
            counts.fetch_add(1, Ordering::SeqCst);
        });
        // SAFETY: the item exists until its function runs.
        let item = unsafe { Pending::one_shot(item) };
        pwq.publish(item, 0, |_| None, &core.sampler, None);
        drop(pin);
        assert_eq!(drain.join().unwrap(), 1, "the drain has waited for it");
    });
}

/// A thread that cancels an item finds the item's pool by its number, and locks that pool later. A
/// pool workqueue that begins to wait for a credit is looked up by the number of its pool.
#[test]
fn the_number_of_a_pool_is_not_used_again_while_a_thread_has_the_pool() {
    let engine = Engine::builder().build().unwrap();
    let pools = || -> Vec<Arc<Pool>> {
        let wq = engine.workqueue("numbers").build().unwrap();
        let members = wq.core.members();
        members.iter().map(|pwq| pwq.pool.clone()).collect()
    };
    let gone = pools();
    for _ in 0..10 {
        let numbers = pools().into_iter().map(|pool| pool.id);
        for number in numbers {
            assert!(gone.iter().all(|pool| pool.id != number));
        }
    }
}

/// Another thread may have queued on the new pool workqueue already, and told this thread of it. So
/// this thread must not use a route that it has kept until the grace period begins.
#[test]
fn an_item_of_an_ordered_queue_follows_a_slot_that_was_replaced_just_now() {
    let engine = Engine::builder().build().expect("an engine");
    let queue = engine.workqueue("ordered").ordered().build();
    let queue = queue.expect("a queue");
    let core = queue.core.clone();
    let mut control = core.control.lock();
    let attrs = WorkqueueAttrs {
        nice: 1,
        ..control.attrs.clone()
    };
    let mapping = engine.map(&attrs, core.kind, None);
    let new = core.make_pwqs(&mapping, &control.current);
    let slots = core.slots.get().expect("set when the queue was made");
    // The thread could keep the route of this item.
    queue.execute(|| ()).expect("it is open");
    let replaced = slots.iter().map(|slot| slot.replace(new[0].clone()));
    let replaced: Vec<_> = replaced.collect();
    queue.execute(|| ()).expect("it is open");
    let key = new[0].key;
    let there = new[0].pool.lock_accepting().in_flight(key);
    // The rest of a change of attributes.
    drop(Replaced::retire(replaced, epochs()));
    let old = std::mem::replace(&mut control.current, new);
    drop(control);
    old.iter().for_each(|pwq| core.retire(pwq));
    let ended = queue.shutdown().wait_timeout(Duration::from_secs(60));
    ended.expect("both items have ended");
    assert_eq!(there, 1, "it could overtake an item that is there");
}

#[test]
fn limits_follow_cpus_that_change_while_the_queue_is_made() {
    let topology = Topology::from_synthetic("numa:2 core:4 pu:1").expect("a valid description");
    let engine = Engine::builder().topology(topology).build();
    let engine = engine.expect("an engine");
    let (kind, attrs) = (WorkqueueKind::Unbound, WorkqueueAttrs::default());
    // The first half of what the builder does.
    let limits = Limits::new(&engine, kind, &attrs, 64, None);
    let before = limits.values();
    let cpus = "0-3,4".parse().expect("a list of CPUs");
    engine
        .set_unbound_cpumask(&cpus)
        .expect("CPUs that are there");
    let core = WqCore::new(
        "q".into(),
        engine.clone(),
        kind,
        Flags::default(),
        attrs,
        limits,
        None,
    );
    let queue = Workqueue::new(core.expect("a queue"));
    let later = engine.workqueue("later").max_active(64).build();
    let values = queue.core.limits.values();
    assert_eq!(values, later.expect("a queue").core.limits.values());
    assert_ne!(values, before, "more of one node than of the other");
}

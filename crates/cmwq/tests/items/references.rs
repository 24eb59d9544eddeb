//! What an accepted item needs is there until it has run, though its handle is gone. What is refused
//! keeps nothing. It is so for every way of queueing a reusable item.
//!
//! Sabotages tried: an item that is refused in its room keeps a reference; one that is accepted
//! there keeps none.

use crate::harness::{Deadline, Door, engine, eventually};
use cmwq::types::{Moved, Queued, Room};
use cmwq::{DelayedWork, Refused, Work, Workqueue};
use std::sync::Arc;
use std::time::Duration;

/// A way of queueing an item, perhaps in this room; `true`: it is accepted.
type Way = fn(&Workqueue, Room, Work) -> bool;

fn is_accepted(queued: Queued) -> bool {
    match queued {
        Queued::Accepted => true,
        refused => {
            assert_eq!(refused, Queued::Refused(Refused::Draining));
            false
        }
    }
}

const WAYS: [(&str, Way); 7] = [
    ("queue", |wq, _, work| is_accepted(wq.queue(&work))),
    ("queue_on", |wq, _, work| {
        is_accepted(wq.queue_on(0, &work).unwrap())
    }),
    ("queue_on_node", |wq, _, work| {
        is_accepted(wq.queue_on_node(0, &work).unwrap())
    }),
    ("queue_batch", |wq, _, work| {
        wq.queue_batch(&[work]).not_accepted().is_empty()
    }),
    ("in a room", |_, room, work| is_accepted(room.queue(&work))),
    ("queue_delayed", |wq, _, work| {
        let work = DelayedWork::new(move || drop(work.clone()));
        is_accepted(wq.queue_delayed(&work, Duration::ZERO))
    }),
    ("mod_delayed", |wq, _, work| {
        let work = DelayedWork::new(move || drop(work.clone()));
        wq.mod_delayed(&work, Duration::ZERO) == Moved::Accepted
    }),
];

#[test]
fn an_item_without_a_handle_is_there_until_it_has_run_and_gone_when_it_is_refused() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("references", &engine);
    for (way, queue) in WAYS {
        for refuses in [false, true] {
            let wq = engine.workqueue(way).max_active(1).build().unwrap();
            let door = Door::new();
            let own = door.clone();
            wq.execute(move || own.pass()).unwrap();
            door.wait_for(1);
            let room = wq.room().wait().unwrap();
            let shutdown = refuses.then(|| wq.clone().shutdown());
            let watched = Arc::new(());
            let there = watched.clone();
            let accepted = queue(&wq, room, Work::new(move || drop(there.clone())));
            let while_it_waits = Arc::strong_count(&watched) - 1;
            door.open.complete();
            eventually(|| Arc::strong_count(&watched) == 1);
            assert_eq!(
                (accepted, while_it_waits),
                (!refuses, usize::from(!refuses)),
                "{way}"
            );
            drop(shutdown);
        }
    }
}

//! What is not in a recording: items that were not queued.

use crate::alone;
use crate::harness::{Deadline, Door, engine, eventually};
use cmwq::observe::{Recording, TraceKind};
use cmwq::types::Queued;
use cmwq::{DelayedWork, Engine, Refused, Work};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

/// The events of queueing on the engine's only queue since the last call.
fn queued(recording: &Recording, engine: &Engine) -> usize {
    let queue = engine.live_queues()[0].id();
    let threads = recording.take();
    let events = threads.iter().flat_map(|thread| &thread.events);
    let own = events.filter(|event| event.kind == TraceKind::QueueWork && event.queue == queue);
    own.count()
}

#[test]
fn a_timer_that_is_armed_tells_nothing_until_its_item_is_queued() {
    let _alone = alone();
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("recordings", &engine);
    let wq = engine.workqueue("delayed").build().unwrap();
    let recording = Recording::begin(1000).expect("none is going on");
    let work = DelayedWork::new(|| ());
    assert!(wq.queue_delayed(&work, LONG).is_accepted());
    assert!(wq.mod_delayed(&work, LONG).was_pending());
    assert_eq!(queued(&recording, &engine), 0, "armed, and armed anew");
    assert!(work.cancel());
    assert_eq!(queued(&recording, &engine), 0, "cancelled");
    assert!(wq.queue_delayed(&work, LONG).is_accepted());
    assert_eq!(work.flush(), Ok(true));
    assert_eq!(queued(&recording, &engine), 1, "queued before its time");
    assert!(
        wq.queue_delayed(&work, Duration::from_nanos(1))
            .is_accepted()
    );
    let mut seen = 0;
    eventually(|| {
        seen += queued(&recording, &engine);
        seen > 0
    });
    wq.flush().unwrap();
    assert_eq!(seen + queued(&recording, &engine), 1, "its time has come");
}

#[test]
fn more_room_than_there_is_memory_is_cut_to_what_a_thread_can_have() {
    let _alone = alone();
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("recordings", &engine);
    let wq = engine.workqueue("much").build().unwrap();
    let queue_one = || assert_eq!(wq.execute(|| ()), Ok(()));
    for most in [10, usize::MAX, usize::MAX / 56, 1 << 45] {
        let recording = Recording::begin(most).expect("none is going on");
        for _ in 0..2 {
            // This thread's buffer is older than the second recording; the other's is as old as the thread.
            queue_one();
            std::thread::scope(|scope| scope.spawn(queue_one).join()).unwrap();
            assert_eq!(queued(&recording, &engine), 2, "{most}");
        }
    }
}

#[test]
fn an_item_that_is_dropped_or_was_pending_tells_nothing() {
    let _alone = alone();
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("recordings", &engine);
    let wq = engine.workqueue("drained").build().unwrap();
    let door = Door::new();
    let own = door.clone();
    let held = wq.spawn(move || own.pass());
    door.wait_for(1);
    let work = Work::new(|| ());
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| wq.drain().unwrap());
        // Until the drain has begun.
        eventually(|| wq.queue(&work) == Queued::Refused(Refused::Draining));
        let recording = Recording::begin(1000).expect("none is going on");
        for _ in 0..10 {
            assert_eq!(wq.queue(&work), Queued::Refused(Refused::Draining));
            let handle = wq.spawn(|| ());
            assert!(handle.join().is_err());
            assert_eq!(wq.execute(|| ()), Err(Refused::Draining));
        }
        assert_eq!(queued(&recording, &engine), 0, "dropped");
        door.open.complete();
        drain.join().unwrap();
        held.join().unwrap();
        let disabled = work.disable();
        assert!(!wq.queue(&work).is_accepted());
        assert_eq!(queued(&recording, &engine), 0, "disabled");
        drop(disabled);
        assert!(wq.queue(&work).is_accepted());
        wq.flush().unwrap();
        assert_eq!(queued(&recording, &engine), 1);
    });
}

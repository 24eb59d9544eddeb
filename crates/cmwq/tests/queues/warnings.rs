//! Warnings of wrong use: waits that would never end, and waits where memory is freed.

use crate::harness::{
    Deadline, Door, Heard, block_on, counting, engine, eventually, held, in_own_process,
};
use cmwq::raw::{current_work, in_memory_reclaim};
use cmwq::types::FlushError;
use cmwq::{Refused, Work};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn an_item_that_waits_for_its_own_queue_or_for_itself_is_told() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("own queue", &engine);
        let wq = Arc::new(engine.workqueue("own").build().unwrap());
        for _ in 0..3 {
            let inner = wq.clone();
            let results = wq.spawn(move || (inner.flush(), inner.drain()));
            let own = Err(FlushError::OwnItem);
            assert_eq!(results.join().unwrap(), (own, own));
        }
        eventually(|| heard.count("waits for the whole queue") == 1);
        eventually(|| heard.count("workqueue own") == 1);
        let me: Arc<std::sync::OnceLock<Work>> = Arc::default();
        let results = Arc::new(Mutex::new(Vec::new()));
        let work = Work::new({
            let (me, results) = (Arc::downgrade(&me), results.clone());
            move || {
                let me = me.upgrade().unwrap();
                let me = me.get().unwrap();
                let waited = (me.flush(), me.cancel_sync());
                results.lock().unwrap().push(waited);
                assert!(current_work().is_some());
            }
        });
        me.set(work.clone()).unwrap();
        for _ in 0..3 {
            assert!(wq.queue(&work).is_accepted());
            wq.flush().unwrap();
        }
        let told = (Err(FlushError::OwnItem), false);
        assert_eq!(*results.lock().unwrap(), [told; 3]);
        eventually(|| heard.count("flush was called from the item's own") == 1);
        eventually(|| heard.count("cancel or disable with wait was called") == 1);
        assert_eq!(engine.stats().panics, 0);
        assert_eq!(current_work(), None);
    });
}

#[test]
fn waiting_for_a_queue_without_a_rescuer_is_warned_of_where_memory_is_freed() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("reclaim", &engine);
        let reclaim = engine.workqueue("frees").mem_reclaim().build().unwrap();
        let other = Arc::new(engine.workqueue("also").mem_reclaim().build().unwrap());
        let plain = Arc::new(engine.workqueue("plain").build().unwrap());
        let work = counting(&Arc::default());
        // No fault: what waits has no rescuer, or what is waited for has one, or nothing is waited for.
        let nested = engine.workqueue("nested").build().unwrap();
        let waits = plain.spawn(move || nested.flush().unwrap());
        waits.join().unwrap();
        let waits = reclaim.spawn({
            let (other, work) = (other.clone(), work.clone());
            move || {
                other.flush().unwrap();
                work.cancel_sync();
                work.flush().unwrap();
            }
        });
        waits.join().unwrap();
        in_memory_reclaim(|| other.flush().unwrap());
        for wq in [&reclaim, &other, &plain] {
            wq.flush().unwrap();
        }
        assert_eq!(heard.count("rescuer"), 0);
        for _ in 0..3 {
            let inner = plain.clone();
            reclaim
                .spawn(move || inner.flush().unwrap())
                .join()
                .unwrap();
        }
        eventually(|| heard.count("which has a rescuer, waits for") > 0);
        let told = heard.with("which has a rescuer, waits for");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("workqueue frees") && told[0].contains("workqueue plain"));
        // One item of such a queue is as bad.
        let door = Door::new();
        let held = held(&plain, 0, 1, &door);
        door.wait_for(1);
        std::thread::scope(|scope| {
            scope.spawn(|| in_memory_reclaim(|| held[0].flush().unwrap()));
            eventually(|| heard.count("a thread that frees memory waits for") == 1);
            door.open.complete();
        });
        in_memory_reclaim(|| plain.flush().unwrap());
        assert_eq!(heard.count("a thread that frees memory waits for"), 1);
    });
}

#[test]
fn a_drain_that_goes_on_says_so_at_the_tenth_flush() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("drains", &engine);
        let wq = Arc::new(engine.workqueue("again").build().unwrap());
        let said = "workqueue again: draining takes long, 10 flushes so far";
        let expected = Arc::new(AtomicUsize::new(1));
        let me: Arc<std::sync::OnceLock<Work>> = Arc::default();
        let work = Work::new({
            let (me, wq, heard) = (Arc::downgrade(&me), Arc::downgrade(&wq), heard.clone());
            let expected = expected.clone();
            move || {
                if heard.count("draining takes long") < expected.load(Ordering::SeqCst) {
                    let (me, wq) = (me.upgrade().unwrap(), wq.upgrade().unwrap());
                    assert!(wq.queue(me.get().unwrap()).is_accepted());
                }
            }
        });
        me.set(work.clone()).unwrap();
        assert!(wq.queue(&work).is_accepted());
        wq.drain().unwrap();
        assert_eq!(heard.with("draining takes long"), [said]);
        // One that ends soon says nothing.
        assert!(wq.queue(&work).is_accepted());
        wq.drain().unwrap();
        assert_eq!(heard.count("draining takes long"), 1);
        // So does one that is awaited.
        expected.store(2, Ordering::SeqCst);
        assert!(wq.queue(&work).is_accepted());
        block_on(wq.drain_async()).unwrap();
        assert_eq!(heard.with("draining takes long"), [said, said]);
    });
}

/// Whichever way the closure would have gone: as an item whose times are measured, or not.
#[test]
fn each_queue_that_drops_a_closure_at_its_end_says_so_once() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("dropped closures", &engine);
        const QUEUES: usize = 16;
        for before in 0..QUEUES {
            let wq = engine.workqueue("ends").max_active(1).build().unwrap();
            let door = Door::new();
            let _held = held(&wq, 0, 1, &door);
            door.wait_for(1);
            (0..before).for_each(|_| wq.execute(|| ()).unwrap());
            let mut shutdown = wq.clone().shutdown();
            let refused = wq.execute(|| ());
            door.open.complete();
            shutdown.wait().unwrap();
            assert_eq!(refused, Err(Refused::Draining));
        }
        let says = "workqueue ends: draining or destroyed, an item queued from outside was dropped";
        eventually(|| heard.count(says) >= QUEUES);
        assert_eq!(heard.count(says), QUEUES);
    });
}

#[test]
fn an_item_that_waits_for_one_whose_place_another_thread_has_is_not_warned() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("no false alarm", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        let one = engine.workqueue("one").max_active(1).build().unwrap();
        let door = Door::new();
        let _held = held(&one, 0, 1, &door);
        door.wait_for(1);
        let me: Arc<std::sync::OnceLock<Work>> = Arc::default();
        let work = Work::new({
            let me = Arc::downgrade(&me);
            move || {
                let mut waits = one.spawn(|| ());
                assert!(waits.join_timeout(Duration::ZERO).is_none());
                let me = me.upgrade().unwrap();
                assert!(me.get().unwrap().flush().is_err());
            }
        });
        me.set(work.clone()).unwrap();
        assert!(wq.queue(&work).is_accepted());
        // Said later than the other would have been.
        eventually(|| heard.count("flush was called from the item's own") == 1);
        wq.flush().unwrap();
        door.open.complete();
        assert_eq!(heard.count("cannot begin before it ends"), 0);
        assert_eq!(engine.stats().panics, 0);
    });
}

//! Cases 11 and 12: flush and drain.

use super::*;

#[test]
fn case_11_forty_flushers_and_a_steady_producer() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("case 11", &engine);
    let wq = Arc::new(
        engine
            .workqueue("t")
            .affinity_scope(AffinityScope::Cache)
            .build()
            .unwrap(),
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let producer = scope.spawn(|| {
            let _issuer = engine.become_issuer(3).unwrap();
            let mut produced = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let before = wq.spawn(move || produced);
                produced += 1;
                if produced.is_multiple_of(64) {
                    assert_eq!(before.join().unwrap(), produced - 1);
                }
            }
        });
        let flushers: Vec<_> = (0..40)
            .map(|n| {
                let wq = &wq;
                scope.spawn(move || {
                    for _ in 0..25 {
                        let ran = Arc::new(AtomicUsize::new(0));
                        for _ in 0..1 + n % 3 {
                            let ran = ran.clone();
                            drop(wq.spawn(move || {
                                std::thread::yield_now();
                                ran.fetch_add(1, Ordering::SeqCst);
                            }));
                        }
                        wq.flush().unwrap();
                        assert_eq!(
                            ran.load(Ordering::SeqCst),
                            1 + n % 3,
                            "a flush returned before its own generation had ended"
                        );
                    }
                })
            })
            .collect();
        for flusher in flushers {
            flusher.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        producer.join().unwrap();
    });
}

#[test]
fn case_11_a_flush_does_not_wait_for_what_is_queued_after_it() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 11", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (early, late) = (Door::new(), Door::new());
    let pass = |door: &Arc<Door>| {
        let door = door.clone();
        wq.spawn(move || door.pass())
    };
    let first = pass(&early);
    early.wait_for(1);
    let flushed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flusher = scope.spawn(|| {
            wq.flush().unwrap();
            flushed.store(true, Ordering::SeqCst);
        });
        // More colours than there are go by while the first generation is held up.
        let later: Vec<_> = (0..40).map(|_| pass(&late)).collect();
        late.wait_for(1);
        assert!(!flushed.load(Ordering::SeqCst));
        early.open.complete();
        first.join().unwrap();
        // If the flush began after some of the later items, it waits for those as well; in any case it ends.
        late.open.complete();
        flusher.join().unwrap();
        for handle in later {
            handle.join().unwrap();
        }
    });
}

#[test]
fn case_11_more_generations_than_colours_end_in_order() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("case 11", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let door = Door::new();
    let held = wq.spawn({
        let door = door.clone();
        move || door.pass()
    });
    door.wait_for(1);
    let returned = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                // Its own item ends at once, the oldest generation does not.
                wq.spawn(|| ()).join().unwrap();
                wq.flush().unwrap();
                returned.fetch_add(1, Ordering::SeqCst);
            });
        }
        let sentinel = wq.spawn(|| ());
        sentinel.join().unwrap();
        assert_eq!(
            returned.load(Ordering::SeqCst),
            0,
            "nobody returns before the oldest item has ended"
        );
        door.open.complete();
        held.join().unwrap();
    });
    assert_eq!(returned.load(Ordering::SeqCst), 40);
}

#[test]
fn case_12_drain_accepts_chained_items_and_drops_others() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 12", &engine);
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    let (door, runs) = (Door::new(), Arc::new(AtomicUsize::new(0)));
    let outside = counting(&runs);
    let chained = counting(&runs);
    let first = Work::new({
        let (wq, door, chained) = (Arc::downgrade(&wq), door.clone(), chained.clone());
        move || {
            door.pass();
            let wq = wq.upgrade().unwrap();
            assert_eq!(
                wq.queue(&chained),
                Queued::Accepted,
                "its own items may queue"
            );
        }
    });
    assert!(wq.queue(&first).is_accepted());
    door.wait_for(1);
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| wq.drain());
        // Until the drain has begun items are accepted: this one ends at once.
        let mut accepted = 0;
        eventually(|| match wq.queue(&outside) {
            Queued::Refused(refused) => refused == Refused::Draining,
            queued => {
                accepted += usize::from(queued.is_accepted());
                false
            }
        });
        assert!(!outside.is_pending() || accepted > 0);
        assert_eq!(wq.queue(&outside).will_run(), outside.is_pending());
        let rejected = wq.spawn(|| ());
        assert!(matches!(
            rejected.join(),
            Err(JoinError::Refused(Refused::Draining))
        ));
        let kept = Arc::new(());
        let handle = wq.spawn({
            let kept = kept.clone();
            move || drop(kept)
        });
        assert_eq!(Arc::strong_count(&kept), 1, "a rejected closure is dropped");
        assert!(matches!(
            block_on(handle),
            Err(JoinError::Refused(Refused::Draining))
        ));
        door.open.complete();
        drain.join().unwrap().unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), accepted + 1);
    });
    assert_eq!(
        wq.queue(&outside),
        Queued::Accepted,
        "after the drain all is as before"
    );
    wq.flush().unwrap();
    assert_eq!(engine.stats().panics, 0);
    // A drop gives the item's reference back: with its handle goes what its function holds.
    let held = Arc::strong_count(&runs);
    drop(outside);
    eventually(|| Arc::strong_count(&runs) == held - 1);
}

#[test]
fn case_12_an_item_cannot_flush_or_drain_its_own_queue() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 12", &engine);
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    let other = Arc::new(engine.workqueue("other").build().unwrap());
    let (inner, inner_other) = (wq.clone(), other.clone());
    let results = wq
        .spawn(move || {
            drop(inner_other.spawn(|| ()));
            (inner.flush(), inner.drain(), inner_other.flush())
        })
        .join()
        .unwrap();
    assert!(results.0.is_err() && results.1.is_err());
    assert_eq!(results.2, Ok(()), "another queue can be flushed");
    assert_eq!(wq.spawn(|| 1).join().unwrap(), 1, "the drain left no trace");
}

#[test]
fn case_11_a_flush_does_not_wait_for_what_an_item_queues_for_ever() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 11", &engine);
    for builder in [
        engine.workqueue("unbound"),
        engine.workqueue("ordered").ordered(),
        engine.workqueue("percpu").per_cpu(),
        engine.workqueue("one at a time").max_active(1),
    ] {
        let wq = Arc::new(builder.build().unwrap());
        let (runs, stop) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let again: Arc<OnceLock<Work>> = Arc::default();
        let work = Work::new({
            let (runs, stop) = (runs.clone(), stop.clone());
            let (queue, again) = (Arc::downgrade(&wq), again.clone());
            move || {
                runs.fetch_add(1, Ordering::SeqCst);
                if !stop.load(Ordering::SeqCst)
                    && let (Some(queue), Some(work)) = (queue.upgrade(), again.get())
                {
                    let _ = queue.queue(work);
                }
            }
        });
        again.set(work.clone()).unwrap_or_else(|_| unreachable!());
        assert!(wq.queue(&work).is_accepted());
        for _ in 0..20 {
            let before = runs.load(Ordering::SeqCst);
            wq.flush().unwrap();
            work.flush().unwrap();
            // It goes on: neither flush was the end of it.
            eventually(|| runs.load(Ordering::SeqCst) > before + 1);
        }
        stop.store(true, Ordering::SeqCst);
        wq.flush().unwrap();
        work.cancel_sync();
    }
}

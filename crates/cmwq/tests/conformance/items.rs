//! Cases 1 to 4 and 10: one item, its runs and its memory.

use super::*;

#[test]
fn case_01_any_number_of_queue_calls_during_one_run_give_one_more_run() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 1", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let (door, runs) = (Door::new(), Arc::new(AtomicUsize::new(0)));
    let work = Work::new({
        let (door, runs) = (door.clone(), runs.clone());
        move || {
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                door.pass();
            }
        }
    });
    assert!(wq.queue(&work).is_accepted());
    door.wait_for(1);
    assert!(!work.is_pending(), "a running item is not pending");
    assert!(
        wq.queue(&work).is_accepted(),
        "the first call during the run is accepted"
    );
    for _ in 0..100 {
        assert!(
            !wq.queue(&work).is_accepted(),
            "and the next ones find it pending"
        );
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1, "runs do not overlap");
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn case_01_any_number_of_queue_calls_before_the_start_give_one_run() {
    let engine = engine("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("case 1", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let (door, runs) = (Door::new(), Arc::new(AtomicUsize::new(0)));
    let first = wq.spawn({
        let door = door.clone();
        move || door.pass()
    });
    door.wait_for(1);
    let work = counting(&runs);
    assert!(wq.queue(&work).is_accepted());
    for _ in 0..100 {
        assert!(!wq.queue(&work).is_accepted());
    }
    door.open.complete();
    first.join().unwrap();
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn case_02_a_run_sees_the_flag_set_before_queueing_found_it_pending() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 2", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let flags = Arc::new([const { AtomicU64::new(0) }; 2]);
    let seen = Arc::new([const { AtomicU64::new(0) }; 2]);
    let work = Work::new({
        let (flags, seen) = (flags.clone(), seen.clone());
        move || {
            for (flag, seen) in flags.iter().zip(&*seen) {
                seen.fetch_max(flag.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    });
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (wq, flags, seen, work) = (&wq, &flags, &seen, &work);
            scope.spawn(move || {
                let mut pending = 0;
                for round in 1..=20_000 {
                    flags[n].store(round, Ordering::Relaxed);
                    pending += u32::from(!wq.queue(work).is_accepted());
                    if round % 8 == 0 {
                        // Accepted or not, a run that sees this round's flag comes.
                        while seen[n].load(Ordering::Relaxed) < round {
                            std::thread::yield_now();
                        }
                    }
                }
                pending
            });
        }
    });
}

#[test]
fn case_03_runs_of_one_item_overlap_on_two_queues() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 3", &engine);
    // Different pools: within one pool an item never overlaps itself.
    let [here, there] = [AffinityScope::Cpu, AffinityScope::System]
        .map(|scope| engine.workqueue("t").affinity_scope(scope).build().unwrap());
    let door = Door::new();
    let work = Work::new({
        let door = door.clone();
        move || door.pass()
    });
    assert!(here.queue(&work).is_accepted());
    door.wait_for(1);
    assert!(there.queue(&work).is_accepted());
    door.wait_for(2);
    door.open.complete();
    here.flush().unwrap();
    there.flush().unwrap();
}

#[test]
fn case_03_runs_of_one_item_do_not_overlap_on_one_queue_across_pods_scopes_and_attributes() {
    let engine = engine("numa:2 l3:2 core:2 pu:1");
    let _deadline = Deadline::new("case 3", &engine);
    let wq = engine
        .workqueue("t")
        .affinity_scope(AffinityScope::Cpu)
        .build()
        .unwrap();
    for scope in AffinityScope::CONCRETE {
        for strict in [false, true] {
            let (door, inside) = (Door::new(), Arc::new(AtomicUsize::new(0)));
            let broken = Arc::new(Broken::default());
            let work = Work::new({
                let (door, inside, broken) = (door.clone(), inside.clone(), broken.clone());
                move || {
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    broken.expect(others == 0, || "two runs overlap".into());
                    door.pass();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
            assert!(wq.queue_on(0, &work).unwrap().is_accepted());
            door.wait_for(1);
            wq.apply_attrs(WorkqueueAttrs {
                affinity_scope: scope,
                affinity_strict: strict,
                ..WorkqueueAttrs::default()
            })
            .unwrap();
            // Another pod than the one where it runs: the new instance must follow it all the same.
            assert!(wq.queue_on(7, &work).unwrap().is_accepted());
            let witness = Arc::new(Completion::new());
            let after = Work::new({
                let witness = witness.clone();
                move || witness.complete()
            });
            assert!(wq.queue_on(7, &after).unwrap().is_accepted());
            witness.wait();
            assert_eq!(door.arrived.load(Ordering::SeqCst), 1, "scope {scope}");
            door.open.complete();
            wq.flush().unwrap();
            assert_eq!(door.arrived.load(Ordering::SeqCst), 2, "scope {scope}");
            broken.none();
        }
    }
}

#[test]
fn case_03_a_run_that_follows_one_of_another_queue_belongs_to_its_own() {
    let engine = engine("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("case 3", &engine);
    // Both on the same pools, one per CPU.
    let [first, second] = [(), ()].map(|()| {
        engine
            .workqueue("t")
            .affinity_scope(AffinityScope::Cache)
            .build()
            .unwrap()
    });
    let doors = [Door::new(), Door::new(), Door::new()];
    let work = Work::new({
        let (doors, runs) = (doors.clone(), AtomicUsize::new(0));
        move || doors[runs.fetch_add(1, Ordering::SeqCst)].pass()
    });
    assert!(first.queue_on(0, &work).unwrap().is_accepted());
    doors[0].wait_for(1);
    assert!(second.queue_on(0, &work).unwrap().is_accepted());
    // It meets its own run there and is put behind it. Then that run ends, and its queue goes.
    settle(&engine, &second.attrs());
    assert_eq!(doors[1].arrived.load(Ordering::SeqCst), 0);
    doors[0].open.complete();
    drop(first);
    doors[1].wait_for(1);
    // From the other pod, while it runs in this one.
    assert!(second.queue_on(1, &work).unwrap().is_accepted());
    settle(&engine, &second.attrs());
    assert_eq!(
        doors[2].arrived.load(Ordering::SeqCst),
        0,
        "two runs for one queue overlap"
    );
    doors[1].open.complete();
    doors[2].open.complete();
    second.flush().unwrap();
    assert_eq!(doors[2].arrived.load(Ordering::SeqCst), 1);
}

/// Raw items in the C style: the function finds its struct from the item and frees it.
mod raw {
    use super::*;

    #[repr(C)]
    pub(super) struct Job {
        raw: RawWork,
        runs: Arc<AtomicUsize>,
    }

    impl Job {
        /// A job that frees itself in its function.
        pub(super) fn boxed(func: cmwq::raw::WorkFn, runs: &Arc<AtomicUsize>) -> NonNull<RawWork> {
            let job = Box::new(Job {
                raw: RawWork::new(func),
                runs: runs.clone(),
            });
            NonNull::from(Box::leak(job)).cast()
        }
    }

    /// # Safety
    /// `item` is the first field of a leaked box of a `Job`.
    pub(super) unsafe extern "C-unwind" fn one(item: NonNull<RawWork>) {
        // SAFETY: by the contract; this call is the only user of the box.
        let job = unsafe { Box::from_raw(item.cast::<Job>().as_ptr()) };
        let runs = job.runs.clone();
        drop(job);
        runs.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn case_04_items_may_free_themselves_in_their_function() {
    let engine = engine("l3:2 core:1 pu:1");
    let _deadline = Deadline::new("case 4", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    for _ in 0..5_000 {
        let item = raw::Job::boxed(raw::one, &runs);
        // SAFETY: the box lives until its function frees it.
        assert_eq!(unsafe { wq.queue_raw(item) }, Queued::Accepted);
    }
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 5_000);
}

#[test]
fn case_04_an_address_used_again_for_another_function_does_not_wait() {
    /// A place that the first function gives up and that a second item moves into, as an allocator
    /// would have it.
    #[repr(C)]
    struct Place {
        raw: RawWork,
        door: Arc<Door>,
    }
    unsafe extern "C-unwind" fn one(item: NonNull<RawWork>) {
        // SAFETY: `item` is the first field of the `Place` below, which no other thread uses now.
        let place = unsafe { item.cast::<Place>().read() };
        place.door.pass();
    }
    unsafe extern "C-unwind" fn two(item: NonNull<RawWork>) {
        // SAFETY: as for `one`.
        let place = unsafe { item.cast::<Place>().read() };
        place.door.arrived.fetch_add(100, Ordering::SeqCst);
    }
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 4", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let door = Door::new();
    let place: NonNull<Place> = NonNull::from(Box::leak(Box::new(
        std::mem::MaybeUninit::<Place>::uninit(),
    )))
    .cast();
    let put = |func: cmwq::raw::WorkFn| {
        // SAFETY: the memory is the leaked box's; what was in it was moved out by the function before.
        unsafe {
            place.write(Place {
                raw: RawWork::new(func),
                door: door.clone(),
            });
            assert_eq!(wq.queue_raw(place.cast()), Queued::Accepted);
        }
    };
    put(one);
    door.wait_for(1);
    put(two);
    door.wait_for(101);
    // The same function at the same address is taken for the same item: it runs after the first.
    put(one);
    settle(&engine, &wq.attrs());
    assert_eq!(door.arrived.load(Ordering::SeqCst), 101);
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(door.arrived.load(Ordering::SeqCst), 102);
    // SAFETY: from the box above; its contents were moved out by the last run.
    drop(unsafe { Box::from_raw(place.cast::<std::mem::MaybeUninit<Place>>().as_ptr()) });
}

#[test]
fn case_10_flush_waits_for_the_pending_instance_behind_a_running_one() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 10", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    for _ in 0..200 {
        let (door, runs) = (Door::new(), Arc::new(AtomicUsize::new(0)));
        let work = Work::new({
            let (door, runs) = (door.clone(), runs.clone());
            move || {
                door.pass();
                runs.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert!(wq.queue(&work).is_accepted());
        door.wait_for(1);
        assert!(wq.queue(&work).is_accepted());
        std::thread::scope(|scope| {
            let (wq, runs) = (&wq, &runs);
            let flusher = scope.spawn(move || {
                wq.flush().unwrap();
                runs.load(Ordering::SeqCst)
            });
            door.open.complete();
            assert_eq!(flusher.join().unwrap(), 2);
        });
    }
}

//! Cases 5 to 7: cancelling, disabling, enabling.

use super::*;

#[test]
fn case_05_cancel_sync_of_an_item_that_requeues_itself_terminates() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 5", &engine);
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    let runs = Arc::new(AtomicUsize::new(0));
    let me: Arc<OnceLock<Work>> = Arc::default();
    let work = Work::new({
        let (me, wq, runs) = (me.clone(), Arc::downgrade(&wq), runs.clone());
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
            if let (Some(me), Some(wq)) = (me.get(), wq.upgrade()) {
                let _ = wq.queue(me);
            }
        }
    });
    me.set(work.clone()).unwrap();
    let mut after = 0;
    for _ in 0..200 {
        assert!(wq.queue(&work).is_accepted());
        eventually(|| runs.load(Ordering::SeqCst) > after + 3);
        work.cancel_sync();
        let busy = work.busy();
        assert!(!busy.pending && !busy.running, "{busy:?}");
        after = runs.load(Ordering::SeqCst);
        settle(&engine, &wq.attrs());
        assert_eq!(runs.load(Ordering::SeqCst), after, "it runs on");
        assert!(!work.cancel_sync(), "nothing is left to remove");
    }
}

#[test]
fn case_05_cancel_sync_is_true_only_if_it_removed_a_pending_instance() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 5", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let idle = counting(&runs);
    assert!(!idle.cancel_sync(), "never queued");
    assert!(wq.queue(&idle).is_accepted());
    wq.flush().unwrap();
    assert!(!idle.cancel_sync(), "ended");
    for requeued in [false, true] {
        let (door, ended) = (Door::new(), Arc::new(AtomicUsize::new(0)));
        let work = Work::new({
            let (door, ended) = (door.clone(), ended.clone());
            move || {
                door.pass();
                ended.fetch_add(1, Ordering::SeqCst);
            }
        });
        assert!(wq.queue(&work).is_accepted());
        door.wait_for(1);
        assert!(wq.queue(&idle).is_accepted(), "behind the limit");
        assert!(idle.cancel_sync(), "inactive: removed");
        if requeued {
            assert!(wq.queue(&work).is_accepted());
        }
        std::thread::scope(|scope| {
            let (work, ended) = (&work, &ended);
            let canceller = scope.spawn(move || (work.cancel_sync(), ended.load(Ordering::SeqCst)));
            // It removes the second instance before it waits for the first.
            eventually(|| !work.is_pending());
            door.open.complete();
            assert_eq!(canceller.join().unwrap(), (requeued, 1));
        });
        wq.flush().unwrap();
        assert_eq!(door.arrived(), 1, "the second instance never ran");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn case_05_requests_during_the_wait_of_cancel_sync_are_lost() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 5", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let door = Door::new();
    let work = Work::new({
        let door = door.clone();
        move || door.pass()
    });
    assert!(wq.queue(&work).is_accepted());
    door.wait_for(1);
    std::thread::scope(|scope| {
        let canceller = scope.spawn(|| work.cancel_sync());
        // Until it has begun the item takes one more instance, which it then removes.
        eventually(|| !wq.queue(&work).is_accepted() && !work.is_pending());
        for _ in 0..100 {
            assert!(
                !wq.queue(&work).is_accepted(),
                "refused while somebody waits"
            );
        }
        door.open.complete();
        canceller.join().unwrap();
    });
    wq.flush().unwrap();
    assert_eq!(door.arrived(), 1);
    assert!(wq.queue(&work).is_accepted(), "afterwards all is as before");
    wq.flush().unwrap();
    assert_eq!(door.arrived(), 2);
}

#[test]
fn case_06_disabled_twice_and_enabled_once_is_still_disabled() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 6", &engine);
    let wq = engine.workqueue("t").max_active(1).build().unwrap();
    let (door, runs) = (Door::new(), Arc::new(AtomicUsize::new(0)));
    let held = held(&wq, 0, 1, &door);
    let work = counting(&runs);
    assert!(wq.queue(&work).is_accepted());
    let first = work.disable();
    assert!(first.removed_pending());
    let second = work.disable();
    assert!(!second.removed_pending(), "the first one has removed it");
    assert!(!wq.queue(&work).is_accepted());
    // A waiting cancel takes back its own step only.
    work.cancel_sync();
    assert!(!wq.queue(&work).is_accepted());
    assert!(!first.enable(), "one reason is left");
    assert!(!wq.queue(&work).is_accepted());
    assert!(second.enable(), "that was the last");
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(
        runs.load(Ordering::SeqCst),
        0,
        "requests in between are lost"
    );
    assert!(wq.queue(&work).is_accepted());
    wq.flush().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    drop(held);
}

#[test]
fn case_06_the_depth_has_its_limit() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("case 6", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        let work = counting(&Arc::default());
        let guards: Vec<_> = (0..65_535).map(|_| work.disable()).collect();
        assert_eq!(heard.count("65535"), 0);
        let too_many = [work.disable(), work.disable()];
        assert_eq!(heard.count("65535"), 1, "said once");
        // The depth stayed, so what gave none takes none; nor does what disables only while it waits.
        drop(too_many);
        assert!(!work.cancel_sync());
        let enabled = guards.into_iter().map(|guard| guard.enable());
        assert_eq!(enabled.filter(|&last| last).count(), 1);
        assert!(wq.queue(&work).is_accepted());
        wq.flush().unwrap();
    });
}

/// A raw item that counts its runs in a place of its own.
#[repr(C)]
struct Counted {
    raw: RawWork,
    runs: AtomicUsize,
}

impl Counted {
    const fn new() -> Self {
        Counted {
            raw: RawWork::new(Counted::run),
            runs: AtomicUsize::new(0),
        }
    }

    unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
        // SAFETY: `raw` is the first field of the `Counted` that was queued, a static.
        let counted = unsafe { item.cast::<Counted>().as_ref() };
        counted.runs.fetch_add(1, Ordering::SeqCst);
    }

    fn queue(&'static self, wq: &Workqueue) -> Queued {
        // SAFETY: a static is valid for ever and is not moved.
        unsafe { wq.queue_raw(NonNull::from(self).cast()) }
    }
}

#[test]
fn case_06_raw_items_tell_when_the_last_reason_went() {
    static ITEM: Counted = Counted::new();
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 6", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    assert!(!ITEM.raw.disable_work());
    assert!(!ITEM.raw.disable_sync());
    assert_eq!(ITEM.queue(&wq), Queued::Disabled);
    assert!(!ITEM.raw.enable_work());
    assert_eq!(ITEM.queue(&wq), Queued::Disabled);
    assert!(ITEM.raw.enable_work());
    wq.flush().unwrap();
    assert_eq!(ITEM.runs.load(Ordering::SeqCst), 0);
    assert_eq!(ITEM.queue(&wq), Queued::Accepted);
    wq.flush().unwrap();
    assert_eq!(ITEM.runs.load(Ordering::SeqCst), 1);
}

#[test]
fn case_07_enabling_what_is_not_disabled_removes_a_pending_instance() {
    static ITEM: Counted = Counted::new();
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("case 7", &engine);
        let wq = engine.workqueue("t").max_active(1).build().unwrap();
        let door = Door::new();
        let _held = held(&wq, 0, 1, &door);
        for _ in 0..3 {
            assert_eq!(ITEM.queue(&wq), Queued::Accepted);
            assert!(ITEM.raw.enable_work());
            assert!(!ITEM.raw.is_pending());
        }
        assert_eq!(heard.count("enabled that was not disabled"), 1);
        door.open.complete();
        wq.flush().unwrap();
        assert_eq!(ITEM.runs.load(Ordering::SeqCst), 0);
        assert_eq!(ITEM.queue(&wq), Queued::Accepted);
        wq.flush().unwrap();
        assert_eq!(ITEM.runs.load(Ordering::SeqCst), 1);
    });
}

//! Items that are part of a value in an `Arc`: what keeps the value alive, and what comes back.

use crate::harness::{
    Alive, Deadline, Door, Heard, engine, engine_without_hogs, eventually, hold, in_own_process,
};
use cmwq::raw::{EmbeddedDelayedWork, EmbeddedWork};
use cmwq::types::{FlushError, Moved, Queued};
use cmwq::{Engine, Error, Refused, Workqueue};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3_000);
const SOON: Duration = Duration::from_millis(1);

/// With several items, one of them not at its own margin.
struct Device {
    name: &'static str,
    ran: Mutex<Vec<&'static str>>,
    reset: EmbeddedWork<Device>,
    inner: Inner,
    poll: EmbeddedDelayedWork<Device>,
    /// The last reference that a function drops.
    _alive: Alive,
}

struct Inner {
    _byte: u8,
    log: EmbeddedWork<Device>,
}

impl Device {
    fn new(alive: &Arc<AtomicUsize>) -> Arc<Device> {
        Arc::new(Device {
            name: "eth0",
            ran: Mutex::default(),
            reset: EmbeddedWork::new(Device::reset),
            inner: Inner {
                _byte: 1,
                log: EmbeddedWork::new(|device: Arc<Device>| device.note("log")),
            },
            poll: EmbeddedDelayedWork::new(|device: Arc<Device>| device.note("poll")),
            _alive: Alive::new(alive),
        })
    }

    fn reset(self: Arc<Device>) {
        self.note("reset");
    }

    fn note(&self, what: &'static str) {
        assert_eq!(self.name, "eth0", "it is the device itself");
        self.ran.lock().unwrap().push(what);
    }

    fn ran(&self) -> Vec<&'static str> {
        self.ran.lock().unwrap().clone()
    }
}

fn log(device: &Device) -> &EmbeddedWork<Device> {
    &device.inner.log
}

/// A queue on which nothing begins before the door is opened.
fn held(engine: &Engine) -> (Workqueue, Arc<Door>) {
    let wq = engine.workqueue("t").ordered().build().unwrap();
    let door = hold(&wq, 1);
    (wq, door)
}

#[test]
fn each_item_of_a_value_runs_its_own_function_with_the_value() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("own functions", &engine);
    let (wq, door) = held(&engine);
    let alive = Arc::new(AtomicUsize::new(0));
    let device = Device::new(&alive);
    assert_eq!(wq.queue_embedded(&device, log), Queued::Accepted);
    assert_eq!(
        wq.queue_embedded(&device, |device| &device.reset),
        Queued::Accepted
    );
    assert_eq!(wq.queue_embedded(&device, log), Queued::AlreadyPending);
    assert_eq!(
        wq.queue_delayed_embedded(&device, |device| &device.poll, Duration::ZERO),
        Queued::Accepted
    );
    assert_eq!(
        Arc::strong_count(&device),
        4,
        "one for each pending instance"
    );
    assert!(device.reset.is_pending() && device.reset.busy().pending);
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(device.ran(), ["log", "reset", "poll"]);
    assert_eq!(Arc::strong_count(&device), 1);
    assert_eq!(
        (device.reset.flush(), device.poll.flush()),
        (Ok(false), Ok(false))
    );
    assert_eq!(wq.queue_embedded(&device, log), Queued::Accepted);
    assert!(device.inner.log.flush().is_ok());
    assert_eq!(device.ran().last(), Some(&"log"));
    drop(device);
    eventually(|| alive.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_pending_item_keeps_its_value_and_the_function_may_drop_the_last_reference() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("last reference", &engine);
    let (wq, door) = held(&engine);
    let alive = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let device = Device::new(&alive);
        assert!(
            wq.queue_embedded(&device, |device| &device.reset)
                .is_accepted()
        );
        let queued = wq.queue_delayed_embedded(&device, |device| &device.poll, SOON);
        assert!(queued.is_accepted());
    }
    // No handle is left, and the timers have fired or not.
    assert_eq!(alive.load(Ordering::SeqCst), 20);
    door.open.complete();
    eventually(|| alive.load(Ordering::SeqCst) == 0);
}

#[test]
fn a_cancelled_item_gives_its_reference_back() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("cancelled", &engine);
    let (wq, door) = held(&engine);
    let alive = Arc::new(AtomicUsize::new(0));
    let device = Device::new(&alive);
    assert!(
        device.reset.cancel().is_none() && device.poll.cancel().is_none(),
        "idle"
    );
    assert!(
        wq.queue_embedded(&device, |device| &device.reset)
            .is_accepted()
    );
    let same = device.reset.cancel().expect("it was pending");
    assert!(Arc::ptr_eq(&same, &device));
    drop(same);
    // From the timer and from the queue.
    for delay in [LONG, Duration::ZERO] {
        let queued = wq.queue_delayed_embedded(&device, |device| &device.poll, delay);
        assert!(queued.is_accepted());
        assert_eq!(Arc::strong_count(&device), 2);
        assert_eq!(device.poll.time_left() > Duration::ZERO, delay == LONG);
        let same = device.poll.cancel_sync().expect("it was pending");
        assert!(Arc::ptr_eq(&same, &device));
        drop(same);
        assert_eq!(Arc::strong_count(&device), 1);
    }
    // The last reference of all may be the returned one: then the caller owns the value.
    assert!(wq.queue_embedded(&device, log).is_accepted());
    let address = Arc::as_ptr(&device);
    drop(device);
    assert_eq!(alive.load(Ordering::SeqCst), 1);
    // SAFETY: the pending instance keeps the value.
    let last = unsafe { &*address }
        .inner
        .log
        .cancel()
        .expect("it was pending");
    assert_eq!(last.ran(), [""; 0]);
    drop(last);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    door.open.complete();
}

#[test]
fn a_disabled_item_is_refused_until_the_last_guard_goes() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("disabled", &engine);
    let (wq, door) = held(&engine);
    let device = Device::new(&Arc::default());
    assert!(
        wq.queue_embedded(&device, |device| &device.reset)
            .is_accepted()
    );
    let mut first = device.reset.disable();
    assert!(first.take_removed().is_some() && first.take_removed().is_none());
    let second = device.reset.disable_sync();
    drop(first);
    assert_eq!(
        wq.queue_embedded(&device, |device| &device.reset),
        Queued::Disabled
    );
    drop(second);
    assert!(
        wq.queue_delayed_embedded(&device, |device| &device.poll, LONG)
            .is_accepted()
    );
    let guard = device.poll.disable_sync();
    assert_eq!(Arc::strong_count(&device), 2, "in the guard");
    assert_eq!(
        wq.mod_delayed_embedded(&device, |device| &device.poll, LONG),
        Moved::Disabled
    );
    assert_eq!(
        wq.queue_delayed_embedded(&device, |device| &device.poll, LONG),
        Queued::Disabled
    );
    drop(guard);
    assert_eq!(Arc::strong_count(&device), 1);
    assert!(
        wq.queue_embedded(&device, |device| &device.reset)
            .is_accepted()
    );
    door.open.complete();
    wq.flush().unwrap();
    assert_eq!(device.ran(), ["reset"]);
}

#[test]
fn a_delayed_item_is_moved_wherever_it_is() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("moved", &engine);
    let (wq, door) = held(&engine);
    let device = Device::new(&Arc::default());
    let poll = |delay| wq.mod_delayed_embedded(&device, |device| &device.poll, delay);
    assert_eq!(poll(LONG), Moved::Accepted, "it was idle");
    assert_eq!(poll(2 * LONG), Moved::Pending, "it was on its timer");
    assert_eq!(
        poll(Duration::ZERO),
        Moved::Pending,
        "and is on the queue now"
    );
    assert_eq!(poll(LONG), Moved::Pending, "and on its timer");
    assert_eq!(Arc::strong_count(&device), 2);
    // Armed, it is queued at once by a flush, behind what is held.
    assert_eq!(device.poll.flush_timeout(SOON), Err(FlushError::TimedOut));
    assert_eq!(device.poll.time_left(), Duration::ZERO);
    door.open.complete();
    assert!(device.poll.flush_timeout(LONG).is_ok());
    assert_eq!(device.ran(), ["poll"]);
    eventually(|| Arc::strong_count(&device) == 1);
}

#[test]
fn what_a_queue_does_not_take_is_let_go() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("refused", &engine);
    let (wq, door) = held(&engine);
    let alive = Arc::new(AtomicUsize::new(0));
    let device = Device::new(&alive);
    let late = Device::new(&alive);
    std::thread::scope(|scope| {
        // It fires while the queue drains, or afterwards finds it gone.
        assert!(
            wq.queue_delayed_embedded(&late, |device| &device.poll, SOON)
                .is_accepted()
        );
        let drain = scope.spawn(|| wq.drain());
        let refused = Queued::Refused(Refused::Draining);
        eventually(|| {
            let probe = Device::new(&alive);
            wq.queue_embedded(&probe, |device| &device.reset) == refused
        });
        assert_eq!(wq.queue_embedded(&device, |device| &device.reset), refused);
        let moved = wq.mod_delayed_embedded(&device, |device| &device.poll, Duration::ZERO);
        let (why, was_pending) = (Refused::Draining, false);
        assert_eq!(moved, Moved::Refused { why, was_pending });
        assert_eq!(Arc::strong_count(&device), 1);
        door.open.complete();
        drain.join().unwrap().unwrap();
    });
    eventually(|| Arc::strong_count(&late) == 1 && Arc::strong_count(&device) == 1);
    let unknown = wq.queue_embedded_on(2, &device, |device| &device.reset);
    assert!(matches!(unknown, Err(Error::NoSuchCpu { cpu: 2, .. })));
    assert!(wq.queue_embedded_on(1, &device, log).unwrap().is_accepted());
    let there = wq.queue_delayed_embedded_on(0, &device, |device| &device.poll, Duration::ZERO);
    assert!(there.unwrap().is_accepted());
    wq.flush().unwrap();
    assert!(
        device.ran().ends_with(&["log", "poll"]),
        "{:?}",
        device.ran()
    );
}

/// Queues itself again, and drops what may be the last reference.
struct Chain {
    left: AtomicUsize,
    wq: Arc<Workqueue>,
    next: EmbeddedWork<Chain>,
    _alive: Alive,
}

impl Chain {
    fn step(self: Arc<Chain>) {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 1 {
            assert!(
                self.wq
                    .queue_embedded(&self, |chain| &chain.next)
                    .is_accepted()
            );
        }
    }
}

#[test]
fn items_that_queue_themselves_end_with_their_values() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("chains", &engine);
    let wq = Arc::new(engine.workqueue("t").build().unwrap());
    let alive = Arc::new(AtomicUsize::new(0));
    for _ in 0..50 {
        let chain = Arc::new(Chain {
            left: AtomicUsize::new(40),
            wq: wq.clone(),
            next: EmbeddedWork::new(Chain::step),
            _alive: Alive::new(&alive),
        });
        assert!(wq.queue_embedded(&chain, |chain| &chain.next).is_accepted());
    }
    wq.drain().unwrap();
    eventually(|| alive.load(Ordering::SeqCst) == 0);
}

#[test]
fn threads_that_queue_and_cancel_one_item_account_for_every_reference() {
    let engine = engine("l3:2 core:2 pu:1");
    let _deadline = Deadline::new("references", &engine);
    let wq = engine.workqueue("t").build().unwrap();
    let alive = Arc::new(AtomicUsize::new(0));
    let device = Device::new(&alive);
    let (accepted, removed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (device, wq, accepted, removed) = (&device, &wq, &accepted, &removed);
            scope.spawn(move || {
                for round in 0..3_000 {
                    let new = match (round + thread) % 3 {
                        0 => wq
                            .queue_embedded(device, |device| &device.reset)
                            .is_accepted(),
                        1 => wq
                            .queue_delayed_embedded(device, |device| &device.poll, SOON)
                            .is_accepted(),
                        _ => {
                            let moved =
                                wq.mod_delayed_embedded(device, |device| &device.poll, SOON);
                            moved == Moved::Accepted
                        }
                    };
                    accepted.fetch_add(usize::from(new), Ordering::SeqCst);
                    let back = match round % 4 {
                        0 => device.reset.cancel(),
                        1 => device.poll.cancel(),
                        _ => None,
                    };
                    removed.fetch_add(usize::from(back.is_some()), Ordering::SeqCst);
                }
            });
        }
    });
    assert!(device.poll.flush().is_ok());
    wq.flush().unwrap();
    eventually(|| Arc::strong_count(&device) == 1);
    let ended = device.ran().len() + removed.load(Ordering::SeqCst);
    assert_eq!(ended, accepted.load(Ordering::SeqCst));
}

/// Waits for its own item in its destructor.
struct Careful {
    work: EmbeddedWork<Careful>,
    cancelled: Arc<AtomicUsize>,
}

impl Drop for Careful {
    fn drop(&mut self) {
        assert!(self.work.cancel_sync().is_none());
        assert_eq!(self.work.flush(), Err(FlushError::OwnItem));
        self.cancelled.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_value_that_its_own_item_drops_may_cancel_the_item() {
    in_own_process(|| {
        let _heard = Heard::warnings();
        let engine = engine_without_hogs("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("own destructor", &engine);
        let wq = engine.workqueue("t").build().unwrap();
        let cancelled = Arc::new(AtomicUsize::new(0));
        let careful = Arc::new(Careful {
            work: EmbeddedWork::new(drop),
            cancelled: cancelled.clone(),
        });
        let door = hold(&wq, 2);
        assert!(
            wq.queue_embedded(&careful, |careful| &careful.work)
                .is_accepted()
        );
        drop(careful);
        assert_eq!(cancelled.load(Ordering::SeqCst), 0);
        door.open.complete();
        eventually(|| cancelled.load(Ordering::SeqCst) == 1);
    });
}

struct Outer {
    _bytes: [u8; 200],
    other: Option<Arc<Outer>>,
    work: EmbeddedWork<Outer>,
}

#[test]
fn an_item_of_another_value_is_refused() {
    let engine = engine("l3:1 core:1 pu:1");
    let wq = engine.workqueue("t").build().unwrap();
    let outer = |other| {
        Arc::new(Outer {
            _bytes: [0; 200],
            other,
            work: EmbeddedWork::new(drop),
        })
    };
    let other = outer(None);
    let this = outer(Some(other.clone()));
    let queue = || {
        let _ = wq.queue_embedded(&this, |this| match &this.other {
            Some(other) => &other.work,
            None => &this.work,
        });
    };
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(queue));
    let text = *refused.unwrap_err().downcast::<&str>().expect("a text");
    assert!(text.contains("no part of the value"), "{text}");
    assert!(!other.work.is_pending() && Arc::strong_count(&other) == 2);
}

/// The pool has one CPU: what comes behind the canceller begins when that waits, or has ended.
#[test]
fn a_cancel_that_waits_returns_when_the_delayed_items_function_has_ended() {
    struct Slow {
        door: Arc<Door>,
        is_over: AtomicUsize,
        poll: EmbeddedDelayedWork<Slow>,
    }
    let engine = engine_without_hogs("l3:1 core:1 pu:1");
    let _deadline = Deadline::new("cancels and waits", &engine);
    let wq = engine.workqueue("t").workers_only().build().unwrap();
    let slow = Arc::new(Slow {
        door: Door::new(),
        is_over: AtomicUsize::new(0),
        poll: EmbeddedDelayedWork::new(|slow: Arc<Slow>| {
            slow.door.pass();
            slow.is_over.store(1, Ordering::SeqCst);
        }),
    });
    let queued = wq.queue_delayed_embedded(&slow, |slow| &slow.poll, Duration::ZERO);
    assert!(queued.is_accepted());
    slow.door.wait_for(1);
    let (canceller, opener) = (slow.clone(), slow.door.clone());
    let seen = wq.spawn(move || {
        assert!(canceller.poll.cancel_sync().is_none(), "it is not pending");
        canceller.is_over.load(Ordering::SeqCst)
    });
    wq.execute(move || opener.open.complete()).unwrap();
    assert_eq!(seen.join().unwrap(), 1);
}

//! Wake-ups, culling, PENDING and the collision of two runs, in one pool.

use super::*;
use crate::item::WorkFn;
use crate::sys::atomic::AtomicUsize;
use std::mem::offset_of;
use std::ptr::NonNull;

#[test]
fn an_item_published_while_the_worker_goes_to_sleep_is_run() {
    explore(3, || {
        let (pool, pwq) = pool_and_pwq(1);
        let worker = start(&pool);
        let item = Boxed::new(raw::run_and_free);
        let done = item.done.clone();
        raw::queue_boxed(&pool, pwq, item);
        done.park();
        finish(&pool, [worker]);
    });
}

#[test]
fn two_issuers_and_a_sleeping_worker_lose_nothing() {
    explore(3, || {
        let (pool, pwq) = pool_and_pwq(1);
        let worker = start(&pool);
        let item = Boxed::new(raw::run_and_free);
        let done = item.done.clone();
        let other = thread::spawn({
            let pool = pool.clone();
            move || {
                let item = Boxed::new(raw::run_and_free);
                let done = item.done.clone();
                raw::queue_boxed(&pool, pwq, item);
                done.park();
            }
        });
        raw::queue_boxed(&pool, pwq, item);
        done.park();
        other.join().unwrap();
        finish(&pool, [worker]);
    });
}

#[test]
fn the_chain_kick_brings_the_second_worker_when_the_first_item_blocks() {
    explore(3, || {
        let (pool, pwq) = pool_and_pwq(2);
        let workers = [start(&pool), start(&pool)];
        // The first item ends only when the second has run.
        let second = Boxed::new(raw::run_and_free);
        let (begun, first_done) = (Arc::new(Parker::new()), Arc::new(Parker::new()));
        let waits = Some([&begun, &second.done]);
        let first = Item::made(&Touched::new(), Some(&first_done), waits);
        assert!(queue(&pool, pwq, &first));
        raw::queue_boxed(&pool, pwq, second);
        first_done.park();
        finish(&pool, workers);
    });
}

/// As the service thread: culls, and creates a worker on request, which it is itself.
struct CullsThenWorks {
    asked: Parker,
}

impl PoolService for CullsThenWorks {
    fn create_worker(&self, _: &Arc<Pool>) {
        self.asked.unpark();
    }
    fn watch(&self, _: &Arc<Pool>) {}
    fn cull_later(&self, _: &Arc<Pool>) {}
    fn woke(&self) {}
}

#[test]
fn a_worker_let_go_while_an_item_is_published_strands_nothing() {
    explore(3, || {
        let service = Arc::new(CullsThenWorks {
            asked: Parker::new(),
        });
        let made = Made {
            service: service.clone(),
            ..made(1)
        };
        let pool = made.pool(1);
        let pwq = add_pwq(&pool, None);
        let worker = start(&pool);
        let serving = thread::spawn({
            let (pool, service) = (pool.clone(), service.clone());
            move || {
                pool.cull(u64::MAX / 2);
                service.asked.park();
                let (id, handle) = pool.enroll();
                pool.work(id, &handle);
            }
        });
        let item = Boxed::new(raw::run_and_free);
        let done = item.done.clone();
        raw::queue_boxed(&pool, pwq, item);
        done.park();
        // If it was never asked, it ends at once.
        service.asked.unpark();
        finish(&pool, [worker, serving]);
    });
}

#[test]
fn a_flag_set_before_queueing_is_seen_whether_queueing_says_true_or_false() {
    explore(3, || {
        let (pool, pwq) = pool_and_pwq(1);
        let worker = start(&pool);
        let item = Arc::new(*Boxed::new(raw::run));
        raw::queue(&pool, pwq, &item);
        // Relaxed: only the PENDING bit orders this with the function.
        item.flag.store(1, Ordering::Relaxed);
        raw::queue(&pool, pwq, &item);
        // Some run has to see the flag, or this never returns.
        item.done.park();
        finish(&pool, [worker]);
    });
}

#[test]
fn an_item_never_runs_on_two_workers_at_once() {
    explore(2, || {
        let (pool, pwq) = pool_and_pwq(2);
        let workers = [start(&pool), start(&pool)];
        let done = Arc::new(Parker::new());
        let item = Item::new(&Touched::new(), Some(&done));
        let queued = [queue(&pool, pwq, &item), queue(&pool, pwq, &item)];
        let accepted = queued.into_iter().filter(|&accepted| accepted).count();
        wait(&item, accepted, &done);
        finish(&pool, workers);
        assert_eq!(item.runs(), accepted);
    });
}

/// An item that unparks `done`.
#[repr(C)]
struct Boxed {
    raw: RawWork,
    done: Arc<Parker>,
    /// Set before queueing with a plain store; the function must see it.
    flag: Arc<AtomicUsize>,
}

impl Boxed {
    fn new(func: WorkFn) -> Box<Boxed> {
        Box::new(Boxed {
            raw: RawWork::new(func),
            done: Arc::new(Parker::new()),
            flag: Arc::new(AtomicUsize::new(0)),
        })
    }
}

mod raw {
    //! Unsafe code: queueing raw items, and going from a raw item back to the whole.
    #![allow(unsafe_code)]
    use super::*;

    fn publish(pool: &Arc<Pool>, pwq: PwqKey, item: NonNull<RawWork>) -> bool {
        // SAFETY: every item of the models lives until its function has run, or the model ends.
        let Ok(mut item) = (unsafe { Pending::claim(item) }) else {
            return false;
        };
        item.set_destination(pool.id, pwq.index);
        pool.publish_single(item);
        true
    }

    /// Queues an item that its function frees.
    pub(super) fn queue_boxed(pool: &Arc<Pool>, pwq: PwqKey, item: Box<Boxed>) {
        let item = NonNull::from(Box::leak(item));
        assert!(publish(pool, pwq, item.cast()));
    }

    /// Queues an item that outlives its runs.
    pub(super) fn queue(pool: &Arc<Pool>, pwq: PwqKey, item: &Arc<Boxed>) -> bool {
        let at = Arc::as_ptr(item).cast_mut().cast::<RawWork>();
        publish(pool, pwq, NonNull::new(at).unwrap())
    }

    pub(super) unsafe extern "C-unwind" fn run_and_free(item: NonNull<RawWork>) {
        assert_eq!(offset_of!(Boxed, raw), 0);
        // SAFETY: queued by `queue_boxed`, which leaked the box.
        let item = unsafe { Box::from_raw(item.cast::<Boxed>().as_ptr()) };
        item.done.unpark();
    }

    pub(super) unsafe extern "C-unwind" fn run(item: NonNull<RawWork>) {
        // SAFETY: queued by `queue` through an Arc that outlives the pool.
        let item = unsafe { item.cast::<Boxed>().as_ref() };
        if item.flag.load(Ordering::Relaxed) != 0 {
            item.done.unpark();
        }
    }
}

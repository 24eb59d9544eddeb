//! Pool workqueues that go with their last item.

use super::queue;
use crate::Work;
use crate::pool::stubs;
use crate::sys::atomic::Ordering;
use crate::sys::atomic::plain::AtomicBool;
use crate::types::WorkqueueAttrs;
use std::sync::Arc;

/// Its pool workqueue is removed while the canceller accounts for the item.
#[test]
fn the_last_item_of_a_retired_pool_workqueue_can_be_cancelled() {
    let (engine, wq, pool) = queue(1, 8);
    let blocker = engine.workqueue("blocker").build().expect("legal");
    let (runs, ends) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let told = (runs.clone(), ends.clone());
    let blocks = blocker.spawn(move || {
        told.0.store(true, Ordering::Relaxed);
        stubs::eventually(|| told.1.load(Ordering::Relaxed));
    });
    stubs::eventually(|| runs.load(Ordering::Relaxed));
    let work = Work::new(|| ());
    assert!(wq.queue(&work).is_accepted());
    let attrs = WorkqueueAttrs {
        affinity_strict: true,
        ..wq.attrs()
    };
    wq.apply_attrs(attrs).expect("legal");
    let before = pool.lock().pwqs.iter().count();
    assert!(work.cancel(), "the only CPU is taken");
    assert_eq!(pool.lock().pwqs.iter().count(), before - 1);
    ends.store(true, Ordering::Relaxed);
    blocks.join().expect("it ran");
}

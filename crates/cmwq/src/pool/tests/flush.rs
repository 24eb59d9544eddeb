//! A flush of an item in a state that is rare by chance.

use super::*;
use crate::sys::atomic::plain::AtomicBool;
use crate::types::FlushError;
use std::sync::OnceLock;
use std::time::Duration;

/// Else it would return at the end of the run, before the instance that it knows of has reached a list.
#[test]
fn who_flushes_an_item_that_runs_waits_for_the_instance_on_its_way() {
    let (_engine, wq, pool) = queue(2, 8);
    let (runs, ends) = (AtomicU32::new(0), AtomicBool::new(false));
    let (counts, told) = (Arc::new(runs), Arc::new(ends));
    let work: Arc<OnceLock<Work>> = Arc::default();
    let run = {
        let (runs, ends, itself) = (counts.clone(), told.clone(), work.clone());
        let pool = pool.clone();
        move || {
            runs.fetch_add(1, Ordering::Release);
            let raw = itself.get().expect("it was queued").as_raw();
            let is_awaited = || {
                let guard = pool.lock();
                let run = guard.busy.find(raw.address(), raw.func());
                run.is_some_and(|run| !guard.busy.get(run).waiters.is_empty())
            };
            stubs::eventually(|| ends.load(Ordering::Relaxed) || is_awaited());
        }
    };
    let work = work.get_or_init(|| Work::new(run));
    assert!(wq.queue(work).is_accepted());
    stubs::eventually(|| counts.load(Ordering::Acquire) == 1);
    let mut on_its_way = work.claim().expect("it runs");
    let flushed = work.flush_timeout(Duration::from_millis(50));
    assert_eq!(flushed, Err(FlushError::TimedOut));
    told.store(true, Ordering::Relaxed);
    let pwq = only_pwq(&pool.lock());
    on_its_way.set_destination(pool.id, pwq);
    pool.publish_single(on_its_way);
    wq.flush().expect("not from an item");
    assert_eq!(counts.load(Ordering::Acquire), 2);
}

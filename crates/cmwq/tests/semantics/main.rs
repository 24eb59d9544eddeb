//! The edge cases of the specification's checklist that today's interface reaches, named by their numbers there, and what
//! handles and queues promise besides.
//!
//! `stress/main.rs` lists which fault put into the engine on purpose is caught by which test.

#[path = "../harness/mod.rs"]
mod harness;

mod flushes;
mod handles;
mod items;
mod limits;
mod pools;
mod races;

use cmwq::affinity::AffinityScope;
use cmwq::topology::{CpuSet, Topology};
use cmwq::{
    Completion, Engine, Error, JoinError, Queued, RawWork, Refused, Work, Workqueue, WorkqueueAttrs,
};
use harness::{Broken, Deadline, Random, block_on, engine, eventually, quiet_panic};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Work functions wait here until the test lets them go.
#[derive(Default)]
struct Door {
    arrived: AtomicUsize,
    open: Completion,
}

impl Door {
    fn new() -> Arc<Door> {
        Arc::default()
    }

    fn pass(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        self.open.wait();
    }

    fn wait_for(&self, arrived: usize) {
        eventually(|| self.arrived.load(Ordering::SeqCst) >= arrived);
    }
}

fn counting(count: &Arc<AtomicUsize>) -> Work {
    let count = count.clone();
    Work::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    })
}

/// Items that stay active until the door opens, queued from `cpu`.
fn held(wq: &Workqueue, cpu: usize, count: usize, door: &Arc<Door>) -> Vec<Work> {
    (0..count)
        .map(|_| {
            let door = door.clone();
            let work = Work::new(move || door.pass());
            assert!(wq.queue_on(cpu, &work).unwrap());
            work
        })
        .collect()
}

/// All that may start has started: items queued on another queue behind them have run, and the pool had CPUs to spare.
fn settle(engine: &Engine, attrs: &WorkqueueAttrs) {
    let probe = engine
        .workqueue("probe")
        .attrs(attrs.clone())
        .build()
        .unwrap();
    for _ in 0..3 {
        for cpu in engine.topology().cpus().iter() {
            let done = Arc::new(Completion::new());
            let work = Work::new({
                let done = done.clone();
                move || done.complete()
            });
            assert!(probe.queue_on(cpu, &work).unwrap());
            done.wait();
        }
    }
}

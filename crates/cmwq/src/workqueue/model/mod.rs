//! The front end under the model checker: redirected items, limits, flushes and cancelling, on the
//! real pools and workers.
//!
//! Each model builds a queue from the parts of `WqCore`, without an engine. `pool/SABOTAGES.md`
//! lists which deliberate errors were put into the code, and which models found them.

mod caller_slots;
mod control;
mod flush;
mod groups;
mod limits;
mod redirect;
mod waiters;

use crate::item::{Pending, Unclaimed, WorkFn};
use crate::pool::model::{
    Item, Touched, batching_pool, exclusive_items, explore, finish, items, pool, start, wait,
    wait_all,
};
use crate::pool::{FrontEnd, Pool, PwqKey, PwqState, Sampler, Traits};
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::workqueue::parts::flush::{FlushGenerations, wake};
use crate::workqueue::parts::group::ConcurrencyGroup;
use crate::workqueue::parts::kind::WorkqueueKind;
use crate::workqueue::parts::limits::{Limits, NodeNumbers};
use crate::workqueue::parts::pwq::Pwq;
use loom::thread;
use std::sync::Arc;

/// A queue whose pool workqueues share one limit.
struct Queue {
    flush: FlushGenerations,
    limits: Limits,
    members: Mutex<Vec<Arc<Pwq>>>,
}

impl Queue {
    fn new(max_active: i32) -> Arc<Queue> {
        Self::in_group(max_active, None)
    }

    fn in_group(max_active: i32, group: Option<ConcurrencyGroup>) -> Arc<Queue> {
        let numbers = NodeNumbers::new(max_active as usize);
        Arc::new(Queue {
            flush: FlushGenerations::default(),
            limits: Limits::with_values(WorkqueueKind::Unbound, numbers, vec![max_active], group),
            members: Mutex::new(Vec::new()),
        })
    }

    fn id(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Adds the queue to `pool`, and returns the pool workqueue.
    fn pwq(self: &Arc<Self>, pool: &Arc<Pool>) -> Arc<Pwq> {
        let limit = self.limits.of(0);
        let traits = Traits {
            waiters_run: true,
            ..Traits::default()
        };
        let state = PwqState::of(self.clone(), None, traits, limit, 0, 0);
        let key = pool.lock().add_pwq(state);
        let pool = pool.clone();
        let pwq = Pwq::new(pool, key, 0, None);
        self.members.lock().push(pwq.clone());
        pwq
    }

    fn members(&self) -> Vec<Arc<Pwq>> {
        self.members.lock().clone()
    }

    /// Ends the queue and its pools, which hold references to each other until then.
    fn finish(&self, pools: impl IntoIterator<Item = (Arc<Pool>, Vec<thread::JoinHandle<()>>)>) {
        for (pool, workers) in pools {
            finish(&pool, workers);
        }
        self.members.lock().clear();
    }
}

impl FrontEnd for Queue {
    fn name(&self) -> &str {
        "model"
    }
    fn flags(&self) -> String {
        String::new()
    }
    fn check_dependency(&self, _: Option<WorkFn>) {}
    fn pool_that_runs(&self, _: &crate::raw::RawWork, _: u32) -> Option<u32> {
        None
    }
    fn colour_done(&self, colour: u32) {
        wake(self.flush.colour_done(colour));
    }
    fn must_wait(&self, pool: &Arc<Pool>, pwq: PwqKey) {
        self.limits.must_wait(&self.members(), pool, pwq);
    }
    fn credits_freed(&self, node: usize) {
        self.limits.serve(node);
    }
    fn pwq_gone(&self, _: &Arc<Pool>, _: PwqKey) {}
}

/// Starts one worker in each of these pools.
fn started<const N: usize>(
    pools: &[Arc<Pool>; N],
) -> [(Arc<Pool>, Vec<thread::JoinHandle<()>>); N] {
    pools
        .each_ref()
        .map(|pool| (pool.clone(), vec![start(pool)]))
}

/// Queues an item on one pool workqueue.
fn queue(pwq: &Pwq, item: &Item) -> Result<(), Unclaimed> {
    publish(pwq, item.claim()?);
    Ok(())
}

/// Publishes an item that does not run elsewhere.
fn publish(pwq: &Pwq, item: Pending) {
    pwq.publish(item, 0, |_| None, &Sampler::new(), None);
}

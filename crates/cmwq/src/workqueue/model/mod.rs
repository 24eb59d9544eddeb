//! The front end under the model checker: redirects, limits, flushes and cancelling, on the real pools and workers.
//!
//! Each model builds a queue of the parts that `WqCore` is made of, without an engine. The sabotages that were tried are
//! listed at the end of `pool/PROTOCOL.md`.

mod control;
mod flush;
mod lanes;
mod limits;
mod redirect;
mod waiters;

use super::flush::Flush;
use super::kind::WorkqueueKind;
use super::limits::{Limits, Numbers};
use super::pwq::Pwq;
use crate::pool::model::{Item, Touched, batching_pool, explore, finish, pool, start};
use crate::pool::{FrontEnd, Pool, PwqKey, PwqState, Traits};
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::work::{Unclaimed, WorkFn};
use loom::thread;
use std::sync::Arc;

/// A queue whose pool workqueues share one limit.
struct Queue {
    flush: Flush,
    limits: Limits,
    members: Mutex<Vec<Arc<Pwq>>>,
}

impl Queue {
    fn new(max_active: i32) -> Arc<Queue> {
        let numbers = Numbers::new(max_active as usize);
        Arc::new(Queue {
            flush: Flush::new(),
            limits: Limits::with_values(WorkqueueKind::Unbound, numbers, vec![max_active]),
            members: Mutex::new(Vec::new()),
        })
    }

    fn id(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Its share of `pool`.
    fn pwq(self: &Arc<Self>, pool: &Arc<Pool>) -> Arc<Pwq> {
        let limit = self.limits.of(0);
        let traits = Traits {
            waiters_run: true,
            ..Traits::default()
        };
        let state = PwqState::new(self.clone(), traits, limit, 0, 0);
        let key = pool.lock().add_pwq(state);
        let pool = pool.clone();
        let pwq = Pwq::new(pool, key, 0, None);
        self.members.lock().push(pwq.clone());
        pwq
    }

    fn members(&self) -> Vec<Arc<Pwq>> {
        self.members.lock().clone()
    }

    /// Ends everything; the queue and its pools hold each other until then.
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
    fn pool_that_runs(&self, _: &crate::RawWork, _: u32) -> Option<u32> {
        None
    }
    fn colour_done(&self, colour: u32) {
        self.flush.colour_done(colour);
    }
    fn must_wait(&self, pool: &Arc<Pool>, pwq: PwqKey) {
        self.limits.must_wait(&self.members(), pool, pwq);
    }
    fn credits_freed(&self, node: usize) {
        self.limits.serve(node);
    }
    fn pwq_gone(&self, _: &Arc<Pool>, _: PwqKey) {}
}

/// Queues an item on one pool workqueue.
fn queue(pwq: &Pwq, item: &Item) -> Result<(), Unclaimed> {
    pwq.publish(item.claim()?);
    Ok(())
}

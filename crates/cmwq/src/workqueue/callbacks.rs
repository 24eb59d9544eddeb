//! The callbacks of a workqueue, which its engine, its concurrency group and its pools call.

use super::parts::core::WqCore;
use super::parts::group::Member;
use super::parts::kind::WorkqueueKind;
use super::parts::memory_reclaim;
use super::parts::pwq::Pwq;
use crate::engine::Queue;
use crate::item::{RawWork, WorkFn};
use crate::pool::{FrontEnd, Pool, PwqKey, current};
use crate::sys::names;
use crate::trace::warn_once;
use cmwq_topology::affinity::AffinityScope;
use std::any::Any;
use std::sync::Arc;

impl Queue for WqCore {
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// An unbound queue whose scope is `default` follows the change. An ordered queue does not.
    fn follow_default_scope(self: Arc<Self>) {
        let mut control = self.control.lock();
        if control.attrs.affinity_scope == AffinityScope::Default
            && self.kind == WorkqueueKind::Unbound
        {
            self.remap(&mut control);
        }
    }

    fn follow_cpus(self: Arc<Self>) {
        let mut control = self.control.lock();
        self.settle_rescuer(&control);
        if self.kind.is_unbound() {
            self.follow(&mut control);
        }
    }

    fn set_frozen(&self, frozen: bool) {
        if !self.flags.freezable {
            return;
        }
        self.change_limits(|limits| {
            // Freezing first accepts the items that were queued before this call, and makes them
            // active as far as there are credits.
            for pwq in self.members() {
                drop(pwq.pool.lock_accepting());
            }
            limits.set_frozen(frozen);
        });
    }

    fn is_freezing(&self) -> bool {
        self.flags.freezable && self.limits.is_any_active(&self.members())
    }
}

impl Member for WqCore {
    fn pwqs(&self) -> Vec<Arc<Pwq>> {
        self.members()
    }
}

impl FrontEnd for WqCore {
    fn name(&self) -> &str {
        &self.name
    }

    fn flags(&self) -> String {
        format!("{}{}", self.kind, self.flags)
    }

    fn is_freezable(&self) -> bool {
        self.flags.freezable
    }

    fn check_dependency(&self, func: Option<WorkFn>) {
        let caller = current();
        if self.flags.mem_reclaim || !(caller.reclaim || memory_reclaim::is_marked()) {
            return;
        }
        let target = match func {
            Some(func) => format!(
                "{} of workqueue {}",
                names::name_of(func as usize),
                self.name
            ),
            None => format!("workqueue {}", self.name),
        };
        if memory_reclaim::is_marked() {
            warn_once!("a thread that frees memory waits for {target}, which has no rescuer");
        }
        if caller.reclaim {
            warn_once!(
                "{} of workqueue {}, which has a rescuer, waits for {target}, which has none",
                names::name_of(caller.func),
                self.engine.queue_name(caller.front),
            );
        }
    }

    fn pool_that_runs(&self, item: &RawWork, but: u32) -> Option<u32> {
        let members = self.members();
        let mut others = members.iter().map(|pwq| &pwq.pool);
        let runs = others.find(|pool| pool.id != but && pool.lock().runs(item));
        runs.map(|pool| pool.id)
    }

    fn is_used_up_by(&self, node: usize, tid: i32) -> bool {
        // On an ordered queue every item waits for the one that runs, wherever that one runs.
        let node = (!self.ordered()).then_some(node);
        self.limits.is_used_up_by(&self.members(), node, tid)
    }

    fn colour_done(&self, colour: u32) {
        self.engine
            .service()
            .wake_tasks(self.flush.colour_done(colour));
    }

    fn must_wait(&self, pool: &Arc<Pool>, key: PwqKey) {
        self.limits.must_wait(&self.members(), pool, key);
    }

    fn credits_freed(&self, node: usize) {
        self.limits.serve(node);
    }

    fn room_freed(&self) {
        if let Some(room) = &self.room {
            self.engine.service().wake_tasks(room.serve());
        }
    }

    fn pwq_gone(&self, pool: &Arc<Pool>, key: PwqKey) {
        self.forget(pool, key);
    }
}

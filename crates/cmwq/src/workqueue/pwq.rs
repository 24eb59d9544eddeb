//! One pool workqueue as its queue knows it.

use crate::pool::{Issuer, Pool, PwqKey, Together, note_way};
use crate::work::Pending;
use crate::work::closure::Small;
use std::sync::Arc;

/// One pool workqueue as its queue knows it.
// All issuers read it, and it is hardly ever written: nothing that is may lie on its lines.
#[repr(align(128))]
pub(super) struct Pwq {
    pub(super) pool: Arc<Pool>,
    pub(super) key: PwqKey,
    /// Which of the queue's limits its items count against.
    pub(super) node: usize,
    /// Where items are published together, if they may be.
    together: Option<Arc<Together>>,
}

impl Pwq {
    pub(super) fn new(
        pool: Arc<Pool>,
        key: PwqKey,
        node: usize,
        together: Option<Arc<Together>>,
    ) -> Arc<Self> {
        Arc::new(Pwq {
            pool,
            key,
            node,
            together,
        })
    }

    /// Queues a closure that nobody will see as an item, if it can be had so. `true`: it is handed on.
    #[inline]
    pub(super) fn publish_closure(&self, closure: &Small) -> bool {
        let together = self.together.as_ref();
        together.is_some_and(|together| self.pool.publish_closure(closure, together))
    }

    /// The same for what has a handle, which is `item` as long as the handle is there. Given back if it cannot be had so.
    #[inline]
    pub(super) fn publish_with_handle(
        &self,
        closure: &Small,
        mut item: Pending,
    ) -> Result<(), Pending> {
        let Some(together) = &self.together else {
            return Err(item);
        };
        item.aim(self.pool.id, self.key.place);
        self.pool.publish_with_handle(closure, item, together)
    }

    /// See [`note_way`].
    #[inline]
    pub(super) fn note_way(&self, issuer: Issuer, era: usize) {
        if let Some(together) = &self.together {
            note_way(together, issuer, era);
        }
    }

    /// Queues an item that the caller owns.
    #[inline]
    pub(super) fn publish(&self, mut item: Pending) {
        item.aim(self.pool.id, self.key.place);
        match &self.together {
            Some(together) => self.pool.publish_together(item, together),
            None => self.pool.publish(item),
        }
    }

    /// Non-reentrance across pools: as [`publish`](Self::publish), but while the pool that the item was last queued on still runs
    /// it for the queue `front`, the new instance goes there too. `find` tells the pool of a number.
    #[inline]
    pub(super) fn publish_behind_its_run<'p>(
        &self,
        mut item: Pending,
        front: usize,
        find: impl FnOnce(u32) -> Option<&'p Arc<Pool>>,
    ) {
        let last_pool = item.last_pool();
        if last_pool != self.pool.id
            && last_pool != 0
            && let Some(pool) = find(last_pool)
        {
            match pool.publish_if_it_runs(item, front) {
                Ok(()) => return,
                Err(not_there) => item = not_there,
            }
        }
        self.publish(item);
    }
}

//! A pool workqueue: the part of one workqueue in one pool, as its queue sees it.

use crate::item::Pending;
use crate::item::closure::Small;
use crate::pool::{Claimed, Issuer, Pool, PwqChunks, PwqKey, Sampler};
use std::sync::Arc;

/// The part of one workqueue in one pool, as its queue sees it.
#[repr(align(128))]
pub(crate) struct Pwq {
    pub(crate) pool: Arc<Pool>,
    pub(crate) key: PwqKey,
    /// The index of the queue's limit against which its items count.
    pub(crate) node: usize,
    /// The chunks for its items and closures, if they may be published in chunks.
    chunks: Option<Arc<PwqChunks>>,
}

impl Pwq {
    pub(crate) fn new(
        pool: Arc<Pool>,
        key: PwqKey,
        node: usize,
        chunks: Option<Arc<PwqChunks>>,
    ) -> Arc<Self> {
        Arc::new(Pwq {
            pool,
            key,
            node,
            chunks,
        })
    }

    /// Publishes a closure in a chunk, where it is not visible as an item. `false`: that is not
    /// possible here.
    #[inline]
    pub(crate) fn publish_closure(&self, closure: &Small, via: Option<(Issuer, usize)>) -> bool {
        let chunks = self.chunks.as_ref();
        chunks.is_some_and(|chunks| self.pool.publish_closure(closure, chunks, via))
    }

    /// Publishes the items that `give` [adds](Self::add_to_batch).
    #[inline]
    pub(crate) fn publish_batch(&self, give: impl FnOnce(&mut Claimed<'_>)) {
        self.pool.publish_batch(self.chunks.as_deref(), give);
    }

    /// Adds an item that the caller owns to a [batch](Self::publish_batch) of this pool workqueue.
    /// If another pool still runs the item, it goes to that pool instead: see
    /// [`publish`](Self::publish).
    #[inline]
    pub(crate) fn add_to_batch<'p>(
        &self,
        batch: &mut Claimed<'_>,
        mut item: Pending,
        front: usize,
        find: impl FnOnce(u32) -> Option<&'p Arc<Pool>>,
    ) {
        match self.runs_elsewhere(item, front, find) {
            Ok(()) => return,
            Err(not_there) => item = not_there,
        }
        item.set_destination(self.pool.id, self.key.index);
        batch.add(item);
    }

    /// Publishes the closures that `give` adds in chunks, where they are not visible as items.
    /// `false`: that is not possible here, and `give` was not called.
    pub(crate) fn publish_closures(&self, give: impl FnOnce(&mut dyn FnMut(Small))) -> bool {
        let chunks = self.chunks.as_ref();
        let Some(chunks) = chunks else {
            return false;
        };
        self.pool.publish_closures(chunks, give);
        true
    }

    /// Publishes an item that the caller owns so that it never runs on two pools at the same time. If
    /// another pool, on which the item was queued last, still runs it for the queue `front`, then the
    /// new instance goes to that pool. `find` returns the pool with a number.
    #[inline]
    pub(crate) fn publish<'p>(
        &self,
        item: Pending,
        front: usize,
        find: impl FnOnce(u32) -> Option<&'p Arc<Pool>>,
        sampler: &Sampler,
        via: Option<(Issuer, usize)>,
    ) {
        if let Err(mut item) = self.runs_elsewhere(item, front, find) {
            item.set_destination(self.pool.id, self.key.index);
            self.pool
                .publish(item, self.chunks.as_deref(), sampler, via);
        }
    }

    /// Publishes the item in the pool that it was last queued on, if that is another pool and runs
    /// it for the queue `front`. Otherwise the caller gets the item back.
    #[inline]
    fn runs_elsewhere<'p>(
        &self,
        item: Pending,
        front: usize,
        find: impl FnOnce(u32) -> Option<&'p Arc<Pool>>,
    ) -> Result<(), Pending> {
        let last_pool = item.last_pool();
        if last_pool != self.pool.id
            && last_pool != 0
            && let Some(pool) = find(last_pool)
        {
            return pool.publish_if_it_runs(item, front);
        }
        Err(item)
    }
}

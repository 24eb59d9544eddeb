//! A pool workqueue, as seen by its queue.

use crate::item::Pending;
use crate::item::closure::Small;
use crate::pool::{Claimed, Issuer, Pool, PwqChunks, PwqKey, note_route};
use std::sync::Arc;

/// A pool workqueue, as seen by its queue.
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

    /// Publishes a closure in a chunk, not visible as an item. `false`: not possible here.
    #[inline]
    pub(crate) fn publish_closure(&self, closure: &Small) -> bool {
        let chunks = self.chunks.as_ref();
        chunks.is_some_and(|chunks| self.pool.publish_closure(closure, chunks))
    }

    /// As above, for a closure with a handle; `item` represents it while the handle exists. Returns
    /// `item` if it could not be published that way.
    #[inline]
    pub(crate) fn publish_with_handle(
        &self,
        closure: &Small,
        mut item: Pending,
    ) -> Result<(), Pending> {
        let Some(chunks) = &self.chunks else {
            return Err(item);
        };
        item.set_destination(self.pool.id, self.key.index);
        self.pool.publish_with_handle(closure, item, chunks)
    }

    /// See [`note_route`].
    #[inline]
    pub(crate) fn note_route(&self, issuer: Issuer, epoch: usize) {
        if let Some(chunks) = &self.chunks {
            note_route(chunks, issuer, epoch);
        }
    }

    /// Queues an item that the caller owns.
    #[inline]
    pub(crate) fn publish(&self, mut item: Pending) {
        item.set_destination(self.pool.id, self.key.index);
        match &self.chunks {
            Some(chunks) => self.pool.publish_in_chunk(item, chunks),
            None => self.pool.publish(item),
        }
    }

    /// As [`publish_behind_its_run`](Self::publish_behind_its_run), and never in a chunk.
    pub(crate) fn publish_apart<'p>(
        &self,
        item: Pending,
        front: usize,
        find: impl FnOnce(u32) -> Option<&'p Arc<Pool>>,
    ) {
        if let Err(mut item) = self.runs_elsewhere(item, front, find) {
            item.set_destination(self.pool.id, self.key.index);
            self.pool.publish_apart(item);
        }
    }

    /// Publishes the items that `give` [adds](Self::add_to_batch).
    #[inline]
    pub(crate) fn publish_batch(&self, give: impl FnOnce(&mut Claimed<'_>)) {
        self.pool.publish_batch(self.chunks.as_deref(), give);
    }

    /// Adds an item that the caller owns to a [batch](Self::publish_batch) of this pool workqueue, unless the item has to go to the pool that
    /// still runs it: see [`publish_behind_its_run`](Self::publish_behind_its_run).
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

    /// Publishes the closures that `give` adds in chunks, not visible as items. `false`: not possible here, and `give` was not called.
    pub(crate) fn publish_closures(&self, give: impl FnOnce(&mut dyn FnMut(Small))) -> bool {
        let chunks = self.chunks.as_ref();
        let Some(chunks) = chunks else {
            return false;
        };
        self.pool.publish_closures(chunks, give);
        true
    }

    /// Non-reentrance across pools: as [`publish`](Self::publish), but while the pool that the item was last queued on still runs it for
    /// the queue `front`, the new instance goes there too. `find` returns the pool of a number.
    #[inline]
    pub(crate) fn publish_behind_its_run<'p>(
        &self,
        item: Pending,
        front: usize,
        find: impl FnOnce(u32) -> Option<&'p Arc<Pool>>,
    ) {
        if let Err(item) = self.runs_elsewhere(item, front, find) {
            self.publish(item);
        }
    }

    /// Publishes the item in the pool that it was last queued on, if that is another pool and runs it for the queue `front`; otherwise
    /// gives it back.
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

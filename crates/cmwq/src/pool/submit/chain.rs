//! Batch submission: an issuer publishes many items with one exchange on the inbox.

use super::producer::{with, with_open};
use crate::item::closure::Small;
use crate::item::{Chain, OpenChunk, Pending, Pushed};
use crate::pool::Pool;
use crate::pool::queue::together::Together;
use std::sync::Arc;

impl Pool {
    /// An empty chain of items for the pool workqueue of `together`.
    #[inline]
    pub(crate) fn chain<'t>(&self, together: Option<&'t Together>) -> Chain<'t> {
        Chain::new(together.map(|together| &*together.items))
    }

    /// Adds to `chain` an item with the chain's destination.
    #[inline]
    pub(crate) fn add_to_chain(&self, chain: &mut Chain<'_>, item: Pending) {
        let alone = !self.oldest_batch.is_after(item.noted_batch());
        with_open(|open| chain.add(item, alone, open));
    }

    /// Publishes all items of the chain, and wakes a worker if that is this issuer's duty.
    pub(crate) fn publish_chain(self: &Arc<Self>, mut chain: Chain<'_>) {
        with_open(|open| chain.finish(open));
        let items = chain.len() as u32;
        if items == 0 {
            return;
        }
        let pushed = self.inbox.push_chain(chain);
        with(|producer| producer.count_chain(self.id, items, pushed));
        if pushed == Pushed::MustNotify && !cfg!(cmwq_loom) {
            // Workers sleep, and take the chunk before the next batch.
            with_open(OpenChunk::leave);
        }
        self.see_to(pushed);
    }

    /// Publishes the closures that `give` adds, in chunks.
    pub(crate) fn publish_closures(
        self: &Arc<Self>,
        together: &Together,
        give: impl FnOnce(&mut dyn FnMut(Small)),
    ) {
        let mut chain = Chain::new(None);
        with_open(|open| {
            give(&mut |closure| chain.add_closure(&together.closures, &closure, open));
        });
        self.publish_chain(chain);
    }
}

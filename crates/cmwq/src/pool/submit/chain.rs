//! Batch submission: an issuer publishes many items with one exchange on the inbox.

use super::producer::with;
use crate::item::closure::Small;
use crate::item::{Chain, Pending};
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
        chain.add(item, alone);
    }

    /// Publishes all items of the chain, and wakes a worker if that is this issuer's duty.
    pub(crate) fn publish_chain(self: &Arc<Self>, mut chain: Chain<'_>) {
        chain.finish();
        let items = chain.len() as u32;
        if items == 0 {
            return;
        }
        // Keeps the order in which the thread publishes.
        with(|producer| producer.open.leave());
        let pushed = self.inbox.push_chain(chain);
        with(|producer| producer.count_chain(self.id, items, pushed));
        self.see_to(pushed);
    }

    /// Publishes the closures that `give` adds, in chunks.
    pub(crate) fn publish_closures(
        self: &Arc<Self>,
        together: &Together,
        give: impl FnOnce(&mut dyn FnMut(Small)),
    ) {
        let mut chain = Chain::new(None);
        give(&mut |closure| chain.add_closure(&together.closures, &closure));
        self.publish_chain(chain);
    }
}

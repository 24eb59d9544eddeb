//! Batch submission: an issuer publishes many items with one exchange on the inbox.

use super::producer::{with, with_or_new};
use crate::item::closure::Small;
use crate::item::{Chain, OpenChunk, Pending, Pushed, ReadOldest};
use crate::pool::Pool;
use crate::pool::queue::pwq_chunks::PwqChunks;
use std::sync::Arc;

/// The items of a batch while its issuer claims them.
pub(crate) struct Claimed<'p> {
    pool: &'p Pool,
    chain: Chain<'p>,
    /// The oldest open batch as it was when it was last read. Workers write the original all the
    /// time, so this copy is used for many items.
    oldest: ReadOldest,
}

impl Claimed<'_> {
    /// Adds an item with the batch's destination.
    #[inline(always)]
    pub(crate) fn add(&mut self, item: Pending) {
        let noted = item.noted_batch();
        if !self.oldest.is_after(noted) {
            self.oldest = self.pool.oldest_batch.read();
        }
        let alone = !self.oldest.is_after(noted);
        self.chain.add(item, alone);
    }
}

impl Pool {
    /// Publishes the items that `give` adds, which go to the pool workqueue of `chunks`, and wakes
    /// a worker if that is this issuer's duty.
    #[inline]
    pub(crate) fn publish_batch(
        self: &Arc<Self>,
        chunks: Option<&PwqChunks>,
        give: impl FnOnce(&mut Claimed<'_>),
    ) {
        with_or_new(|producer| {
            let open = &producer.open;
            let mut claimed = Claimed {
                pool: self,
                chain: Chain::new(chunks.map(|chunks| &*chunks.items), open),
                oldest: self.oldest_batch.read(),
            };
            give(&mut claimed);
            self.publish_chain(claimed.chain, open);
        });
    }

    /// Publishes the closures that `give` adds, in chunks.
    pub(crate) fn publish_closures(
        self: &Arc<Self>,
        chunks: &PwqChunks,
        give: impl FnOnce(&mut dyn FnMut(Small)),
    ) {
        with_or_new(|producer| {
            let open = &producer.open;
            let mut chain = Chain::new(None, open);
            give(&mut |closure| chain.add_closure(&chunks.closures, &closure));
            self.publish_chain(chain, open);
        });
    }

    fn publish_chain(self: &Arc<Self>, mut chain: Chain<'_>, open: &OpenChunk) {
        chain.finish();
        let items = chain.len() as u32;
        if items == 0 {
            return;
        }
        let pushed = self.inbox.push_chain(chain);
        with(|producer| producer.count_chain(self.id, items, pushed));
        if pushed == Pushed::MustNotify && !cfg!(cmwq_loom) {
            // The chain has woken a worker, which takes this chunk before the next batch comes.
            open.leave();
        }
        self.notify_if_due(pushed);
    }
}

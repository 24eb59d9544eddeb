//! Items that are disabled for a while.

use super::embedded::DisabledValue;
use super::items::{Handle, Item};
use super::library::types::DisableGuard;
use super::raw::RawCell;
use super::world::Queue;
use super::{Broken, Random};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What keeps an item disabled.
enum Guard {
    Handle(DisableGuard),
    Raw(Arc<RawCell>),
    Embedded(DisabledValue),
}

/// An item that is disabled.
pub(crate) struct Held {
    pub(crate) queue: Arc<Queue>,
    item: Arc<Item>,
    guard: Guard,
    /// How often it had run when no run was left.
    runs: Option<u64>,
}

impl Held {
    /// Enables it again, and queues it perhaps.
    pub(crate) fn let_go(self, broken: &Broken, random: &mut Random) {
        let account = &self.item.account;
        if let Some(before) = self.runs {
            let now = account.runs();
            broken.expect(now == before && !account.is_inside(), || {
                let (name, class) = (&self.queue.name, self.item.class);
                format!("{name}: ran while disabled ({class:?}): {before} runs before, {now} after")
            });
        }
        let queue_it = random.one_in(2);
        match self.guard {
            Guard::Handle(guard) if queue_it => {
                account.flag.fetch_add(1, Relaxed);
                account.accept(self.queue.wq.enable_and_queue(guard).is_accepted());
            }
            Guard::Handle(guard) => drop(guard),
            Guard::Raw(cell) => {
                if cell.raw.enable_work() && queue_it {
                    account.accept(cell.queue(&self.queue));
                }
            }
            Guard::Embedded(guard) => {
                drop(guard);
                if queue_it {
                    self.item.queue(&self.queue, None, random);
                }
            }
        }
    }
}

impl Item {
    pub(crate) fn disable(
        self: &Arc<Self>,
        queue: &Arc<Queue>,
        sync: bool,
        broken: &Broken,
    ) -> Held {
        let guard = match &self.handle {
            Handle::Work(work) if sync => Guard::Handle(work.disable_sync()),
            Handle::Work(work) => Guard::Handle(work.disable()),
            Handle::Delayed(work) if sync => Guard::Handle(work.disable_sync()),
            Handle::Delayed(work) => Guard::Handle(work.disable()),
            Handle::Raw(cell) => {
                let removed = match sync {
                    true => cell.raw.disable_sync(),
                    false => cell.raw.disable_work(),
                };
                self.account.remove(cell.unlend(removed));
                Guard::Raw(cell.clone())
            }
            Handle::Embedded(value) => {
                let (guard, removed) = value.disable(sync);
                self.account.remove(removed);
                Guard::Embedded(guard)
            }
        };
        if let Guard::Handle(guard) = &guard {
            self.account.remove(guard.removed_pending());
        }
        broken.expect(!(sync && self.account.is_inside()), || {
            format!("{}: disabled, waited for, and runs", queue.name)
        });
        Held {
            queue: queue.clone(),
            item: self.clone(),
            guard,
            runs: sync.then(|| self.account.runs()),
        }
    }
}

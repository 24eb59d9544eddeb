//! Many items at once: each is accepted or not as the batch says, runs once, and in order where there is one.

use super::issuer::Issuer;
use super::library::Work;
use super::library::types::{BatchRefused, Queued, WorkqueueKind};
use super::os::lock_long;
use super::world::{ITEMS_PER_QUEUE, Queue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

impl Issuer {
    pub(crate) fn batch(&mut self, queue: &Arc<Queue>) {
        match self.random.below(4) {
            0 => self.batch_of_items(queue),
            1 => self.batch_of_closures(queue),
            2 => self.batch_with_handles(queue),
            _ => (0..self.how_many()).for_each(|_| self.execute(queue)),
        }
    }

    fn how_many(&mut self) -> usize {
        let most = [3, 12, 40, 300][self.random.below(4)];
        self.random.below(most)
    }

    /// Reusable items, some of them more than once.
    fn batch_of_items(&mut self, queue: &Arc<Queue>) {
        let count = self.random.below(20);
        let ordinary: Vec<usize> = (0..ITEMS_PER_QUEUE)
            .filter(|&at| queue.items[at].ordinary().is_some())
            .collect();
        let chosen: Vec<usize> = (0..count)
            .map(|_| ordinary[self.random.below(ordinary.len())])
            .collect();
        let works: Vec<Work> = (chosen.iter())
            .filter_map(|&at| queue.items[at].ordinary().cloned())
            .collect();
        let mut next =
            (queue.kind == WorkqueueKind::Ordered).then(|| lock_long(&queue.lanes[0].next));
        let flags: Vec<u64> = (chosen.iter())
            .map(|&at| queue.items[at].raise_flag())
            .collect();
        let batch = queue.wq.queue_batch(&works);
        let mut fates = vec![Queued::Accepted; count];
        for &(index, fate) in batch.not_accepted() {
            fates[index] = fate;
        }
        let broken = self.world.broken.clone();
        let accepted = fates.iter().filter(|fate| fate.is_accepted()).count();
        broken.expect(accepted == batch.accepted(), || {
            let (name, says) = (&queue.name, batch.accepted());
            format!("{name}: a batch says {says} of {count}, {accepted} have no other fate")
        });
        let mut owed = Vec::new();
        for ((&at, flag), fate) in chosen.iter().zip(flags).zip(fates) {
            let item = &queue.items[at];
            let possible = match fate {
                Queued::Accepted | Queued::AlreadyPending => true,
                Queued::Disabled => item.class.may_be_disabled(),
                Queued::Refused(_) => queue.drains,
            };
            broken.expect(possible, || format!("{}: {fate}, in a batch", queue.name));
            let next = next.as_deref_mut();
            let seen = item.was_queued(queue, flag, fate.is_accepted(), next);
            owed.extend(seen.map(|owed| (at, owed)));
        }
        drop(next);
        for (at, flag) in owed {
            self.is_owed(queue, at, flag);
        }
    }

    fn batch_of_closures(&mut self, queue: &Arc<Queue>) {
        let (count, ran) = (self.how_many(), Arc::new(AtomicUsize::new(0)));
        let wq = queue.clone();
        let mut next = lock_long(&wq.lanes[0].next);
        let mut made = 0;
        let closures = (0..count).map(|_| {
            made += 1;
            *next += 1;
            let value = self.random.bits();
            let closure = self.closure(queue, 0, *next, queue.lanes.len() == 1, value);
            let ran = ran.clone();
            move || {
                ran.fetch_add(1, Relaxed);
                closure();
            }
        });
        let result = queue.wq.execute_batch(closures);
        drop(next);
        let accepted = match result {
            Ok(accepted) => accepted,
            Err(BatchRefused { accepted, .. }) => accepted,
        };
        let broken = self.world.broken.clone();
        let name = &queue.name;
        broken.expect(result.is_ok() || queue.drains, || {
            format!("{name}: a batch was refused without a drain")
        });
        let whole = result.is_err() || accepted == count;
        broken.expect(whole && accepted <= made, || {
            format!("{name}: a batch of {count}, {made} made, says {accepted}")
        });
        if self.random.one_in(4) {
            queue.wq.flush().expect("not from an item of the queue");
            let ran = ran.load(Relaxed);
            broken.expect(ran == accepted, || {
                format!("{name}: a batch says {accepted}, {ran} ran before a flush returned")
            });
        }
    }

    fn batch_with_handles(&mut self, queue: &Arc<Queue>) {
        let count = self.how_many();
        let wq = queue.clone();
        let mut next = lock_long(&wq.lanes[0].next);
        let mut values = Vec::new();
        let closures = (0..count).map(|_| {
            *next += 1;
            let value = self.random.bits();
            values.push(value);
            self.closure(queue, 0, *next, queue.lanes.len() == 1, value)
        });
        let handles = queue.wq.spawn_batch(closures);
        drop(next);
        let right = handles.len() == count;
        self.world.broken.expect(right, || {
            format!("{}: {count} spawned, {} handles", queue.name, handles.len())
        });
        for (value, handle) in values.into_iter().zip(handles) {
            match self.random.below(4) {
                0 => self.join(value, handle),
                1 if self.handles.len() < 64 => self.handles.push((value, handle)),
                _ => drop(handle),
            }
        }
    }
}

//! Queues that come and go.

use super::Issuer;
use super::bodies::sleep_until;
use super::library::WorkqueueKind;
use super::world::Queue;
use std::sync::Arc;
use std::time::Duration;

impl Issuer {
    /// Replaces a queue that other threads use by a new one. The last user destroys the old one.
    pub(crate) fn replace(&mut self, which: usize) {
        let like = self.random.below(8);
        self.replace_by(which, like);
    }

    fn replace_by(&mut self, which: usize, like: usize) {
        let drains = which.is_multiple_of(3);
        let new = self
            .world
            .clone()
            .make_queue(like, drains, &mut self.random);
        let old = self.world.replace(which, new);
        self.mine.remove(&old.number);
        old.may_lose_timers();
    }

    /// Of one queue in the program: its pools go and others come, since no other queue has their nice level, or one of its items is queued again and again,
    /// and all else is done with it. Threads that do both meet items whose pool has just gone.
    pub(crate) fn churn(&mut self) {
        let queue = self.world.queue(0);
        let unbound = matches!(queue.kind, WorkqueueKind::Unbound | WorkqueueKind::Ordered);
        if !unbound {
            drop(queue);
            let like = self.random.below(2);
            return self.replace_by(0, like);
        }
        let flips = self.random.one_in(2);
        let at = [0, 2, 6, 7][self.random.below(4)];
        for _ in 0..2 + self.random.below(16) {
            if flips {
                let mut attrs = self.some_attrs();
                attrs.nice = self.random.below(5) as i32 - 5;
                self.apply(&queue, attrs);
            } else {
                self.handle_item(&queue, at);
            }
            if self.random.one_in(2) {
                self.queue_item(&queue, at);
            }
        }
    }

    /// Makes a queue, or fills and drops the one there is.
    pub(crate) fn turn_over_own(&mut self) {
        let Some(queue) = self.own.take() else {
            let like = self.random.below(8);
            let queue = self.world.clone().make_queue(like, false, &mut self.random);
            self.own = Some(queue);
            return;
        };
        self.keeps_a_lowered_limit(&queue);
        self.queue_everywhere(&queue);
        for _ in 0..self.random.below(20) {
            self.spawn(&queue);
        }
        for item in queue.items.iter().filter(|item| item.class.is_delayed()) {
            if self.random.one_in(2) {
                item.cancel();
            }
        }
        queue.may_lose_timers();
        let shots = queue.shots.clone();
        self.mine.remove(&queue.number);
        // Items hold the queue while they run: it is dropped here or by the last of them.
        let gone = Arc::downgrade(&queue);
        drop(queue);
        sleep_until(Duration::from_micros(50), || {
            self.world.empty_graveyard();
            gone.strong_count() == 0 && shots.is_settled()
        });
    }

    /// No other thread changes this queue's limit: what is queued after it was lowered keeps to it.
    fn keeps_a_lowered_limit(&mut self, queue: &Arc<Queue>) {
        let limit = 1 + self.random.below(queue.max_active.min(4));
        if queue.wq.set_max_active(limit).is_err() {
            return;
        }
        queue.wq.flush().expect("not from an item of the queue");
        for lane in &queue.lanes {
            lane.room.take_peak();
        }
        for _ in 0..self.random.below(60) {
            self.spawn(queue);
        }
        queue.wq.flush().expect("not from an item of the queue");
        let nodes = self.world.engine.topology().nodes().len();
        let most = match queue.kind {
            WorkqueueKind::Unbound => limit * (nodes + usize::from(nodes > 1)),
            _ => limit,
        };
        for lane in &queue.lanes {
            let peak = lane.room.take_peak();
            self.world.broken.expect(peak <= most, || {
                format!("{}: {peak} active with a limit of {most}", queue.name)
            });
        }
    }
}

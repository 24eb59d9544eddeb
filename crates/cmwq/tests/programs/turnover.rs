//! Queues that come and go.

use super::bodies::{compute, sleep_until};
use super::library::affinity::AffinityScope;
use super::library::types::{WorkqueueAttrs, WorkqueueKind};
use super::library::{DelayedWork, JoinHandle, Work, blocking};
use super::model::lock;
use super::world::Queue;
use super::{Issuer, Random, os};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};
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

    /// In a program in which threads meet: all do the same to one queue, or to two.
    pub(crate) fn churn(&mut self) {
        match self.world.seed % 8 {
            0 => self.churn_limits(),
            1 if self.world.queue_count() > 1 => self.change_places(),
            2 => self.churn_slots(),
            3 => self.churn_batches(),
            _ => self.churn_pools(),
        }
        os::lag(false);
    }

    /// The queue's pools go and others come, since no other queue has their nice level, or one of
    /// its items is queued again and again, and all else is done with it. Threads that do both meet
    /// items whose pool has just gone.
    fn churn_pools(&mut self) {
        // Of two queues the one that is never drained: what is pending there runs.
        let which = 1 % self.world.queue_count();
        let queue = self.world.queue(which);
        let unbound = matches!(queue.kind, WorkqueueKind::Unbound | WorkqueueKind::Ordered);
        if !unbound {
            drop(queue);
            let like = self.random.below(2);
            return self.replace_by(which, like);
        }
        let flips = self.random.one_in(2);
        // One item in the program, or they do not meet.
        let at = [0, 2, 6, 7][self.world.seed as usize / 8 % 4];
        if self.random.one_in(2) {
            let most_us = [0, 10, 100, 1_000, 4_000][self.random.below(5)];
            queue.items[at].lingers_us.store(most_us, Relaxed);
        }
        for _ in 0..2 + self.random.below(16) {
            os::lag(self.random.one_in(4));
            if self.random.one_in(8) {
                // While it is disabled hardly anything meets.
                self.release_one();
            }
            if flips {
                let mut attrs = self.some_attrs();
                attrs.nice = self.random.below(5) as i32 - 5;
                self.apply(&queue, attrs);
                // They wait for a worker of the new pool.
                self.queue_item(&queue, at);
                self.spawn(&queue);
                match self.random.one_in(4) {
                    true => self.handle_item(&queue, at),
                    false => self.flush_or_pause(&queue),
                }
            } else {
                match self.random.below(16) {
                    0 => self.flush_or_pause(&queue),
                    1 | 2 => self.spawn(&queue),
                    3 => self.spawn_and_join(&queue),
                    4..8 if queue.in_order() => self.spawn(&queue),
                    _ => self.handle_item(&queue, at),
                }
                if self.random.one_in(2) {
                    // Those that have waited for one run would all queue the next at its end.
                    self.pause();
                }
                if self.random.one_in(2) {
                    // What is claimed and on no list yet stays so for longer than the run lasts.
                    os::lag(self.random.one_in(2));
                    self.queue_item(&queue, at);
                }
            }
        }
    }

    /// Threads spawn on one queue and join at once, for which they have caller slots, while another
    /// does what closes those.
    fn churn_slots(&mut self) {
        let fits = |queue: &Arc<Queue>| {
            queue.kind == WorkqueueKind::Unbound && !queue.runners.workers_only
        };
        let mut queues = (0..self.world.queue_count()).map(|which| self.world.queue(which));
        let Some(queue) = queues.find(fits) else {
            return self.replace_by(0, 0);
        };
        for _ in 0..1 + self.random.below(4) {
            // Only threads of such pools have slots.
            let attrs = WorkqueueAttrs {
                nice: 0,
                affinity_strict: false,
                ..self.some_attrs()
            };
            let limit = 1 + self.random.below(queue.max_active);
            let time = Duration::from_micros(self.random.below(200) as u64);
            let (changed, what) = (queue.clone(), self.random.below(3));
            let broken = self.world.broken.clone();
            // It waits for no item: items wait for the helper's.
            let change = move || {
                blocking(|| os::sleep(time));
                let done = match what {
                    0 => changed.wq.set_max_active(limit).is_ok(),
                    _ => changed.wq.apply_attrs(attrs).is_ok(),
                };
                broken.expect(done, || format!("{}: refused a change", changed.name));
            };
            let other = self.world.helper.spawn(change);
            self.spawn_and_join(&queue);
            other.join().expect("it does not panic");
        }
    }

    /// A few items come again and again, so short that workers take several at once, and no thread
    /// waits for any: that would end the batches.
    fn churn_batches(&mut self) {
        let fits = |queue: &Arc<Queue>| {
            queue.kind == WorkqueueKind::Unbound && queue.max_active > 2 && queue.grouped.is_none()
        };
        let mut queues = (0..self.world.queue_count()).map(|which| self.world.queue(which));
        let Some(queue) = queues.find(fits) else {
            return self.replace_by(0, 0);
        };
        let all_at_once: Vec<usize> = (0..queue.items.len())
            .filter(|&at| !queue.items[at].class.is_delayed())
            .collect();
        for &at in &all_at_once {
            queue.items[at].is_brief.store(true, Relaxed);
        }
        for _ in 0..20 + self.random.below(200) {
            let at = all_at_once[self.random.below(all_at_once.len())];
            match self.random.below(32) {
                0 => os::sleep(Duration::from_micros(self.random.below(20) as u64)),
                _ => self.queue_item(&queue, at),
            }
        }
    }

    /// Waits for the queue, or as long as threads that lag need for a few steps.
    fn flush_or_pause(&mut self, queue: &Queue) {
        if self.random.one_in(3) {
            queue.wq.flush().expect("not from an item of the queue");
            return self.check_mine(queue, "flush");
        }
        self.pause();
    }

    /// As long as threads that lag need for a few steps.
    fn pause(&mut self) {
        let most_us = [10, 100, 1_000][self.random.below(3)];
        os::sleep(Duration::from_micros(self.random.below(most_us) as u64));
    }

    /// A queue's limit goes up and down to 0, where it is frozen, and items wait for credits meanwhile.
    fn churn_limits(&mut self) {
        let fits = |queue: &Arc<Queue>| {
            let is_limited = matches!(queue.kind, WorkqueueKind::Unbound | WorkqueueKind::PerCpu);
            is_limited && queue.freezable
        };
        let mut queues = (0..self.world.queue_count()).map(|which| self.world.queue(which));
        let Some(queue) = queues.find(fits) else {
            let like = 2 * self.random.below(2);
            return self.replace_by(0, like);
        };
        for _ in 0..1 + self.random.below(8) {
            os::lag(self.random.one_in(6));
            for _ in 0..1 + self.random.below(8) {
                self.spawn(&queue);
            }
            match self.random.below(4) {
                0 => {
                    let most = queue.max_active.min(3);
                    let limited = queue.wq.set_max_active(1 + self.random.below(most));
                    limited.expect("it has a limit");
                }
                1 => self.freeze_for_a_moment(),
                _ => self.flush_or_pause(&queue),
            }
        }
    }

    /// Nothing starts between a rest and the thaw.
    fn freeze_for_a_moment(&mut self) {
        let world = self.world.clone();
        let _alone = os::lock_long(&world.freezer);
        world.engine.freeze_workqueues_begin();
        let is_busy = || world.engine.freeze_workqueues_busy();
        if (0..20).any(|_| !is_busy()) {
            let before = world.freezable_starts.load(SeqCst);
            os::sleep(Duration::from_micros(self.random.below(200) as u64));
            let after = world.freezable_starts.load(SeqCst);
            world.broken.expect(before == after, || {
                format!("{} items began while frozen", after - before)
            });
        }
        world.engine.thaw_workqueues();
    }

    /// Two queues move between two pools that no other queue has: each comes where the other has just been.
    fn change_places(&mut self) {
        for _ in 0..2 + self.random.below(8) {
            os::lag(self.random.one_in(6));
            let which = self.random.below(2);
            let queue = self.world.queue(which);
            if queue.kind != WorkqueueKind::Unbound {
                drop(queue);
                self.replace_by(which, 0);
                continue;
            }
            let nice = -6 - i32::from(self.random.one_in(2));
            let attrs = WorkqueueAttrs {
                nice,
                cpumask: None,
                affinity_scope: AffinityScope::System,
                affinity_strict: false,
            };
            self.apply(&queue, attrs);
            for _ in 0..self.random.below(4) {
                self.spawn(&queue);
            }
            // Rescuers are called after 10 ms.
            let most_us = [100, 1_000, 20_000][self.random.below(3)];
            os::sleep(Duration::from_micros(self.random.below(most_us) as u64));
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
        match self.random.below(5) {
            0 => self.keeps_a_lowered_limit(&queue),
            1 => self.obeys_a_lowered_limit(&queue),
            2 | 3 => self.reaches_a_raised_limit(&queue),
            _ if queue.may_block() => self.cancels_for_good(&queue),
            _ => {}
        }
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
        if queue.may_block() && self.random.one_in(2) {
            self.drains_beside_an_issuer(&queue);
        }
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

    /// As many items as the limit says are active at the same time: they wait for each other. Some
    /// wait for a credit when the limit is raised, with the attributes where a node has a share of
    /// it.
    fn reaches_a_raised_limit(&mut self, queue: &Arc<Queue>) {
        let is_limited = matches!(queue.kind, WorkqueueKind::Unbound | WorkqueueKind::PerCpu);
        if !is_limited || queue.grouped.is_some() || !self.world.cpus_stay {
            return;
        }
        let topology = self.world.engine.topology().clone();
        let (cpu, want) = (
            self.world.some_cpu(&mut self.random),
            queue.max_active.min(2 + self.random.below(6)),
        );
        let by_attrs = queue.kind == WorkqueueKind::Unbound && topology.nodes().len() > 1;
        let mut attrs = WorkqueueAttrs {
            affinity_scope: AffinityScope::Numa,
            cpumask: None,
            ..queue.wq.attrs()
        };
        if by_attrs {
            self.apply(queue, attrs.clone());
        }
        let limit = |limit| queue.wq.set_max_active(limit).expect("it has a limit");
        limit(1);
        if by_attrs {
            limit(want);
        }
        let met = Arc::new(AtomicUsize::new(0));
        let meet = || {
            let met = met.clone();
            move || {
                met.fetch_add(1, SeqCst);
                let all_are_here = || met.load(SeqCst) >= want;
                blocking(|| sleep_until(Duration::from_micros(5), all_are_here));
            }
        };
        let spawned = (0..want).map(|_| queue.wq.spawn_on(cpu, meet()).expect("a CPU"));
        let handles: Vec<JoinHandle<()>> = spawned.collect();
        if self.random.one_in(2) {
            os::sleep(Duration::from_micros(self.random.below(100) as u64));
        }
        match by_attrs {
            true => {
                let mut nodes = topology.nodes().iter();
                let node = nodes.find(|(_, cpus)| cpus.contains(cpu));
                attrs.cpumask = node.map(|(_, cpus)| cpus.clone());
                self.apply(queue, attrs);
            }
            false => limit(want),
        }
        for handle in handles {
            handle.join().expect("it does not panic");
        }
    }

    /// A drain refuses what comes from outside, so it ends though another thread goes on queueing,
    /// and one of the queue's own items waits until that is refused.
    fn drains_beside_an_issuer(&mut self, queue: &Arc<Queue>) {
        let refused = Arc::new(AtomicBool::new(false));
        let seen = refused.clone();
        let waits = move || {
            let is_refused = || seen.load(SeqCst);
            blocking(|| sleep_until(Duration::from_micros(5), is_refused));
        };
        queue.wq.execute(waits).expect("it is not drained yet");
        let outside = queue.clone();
        let issuer = self.world.helper.spawn(move || {
            let is_refused = || outside.wq.execute(|| {}).is_err();
            blocking(|| sleep_until(Duration::from_micros(1), is_refused));
            refused.store(true, SeqCst);
        });
        if self.random.one_in(2) {
            os::sleep(Duration::from_micros(self.random.below(50) as u64));
        }
        queue.wq.drain().expect("not from an item of the queue");
        issuer.join().expect("it does not panic");
    }

    /// An item that queues itself does not escape from a cancel that waits for it, and a timer does
    /// not fire before its time.
    fn cancels_for_good(&mut self, queue: &Arc<Queue>) {
        let (runs, left) = (Arc::new(AtomicUsize::new(0)), self.random.below(60));
        let work: Arc<OnceLock<Work>> = Arc::default();
        let (counts, itself, on) = (runs.clone(), Arc::downgrade(&work), Arc::downgrade(queue));
        let seed = self.random.bits();
        let work = work.get_or_init(|| {
            Work::new(move || {
                let run = counts.fetch_add(1, SeqCst);
                compute(&mut Random::new(seed ^ run as u64));
                let (queue, itself) = (on.upgrade(), itself.upgrade());
                if let (true, Some(queue), Some(itself)) = (run < left, queue, itself) {
                    let _ = queue.wq.queue(itself.get().expect("it was queued"));
                }
            })
        });
        let _ = queue.wq.queue(work);
        os::sleep(Duration::from_micros(self.random.below(60) as u64));
        work.cancel_sync();
        let before = runs.load(SeqCst);
        let (pending, began) = (work.is_pending(), os::clock_ns());
        let delay = Duration::from_micros(self.random.below(4000) as u64);
        let broken = self.world.broken.clone();
        let timed = DelayedWork::new(move || {
            let passed = Duration::from_nanos(os::clock_ns() - began);
            broken.expect(passed >= delay, || {
                format!("a timer of {delay:?} has fired after {passed:?}")
            });
        });
        if queue.wq.queue_delayed(&timed, delay).is_accepted() {
            let mut pause = Duration::from_micros(20);
            while timed.is_pending() {
                os::sleep(pause);
                pause = (2 * pause).min(Duration::from_millis(1));
            }
        }
        let after = runs.load(SeqCst);
        self.world.broken.expect(!pending && before == after, || {
            format!("{}: an item has escaped from its cancel", queue.name)
        });
    }

    /// Items that become active after the limit was lowered keep to it, though more are active at
    /// that moment and others wait.
    fn obeys_a_lowered_limit(&mut self, queue: &Arc<Queue>) {
        let old = queue.max_active.min(6);
        // On several nodes each has a limit, and items may move to another one.
        let has_one = self.world.engine.topology().nodes().len() == 1;
        if !has_one || queue.wq.set_max_active(old).is_err() {
            return;
        }
        queue.wq.flush().expect("not from an item of the queue");
        let cpu = self.world.some_cpu(&mut self.random);
        // By their order: how many were inside when each began.
        let inside = Arc::new(AtomicUsize::new(0));
        let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
        for _ in 0..4 * old {
            let (inside, seen, seed) = (inside.clone(), seen.clone(), self.random.bits());
            let run = move || {
                let now = inside.fetch_add(1, SeqCst) + 1;
                lock(&seen).push(now);
                compute(&mut Random::new(seed));
                os::yield_now();
                inside.fetch_sub(1, SeqCst);
            };
            drop(queue.wq.spawn_on(cpu, run).expect("a CPU"));
        }
        if self.random.one_in(2) {
            os::sleep(Duration::from_micros(self.random.below(20) as u64));
        }
        queue.wq.set_max_active(1).expect("it has a limit");
        // So many had begun, and no more than the limit had were about to.
        let before = lock(&seen).len() + old;
        queue.wq.flush().expect("not from an item of the queue");
        let late = lock(&seen).iter().skip(before).copied().max();
        self.world.broken.expect(late.unwrap_or(1) <= 1, || {
            format!(
                "{}: {late:?} active after the limit was lowered to 1",
                queue.name
            )
        });
    }
}

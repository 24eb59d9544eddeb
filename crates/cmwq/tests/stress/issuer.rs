//! A thread that does random things to the world's queues, and what it may expect of each.

use crate::harness::Random;
use crate::items::{Class, Held, Owed};
use crate::model::Shots;
use crate::queues::{ITEMS_PER_QUEUE, Queue, SCOPES, World};
use crate::threads;
use cmwq::topology::CpuSet;
use cmwq::{JoinHandle, WorkqueueAttrs, WorkqueueKind};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// What one issuer did on one queue.
#[derive(Default)]
pub(crate) struct Mine {
    pub(crate) shots: Arc<Shots>,
    /// By item: the newest flag that must have been seen after a flush of the queue.
    accepted: HashMap<usize, u64>,
    /// And the one that must have been seen after a flush of the item.
    pending: HashMap<usize, u64>,
}

pub(crate) struct Issuer {
    pub(crate) world: Arc<World>,
    pub(crate) random: Random,
    /// By the queue's number.
    pub(crate) mine: HashMap<u64, Mine>,
    pub(crate) handles: Vec<(u64, JoinHandle<u64>)>,
    held: Vec<Held>,
    /// A queue of its own, made and dropped in between.
    pub(crate) own: Option<Arc<Queue>>,
}

impl Issuer {
    pub(crate) fn new(world: Arc<World>, seed: u64) -> Self {
        Issuer {
            world,
            random: Random::new(seed),
            mine: HashMap::new(),
            handles: Vec::new(),
            held: Vec::new(),
            own: None,
        }
    }

    pub(crate) fn finish(mut self) {
        while let Some(held) = self.held.pop() {
            held.let_go(&self.world.broken, &mut self.random);
        }
        if self.own.is_some() {
            self.turn_over_own();
        }
    }

    pub(crate) fn maybe_cpu(&mut self) -> Option<usize> {
        self.random
            .one_in(3)
            .then(|| self.world.some_cpu(&mut self.random))
    }

    pub(crate) fn step(&mut self) {
        self.world.progress.fetch_add(1, Ordering::Relaxed);
        let which = self.random.below(self.world.queues.len());
        let queue = self.world.queue(which);
        match self.random.below(1000) {
            0..300 => self.queue_item(&queue),
            300..560 => self.spawn(&queue),
            560..600 => self.shoot(&queue),
            600..640 => self.join_one(),
            640..790 => self.handle_item(&queue),
            790..840 => {
                queue.wq.flush().expect("not from an item of the queue");
                self.check_mine(&queue, "flush");
            }
            840..850 => self.drain(&queue),
            850..880 => self.change_limits(&queue),
            880..900 => self.change_attrs(&queue),
            900..905 => {
                let scope = SCOPES[1 + self.random.below(SCOPES.len() - 1)];
                let changed = self.world.engine.set_default_affinity_scope(scope);
                changed.expect("a concrete scope");
            }
            905..910 => self.change_cpus(),
            910..915 => self.freeze(),
            915..930 => self.look(&queue),
            930..940 => self.queue_everywhere(&queue),
            940..985 => self.release_one(),
            985..990 => {
                drop(queue);
                self.replace(which);
            }
            990..994 => self.turn_over_own(),
            994..996 => self.burst(&queue),
            996..999 => self.spawn_and_join(&queue),
            _ => self.world.empty_graveyard(),
        }
    }

    fn queue_item(&mut self, queue: &Arc<Queue>) {
        let at = self.random.below(ITEMS_PER_QUEUE);
        let item = &queue.items[at];
        if self.random.one_in(16) {
            let more = self.random.below(20) as u64;
            item.requeues.fetch_add(more, Ordering::Relaxed);
        }
        let cpu = self.maybe_cpu();
        if let Some(owed) = item.queue(queue, cpu, &mut self.random) {
            let mine = self.mine.entry(queue.number).or_default();
            let flags = match owed {
                Owed::Accepted(_) => &mut mine.accepted,
                Owed::Pending(_) => &mut mine.pending,
            };
            let (Owed::Accepted(flag) | Owed::Pending(flag)) = owed;
            flags.insert(at, flag);
        }
    }

    /// Anything but queueing.
    fn handle_item(&mut self, queue: &Arc<Queue>) {
        let at = self.random.below(ITEMS_PER_QUEUE);
        let item = queue.items[at].clone();
        if item.class == Class::Plain {
            item.flush();
            if let Some(mine) = self.mine.get(&queue.number) {
                let flags = [&mine.accepted, &mine.pending];
                for flag in flags.into_iter().filter_map(|flags| flags.get(&at)) {
                    self.expect_seen(queue, at, *flag, "flush of the item");
                }
            }
            return;
        }
        match self.random.below(10) {
            0..2 => item.cancel(),
            2 if item.class != Class::Moved => item.cancel_sync(),
            3..5 if item.class != Class::Moved => {
                if self.held.len() < 6 {
                    let held = item.disable(queue, self.random.one_in(2));
                    self.held.push(held);
                }
            }
            5..7 => drop(item.flush()),
            _ if matches!(item.class, Class::Moved | Class::Any) => {
                let cpu = self.maybe_cpu();
                item.move_it(queue, cpu, &mut self.random);
            }
            _ => item.look(),
        }
    }

    fn release_one(&mut self) {
        if !self.held.is_empty() {
            let at = self.random.below(self.held.len());
            let held = self.held.swap_remove(at);
            held.let_go(&self.world.broken, &mut self.random);
        }
    }

    fn join_one(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        let at = self.random.below(self.handles.len());
        let (value, handle) = self.handles.swap_remove(at);
        self.join(value, handle);
    }

    pub(crate) fn join(&self, value: u64, handle: JoinHandle<u64>) {
        if let Ok(result) = handle.join() {
            self.world.broken.expect(result == value, || {
                "a handle has another closure's value".into()
            });
        }
    }

    fn drain(&mut self, queue: &Arc<Queue>) {
        if !queue.drains {
            return;
        }
        for item in queue.items.iter().filter(|item| item.class.is_delayed()) {
            item.account.lossy.store(true, Ordering::Relaxed);
        }
        queue.wq.drain().expect("not from an item of the queue");
        self.check_mine(queue, "drain");
    }

    fn change_limits(&mut self, queue: &Queue) {
        let limit = 1 + self.random.below(queue.max_active);
        let may = match queue.kind {
            WorkqueueKind::Unbound => [true, true],
            WorkqueueKind::PerCpu => [true, false],
            _ => [false, false],
        };
        let done = if self.random.one_in(3) {
            may[1] == queue.wq.set_min_active(limit).is_ok()
        } else {
            may[0] == queue.wq.set_max_active(limit).is_ok()
        };
        self.world.broken.expect(done, || {
            format!("{}: a limit was (not) refused", queue.name)
        });
    }

    fn change_attrs(&mut self, queue: &Queue) {
        let attrs = self.some_attrs();
        let unbound = matches!(queue.kind, WorkqueueKind::Unbound | WorkqueueKind::Ordered);
        let done = queue.wq.apply_attrs(attrs).is_ok() == unbound;
        self.world.broken.expect(done, || {
            format!("{}: attributes were (not) refused", queue.name)
        });
    }

    fn some_cpus(&mut self) -> CpuSet {
        let bits = self.random.next();
        let cpus = self.world.cpus.iter().copied();
        cpus.filter(|cpu| bits >> (cpu % 64) & 1 == 1).collect()
    }

    fn some_attrs(&mut self) -> WorkqueueAttrs {
        let cpumask = match self.random.below(4) {
            0 => None,
            // Also CPUs that do not exist, and nothing at all.
            1 => Some(CpuSet::from_iter([self.random.below(40)])),
            _ => Some(self.some_cpus()),
        };
        WorkqueueAttrs {
            nice: if self.random.one_in(4) { 1 } else { 0 },
            cpumask,
            affinity_scope: SCOPES[self.random.below(SCOPES.len())],
            affinity_strict: self.random.one_in(2),
        }
    }

    fn change_cpus(&mut self) {
        if self.random.one_in(8) {
            let real = &self.world.real_cpus;
            let one = self.random.below(real.len());
            let some = if self.random.one_in(2) {
                &real[one..=one]
            } else {
                real
            };
            return threads::seem_to_have(some);
        }
        let cpus = if self.random.one_in(4) {
            self.world.cpus.iter().copied().collect()
        } else {
            self.some_cpus()
        };
        let changed = self.world.engine.set_unbound_cpumask(&cpus).is_ok();
        self.world.broken.expect(changed != cpus.is_empty(), || {
            "an unbound mask was (not) refused".into()
        });
    }

    /// Everything freezable comes to rest and stays there, whatever is done to it, until it is thawed.
    fn freeze(&mut self) {
        let world = self.world.clone();
        let _alone = world.freezer.lock().unwrap_or_else(PoisonError::into_inner);
        // Kept until it is thawed: whoever lets go of a queue last waits for its end.
        let mut kept = Vec::new();
        world.engine.freeze_workqueues_begin();
        if self.random.one_in(4) {
            world.engine.freeze_workqueues_begin();
        }
        let at_rest = (0..50).any(|_| {
            let busy = world.engine.freeze_workqueues_busy();
            if busy {
                std::thread::sleep(Duration::from_micros(50));
            }
            !busy
        });
        if at_rest {
            let before = world.freezable_starts.load(Ordering::SeqCst);
            for _ in 0..self.random.below(40) {
                let queue = world.some_queue(&mut self.random);
                kept.push(queue.clone());
                match self.random.below(8) {
                    0..3 => self.queue_item(&queue),
                    3..5 => self.spawn(&queue),
                    5 => queue.items[self.random.below(ITEMS_PER_QUEUE)].look(),
                    6 => self.change_limits(&queue),
                    _ => self.change_attrs(&queue),
                }
                let item = &queue.items[self.random.below(ITEMS_PER_QUEUE)];
                if item.class != Class::Plain && self.random.one_in(4) {
                    item.cancel();
                }
            }
            std::thread::sleep(Duration::from_micros(self.random.below(300) as u64));
            let after = world.freezable_starts.load(Ordering::SeqCst);
            world.broken.expect(before == after, || {
                format!("{} items began while frozen", after - before)
            });
            world
                .broken
                .expect(!world.engine.freeze_workqueues_busy(), || {
                    "frozen queues are busy again".into()
                });
        }
        world.engine.thaw_workqueues();
        drop(kept);
    }

    fn look(&mut self, queue: &Queue) {
        match self.random.below(8) {
            0 => drop(self.world.engine.dump().to_string()),
            1 => drop(std::hint::black_box(self.world.engine.stats())),
            2 => {
                let cpu = self.world.some_cpu(&mut self.random);
                queue.wq.is_congested(cpu).expect("a CPU");
            }
            3 => {
                let (started, completed) = queue.wq.counts();
                std::hint::black_box((started, completed));
            }
            4 => {
                std::hint::black_box((queue.wq.effective_nice(), queue.wq.attrs()));
            }
            _ => queue.items[self.random.below(ITEMS_PER_QUEUE)].look(),
        }
    }

    /// One item from every CPU.
    pub(crate) fn queue_everywhere(&mut self, queue: &Queue) {
        for cpu in self.world.cpus.clone() {
            let item = &queue.items[self.random.below(ITEMS_PER_QUEUE)];
            item.queue(queue, Some(cpu), &mut self.random);
        }
    }

    /// More than the pools will get to soon: they saturate, and their neighbours help.
    fn burst(&mut self, queue: &Arc<Queue>) {
        for _ in 0..self.random.below(300) {
            if self.random.one_in(4) {
                self.queue_item(queue);
            } else {
                self.spawn(queue);
            }
        }
    }

    /// After a flush: everything that this thread queued before has run.
    fn check_mine(&mut self, queue: &Queue, after: &str) {
        let Some(mine) = self.mine.get_mut(&queue.number) else {
            return;
        };
        let (ended, fired) = (mine.shots.ended(), mine.shots.fired.load(Ordering::Relaxed));
        let flags = std::mem::take(&mut mine.accepted);
        self.world.broken.expect(ended == fired, || {
            format!(
                "{}: after {after}, {ended} of {fired} one-shot items have ended",
                queue.name
            )
        });
        for (at, flag) in flags {
            self.expect_seen(queue, at, flag, after);
        }
    }

    fn expect_seen(&self, queue: &Queue, at: usize, flag: u64, after: &str) {
        let seen = queue.items[at].account.flag_seen.load(Ordering::Acquire);
        self.world.broken.expect(seen >= flag, || {
            format!(
                "{}: after {after}, item {at} has seen flag {seen}, queued was {flag}",
                queue.name
            )
        });
    }
}

//! A thread that does a program's operations on the world's queues, and what it may expect of each.

use super::bodies::{block, compute};
use super::broken::quiet_panic;
use super::completions::Cq;
use super::disabled::Held;
use super::items::{Class, Owed};
use super::library::JoinHandle;
use super::library::topology::CpuSet;
use super::library::types::{CpuLimit, WorkqueueAttrs, WorkqueueKind};
use super::model::Shots;
use super::os::lock_long;
use super::shots::drain_what_hops;
use super::world::{ITEMS_PER_QUEUE, Queue, SCOPES, World};
use super::{Broken, Kind, Random, os};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// What one issuer did on one queue.
#[derive(Default)]
pub(crate) struct Mine {
    pub(crate) shots: Arc<Shots>,
    /// By item: the newest flag that must have been seen after a flush of the queue.
    accepted: BTreeMap<usize, u64>,
    /// And the one that must have been seen after a flush of the item.
    pending: BTreeMap<usize, u64>,
}

pub(crate) struct Issuer {
    pub(crate) world: Arc<World>,
    pub(crate) random: Random,
    /// By the queue's number.
    pub(crate) mine: BTreeMap<u64, Mine>,
    pub(crate) handles: Vec<(u64, JoinHandle<u64>)>,
    held: Vec<Held>,
    /// A queue of its own, made and dropped in between.
    pub(crate) own: Option<Arc<Queue>>,
    /// A completion queue of its own.
    pub(crate) cq: Option<Cq>,
}

impl Issuer {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Issuer {
            world,
            random: Random::new(0),
            mine: BTreeMap::new(),
            handles: Vec::new(),
            held: Vec::new(),
            own: None,
            cq: None,
        }
    }

    pub(crate) fn finish(mut self) {
        let (_does, _) = self.world.doing.begin();
        while let Some(held) = self.held.pop() {
            held.let_go(&self.world.broken, &mut self.random);
        }
        if self.own.is_some() {
            self.turn_over_own();
        }
        self.finish_completions();
    }

    pub(crate) fn maybe_cpu(&mut self) -> Option<usize> {
        let named = self.random.one_in(3);
        named.then(|| self.world.some_cpu(&mut self.random))
    }

    /// One operation; its details follow from a seed.
    pub(crate) fn step(&mut self, kind: Kind, seed: u64) {
        let (_does, _) = self.world.doing.begin();
        self.random = Random::new(seed);
        let which = self.random.below(self.world.queue_count());
        let queue = self.world.queue(which);
        match kind {
            Kind::QueueItem => self.queue_some_item(&queue),
            Kind::Spawn => self.spawn(&queue),
            Kind::Execute => self.execute(&queue),
            Kind::Shoot => self.shoot(&queue),
            Kind::JoinOne => self.join_one(),
            Kind::HandleItem => {
                let at = self.random.below(ITEMS_PER_QUEUE);
                self.handle_item(&queue, at);
            }
            Kind::Flush => {
                queue.wq.flush().expect("not from an item of the queue");
                self.check_mine(&queue, "flush");
            }
            Kind::Drain => self.drain(&queue),
            Kind::Limits => self.change_limits(&queue),
            Kind::Attrs => self.change_attrs(&queue),
            Kind::DefaultScope => {
                let scope = SCOPES[1 + self.random.below(SCOPES.len() - 1)];
                let changed = self.world.engine.set_default_affinity_scope(scope);
                changed.expect("a concrete scope");
            }
            Kind::ChangeCpus => self.change_cpus(),
            Kind::Freeze => self.freeze(),
            Kind::Look => self.look(&queue),
            Kind::Everywhere => self.queue_everywhere(&queue),
            Kind::Release => self.release_one(),
            Kind::Replace => {
                drop(queue);
                self.replace(which);
            }
            Kind::Own => self.turn_over_own(),
            Kind::Burst => self.burst(&queue),
            Kind::SpawnAndJoin => self.spawn_and_join(&queue),
            Kind::Steady => self.steady(),
            Kind::Batch => self.batch(&queue),
            Kind::Completions => self.completions(&queue),
            Kind::Bounded => self.bounded(),
            Kind::CpuLimit => self.change_cpu_limit(),
            Kind::Churn => {
                drop(queue);
                self.churn();
            }
            Kind::Rest => {
                let us = [20, 300, 2_000, 30_000][self.random.below(4)];
                os::sleep(Duration::from_micros(self.random.below(us) as u64));
            }
        }
        self.world.empty_graveyard();
    }

    fn queue_some_item(&mut self, queue: &Arc<Queue>) {
        let at = self.random.below(ITEMS_PER_QUEUE);
        self.queue_item(queue, at);
    }

    pub(crate) fn queue_item(&mut self, queue: &Arc<Queue>, at: usize) {
        let item = &queue.items[at];
        if self.random.one_in(16) {
            let more = self.random.below(20) as u64;
            item.requeues.fetch_add(more, Relaxed);
        }
        let cpu = self.maybe_cpu();
        if let Some(owed) = item.queue(queue, cpu, &mut self.random) {
            self.is_owed(queue, at, owed);
        }
    }

    /// Some run of the item must see a flag.
    pub(crate) fn is_owed(&mut self, queue: &Queue, at: usize, owed: Owed) {
        let mine = self.mine.entry(queue.number).or_default();
        let flags = match owed {
            Owed::Accepted(_) => &mut mine.accepted,
            Owed::Pending(_) => &mut mine.pending,
        };
        let (Owed::Accepted(flag) | Owed::Pending(flag)) = owed;
        flags.insert(at, flag);
    }

    /// Anything but queueing.
    pub(crate) fn handle_item(&mut self, queue: &Arc<Queue>, at: usize) {
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
            2 if item.class != Class::Moved => item.cancel_sync(&self.world.broken),
            3..5 if item.class != Class::Moved => {
                if self.held.len() < 6 {
                    let sync = self.random.one_in(2);
                    let held = item.disable(queue, sync, &self.world.broken);
                    self.held.push(held);
                }
            }
            5 => item.flush(),
            6 => item.flush_for(Duration::from_micros(self.random.below(300) as u64)),
            _ if matches!(item.class, Class::Moved | Class::Any) => {
                let cpu = self.maybe_cpu();
                item.move_it(queue, cpu, &mut self.random, &self.world.broken);
            }
            _ => item.look(),
        }
    }

    pub(crate) fn release_one(&mut self) {
        if !self.held.is_empty() {
            let at = self.random.below(self.held.len());
            let held = self.held.swap_remove(at);
            held.let_go(&self.world.broken, &mut self.random);
        }
    }

    fn join_one(&mut self) {
        if !self.handles.is_empty() {
            let at = self.random.below(self.handles.len());
            let (value, handle) = self.handles.swap_remove(at);
            self.wait_for(value, handle);
        }
    }

    pub(crate) fn join(&self, value: u64, handle: JoinHandle<u64>) {
        join(&self.world.broken, value, handle);
    }

    fn drain(&mut self, queue: &Arc<Queue>) {
        if queue.drains {
            queue.may_lose_timers();
            queue.wq.drain().expect("not from an item of the queue");
            self.check_mine(queue, "drain");
        } else {
            let world = &self.world;
            drain_what_hops(&world.engine, &world.cpus, &mut self.random, &world.broken);
        }
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
        if let Some(grouped) = &queue.grouped {
            grouped.change(&mut self.random);
        }
    }

    fn change_attrs(&mut self, queue: &Queue) {
        let attrs = self.some_attrs();
        self.apply(queue, attrs);
    }

    pub(crate) fn apply(&mut self, queue: &Queue, attrs: WorkqueueAttrs) {
        let unbound = matches!(queue.kind, WorkqueueKind::Unbound | WorkqueueKind::Ordered);
        let done = queue.wq.apply_attrs(attrs).is_ok() == unbound;
        self.world.broken.expect(done, || {
            format!("{}: attributes were (not) refused", queue.name)
        });
    }

    fn some_cpus(&mut self) -> CpuSet {
        let bits = [self.random.bits(), self.random.bits()];
        let cpus = self.world.cpus.iter().copied();
        cpus.filter(|cpu| bits[cpu / 64 % 2] >> (cpu % 64) & 1 == 1)
            .collect()
    }

    pub(crate) fn some_attrs(&mut self) -> WorkqueueAttrs {
        let cpumask = match self.random.below(4) {
            0 => None,
            // Also CPUs that do not exist, and nothing at all.
            1 => Some(CpuSet::from_iter([self.random.below(40)])),
            _ => Some(self.some_cpus()),
        };
        WorkqueueAttrs {
            nice: i32::from(self.random.one_in(4)),
            cpumask,
            affinity_scope: SCOPES[self.random.below(SCOPES.len())],
            affinity_strict: self.random.one_in(2),
        }
    }

    fn change_cpus(&mut self) {
        if self.world.cpus_change && self.random.one_in(2) {
            let some = self.some_cpus();
            return os::change_cpus(&self.world.cpus, &some, &mut self.random);
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

    fn change_cpu_limit(&mut self) {
        let cpus = self.world.cpus.len();
        if self.random.one_in(2) {
            os::change_quota(cpus, &mut self.random);
        }
        let workers = NonZeroU32::new(1 + self.random.below(cpus) as u32);
        let limit = match self.random.below(6) {
            0 => CpuLimit::None,
            1 | 2 => CpuLimit::Workers(workers.expect("not zero")),
            _ => CpuLimit::Auto,
        };
        let changed = self.world.engine.set_cpu_limit(limit);
        changed.expect("not in the child of a fork");
    }

    /// All freezable queues become quiescent and stay so, whatever is done to them, until the thaw.
    fn freeze(&mut self) {
        let world = self.world.clone();
        let _alone = lock_long(&world.freezer);
        // Kept until it is thawed: the last holder of a queue waits for its end.
        let mut kept = Vec::new();
        world.engine.freeze_workqueues_begin();
        if self.random.one_in(4) {
            world.engine.freeze_workqueues_begin();
        }
        let at_rest = (0..50).any(|_| {
            let busy = world.engine.freeze_workqueues_busy();
            if busy {
                os::sleep(Duration::from_micros(50));
            }
            !busy
        });
        if at_rest {
            let before = world.freezable_starts.load(SeqCst);
            for _ in 0..self.random.below(40) {
                let queue = world.some_queue(&mut self.random);
                kept.push(queue.clone());
                match self.random.below(8) {
                    0..3 => self.queue_some_item(&queue),
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
            os::sleep(Duration::from_micros(self.random.below(300) as u64));
            let after = world.freezable_starts.load(SeqCst);
            world.broken.expect(before == after, || {
                format!("{} items began while frozen", after - before)
            });
            let busy = world.engine.freeze_workqueues_busy();
            world
                .broken
                .expect(!busy, || "frozen queues are busy again".into());
        }
        world.engine.thaw_workqueues();
        drop(kept);
    }

    fn look(&mut self, queue: &Queue) {
        self.world.observe();
        match self.random.below(6) {
            0 => drop(self.world.engine.dump().to_string()),
            1 => drop((self.world.engine.stats(), self.world.engine.pool_states())),
            2 => {
                let cpu = self.world.some_cpu(&mut self.random);
                queue.wq.is_congested(cpu).expect("a CPU");
            }
            3 => drop(queue.wq.counts()),
            4 => drop((queue.wq.effective_nice(), queue.wq.attrs())),
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

    /// More than the pools can run soon: they saturate, and workers of other pods steal.
    fn burst(&mut self, queue: &Arc<Queue>) {
        for _ in 0..self.random.below(200) {
            match self.random.below(4) {
                0 => self.queue_some_item(queue),
                1 => self.spawn(queue),
                _ => self.execute(queue),
            }
        }
    }

    /// After a flush: everything that this thread queued before has run.
    pub(crate) fn check_mine(&mut self, queue: &Queue, after: &str) {
        let Some(mine) = self.mine.get_mut(&queue.number) else {
            return;
        };
        let (ended, fired) = (mine.shots.ended(), mine.shots.fired.load(Relaxed));
        let flags = std::mem::take(&mut mine.accepted);
        self.world.broken.expect(ended == fired, || {
            let name = &queue.name;
            format!("{name}: after {after}, {ended} of {fired} one-shot items have ended")
        });
        for (at, flag) in flags {
            self.expect_seen(queue, at, flag, after);
        }
    }

    fn expect_seen(&self, queue: &Queue, at: usize, flag: u64, after: &str) {
        let seen = queue.items[at].account.flag_seen.load(Acquire);
        self.world.broken.expect(seen >= flag, || {
            let name = &queue.name;
            format!("{name}: after {after}, item {at} has seen flag {seen}, queued was {flag}")
        });
    }
}

/// The handle has the value of its own closure, unless that panicked or was dropped.
pub(crate) fn join(broken: &Broken, value: u64, handle: JoinHandle<u64>) {
    if let Ok(result) = handle.join() {
        broken.expect(result == value, || {
            "a handle has another closure's value".into()
        });
    }
}

/// What a one-shot item does, but for its token.
pub(crate) fn body(world: &World, may_block: bool, value: u64) {
    let mut random = Random::new(value);
    compute(&mut random);
    if may_block {
        block(world, &mut random);
    }
}

/// What a one-shot item returns, unless it is one of those that panic.
pub(crate) fn answer(value: u64) -> u64 {
    if value.is_multiple_of(64) {
        quiet_panic();
    }
    value
}

/// The number of the next one-shot item of a lane.
pub(crate) fn next_of(queue: &Queue, lane: usize) -> (MutexGuard<'_, u64>, u64) {
    // Locked until it is queued: the order of the numbers is that of queueing.
    let mut next = lock_long(&queue.lanes[lane].next);
    *next += 1;
    let number = *next;
    (next, number)
}

//! Queues of every kind, with what the oracles know of them, and the world that they make up.

use super::bounded::{Bounded, Counts};
use super::completions::Cq;
use super::grouped::Grouped;
use super::items::{Class, Item};
use super::library::affinity::AffinityScope;
use super::library::observe::Recording;
use super::library::raw::WQ_MAX_ACTIVE;
use super::library::types::WorkqueueKind;
use super::library::{Engine, Error, Work, Workqueue, WorkqueueBuilder};
use super::model::{Account, Room, Shots, Waiting, lock};
use super::os::lock_long;
use super::threads::{Doing, Own, Runners};
use super::{Broken, Random, os};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

pub(crate) const ITEMS_PER_QUEUE: usize = 9;
pub(crate) const SCOPES: &[AffinityScope] = &AffinityScope::ALL;

/// A queue and what the oracles know of it.
pub(crate) struct Queue {
    // First: what it holds runs while the rest still stands (unless one of its own items drops it).
    pub(crate) wq: Workqueue,
    pub(crate) name: String,
    pub(crate) number: u64,
    pub(crate) items: Vec<Arc<Item>>,
    pub(crate) kind: WorkqueueKind,
    pub(crate) highpri: bool,
    pub(crate) freezable: bool,
    /// It is drained now and then, so what comes from outside may be dropped.
    pub(crate) drains: bool,
    /// The largest limit it ever has.
    pub(crate) max_active: usize,
    /// How many items may be active at the same time, whatever limit holds at the moment: what was active when the limit was
    /// lowered stays so.
    pub(crate) most_active: usize,
    pub(crate) room: Arc<Room>,
    /// The group that it belongs to.
    pub(crate) grouped: Option<Arc<Grouped>>,
    /// The threads that its items run on.
    pub(crate) runners: Runners,
    /// By CPU, if items may be queued on nodes.
    nodes: Vec<Option<u32>>,
    /// By CPU: one-shot items that named it. On an unbound queue they share the first.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) shots: Arc<Shots>,
}

/// The one-shot items of one CPU.
#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) room: Arc<Room>,
    /// The number that the next one gets: locked until it is queued, so the numbers are in the order of queueing.
    pub(crate) next: Mutex<u64>,
    pub(crate) last: Arc<AtomicU64>,
}

/// What is kept of a queue until its accounts are settled.
pub(crate) struct Ledger {
    name: String,
    queue: Weak<Queue>,
    accounts: Vec<Arc<Account>>,
    shots: Arc<Shots>,
    drains: bool,
}

impl Ledger {
    pub(crate) fn is_settled(&self) -> bool {
        self.shots.is_settled() && self.accounts.iter().all(|account| account.is_settled())
    }

    /// When everything is quiescent.
    pub(crate) fn check(&self, broken: &Broken) {
        for (n, account) in self.accounts.iter().enumerate() {
            broken.expect(account.is_right(), || {
                format!("{}, item {n}: {}", self.name, account.describe())
            });
            broken.expect(account.saw_each_other(), || {
                format!(
                    "{}, item {n}: runs of one item did not see each other",
                    self.name
                )
            });
            broken.expect(account.saw_flags(), || {
                format!("{}, item {n}: missed a flag", self.name)
            });
        }
        broken.expect(self.shots.is_settled(), || {
            format!("{}: a one-shot item is lost", self.name)
        });
        let dropped = self.shots.dropped() - self.shots.aborted.load(Relaxed);
        broken.expect(self.drains || dropped == 0, || {
            format!("{}: {dropped} dropped without a drain", self.name)
        });
    }

    /// At the very end: no item is left, though its run may have been the last to use it.
    pub(crate) fn is_freed(&self) -> bool {
        self.accounts
            .iter()
            .all(|account| Arc::strong_count(account) == 1)
    }

    /// The numbers that stay the same when everything is quiescent.
    pub(crate) fn state(&self) -> Vec<String> {
        let accounts = self.accounts.iter().map(|account| account.describe());
        accounts.chain([self.shots.ended().to_string()]).collect()
    }

    /// What is not settled.
    pub(crate) fn open(&self) -> String {
        let accounts = self.accounts.iter().enumerate();
        let open = accounts.filter(|(_, account)| !account.is_settled());
        let mut text: String = open
            .map(|(n, account)| format!("; {} item {n}: {}", self.name, account.describe()))
            .collect();
        if !self.shots.is_settled() {
            let (ended, fired) = (self.shots.ended(), self.shots.fired.load(Relaxed));
            text += &format!(
                "; {}: {ended} of {fired} one-shot items have ended",
                self.name
            );
        }
        text
    }
}

/// What outlives the machine.
#[derive(Clone, Default)]
pub(crate) struct Known {
    pub(crate) ledgers: Arc<Mutex<Vec<Ledger>>>,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) bounded: Arc<Counts>,
    pub(crate) broken: Arc<Broken>,
}

impl Known {
    /// What is not settled.
    pub(crate) fn open(&self) -> String {
        let ledgers = lock(&self.ledgers);
        let open = ledgers.iter().map(Ledger::open);
        open.chain([self.bounded.open()]).collect()
    }
}

/// What a world is made of.
pub(crate) struct Settings {
    pub(crate) seed: u64,
    /// How many queues the issuers share.
    pub(crate) queues: usize,
    /// There is a queue with a bound.
    pub(crate) has_bounded: bool,
    /// A thread cannot be had at times.
    pub(crate) threads_are_short: bool,
    /// CPUs may go and come back.
    pub(crate) cpus_change: bool,
    /// No CPU goes, and the unbound mask stays.
    pub(crate) cpus_stay: bool,
}

/// A queue on which work conservation is watched.
pub(crate) struct Steady {
    pub(crate) wq: Workqueue,
    pub(crate) shots: Arc<Shots>,
    /// By CPU: where an item that is queued from there may run.
    pub(crate) reach: Vec<Arc<[usize]>>,
    /// Where one may run that is queued on a node, if that is known.
    of_node: BTreeMap<u32, Option<Arc<[usize]>>>,
    broken: Arc<Broken>,
}

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) broken: Arc<Broken>,
    pub(crate) cpus: Vec<usize>,
    pub(crate) cpus_change: bool,
    /// See [`Settings`].
    pub(crate) cpus_stay: bool,
    queues: Vec<Mutex<Arc<Queue>>>,
    pub(crate) steady: Vec<Steady>,
    pub(crate) waiting: Arc<Waiting>,
    /// Items may wait for its items, which wait for nothing: it is never frozen, drained or limited.
    pub(crate) helper: Workqueue,
    /// By CPU, normal and highpri: what runs on the BH pool.
    pub(crate) bh: Vec<[Arc<Room>; 2]>,
    /// Locked while the freezable queues are frozen.
    pub(crate) freezer: Mutex<()>,
    /// Items of freezable queues that have begun.
    pub(crate) freezable_starts: AtomicU64,
    /// A thread cannot be had at times.
    pub(crate) threads_are_short: bool,
    /// Nothing requeues itself any more.
    pub(crate) ends: AtomicBool,
    /// Queues whose last holder must not wait for their end.
    graveyard: Mutex<Vec<Arc<Queue>>>,
    pub(crate) grouped: Arc<Grouped>,
    pub(crate) doing: Arc<Doing>,
    pub(crate) own: Arc<Own>,
    pub(crate) seed: u64,
    /// In one of eight worlds: what is recorded, at times.
    recording: Option<Mutex<Option<Recording>>>,
    /// A completion queue that all issuers own.
    pub(crate) shared: Cq,
    /// A queue with a bound on what waits.
    pub(crate) bounded: Option<Bounded>,
    pub(crate) ledgers: Arc<Mutex<Vec<Ledger>>>,
    made: AtomicU64,
}

impl World {
    pub(crate) fn new(engine: &Engine, settings: &Settings, known: &Known) -> Arc<World> {
        let mut random = Random::new(settings.seed ^ 0x0007_0a1d);
        let cpus: Vec<usize> = engine.topology().cpus().iter().collect();
        let short = settings.threads_are_short;
        let grouped = Arc::new(Grouped::new(&mut Random::new(settings.seed ^ 0x9209)));
        let (doing, own) = (Arc::default(), Arc::new(Own::new(&known.broken)));
        Arc::new_cyclic(|world: &Weak<World>| {
            let queues = (0..settings.queues).map(|n| {
                let like = random.below(8);
                let made = Making {
                    world,
                    engine,
                    short,
                    grouped: &grouped,
                    doing: &doing,
                    own: &own,
                    seed: settings.seed,
                };
                let queue = made.queue(n as u64, like, n % 3 == 0, &mut random);
                lock(&known.ledgers).push(queue.ledger());
                Mutex::new(queue)
            });
            World {
                queues: queues.collect(),
                steady: (0..2)
                    .map(|_| Steady::new(engine, settings, known, &mut random))
                    .collect(),
                waiting: known.waiting.clone(),
                broken: known.broken.clone(),
                shared: Cq::new(None),
                bounded: settings.has_bounded.then(|| {
                    let mut apart = Random::new(settings.seed ^ 0xb0d0);
                    Bounded::new(engine, &mut apart, &known.bounded, &known.broken)
                }),
                cpus_change: settings.cpus_change,
                cpus_stay: settings.cpus_stay,
                made: AtomicU64::new(settings.queues as u64),
                helper: built(|| engine.workqueue("helper")),
                bh: cpus.iter().map(|_| <[Arc<Room>; 2]>::default()).collect(),
                cpus,
                freezer: Mutex::new(()),
                freezable_starts: AtomicU64::new(0),
                threads_are_short: short,
                grouped: grouped.clone(),
                doing: doing.clone(),
                own: own.clone(),
                seed: settings.seed,
                ends: AtomicBool::new(false),
                recording: Random::new(settings.seed ^ 0x7ace)
                    .one_in(8)
                    .then(|| Mutex::new(Recording::begin(64))),
                graveyard: Mutex::default(),
                ledgers: known.ledgers.clone(),
                engine: engine.clone(),
            }
        })
    }

    pub(crate) fn queue_count(&self) -> usize {
        self.queues.len()
    }

    pub(crate) fn queue(&self, which: usize) -> Arc<Queue> {
        lock(&self.queues[which]).clone()
    }

    pub(crate) fn some_queue(&self, random: &mut Random) -> Arc<Queue> {
        self.queue(random.below(self.queues.len()))
    }

    pub(crate) fn some_cpu(&self, random: &mut Random) -> usize {
        self.cpus[random.below(self.cpus.len())]
    }

    /// Events are recorded from now on, or no longer.
    pub(crate) fn observe(&self) {
        let Some(recording) = &self.recording else {
            return;
        };
        let mut recording = lock_long(recording);
        *recording = match recording.take() {
            Some(running) => {
                drop(running.take());
                None
            }
            None => Recording::begin(64),
        };
    }

    /// Drops a reference of a queue without waiting for its end.
    pub(crate) fn bury(&self, queue: Arc<Queue>) {
        lock(&self.graveyard).push(queue);
    }

    pub(crate) fn empty_graveyard(&self) {
        let buried = std::mem::take(&mut *lock(&self.graveyard));
        drop(buried);
    }

    pub(crate) fn make_queue(
        self: &Arc<Self>,
        like: usize,
        drains: bool,
        random: &mut Random,
    ) -> Arc<Queue> {
        let number = self.made.fetch_add(1, Relaxed);
        let made = Making {
            world: &Arc::downgrade(self),
            engine: &self.engine,
            short: self.threads_are_short,
            grouped: &self.grouped,
            doing: &self.doing,
            own: &self.own,
            seed: self.seed,
        };
        let queue = made.queue(number, like, drains, random);
        let mut ledgers = lock(&self.ledgers);
        ledgers.retain(|ledger| {
            let closed = ledger.queue.strong_count() == 0 && ledger.is_settled();
            if closed {
                ledger.check(&self.broken);
            }
            !closed
        });
        ledgers.push(queue.ledger());
        drop(ledgers);
        queue
    }

    /// Replaces a queue by a new one. The old one goes with its last user.
    pub(crate) fn replace(&self, which: usize, new: Arc<Queue>) -> Arc<Queue> {
        std::mem::replace(&mut *lock(&self.queues[which]), new)
    }

    pub(crate) fn is_settled(&self) -> bool {
        let steady = self.steady.iter().all(|steady| steady.shots.is_settled());
        let bounded = self.bounded.as_ref().is_none_or(Bounded::is_settled);
        steady && bounded && lock(&self.ledgers).iter().all(Ledger::is_settled)
    }
}

impl Steady {
    fn new(engine: &Engine, settings: &Settings, known: &Known, random: &mut Random) -> Steady {
        let scope = SCOPES[1 + random.below(SCOPES.len() - 1)];
        let strict = random.one_in(2);
        let wq = || {
            let wq = engine.workqueue("steady").affinity_scope(scope);
            wq.affinity_strict(strict).max_active(WQ_MAX_ACTIVE)
        };
        let all: Arc<[usize]> = engine.topology().cpus().iter().collect();
        let mut reach = vec![all; engine.topology().max_cpu() + 1];
        if strict {
            for pod in engine.pods(scope).pods() {
                let cpus: Arc<[usize]> = pod.cpus.iter().collect();
                cpus.iter().for_each(|&cpu| reach[cpu] = cpus.clone());
            }
        }
        let nodes = engine.topology().nodes().iter().map(|(node, cpus)| {
            let reached = cpus.iter().flat_map(|cpu| reach[cpu].iter().copied());
            (*node, settings.cpus_stay.then(|| reached.collect()))
        });
        Steady {
            of_node: nodes.collect(),
            wq: built(wq),
            shots: Arc::default(),
            reach,
            broken: known.broken.clone(),
        }
    }

    /// Has it run once, from the node.
    pub(crate) fn shoot_at(&self, node: u32, run: impl FnOnce() -> u64 + Send + 'static) {
        let (cpus, broken) = (self.of_node[&node].clone(), self.broken.clone());
        let run = Mutex::new(Some(run));
        let work = Work::new(move || {
            let is_near = cpus.as_ref().is_none_or(|cpus| os::runs_on(cpus));
            broken.expect(is_near, || {
                format!("steady: an item of node {node} runs elsewhere")
            });
            let run = lock(&run).take();
            run.expect("it was queued once")();
        });
        let queued = self.wq.queue_on_node(node, &work).expect("a node");
        let taken = queued.is_accepted();
        self.broken
            .expect(taken, || format!("steady: {queued:?} on node {node}"));
    }
}

/// The queue, as soon as its threads can be had.
pub(crate) fn built(builder: impl Fn() -> WorkqueueBuilder) -> Workqueue {
    loop {
        match builder().build() {
            Ok(queue) => return queue,
            Err(Error::Thread(_)) => os::sleep(Duration::from_micros(500)),
            Err(error) => panic!("these attributes are legal: {error}"),
        }
    }
}

/// Where a queue is made.
struct Making<'a> {
    world: &'a Weak<World>,
    engine: &'a Engine,
    /// A thread cannot be had at times.
    short: bool,
    grouped: &'a Arc<Grouped>,
    doing: &'a Arc<Doing>,
    own: &'a Arc<Own>,
    seed: u64,
}

impl Making<'_> {
    fn queue(&self, number: u64, like: usize, drains: bool, random: &mut Random) -> Arc<Queue> {
        let engine = self.engine;
        let limits = [1, 2, 5, 30, 1024];
        let mut max_active = limits[random.below(limits.len())];
        let name = format!("q{number}");
        let kind = match like % 4 {
            0 => WorkqueueKind::Unbound,
            1 => WorkqueueKind::Ordered,
            2 => WorkqueueKind::PerCpu,
            _ => WorkqueueKind::Bh,
        };
        let bound = matches!(kind, WorkqueueKind::PerCpu | WorkqueueKind::Bh);
        let highpri = bound && random.one_in(6);
        let freezable = kind != WorkqueueKind::Bh && random.one_in(4);
        let reclaims = kind != WorkqueueKind::Bh && (self.short || random.one_in(8));
        if matches!(kind, WorkqueueKind::Ordered | WorkqueueKind::Bh) {
            max_active = 1;
        }
        let cpus = engine.topology().cpus().len();
        let nodes = engine.topology().nodes().len();
        let most_active = match kind {
            // Each node may use its share, pools on no node the whole. `set_max_active` stays within the first value.
            WorkqueueKind::Unbound => max_active * (nodes + usize::from(nodes > 1)),
            WorkqueueKind::Ordered => 1,
            WorkqueueKind::PerCpu => max_active * cpus,
            WorkqueueKind::Bh => cpus,
        };
        let (scope, strict) = (SCOPES[random.below(SCOPES.len())], random.one_in(2));
        let intensive = random.one_in(3);
        // Drawn apart, as in the programs of an exploration what is new changes nothing else.
        let is_grouped =
            kind != WorkqueueKind::Bh && number.wrapping_mul(0x9e37_79b9) >> 7 & 3 == 0;
        let grouped = is_grouped.then(|| self.grouped.clone());
        // Drawn apart too.
        let mut apart = Random::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let own = (kind != WorkqueueKind::Bh && apart.one_in(8)).then(|| self.own.clone());
        let workers_only = apart.one_in(6);
        // Every other item, beginning with the first or the second.
        let embeds = apart.one_in(3).then(|| apart.below(2));
        let builder = || {
            let builder = engine.workqueue(&name);
            let builder = match &own {
                Some(own) => builder.worker_threads(own.threads.clone()),
                None => builder,
            };
            let builder = match workers_only {
                true => builder.workers_only(),
                false => builder,
            };
            let builder = match &grouped {
                Some(all) => builder.group(&all.group),
                None => builder,
            };
            let builder = match kind {
                WorkqueueKind::Unbound => builder.max_active(max_active),
                WorkqueueKind::Ordered => builder.ordered(),
                WorkqueueKind::PerCpu => builder.per_cpu().max_active(max_active),
                WorkqueueKind::Bh => builder.bh(),
            };
            let builder = match kind {
                WorkqueueKind::PerCpu if intensive => builder.cpu_intensive(),
                WorkqueueKind::PerCpu | WorkqueueKind::Bh => builder,
                _ => builder.affinity_scope(scope).affinity_strict(strict),
            };
            let builder = if highpri { builder.highpri() } else { builder };
            let builder = if freezable {
                builder.freezable()
            } else {
                builder
            };
            if reclaims {
                builder.mem_reclaim()
            } else {
                builder
            }
        };
        let lanes = match kind {
            WorkqueueKind::Unbound | WorkqueueKind::Ordered => 1,
            _ => engine.topology().max_cpu() + 1,
        };
        let item = |me: &Weak<Queue>, n: usize, seed: u64| {
            Item::new(
                me.clone(),
                self.world.clone(),
                freezable,
                Class::of(n),
                embeds == Some(n % 2) && Class::of(n) != Class::Raw,
                seed,
            )
        };
        Arc::new_cyclic(|me: &Weak<Queue>| Queue {
            wq: built(builder),
            name: format!("{name} ({kind})"),
            number,
            items: (0..ITEMS_PER_QUEUE)
                .map(|n| item(me, n, random.bits()))
                .collect(),
            kind,
            highpri,
            freezable,
            drains,
            max_active,
            most_active,
            room: Arc::default(),
            grouped: grouped.clone(),
            runners: Runners {
                doing: self.doing.clone(),
                workers_only: workers_only || own.is_some(),
                own: own.clone(),
                rescuer: reclaims.then(Arc::default),
            },
            nodes: match kind {
                WorkqueueKind::Unbound | WorkqueueKind::Ordered if nodes > 1 => {
                    let cpus = 0..=engine.topology().max_cpu();
                    cpus.map(|cpu| engine.topology().node_of(cpu)).collect()
                }
                _ => Vec::new(),
            },
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            shots: Arc::default(),
        })
    }
}

impl Queue {
    fn ledger(self: &Arc<Self>) -> Ledger {
        Ledger {
            name: self.name.clone(),
            queue: Arc::downgrade(self),
            accounts: self.items.iter().map(|item| item.account.clone()).collect(),
            shots: self.shots.clone(),
            drains: self.drains,
        }
    }

    /// Whether its items may wait for something.
    pub(crate) fn may_block(&self) -> bool {
        self.kind != WorkqueueKind::Bh
    }

    /// The node to queue on instead of a CPU, now and then: by an item's number, so that no other draw changes.
    pub(crate) fn node_for(&self, cpu: usize, number: u64) -> Option<u32> {
        let node = self.nodes.get(cpu).copied().flatten();
        node.filter(|_| number % 4 == 3)
    }

    /// How many one-shot items of one lane may be active at the same time.
    pub(crate) fn most_in_lane(&self) -> usize {
        match self.kind {
            WorkqueueKind::PerCpu => self.max_active,
            WorkqueueKind::Bh => 1,
            _ => self.most_active,
        }
    }

    /// Whether the one-shot items of a lane run in order.
    pub(crate) fn in_order(&self) -> bool {
        matches!(self.kind, WorkqueueKind::Ordered | WorkqueueKind::Bh)
    }

    /// When none of its items is pending or runs.
    pub(crate) fn check_values(&self, broken: &Broken) {
        self.items
            .iter()
            .for_each(|item| item.check_value(self, broken));
    }

    /// Armed timers may be dropped from now on, without a report to any caller.
    pub(crate) fn may_lose_timers(&self) {
        for item in self.items.iter().filter(|item| item.class.is_delayed()) {
            item.account.lossy.store(true, Relaxed);
        }
    }
}

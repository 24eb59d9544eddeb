//! Queues of every kind, with what the model knows of them, and the world that they make up.

use crate::harness::{Broken, Random};
use crate::items::{Class, Item};
use crate::model::{Account, Room, Shots};
use crate::threads;
use cmwq::affinity::AffinityScope;
use cmwq::{Engine, Workqueue, WorkqueueKind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

pub(crate) const ITEMS_PER_QUEUE: usize = 9;
pub(crate) const SCOPES: [AffinityScope; 7] = [
    AffinityScope::Default,
    AffinityScope::Cpu,
    AffinityScope::Smt,
    AffinityScope::Cache,
    AffinityScope::CacheShard,
    AffinityScope::Numa,
    AffinityScope::System,
];

/// A queue and what the model knows of it.
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
    pub(crate) name: String,
    queue: Weak<Queue>,
    accounts: Vec<Arc<Account>>,
    shots: Arc<Shots>,
    drains: bool,
}

impl Ledger {
    pub(crate) fn is_settled(&self) -> bool {
        self.shots.is_settled() && self.accounts.iter().all(|account| account.is_settled())
    }

    /// When all is at rest.
    pub(crate) fn check(&self) {
        for (n, account) in self.accounts.iter().enumerate() {
            assert!(
                account.is_settled(),
                "{}, item {n}: {}",
                self.name,
                account.describe()
            );
            assert!(
                account.saw_flags(),
                "{}, item {n}: missed a flag",
                self.name
            );
            assert!(
                account.saw_each_other(),
                "{}, item {n}: runs of one item did not see each other",
                self.name
            );
        }
        let dropped = self.shots.dropped.load(Ordering::Acquire);
        assert!(
            self.shots.is_settled(),
            "{}: a one-shot item is lost",
            self.name
        );
        assert!(
            self.drains || dropped == 0,
            "{}: {dropped} dropped without a drain",
            self.name
        );
    }

    /// The numbers that stay the same when all is at rest.
    pub(crate) fn state(&self) -> Vec<String> {
        let accounts = self.accounts.iter().map(|account| account.describe());
        accounts.chain([self.shots.ended().to_string()]).collect()
    }

    fn open(&self) -> String {
        let open = self
            .accounts
            .iter()
            .enumerate()
            .filter(|(_, account)| !account.is_settled());
        open.map(|(n, account)| format!("  {} item {n}: {}\n", self.name, account.describe()))
            .collect()
    }
}

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) broken: Arc<Broken>,
    pub(crate) cpus: Vec<usize>,
    pub(crate) real_cpus: Vec<usize>,
    pub(crate) queues: Vec<RwLock<Arc<Queue>>>,
    /// Items may wait for its items, which wait for nothing: it is never frozen, drained or limited.
    pub(crate) helper: Workqueue,
    /// By CPU, normal and highpri: what runs on the BH pool.
    pub(crate) bh: Vec<[Arc<Room>; 2]>,
    /// Locked while the freezable queues are frozen.
    pub(crate) freezer: Mutex<()>,
    /// Items of freezable queues that have begun.
    pub(crate) freezable_starts: Arc<AtomicUsize>,
    /// Queues that somebody let go who must not wait for their end.
    graveyard: Mutex<Vec<Arc<Queue>>>,
    ledgers: Mutex<Vec<Ledger>>,
    made: AtomicU64,
    pub(crate) progress: Arc<AtomicU64>,
}

impl World {
    pub(crate) fn new(
        engine: &Engine,
        queues: usize,
        progress: Arc<AtomicU64>,
        random: &mut Random,
    ) -> Arc<World> {
        let cpus: Vec<usize> = engine.topology().cpus().iter().collect();
        let lanes = engine.topology().max_cpu() + 1;
        let broken: Arc<Broken> = Arc::default();
        let starts: Arc<AtomicUsize> = Arc::default();
        Arc::new_cyclic(|world: &Weak<World>| {
            let mut ledgers = Vec::new();
            let queues = (0..queues)
                .map(|n| {
                    let queue = Queue::new(world, engine, n as u64, n, n % 3 == 0, random);
                    ledgers.push(queue.ledger());
                    RwLock::new(queue)
                })
                .collect::<Vec<_>>();
            World {
                broken,
                cpus,
                real_cpus: threads::my_cpus(),
                made: AtomicU64::new(queues.len() as u64),
                queues,
                helper: engine.workqueue("helper").build().expect("a queue"),
                bh: (0..lanes).map(|_| <[Arc<Room>; 2]>::default()).collect(),
                freezer: Mutex::new(()),
                freezable_starts: starts,
                graveyard: Mutex::default(),
                ledgers: Mutex::new(ledgers),
                progress,
                engine: engine.clone(),
            }
        })
    }

    pub(crate) fn queue(&self, which: usize) -> Arc<Queue> {
        self.queues[which]
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn some_queue(&self, random: &mut Random) -> Arc<Queue> {
        self.queue(random.below(self.queues.len()))
    }

    pub(crate) fn some_cpu(&self, random: &mut Random) -> usize {
        self.cpus[random.below(self.cpus.len())]
    }

    /// Lets go of a queue without waiting for its end.
    pub(crate) fn bury(&self, queue: Arc<Queue>) {
        let mut graveyard = self
            .graveyard
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        graveyard.push(queue);
    }

    pub(crate) fn empty_graveyard(&self) {
        let buried = std::mem::take(
            &mut *self
                .graveyard
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        drop(buried);
    }

    pub(crate) fn make_queue(
        self: &Arc<Self>,
        like: usize,
        drains: bool,
        random: &mut Random,
    ) -> Arc<Queue> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let queue = Queue::new(
            &Arc::downgrade(self),
            &self.engine,
            number,
            like,
            drains,
            random,
        );
        let mut ledgers = self.ledgers.lock().unwrap_or_else(PoisonError::into_inner);
        ledgers.retain(|ledger| {
            let closed = ledger.queue.strong_count() == 0 && ledger.is_settled();
            if closed {
                ledger.check();
            }
            !closed
        });
        ledgers.push(queue.ledger());
        queue
    }

    /// Puts a new queue in the place of another, which goes when its last user lets go of it.
    pub(crate) fn replace(&self, which: usize, new: Arc<Queue>) -> Arc<Queue> {
        let mut place = self.queues[which]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, new)
    }

    pub(crate) fn ledgers<R>(&self, look: impl FnOnce(&[Ledger]) -> R) -> R {
        look(&self.ledgers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is not settled, for a dump.
    pub(crate) fn open(&self) -> String {
        match self.ledgers.try_lock() {
            Ok(ledgers) => ledgers.iter().map(Ledger::open).collect(),
            Err(_) => "  (the ledgers are locked)\n".into(),
        }
    }
}

impl Queue {
    /// `like` picks the kind, so that a world has one of each.
    fn new(
        world: &Weak<World>,
        engine: &Engine,
        number: u64,
        like: usize,
        drains: bool,
        random: &mut Random,
    ) -> Arc<Queue> {
        let limits = [1, 2, 5, 30, 1024];
        let mut max_active = limits[random.below(limits.len())];
        let name = format!("q{number}");
        let mut builder = engine.workqueue(&name);
        let (mut highpri, mut freezable) = (random.one_in(6), false);
        let kind = match like % 4 {
            0 => WorkqueueKind::Unbound,
            1 => WorkqueueKind::Ordered,
            2 => WorkqueueKind::PerCpu,
            _ => WorkqueueKind::Bh,
        };
        if kind != WorkqueueKind::Bh {
            freezable = like >= 4 && random.one_in(2);
            if freezable {
                builder = builder.freezable();
            }
            if random.one_in(8) || threads::are_short() {
                builder = builder.mem_reclaim();
            }
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
        builder = match kind {
            WorkqueueKind::Unbound | WorkqueueKind::Ordered => {
                highpri = false;
                builder = builder
                    .affinity_scope(SCOPES[random.below(SCOPES.len())])
                    .affinity_strict(random.one_in(2));
                if kind == WorkqueueKind::Ordered {
                    max_active = 1;
                    builder.ordered()
                } else {
                    builder.max_active(max_active)
                }
            }
            WorkqueueKind::PerCpu => {
                if random.one_in(3) {
                    builder = builder.cpu_intensive();
                }
                builder.per_cpu().max_active(max_active)
            }
            WorkqueueKind::Bh => {
                max_active = 1;
                builder.bh()
            }
        };
        if highpri {
            builder = builder.highpri();
        }
        let lanes = match kind {
            WorkqueueKind::Unbound | WorkqueueKind::Ordered => 1,
            _ => engine.topology().max_cpu() + 1,
        };
        Arc::new_cyclic(|me: &Weak<Queue>| Queue {
            wq: builder.build().expect("a queue"),
            name: format!("{name} ({kind})"),
            number,
            items: (0..ITEMS_PER_QUEUE)
                .map(|n| {
                    Item::new(
                        me.clone(),
                        world.clone(),
                        freezable,
                        Class::of(n),
                        random.next(),
                    )
                })
                .collect(),
            kind,
            highpri,
            freezable,
            drains,
            max_active,
            most_active,
            room: Arc::default(),
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            shots: Arc::default(),
        })
    }

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
}

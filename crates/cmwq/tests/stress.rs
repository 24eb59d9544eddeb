//! Random operations from several threads against a simple model. A run prints its seed; `CMWQ_TEST_SEED` repeats its
//! operations, `CMWQ_TEST_OPS` sets their number (a million takes minutes in release mode).
//!
//! Faults put into the engine on purpose, one at a time, and the tests that caught them (q: queues.rs, m: conformance/,
//! s: this file; "crash" and "hang" are failures too):
//!
//! | fault | caught by |
//! |---|---|
//! | PENDING cleared after the function instead of before | q, m 1, s |
//! | `next_task` does not look for a run of the same item | m (hang), s |
//! | `queue` does not look for a run on the last pool; the last pool is forgotten | m 3, s |
//! | the last pool's run is taken for the queue's own, whatever queue it is of | m 3 |
//! | an item behind its own run keeps the other queue's pool workqueue | m 3 (a run that follows one of another queue) |
//! | runs are told apart by address alone | m 4 (an address used again); unit test of `pool/busy.rs` |
//! | no grace period between replacing a slot and retiring what was there | s (crash) |
//! | a flush or a retirement does not accept what is in the inbox | q, m 4, 10, 14, s |
//! | a flush takes a busy colour for idle | q, m 1 and more, s |
//! | a new pool workqueue starts with colour 0 | m, s |
//! | a flush shares a generation that had begun before it | m 11, s |
//! | credits are not given back at an item's end, or lost when they are | q, m, s (hangs) |
//! | whoever waits does not collect the others' unused credits | m 13, s |
//! | only one inactive item per pool workqueue is served | q, m, s (hangs) |
//! | inactive items are overtaken | m 14, s |
//! | a changed limit does not reach the nodes; new attributes do not settle the limits | m 14 |
//! | the new pool workqueue of an ordered queue is not plugged | q, m 15, s |
//! | the inbox gives items out newest first | q, m 14, 15, s |
//! | settling does not ask for a notification, a worker, or loses the wake-up | q, m, s (hangs) |
//! | a retired pool workqueue never goes | q, m, s (hangs) |
//! | a drain never ends the queue's being closed | m 12, 30 |
//! | a drain looks at each pool once | s (an item that hops) |
//! | a dropped item's reference is not given back | m 12 |
//! | declared blocking is not counted, so the monitor has to find it | m 20 |
//! | workers that leave count as busy | m 20 |
//!
//! Got past all of them: PENDING cleared or tested by plain accesses, one phase flip instead of two, and `close` without a
//! grace period (each needs a reordering or a pause of a few instructions: for the model checker); no spare worker asked
//! for when an item starts (settling asks for one as soon as it is needed, only later); a drain that looks twice but does
//! not compare what it saw (the single look is caught).

mod harness;

use cmwq::affinity::AffinityScope;
use cmwq::topology::CpuSet;
use cmwq::{Engine, JoinHandle, Work, Workqueue, WorkqueueAttrs};
use harness::{Broken, Deadline, Random, engine, eventually, number, quiet_panic, seed};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

const ISSUERS: usize = 4;
const ITEMS_PER_QUEUE: usize = 6;
const SCOPES: [AffinityScope; 7] = [
    AffinityScope::Default,
    AffinityScope::Cpu,
    AffinityScope::Smt,
    AffinityScope::Cache,
    AffinityScope::CacheShard,
    AffinityScope::Numa,
    AffinityScope::System,
];

/// A reusable item and what the model knows of it. It is only ever queued on one queue, so its runs must not overlap.
struct Item {
    work: OnceLock<Work>,
    accepted: AtomicU64,
    runs: AtomicU64,
    /// Counted without an atomic: runs of one item are ordered, each sees what the one before did.
    plain_runs: PlainCount,
    inside: AtomicBool,
    /// Set before the item is queued, read by its run (spec 2.4).
    flag: AtomicU64,
    flag_seen: AtomicU64,
    /// How often it may still requeue itself.
    requeues: AtomicU64,
}

struct PlainCount(UnsafeCell<u64>);
// SAFETY: written by the runs of one item only, which is what the test is about; read when no run is left.
unsafe impl Sync for PlainCount {}

impl Item {
    fn new() -> Arc<Item> {
        Arc::new(Item {
            work: OnceLock::new(),
            accepted: AtomicU64::new(0),
            runs: AtomicU64::new(0),
            plain_runs: PlainCount(UnsafeCell::new(0)),
            inside: AtomicBool::new(false),
            flag: AtomicU64::new(0),
            flag_seen: AtomicU64::new(0),
            requeues: AtomicU64::new(0),
        })
    }
}

/// A queue and what the model knows of it.
struct Queue {
    wq: Workqueue,
    items: Vec<Arc<Item>>,
    ordered: bool,
    /// It is drained now and then, so items from outside may be dropped.
    drains: bool,
    /// The largest number of items that may be active at the same time, whatever limit holds at the moment: what was
    /// active when the limit was lowered stays so.
    most_active: usize,
    inside: Arc<AtomicUsize>,
    /// Of an ordered queue: the number that the next spawned item gets.
    next_number: Mutex<u64>,
    last_number: Arc<AtomicU64>,
    spawned: AtomicU64,
    ran: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
}

/// Tells what became of a closure: it ran, or it was dropped without.
struct Token {
    ran: bool,
    counts: [Arc<AtomicU64>; 2],
    mine: [Arc<AtomicU64>; 2],
}

impl Drop for Token {
    fn drop(&mut self) {
        let which = usize::from(!self.ran);
        self.counts[which].fetch_add(1, Ordering::Release);
        self.mine[which].fetch_add(1, Ordering::Release);
    }
}

struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct World {
    engine: Engine,
    broken: Broken,
    cpus: Vec<usize>,
    queues: Vec<Arc<Queue>>,
}

fn count_inside<'a>(
    broken: &Broken,
    inside: &'a AtomicUsize,
    most: usize,
    ordered: bool,
) -> Inside<'a> {
    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
    broken.expect(now <= most, || {
        format!("{now} items active at the same time, at most {most} may be (ordered: {ordered})")
    });
    Inside(inside)
}

impl Queue {
    fn new(
        world: &Weak<World>,
        engine: &Engine,
        name: &str,
        random: &mut Random,
        drains: bool,
    ) -> Arc<Queue> {
        let ordered = random.one_in(4);
        let limits = [1, 2, 5, 30, 1024];
        let max_active = limits[random.below(limits.len())];
        let mut builder = engine
            .workqueue(name)
            .affinity_scope(SCOPES[random.below(SCOPES.len())])
            .affinity_strict(random.one_in(2));
        builder = if ordered {
            builder.ordered()
        } else {
            builder.max_active(max_active)
        };
        // Each node may use its share, pools on no node the whole. `set_max_active` below stays within the first value.
        let nodes = engine.topology().nodes().len();
        let most_active = if ordered {
            1
        } else {
            max_active * (nodes + usize::from(nodes > 1))
        };
        Arc::new_cyclic(|me: &Weak<Queue>| Queue {
            wq: builder.build().expect("a queue"),
            items: (0..ITEMS_PER_QUEUE)
                .map(|_| Queue::item(me.clone(), world.clone(), random.next()))
                .collect(),
            ordered,
            drains,
            most_active,
            inside: Arc::default(),
            next_number: Mutex::new(1),
            last_number: Arc::default(),
            spawned: AtomicU64::new(0),
            ran: Arc::default(),
            dropped: Arc::default(),
        })
    }

    fn item(me: Weak<Queue>, world: Weak<World>, seed: u64) -> Arc<Item> {
        let item = Item::new();
        let it = Arc::downgrade(&item);
        let runs_of_seed = AtomicU64::new(0);
        let work = Work::new(move || {
            let (Some(item), Some(queue), Some(world)) =
                (it.upgrade(), me.upgrade(), world.upgrade())
            else {
                return;
            };
            let turn = runs_of_seed.fetch_add(1, Ordering::Relaxed);
            let mut random = Random::new(seed ^ turn);
            item.run(&queue, &world, &mut random);
        });
        let _ = item.work.set(work);
        item
    }

    /// Queues one of the items: `Some(flag)` if an instance was accepted, whose run must see the flag.
    fn queue(&self, item: &Item, cpu: Option<usize>) -> Option<u64> {
        let work = item.work.get().expect("set when made");
        let flag = item.flag.fetch_add(1, Ordering::Relaxed) + 1;
        let accepted = match cpu {
            None => self.wq.try_queue(work) == Ok(true),
            Some(cpu) => self.wq.queue_on(cpu, work).expect("a CPU of the topology"),
        };
        if accepted {
            item.accepted.fetch_add(1, Ordering::Relaxed);
        }
        // Not accepted because pending: that run sees the flag too, unless a drain drops it.
        (accepted || !self.drains).then_some(flag)
    }
}

impl Item {
    fn run(&self, queue: &Arc<Queue>, world: &World, random: &mut Random) {
        world
            .broken
            .expect(!self.inside.swap(true, Ordering::Relaxed), || {
                "two runs of one item overlap".into()
            });
        // SAFETY: runs of one item do not overlap; if they do, this is the race that sanitizers shall find.
        unsafe { *self.plain_runs.0.get() += 1 };
        let counted = count_inside(
            &world.broken,
            &queue.inside,
            queue.most_active,
            queue.ordered,
        );
        let flag = self.flag.load(Ordering::Relaxed);
        self.flag_seen.fetch_max(flag, Ordering::Relaxed);
        for _ in 0..random.below(200) {
            std::hint::spin_loop();
        }
        if random.one_in(16) {
            std::thread::yield_now();
        }
        if random.one_in(8) {
            let other = &queue.items[random.below(queue.items.len())];
            let cpu = random
                .one_in(2)
                .then(|| world.cpus[random.below(world.cpus.len())]);
            queue.queue(other, cpu);
        }
        if random.one_in(16) {
            let other = &world.queues[random.below(world.queues.len())];
            other.queue(&other.items[random.below(other.items.len())], None);
        }
        if self
            .requeues
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
            .is_ok()
        {
            queue.queue(self, None);
        }
        self.inside.store(false, Ordering::Relaxed);
        drop(counted);
        self.runs.fetch_add(1, Ordering::Release);
        if random.one_in(32) {
            quiet_panic();
        }
    }
}

/// What one issuer did on one queue.
#[derive(Default)]
struct Mine {
    spawned: u64,
    /// Ran, dropped.
    ended: [Arc<AtomicU64>; 2],
    /// By item: the newest flag that must have been seen after a flush.
    flags: HashMap<usize, u64>,
}

struct Issuer<'w> {
    world: &'w World,
    random: Random,
    mine: HashMap<usize, Mine>,
    handles: Vec<(u64, JoinHandle<u64>)>,
    /// A queue of its own, made and dropped in between.
    own: Option<Arc<Queue>>,
    weak: Weak<World>,
    made: usize,
}

impl Issuer<'_> {
    fn some_cpu(&mut self) -> usize {
        self.world.cpus[self.random.below(self.world.cpus.len())]
    }

    fn step(&mut self) {
        let which = self.random.below(self.world.queues.len());
        let queue = self.world.queues[which].clone();
        match self.random.below(1000) {
            0..400 => {
                let at = self.random.below(ITEMS_PER_QUEUE);
                if self.random.one_in(16) {
                    queue.items[at]
                        .requeues
                        .fetch_add(self.random.below(20) as u64, Ordering::Relaxed);
                }
                let cpu = self.random.one_in(3).then(|| self.some_cpu());
                if let Some(flag) = queue.queue(&queue.items[at], cpu) {
                    self.mine.entry(which).or_default().flags.insert(at, flag);
                }
            }
            400..800 => self.spawn(which, &queue),
            800..850 => {
                if !self.handles.is_empty() {
                    let at = self.random.below(self.handles.len());
                    let (value, handle) = self.handles.swap_remove(at);
                    if let Ok(result) = handle.join() {
                        self.world.broken.expect(result == value, || {
                            "a handle has another closure's value".into()
                        });
                    }
                }
            }
            850..930 => {
                queue.wq.flush().expect("not from an item of the queue");
                self.check_mine(which, &queue, "flush");
            }
            930..940 => {
                if queue.drains {
                    queue.wq.drain().expect("not from an item of the queue");
                    self.check_mine(which, &queue, "drain");
                }
            }
            940..960 => {
                if !queue.ordered {
                    let most = queue.most_active.min(queue.wq.max_active() * 2);
                    let nodes = self.world.engine.topology().nodes().len();
                    let first = queue.most_active / (nodes + usize::from(nodes > 1));
                    let limit = 1 + self.random.below(most.min(first));
                    queue.wq.set_max_active(limit).expect("not ordered");
                }
            }
            960..980 => {
                let attrs = self.some_attrs();
                queue.wq.apply_attrs(attrs).expect("valid attributes");
            }
            980..985 => {
                let scope = SCOPES[1 + self.random.below(SCOPES.len() - 1)];
                self.world
                    .engine
                    .set_default_affinity_scope(scope)
                    .expect("a concrete scope");
            }
            985..990 => self.queue_everywhere(&queue),
            _ => self.turn_over(),
        }
    }

    fn some_attrs(&mut self) -> WorkqueueAttrs {
        let cpumask = match self.random.below(4) {
            0 => None,
            // Also CPUs that do not exist, and nothing at all.
            1 => Some(CpuSet::from_iter([self.random.below(40)])),
            _ => {
                let bits = self.random.next();
                Some(
                    self.world
                        .cpus
                        .iter()
                        .copied()
                        .filter(|cpu| bits >> (cpu % 64) & 1 == 1)
                        .collect(),
                )
            }
        };
        WorkqueueAttrs {
            nice: 0,
            cpumask,
            affinity_scope: SCOPES[self.random.below(SCOPES.len())],
            affinity_strict: self.random.one_in(2),
        }
    }

    fn spawn(&mut self, which: usize, queue: &Arc<Queue>) {
        let mine = self.mine.entry(which).or_default();
        let mut token = Token {
            ran: false,
            counts: [queue.ran.clone(), queue.dropped.clone()],
            mine: mine.ended.clone(),
        };
        mine.spawned += 1;
        queue.spawned.fetch_add(1, Ordering::Relaxed);
        let value = self.random.next();
        let (most, ordered) = (queue.most_active, queue.ordered);
        let (inside, last) = (queue.inside.clone(), queue.last_number.clone());
        let world = self.weak.clone();
        // Under the lock: the order of the numbers is that of queueing.
        let mut number = queue.next_number.lock().unwrap();
        let my_number = *number;
        *number += 1;
        let closure = move || {
            token.ran = true;
            let token = token;
            if let Some(world) = world.upgrade() {
                let _counted = count_inside(&world.broken, &inside, most, ordered);
                if ordered {
                    let before = last.swap(my_number, Ordering::Relaxed);
                    world.broken.expect(before < my_number, || {
                        format!("ordered: {my_number} ran after {before}")
                    });
                }
                for _ in 0..value % 128 {
                    std::hint::spin_loop();
                }
            }
            drop(token);
            if value.is_multiple_of(64) {
                quiet_panic();
            }
            value
        };
        let handle = if ordered {
            let handle = queue.wq.spawn(closure);
            drop(number);
            handle
        } else {
            drop(number);
            queue.wq.spawn(closure)
        };
        if self.random.one_in(2) && self.handles.len() < 64 {
            self.handles.push((value, handle));
        }
    }

    /// One item from every CPU.
    fn queue_everywhere(&mut self, queue: &Queue) {
        for &cpu in &self.world.cpus {
            let item = &queue.items[self.random.below(ITEMS_PER_QUEUE)];
            queue.queue(item, Some(cpu));
        }
    }

    /// Makes a queue, or fills and drops the one there is.
    fn turn_over(&mut self) {
        let Some(queue) = self.own.take() else {
            self.made += 1;
            let name = format!("own-{}", self.made);
            self.own = Some(Queue::new(
                &self.weak,
                &self.world.engine,
                &name,
                &mut self.random,
                false,
            ));
            return;
        };
        self.queue_everywhere(&queue);
        for _ in 0..self.random.below(20) {
            self.spawn(usize::MAX, &queue);
        }
        let items = queue.items.clone();
        let (spawned, ran) = (queue.spawned.load(Ordering::Relaxed), queue.ran.clone());
        // Items hold the queue while they run: it is dropped here or by the last of them.
        let gone = Arc::downgrade(&queue);
        drop(queue);
        eventually(|| gone.strong_count() == 0);
        eventually(|| ran.load(Ordering::Acquire) == spawned);
        drop(items);
        self.mine.remove(&usize::MAX);
    }

    /// After a flush: everything that this thread queued before has run.
    fn check_mine(&mut self, which: usize, queue: &Queue, after: &str) {
        let Some(mine) = self.mine.get_mut(&which) else {
            return;
        };
        let ended: u64 = mine
            .ended
            .iter()
            .map(|count| count.load(Ordering::Acquire))
            .sum();
        self.world.broken.expect(ended == mine.spawned, || {
            format!(
                "after {after}, {ended} of {} spawned items have run",
                mine.spawned
            )
        });
        for (&at, &flag) in &mine.flags {
            let seen = queue.items[at].flag_seen.load(Ordering::Acquire);
            self.world.broken.expect(seen >= flag, || {
                format!("after {after}, item {at} has seen flag {seen}, queued was {flag}")
            });
        }
        mine.flags.clear();
    }
}

fn run(test: &'static str, machine: &str, queues: usize, ops: u64, seed: u64) {
    let engine = engine(machine);
    let _deadline = Deadline::with_dump(test, {
        let (engine, machine) = (engine.clone(), machine.to_owned());
        move || {
            format!(
                "machine {machine}, CMWQ_TEST_SEED={seed}, {:?}",
                engine.stats()
            )
        }
    });
    let mut random = Random::new(seed);
    let world = Arc::new_cyclic(|world: &Weak<World>| World {
        broken: Broken::default(),
        cpus: engine.topology().cpus().iter().collect(),
        queues: (0..queues)
            .map(|n| {
                Queue::new(
                    world,
                    &engine,
                    &format!("stress-{n}"),
                    &mut random,
                    n % 3 == 0,
                )
            })
            .collect(),
        engine: engine.clone(),
    });
    let seeds: Vec<u64> = (0..ISSUERS).map(|_| random.next()).collect();
    std::thread::scope(|scope| {
        for (n, seed) in seeds.into_iter().enumerate() {
            let world = &world;
            scope.spawn(move || {
                let cpu = world.cpus[n % world.cpus.len()];
                // Two declare their CPU, two queue from wherever they are.
                let _issuer = (n % 2 == 0).then(|| world.engine.become_issuer(cpu).unwrap());
                let mut issuer = Issuer {
                    world,
                    random: Random::new(seed),
                    mine: HashMap::new(),
                    handles: Vec::new(),
                    own: None,
                    weak: Arc::downgrade(world),
                    made: 0,
                };
                for _ in 0..ops / ISSUERS as u64 {
                    issuer.step();
                }
                if issuer.own.is_some() {
                    issuer.turn_over();
                }
            });
        }
    });
    // Items queue on other queues: only when all have come to rest at once is the world at rest.
    let counts = || -> Vec<(u64, u64)> {
        world
            .queues
            .iter()
            .flat_map(|queue| &queue.items)
            .map(|item| {
                (
                    item.accepted.load(Ordering::Acquire),
                    item.runs.load(Ordering::Acquire),
                )
            })
            .collect()
    };
    eventually(|| {
        for queue in &world.queues {
            queue.wq.drain().unwrap();
        }
        let now = counts();
        now.iter().all(|(accepted, runs)| accepted == runs) && now == counts()
    });
    for (n, queue) in world.queues.iter().enumerate() {
        for item in &queue.items {
            // SAFETY: the queue is drained: no run is left.
            let plain = unsafe { *item.plain_runs.0.get() };
            assert_eq!(
                plain,
                item.runs.load(Ordering::Relaxed),
                "runs of one item did not see each other"
            );
        }
        let (ran, dropped) = (
            queue.ran.load(Ordering::Acquire),
            queue.dropped.load(Ordering::Acquire),
        );
        assert_eq!(
            ran + dropped,
            queue.spawned.load(Ordering::Relaxed),
            "queue {n}: every closure runs once or is dropped"
        );
        assert!(
            queue.drains || dropped == 0,
            "queue {n}: nothing is dropped without a drain"
        );
    }
    world.broken.none();
    let stats = engine.stats();
    assert_eq!(stats.started, stats.completed, "{stats:?}");
    drop(world);
    eventually(|| {
        let stats = engine.stats();
        stats.pools == 0 && stats.workers == 0
    });
}

const MACHINES: [&str; 5] = [
    "numa:2 l3:2 core:2 pu:1",
    "l3:1 core:1 pu:1",
    "l3:4 core:1 pu:2",
    "l3:1 core:4 pu:1",
    "pack:2 numa:1 l3:4 core:4 pu:1",
];

#[test]
fn random_operations_keep_every_promise() {
    let seed = seed("random_operations_keep_every_promise");
    let ops = number("CMWQ_TEST_OPS", 20_000);
    for (n, machine) in MACHINES.iter().enumerate() {
        run(
            "random_operations_keep_every_promise",
            machine,
            6,
            ops / MACHINES.len() as u64,
            seed ^ n as u64,
        );
    }
}

/// Items that hop from pod to pod: while one is under way the queue is never empty, though every single pool is at times.
#[test]
fn drain_does_not_miss_an_item_that_hops_between_pods() {
    let seed = seed("drain_does_not_miss_an_item_that_hops_between_pods");
    let engine = engine("l3:16 core:1 pu:1");
    let _deadline = Deadline::new("drain_does_not_miss", &engine);
    let mut random = Random::new(seed);
    for _ in 0..number("CMWQ_TEST_OPS", 20_000) / 100 {
        let wq = Arc::new(
            engine
                .workqueue("hops")
                .affinity_scope(AffinityScope::Cpu)
                .build()
                .unwrap(),
        );
        let left = Arc::new(AtomicU64::new(40 + random.below(200) as u64));
        let works: Arc<OnceLock<[Work; 2]>> = Arc::default();
        let hop = |other: usize, seed: u64| {
            let (wq, left, works) = (Arc::downgrade(&wq), left.clone(), works.clone());
            Work::new(move || {
                let before = left.fetch_sub(1, Ordering::SeqCst);
                if before > 1 {
                    let cpu = Random::new(seed ^ before).below(16);
                    let wq = wq.upgrade().expect("a queue waits for its items");
                    assert!(
                        wq.queue_on(cpu, &works.get().expect("set before the first run")[other])
                            .unwrap()
                    );
                }
            })
        };
        let pair = [hop(1, random.next()), hop(0, random.next())];
        let first = pair[0].clone();
        works.set(pair).unwrap();
        assert!(wq.queue(&first));
        wq.drain().unwrap();
        assert_eq!(
            left.load(Ordering::SeqCst),
            0,
            "drain returned while an item hopped on"
        );
    }
    assert_eq!(engine.stats().panics, 0);
}

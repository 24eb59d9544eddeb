//! What the operations of a small program share, and what must hold of it.
//!
//! All virtual threads share one OS thread: locks and counters of this file are not visible to the
//! machine, and never contended.

pub(super) use super::facts::{Account, Facts, Lane, ShotId};
use cmwq_simulated::affinity::AffinityScope;
use cmwq_simulated::raw::{EmbeddedWork, RawWork};
use cmwq_simulated::topology::Topology;
use cmwq_simulated::{
    CompletionQueue, ConcurrencyGroup, DelayedWork, Engine, Work, Workqueue, WorkqueueBuilder,
};
use cmwq_vm::{Access, Cpus, os};
use std::cell::{Cell, OnceCell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Between any two steps of a thread's own others may come: it touches a line, by an access that
/// the others' accesses do not commute with.
pub(super) fn step() {
    static LINE: u64 = 0;
    os::touch((&raw const LINE).addr(), Access::Update);
}

/// What a one-shot item does.
#[derive(Clone, Copy)]
pub(super) enum Does {
    /// So many steps.
    Steps(usize),
    /// A step; and before, where items wait for others, it does.
    Meets,
    /// It sleeps, so that others may do all of theirs meanwhile.
    Lingers,
}

/// Shorter than a weak memory takes to show a store to all.
pub(super) const PAUSE: Duration = Duration::from_micros(20);

/// Of the pools to which queues go whose attributes change.
pub(super) const NICE: i32 = -3;

/// A queue and what is active of it.
pub(super) struct Queue {
    pub(super) wq: Workqueue,
    pub(super) lane: Arc<Lane>,
}

/// A value with an item.
pub(super) struct Field {
    run: Box<dyn Fn() + Send + Sync>,
    pub(super) item: EmbeddedWork<Field>,
}

/// An item in memory of its own, which its function frees.
#[repr(C)]
struct Loose {
    raw: RawWork,
    run: Option<Box<dyn FnOnce() + Send>>,
}

/// # Safety
/// `item` is the first field of a `Loose` that was leaked for this run.
unsafe extern "C-unwind" fn run_loose(item: NonNull<RawWork>) {
    // SAFETY: by this function's contract.
    let mut loose = unsafe { Box::from_raw(item.cast::<Loose>().as_ptr()) };
    let run = loose.run.take();
    drop(loose);
    run.expect("it runs once")();
}

/// Items of `r` that only some programs have.
pub(super) struct Floods {
    /// A run of it takes some time.
    pub(super) shared: (Work, Arc<Account>),
    /// What a thread of each pod queues before it queues the other one.
    own: [[(Work, Arc<Account>); FLOOD]; 2],
    /// Threads that flood.
    threads: Cell<usize>,
}

/// Queues that only some programs have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    Grouped,
    PerCpu,
    Bh,
    Ordered,
    Bounded,
    Workers,
    Nice,
}

pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) facts: Arc<Facts>,
    /// One item at a time.
    pub(super) q: Queue,
    /// As many as there are CPUs, from the same pools.
    pub(super) r: Queue,
    extra: RefCell<Vec<(Extra, Arc<Queue>)>>,
    apart: Arc<Lane>,
    /// Items of `r` while one worker may run over all pools.
    pub(super) limited: Arc<Lane>,
    pub(super) group: ConcurrencyGroup,
    pub(super) x: (Work, Arc<Account>),
    pub(super) y: (Work, Arc<Account>),
    floods: OnceCell<Floods>,
    pub(super) d: (DelayedWork, Arc<Account>),
    pub(super) field: (Arc<Field>, Arc<Account>),
    pub(super) done: CompletionQueue<u64>,
    /// Threads that let items meet.
    meeting: Cell<usize>,
}

/// After so many items of one function the next ones go into a chunk.
const FLOOD: usize = 10;
/// As many as a lane can have.
pub(super) const MANY: usize = usize::MAX;
/// The lane of queues that one thread makes and drops.
const APART: usize = usize::MAX;
const LIMITED: usize = usize::MAX - 1;

fn work_of(queue: &Queue, facts: &Arc<Facts>) -> (Work, Arc<Account>) {
    let (account, lane, facts) = (Account::new(false), queue.lane.clone(), facts.clone());
    let own = account.clone();
    (Work::new(move || own.run(&lane, &facts)), account)
}

/// Moves the calling thread to the pod after that of the last thread which was counted there, and
/// returns the pod.
fn move_to_next_pod(threads: &Cell<usize>) -> usize {
    let pod = threads.get() % 2;
    threads.set(threads.get() + 1);
    os::set_affinity(os::current(), Cpus::from_iter([2 * pod]));
    pod
}

impl Floods {
    /// Moves the calling thread to a pod where no other thread floods, and returns its items.
    pub(super) fn begin(&self) -> &[(Work, Arc<Account>)] {
        &self.own[move_to_next_pod(&self.threads)]
    }
}

impl World {
    pub(super) fn new(topology: Topology, facts: &Arc<Facts>) -> World {
        let engine = Engine::builder()
            .topology(topology)
            .idle_timeout(Duration::from_secs(300))
            .build()
            .expect("a topology is given");
        let queue = |name: &str, number, most, limit: fn(WorkqueueBuilder) -> WorkqueueBuilder| {
            let wq = limit(
                engine
                    .workqueue(name)
                    .affinity_scope(AffinityScope::CacheShard),
            );
            Queue {
                wq: wq.freezable().build().expect("legal attributes"),
                lane: Lane::new(number, most, facts),
            }
        };
        let q = queue("q", 0, 1, |wq| wq.max_active(1));
        let r = queue("r", 1, MANY, |wq| wq);
        let (x, y) = (work_of(&q, facts), work_of(&q, facts));
        let (account, lane, own) = (Account::new(true), q.lane.clone(), facts.clone());
        let of_d = account.clone();
        let d = (DelayedWork::new(move || of_d.run(&lane, &own)), account);
        let (account, lane, own) = (Account::new(false), q.lane.clone(), facts.clone());
        let of_field = account.clone();
        let field = Arc::new(Field {
            run: Box::new(move || of_field.run(&lane, &own)),
            item: EmbeddedWork::new(|field: Arc<Field>| (field.run)()),
        });
        let apart = Lane::new(APART, MANY, facts);
        for lane in [&q.lane, &r.lane, &apart] {
            lane.freezes.store(true, Relaxed);
        }
        World {
            facts: facts.clone(),
            q,
            r,
            extra: RefCell::default(),
            apart,
            limited: Lane::new(LIMITED, 1, facts),
            group: ConcurrencyGroup::new("group", 1),
            x,
            y,
            d,
            field: (field, account),
            done: CompletionQueue::new(),
            meeting: Cell::new(0),
            floods: OnceCell::new(),
            engine,
        }
    }

    /// From now on closures of both queues wait for all others that were accepted.
    pub(super) fn let_items_meet(&self, limit: usize) {
        move_to_next_pod(&self.meeting);
        self.q.wq.set_max_active(limit).expect("a legal limit");
        self.q.lane.most.store(limit, Relaxed);
        for queue in [&self.q, &self.r] {
            queue.lane.meets.store(true, Relaxed);
        }
    }

    /// Made when the program is set up.
    pub(super) fn floods(&self) -> &Floods {
        self.floods.get_or_init(|| {
            let work = || work_of(&self.r, &self.facts);
            let shared = work();
            shared.1.lingers.store(true, Relaxed);
            Floods {
                shared,
                own: [0, 1].map(|_| std::array::from_fn(|_| work())),
                threads: Cell::new(0),
            }
        })
    }

    /// Made when the program is set up.
    pub(super) fn extra(&self, which: Extra) -> Arc<Queue> {
        let known = self
            .extra
            .borrow()
            .iter()
            .find(|(extra, _)| *extra == which)
            .cloned();
        if let Some((_, queue)) = known {
            return queue;
        }
        let wq = self.engine.workqueue("extra");
        let (wq, most) = match which {
            Extra::Grouped => (wq.group(&self.group), 1),
            Extra::PerCpu => (wq.per_cpu().max_active(1), 2),
            Extra::Bh => (wq.bh(), 2),
            Extra::Ordered => (wq.ordered(), 1),
            Extra::Bounded => (wq.max_active(1).max_waiting(1), 1),
            Extra::Workers => (wq.workers_only(), MANY),
            Extra::Nice => (wq.nice(NICE), MANY),
        };
        let lane = Lane::new(2 + which as usize, most, &self.facts);
        let keeps_order = which == Extra::Ordered;
        lane.keeps_order.store(keeps_order, Relaxed);
        let wq = wq.build().expect("legal attributes");
        let queue = Arc::new(Queue { wq, lane });
        self.extra.borrow_mut().push((which, queue.clone()));
        queue
    }

    /// The function of a one-shot item for this queue, and its number.
    pub(super) fn shot(&self, queue: &Queue) -> (ShotId, impl FnOnce() -> u64 + Send + 'static) {
        self.shot_of(&queue.lane, Does::Meets)
    }

    /// The same, of an item that does this.
    pub(super) fn shot_that(
        &self,
        queue: &Queue,
        does: Does,
    ) -> (ShotId, impl FnOnce() -> u64 + Send + 'static) {
        self.shot_of(&queue.lane, does)
    }

    fn shot_of(
        &self,
        lane: &Arc<Lane>,
        does: Does,
    ) -> (ShotId, impl FnOnce() -> u64 + Send + use<>) {
        let (facts, lane) = (self.facts.clone(), lane.clone());
        let id = facts.shoot(&lane);
        let run = move || {
            facts.begin(id);
            lane.within(|| match does {
                Does::Steps(steps) => (0..steps).for_each(|_| step()),
                Does::Meets => {
                    facts.meet(&lane);
                    step();
                }
                Does::Lingers => os::sleep(PAUSE),
            });
            facts.end(id);
            id.0 as u64
        };
        (id, run)
    }

    /// The same, for a queue that no other thread has.
    pub(super) fn shot_apart(&self) -> (ShotId, impl FnOnce() -> u64 + Send + 'static) {
        self.shot_of(&self.apart, Does::Meets)
    }

    /// The same, for `r` under a limit over all pools. It takes longer, so that others may come meanwhile.
    pub(super) fn shot_limited(&self) -> (ShotId, impl FnOnce() -> u64 + Send + 'static) {
        self.shot_of(&self.limited, Does::Steps(24))
    }

    /// What the number's item returns.
    pub(super) fn expect_value(&self, id: ShotId, value: u64) {
        let right = value == id.0 as u64;
        self.facts
            .expect(right, || "a result is another item's".into());
    }

    /// Queues an item in memory that its function frees.
    pub(super) fn queue_loose(&self, queue: &Queue) {
        let (id, run) = self.shot(queue);
        let loose = Box::new(Loose {
            raw: RawWork::new(run_loose),
            run: Some(Box::new(move || {
                run();
            })),
        });
        let at = NonNull::from(Box::leak(loose));
        // SAFETY: it is leaked, and nothing else refers to it: its function frees it, or the lines below.
        let accepted = unsafe { queue.wq.queue_raw(at.cast()) }.is_accepted();
        self.facts.accept(id, accepted);
        if !accepted {
            // SAFETY: it was refused: no function runs.
            drop(unsafe { Box::from_raw(at.as_ptr()) });
        }
    }

    fn accounts(&self) -> impl Iterator<Item = &Arc<Account>> {
        let floods = self.floods.get().into_iter().flat_map(|floods| {
            let own = floods.own.iter().flatten();
            own.chain([&floods.shared]).map(|(_, account)| account)
        });
        [&self.x.1, &self.y.1, &self.d.1, &self.field.1]
            .into_iter()
            .chain(floods)
    }

    /// All that was accepted is over.
    pub(super) fn is_settled(&self) -> bool {
        let is_settled = |account: &Arc<Account>| account.is_settled(&self.facts);
        self.facts.shots_settled() && self.accounts().all(is_settled)
    }

    /// No instance is left that has a reference of the value.
    pub(super) fn has_let_go(&self) -> bool {
        Arc::strong_count(&self.field.0) == 1
    }

    /// What was done before an item was queued was seen by its run.
    pub(super) fn has_seen(&self) -> bool {
        self.accounts().all(|account| account.has_seen())
    }

    /// What is not.
    pub(super) fn text(&self) -> String {
        let open = self.facts.open_shots();
        let texts: Vec<String> = (self.accounts().zip(["x", "y", "d", "field"]))
            .map(|(account, name)| format!("{name}: {}; ", account.text()))
            .collect();
        format!("{}{open} one-shot items", texts.concat())
    }

    /// A flush of the queue waits for these.
    pub(super) fn before_flush(&self, queue: &Queue) -> (Vec<ShotId>, [u64; 2]) {
        let accepted = [self.x.1.accepted(), self.y.1.accepted()];
        (self.facts.accepted_on(&queue.lane), accepted)
    }

    /// All items that the library has accepted so far.
    pub(super) fn all_accepted(&self, queue: &Queue) -> (Vec<ShotId>, [u64; 2]) {
        let accepted = [self.x.1.newest_accepted(), self.y.1.newest_accepted()];
        (self.facts.accepted_on(&queue.lane), accepted)
    }

    /// They are over.
    pub(super) fn after_flush(&self, before: &(Vec<ShotId>, [u64; 2]), what: &str) {
        let (shots, [x, y]) = before;
        self.facts.have_ended(shots, what);
        self.x.1.are_over(*x, &self.facts, what);
        self.y.1.are_over(*y, &self.facts, what);
    }
}

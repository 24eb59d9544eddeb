//! A reference of the kernel's protocol for unbound workqueues: what published figures can be compared with.
//!
//! Written from its documented behaviour. A pool is a worklist behind one spinlock; an enqueue puts
//! the item there and wakes the most recently idle worker, under the lock or (since 7.3) after it;
//! a worker that starts an item wakes the next one while more waits, and goes on until nothing
//! does. The picked worker stays on the idle list until it runs. Active items are counted for the
//! whole node, in one line that all pools write.

mod bench;
mod costs;

pub use bench::{Latencies, Measured, roundtrip};
pub use costs::{EngineCosts, Fitted, Model, Rows, fit};

use crate::pods::Pods;
use cmwq_vm::os::{self, access};
use cmwq_vm::{Access, Cpus, Line, SpinLock, Tid};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// When the enqueuer wakes the worker that it picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeOrder {
    /// Before 7.3.
    UnderTheLock,
    /// Since.
    AfterTheLock,
}

/// How the queue is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pods of its scope.
    pub pods: Pods,
    /// Workers never leave their pod.
    pub strict: bool,
    /// See [`WakeOrder`].
    pub wake: WakeOrder,
    /// What the engine's own instructions take.
    pub costs: EngineCosts,
}

/// A work item, with the completion that its function completes.
pub struct Item {
    line: Line,
    pending: Cell<bool>,
    function: Box<dyn Fn()>,
}

impl Item {
    /// An idle item.
    #[must_use]
    pub fn new(function: impl Fn() + 'static) -> Rc<Item> {
        Rc::new(Item {
            line: os::new_line(),
            pending: Cell::new(false),
            function: Box::new(function),
        })
    }
}

/// A one-shot event that one thread waits for.
pub struct Completion {
    line: Line,
    done: Cell<bool>,
    waiter: Cell<Option<Tid>>,
}

impl Completion {
    /// Not done.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it belongs to a machine")]
    pub fn new() -> Completion {
        Completion {
            line: os::new_line(),
            done: Cell::new(false),
            waiter: Cell::new(None),
        }
    }

    /// Not done again.
    pub fn reset(&self) {
        access(self.line, Access::Write);
        self.done.set(false);
    }

    /// Wakes the waiter.
    pub fn complete(&self) {
        access(self.line, Access::Update);
        self.done.set(true);
        if let Some(waiter) = self.waiter.take() {
            os::wake(waiter, None);
        }
    }

    /// Sleeps until it is done.
    pub fn wait(&self) {
        loop {
            access(self.line, Access::Update);
            if self.done.get() {
                return;
            }
            self.waiter.set(Some(os::current()));
            os::prepare_sleep();
            os::sleep_unless_woken();
        }
    }
}

struct Worker {
    tid: Tid,
    line: Line,
    /// Items that met another run of themselves in this pool.
    scheduled: RefCell<VecDeque<Rc<Item>>>,
}

struct Pool {
    cpus: Cpus,
    lock: SpinLock,
    /// The worklist and the idle list.
    lists: Line,
    /// The pool workqueue's counters.
    counters: Line,
    worklist: RefCell<VecDeque<Rc<Item>>>,
    /// The last is the most recently idle.
    idle: RefCell<Vec<Rc<Worker>>>,
    busy: RefCell<Vec<(*const Item, Rc<Worker>)>>,
    workers: Cell<usize>,
    managed: Cell<bool>,
    next_cpu: Cell<usize>,
}

/// One unbound workqueue and its pools.
pub struct Queue {
    settings: Settings,
    pools: Vec<Pool>,
    /// Active items of the node.
    active: Line,
    /// How often their number has changed, and compare-exchanges that failed for it.
    changes: Cell<u64>,
    retries: Cell<u64>,
}

impl Queue {
    /// Makes the queue with a worker in each pool. To be called on a virtual machine.
    #[must_use]
    pub fn new(settings: Settings) -> Rc<Queue> {
        let pools = settings.pods.pods.iter().map(|&cpus| Pool {
            cpus,
            lock: SpinLock::new(),
            lists: os::new_line(),
            counters: os::new_line(),
            worklist: RefCell::default(),
            idle: RefCell::default(),
            busy: RefCell::default(),
            workers: Cell::new(0),
            managed: Cell::new(false),
            next_cpu: Cell::new(0),
        });
        let queue = Rc::new(Queue {
            pools: pools.collect(),
            active: os::new_line(),
            changes: Cell::new(0),
            retries: Cell::new(0),
            settings,
        });
        for pool in 0..queue.pools.len() {
            queue.add_worker(pool);
        }
        queue
    }

    /// How many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.pools.iter().map(|pool| pool.workers.get()).sum()
    }

    /// How often a compare-exchange of the node's counter failed.
    #[must_use]
    pub fn retries(&self) -> u64 {
        self.retries.get()
    }

    /// What the pools' locks have cost, added up.
    #[must_use]
    pub fn locks(&self) -> cmwq_vm::LockTotals {
        self.pools
            .iter()
            .fold(cmwq_vm::LockTotals::default(), |sum, pool| {
                let one = pool.lock.totals();
                cmwq_vm::LockTotals {
                    taken: sum.taken + one.taken,
                    held_ns: sum.held_ns + one.held_ns,
                    waited_ns: sum.waited_ns + one.waited_ns,
                }
            })
    }

    /// Queues the item on the pool of the caller's CPU; `false`: it is pending.
    pub fn queue(&self, item: &Rc<Item>) -> bool {
        let costs = &self.settings.costs;
        os::work(costs.queue_ns);
        access(item.line, Access::Update);
        if item.pending.replace(true) {
            return false;
        }
        let pool = &self.pools[self.settings.pods.of_cpu[os::current_cpu()]];
        pool.lock.lock();
        access(pool.counters, Access::Write);
        self.count_active();
        access(pool.lists, Access::Write);
        os::work(costs.locked_ns);
        // The list's neighbour is an item too, of another issuer.
        let last = pool.worklist.borrow().back().map(|last| last.line);
        if let Some(last) = last {
            access(last, Access::Write);
        }
        pool.worklist.borrow_mut().push_back(item.clone());
        let picked = self.pick(pool);
        self.unlock_and_wake(pool, picked);
        true
    }

    /// Adds to the node's counter, which has a limit: a load, and compare-exchanges until no other
    /// CPU came between.
    fn count_active(&self) {
        access(self.active, Access::Read);
        let mut seen = self.changes.get();
        loop {
            os::work(self.settings.costs.retry_ns);
            access(self.active, Access::Update);
            let unchanged = seen == self.changes.get();
            seen = self.changes.get();
            if unchanged {
                break;
            }
            self.retries.set(self.retries.get() + 1);
        }
        self.changes.set(seen + 1);
    }

    /// Subtracts from it.
    fn count_inactive(&self) {
        access(self.active, Access::Update);
        self.changes.set(self.changes.get() + 1);
    }

    /// The most recently idle worker, if one is needed, and the CPU to which it is directed.
    fn pick(&self, pool: &Pool) -> Option<(Tid, Option<usize>)> {
        if pool.worklist.borrow().is_empty() {
            return None;
        }
        let worker = pool.idle.borrow().last().cloned()?;
        access(worker.line, Access::Read);
        let outside = !pool.cpus.contains(os::cpu_of(worker.tid));
        let hint = (outside && !self.settings.strict).then(|| {
            let cpu = pool.cpus.next_after(pool.next_cpu.get()).unwrap_or(0);
            pool.next_cpu.set(cpu);
            cpu
        });
        Some((worker.tid, hint))
    }

    fn unlock_and_wake(&self, pool: &Pool, picked: Option<(Tid, Option<usize>)>) {
        let early = self.settings.wake == WakeOrder::UnderTheLock;
        if let Some((tid, hint)) = picked.filter(|_| early) {
            os::wake(tid, hint);
        }
        pool.lock.unlock();
        if let Some((tid, hint)) = picked.filter(|_| !early) {
            os::wake(tid, hint);
        }
    }

    /// A new worker, which begins idle.
    fn add_worker(self: &Rc<Self>, at: usize) {
        let pool = &self.pools[at];
        let cpus = self.settings.strict.then_some(pool.cpus);
        let all: Cpus = (0..os::cpus()).collect();
        let number = pool.workers.get();
        pool.workers.set(number + 1);
        let queue = self.clone();
        let main = move || queue.work(at);
        os::spawn(
            &format!("kworker/u{at}:{number}"),
            Some(cpus.unwrap_or(all)),
            main,
        )
        .expect("memory for a stack");
    }

    /// The loop of a worker.
    fn work(self: &Rc<Self>, at: usize) {
        let pool = &self.pools[at];
        let me = Rc::new(Worker {
            tid: os::current(),
            line: os::new_line(),
            scheduled: RefCell::default(),
        });
        pool.lock.lock();
        loop {
            // What was put on the list before is seen here, under the lock.
            if pool.worklist.borrow().is_empty() {
                access(pool.lists, Access::Write);
                pool.idle.borrow_mut().push(me.clone());
                os::prepare_sleep();
                pool.lock.unlock();
                os::sleep_unless_woken();
                pool.lock.lock();
                access(pool.lists, Access::Write);
                access(me.line, Access::Write);
                pool.idle.borrow_mut().retain(|worker| worker.tid != me.tid);
                continue;
            }
            if pool.idle.borrow().is_empty() && !pool.managed.replace(true) {
                pool.lock.unlock();
                self.add_worker(at);
                pool.lock.lock();
                pool.managed.set(false);
                continue;
            }
            self.run_one(pool, &me);
        }
    }

    /// Runs the oldest item; entered and left with the lock held.
    fn run_one(&self, pool: &Pool, me: &Rc<Worker>) {
        access(pool.lists, Access::Write);
        let Some(item) = pool.worklist.borrow_mut().pop_front() else {
            return;
        };
        let runs_here = |(address, _): &&(*const Item, Rc<Worker>)| *address == Rc::as_ptr(&item);
        let collides = pool
            .busy
            .borrow()
            .iter()
            .find(runs_here)
            .map(|(_, worker)| worker.clone());
        if let Some(worker) = collides {
            access(worker.line, Access::Write);
            worker.scheduled.borrow_mut().push_back(item);
            return;
        }
        self.run(pool, me, item);
        loop {
            let next = me.scheduled.borrow_mut().pop_front();
            let Some(item) = next else { return };
            self.run(pool, me, item);
        }
    }

    fn run(&self, pool: &Pool, me: &Rc<Worker>, item: Rc<Item>) {
        let costs = &self.settings.costs;
        os::work(costs.locked_ns);
        pool.busy.borrow_mut().push((Rc::as_ptr(&item), me.clone()));
        let picked = self.pick(pool);
        access(item.line, Access::Update);
        item.pending.set(false);
        self.unlock_and_wake(pool, picked);
        os::work(costs.run_ns);
        (item.function)();
        pool.lock.lock();
        let address = Rc::as_ptr(&item);
        pool.busy
            .borrow_mut()
            .retain(|&(other, ref worker)| other != address || worker.tid != me.tid);
        access(pool.counters, Access::Write);
        self.count_inactive();
        os::work(costs.locked_ns);
    }
}

//! Reusable items of every make, and what their functions do: queue others and themselves, compute,
//! block with and without saying so, cancel themselves, panic.

use super::bodies::{block, compute, linger};
use super::broken::quiet_panic;
use super::embedded::Value;
use super::library::types::{FlushError, Moved, Queued, WorkqueueKind};
use super::library::{DelayedWork, Work};
use super::model::{Account, lock};
use super::os::lock_long;
use super::raw::RawCell;
use super::world::{Queue, World};
use super::{Broken, Random, os};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// What is done with an item besides queueing it. Not all is done with all: an item that is
/// disabled at times is owed no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing: so its issuer is owed a run that sees the flag.
    Plain,
    /// Cancelled and disabled.
    Work,
    /// Delayed: cancelled without waiting, moved.
    Moved,
    /// Delayed: cancelled and disabled, not moved.
    Delayed,
    /// Delayed, all of it.
    Any,
    /// In memory of our own: cancelled and disabled.
    Raw,
}

impl Class {
    pub(crate) fn of(n: usize) -> Class {
        [
            Class::Plain,
            Class::Plain,
            Class::Work,
            Class::Work,
            Class::Moved,
            Class::Delayed,
            Class::Any,
            Class::Raw,
            Class::Raw,
        ][n]
    }

    pub(crate) fn is_delayed(self) -> bool {
        matches!(self, Class::Moved | Class::Delayed | Class::Any)
    }

    pub(crate) fn may_be_disabled(self) -> bool {
        !matches!(self, Class::Plain | Class::Moved)
    }
}

/// A flag that a run must see.
#[derive(Clone, Copy)]
pub(crate) enum Owed {
    /// A flush of the queue waits for it.
    Accepted(u64),
    /// Another thread may still be queueing it, which only a flush of the item waits for.
    Pending(u64),
}

pub(super) enum Handle {
    Work(Work),
    Delayed(DelayedWork),
    Raw(Arc<RawCell>),
    Embedded(Arc<Value>),
}

pub(crate) struct Item {
    pub(crate) account: Arc<Account>,
    pub(crate) class: Class,
    pub(super) handle: Handle,
    /// How often it may still requeue itself.
    pub(crate) requeues: AtomicU64,
    /// Its runs last for up to so many us longer, so that what other threads do falls into them.
    pub(crate) lingers_us: AtomicU64,
    /// Its runs are short, most of them.
    pub(crate) is_brief: AtomicBool,
    /// On an ordered queue: the numbers of the instances that have not run.
    numbers: Mutex<VecDeque<u64>>,
}

/// Where an item's function finds everything.
struct Site {
    item: Weak<Item>,
    account: Arc<Account>,
    queue: Weak<Queue>,
    world: Weak<World>,
    freezable: bool,
    seed: u64,
    turn: AtomicU64,
}

impl Item {
    pub(crate) fn new(
        queue: Weak<Queue>,
        world: Weak<World>,
        freezable: bool,
        class: Class,
        embeds: bool,
        seed: u64,
    ) -> Arc<Item> {
        Arc::new_cyclic(|me| {
            let site = Site {
                item: me.clone(),
                account: Arc::default(),
                queue,
                world,
                freezable,
                seed,
                turn: AtomicU64::new(0),
            };
            let account = site.account.clone();
            let body = move || site.run();
            Item {
                account,
                class,
                handle: match class {
                    _ if embeds => Handle::Embedded(Value::new(class.is_delayed(), body)),
                    Class::Plain | Class::Work => Handle::Work(Work::new(body)),
                    Class::Raw => Handle::Raw(RawCell::new(body)),
                    _ => Handle::Delayed(DelayedWork::new(body)),
                },
                requeues: AtomicU64::new(0),
                lingers_us: AtomicU64::new(0),
                is_brief: AtomicBool::new(false),
                numbers: Mutex::default(),
            }
        })
    }

    /// `Some`: a run must come that sees this flag.
    pub(crate) fn queue(
        &self,
        queue: &Queue,
        cpu: Option<usize>,
        random: &mut Random,
    ) -> Option<Owed> {
        let mut ordered = self
            .is_numbered(queue)
            .then(|| lock_long(&queue.lanes[0].next));
        let flag = self.raise_flag();
        let node = cpu.and_then(|cpu| queue.node_for(cpu, flag));
        let accepted = match (&self.handle, cpu) {
            (Handle::Work(work), _) if node.is_some() => {
                let queued = node.map(|node| queue.wq.queue_on_node(node, work));
                queued.is_some_and(|queued| queued.expect("a node").is_accepted())
            }
            (Handle::Raw(cell), _) if node.is_some() => cell.queue_on_node(queue, node),
            (Handle::Embedded(value), cpu) => value.queue(&queue.wq, cpu, random).is_accepted(),
            (Handle::Work(work), None) => queue.wq.queue(work).is_accepted(),
            (Handle::Work(work), Some(cpu)) => {
                queue.wq.queue_on(cpu, work).expect("a CPU").is_accepted()
            }
            (Handle::Raw(cell), _) => cell.queue(queue),
            (Handle::Delayed(work), None) => {
                queue.wq.queue_delayed(work, delay(random)).is_accepted()
            }
            (Handle::Delayed(work), Some(cpu)) => queue
                .wq
                .queue_delayed_on(cpu, work, delay(random))
                .expect("a CPU")
                .is_accepted(),
        };
        self.was_queued(queue, flag, accepted, ordered.as_deref_mut())
    }

    /// What a run of an instance that is queued from now on must see.
    pub(crate) fn raise_flag(&self) -> u64 {
        self.account.flag.fetch_add(1, Relaxed) + 1
    }

    /// The item, if it is an ordinary one.
    pub(crate) fn ordinary(&self) -> Option<&Work> {
        match &self.handle {
            Handle::Work(work) => Some(work),
            _ => None,
        }
    }

    /// Takes down what became of an attempt to queue it. `next` is the number of the last instance
    /// on an ordered queue, locked since before it was queued. `Some`: a run must come that sees
    /// this flag.
    pub(crate) fn was_queued(
        &self,
        queue: &Queue,
        flag: u64,
        accepted: bool,
        next: Option<&mut u64>,
    ) -> Option<Owed> {
        let account = &self.account;
        account.accept(accepted);
        if let Some(next) = next.filter(|_| self.is_numbered(queue)) {
            *next += 1;
            if accepted {
                lock(&self.numbers).push_back(*next);
            }
        }
        if self.class != Class::Plain {
            return None;
        }
        let owed = match accepted {
            true => Owed::Accepted(flag),
            // That run sees the flag too, unless it was dropped.
            false if !queue.drains => Owed::Pending(flag),
            false => return None,
        };
        account.owed.fetch_max(flag, Relaxed);
        Some(owed)
    }

    /// Whether its runs are checked for their order among the one-shot items: all that are queued
    /// in one way only.
    fn is_numbered(&self, queue: &Queue) -> bool {
        queue.kind == WorkqueueKind::Ordered && self.class == Class::Plain
    }

    fn expect_its_turn(&self, queue: &Queue, broken: &Broken) {
        if !self.is_numbered(queue) {
            return;
        }
        let lane = &queue.lanes[0];
        // The number of this instance is noted when the lane is free.
        drop(lock_long(&lane.next));
        let number = lock(&self.numbers).pop_front().unwrap_or(0);
        let before = lane.last.swap(number, Relaxed);
        broken.expect(before < number, || {
            format!(
                "{}: an item, number {number}, ran after {before}",
                queue.name
            )
        });
    }

    /// Moves a delayed item.
    pub(crate) fn move_it(
        &self,
        queue: &Queue,
        cpu: Option<usize>,
        random: &mut Random,
        broken: &Broken,
    ) {
        let moved = match (&self.handle, cpu) {
            (Handle::Delayed(work), None) => queue.wq.mod_delayed(work, delay(random)),
            (Handle::Delayed(work), Some(cpu)) => queue
                .wq
                .mod_delayed_on(cpu, work, delay(random))
                .expect("a CPU"),
            (Handle::Embedded(value), _) => match value.move_it(&queue.wq, random) {
                Some(moved) => moved,
                None => return,
            },
            _ => return,
        };
        match moved {
            // One instance went, one came.
            Moved::Pending => {}
            Moved::Accepted => self.account.accept(true),
            Moved::Disabled => {
                let may_be = self.class.may_be_disabled();
                broken.expect(may_be, || {
                    format!("{}: not disabled by anybody", queue.name)
                });
            }
            Moved::Refused { was_pending, .. } => {
                broken.expect(queue.drains, || {
                    format!("{}: refused without a drain", queue.name)
                });
                self.account.remove(was_pending);
            }
        }
    }

    pub(crate) fn cancel(&self) {
        let removed = match &self.handle {
            Handle::Work(work) => work.cancel(),
            Handle::Delayed(work) => work.cancel(),
            Handle::Raw(cell) => cell.unlend(cell.raw.cancel()),
            Handle::Embedded(value) => value.cancel(),
        };
        self.account.remove(removed);
    }

    pub(crate) fn cancel_sync(&self, broken: &Broken) {
        let run = self.account.present_run();
        let removed = match &self.handle {
            Handle::Work(work) => work.cancel_sync(),
            Handle::Delayed(work) => work.cancel_sync(),
            Handle::Raw(cell) => cell.unlend(cell.raw.cancel_sync()),
            Handle::Embedded(value) => value.cancel_sync(),
        };
        self.account.remove(removed);
        broken.expect(self.account.runs() >= run, || {
            format!("{:?}: a cancel that waits has left run {run}", self.class)
        });
    }

    pub(crate) fn flush(&self) {
        let flushed = match &self.handle {
            Handle::Work(work) => work.flush(),
            Handle::Delayed(work) => work.flush(),
            Handle::Raw(cell) => cell.raw.flush(),
            Handle::Embedded(value) => value.flush(),
        };
        flushed.expect("not from the item itself");
    }

    /// Flushes it, but waits no longer than so.
    pub(crate) fn flush_for(&self, timeout: Duration) {
        let flushed = match &self.handle {
            Handle::Work(work) => work.flush_timeout(timeout),
            Handle::Delayed(work) => work.flush_timeout(timeout),
            Handle::Raw(cell) => cell.raw.flush_timeout(timeout),
            Handle::Embedded(value) => value.flush_timeout(timeout),
        };
        let expected = matches!(flushed, Ok(_) | Err(FlushError::TimedOut));
        assert!(expected, "not from the item itself: {flushed:?}");
    }

    /// In a fork's child: the item is its parent's, whatever its state was. Nothing is accepted,
    /// nothing runs, and no call waits for what is not here.
    pub(crate) fn check_in_child(&self, queue: &Queue, random: &mut Random) {
        let queued = match &self.handle {
            Handle::Work(work) => queue.wq.queue(work),
            Handle::Delayed(work) => queue.wq.queue_delayed(work, delay(random)),
            Handle::Raw(cell) => {
                // SAFETY: as in `RawCell::queue`.
                let queued = unsafe { queue.wq.queue_raw(cell.lend()) };
                cell.unlend(queued != Queued::Accepted);
                queued
            }
            Handle::Embedded(value) => value.queue(&queue.wq, None, random),
        };
        assert!(!queued.is_accepted(), "a fork's child accepts an item");
        if let Handle::Delayed(work) = &self.handle {
            let moved = queue.wq.mod_delayed(work, delay(random));
            let is_refused = matches!(moved, Moved::Refused { .. } | Moved::Disabled);
            assert!(is_refused, "a fork's child moves an item: {moved:?}");
        }
        if let Handle::Embedded(value) = &self.handle {
            let moved = value.move_it(&queue.wq, random);
            let is_refused = matches!(moved, None | Some(Moved::Refused { .. } | Moved::Disabled));
            assert!(is_refused, "a fork's child moves an item: {moved:?}");
        }
        let (flushed, removed, busy) = match &self.handle {
            Handle::Work(work) => (work.flush(), work.cancel_sync(), work.busy()),
            Handle::Delayed(work) => {
                // An armed timer may be stopped.
                work.cancel_sync();
                (work.flush(), false, work.busy())
            }
            Handle::Raw(cell) => (cell.raw.flush(), cell.raw.cancel_sync(), cell.raw.busy()),
            Handle::Embedded(value) => {
                // As above.
                let removed = value.cancel_sync() && !self.class.is_delayed();
                (value.flush(), removed, value.busy())
            }
        };
        let is_known = matches!(flushed, Ok(_) | Err(FlushError::Forked));
        assert!(is_known, "a flush in a fork's child: {flushed:?}");
        assert!(!removed, "a fork's child removes its parent's item");
        assert!(!busy.running, "its parent's item runs in a fork's child");
        match &self.handle {
            Handle::Work(work) => drop(work.disable_sync()),
            Handle::Delayed(work) => drop(work.disable_sync()),
            Handle::Raw(cell) => {
                cell.raw.disable_sync();
                cell.raw.enable_work();
            }
            Handle::Embedded(value) => drop(value.disable(true)),
        }
    }

    /// When it is neither pending nor runs.
    pub(crate) fn check_value(&self, queue: &Queue, broken: &Broken) {
        let (name, class, account) = (&queue.name, self.class, &self.account);
        let whose = || format!("{name}, {class:?}, {}", account.describe());
        if let Handle::Embedded(value) = &self.handle {
            let may_be_armed = account.lossy.load(Relaxed);
            value.check(may_be_armed, broken, whose);
        }
    }

    pub(crate) fn look(&self) {
        match &self.handle {
            Handle::Work(work) => drop((work.busy(), work.is_pending())),
            Handle::Delayed(work) => drop((work.busy(), work.is_pending(), work.time_left())),
            Handle::Raw(cell) => drop((cell.raw.busy(), cell.raw.is_pending())),
            Handle::Embedded(value) => value.look(),
        }
    }
}

pub(super) fn delay(random: &mut Random) -> Duration {
    match random.below(4) {
        0 => Duration::ZERO,
        _ => Duration::from_micros(random.below(4000) as u64),
    }
}

impl Site {
    fn run(&self) {
        let turn = self.turn.fetch_add(1, Relaxed);
        let mut random = Random::new(self.seed ^ turn);
        let world = self.world.upgrade();
        let without = Broken::default();
        let broken = world.as_ref().map_or(&without, |world| &world.broken);
        self.account.begin(broken);
        let mut panics = random.one_in(32);
        if let Some(world) = &world {
            if self.freezable {
                world.freezable_starts.fetch_add(1, SeqCst);
            }
            // Neither is there when the queue is being destroyed.
            match (self.queue.upgrade(), self.item.upgrade()) {
                (Some(queue), Some(item)) => {
                    item.work(&queue, world, &mut random);
                    if !queue.may_block() {
                        // The last holder of a queue waits for its end.
                        world.bury(queue);
                    }
                }
                _ => panics = false,
            }
        }
        self.account.end();
        if panics {
            quiet_panic();
        }
    }
}

impl Item {
    fn work(&self, queue: &Arc<Queue>, world: &Arc<World>, random: &mut Random) {
        let _does = queue.runners.enter(&world.broken, &queue.name);
        let what = || queue.name.clone();
        let counted = queue.room.enter(&world.broken, queue.most_active, what);
        let grouped = queue.grouped.as_ref().map(|all| all.enter(&world.broken));
        self.expect_its_turn(queue, &world.broken);
        if self.is_brief.load(Relaxed) {
            // Undeclared: a batch stays open.
            let ns = [0, 100, 100, 100, 100, 100, 3_000, 20_000][random.below(8)];
            return os::compute(ns);
        }
        compute(random);
        if queue.may_block() {
            block(world, random);
            linger(self.lingers_us.load(Relaxed), random);
        }
        let ends = world.ends.load(Relaxed);
        if !ends && random.one_in(8) {
            let other = &queue.items[random.below(queue.items.len())];
            let cpu = random.one_in(2).then(|| world.some_cpu(random));
            other.queue(queue, cpu, random);
        }
        if !ends && random.one_in(16) {
            let other = world.some_queue(random);
            other.items[random.below(other.items.len())].queue(&other, None, random);
            if !queue.may_block() {
                world.bury(other);
            }
        }
        let once_less = |n: u64| n.checked_sub(1);
        if self
            .requeues
            .fetch_update(Relaxed, Relaxed, once_less)
            .is_ok()
        {
            self.queue(queue, None, random);
        }
        if self.class != Class::Plain && random.one_in(32) {
            // Its next instance, if there is one.
            self.cancel();
        }
        drop((counted, grouped));
    }
}

//! A block load on the reference engine.
#![forbid(unsafe_code)]

use crate::kernel::{Completion, Item, Model, Queue, Settings, WakeOrder};
use crate::pods::Scope;
use cmwq_vm::machine::{Machine, OTHER_PACKAGE, SAME_PACKAGE};
use cmwq_vm::os::{self, Totals};
use cmwq_vm::{Cpus, Stuck, Tid};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// A block load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) jobs: usize,
    /// Blocks that each has in flight.
    pub(super) depth: usize,
    pub(super) block: u64,
    /// Percent.
    pub(super) reads: u64,
    /// What an item computes for a block, alone on a core.
    pub(super) cipher_ns: u64,
    /// What a job does for each block: it submits and verifies it.
    pub(super) job_ns: u64,
    /// Cache lines of a block that a job on another cache than the item's waits for, one after the other.
    pub(super) lines: u64,
    pub(super) device: Option<Device>,
}

/// A device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    pub(super) read_ns: u64,
    pub(super) write_ns: u64,
    /// Between two blocks, at full rate.
    pub(super) each_read_ns: u64,
    /// See `each_read_ns`.
    pub(super) each_write_ns: u64,
}

/// Of the last part of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) read_mib_per_s: f64,
    pub(super) mib_per_s: f64,
    pub(super) cpu_percent: f64,
}

const WARM_UP_NS: u64 = 40_000_000;
const MEASURED_NS: u64 = 160_000_000;
/// Runs of each row, with one seed after the other: the row has their mean.
const SEEDS: u64 = 3;
/// A run that takes longer hangs.
const LIMIT_NS: u64 = 20_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

/// The blocks of one job that the device has, in one direction: they end in the order in which they came.
struct Line {
    waiting: RefCell<VecDeque<(u64, Rc<Slot>)>>,
    tid: Cell<Option<Tid>>,
}

struct Shared {
    load: Load,
    queue: Rc<Queue>,
    /// When the device is free for the next block.
    device_free: Cell<u64>,
    done: Cell<[u64; 2]>,
    stop: Cell<bool>,
    running: Cell<usize>,
    ended: Completion,
}

/// A block in flight.
struct Slot {
    direction: Cell<Direction>,
    done: Completion,
    item: RefCell<Option<Rc<Item>>>,
    /// Where its item ran.
    cpu: Cell<usize>,
}

/// Hands a block over to the device.
fn submit(shared: &Shared, lines: &[Rc<Line>; 2], slot: &Rc<Slot>) {
    let direction = slot.direction.get();
    let Some(device) = shared.load.device else {
        return;
    };
    let (latency, each) = match direction {
        Direction::Read => (device.read_ns, device.each_read_ns),
        Direction::Write => (device.write_ns, device.each_write_ns),
    };
    let now = os::observe_ns();
    let free = shared.device_free.get().max(now) + each;
    shared.device_free.set(free);
    let line = &lines[direction as usize];
    let due = free.max(now + latency);
    line.waiting.borrow_mut().push_back((due, slot.clone()));
    if let Some(tid) = line.tid.get() {
        os::wake(tid, None);
    }
}

/// The thread in place of the device's interrupts.
fn interrupts(shared: &Rc<Shared>, line: &Rc<Line>) {
    line.tid.set(Some(os::current()));
    while !shared.stop.get() || shared.running.get() > 0 {
        let first = line.waiting.borrow().front().map(|(due, _)| *due);
        let Some(due) = first else {
            os::prepare_sleep();
            os::sleep_unless_woken();
            continue;
        };
        let now = os::observe_ns();
        if due > now {
            // A block that is submitted meanwhile ends later.
            os::sleep(Duration::from_nanos(due - now));
            continue;
        }
        let Some((_, slot)) = line.waiting.borrow_mut().pop_front() else {
            continue;
        };
        match slot.direction.get() {
            Direction::Read => queue(shared, &slot),
            Direction::Write => slot.done.complete(),
        }
    }
}

fn queue(shared: &Shared, slot: &Slot) {
    if let Some(item) = &*slot.item.borrow() {
        let _ = shared.queue.queue(item);
    }
}

/// A job's life.
fn job(shared: &Rc<Shared>, machine: &Machine, lines: &[Rc<Line>; 2]) {
    let load = shared.load;
    let slots: Vec<Rc<Slot>> = (0..load.depth)
        .map(|_| {
            let slot = Rc::new(Slot {
                direction: Cell::new(Direction::Read),
                done: Completion::new(),
                item: RefCell::new(None),
                cpu: Cell::new(0),
            });
            let (at, of_item, lines) = (Rc::downgrade(&slot), shared.clone(), lines.clone());
            let item = Item::new(move || {
                let Some(slot) = at.upgrade() else { return };
                os::work(load.cipher_ns);
                slot.cpu.set(os::current_cpu());
                match (slot.direction.get(), load.device) {
                    (Direction::Write, Some(_)) => submit(&of_item, &lines, &slot),
                    _ => slot.done.complete(),
                }
            });
            slot.item.replace(Some(item));
            slot
        })
        .collect();
    for number in 0.. {
        let slot = &slots[number % load.depth];
        if number >= load.depth {
            finish(shared, machine, slot);
            if shared.stop.get() {
                // All but this one are in flight.
                for other in slots.iter().filter(|other| !Rc::ptr_eq(other, slot)) {
                    other.done.wait();
                }
                break;
            }
        }
        let is_read = os::random(100) < load.reads;
        slot.direction.set(if is_read {
            Direction::Read
        } else {
            Direction::Write
        });
        slot.done.reset();
        match (slot.direction.get(), load.device) {
            (Direction::Read, Some(_)) => submit(shared, lines, slot),
            _ => queue(shared, slot),
        }
    }
    shared.running.set(shared.running.get() - 1);
    for line in lines {
        if let Some(tid) = line.tid.get() {
            os::wake(tid, None);
        }
    }
    if shared.running.get() == 0 {
        shared.ended.complete();
    }
}

/// Waits for a block, and does with it what a job does.
fn finish(shared: &Shared, machine: &Machine, slot: &Slot) {
    slot.done.wait();
    let (here, there) = (
        machine.cpus[os::current_cpu()],
        machine.cpus[slot.cpu.get()],
    );
    let far = match () {
        () if here.llc == there.llc => 0,
        () if here.package == there.package => machine.costs.transfer_ns[SAME_PACKAGE],
        () => machine.costs.transfer_ns[OTHER_PACKAGE],
    };
    os::work(shared.load.job_ns + shared.load.lines * far);
    let mut done = shared.done.get();
    done[slot.direction.get() as usize] += 1;
    shared.done.set(done);
}

/// Runs a load in a scope, several times.
pub(super) fn run(
    machine: &Machine,
    scope: Scope,
    strict: bool,
    load: Load,
    seed: u64,
) -> Result<Rates, Stuck> {
    let mut sum = Rates::default();
    for seed in seed..seed + SEEDS {
        let one = run_once(machine, scope, strict, load, seed)?;
        sum.read_mib_per_s += one.read_mib_per_s / SEEDS as f64;
        sum.mib_per_s += one.mib_per_s / SEEDS as f64;
        sum.cpu_percent += one.cpu_percent / SEEDS as f64;
    }
    Ok(sum)
}

fn run_once(
    machine: &Machine,
    scope: Scope,
    strict: bool,
    load: Load,
    seed: u64,
) -> Result<Rates, Stuck> {
    let settings = Settings {
        pods: scope.pods(machine),
        strict,
        wake: WakeOrder::UnderTheLock,
        costs: Model::of(machine).default_costs(),
    };
    let mut machine = machine.clone();
    machine.costs.kept_ppt = settings.costs.kept_ppt;
    let (result, of_machine) = (Rc::new(Cell::new(None)), machine.clone());
    let place = result.clone();
    let main = move || {
        let cpus: Cpus = (0..of_machine.cpus.len()).collect();
        let shared = Rc::new(Shared {
            load,
            queue: Queue::new(settings),
            device_free: Cell::new(0),
            done: Cell::new([0; 2]),
            stop: Cell::new(false),
            running: Cell::new(load.jobs),
            ended: Completion::new(),
        });
        for number in 0..load.jobs {
            let lines: [Rc<Line>; 2] = std::array::from_fn(|_| {
                Rc::new(Line {
                    waiting: RefCell::default(),
                    tid: Cell::new(None),
                })
            });
            let some = if load.device.is_some() {
                &lines[..]
            } else {
                &[]
            };
            for line in some {
                let (shared, line) = (shared.clone(), line.clone());
                let main = move || interrupts(&shared, &line);
                os::spawn(&format!("irq{number}"), Some(cpus), main).expect("memory for a stack");
            }
            let (shared, machine) = (shared.clone(), of_machine.clone());
            let main = move || job(&shared, &machine, &lines);
            os::spawn(&format!("job{number}"), Some(cpus), main).expect("memory for a stack");
        }
        let mark = || (os::observe_ns(), shared.done.get(), os::totals());
        os::sleep(Duration::from_nanos(WARM_UP_NS));
        let before: (u64, [u64; 2], Totals) = mark();
        os::sleep(Duration::from_nanos(MEASURED_NS));
        let after = mark();
        shared.stop.set(true);
        shared.ended.wait();
        let seconds = (after.0 - before.0) as f64 / 1e9;
        let rate = |at: usize| {
            let blocks = after.1[at] - before.1[at];
            (blocks * load.block) as f64 / seconds / f64::from(1 << 20)
        };
        let busy = after.2.since(&before.2).busy_ns as f64 / 1e9;
        place.set(Some(Rates {
            read_mib_per_s: rate(0),
            mib_per_s: rate(0) + rate(1),
            cpu_percent: 100.0 * busy / seconds / of_machine.cpus.len() as f64,
        }));
    };
    cmwq_vm::run(&machine, seed, LIMIT_NS, main)?;
    Ok(result.get().expect("the main thread leaves its result"))
}

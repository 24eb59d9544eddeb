//! Small programs: one operation a thread.

use super::facts::{something_ends, when_something_ends};
use super::operation::{Operation, Subject};
use super::snapshot::{Server, Told};
use super::table::OPERATIONS;
use super::world::{Facts, World};
use crate::explore::program::{draw_weak, machine};
use cmwq_simulated::topology::Topology;
use cmwq_vm::machine::Costs;
use cmwq_vm::{Faults, Stuck, WeakMemory, os};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// No thread is able to run for so long though something waits that may begin. Items that a thread
/// has put into its own caller slot come with one of the monitor's ticks.
const STILL_NS: u64 = 200_000;
/// What was accepted is over so long after all threads have done their operations.
const REST_NS: u64 = 2_000_000_000;
/// A run has no more virtual time.
const LIMIT_NS: u64 = 120_000_000_000;

/// Polls of a thread that spins.
const POLLS: u32 = 8;
/// Threads of a run; a program has some ten.
const STACKS: usize = 64;

/// A small program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Program {
    /// Places in [`OPERATIONS`].
    ops: Vec<usize>,
}

fn operation(at: usize) -> &'static Operation {
    &OPERATIONS[at]
}

impl Program {
    /// Every pair of operations; then every triple of those that act on one thing.
    pub fn all() -> impl Iterator<Item = Program> {
        Program::pairs().chain(Program::triples())
    }

    /// Every pair: each operation twice, then with the next one, and so on, so that the first pairs
    /// have all operations.
    pub fn pairs() -> impl Iterator<Item = Program> {
        let count = OPERATIONS.len();
        (0..count).flat_map(move |apart| {
            (0..count - apart).map(move |one| Program {
                ops: vec![one, one + apart],
            })
        })
    }

    /// Every triple of operations that all act on the same item, queue or pools.
    pub fn triples() -> impl Iterator<Item = Program> {
        let count = OPERATIONS.len();
        let triples = (0..count).flat_map(move |a| {
            (a..count).flat_map(move |b| (b..count).map(move |c| vec![a, b, c]))
        });
        triples.map(|ops| Program { ops }).filter(|program| {
            let mut subjects = operation(program.ops[0]).on.iter();
            subjects.any(|subject| program.all_act_on(*subject))
        })
    }

    fn all_act_on(&self, subject: Subject) -> bool {
        self.ops
            .iter()
            .all(|&op| operation(op).on.contains(&subject))
    }

    /// The program of this name.
    ///
    /// # Errors
    /// There is no such operation.
    pub fn named(name: &str) -> Result<Program, String> {
        let place = |name: &str| {
            let at = OPERATIONS.iter().position(|op| op.name == name);
            at.ok_or_else(|| format!("no operation {name:?}; --operations prints all"))
        };
        let ops: Result<Vec<usize>, String> = name.split('+').map(place).collect();
        let ops = ops?;
        match ops.len() {
            1..=3 => Ok(Program { ops }),
            _ => Err(format!("{name:?}: a program has at most three operations")),
        }
    }

    /// Its operations' names.
    #[must_use]
    pub fn name(&self) -> String {
        let names: Vec<&str> = self.ops.iter().map(|&op| operation(op).name).collect();
        names.join("+")
    }

    /// Two pods where pools are what matters, of two CPUs if CPUs are, too; one pod of two CPUs otherwise.
    fn shape(&self) -> [usize; 5] {
        let one_acts_on = |subject| {
            let mut ops = self.ops.iter();
            ops.any(|&op| operation(op).on.contains(&subject))
        };
        if one_acts_on(Subject::Pods) {
            [1, 1, 2, 2, 1]
        } else if one_acts_on(Subject::Pool) {
            [1, 1, 2, 1, 1]
        } else {
            [1, 1, 1, 2, 1]
        }
    }

    /// Sets up its machine and serves runs; returns why it could not.
    pub(super) fn hold(&self, server: Server) -> String {
        let costs = Costs {
            // A thread that spins gives up after one round of polls.
            pause_ns: 20_000 / u64::from(POLLS),
            ..Costs::default()
        };
        let machine = machine(self.shape(), costs);
        // This process runs no other one.
        cmwq_vm::machine::limit_cpus(machine.cpus.len());
        // A run must map no memory.
        cmwq_vm::prepare_stacks(STACKS);
        let tells = server.told();
        std::panic::set_hook(Box::new(move |info| tells.panics(&info.to_string())));
        let told: Rc<Cell<Option<Told>>> = Rc::default();
        let (main, facts) = (self.main(server, told.clone()), Arc::new(Facts::default()));
        let known = facts.clone();
        let run = || cmwq_vm::run(&machine, 1, LIMIT_NS, move || main(&known));
        let result = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(outcome)) => Ok(outcome.log_hash),
            Ok(Err(Stuck::Deadlock(names))) => Err(format!("all sleep: {}", names.join(", "))),
            Ok(Err(Stuck::TooLong | Stuck::TooManyOperations)) => Err("no end".to_owned()),
            Err(panic) => Err(message(&*panic)),
        };
        // What broke first says more than what became of it.
        let result = match facts.broken() {
            Some(broken) => Err(broken),
            None => result,
        };
        match told.get() {
            Some(told) => told.ends(result),
            None => result
                .err()
                .unwrap_or_else(|| "it was not served".to_owned()),
        }
    }

    fn main(
        &self,
        server: Server,
        told: Rc<Cell<Option<Told>>>,
    ) -> impl FnOnce(&Arc<Facts>) + use<> {
        let (ops, shape) = (self.ops.clone(), self.shape());
        move |facts| {
            os::merge_pauses();
            os::limit_polls(POLLS);
            cmwq_simulated::observe::set_warning_handler(|_| {});
            cmwq_simulated::observe::set_report_handler(|_| {});
            let described = crate::explore::program::description(shape);
            let topology = Topology::from_synthetic(&described).expect("a valid description");
            let world = Rc::new(World::new(topology, facts));
            let threads = Threads::start(&ops, &world);
            // Workers find their spins in vain, and sleep.
            os::sleep(Duration::from_millis(1));
            let (order, tells) = server.serve();
            told.set(Some(tells));
            cmwq_vm::reseed(order.seed);
            if order.weak != 0 {
                cmwq_vm::set_weak_memory(weak(order.seed));
            }
            match order.plan() {
                Some(plan) => {
                    let passed_over = tells.passed_over();
                    cmwq_vm::steer(plan, order.seed, order.most);
                    cmwq_vm::pass_over(&passed_over);
                    if order.learn != 0 {
                        cmwq_vm::learn_sharing();
                    }
                }
                None => disturb(order.seed),
            }
            watch(facts, &threads);
            threads.end_steps(&world);
            threads.go();
            settle(&world);
            if order.plan().is_some() {
                tells.steered(&cmwq_vm::end_steering());
            }
            finish(world, facts);
        }
    }
}

/// A small program has few loads, and is over soon: many of them return older values, and for all the time.
fn weak(seed: u64) -> WeakMemory {
    let drawn = draw_weak(seed);
    WeakMemory {
        stale_ppm: drawn.stale_ppm.max(200_000),
        late_ns: drawn.late_ns.max(100_000),
        ..drawn
    }
}

/// What a panic says.
pub(super) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

/// The threads of the program, which wait for each other before they begin.
#[derive(Clone)]
struct Threads {
    all: Rc<RefCell<Vec<cmwq_vm::Tid>>>,
    goes: Rc<Cell<bool>>,
    ready: Rc<Cell<usize>>,
    done: Rc<Cell<usize>>,
}

fn sleep_until(holds: impl Fn() -> bool) {
    loop {
        os::prepare_sleep();
        if holds() {
            return;
        }
        os::sleep_unless_woken();
    }
}

impl Threads {
    fn start(ops: &[usize], world: &Rc<World>) -> Threads {
        let threads = Threads {
            all: Rc::default(),
            goes: Rc::default(),
            ready: Rc::default(),
            done: Rc::default(),
        };
        for (at, &op) in ops.iter().enumerate() {
            let (world, own, waiter) = (world.clone(), threads.clone(), os::current());
            let main = move || {
                (operation(op).before)(&world);
                own.ready.set(own.ready.get() + 1);
                os::wake(waiter, None);
                sleep_until(|| own.goes.get());
                (operation(op).run)(&world);
                own.done.set(own.done.get() + 1);
                something_ends();
                drop(world);
                os::wake(waiter, None);
            };
            let tid = os::spawn(&format!("thread{at}"), None, main).expect("memory for a stack");
            threads.all.borrow_mut().push(tid);
            sleep_until(|| threads.ready.get() > at);
        }
        threads
    }

    /// They have begun, and not all have ended.
    fn are_in_operations(&self) -> bool {
        self.goes.get() && self.done.get() < self.all.borrow().len()
    }

    /// When they and all items have ended, nothing that comes matters.
    fn end_steps(&self, world: &Rc<World>) {
        let (own, world) = (self.clone(), Rc::downgrade(world));
        when_something_ends(move || {
            let is_done = own.done.get() == own.all.borrow().len();
            if is_done && world.upgrade().is_some_and(|world| world.is_settled()) {
                cmwq_vm::end_of_steps();
            }
        });
    }

    /// They begin; returns when they have ended.
    fn go(&self) {
        self.goes.set(true);
        let all = self.all.borrow();
        all.iter().for_each(|&thread| os::wake(thread, None));
        sleep_until(|| self.done.get() == all.len());
    }
}

/// What was accepted ends by itself.
fn settle(world: &World) {
    let end = os::observe_ns() + REST_NS;
    while !world.is_settled() {
        if os::observe_ns() > end {
            panic!("not over after two seconds of rest: {}", world.text());
        }
        os::sleep(Duration::from_micros(50));
    }
}

/// The queues and the engine go, by costs.
fn finish(world: Rc<World>, facts: &Facts) {
    world.q.wq.flush().expect("not from an item");
    world.r.wq.flush().expect("not from an item");
    facts.expect(world.is_settled(), || {
        format!("after a flush: {}", world.text())
    });
    facts.expect(world.has_seen(), || {
        "an item has not seen what was done before it was queued".into()
    });
    facts.expect(world.has_let_go(), || {
        "an item that is over has kept a reference of its value".into()
    });
    let engine = world.engine.clone();
    let world = Rc::into_inner(world).expect("the program's threads have ended");
    drop(world);
    let end = os::observe_ns() + REST_NS;
    while engine.stats().pools > 0 || engine.stats().workers > 0 {
        if os::observe_ns() > end {
            panic!("pools or workers are left: {:?}", engine.stats());
        }
        os::sleep(Duration::from_millis(1));
    }
    if let Some(broken) = facts.broken() {
        panic!("{broken}");
    }
}

/// Ends a run that has broken a promise, or in which nothing is done though something waits.
fn watch(facts: &Arc<Facts>, threads: &Threads) {
    let (facts, threads) = (facts.clone(), threads.clone());
    cmwq_vm::watch_standstills(move |ns| {
        if let Some(broken) = facts.broken() {
            panic!("{broken}");
        }
        if ns > STILL_NS && facts.waits() {
            panic!(
                "an item waits while all threads have slept for {} us",
                ns / 1_000
            );
        }
        // Its sleeps are shorter: what it waits for is over, or will not be.
        if ns > STILL_NS && threads.are_in_operations() {
            panic!(
                "a thread of the program waits while all threads have slept for {} us",
                ns / 1_000
            );
        }
    });
}

/// Without a plan the schedule follows from costs, and from what disturbs them.
fn disturb(seed: u64) {
    let mut random = cmwq_vm::Random::new(seed ^ 0x00d1_57b0);
    let mut draw = |from: [u32; 4]| from[random.below(4) as usize];
    let mut faults = Faults {
        delay_ppm: draw([0, 2_000, 20_000, 100_000]),
        delay_ns: u64::from(draw([300, 3_000, 30_000, 1_000_000])),
        preempt_ppm: draw([0, 1_000, 20_000, 100_000]),
        step_ppm: draw([0, 0, 10_000, 50_000]),
        step_ns: u64::from(draw([10_000, 100_000, 300_000, 1_000_000])),
        ..Faults::default()
    };
    faults.step_choice = random.bits();
    cmwq_vm::set_faults(faults);
}

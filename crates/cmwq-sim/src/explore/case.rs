//! One program on one machine: it runs, and the oracles check it.

use super::Scheduler;
use super::os;
use super::program::{Op, Program};
use super::programs::{
    BeforeFork, Issuer, Known, Ledger, Random, Settings, Shots, World, built, lock,
};
use cmwq_simulated::topology::Topology;
use cmwq_simulated::types::WorkqueueAttrs;
use cmwq_simulated::{Engine, JoinError};
use cmwq_vm::{Cpus, Faults, Forked, Plan, Stuck, WeakMemory};
use std::any::Any;
use std::io::{PipeWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MINUTE_NS: u64 = 60_000_000_000;

/// Virtual minutes after which a run is one that hangs. Where threads are refused each worker takes
/// some seconds, and a program of drains an hour.
fn limit_minutes(program: &Program) -> u64 {
    match program.faults.refuse_ppm {
        0 => 20,
        _ => 120,
    }
}

/// Host time after which the child of a fork is one that hangs.
const CHILD_SECONDS: u32 = 30;
/// How long what was accepted may take at the end, when no thread touches the engine any more.
const REST: Duration = Duration::from_secs(120);

/// How the threads that go with an engine are called. The timers' thread stays.
const ENGINE_THREADS: [&str; 5] = [
    "kworker",
    "cmwq-service",
    "cmwq-creator",
    "cmwq-reporter",
    "cmwq-destroy",
];

/// How a run ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Of all that happened.
    pub log_hash: u64,
    /// Visible operations.
    pub operations: u64,
    /// Those of each thread, in the order of creation, while the program ran.
    pub by_thread: Vec<u64>,
}

/// Runs a program under a schedule.
///
/// # Errors
/// What promise was broken.
pub(super) fn run(
    program: &Program,
    topology: Topology,
    schedule: u64,
    scheduler: Scheduler,
    lengths: Vec<u64>,
) -> Result<Passed, String> {
    let state = Arc::new(State {
        plan: plan(scheduler, lengths),
        ..State::default()
    });
    let seed = program.seed ^ schedule.wrapping_mul(0xd134_2543_de82_ef95);
    let main = {
        let (program, state) = (program.clone(), state.clone());
        move || perform(&program, topology, &state)
    };
    let machine = program.machine();
    // This process runs no other one.
    cmwq_vm::machine::limit_cpus(machine.cpus.len());
    let minutes = limit_minutes(program);
    let run = || cmwq_vm::run(&machine, seed, minutes * MINUTE_NS, main);
    let result = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(outcome)) => Ok(Passed {
            log_hash: outcome.log_hash,
            operations: outcome.operations,
            by_thread: std::mem::take(&mut *lock(&state.by_thread)),
        }),
        Ok(Err(stuck)) => {
            let how = match stuck {
                Stuck::Deadlock(names) => format!("all sleep: {}", names.join(", ")),
                Stuck::TooLong => format!("no end within {minutes} virtual minutes"),
                Stuck::TooManyOperations => format!("no end within {MOST_OPERATIONS} operations"),
            };
            let stage = *lock(&state.stage);
            Err(format!("hang, {stage}: {how}{}", state.known.open()))
        }
        Err(panic) => Err(message(&*panic)),
    };
    if let Some(parent) = lock(&state.parent).take() {
        let why = result.err();
        end_child(parent, &why.unwrap_or_else(|| "it went on".to_owned()));
    }
    result
}

/// Of a run by a plan: more than any that ends.
const MOST_OPERATIONS: u64 = 20_000_000;
/// Orders of two steps that a bug of a random program may need.
const DEPTH: u32 = 3;

/// Operations of a program whose first run has failed.
const UNKNOWN_LENGTH: u64 = 50_000;

fn plan(scheduler: Scheduler, lengths: Vec<u64>) -> Option<Plan> {
    match scheduler {
        Scheduler::Time => None,
        Scheduler::Pct => Some(Plan::Priorities {
            depth: DEPTH,
            length: match lengths.iter().sum() {
                0 => UNKNOWN_LENGTH,
                sum => sum,
            },
        }),
        Scheduler::Walk => Some(Plan::Walk { lengths }),
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

/// What a run knows, and how far it has come. It outlives the machine.
#[derive(Default)]
struct State {
    known: Known,
    stage: Mutex<&'static str>,
    /// Which thread is next; `None`: costs say it.
    plan: Option<Plan>,
    /// Operations of each thread so far.
    by_thread: Mutex<Vec<u64>>,
    /// In the child of a fork: where its verdict goes.
    parent: Mutex<Option<PipeWriter>>,
}

impl State {
    fn enter(&self, stage: &'static str) {
        *lock(&self.stage) = stage;
    }

    fn must_be_whole(&self) {
        if let Some(first) = self.known.broken.first() {
            panic!("{first}");
        }
    }
}

/// How long something may wait while a CPU idles: what the monitor needs to find a worker asleep,
/// and what the faults add.
fn bound_ns(faults: &Faults) -> u64 {
    let creation = match faults.refuse_ppm {
        0 => 0,
        // A refused creation is tried again after a second, and may be refused again and again.
        _ => 40_000_000_000,
    };
    let stops = if faults.stop_ppm > 0 {
        5 * faults.stop_ns
    } else {
        0
    };
    let late = 20 * (faults.late_ns + faults.slow_ns + faults.clock_ns + faults.delay_ns);
    // A thread that lags or is held back may hold a lock, for so many operations.
    let lag = 1_000 * (faults.lag_ns + faults.step_ns);
    50_000_000 + creation + stops + late + lag
}

fn perform(program: &Program, topology: Topology, state: &Arc<State>) {
    cmwq_vm::os::merge_pauses();
    if let Some(weak) = program.weak {
        // Stores between two schedules differ, too.
        let seed = weak.seed ^ cmwq_vm::os::random(u64::MAX);
        cmwq_vm::set_weak_memory(WeakMemory { seed, ..weak });
    }
    cmwq_simulated::observe::set_warning_handler(|_| {});
    cmwq_simulated::observe::set_report_handler(|_| {});
    // Drawn apart. Programs are small: one holding of a lock would do all that one is to leave for the next.
    let mut apart = Random::new(program.seed.wrapping_mul(0xb492_b66f_be98_f273) ^ 0x401d);
    cmwq_simulated::raw::set_most_in_a_hold([256, 1, 2, 7][apart.below(4)]);
    if program.has_quota {
        os::change_quota(topology.cpus().len(), &mut Random::new(program.seed));
    }
    let engine = Engine::builder()
        .topology(topology.clone())
        .idle_timeout(Duration::from_millis(program.idle_timeout_ms))
        .build()
        .expect("a topology is given");
    let world = World::new(
        &engine,
        &Settings {
            seed: program.seed,
            queues: program.queues,
            has_bounded: program.has_bounded,
            threads_are_short: program.faults.refuse_ppm > 0,
            cpus_change: program.cpus_change,
            cpus_stay: program.conserves(),
        },
        &state.known,
    );
    cmwq_vm::set_faults(program.faults);
    watch(program, state);
    state.enter("while the issuers go on");
    if let Some(plan) = &state.plan {
        cmwq_vm::steer(plan.clone(), program.seed, MOST_OPERATIONS);
    }
    issue(program, &topology, &world, state);
    come_to_rest(program, &world, state);
    if state.plan.is_some() {
        cmwq_vm::end_steering();
    }
    *lock(&state.by_thread) = os::operations();
    state.enter("while all queues are destroyed");
    let (results, own) = (world.shared.results(), world.own.clone());
    let shots: Vec<Arc<Shots>> = world.steady.iter().map(|s| s.shots.clone()).collect();
    drop(world);
    state.must_be_whole();
    state.enter("until all pools and workers are gone");
    let end = os::observe_ns() + REST.as_nanos() as u64;
    let mut stats = engine.stats();
    while stats.pools > 0 || stats.workers > 0 {
        if os::observe_ns() > end {
            let dump = engine.dump();
            panic!("pools or workers are left after two minutes: {stats:?}\n{dump}");
        }
        os::sleep(Duration::from_millis(1));
        stats = engine.stats();
    }
    assert_eq!(stats.started, stats.completed, "{stats:?}");
    state.enter("until all threads of the engine are gone");
    drop(engine);
    await_threads_end();
    assert!(shots.iter().all(|shots| shots.is_settled()));
    assert!(own.are_gone(), "a thread has ended without its hook");
    assert_eq!(Arc::strong_count(&results), 1, "results are left");
    let end = os::observe_ns() + REST.as_nanos() as u64;
    // A thread of its own drops what a timer held whose queue is gone.
    while !lock(&state.known.ledgers).iter().all(Ledger::is_freed) {
        assert!(os::observe_ns() < end, "an item is left after two minutes");
        os::sleep(Duration::from_millis(1));
    }
    for ledger in lock(&state.known.ledgers).iter() {
        assert!(ledger.is_settled(), "at the very end{}", ledger.open());
        ledger.check(&state.known.broken);
    }
    state.must_be_whole();
}

/// No engine is left.
fn await_threads_end() {
    let end = os::observe_ns() + REST.as_nanos() as u64;
    loop {
        let named = ENGINE_THREADS
            .iter()
            .flat_map(|name| os::threads_named(name));
        // In the child of a fork the caller may have been a worker of the parent's.
        let left = named.filter(|&thread| thread != os::current()).count();
        if left == 0 {
            return;
        }
        assert!(
            os::observe_ns() < end,
            "{left} threads of the engine are left after two minutes"
        );
        os::sleep(Duration::from_millis(1));
    }
}

/// The probe checks the waiting items, and ends a run that has broken a promise.
fn watch(program: &Program, state: &Arc<State>) {
    let bound = bound_ns(&program.faults);
    // A thread whose turn does not come keeps what it has taken waiting.
    let conserves = program.conserves() && state.plan.is_none();
    let state = state.clone();
    let mut now = os::observe_ns();
    let every = (bound / 8).min(100_000_000);
    os::set_probe(every, move || {
        now += every;
        state.must_be_whole();
        if conserves
            && let Some(complaint) = state
                .known
                .waiting
                .complaint(now, bound, |cpu| os::idle_for(cpu, now))
        {
            panic!("work conservation: {complaint}");
        }
    });
}

/// The process forks, and waits for its child, which takes no virtual time. `issuer` did the
/// program's operations until then; it is dropped in the child.
fn fork(issuer: Issuer, topology: &Topology, faults: Faults, state: &State) -> Issuer {
    let before = BeforeFork::new(&issuer.world);
    let (mut verdict, parent) = std::io::pipe().expect("two descriptors");
    match cmwq_vm::fork().expect("a process") {
        Forked::Child => {
            // SAFETY: sets a timer whose signal ends the process.
            unsafe { libc::alarm(CHILD_SECONDS) };
            *lock(&state.parent) = Some(parent);
            state.enter("in the child of a fork");
            // It gets all threads that it needs.
            let refuse_ppm = 0;
            cmwq_vm::set_faults(Faults {
                refuse_ppm,
                ..faults
            });
            let check = || {
                before.check_in_child(issuer, topology.clone());
                await_threads_end();
            };
            // A worker would go on with its parent's items.
            let checked = catch_unwind(AssertUnwindSafe(check));
            let why = checked.err().map(|panic| message(&*panic));
            let parent = lock(&state.parent).take();
            end_child(parent.expect("set above"), &why.unwrap_or_default());
        }
        Forked::Parent(pid) => {
            drop(parent);
            let mut why = String::new();
            let mut status = 0;
            // What cannot be read was not said.
            let _ = verdict.read_to_string(&mut why);
            // SAFETY: the child is ours, and has not been waited for; there is room for its status.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            assert!(
                status == 0,
                "the child of a fork: {why} (status {status:#x})"
            );
            before.check_in_parent();
            issuer
        }
    }
}

/// The child of a fork ends here, and says why it has failed, if it has.
fn end_child(mut parent: PipeWriter, why: &str) -> ! {
    let told = parent.write_all(why.as_bytes());
    let failed = told.is_err() || !why.is_empty();
    // SAFETY: the process ends here: what it has of its parent's is not to be dropped.
    unsafe { libc::_exit(i32::from(failed)) }
}

/// How many of the issuer's operations come before the fork, if the program forks in this issuer.
/// Every other program forks in an item.
fn fork_place(program: &Program, issuer: usize, ops: usize) -> Option<usize> {
    let seed = program.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8;
    let forks = program.forks && seed as usize % program.issuers == issuer;
    forks.then(|| (seed >> 20) as usize % (ops + 1))
}

/// Starts the issuers, and waits for their end.
fn issue(program: &Program, topology: &Topology, world: &Arc<World>, state: &Arc<State>) {
    let left = Rc::new(AtomicUsize::new(program.issuers));
    let waiter = os::current();
    for number in 0..program.issuers {
        let ops: Vec<Op> = (program.ops.iter().copied())
            .filter(|op| op.issuer == number)
            .collect();
        let (world, left) = (world.clone(), left.clone());
        let cpu = world.cpus[number % world.cpus.len()];
        // Every other one is bound, and declares it; the others queue from wherever they are.
        let bound = number % 2 == 0;
        let forks_after = fork_place(program, number, ops.len());
        let (in_item, faults) = (program.seed % 2 == 1, program.faults);
        let (topology, state) = (topology.clone(), state.clone());
        let main = move || {
            let _issuer = bound.then(|| world.engine.become_issuer(cpu));
            let mut issuer = Issuer::new(world);
            for done in 0..=ops.len() {
                if forks_after == Some(done) && in_item {
                    let (world, topology) = (issuer.world.clone(), topology.clone());
                    let state = state.clone();
                    let forks = issuer.world.helper.spawn(move || {
                        fork(Issuer::new(world), &topology, faults, &state);
                    });
                    if let Err(JoinError::Panicked(panic)) = forks.join() {
                        resume_unwind(panic.into_inner());
                    }
                } else if forks_after == Some(done) {
                    issuer = fork(issuer, &topology, faults, &state);
                }
                if let Some(op) = ops.get(done) {
                    // A thread that always lags would be alone when the others have ended.
                    cmwq_vm::lag(op.seed >> 32 & 7 == 0);
                    issuer.step(op.kind, op.seed);
                }
            }
            cmwq_vm::lag(false);
            issuer.finish();
            if left.fetch_sub(1, Relaxed) == 1 {
                os::wake(waiter, None);
            }
        };
        os::spawn(&format!("issuer{number}"), None, main).expect("memory for a stack");
    }
    os::sleep_until(|| left.load(Relaxed) == 0);
}

/// What a queue with a rescuer has accepted runs though its pool has no worker and can get none.
fn rely_on_a_rescuer(program: &Program, world: &World) {
    let queue = built(|| world.engine.workqueue("reserve").mem_reclaim());
    // No other queue has a pool of this nice level.
    let attrs = WorkqueueAttrs {
        nice: 7,
        ..queue.attrs()
    };
    queue.apply_attrs(attrs).expect("legal attributes");
    cmwq_vm::set_faults(Faults {
        refuse_ppm: 1_000_000,
        ..program.faults
    });
    // It comes again.
    for _ in 0..2 {
        let ran = Arc::new(AtomicBool::new(false));
        let runs = ran.clone();
        let accepted = queue.execute(move || runs.store(true, Relaxed));
        accepted.expect("the queue takes items");
        let end = os::observe_ns() + REST.as_nanos() as u64;
        while !ran.load(Relaxed) {
            assert!(os::observe_ns() < end, "no rescuer came within two minutes");
            os::sleep(Duration::from_millis(1));
        }
    }
    cmwq_vm::set_faults(program.faults);
}

/// Everything accepted ends by itself; then queues are flushed, and the accounts must be right.
fn come_to_rest(program: &Program, world: &Arc<World>, state: &State) {
    if program.cpus_change {
        let all: Cpus = world.cpus.iter().copied().collect();
        cmwq_vm::set_online(all);
        // Until the engine has noticed.
        os::sleep(Duration::from_millis(2500));
    }
    world.ends.store(true, Relaxed);
    state.enter("until what was accepted has run");
    let end = os::observe_ns() + REST.as_nanos() as u64;
    let mut pause = Duration::from_micros(100);
    while !world.is_settled() {
        if os::observe_ns() > end {
            panic!("not run within two minutes of rest{}", state.known.open());
        }
        os::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(100));
    }
    state.must_be_whole();
    if program.faults.refuse_ppm > 0 {
        state.enter("while no thread can be created");
        rely_on_a_rescuer(program, world);
    }
    state.enter("while all queues are flushed");
    world.empty_graveyard();
    for which in 0..world.queue_count() {
        let queue = world.queue(which);
        for item in queue.items.iter().filter(|item| item.class.is_delayed()) {
            item.flush();
        }
        queue.wq.flush().expect("not from an item of the queue");
    }
    if let Some(bounded) = &world.bounded {
        bounded.check_at_rest();
    }
    for which in 0..world.queue_count() {
        world.queue(which).check_values(&state.known.broken);
    }
    for ledger in lock(&state.known.ledgers).iter() {
        ledger.check(&state.known.broken);
    }
    state.enter("until all completions are delivered");
    let end = os::observe_ns() + REST.as_nanos() as u64;
    let mut pause = Duration::from_micros(100);
    while world.shared.deliver_all(&state.known.broken) > 0 {
        let late = os::observe_ns() > end;
        assert!(!late, "completions are missing after two minutes");
        os::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(5));
    }
    state.must_be_whole();
}

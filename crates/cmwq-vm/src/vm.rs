//! The machine at work: its state, and the loop that lets the CPU with the smallest clock go on.

use crate::events::{Events, LAST_NS, NEVER, Next, key};
use crate::faults::Faults;
use crate::machine::{Costs, Distances, Machine, Placement};
use crate::memory::{Access, Line, Lines, Wait, Waits};
use crate::random::Random;
use crate::set::Cpus;
use crate::spin::Spin;
use crate::stack::HostStack;
use crate::steer::{Standstills, Steer};
use crate::thread::{Fiber, State, Thread, Tid};
use std::any::Any;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

thread_local! {
    static CURRENT: Cell<*mut Vm> = const { Cell::new(std::ptr::null_mut()) };
}

/// What happens at a time, besides the CPUs' operations.
pub(crate) enum Timer {
    /// An idle CPU that was woken begins.
    Begin(usize),
    /// A CPU is interrupted to run another thread.
    Interrupt(usize),
    /// The running thread's slice is over, if it still has this number; and the time of balancing.
    Tick(usize, u64),
    /// A sleep is over, if it still is the one of this number.
    Timeout(Tid, u64),
    /// A wake-up that was late takes effect; it came from this CPU.
    Late(Tid, usize),
    /// The probe is called.
    Probe,
    /// The limit of virtual time is reached, whether anything else comes or not.
    Limit,
}

pub(crate) struct Cpu {
    pub(crate) current: Option<Tid>,
    /// When the current thread does its next visible operation.
    pub(crate) clock: u64,
    pub(crate) picked_at: u64,
    /// Counts the threads picked, so that a tick that comes late is recognised.
    pub(crate) picks: u64,
    pub(crate) tick_armed: bool,
    pub(crate) queue: Vec<Tid>,
    pub(crate) idle_since: u64,
    pub(crate) begins: bool,
    /// Depth of sections without interrupts.
    pub(crate) masked: u32,
    pub(crate) reschedule: bool,
    pub(crate) spinning: bool,
    pub(crate) min_vruntime_ns: u64,
    pub(crate) busy_ns: u64,
    pub(crate) siblings: Vec<usize>,
    pub(crate) llc: Cpus,
}

/// Numbers are hashed by a multiplication: they are chosen by the machine itself.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed");
    }
    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.0 = (number as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}

pub(crate) type ByNumber<V> = HashMap<usize, V, BuildHasherDefault<NumberHasher>>;

pub(crate) struct Vm {
    pub(crate) costs: Costs,
    pub(crate) distances: Distances,
    pub(crate) placement: Placement,
    pub(crate) random: Random,
    pub(crate) events: Events<Timer>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) lines: Lines,
    pub(crate) waits: Waits,
    pub(crate) by_address: ByNumber<Line>,
    /// Room for copies of data that a lock guards.
    pub(crate) copies: Vec<Vec<u8>>,
    /// The most visible operations that a thread did while it held a lock that counts them.
    pub(crate) longest_hold: u64,
    pub(crate) futexes: ByNumber<VecDeque<Tid>>,
    pub(crate) spins: Vec<Spin>,
    /// Those of threads that have ended.
    stacks: Vec<HostStack>,
    pub(crate) idle: Cpus,
    pub(crate) all: Cpus,
    /// Of the thread that runs on the host now.
    pub(crate) cpu: usize,
    pub(crate) tid: Tid,
    pub(crate) operations: u64,
    pub(crate) log: u64,
    pub(crate) switches: u64,
    pub(crate) wakeups: u64,
    pub(crate) failure: Option<Box<dyn Any + Send>>,
    pub(crate) limit_ns: u64,
    pub(crate) faults: Faults,
    /// How much longer each visible operation of the thread that runs on the host now takes at most.
    pub(crate) lag_ns: u64,
    /// After how many more visible operations the next one is disturbed.
    pub(crate) undisturbed: u64,
    /// What the clock says, and until when.
    pub(crate) standing_clock: (u64, u64),
    pub(crate) quota: Option<crate::faults::Quota>,
    /// A pause is part of the operation that follows it.
    pub(crate) merges_pauses: bool,
    /// See [`limit_polls`](crate::os::limit_polls).
    pub(crate) most_polls: u32,
    /// Called every so many ns.
    pub(crate) probe: Option<(u64, Box<dyn FnMut()>)>,
    /// Which thread is next, if costs do not say it.
    pub(crate) steer: Option<Box<Steer>>,
    pub(crate) standstills: Standstills,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Virtual time at its end.
    pub end_ns: u64,
    /// Visible operations.
    pub operations: u64,
    /// Of all visible operations: what, when, where.
    pub log_hash: u64,
    /// Threads created.
    pub threads: usize,
    /// Switches between threads.
    pub switches: u64,
    /// Wake-ups of sleeping threads.
    pub wakeups: u64,
    /// Transfers of cache lines, and how long accesses waited for earlier ones.
    pub transfers: u64,
    /// See `transfers`.
    pub waited_ns: u64,
    /// Where the simulated program has waited for lines, the longest first.
    pub waits: Vec<Wait>,
    /// The time that all CPUs were not idle, added up.
    pub busy_ns: u64,
}

/// Why a run had no end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// All threads sleep, and nothing will wake them: their names.
    Deadlock(Vec<String>),
    /// The time limit was reached.
    TooLong,
    /// More operations were done than [`steer`](crate::steer) allows.
    TooManyOperations,
}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stuck::Deadlock(names) => write!(f, "all threads sleep: {}", names.join(", ")),
            Stuck::TooLong => f.write_str("it has reached the limit of virtual time"),
            Stuck::TooManyOperations => f.write_str("it has reached the limit of operations"),
        }
    }
}

/// Runs `main` as the first thread of the machine, until it returns. Threads that still exist then
/// are gone, as at the end of a process.
///
/// # Errors
/// When `main` does not end: everything sleeps, or the virtual time reaches `limit_ns`.
///
/// # Panics
/// When a virtual thread panics; when plain memory was accessed in a race, whether the panic that
/// tells this was caught or not; and inside a virtual thread.
pub fn run(
    machine: &Machine,
    seed: u64,
    limit_ns: u64,
    main: impl FnOnce() + 'static,
) -> Result<Outcome, Stuck> {
    assert!(CURRENT.get().is_null(), "a machine inside a machine");
    crate::arena::begin();
    let mut vm = Box::new(Vm::new(machine, seed, limit_ns));
    let vm: *mut Vm = &raw mut *vm;
    let _off = SwitchOff(vm);
    CURRENT.set(vm);
    let all = with(|vm| vm.all);
    let main = with(|vm| vm.spawn("main".to_owned(), all, Box::new(main), 0));
    let main = main.expect("memory for a stack");
    with(|vm| vm.make_runnable(main, 0, 0));
    with(Vm::arm_limit);
    let result = run_until_end_of(main);
    match crate::weak::race() {
        Some(race) => panic!("{race}"),
        None => result,
    }
}

fn run_until_end_of(main: Tid) -> Result<Outcome, Stuck> {
    loop {
        let next = with(|vm| match vm.is_steered() {
            false => vm.events.next(),
            true => crate::steer::next(vm),
        });
        match next {
            Next::Cpu(cpu) => {
                if go_on(cpu) == Some(main) {
                    return Ok(with(|vm| vm.outcome()));
                }
            }
            Next::Timer(at, timer) => {
                if with(|vm| at > vm.limit_ns) {
                    return Err(with(Vm::stuck));
                }
                crate::steer::before_timer(at);
                match timer {
                    Timer::Probe => look(at),
                    timer => with(|vm| vm.fire(at, timer)),
                }
            }
            Next::Nothing => return Err(with(Vm::stuck)),
        }
    }
}

/// The current thread of `cpu` goes on until its next operation. Returns it if it has ended.
fn go_on(cpu: usize) -> Option<Tid> {
    let fiber = with(|vm| {
        let tid = vm.cpus[cpu]
            .current
            .expect("only busy CPUs have a next operation");
        (vm.cpu, vm.tid) = (cpu, tid);
        vm.lag_ns = vm.threads[tid.index()].lag_ns;
        let fiber = vm.threads[tid.index()].fiber.as_deref_mut();
        let fiber: *mut Fiber = fiber.expect("a thread that runs has a stack");
        fiber
    });
    // SAFETY: the fiber is in a box that stays where it is until the thread has ended, which is
    // seen below; no reference to the machine or the thread exists meanwhile.
    if !unsafe { (*fiber).resume() } {
        return None;
    }
    let ended = with(Vm::exit);
    if let Some(failure) = with(|vm| vm.failure.take()) {
        std::panic::resume_unwind(failure);
    }
    Some(ended)
}

/// Calls the probe, which is no thread.
fn look(at: u64) {
    if let Some((every, mut probe)) = with(|vm| vm.probe.take()) {
        probe();
        with(|vm| {
            vm.probe = Some((every, probe));
            vm.add_timer(at + every, Timer::Probe);
        });
    }
}

/// Switches the machine off, whichever way the run ends.
struct SwitchOff(*mut Vm);

impl Drop for SwitchOff {
    fn drop(&mut self) {
        CURRENT.set(std::ptr::null_mut());
        crate::weak::switch_off();
        // SAFETY: the box outlives this guard, and nothing else refers to it any more.
        let vm = unsafe { &mut *self.0 };
        for thread in &mut vm.threads {
            if let Some(fiber) = thread.fiber.take() {
                fiber.abandon();
            }
            // Their destructors may expect a machine.
            std::mem::forget(std::mem::take(&mut thread.locals));
        }
    }
}

/// Whether the caller is a virtual thread.
#[inline]
#[must_use]
pub fn is_inside() -> bool {
    CURRENT.try_with(|vm| !vm.get().is_null()).unwrap_or(false)
}

/// Calls `f` with the machine that the caller runs on. `f` neither suspends nor comes back here.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Vm) -> R) -> R {
    let vm = CURRENT.get();
    assert!(!vm.is_null(), "not on a virtual machine");
    // SAFETY: it is set while `run` runs, which holds the box. All virtual threads share the OS
    // thread, and no `f` suspends or calls `with`: there is one reference at a time.
    f(unsafe { &mut *vm })
}

/// Lets the machine go on; returns when the calling thread's turn comes.
#[inline]
pub(crate) fn suspend() {
    let yielder = with(|vm| {
        let fiber = vm.threads[vm.tid.index()].fiber.as_deref();
        fiber.expect("a thread that runs has a stack").yielder.get()
    });
    // SAFETY: set at the thread's start, and valid while its function runs: it runs now.
    unsafe { (*yielder).suspend(()) };
}

impl Vm {
    fn new(machine: &Machine, seed: u64, limit_ns: u64) -> Vm {
        let count = machine.cpus.len();
        let same = |cpu: usize, of: fn(&crate::machine::Place) -> u16| -> Cpus {
            (0..count)
                .filter(|&other| of(&machine.cpus[other]) == of(&machine.cpus[cpu]))
                .collect()
        };
        let cpus = (0..count).map(|cpu| Cpu {
            current: None,
            clock: 0,
            picked_at: 0,
            picks: 0,
            tick_armed: false,
            queue: Vec::new(),
            idle_since: 0,
            begins: false,
            masked: 0,
            reschedule: false,
            spinning: false,
            min_vruntime_ns: 0,
            busy_ns: 0,
            siblings: same(cpu, |place| place.core)
                .iter()
                .filter(|&s| s != cpu)
                .collect(),
            llc: same(cpu, |place| place.llc),
        });
        Vm {
            costs: machine.costs.clone(),
            distances: machine.distances(),
            placement: machine.placement,
            random: Random::new(seed),
            events: Events::new(count),
            cpus: cpus.collect(),
            threads: Vec::new(),
            lines: Lines::new(count, seed),
            waits: Waits::default(),
            by_address: ByNumber::default(),
            copies: Vec::new(),
            longest_hold: 0,
            futexes: ByNumber::default(),
            spins: Vec::new(),
            stacks: Vec::new(),
            idle: (0..count).collect(),
            all: (0..count).collect(),
            cpu: 0,
            tid: Tid(0),
            operations: 0,
            log: seed,
            switches: 0,
            wakeups: 0,
            failure: None,
            limit_ns,
            faults: Faults::default(),
            lag_ns: 0,
            undisturbed: u64::MAX - 1,
            standing_clock: (0, 0),
            quota: None,
            merges_pauses: false,
            most_polls: u32::MAX,
            probe: None,
            steer: None,
            standstills: None,
        }
    }

    fn outcome(&self) -> Outcome {
        let end_ns = self.cpus[self.cpu].clock;
        let running = self.cpus.iter().filter(|cpu| cpu.current.is_some());
        let not_yet: u64 = running
            .map(|cpu| end_ns.saturating_sub(cpu.picked_at))
            .sum();
        Outcome {
            end_ns,
            operations: self.operations,
            log_hash: self.log,
            threads: self.threads.len(),
            switches: self.switches,
            wakeups: self.wakeups,
            transfers: self.lines.transfers,
            waited_ns: self.lines.waited_ns,
            waits: self.waits.sorted(),
            busy_ns: self.cpus.iter().map(|cpu| cpu.busy_ns).sum::<u64>() + not_yet,
        }
    }

    /// The clock of the CPU where the caller runs.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.cpus[self.cpu].clock
    }

    #[inline]
    pub(crate) fn note(&mut self, what: u64) {
        self.operations += 1;
        self.threads[self.tid.index()].operations += 1;
        let entry = what ^ (self.cpu as u64) << 8 ^ u64::from(self.tid.0) << 20 ^ self.now() << 32;
        self.log = (self.log ^ entry)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }

    /// Enters the CPU's next operation; `true`: it is the first of all, so its thread may go on at once.
    #[inline]
    pub(crate) fn schedule(&mut self, cpu: usize) -> bool {
        if self.is_steered() {
            return true;
        }
        let key = key(self.cpus[cpu].clock, self.random.bits());
        self.events.set_cpu(cpu, key);
        self.events.is_first(key)
    }

    #[inline]
    pub(crate) fn unschedule(&mut self, cpu: usize) {
        self.events.set_cpu(cpu, NEVER);
    }

    pub(crate) fn add_timer(&mut self, at: u64, timer: Timer) {
        let key = key(at, self.random.bits());
        self.events.add_timer(key, timer);
    }

    /// `ns` of instructions on this CPU: longer while the sibling computes, and never quite the same.
    #[inline]
    pub(crate) fn computing(&mut self, cpu: usize, ns: u64) -> u64 {
        let mut ns = ns;
        if self.costs.jitter_ppt > 0 {
            let most = ns * self.costs.jitter_ppt / 1000;
            if most > 0 {
                ns = ns - most + self.random.below(2 * most + 1);
            }
        }
        if self.sibling_computes(cpu) {
            ns += ns * self.costs.smt_slowdown_ppt / 1000;
        }
        ns
    }

    #[inline]
    fn sibling_computes(&self, cpu: usize) -> bool {
        self.cpus[cpu].siblings.iter().any(|&sibling| {
            let sibling = &self.cpus[sibling];
            sibling.current.is_some() && !sibling.spinning
        })
    }

    /// A cost in ps: a random part of a ns makes up for the rest.
    #[inline]
    pub(crate) fn rounded(&mut self, ps: u64) -> u64 {
        match ps % 1000 {
            0 => ps / 1000,
            _ => (ps + self.random.below(1000)) / 1000,
        }
    }

    /// Returns whether the CPU had to wait.
    #[inline]
    pub(crate) fn access(&mut self, line: Line, access: Access) -> bool {
        let update_ns = self.rounded(match access {
            Access::Update => self.costs.update_ps,
            Access::Read | Access::Write => 0,
        });
        let now = self.now();
        let lines = &mut self.lines;
        let (costs, distances) = (&self.costs, &self.distances);
        let done = lines.access(line, access, self.cpu, now, update_ns, costs, distances);
        self.cpus[self.cpu].clock = done;
        done > now + update_ns
    }

    #[inline]
    pub(crate) fn line_at(&mut self, address: usize) -> Line {
        match self.by_address.get(&(address / 64)) {
            Some(&line) => line,
            None => {
                let line = self.lines.add();
                self.by_address.insert(address / 64, line);
                line
            }
        }
    }

    /// The CPU has accessed this address by `instruction`, and sends for what follows at the same distance.
    #[inline]
    pub(crate) fn send_ahead(&mut self, instruction: usize, address: usize, access: Access) {
        let (cpu, now, ahead) = (self.cpu, self.now(), self.costs.strides_ahead as isize);
        if ahead == 0 {
            return;
        }
        if let Some(next) = self.lines.expected(instruction, address, cpu, ahead) {
            let line = self.line_at(next);
            let to_write = access != Access::Read;
            let (costs, distances) = (&self.costs, &self.distances);
            self.lines
                .prefetch(line, to_write, cpu, now, costs, distances);
        }
    }

    /// Threads that spin need no other timer: without this one they would go on for ever. It draws
    /// no random number, so it changes no run that ends.
    fn arm_limit(&mut self) {
        if self.limit_ns < LAST_NS {
            self.events
                .add_timer(key(self.limit_ns + 1, 0), Timer::Limit);
        }
    }

    /// Why the run has no end, when nothing comes any more within the limit.
    fn stuck(&mut self) -> Stuck {
        if self.is_exhausted() {
            return Stuck::TooManyOperations;
        }
        if !matches!(self.events.next(), Next::Nothing) {
            return Stuck::TooLong;
        }
        let blocked = self.threads.iter().filter(|t| t.state == State::Blocked);
        Stuck::Deadlock(blocked.map(|thread| thread.name.clone()).collect())
    }

    pub(crate) fn spawn(
        &mut self,
        name: String,
        allowed: Cpus,
        main: Box<dyn FnOnce()>,
        cpu: usize,
    ) -> std::io::Result<Tid> {
        // The last one that was freed: which addresses are used again does not depend on the host.
        let stack = match self.stacks.pop() {
            Some(stack) => stack,
            None => HostStack::new(self.threads.len())?,
        };
        let fiber = Fiber::new(main, |panic| with(|vm| vm.failure = Some(panic)), stack);
        let tid = Tid(u32::try_from(self.threads.len()).expect("fewer than 2^32 threads"));
        let lag_ns = self.draw_lag();
        self.threads.push(Thread {
            name,
            state: State::Blocked,
            cpu,
            allowed,
            remaining_ns: 0,
            sleeps: 0,
            timed_out: false,
            futex: None,
            woken: false,
            waking: false,
            vruntime_ns: 0,
            last_clock: 0,
            ran_ns: 0,
            left_at: 0,
            slice_ns: self.costs.slice_ns,
            nice: 0,
            lag_ns,
            place: 0,
            voluntary: 0,
            operations: 0,
            ending: false,
            locals: HashMap::new(),
            fiber: Some(Box::new(fiber)),
        });
        Ok(tid)
    }

    /// The running thread has returned.
    fn exit(&mut self) -> Tid {
        let tid = self.tid;
        self.leave(State::Exited);
        let thread = &mut self.threads[tid.index()];
        if let Some(fiber) = thread.fiber.take() {
            let stack = fiber.into_stack();
            let (from, bytes) = stack.range();
            crate::weak::freed(from, bytes);
            self.stacks.push(stack);
        }
        tid
    }
}

//! What a virtual thread can do: compute, touch memory, sleep, wake others.
//!
//! Every *visible* operation, one that other threads can notice, happens at its point in virtual
//! time: the thread first lets all CPUs with smaller clocks go on. Between two visible operations
//! it runs on undisturbed.
#![forbid(unsafe_code)]

pub use crate::locals::local;
use crate::memory::{Access, Line};
use crate::set::Cpus;
pub use crate::sleeping::{futex_wait, futex_wake, prepare_sleep, sleep, sleep_unless_woken, wake};
use crate::thread::{State, Tid};
pub use crate::totals::{Totals, operations, totals};
use crate::vm::{Timer, Vm, suspend, with};
use std::panic::Location;

/// Long computations are cut into pieces, since siblings come and go.
const PIECE_NS: u64 = 2_000;
/// Waits for the caller's turn; `what` goes to the log.
#[inline]
pub(crate) fn visible(what: u64) {
    if with(Vm::is_disturbed) {
        crate::faults::disturb();
    }
    let first = with(|vm| {
        vm.note(what);
        let cpu = vm.cpu;
        match vm.is_steered() {
            false => vm.schedule(cpu),
            true => vm.takes_its_turn(),
        }
    });
    if !first {
        suspend();
    }
}

/// Virtual time since the machine was switched on. Reading it costs something.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    with(|vm| {
        let now = vm.now();
        let (cpu, cost) = (vm.cpu, vm.costs.clock_ns);
        vm.cpus[cpu].clock += cost;
        vm.clock_at(now)
    })
}

/// As [`now_ns`], without any cost: for measuring what is simulated.
#[inline]
#[must_use]
pub fn observe_ns() -> u64 {
    with(|vm| vm.now())
}

/// Computes for so long, if nothing comes between.
pub fn work(ns: u64) {
    let alone = with(|vm| vm.cpus[vm.cpu].siblings.is_empty());
    let mut left = ns;
    loop {
        let piece = if alone { left } else { left.min(PIECE_NS) };
        left -= piece;
        with(|vm| {
            let cpu = vm.cpu;
            let ns = vm.computing(cpu, piece);
            vm.cpus[cpu].clock += ns;
        });
        if ns > PIECE_NS {
            // Long enough to be preempted: what follows comes after that.
            visible(1);
        }
        if left == 0 {
            return;
        }
    }
}

/// `pause` in a loop that waits: others go on meanwhile.
pub fn pause() {
    let alone = with(|vm| {
        let cpu = vm.cpu;
        let ns = vm.costs.pause_ns;
        vm.cpus[cpu].clock += ns;
        crate::steer::pauses(vm, 1);
        !vm.merges_pauses
    });
    if alone {
        visible(12);
    }
}

/// From now on a pause is no operation of its own, but part of the one that follows: half as many
/// operations in loops that wait. And the run's outcome does not say where it has waited for lines.
pub fn merge_pauses() {
    with(|vm| vm.merges_pauses = true);
}

/// From now on a thread that spins does so many polls at most before it yields. Between two of them
/// either another thread goes on, or nothing changes.
pub fn limit_polls(most: u32) {
    with(|vm| vm.most_polls = most);
}

/// How many polls a thread that spins does before it yields, if it would do so many.
#[must_use]
pub fn polls(polls: u32) -> u32 {
    with(|vm| polls.min(vm.most_polls))
}

/// A cache line that no CPU has accessed yet.
#[must_use]
pub fn new_line() -> Line {
    with(|vm| vm.lines.add())
}

/// The line of an address.
#[inline]
#[must_use]
pub fn line_at(address: usize) -> Line {
    with(|vm| vm.line_at(address))
}

/// Accesses a line. What the caller does until its next visible operation happens when the line is there.
#[inline]
pub fn access(line: Line, access: Access) {
    access_taking(line, access);
}

/// As [`access`]; returns how long it took.
#[inline]
fn access_taking(line: Line, access: Access) -> u64 {
    visible(u64::from(line.0) << 4 | 8 | access as u64);
    let (took, first) = with(|vm| {
        let arrival = vm.now();
        let waits = vm.access(line, access);
        let (cpu, took) = (vm.cpu, vm.now() - arrival);
        // Others may come before.
        (took, !waits || vm.schedule(cpu))
    });
    if !first {
        suspend();
    }
    took
}

/// As [`access`] of the line at an address, for code whose own instructions are not charged otherwise.
#[inline]
#[track_caller]
pub fn touch(address: usize, kind: Access) {
    let place = Location::caller();
    with(|vm| {
        let cpu = vm.cpu;
        if vm.faults.step_ppm > 0 {
            vm.step_to(place);
        }
        let ns = vm.rounded(vm.costs.between_ps);
        let ns = vm.computing(cpu, ns);
        vm.cpus[cpu].clock = vm.lines.compute(cpu, ns, vm.now(), &vm.costs);
        crate::steer::accesses(vm, std::ptr::from_ref(place).addr(), address, kind);
    });
    let took = access_taking(line_at(address), kind);
    with(|vm| {
        if !vm.merges_pauses {
            vm.waits.note(place, took);
            vm.send_ahead(std::ptr::from_ref(place).addr(), address, kind);
        }
    });
}

/// Sends for the line at an address, which the caller is about to use, and does not wait for it.
#[inline]
pub fn prefetch(address: usize, to_write: bool) {
    if with(|vm| vm.is_steered()) {
        // It costs something, and no thread can notice more.
        return;
    }
    let line = line_at(address);
    visible(u64::from(line.0) << 4 | 14 | u64::from(to_write));
    with(|vm| {
        let (cpu, now) = (vm.cpu, vm.now());
        vm.lines
            .prefetch(line, to_write, cpu, now, &vm.costs, &vm.distances);
    });
}

/// The CPU that the caller runs on.
#[inline]
#[must_use]
pub fn current_cpu() -> usize {
    with(|vm| vm.cpu)
}

/// How many CPUs the machine has.
#[must_use]
pub fn cpus() -> usize {
    with(|vm| vm.cpus.len())
}

/// The calling thread.
#[inline]
#[must_use]
pub fn current() -> Tid {
    with(|vm| vm.tid)
}

/// Starts a thread on the CPUs given, the caller's if none are.
///
/// # Errors
/// There is no memory for its stack.
pub fn spawn(
    name: &str,
    allowed: Option<Cpus>,
    main: impl FnOnce() + 'static,
) -> std::io::Result<Tid> {
    visible(4);
    let tid = with(|vm| {
        let cpu = vm.cpu;
        let cost = vm.computing(cpu, vm.costs.clone_ns);
        vm.cpus[cpu].clock += cost;
        let allowed = allowed.unwrap_or(vm.threads[vm.tid.index()].allowed);
        let home = if allowed.contains(cpu) {
            cpu
        } else {
            allowed.next_after(cpu).unwrap_or(cpu)
        };
        let tid = vm.spawn(name.to_owned(), allowed, Box::new(main), home)?;
        let now = vm.now();
        vm.spread(tid);
        let share = vm.make_runnable(tid, cpu, now);
        vm.cpus[cpu].clock += share;
        std::io::Result::Ok(tid)
    })?;
    crate::weak::started(tid);
    Ok(tid)
}

/// A thread may run on these CPUs only from now on. `false`: none of them is there, or the thread never was.
pub fn set_affinity(tid: Tid, cpus: Cpus) -> bool {
    visible(5);
    let (valid, moves) = with(|vm| {
        let there = cpus.and(&vm.all);
        if there.is_empty() || tid.index() >= vm.threads.len() {
            return (false, false);
        }
        let cpu = vm.cpu;
        vm.cpus[cpu].clock += vm.costs.syscall_ns;
        vm.threads[tid.index()].allowed = cpus;
        let now = vm.now();
        // It goes on elsewhere.
        let leaves = tid == vm.tid && !there.contains(cpu);
        if leaves {
            vm.leave(State::Blocked);
            vm.make_runnable(tid, cpu, now);
        } else {
            vm.expel(now);
        }
        (true, leaves)
    });
    if moves {
        suspend();
    }
    valid
}

/// The CPUs that a thread may run on.
#[must_use]
pub fn affinity(tid: Tid) -> Option<Cpus> {
    with(|vm| {
        let thread = vm.threads.get(tid.index())?;
        Some(thread.allowed.and(&vm.all))
    })
}

/// Lets others run that wait for this CPU.
pub fn yield_now() {
    visible(6);
    let left = with(|vm| {
        let cpu = vm.cpu;
        let ns = vm.costs.yield_ns;
        vm.cpus[cpu].clock += ns;
        crate::steer::pauses(vm, crate::steer::YIELD);
        if vm.cpus[cpu].queue.is_empty() {
            return false;
        }
        // Behind all that wait: it has had its share.
        let queue = &vm.cpus[cpu].queue;
        let last = queue
            .iter()
            .map(|tid| vm.threads[tid.index()].vruntime_ns)
            .max();
        let now = vm.now();
        vm.account(cpu, now);
        let tid = vm.tid;
        let thread = &mut vm.threads[tid.index()];
        thread.vruntime_ns = thread.vruntime_ns.max(last.unwrap_or(0) + 1);
        vm.preempt(cpu, now);
        vm.cpus[cpu].current != Some(tid)
    });
    if left {
        suspend();
    }
}

/// The CPU that a thread runs on, or ran on last.
#[must_use]
pub fn cpu_of(tid: Tid) -> usize {
    with(|vm| vm.threads[tid.index()].cpu)
}

/// What a thread has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// CPU time.
    pub ran_ns: u64,
    /// How often it went to sleep.
    pub voluntary: i64,
    /// Whether it sleeps.
    pub is_asleep: bool,
    /// Its nice level.
    pub nice: i32,
}

/// What a thread has done so far; `None` if there is no such thread any more.
#[must_use]
pub fn usage(tid: Tid) -> Option<Usage> {
    with(|vm| {
        let thread = vm.threads.get(tid.index())?;
        let running = thread.state == State::Running;
        let since = if running { vm.ran_ns(thread.cpu) } else { 0 };
        (thread.state != State::Exited).then_some(Usage {
            ran_ns: thread.ran_ns + since,
            voluntary: thread.voluntary,
            is_asleep: thread.state == State::Blocked,
            nice: thread.nice,
        })
    })
}

/// CPU time that all threads have used, those that have ended too.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    with(|vm| vm.busy_ns())
}

/// Sets how long a thread may run at a time; `None`: as the machine has it. `false`: the thread never was.
pub fn set_slice(tid: Tid, ns: Option<u64>) -> bool {
    with(|vm| {
        let cpu = vm.cpu;
        vm.cpus[cpu].clock += vm.costs.syscall_ns;
        let default_ns = vm.costs.slice_ns;
        let Some(thread) = vm.threads.get_mut(tid.index()) else {
            return false;
        };
        thread.slice_ns = ns.unwrap_or(default_ns);
        true
    })
}

/// A random number of the run's seed.
#[must_use]
pub fn random(bound: u64) -> u64 {
    with(|vm| vm.random.below(bound))
}

/// Calls `probe` every so many ns of virtual time, outside any thread: it may observe the machine
/// and do nothing else. A panic of it ends the run.
pub fn set_probe(every_ns: u64, probe: impl FnMut() + 'static) {
    with(|vm| {
        let now = vm.now();
        vm.probe = Some((every_ns, Box::new(probe)));
        vm.add_timer(now + every_ns, Timer::Probe);
    });
}

/// How long a CPU has been idle at `now`, on the clock of [`observe_ns`]; 0 if it is not, or is not there.
#[must_use]
pub fn idle_for(cpu: usize, now: u64) -> u64 {
    with(|vm| {
        let idles = vm.idle.contains(cpu) && vm.all.contains(cpu) && !vm.cpus[cpu].begins;
        let since = vm.cpus[cpu].idle_since;
        if idles { now.saturating_sub(since) } else { 0 }
    })
}

/// Whether a thread whose name begins with one of these is able to run, and waits for a CPU that
/// another one uses.
#[must_use]
pub fn waits_for_cpu(prefixes: &[&str]) -> bool {
    with(|vm| {
        let mut waiting = vm.threads.iter().filter(|t| t.state == State::Runnable);
        waiting.any(|thread| {
            prefixes
                .iter()
                .any(|prefix| thread.name.starts_with(prefix))
        })
    })
}

/// The threads that have not ended and whose name begins like this.
#[must_use]
pub fn threads_named(prefix: &str) -> Vec<Tid> {
    with(|vm| {
        let threads = vm.threads.iter().enumerate();
        let named = threads
            .filter(|(_, thread)| thread.state != State::Exited && thread.name.starts_with(prefix));
        named.map(|(at, _)| Tid(at as u32)).collect()
    })
}

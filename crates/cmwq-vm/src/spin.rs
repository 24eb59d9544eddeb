//! A spinlock as an operating system has it: waiters queue, each spins on a line of its own,
//! interrupts are masked.
#![forbid(unsafe_code)]

use crate::memory::{Access, Line};
use crate::os::visible;
use crate::vm::{suspend, with};
use std::collections::VecDeque;

pub(crate) struct Spin {
    line: Line,
    held: bool,
    since: u64,
    waiters: VecDeque<(usize, u64)>,
    totals: LockTotals,
}

/// What a lock has cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockTotals {
    /// How often it was taken.
    pub taken: u64,
    /// How long it was held.
    pub held_ns: u64,
    /// How long it was waited for.
    pub waited_ns: u64,
}

/// The number of a spinlock.
#[derive(Clone, Copy, Debug)]
pub struct SpinLock(usize);

impl SpinLock {
    /// A new one, on a cache line of its own.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it belongs to a machine")]
    pub fn new() -> SpinLock {
        with(|vm| {
            let line = vm.lines.add();
            vm.spins.push(Spin {
                line,
                held: false,
                since: 0,
                waiters: VecDeque::new(),
                totals: LockTotals::default(),
            });
            SpinLock(vm.spins.len() - 1)
        })
    }

    /// Takes it, spinning while another thread has it. The CPU is not interrupted until the lock is
    /// free again.
    pub fn lock(self) {
        with(|vm| vm.cpus[vm.cpu].masked += 1);
        visible(2);
        let waits = with(|vm| {
            let cpu = vm.cpu;
            let line = vm.spins[self.0].line;
            vm.access(line, Access::Update);
            let now = vm.now();
            let spin = &mut vm.spins[self.0];
            if !spin.held {
                spin.held = true;
                spin.since = now;
                spin.totals.taken += 1;
                return false;
            }
            spin.waiters.push_back((cpu, now));
            vm.cpus[cpu].spinning = true;
            vm.unschedule(cpu);
            true
        });
        if waits {
            suspend();
        }
    }

    /// Lets it go, to the thread that waits the longest.
    pub fn unlock(self) {
        visible(3);
        let preempted = with(|vm| {
            let cpu = vm.cpu;
            let line = vm.spins[self.0].line;
            vm.access(line, Access::Write);
            let now = vm.now();
            let spin = &mut vm.spins[self.0];
            spin.totals.held_ns += now - spin.since;
            match spin.waiters.pop_front() {
                None => spin.held = false,
                Some((next, since)) => {
                    // The waiter's spinning load fetches the line, and its store makes it its own.
                    let update_ns = vm.rounded(vm.costs.update_ps);
                    let mut access = |access, at| {
                        let (costs, distances) = (&vm.costs, &vm.distances);
                        vm.lines
                            .access(line, access, next, at, update_ns, costs, distances)
                    };
                    let seen = access(Access::Read, now);
                    let taken = access(Access::Update, seen);
                    let spin = &mut vm.spins[self.0];
                    spin.since = taken;
                    spin.totals.taken += 1;
                    spin.totals.waited_ns += taken.saturating_sub(since);
                    vm.cpus[next].spinning = false;
                    vm.cpus[next].clock = taken;
                    vm.schedule(next);
                }
            }
            let core = &mut vm.cpus[cpu];
            core.masked -= 1;
            let due = core.masked == 0 && core.reschedule;
            if due {
                core.reschedule = false;
                vm.preempt(cpu, now);
            }
            due && vm.cpus[cpu].current != Some(vm.tid)
        });
        if preempted {
            suspend();
        }
    }

    /// What it has cost so far.
    #[must_use]
    pub fn totals(self) -> LockTotals {
        with(|vm| vm.spins[self.0].totals)
    }
}

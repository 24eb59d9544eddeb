//! What a machine has done so far.
#![forbid(unsafe_code)]

use crate::vm::with;

/// What the machine has done since it was switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Visible operations.
    pub operations: u64,
    /// Switches between threads.
    pub switches: u64,
    /// Wake-ups of sleeping threads.
    pub wakeups: u64,
    /// Transfers of cache lines.
    pub transfers: u64,
    /// How long accesses waited for lines that others were using.
    pub waited_ns: u64,
    /// The time that all CPUs were not idle, added up.
    pub busy_ns: u64,
    /// Threads created.
    pub threads: usize,
    /// The most visible operations that a thread has done while it held a lock of which they
    /// [count](crate::Held::count).
    pub longest_hold: u64,
    /// Bytes of the machine's memory that are in use, if the program's allocator is the
    /// [`Arena`](crate::Arena).
    pub memory: usize,
}

impl Totals {
    /// What was done from `before` until then; the longest hold and the memory are those of then.
    #[must_use]
    pub fn since(&self, before: &Totals) -> Totals {
        Totals {
            operations: self.operations - before.operations,
            switches: self.switches - before.switches,
            wakeups: self.wakeups - before.wakeups,
            transfers: self.transfers - before.transfers,
            waited_ns: self.waited_ns - before.waited_ns,
            busy_ns: self.busy_ns - before.busy_ns,
            threads: self.threads - before.threads,
            longest_hold: self.longest_hold,
            memory: self.memory,
        }
    }
}

/// What the machine has done so far. It costs the caller nothing.
#[must_use]
pub fn totals() -> Totals {
    with(|vm| Totals {
        operations: vm.operations,
        switches: vm.switches,
        wakeups: vm.wakeups,
        transfers: vm.lines.transfers,
        waited_ns: vm.lines.waited_ns,
        busy_ns: vm.busy_ns(),
        threads: vm.threads.len(),
        longest_hold: vm.longest_hold,
        memory: crate::arena::in_use(),
    })
}

/// The visible operations of each thread so far, in the order of creation.
#[must_use]
pub fn operations() -> Vec<u64> {
    with(|vm| vm.threads.iter().map(|thread| thread.operations).collect())
}

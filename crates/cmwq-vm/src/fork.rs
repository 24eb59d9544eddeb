//! A virtual process that forks. The host process forks with it: the child has a copy of all
//! memory, and of all threads only the one that forked.

use crate::events::NEVER;
use crate::os::visible;
use crate::thread::State;
use crate::vm::{Vm, with};
use std::sync::OnceLock;

/// What is called at a fork, on the thread that forks, as with `pthread_atfork`.
#[derive(Clone, Copy, Debug)]
pub struct ForkHandlers {
    /// Before it.
    pub before: fn(),
    /// After it, in the process that has forked.
    pub in_parent: fn(),
    /// After it, in the child.
    pub in_child: fn(),
}

// One set, in no vector: memory that this took would move all later allocations of the run.
static HANDLERS: OnceLock<ForkHandlers> = OnceLock::new();

/// Which of the two processes the caller is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// The one that has forked; the number of the child on the host.
    Parent(i32),
    /// The other one. It must end by `_exit`: what is on the host belongs to the parent.
    Child,
}

/// From now on these are called at each fork. Only the first call of a process counts.
pub fn at_fork(handlers: ForkHandlers) {
    // The first ones stay.
    let _ = HANDLERS.set(handlers);
}

/// The process forks. In the child the other threads no longer exist: what they have locked stays
/// locked, and what lies on their stacks stays as it is. The run of the parent goes on as if it had
/// no child.
///
/// The host process must have one thread, or the child must not use what another one may have locked.
///
/// # Errors
/// The host has no process left.
pub fn fork() -> std::io::Result<Forked> {
    let handlers = HANDLERS.get();
    if let Some(handlers) = handlers {
        (handlers.before)();
    }
    visible(14);
    with(|vm| {
        let cpu = vm.cpu;
        let cost = vm.computing(cpu, vm.costs.clone_ns);
        vm.cpus[cpu].clock += cost;
    });
    // SAFETY: the machine is memory of this one thread, which the child has too. By this function's
    // contract the child uses no lock of another thread.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        with(Vm::keep_current_thread);
        crate::weak::forked();
    }
    if let Some(handlers) = handlers {
        match pid {
            0 => (handlers.in_child)(),
            _ => (handlers.in_parent)(),
        }
    }
    match pid {
        ..0 => Err(std::io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        _ => Ok(Forked::Parent(pid)),
    }
}

impl Vm {
    /// All threads but the running one are gone, wherever they were.
    fn keep_current_thread(&mut self) {
        let now = self.now();
        for (number, thread) in self.threads.iter_mut().enumerate() {
            if number != self.tid.index() && thread.state != State::Exited {
                thread.state = State::Exited;
                thread.waking = false;
                thread.futex = None;
                // Nothing of it is dropped.
                std::mem::forget(thread.fiber.take());
                std::mem::forget(std::mem::take(&mut thread.locals));
            }
        }
        self.futexes.clear();
        self.probe = None;
        for cpu in 0..self.cpus.len() {
            let core = &mut self.cpus[cpu];
            core.queue.clear();
            core.reschedule = false;
            if cpu != self.cpu {
                core.current = None;
                core.masked = 0;
                core.spinning = false;
                core.idle_since = now;
                self.idle.insert(cpu);
                self.events.set_cpu(cpu, NEVER);
            }
        }
    }
}

//! Virtual threads.

use crate::set::Cpus;
use crate::stack::HostStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The number of a virtual thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tid(pub(crate) u32);

impl Tid {
    /// From 1 on, in the order of creation.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0 + 1
    }

    /// The thread of this [number](Self::number), which need not exist.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Tid> {
        number.checked_sub(1).map(Tid)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Runnable,
    Running,
    Blocked,
    Exited,
}

pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) state: State,
    /// Where it runs, or ran last.
    pub(crate) cpu: usize,
    pub(crate) allowed: Cpus,
    /// Computing time that is left before its next visible operation, while it does not run.
    pub(crate) remaining_ns: u64,
    /// Counts its sleeps, so that a time-out that comes late is recognised.
    pub(crate) sleeps: u64,
    pub(crate) timed_out: bool,
    /// The futex on which it sleeps.
    pub(crate) futex: Option<usize>,
    /// A wake-up came before it slept.
    pub(crate) woken: bool,
    /// A wake-up is on its way.
    pub(crate) waking: bool,
    pub(crate) vruntime_ns: u64,
    /// What the clock said last: it never goes back.
    pub(crate) last_clock: u64,
    pub(crate) ran_ns: u64,
    /// When it last left a CPU.
    pub(crate) left_at: u64,
    pub(crate) slice_ns: u64,
    pub(crate) nice: i32,
    /// How much longer each of its visible operations takes at most.
    pub(crate) lag_ns: u64,
    /// Where in the sources it accessed memory last, if that matters.
    pub(crate) place: u64,
    pub(crate) voluntary: i64,
    /// Its visible operations so far.
    pub(crate) operations: u64,
    /// It is at its end, and has dropped its values.
    pub(crate) ending: bool,
    pub(crate) locals: HashMap<usize, Box<dyn Any>>,
    pub(crate) fiber: Option<Box<Fiber>>,
}

/// The thread's own stack and where to go on.
pub(crate) struct Fiber {
    coroutine: Coroutine<(), (), (), HostStack>,
    /// The thread's way out, valid from its first resumption to its end.
    pub(crate) yielder: Rc<Cell<*const Yielder<(), ()>>>,
}

impl Fiber {
    /// A panic of `main` goes to `failed`.
    pub(crate) fn new(
        main: Box<dyn FnOnce()>,
        failed: impl FnOnce(Box<dyn Any + Send>) + 'static,
        stack: HostStack,
    ) -> Self {
        let yielder = Rc::new(Cell::new(std::ptr::null()));
        let place = yielder.clone();
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            place.set(yielder);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| {
                main();
                crate::locals::drop_locals();
            })) {
                failed(panic);
            }
        });
        Fiber { coroutine, yielder }
    }

    /// Goes on; `true`: the thread is at its end.
    #[inline]
    pub(crate) fn resume(&mut self) -> bool {
        matches!(self.coroutine.resume(()), CoroutineResult::Return(()))
    }

    /// The stack of a thread that has ended, for another one.
    pub(crate) fn into_stack(self) -> HostStack {
        self.coroutine.into_stack()
    }

    /// What is on the stack is not dropped: the machine was switched off.
    pub(crate) fn abandon(mut self) {
        if !self.coroutine.started() {
            // What it would begin with expects a machine when it is dropped.
            std::mem::forget(self);
        } else if !self.coroutine.done() {
            // SAFETY: nothing refers to what is on the stack any more, but memory that is leaked
            // with it: the machine does not go on, and its threads only borrow from what outlives
            // the machine or is theirs.
            unsafe { self.coroutine.force_reset() };
        }
    }
}

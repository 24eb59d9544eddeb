//! Vector clocks: what a thread knows of the others' steps.
#![forbid(unsafe_code)]

use std::rc::Rc;

/// How many steps of each thread happen before a point, and how many `SeqCst` stores a `SeqCst`
/// fence before that point has come after.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    steps: Vec<u32>,
    pub(super) seq_cst: u64,
}

/// One step of one thread. The zeroth step of a thread is known to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) thread: u32,
    pub(super) number: u32,
}

impl Clock {
    /// Whether the step happens before this point.
    #[inline]
    pub(super) fn knows(&self, step: Step) -> bool {
        let known = self.steps.get(step.thread as usize);
        step.number <= known.copied().unwrap_or(0)
    }

    /// The thread, whose clock this is, does a step.
    #[inline]
    pub(super) fn step(&mut self, thread: usize) -> Step {
        if self.steps.len() <= thread {
            self.steps.resize(thread + 1, 0);
        }
        self.steps[thread] += 1;
        Step {
            thread: thread as u32,
            number: self.steps[thread],
        }
    }

    /// What happens before `other` happens before this point from now on.
    pub(super) fn join(&mut self, other: &Clock) {
        if self.steps.len() < other.steps.len() {
            self.steps.resize(other.steps.len(), 0);
        }
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            *mine = (*mine).max(*theirs);
        }
        self.seq_cst = self.seq_cst.max(other.seq_cst);
    }
}

/// Both, if there are both.
pub(super) fn joined(one: Option<Rc<Clock>>, other: Option<&Rc<Clock>>) -> Option<Rc<Clock>> {
    match (one, other) {
        (Some(mut one), Some(other)) => {
            Rc::make_mut(&mut one).join(other);
            Some(one)
        }
        (one, other) => one.or_else(|| other.cloned()),
    }
}

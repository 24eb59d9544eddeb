//! What an operation of the corpus is.
#![forbid(unsafe_code)]

use super::world::World;

/// What an operation acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The reusable item.
    Item,
    /// The delayed item.
    Delayed,
    /// The item of a value.
    Field,
    /// The queue: what is accepted, active and flushed.
    Queue,
    /// The pools, and the threads that run items there.
    Pool,
    /// What the CPUs of several pods do with each other.
    Pods,
}

/// One of them.
pub struct Operation {
    /// On the command line.
    pub name: &'static str,
    /// What it acts on.
    pub on: &'static [Subject],
    /// Before all threads of the program begin, on the thread that does the operation.
    pub(super) before: fn(&World),
    pub(super) run: fn(&World),
}

pub(super) const fn op(name: &'static str, on: &'static [Subject], run: fn(&World)) -> Operation {
    Operation {
        name,
        on,
        before: |_| {},
        run,
    }
}

pub(super) const fn prepared(
    name: &'static str,
    on: &'static [Subject],
    before: fn(&World),
    run: fn(&World),
) -> Operation {
    Operation {
        name,
        on,
        before,
        run,
    }
}

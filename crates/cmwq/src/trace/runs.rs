//! Hooks that the library calls around every run of an item. They are for tools that follow which
//! thread sees what other threads did, such as ThreadSanitizer.
#![forbid(unsafe_code)]

use super::foreign::{Callee, Foreign};
use crate::sys::probe::{self, bits};
use std::sync::OnceLock;

/// Tells a [run hook](crate::observe::set_run_hooks) which item runs. Use the addresses only to
/// compare.
///
/// ```
/// use cmwq::observe::{ItemRun, function_name, set_run_hooks};
///
/// fn begin(run: ItemRun) {
///     println!("{} begins", function_name(run.func));
/// }
/// fn end(run: ItemRun) {
///     println!("{} has ended", function_name(run.func));
/// }
/// set_run_hooks(begin, end); // `false`: other hooks were set before
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ItemRun {
    /// The item's address.
    pub item: usize,
    /// The address of its function.
    pub func: usize,
    /// Its queue: [`LiveQueue::id`](crate::observe::LiveQueue::id).
    pub queue: usize,
}

struct Hooks {
    begin: Foreign<fn(ItemRun)>,
    end: Foreign<fn(ItemRun)>,
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Sets two hooks. From now on `begin` is called before the function of every item, on the thread
/// that runs it, and `end` is called after the function, before any thread that waits for the item
/// continues. Every item is then reported by itself, which makes items slower. `false`: hooks were
/// set before, and they stay.
///
/// The hooks must not use the library. If a hook panics, the library catches the panic and warns of
/// it once; the item runs all the same.
pub fn set_run_hooks(begin: fn(ItemRun), end: fn(ItemRun)) -> bool {
    let (begin, end) = (Foreign::new(begin), Foreign::new(end));
    let first = HOOKS.set(Hooks { begin, end }).is_ok();
    probe::set(bits::RUNS, true);
    first
}

fn hooks() -> Option<&'static Hooks> {
    match probe::switch() & bits::RUNS {
        0 => None,
        _ => HOOKS.get(),
    }
}

pub(in crate::trace) fn begin(item: usize, func: usize, queue: usize) {
    if let Some(hooks) = hooks() {
        let run = ItemRun { item, func, queue };
        hooks.begin.call(Callee::RunHook, |hook| hook(run));
    }
}

pub(in crate::trace) fn end(item: usize, func: usize, queue: usize) {
    if let Some(hooks) = hooks() {
        let run = ItemRun { item, func, queue };
        hooks.end.call(Callee::RunHook, |hook| hook(run));
    }
}

//! A `tracing` span around every run of an item: the feature `tracing`.
#![forbid(unsafe_code)]

use crate::sys::local::thread_local;
use crate::sys::symbol;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tracing::level_filters::LevelFilter;
use tracing::span::EnteredSpan;
use tracing::{Level, Metadata, Span};

const TARGET: &str = "cmwq";
const NAME: &str = "work";

/// A queue's name.
pub(crate) struct Named {
    pub(crate) name: Arc<str>,
    /// Whether the queue still exists. While this function is kept no other queue has the same id, which is an address.
    pub(crate) is_there: Box<dyn Fn() -> bool>,
}

/// Finds a queue of the process by its id.
static FIND: OnceLock<fn(usize) -> Option<Named>> = OnceLock::new();

/// How the engine finds queues, which are above this module.
pub(crate) fn find_queues_by(find: fn(usize) -> Option<Named>) {
    // All engines pass the same function.
    let _ = FIND.set(find);
}

/// The names that a thread has looked up.
#[derive(Default)]
struct Names {
    /// Of queues, by id.
    queues: HashMap<usize, Named>,
    /// Of functions.
    functions: HashMap<usize, Arc<str>>,
}

thread_local! {
    static NAMES: RefCell<Names> = RefCell::default();
}

impl Names {
    fn queue(&mut self, id: usize) -> Arc<str> {
        if let Some(queue) = self.queues.get(&id) {
            return queue.name.clone();
        }
        self.queues.retain(|_, queue| (queue.is_there)());
        let Some(queue) = FIND.get().and_then(|find| find(id)) else {
            return "".into();
        };
        let name = queue.name.clone();
        self.queues.insert(id, queue);
        name
    }

    fn function(&mut self, address: usize) -> Arc<str> {
        let name = || symbol::name_of(address).into();
        self.functions.entry(address).or_insert_with(name).clone()
    }
}

/// The result of `find`. A thread that is ending cannot keep it any more.
fn name(find: impl Fn(&mut Names) -> Arc<str>) -> Arc<str> {
    let kept = NAMES.try_with(|names| find(&mut names.borrow_mut()));
    kept.unwrap_or_else(|_| find(&mut Names::default()))
}

/// An item of `queue` begins; dropping the returned span ends it.
#[inline(always)]
pub(crate) fn enter(queue: usize, func: usize) -> Option<EnteredSpan> {
    #[cold]
    #[inline(never)]
    fn begin(queue: usize, func: usize) -> Option<EnteredSpan> {
        // The names are found only if a subscriber wants the span.
        let span = tracing::trace_span!(
            target: TARGET,
            NAME,
            queue = &*name(|names| names.queue(queue)),
            function = &*name(|names| names.function(func)),
            description = tracing::field::Empty,
        );
        (!span.is_disabled()).then(|| span.entered())
    }
    // One relaxed load of a line that is hardly ever written.
    match LevelFilter::current() >= Level::TRACE {
        true => begin(queue, func),
        false => None,
    }
}

/// Describes the item that the calling thread runs.
pub(crate) fn describe(description: &str) {
    let span = Span::current();
    let is_ours = |site: &Metadata<'_>| site.target() == TARGET && site.name() == NAME;
    if span.metadata().is_some_and(is_ours) {
        span.record("description", description);
    }
}

//! A `tracing` span around every run of an item: the feature `tracing`.
#![forbid(unsafe_code)]

use crate::sys::local::thread_local;
use crate::sys::names;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use tracing::level_filters::LevelFilter;
use tracing::span::EnteredSpan;
use tracing::{Level, Metadata, Span};

const TARGET: &str = "cmwq";
const NAME: &str = "work";

/// The name of a queue.
pub(crate) struct Named {
    pub(crate) name: Arc<str>,
    /// Whether the queue still exists. The id of a queue is an address. The function keeps the
    /// memory at that address, so no other queue gets the same id while the function exists.
    pub(crate) is_there: Box<dyn Fn() -> bool>,
}

/// Finds a queue of the process by its id.
static FIND: OnceLock<fn(usize) -> Option<Named>> = OnceLock::new();

/// Sets how queues are found. The engine passes the function, since queues belong to a layer above
/// this module.
pub(crate) fn find_queues_by(find: fn(usize) -> Option<Named>) {
    // All engines pass the same function, so only the first call has to succeed.
    let _ = FIND.set(find);
}

/// The names that one thread has looked up.
#[derive(Default)]
struct Names {
    /// The names of queues, by their ids.
    queues: HashMap<usize, Named>,
    /// The names of functions, by their addresses.
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
        let name = || names::name_of(address).into();
        self.functions.entry(address).or_insert_with(name).clone()
    }
}

/// Looks a name up with `find`. A thread that is ending has no table any more, so it does not keep
/// the name.
fn name(find: impl Fn(&mut Names) -> Arc<str>) -> Arc<str> {
    let kept = NAMES.try_with(|names| find(&mut names.borrow_mut()));
    kept.unwrap_or_else(|_| find(&mut Names::default()))
}

/// Begins the span of an item of `queue`. Dropping the returned value ends it.
#[inline(always)]
pub(crate) fn enter(queue: usize, func: usize) -> Option<EnteredSpan> {
    #[cold]
    #[inline(never)]
    fn begin(queue: usize, func: usize) -> Option<EnteredSpan> {
        // The names are looked up only if a subscriber wants the span.
        let span = tracing::trace_span!(
            target: TARGET,
            NAME,
            queue = &*name(|names| names.queue(queue)),
            function = &*name(|names| names.function(func)),
            description = tracing::field::Empty,
        );
        (!span.is_disabled()).then(|| span.entered())
    }
    // This check is one relaxed load from a cache line that is hardly ever written.
    match LevelFilter::current() >= Level::TRACE {
        true => begin(queue, func),
        false => None,
    }
}

/// Adds a description to the span of the item that the calling thread runs.
pub(crate) fn describe(description: &str) {
    let span = Span::current();
    let is_ours = |site: &Metadata<'_>| site.target() == TARGET && site.name() == NAME;
    if span.metadata().is_some_and(is_ours) {
        span.record("description", description);
    }
}

//! All engines of the process.

use super::core::{Engine, EngineCore};
use crate::sys::fork::{ProcessLock, ProcessMutex};
use std::sync::{Arc, Weak};

/// All engines of the process, the oldest first.
static ENGINES: ProcessMutex<Vec<Weak<EngineCore>>> =
    ProcessMutex::new(ProcessLock::Engines, Vec::new(), || ENGINES.hold());

pub(super) fn enter(core: &Arc<EngineCore>) {
    let mut engines = ENGINES.lock();
    engines.retain(|engine| engine.strong_count() > 0);
    engines.push(Arc::downgrade(core));
    #[cfg(all(feature = "tracing", not(cmwq_loom)))]
    crate::trace::spans::find_queues_by(find_queue);
}

/// Finds a queue of any engine by its id, for the spans of the feature `tracing`.
#[cfg(all(feature = "tracing", not(cmwq_loom)))]
fn find_queue(id: usize) -> Option<crate::trace::spans::Named> {
    let mut queues = Engine::all().into_iter().flat_map(|engine| engine.queues());
    let queue = queues.find(|queue| queue.id() == id)?;
    let weak = Arc::downgrade(&queue);
    Some(crate::trace::spans::Named {
        name: queue.name().into(),
        is_there: Box::new(move || weak.strong_count() > 0),
    })
}

impl Engine {
    /// Returns all engines of the process that are in use, the oldest first: the
    /// [global](Self::global) one, if it was built, and those that the program has built for
    /// itself. In the child of a fork these are the engines that the child has built.
    pub fn all() -> Vec<Engine> {
        // The handles are made with the lock held, and dropped after it was released: one of them
        // may be the last handle of its engine, and the end of an engine must not run under it.
        let all: Vec<Engine> = ENGINES
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .map(Engine)
            .collect();
        all.into_iter()
            .filter(|engine| !engine.is_inherited())
            .collect()
    }

    /// The number of this engine. No other engine of the process has or had the same number.
    pub fn serial(&self) -> u64 {
        self.0.serial
    }
}

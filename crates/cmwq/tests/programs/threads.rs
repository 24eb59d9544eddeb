//! Which threads run items: those of a queue's own, and on a queue of workers only none that does
//! something else meanwhile.

use super::broken::quiet_panic;
use super::library::WorkerThreads;
use super::library::raw::current_is_rescuer;
use super::model::lock;
use super::{Broken, os};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

/// How deep each thread is in steps of an issuer and in items.
#[derive(Default)]
pub(crate) struct Doing(Mutex<BTreeMap<u64, usize>>);

/// The calling thread does something.
pub(crate) struct Does(Arc<Doing>);

impl Doing {
    /// Returns how many things the thread did already.
    pub(crate) fn begin(self: &Arc<Self>) -> (Does, usize) {
        let mut doing = lock(&self.0);
        let depth = doing.entry(os::thread()).or_default();
        *depth += 1;
        let before = *depth - 1;
        drop(doing);
        (Does(self.clone()), before)
    }
}

impl Drop for Does {
    fn drop(&mut self) {
        let mut doing = lock(&self.0.0);
        let thread = os::thread();
        let depth = doing.get_mut(&thread).expect("it has begun on this thread");
        *depth -= 1;
        if *depth == 0 {
            doing.remove(&thread);
        }
    }
}

/// Threads of some queues' own, and which of them there are.
pub(crate) struct Own {
    pub(crate) threads: WorkerThreads,
    alive: Arc<Mutex<BTreeSet<u64>>>,
}

impl Own {
    pub(crate) fn new(broken: &Arc<Broken>) -> Own {
        let alive: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
        let hook = |starts: bool| {
            let (alive, broken) = (alive.clone(), broken.clone());
            move || {
                let thread = os::thread();
                let mut alive = lock(&alive);
                let is_right = match starts {
                    true => alive.insert(thread),
                    false => alive.remove(&thread),
                };
                let left = alive.len();
                drop(alive);
                broken.expect(is_right, || {
                    format!("a hook twice or without the other ({starts})")
                });
                if left % 4 == 3 {
                    quiet_panic();
                }
            }
        };
        let (starts, exits) = (hook(true), hook(false));
        Own {
            threads: WorkerThreads::new()
                .on_start(move |_| starts())
                .on_exit(move |_| exits())
                .name("kworker/own%p:%i"),
            alive,
        }
    }

    fn has_caller(&self) -> bool {
        lock(&self.alive).contains(&os::thread())
    }

    /// Whether each thread that has started has ended.
    pub(crate) fn are_gone(&self) -> bool {
        lock(&self.alive).is_empty()
    }
}

/// Where the items of a queue may run.
#[derive(Clone)]
pub(crate) struct Runners {
    pub(crate) doing: Arc<Doing>,
    /// Not on a thread that does something else meanwhile.
    pub(crate) workers_only: bool,
    pub(crate) own: Option<Arc<Own>>,
    /// The thread of its rescuer, if it has one, once an item has run there.
    pub(crate) rescuer: Option<Arc<OnceLock<u64>>>,
}

impl Runners {
    /// An item begins on the calling thread.
    pub(crate) fn enter(&self, broken: &Broken, name: &str) -> Does {
        let (does, depth) = self.doing.begin();
        broken.expect(depth == 0 || !self.workers_only, || {
            format!("{name}: an item for workers only runs on a thread that does something else")
        });
        let right = self.own.as_ref().is_none_or(|own| own.has_caller());
        broken.expect(right, || {
            format!("{name}: an item runs on a thread that is not the queue's own")
        });
        broken.expect(self.may_rescue(), || {
            format!("{name}: an item runs on the rescuer of another queue")
        });
        does
    }

    /// Whether the calling thread is no rescuer, or the queue's own.
    fn may_rescue(&self) -> bool {
        !current_is_rescuer()
            || self
                .rescuer
                .as_ref()
                .is_some_and(|rescuer| *rescuer.get_or_init(os::thread) == os::thread())
    }
}

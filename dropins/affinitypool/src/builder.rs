//! What a pool is to be like.

use crate::{MAX_THREADS, Threadpool};
use cmwq::{WorkerThreads, Workqueue};
use std::sync::Arc;
use std::thread::available_parallelism;

/// As in the original, where neither a number nor a thread for each CPU is asked for.
const DEFAULT_THREADS: usize = 2;

/// Makes a [`Threadpool`].
#[derive(Clone, Default)]
pub struct Builder {
    threads: Option<usize>,
    name: Option<String>,
    stack_size: Option<usize>,
    one_per_cpu: bool,
}

impl Builder {
    /// Two threads with the system's stacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many threads, 1 to [`MAX_THREADS`].
    pub fn worker_threads(mut self, num_threads: usize) -> Self {
        self.threads = Some(num_threads);
        self
    }

    /// The name of its threads.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The size of their stacks in bytes.
    pub fn thread_stack_size(mut self, size: usize) -> Self {
        self.stack_size = Some(size);
        self
    }

    /// As many threads as CPUs that the process may use.
    pub fn thread_per_core(mut self, enabled: bool) -> Self {
        self.one_per_cpu = enabled;
        self
    }

    /// Changes nothing: a workqueue has no shards of that kind.
    pub fn shards(self, _shards: usize) -> Self {
        self
    }

    /// The pool.
    ///
    /// # Panics
    /// If the system has no threads for it, or none with such stacks.
    pub fn build(self) -> Threadpool {
        let threads = match (self.threads, self.one_per_cpu) {
            (Some(threads), _) => threads,
            (None, true) => available_parallelism().map_or(1, usize::from),
            (None, false) => DEFAULT_THREADS,
        };
        let threads = threads.clamp(1, MAX_THREADS);
        let mut queue = Workqueue::builder(self.name.as_deref().unwrap_or("affinitypool"));
        if self.name.is_some() || self.stack_size.is_some() {
            let mut asked = WorkerThreads::new();
            if let Some(name) = self.name {
                // Of a workqueue's own pattern for names only the sign % is special.
                asked = asked.name(&name.replace('%', "%%"));
            }
            if let Some(bytes) = self.stack_size {
                asked = asked.stack_size(bytes);
            }
            queue = queue.worker_threads(asked);
        }
        let queue = queue.max_active(threads).build();
        let queue = queue.unwrap_or_else(|error| panic!("no workqueue for a pool: {error}"));
        Threadpool {
            queue: Arc::new(queue),
            threads,
        }
    }
}

//! What is handed to a pool: a target and a number. Two words and a half, copied, no allocation of its own.

pub(crate) use cmwq_loads::{Job, Target};

/// A value that lives until the process ends.
pub(crate) fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A pool that items are queued on.
pub(crate) trait Pool: Sync {
    /// Whether an item is an object that can be queued once at a time, and again when it has run.
    const REUSABLE: bool = false;
    /// What is queued. Most pools take the job itself; one with reusable items prepares them once.
    type Item: Send;
    fn item(&self, job: Job) -> Self::Item;
    fn submit(&self, item: &Self::Item);
    /// Queues all of them, by the means that the pool has for that.
    fn submit_all(&self, items: &[Self::Item]) {
        items.iter().for_each(|item| self.submit(item));
    }
}

/// A pool whose items come with a handle to wait on.
pub(crate) trait Joining: Sync {
    type Handle: Send;
    fn spawn(&self, job: Job) -> Self::Handle;
    fn join(&self, handle: Self::Handle);
}

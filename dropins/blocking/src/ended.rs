//! Closures that have run behind a backlog: their tasks complete together, so that one wake-up of
//! the thread that awaits them brings it several results.

use async_task::Runnable;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};

/// Runs `f`. Behind a backlog the task [completes later](complete_later): it asks to be scheduled
/// while it runs, and only then.
pub(crate) fn run<T>(f: impl FnOnce() -> T) -> impl Future<Output = T> {
    let (mut f, mut result) = (Some(f), None);
    poll_fn(move |cx| {
        if let Some(f) = f.take() {
            result = Some(f());
            if cmwq::raw::defers_wakes() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(result.take().expect("it is polled until it is ready"))
    })
}

/// Tasks whose closures have run.
struct Ended(Mutex<Vec<Runnable>>);

/// One list for all: what wakes it is entered in one place of the pool, however many closures have run.
static ENDED: LazyLock<Arc<Ended>> = LazyLock::new(|| Arc::new(Ended(Mutex::default())));

impl Wake for Ended {
    fn wake(self: Arc<Self>) {
        let mut ended = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = mem::take(&mut *ended);
        drop(ended);
        // A waker that panics aborts the process, as with the original.
        for task in tasks {
            task.run();
        }
    }
}

/// The closure of this task has run.
pub(crate) fn complete_later(task: Runnable) {
    let mut ended = ENDED.0.lock().unwrap_or_else(PoisonError::into_inner);
    ended.push(task);
    // The others come with the first.
    let first = ended.len() == 1;
    drop(ended);
    if first {
        cmwq::raw::wake_deferred(Waker::from(ENDED.clone()));
    }
}

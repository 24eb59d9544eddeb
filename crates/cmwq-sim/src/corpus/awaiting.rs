//! Awaits what the library returns, as an executor of one thread does.
#![forbid(unsafe_code)]

use crate::explore::os::sleep_until;
use cmwq_vm::{Tid, os};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// Wakes a thread of the program. No other thread of the machine sees the flag: they all share one OS thread.
struct Wakes {
    thread: Tid,
    called: Arc<AtomicBool>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.called.store(true, Relaxed);
        os::wake(self.thread, None);
    }
}

/// Polls until the result is there, and sleeps until a waker is called. As a task does that awaits
/// several things, it polls more often than it is woken, each time with another waker.
pub(super) fn awaited<F: Future + Unpin>(future: F) -> F::Output {
    awaited_by(4, future)
}

/// So many polls, and then it sleeps.
pub(super) fn awaited_by<F: Future + Unpin>(polls: usize, mut future: F) -> F::Output {
    let (thread, called) = (os::current(), Arc::new(AtomicBool::new(false)));
    loop {
        for _ in 0..polls {
            let called = called.clone();
            let waker = Waker::from(Arc::new(Wakes { thread, called }));
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(result) = polled {
                return result;
            }
        }
        sleep_until(|| called.swap(false, Relaxed));
    }
}

/// Polls once, so that a flush begins. One that is over says so again when it is polled again.
pub(super) fn begun<F: Future + Unpin>(mut future: F) -> F {
    let mut context = Context::from_waker(Waker::noop());
    let _ = Pin::new(&mut future).poll(&mut context);
    future
}

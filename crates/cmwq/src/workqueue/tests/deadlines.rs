//! Waits with a deadline, at moments that a test hardly meets by chance.
//!
//! Deliberate errors that these tests have found: the loop of `flush` does not ask whether the time
//! is over (the test hangs); the wait for an entry begins anew after each wake-up (the test hangs).

#![allow(unsafe_code, reason = "claims an item")]

use crate::CompletionQueue;
use crate::error::FlushError;
use crate::item::{Pending, RawWork};
use crate::pool::stubs::nothing;
use crate::sys::park;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(20);
const FAR: Duration = Duration::from_secs(60);

/// Calls `wait` on a thread of its own, and returns its result if it ends within a minute.
/// Meanwhile it calls `disturb` again and again.
fn ends<R: Send + 'static>(
    wait: impl FnOnce() -> R + Send + 'static,
    disturb: impl Fn(),
) -> Option<R> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(wait()));
    let pause = Duration::from_micros(500);
    let rounds = FAR.as_micros() / pause.as_micros();
    (0..rounds).find_map(|_| {
        disturb();
        match told.recv_timeout(pause) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the wait has panicked"),
        }
    })
}

#[test]
fn the_flush_of_an_item_that_does_not_arrive_anywhere_ends_when_its_time_is_over() {
    let item = Arc::new(RawWork::new(nothing));
    // SAFETY: it is not queued, and given up while the item is there.
    let claimed = unsafe { Pending::claim(NonNull::from(&*item)) };
    let Ok(on_its_way) = claimed else {
        panic!("it is idle")
    };
    let flushed = item.clone();
    let result = ends(move || flushed.flush_timeout(SHORT), || ());
    on_its_way.release();
    assert_eq!(result, Some(Err(FlushError::TimedOut)));
    assert_eq!(item.flush_timeout(SHORT), Ok(false));
}

#[test]
fn wake_ups_in_vain_do_not_prolong_the_wait_for_an_entry() {
    let queue = Arc::new(CompletionQueue::<u64>::new());
    let waits = queue.clone();
    let wait = move || waits.wait_timeout(1, &mut Vec::new(), SHORT);
    let in_vain = || park::wake_all_at(&queue.inner.epoch);
    assert_eq!(ends(wait, in_vain), Some(0));
}

//! Handles of closures, and scopes: joined for a while, awaited with wakers that change, aborted;
//! items that borrow.

use super::bodies::sleep_until;
use super::issuer::{Issuer, join, next_of};
use super::library::types::Chunks;
use super::library::{self, JoinError, JoinHandle};
use super::world::Queue;
use super::{Broken, Random, os};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// How often a waker was called, and how often it was registered at most.
#[derive(Default)]
pub(crate) struct Wakes {
    calls: AtomicUsize,
    polls: AtomicUsize,
}

impl Wakes {
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, SeqCst);
    }
}

/// Awaits the handle, polling it with several wakers; or drops it in the middle, and its closure
/// runs all the same.
fn await_handle(broken: &Broken, random: &mut Random, value: u64, handle: JoinHandle<u64>) {
    let mut handle = pin!(handle);
    let mut wakers = vec![Arc::<Wakes>::default()];
    loop {
        if random.one_in(4) {
            wakers.push(Arc::default());
        }
        let newest = wakers.last().expect("there is one").clone();
        newest.polls.fetch_add(1, SeqCst);
        let before = newest.calls.load(SeqCst);
        let waker = Waker::from(newest.clone());
        match handle.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(result)) => {
                broken.expect(result == value, || {
                    "an awaited handle has another closure's value".into()
                });
                break;
            }
            Poll::Ready(Err(_)) => break,
            Poll::Pending if random.one_in(12) => break,
            Poll::Pending if random.one_in(4) => {
                os::sleep(Duration::from_micros(random.below(40) as u64));
            }
            // Asleep in nothing of the library's.
            Poll::Pending => sleep_until(Duration::from_micros(2), || {
                newest.calls.load(SeqCst) > before
            }),
        }
    }
    for wakes in &wakers {
        let (calls, polls) = (wakes.calls.load(SeqCst), wakes.polls.load(SeqCst));
        broken.expect(calls <= polls, || {
            format!("a waker was called {calls} times, and registered {polls} times at most")
        });
    }
}

impl Issuer {
    /// Waits for the handle's closure, in one of the ways that there are, or gives up.
    pub(crate) fn wait_for(&mut self, value: u64, mut handle: JoinHandle<u64>) {
        let broken = self.world.broken.clone();
        match self.random.below(6) {
            0 | 1 => await_handle(&broken, &mut self.random, value, handle),
            2 => {
                let timeout = Duration::from_micros(self.random.below(200) as u64);
                for _ in 0..1 + self.random.below(4) {
                    if let Some(result) = handle.join_timeout(timeout) {
                        let is_right = result.is_err() || result.is_ok_and(|got| got == value);
                        broken.expect(is_right, || {
                            "a handle has another closure's value after a time-out".into()
                        });
                        return;
                    }
                }
                // Joined all the same, or dropped.
                if self.random.one_in(2) {
                    join(&broken, value, handle);
                }
            }
            _ => join(&broken, value, handle),
        }
    }

    /// Aborts the closure. If it had not begun it never runs, and the handle says so.
    pub(crate) fn abort(&mut self, queue: &Queue, handle: JoinHandle<u64>) {
        if !handle.abort() {
            return;
        }
        let mine = self.mine.entry(queue.number).or_default();
        for shots in [&queue.shots, &mine.shots] {
            shots.aborted.fetch_add(1, Relaxed);
        }
        let is_aborted = matches!(handle.join(), Err(JoinError::Aborted));
        let name = &queue.name;
        self.world.broken.expect(is_aborted, || {
            format!("{name}: an aborted closure has another result")
        });
    }

    /// Items of a scope, and of a parallel loop, borrow from this function. All have ended when the
    /// call returns.
    pub(crate) fn borrow(&mut self, queue: &Arc<Queue>) {
        let (count, ended) = (self.random.below(12), AtomicUsize::new(0));
        // A closure may panic, and a queue that drains refuses.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            library::scope(&queue.wq, |scope| {
                for _ in 0..count {
                    let value = self.random.bits();
                    let (next, number) = next_of(queue, 0);
                    let named = queue.lanes.len() == 1;
                    let closure = self.closure(queue, 0, number, named, value);
                    let counts = CountsAtEnd(&ended);
                    scope.spawn(move || {
                        let _counts = counts;
                        closure();
                    });
                    drop(next);
                }
            });
        }));
        let (name, broken) = (&queue.name, &self.world.broken);
        let got = ended.load(Relaxed);
        broken.expect(got == count, || {
            format!("{name}: {got} of {count} items of a scope have ended when it returns")
        });
        let len = self.random.below(300);
        let visits: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
        let chunks = Chunks {
            min_chunk: self.random.below(20),
            max_threads: self.random.below(5),
        };
        queue.wq.for_each_chunk(0..len, chunks, |chunk| {
            os::compute(chunk.len() as u64 * 50);
            for at in chunk {
                visits[at].fetch_add(1, Relaxed);
            }
        });
        let once = visits.iter().all(|visits| visits.load(Relaxed) == 1);
        broken.expect(once, || {
            format!("{name}: a parallel loop did not visit each number once")
        });
    }
}

/// Counts when it is dropped: at the end of its closure, or with a closure that was refused.
struct CountsAtEnd<'a>(&'a AtomicUsize);

impl Drop for CountsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

//! What a job sends to its `Unblock`, item by item. The receiver takes all that is there at a time,
//! and goes through it without a lock; neither side wakes the other for each item.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Nothing panics under the lock.
struct Between<T> {
    sent: VecDeque<T>,
    /// Wakes the task that waits for room.
    sender: Option<Waker>,
    /// Wakes the task that waits for an item.
    receiver: Option<Waker>,
    /// One end is gone.
    closed: bool,
}

type Shared<T> = Arc<Mutex<Between<T>>>;

fn lock<T>(shared: &Shared<T>) -> MutexGuard<'_, Between<T>> {
    shared.lock().expect("nothing panics under the lock")
}

pub(crate) struct Sender<T> {
    shared: Shared<T>,
    /// How many items may be sent and not taken: half of what may be between, since the receiver
    /// has as many at most.
    room: usize,
}

pub(crate) struct Receiver<T> {
    shared: Shared<T>,
    /// Never locked: only a `&mut Receiver` uses it. The lock makes the receiver `Sync` if its
    /// items are `Send`.
    taken: Mutex<VecDeque<T>>,
}

/// Two ends with at most `cap` items between. Panics if that is 0.
pub(crate) fn channel<T>(cap: usize) -> (Sender<T>, Receiver<T>) {
    assert!(cap > 0, "an item needs room");
    let shared = Arc::new(Mutex::new(Between {
        sent: VecDeque::new(),
        sender: None,
        receiver: None,
        closed: false,
    }));
    let sender = Sender {
        shared: shared.clone(),
        room: (cap / 2).max(1),
    };
    let taken = Mutex::default();
    (sender, Receiver { shared, taken })
}

impl<T> Sender<T> {
    /// `false`: the receiver is gone.
    pub(crate) async fn send(&self, item: T) -> bool {
        let mut item = Some(item);
        poll_fn(|cx| self.poll_send(&mut item, cx)).await
    }

    fn poll_send(&self, item: &mut Option<T>, cx: &mut Context<'_>) -> Poll<bool> {
        let mut between = lock(&self.shared);
        if between.closed {
            return Poll::Ready(false);
        }
        if between.sent.len() >= self.room {
            between.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        between.sent.extend(item.take());
        let receiver = between.receiver.take();
        drop(between);
        receiver.into_iter().for_each(Waker::wake);
        Poll::Ready(true)
    }
}

impl<T> Receiver<T> {
    /// The next item; `None` when the sender is gone and there are no more.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let taken = self.taken.get_mut().expect("it is never locked");
        if let Some(item) = taken.pop_front() {
            return Poll::Ready(Some(item));
        }
        let mut between = lock(&self.shared);
        std::mem::swap(taken, &mut between.sent);
        let next = taken.pop_front();
        if next.is_none() && !between.closed {
            between.receiver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let sender = between.sender.take();
        drop(between);
        sender.into_iter().for_each(Waker::wake);
        Poll::Ready(next)
    }
}

/// Tells the other end.
fn close<T>(shared: &Shared<T>, other: fn(&mut Between<T>) -> Option<Waker>) {
    let mut between = lock(shared);
    between.closed = true;
    let other = other(&mut between);
    drop(between);
    other.into_iter().for_each(Waker::wake);
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        close(&self.shared, |between| between.receiver.take());
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        close(&self.shared, |between| between.sender.take());
        // Items may be anything: they are dropped with the lock free.
        let sent = std::mem::take(&mut lock(&self.shared).sent);
        drop(sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::block_on;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn at_most_as_many_as_were_asked_for_are_between() {
        for cap in [1, 2, 3, 8] {
            let (sender, mut receiver) = channel(cap);
            let woken = [(); 2].map(|()| Arc::new(Woken::default()));
            let wakers = woken.each_ref().map(|woken| Waker::from(woken.clone()));
            let [mut to_send, mut to_take] = wakers.each_ref().map(Context::from_waker);
            let mut fill =
                || (0..).find(|&nth| sender.poll_send(&mut Some(nth), &mut to_send).is_pending());
            let count = || woken.each_ref().map(|woken| woken.0.load(SeqCst));
            assert_eq!(receiver.poll_next(&mut to_take), Poll::Pending);
            let room = fill().expect("it is full");
            assert!(room >= 1 && 2 * room <= cap.max(2));
            assert_eq!(count(), [0, 1], "once for all of them");
            for nth in 0..room {
                assert_eq!(receiver.poll_next(&mut to_take), Poll::Ready(Some(nth)));
            }
            assert_eq!(count(), [1, 1], "there is room again");
            assert_eq!(fill(), Some(room));
        }
    }

    #[test]
    fn all_that_was_sent_comes_in_order_and_then_the_end() {
        let (sender, mut receiver) = channel(7);
        let thread = std::thread::spawn(move || {
            block_on(async {
                for nth in 0..100_000 {
                    assert!(sender.send(nth).await);
                }
            });
        });
        block_on(async {
            for nth in 0..100_000 {
                assert_eq!(poll_fn(|cx| receiver.poll_next(cx)).await, Some(nth));
            }
            assert_eq!(poll_fn(|cx| receiver.poll_next(cx)).await, None);
        });
        thread.join().expect("no panic");
    }

    #[test]
    fn a_sender_that_waits_for_room_learns_that_the_receiver_is_gone() {
        let (sender, receiver) = channel(1);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut cx = Context::from_waker(&waker);
        let item = Arc::new(());
        let mut send = || sender.poll_send(&mut Some(item.clone()), &mut cx);
        assert_eq!(send(), Poll::Ready(true));
        assert_eq!(send(), Poll::Pending);
        drop(receiver);
        assert_eq!(woken.0.load(SeqCst), 1);
        assert_eq!(send(), Poll::Ready(false));
        assert_eq!(
            Arc::strong_count(&item),
            1,
            "an item that the receiver has not taken is dropped"
        );
    }
}

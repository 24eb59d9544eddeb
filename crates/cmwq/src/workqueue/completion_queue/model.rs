//! Posting, arming and draining under the model checker. It shows that no entry is lost, that no
//! owner sleeps while there is an entry, and that an owner sees what a poster did.

use super::outlook::RunsHere;
use super::*;
use crate::pool::as_item;
use crate::pool::model::{Touched, explore};
use crate::sys::park::Parker;
use loom::thread;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

type Queue = CompletionQueue<Arc<Touched>>;

fn queue() -> Queue {
    CompletionQueue::builder()
        .eventfd()
        .build()
        .expect("a modelled bell")
}

/// Posts entries with these tokens. The poster touches the value of each entry before it posts the
/// entry, and the owner touches it after it has taken the entry.
fn posting(queue: &Queue, tokens: std::ops::Range<u64>) -> thread::JoinHandle<()> {
    let poster = queue.poster();
    thread::spawn(move || {
        for token in tokens {
            let touched = Touched::new();
            assert_eq!(touched.touch(), 0);
            assert!(poster.post(token, touched).is_ok());
        }
    })
}

fn tokens(entries: Vec<Completed<Arc<Touched>>>) -> Vec<u64> {
    let token = |entry: Completed<Arc<Touched>>| {
        let touched = entry.result.expect("it was posted");
        assert_eq!(touched.touch(), 1);
        entry.token
    };
    entries.into_iter().map(token).collect()
}

/// An event loop that runs until it has `count` entries.
fn poll_for(queue: &Queue, count: usize, max: usize) -> Vec<u64> {
    let mut entries = Vec::new();
    while entries.len() < count {
        if queue.drain(max, &mut entries) == 0 && queue.arm() {
            queue.bell().poll();
        }
    }
    tokens(entries)
}

#[test]
fn an_owner_that_polls_gets_every_entry_in_order() {
    for max in [1, 9] {
        explore(3, move || {
            let queue = queue();
            let poster = posting(&queue, 0..3);
            assert_eq!(poll_for(&queue, 3, max), [0, 1, 2]);
            poster.join().unwrap();
        });
    }
}

#[test]
fn an_owner_that_polls_gets_the_entries_of_two_posters() {
    explore(3, || {
        let queue = queue();
        let posters = [posting(&queue, 0..2), posting(&queue, 7..8)];
        let mut got = poll_for(&queue, 3, 9);
        got.sort_unstable();
        assert_eq!(got, [0, 1, 7]);
        for poster in posters {
            poster.join().unwrap();
        }
    });
}

#[test]
fn an_owner_that_waits_gets_the_entries_of_two_posters() {
    explore(2, || {
        let queue = queue();
        let posters = [posting(&queue, 0..2), posting(&queue, 7..8)];
        let mut entries = Vec::new();
        while entries.len() < 3 {
            assert!(queue.wait(9, &mut entries) > 0);
        }
        let mut got = tokens(entries);
        got.sort_unstable();
        assert_eq!(got, [0, 1, 7]);
        for poster in posters {
            poster.join().unwrap();
        }
    });
}

#[test]
fn two_owners_that_poll_get_one_entry_each() {
    explore(2, || {
        let queue = queue();
        let poster = posting(&queue, 0..2);
        // This owner takes one entry and is dropped.
        let other = queue.clone();
        let other = thread::spawn(move || poll_for(&other, 1, 1));
        let mut got = poll_for(&queue, 1, 1);
        drop(queue);
        got.extend(other.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
        poster.join().unwrap();
    });
}

#[test]
fn of_two_owners_one_polls_and_one_waits() {
    explore(2, || {
        let queue = queue();
        let poster = posting(&queue, 0..2);
        let other = queue.clone();
        let other = thread::spawn(move || {
            let mut entries = Vec::new();
            assert_eq!(other.wait(1, &mut entries), 1);
            tokens(entries)
        });
        let mut got = poll_for(&queue, 1, 1);
        got.extend(other.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
        poster.join().unwrap();
    });
}

#[test]
fn an_armed_owner_that_goes_away_leaves_its_signal_to_the_other() {
    explore(3, || {
        let queue = queue();
        let poster = posting(&queue, 0..1);
        let other = queue.clone();
        let other = thread::spawn(move || poll_for(&other, 1, 1));
        let _ = queue.arm();
        drop(queue);
        assert_eq!(other.join().unwrap(), [0]);
        poster.join().unwrap();
    });
}

#[test]
fn a_waiter_that_goes_away_leaves_the_mark_to_the_other() {
    explore(3, || {
        let queue = queue();
        let poster = posting(&queue, 0..2);
        let other = queue.clone();
        // The other owner sleeps, and goes away without taking an entry, like a thread whose
        // timeout has passed.
        let other = thread::spawn(move || other.sleep(None));
        let mut entries = Vec::new();
        while entries.len() < 2 {
            assert!(queue.wait(1, &mut entries) > 0);
        }
        assert_eq!(tokens(entries), [0, 1]);
        // The post succeeds whether the other owner sleeps or not.
        assert!(queue.poster().post(2, Touched::new()).is_ok());
        other.join().unwrap();
        poster.join().unwrap();
    });
}

#[test]
fn an_owner_that_goes_away_loses_what_is_posted_and_nothing_else() {
    explore(3, || {
        let queue = queue();
        let poster = queue.poster();
        let touched = [Touched::new(), Touched::new()];
        let posting = thread::spawn({
            let touched = touched.clone();
            move || {
                for each in touched {
                    let _ = poster.post(0, each);
                }
            }
        });
        drop(queue);
        posting.join().unwrap();
        // All entries are dropped, whether they were taken, ready or only posted.
        assert_eq!(touched.map(|each| Arc::strong_count(&each)), [1, 1]);
    });
}

/// Awaits `count` entries in a task, on an executor of one thread, and returns their tokens.
fn await_entries(queue: &Queue, count: usize) -> Vec<u64> {
    struct Unpark(Parker);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let unpark = std::sync::Arc::new(Unpark(Parker::new()));
    let waker = Waker::from(unpark.clone());
    let mut context = Context::from_waker(&waker);
    let mut entries = Vec::new();
    while entries.len() < count {
        match queue.poll_next(&mut context) {
            Poll::Ready(entry) => entries.push(entry),
            Poll::Pending => unpark.0.park(),
        }
    }
    tokens(entries)
}

#[test]
fn an_owner_that_awaits_entries_gets_those_of_two_posters() {
    explore(3, || {
        let queue = queue();
        let posters = [posting(&queue, 0..2), posting(&queue, 7..8)];
        let mut got = await_entries(&queue, 3);
        got.sort_unstable();
        assert_eq!(got, [0, 1, 7]);
        for poster in posters {
            poster.join().unwrap();
        }
    });
}

#[test]
fn a_waiter_that_goes_away_leaves_the_mark_to_a_task() {
    explore(3, || {
        let queue = queue();
        let poster = posting(&queue, 0..2);
        let other = queue.clone();
        let other = thread::spawn(move || other.sleep(None));
        assert_eq!(await_entries(&queue, 2), [0, 1]);
        // The post succeeds whether the other owner sleeps or not.
        assert!(queue.poster().post(2, Touched::new()).is_ok());
        other.join().unwrap();
        poster.join().unwrap();
    });
}

/// Its destructor touches something.
struct TouchesAtTheEnd(Arc<Touched>);

impl Drop for TouchesAtTheEnd {
    fn drop(&mut self) {
        self.0.touch();
    }
}

#[test]
fn what_an_owner_did_comes_before_the_entries_that_are_left_are_dropped() {
    explore(3, || {
        let queue = CompletionQueue::new();
        let touched = Touched::new();
        let entry = TouchesAtTheEnd(touched.clone());
        assert!(queue.post(1, entry).is_ok());
        let other = queue.clone();
        let owner = thread::spawn(move || {
            touched.touch();
            drop(other);
        });
        // The checker takes a thread's first step after a spawn to come before the new thread.
        drop(queue.clone());
        drop(queue);
        owner.join().unwrap();
    });
}

#[test]
fn who_finds_every_poster_gone_finds_what_they_posted() {
    explore(3, || {
        let queue = queue();
        let poster = posting(&queue, 0..1);
        // The checker takes a thread's first step after a spawn to come before the new thread.
        drop(queue.clone());
        let (is_alone, _) = queue.inner.who_can_post();
        if is_alone {
            let mut entries = Vec::new();
            assert_eq!(queue.drain(9, &mut entries), 1, "no one else can post");
            assert_eq!(tokens(entries), [0]);
        }
        poster.join().unwrap();
    });
}

/// The item that waits is the only one that could still post when the poster has gone.
#[test]
fn an_item_that_waits_gets_what_the_last_poster_has_posted() {
    explore(3, || {
        let queue = queue();
        let poster = posting(&queue, 0..1);
        // The item has an entry to post at its end, which keeps the queue.
        let own = queue.inner.clone();
        let here = RunsHere::begin(Some(&own));
        let mut entries = Vec::new();
        let got = as_item(|| queue.wait(9, &mut entries));
        drop(here);
        assert_eq!(got, 1, "the poster has posted before it has gone");
        assert_eq!(tokens(entries), [0]);
        poster.join().unwrap();
    });
}

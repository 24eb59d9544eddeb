//! No entered sleeper is forgotten, whichever threads wake or forbid meanwhile.

use super::*;
use crate::sys::cell::Guarded;
use loom::thread;
use std::sync::Arc;

/// What a completing worker does with the word of a sleeper.
fn complete_only(pending_wakeups: &PendingWakeups, word: &AtomicU32) {
    if word.swap(2, Ordering::AcqRel) == 1
        && !pending_wakeups.enter(std::ptr::from_ref(word).addr())
    {
        park::wake_all_at(word);
    }
}

/// That, and what it does at the end of its item.
fn complete(pending_wakeups: &PendingWakeups, word: &AtomicU32) {
    complete_only(pending_wakeups, word);
    pending_wakeups.wake_entered();
}

fn sleep(word: &AtomicU32) {
    while word.load(Ordering::Acquire) != 2 {
        let asleep = word.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Acquire);
        if matches!(asleep, Ok(_) | Err(1)) {
            park::wait_on(word, 1, None);
        }
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// `others` run on a thread beside a worker that completes what a sleeper waits for.
fn beside(others: fn(&PendingWakeups, &[AtomicU32; 2])) {
    explore(move || {
        let shared = Arc::new((
            PendingWakeups::default(),
            [AtomicU32::new(0), AtomicU32::new(0)],
        ));
        shared.0.within_ns.store(1, Ordering::Relaxed);
        let sleeper = shared.clone();
        let sleeper = thread::spawn(move || sleep(&sleeper.1[0]));
        let other = shared.clone();
        let other = thread::spawn(move || others(&other.0, &other.1));
        complete(&shared.0, &shared.1[0]);
        other.join().unwrap();
        sleeper.join().unwrap();
    });
}

#[test]
fn whoever_sleeps_is_told_though_another_worker_looks_meanwhile() {
    beside(|pending_wakeups, _| pending_wakeups.wake_entered());
}

#[test]
fn whoever_sleeps_is_told_though_another_is_entered_meanwhile() {
    beside(|pending_wakeups, words| {
        words[1].store(1, Ordering::Relaxed);
        complete(pending_wakeups, &words[1]);
    });
}

#[test]
fn whoever_sleeps_is_told_though_another_worker_leaves_him_to_others() {
    beside(|pending_wakeups, _| {
        pending_wakeups.wake_those(|_| false);
    });
}

#[test]
fn whoever_sleeps_is_told_though_it_is_forbidden_meanwhile() {
    beside(|pending_wakeups, _| drop(pending_wakeups.forbid()));
}

/// How often it was called, and what its maker has touched before.
struct Counts(AtomicU32, Guarded<u32>);

// SAFETY: that its accesses are ordered is what the models are about.
unsafe impl Sync for Counts {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Counts {}

impl Counts {
    fn touch(&self) {
        // SAFETY: checked by loom.
        unsafe { self.1.set(1) };
    }
}

impl std::task::Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.touch();
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Two workers end items whose tasks are awaited, and do not check again. `meanwhile` runs on a
/// thread beside them, then `afterwards`, when all have gone.
fn two_wakers(meanwhile: fn(&PendingWakeups), afterwards: fn(&PendingWakeups)) {
    explore(move || {
        let pending_wakeups = Arc::new(PendingWakeups::default());
        pending_wakeups.within_ns.store(1, Ordering::Relaxed);
        let tasks = [0, 1].map(|_| Arc::new(Counts(AtomicU32::new(0), Guarded::new(0))));
        let end_item = |pending_wakeups: &PendingWakeups, task: &Arc<Counts>| {
            task.touch();
            let waker = Box::new(Foreign::new(Waker::from(task.clone())));
            let entry = entry_of_waker(waker);
            if !pending_wakeups.enter_waker(entry) {
                // SAFETY: it was not entered, or taken back.
                unsafe { wake(entry) };
            }
        };
        let other = thread::spawn({
            let pending_wakeups = pending_wakeups.clone();
            move || meanwhile(&pending_wakeups)
        });
        let worker = thread::spawn({
            let (pending_wakeups, task) = (pending_wakeups.clone(), tasks[0].clone());
            move || end_item(&pending_wakeups, &task)
        });
        end_item(&pending_wakeups, &tasks[1]);
        other.join().unwrap();
        worker.join().unwrap();
        afterwards(&pending_wakeups);
        for task in &tasks {
            assert_eq!(task.0.load(Ordering::Relaxed), 1);
        }
    });
}

/// The monitor does not come back.
#[test]
fn each_waker_is_called_once_though_it_is_forbidden_meanwhile() {
    two_wakers(|pending_wakeups| drop(pending_wakeups.forbid()), |_| ());
}

/// It takes some, and leaves `any` as it is.
#[test]
fn each_waker_is_called_once_though_a_thread_that_polls_takes_some() {
    two_wakers(PendingWakeups::wake_tasks, PendingWakeups::wake_entered);
}

/// The rest of the worker's item, or its next item, waits for the sleeper, and the monitor has gone.
#[test]
fn whoever_sleeps_is_told_though_it_is_forbidden_and_no_item_ends() {
    explore(|| {
        let shared = Arc::new((PendingWakeups::default(), AtomicU32::new(0)));
        shared.0.within_ns.store(1, Ordering::Relaxed);
        let sleeper = shared.clone();
        let sleeper = thread::spawn(move || sleep(&sleeper.1));
        let monitor = shared.clone();
        let monitor = thread::spawn(move || drop(monitor.0.forbid()));
        complete_only(&shared.0, &shared.1);
        sleeper.join().unwrap();
        monitor.join().unwrap();
    });
}

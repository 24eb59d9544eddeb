//! Handles of workqueues that several threads use at once. In a process of its own, since it takes
//! all handles that a process may have.

use crate::harness::{Deadline, engine, eventually, in_own_process};
use cmwq::Error;
use cmwq::raw::WorkqueueHandle;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// More than CPUs, so that some are preempted between their steps.
const THREADS: usize = 8;

#[test]
fn a_handle_that_several_threads_destroy_takes_no_other_queue_with_it() {
    in_own_process(|| {
        let engine = engine("l3:1 core:1 pu:1");
        let _deadline = Deadline::new("several threads destroy", &engine);
        let queue = || Arc::new(engine.workqueue("t").build().unwrap());
        // All numbers but one are in use: that one is used again and again.
        let same = queue();
        let handles = std::iter::from_fn(|| match WorkqueueHandle::new(same.clone()) {
            Ok(handle) => Some(handle),
            Err(Error::TooManyHandles { .. }) => None,
            Err(error) => panic!("{error}"),
        });
        let last = handles.last().expect("a handle");
        last.destroy().unwrap();
        for _ in 0..50 {
            let (first, next) = (queue(), queue());
            // It takes a moment to destroy it, in which all others try to.
            first
                .execute(|| thread::sleep(Duration::from_millis(1)))
                .unwrap();
            let handle = WorkqueueHandle::new(first).unwrap();
            let (stop, destroyed) = (AtomicBool::new(false), AtomicUsize::new(0));
            let follower = OnceLock::new();
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            if handle.destroy().is_ok() {
                                destroyed.fetch_add(1, Ordering::SeqCst);
                                follower
                                    .get_or_init(|| WorkqueueHandle::new(next.clone()).unwrap());
                            }
                        }
                    });
                }
                eventually(|| follower.get().is_some());
                // Those that were preempted go on.
                thread::sleep(Duration::from_millis(5));
                stop.store(true, Ordering::Relaxed);
            });
            let follower = follower.into_inner().expect("a handle");
            assert_ne!(follower, handle);
            assert!(follower.get().is_ok(), "nobody has destroyed it");
            assert!(handle.get().is_err());
            assert_eq!(destroyed.into_inner(), 1);
            follower.destroy().unwrap();
        }
    });
}

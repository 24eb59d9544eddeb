//! Warnings of workers: the engine's reporter delivers them, so a handler may wait for what the
//! worker is needed for.

use crate::harness::{Deadline, eventually, in_own_process, own_name, quiet_panic};
use cmwq::types::FlushError;
use cmwq::{Completion, Engine, WorkerThreads, Workqueue};
use std::sync::{Arc, Mutex, OnceLock};

/// Where each warning was delivered: the thread's name, and the text.
fn heard_where() -> Arc<Mutex<Vec<(String, String)>>> {
    let heard: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let all = heard.clone();
    cmwq::observe::set_warning_handler(move |text| {
        all.lock().unwrap().push((own_name(), text.to_owned()))
    });
    heard
}

#[test]
fn a_handler_may_wait_for_an_item_of_the_pool_whose_worker_is_starting() {
    in_own_process(|| {
        let threads = WorkerThreads::new().on_start(|_| quiet_panic());
        let engine = Engine::builder().worker_threads(threads).build().unwrap();
        let _deadline = Deadline::new("starting", &engine);
        static QUEUE: OnceLock<Workqueue> = OnceLock::new();
        let wq = QUEUE.get_or_init(|| engine.workqueue("t").build().unwrap());
        let waited = Arc::new(Completion::new());
        let waits = waited.clone();
        cmwq::observe::set_warning_handler(move |text| {
            if text.contains("on_start") {
                assert_eq!(QUEUE.get().unwrap().spawn(|| 7).join().unwrap(), 7);
                waits.complete();
            }
        });
        wq.spawn(|| ()).join().unwrap();
        waited.wait();
    });
}

#[test]
fn warnings_of_workers_and_rescuers_come_from_the_reporter() {
    in_own_process(|| {
        let heard = heard_where();
        let threads = WorkerThreads::new().on_exit(|_| quiet_panic());
        let engine = Engine::builder().worker_threads(threads).build().unwrap();
        let _deadline = Deadline::new("reporter", &engine);
        let wq = Arc::new(engine.workqueue("t").workers_only().build().unwrap());
        let inner = wq.clone();
        let flushed = wq.spawn(move || {
            cmwq::observe::warn("said by an item");
            inner.flush()
        });
        assert_eq!(flushed.join().unwrap(), Err(FlushError::OwnItem));
        eventually(|| heard.lock().unwrap().len() == 2);
        // The last words of threads that end after their engine.
        let rescued = engine.workqueue("rescued").mem_reclaim().build().unwrap();
        drop((wq, rescued, engine));
        eventually(|| heard.lock().unwrap().len() == 3);
        let heard = heard.lock().unwrap();
        assert!(
            heard.iter().all(|(thread, _)| thread == "cmwq-reporter"),
            "{heard:?}"
        );
        assert!(heard[2].1.contains("on_exit"), "{heard:?}");
    });
}

/// The reporter ends when no thread has anything to say any more.
#[test]
fn the_reporter_ends_after_the_workers_of_its_engine() {
    in_own_process(|| {
        let _deadline = Deadline::with_dump("the end", String::new);
        let engine = Engine::builder().build().unwrap();
        let wq = engine
            .workqueue("t")
            .mem_reclaim()
            .workers_only()
            .build()
            .unwrap();
        wq.spawn(|| ()).join().unwrap();
        drop((wq, engine));
        eventually(|| crate::harness::threads_named("cmwq-").is_empty());
        eventually(|| crate::harness::threads_named("kworker").is_empty());
    });
}

/// The reporter is the parent's: in the child a warning is delivered at once.
#[test]
fn a_child_of_a_worker_hears_its_warnings() {
    in_own_process(|| {
        const HEARD: i32 = 42;
        cmwq::observe::set_warning_handler(|text| {
            if text.contains("in the child") {
                // SAFETY: ends the child.
                unsafe { libc::_exit(HEARD) };
            }
        });
        let engine = Engine::builder().build().unwrap();
        let _deadline = Deadline::new("a child", &engine);
        let wq = engine.workqueue("t").workers_only().build().unwrap();
        let child = wq.spawn(|| {
            // SAFETY: the child only warns, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                cmwq::observe::warn("in the child");
                // SAFETY: as above.
                unsafe { libc::_exit(1) };
            }
            child
        });
        let (child, mut status) = (child.join().unwrap(), 0);
        assert!(child > 0, "it has forked");
        // SAFETY: waits for the child, and writes to `status`.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), HEARD);
    });
}

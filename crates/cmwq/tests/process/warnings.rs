//! What belongs to the whole process: the global engine, and the handler of warnings.

use crate::harness::{Deadline, Door, Heard, engine, eventually, in_own_process};
use cmwq::observe::set_warning_handler;
use cmwq::{Engine, Error, Workqueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One test, since it is about one engine.
#[test]
fn the_global_engine_is_configured_once_and_warns_with_no_lock_held() {
    in_own_process(|| {
        let heard = Arc::new(AtomicUsize::new(0));
        let counted = heard.clone();
        set_warning_handler(move |text| {
            if text.contains("cache_shard_size") {
                // Would wait for itself if the global engine were not yet initialised.
                assert_eq!(Engine::global().unwrap().cache_shard_size(), 1);
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Engine::builder()
            .cache_shard_size(0)
            .build_global()
            .unwrap();
        assert_eq!(
            heard.load(Ordering::SeqCst),
            1,
            "0 becomes 1 with one warning"
        );
        let again = Engine::builder().build_global().unwrap_err();
        assert!(matches!(again, Error::AlreadyInUse), "{again}");
        let wq = Workqueue::builder("global").build().unwrap();
        assert_eq!(wq.spawn(|| 1).join().unwrap(), 1);
    });
}

/// Where the items wait for the thread that drops, as on an executor of one thread, it hangs.
#[test]
fn a_drop_that_waits_for_long_says_so() {
    in_own_process(|| {
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("a drop that waits", &engine);
        let heard = Heard::warnings();
        let door = Door::new();
        let queue = engine.workqueue("held").build().unwrap();
        let held = door.clone();
        queue.execute(move || held.pass()).unwrap();
        door.wait_for(1);
        let dropper = std::thread::spawn(move || drop(queue));
        let says = "the drop of workqueue held waits for its items; shut it down with shutdown()";
        eventually(|| heard.count(says) == 1);
        door.open.complete();
        dropper.join().unwrap();
        assert_eq!(heard.count(says), 1);
    });
}

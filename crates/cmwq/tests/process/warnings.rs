//! What belongs to the whole process: the global engine, and the handler of warnings.

use crate::harness::in_own_process;
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

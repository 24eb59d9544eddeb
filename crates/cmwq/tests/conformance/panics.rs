//! Case 30: panics of work functions.

use super::*;

#[test]
fn case_30_panicking_items_leak_no_slot_and_their_flushers_return() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("case 30", &engine);
    for max_active in [1, 3] {
        let wq = engine
            .workqueue("t")
            .max_active(max_active)
            .build()
            .unwrap();
        let work = Work::new(|| quiet_panic());
        for _ in 0..100 {
            drop(wq.spawn(|| quiet_panic()));
            let _ = wq.queue(&work);
            let handle = wq.spawn(|| -> u32 { quiet_panic() });
            assert!(matches!(handle.join(), Err(JoinError::Panicked(_))));
        }
        wq.flush().unwrap();
        wq.drain().unwrap();
        assert_eq!(wq.spawn(|| 9).join().unwrap(), 9);
        let ordered = engine.workqueue("o").ordered().build().unwrap();
        drop(ordered.spawn(|| quiet_panic()));
        assert_eq!(ordered.spawn(|| 9).join().unwrap(), 9);
    }
    assert!(engine.stats().panics >= 400);
}

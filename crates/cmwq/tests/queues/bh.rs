//! BH workqueues.

use crate::harness::{
    Deadline, Door, Heard, engine, eventually, held, in_own_process, own_name, settle_with,
};
use cmwq::Work;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn bh_items_run_one_at_a_time_in_order_on_their_cpu() {
    let engine = engine("l3:1 core:4 pu:1");
    let _deadline = Deadline::new("BH", &engine);
    let (normal, high) = (
        engine.workqueue("n").bh().build().unwrap(),
        engine.workqueue("h").bh().highpri().build().unwrap(),
    );
    for wq in [&normal, &high] {
        let inside = [(); 4].map(|()| Arc::new(AtomicUsize::new(0)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..2_000)
            .map(|n| {
                let (cpu, seen) = (n % 4, seen.clone());
                let inside = inside[cpu].clone();
                wq.spawn_on(cpu, move || {
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    seen.lock().unwrap().push((cpu, n));
                    // Gives others every chance to begin.
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    (others, own_name())
                })
                .unwrap()
            })
            .collect();
        for (n, handle) in handles.into_iter().enumerate() {
            let (others, name) = handle.join().unwrap();
            assert_eq!(others, 0, "two at a time");
            assert!(name.starts_with(&format!("kworker/b{}:", n % 4)), "{name}");
        }
        for cpu in 0..4 {
            let seen = seen.lock().unwrap();
            let of_cpu = seen.iter().filter(|(on, _)| *on == cpu).map(|(_, n)| *n);
            assert!(of_cpu.eq((cpu..2_000).step_by(4)), "CPU {cpu}: order");
        }
    }
    // A worker that blocks, declared or not, is not replaced.
    let door = Door::new();
    let _held = held(&normal, 1, 1, &door);
    door.wait_for(1);
    let next = normal.spawn_on(1, || ()).unwrap();
    settle_with(&engine, engine.workqueue("probe").bh().highpri());
    assert!(!next.is_finished());
    assert_eq!(high.spawn_on(1, || 1).unwrap().join().unwrap(), 1);
    assert_eq!(normal.spawn_on(2, || 2).unwrap().join().unwrap(), 2);
    door.open.complete();
    next.join().unwrap();
}

#[cfg(debug_assertions)]
#[test]
fn a_bh_item_that_goes_to_sleep_is_named_once() {
    in_own_process(|| {
        let heard = Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("BH sleeper", &engine);
        let wq = engine.workqueue("soft").bh().build().unwrap();
        let awake = Work::new(|| {
            std::hint::black_box(own_sum());
        });
        let sleeper = Work::new(|| std::thread::park_timeout(Duration::from_micros(100)));
        for _ in 0..20 {
            assert!(wq.queue(&awake).is_accepted());
            wq.flush().unwrap();
        }
        assert_eq!(heard.count("went to sleep"), 0);
        for _ in 0..5 {
            assert!(wq.queue(&sleeper).is_accepted());
            wq.flush().unwrap();
        }
        eventually(|| heard.count("went to sleep") > 0);
        let told = heard.with("went to sleep");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("BH workqueue soft"), "{told:?}");
    });
}

#[cfg(debug_assertions)]
fn own_sum() -> u64 {
    (0..1_000).sum()
}

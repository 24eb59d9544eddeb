//! Draining a queue whose items move about.

use crate::harness::{Deadline, Random, engine, number, seed};
use cmwq::Work;
use cmwq::affinity::AffinityScope;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Items that hop from pod to pod: while one is under way the queue is never empty, though every single pool is at times.
#[test]
fn drain_does_not_miss_an_item_that_hops_between_pods() {
    let seed = seed("drain_does_not_miss_an_item_that_hops_between_pods");
    let engine = engine("l3:16 core:1 pu:1");
    let progress: Arc<AtomicU64> = Arc::default();
    let _deadline = Deadline::of_progress("drain_does_not_miss", progress.clone(), {
        let engine = engine.clone();
        move || format!("{:?}\n{}", engine.stats(), engine.dump())
    });
    let mut random = Random::new(seed);
    for _ in 0..number("CMWQ_TEST_OPS", 20_000) / 100 {
        let wq = Arc::new(
            engine
                .workqueue("hops")
                .affinity_scope(AffinityScope::Cpu)
                .build()
                .unwrap(),
        );
        let left = Arc::new(AtomicU64::new(40 + random.below(200) as u64));
        let works: Arc<OnceLock<[Work; 2]>> = Arc::default();
        let hop = |other: usize, seed: u64| {
            let (wq, left, works) = (Arc::downgrade(&wq), left.clone(), works.clone());
            Work::new(move || {
                let before = left.fetch_sub(1, Ordering::SeqCst);
                if before > 1 {
                    let cpu = Random::new(seed ^ before).below(16);
                    let wq = wq.upgrade().expect("a queue waits for its items");
                    assert!(
                        wq.queue_on(cpu, &works.get().expect("set before the first run")[other])
                            .unwrap()
                    );
                }
            })
        };
        let pair = [hop(1, random.next()), hop(0, random.next())];
        let first = pair[0].clone();
        works.set(pair).unwrap();
        assert!(wq.queue(&first));
        wq.drain().unwrap();
        progress.fetch_add(1, Ordering::Relaxed);
        assert_eq!(
            left.load(Ordering::SeqCst),
            0,
            "drain returned while an item hopped on"
        );
    }
    assert_eq!(engine.stats().panics, 0);
}

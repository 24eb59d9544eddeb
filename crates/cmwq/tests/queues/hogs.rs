//! CPU hogs: an item that computes for long holds nothing else up, on unbound pools as on per-CPU
//! ones, and what only adds up over many sleeps is none.

use crate::harness::{Deadline, engine, eventually, in_own_process};
use cmwq::affinity::AffinityScope;
use cmwq::{Completion, Engine, JoinHandle, Workqueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn compute_for(time: Duration) {
    let from = own_cpu_time();
    while own_cpu_time() < from + time {}
}

/// Items that spin until `all` of them have begun, or until told to stop.
struct Spinners {
    begun: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Spinners {
    fn queue(wq: &Workqueue, number: usize, all: usize) -> Spinners {
        let (begun, stop) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let handles = (0..number).map(|_| {
            let (begun, stop) = (begun.clone(), stop.clone());
            wq.spawn_on(0, move || {
                begun.fetch_add(1, Ordering::SeqCst);
                while begun.load(Ordering::SeqCst) < all && !stop.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            })
            .unwrap()
        });
        let handles = handles.collect();
        Spinners {
            begun,
            stop,
            handles,
        }
    }

    fn join(self) {
        for handle in self.handles {
            handle.join().unwrap();
        }
    }
}

fn two_cpus(engine: &Engine, max_active: usize) -> Workqueue {
    let wq = engine
        .workqueue("spin")
        .affinity_scope(AffinityScope::Cache);
    wq.max_active(max_active).workers_only().build().unwrap()
}

#[test]
fn items_that_spin_until_all_have_begun_all_begin_if_max_active_admits_them() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("64 spinners", &engine);
    let wq = two_cpus(&engine, 64);
    for _ in 0..3 {
        Spinners::queue(&wq, 64, 64).join();
    }
    assert!(engine.stats().cpu_intensive > 0);
}

#[test]
fn no_hog_starts_what_max_active_does_not_admit() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("the ninth of eight", &engine);
    let wq = two_cpus(&engine, 8);
    let spinners = Spinners::queue(&wq, 9, 9);
    eventually(|| spinners.begun.load(Ordering::SeqCst) == 8);
    // Items of another queue start beside the eight, in the same pool, so nothing but the limit
    // keeps the ninth from it.
    let other = two_cpus(&engine, 0);
    for _ in 0..20 {
        other.spawn_on(0, || ()).unwrap().join().unwrap();
    }
    assert_eq!(spinners.begun.load(Ordering::SeqCst), 8);
    spinners.stop.store(true, Ordering::SeqCst);
    spinners.join();
}

#[test]
fn the_watchdog_reports_an_item_that_max_active_keeps_from_items_that_spin_for_it() {
    in_own_process(|| {
        let heard = crate::harness::Heard::reports();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("63 of 64", &engine);
        let wq = two_cpus(&engine, 63);
        let spinners = Spinners::queue(&wq, 64, 64);
        // On a busy machine that takes longer than a threshold.
        eventually(|| spinners.begun.load(Ordering::SeqCst) == 63);
        engine.set_watchdog_threshold(Duration::from_millis(200));
        eventually(|| heard.count("max_active of workqueue spin admits 63") > 0);
        assert_eq!(spinners.begun.load(Ordering::SeqCst), 63);
        spinners.stop.store(true, Ordering::SeqCst);
        spinners.join();
    });
}

#[test]
fn an_item_behind_others_that_compute_starts_while_they_do() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("behind eight", &engine);
    let wq = two_cpus(&engine, 0);
    for strict in [false, true] {
        wq.apply_attrs(cmwq::types::WorkqueueAttrs {
            affinity_strict: strict,
            ..wq.attrs()
        })
        .unwrap();
        let spinners = Spinners::queue(&wq, 8, usize::MAX);
        for _ in 0..20 {
            wq.spawn_on(0, || ()).unwrap().join().unwrap();
        }
        assert!(spinners.handles.iter().all(|handle| !handle.is_finished()));
        spinners.stop.store(true, Ordering::SeqCst);
        spinners.join();
    }
}

#[test]
fn workers_added_beside_hogs_go_back_to_sleep_when_the_hogs_have_ended() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("after hogs", &engine);
    let wq = two_cpus(&engine, 0);
    Spinners::queue(&wq, 32, 32).join();
    let target = || {
        let pools = engine.pool_states();
        pools.iter().map(|pool| pool.target).max().unwrap()
    };
    // Items that count as asleep for a moment raise the target, which falls back within a second.
    eventually(|| target() == 2);
}

#[test]
fn an_item_that_computes_between_many_sleeps_is_no_hog() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("sleeps", &engine);
    let sleep: fn() = || std::thread::sleep(Duration::from_micros(200));
    let declared: fn() = || cmwq::blocking(|| std::thread::sleep(Duration::from_micros(200)));
    let wait: fn() = || {
        let done = Completion::new();
        assert!(!done.wait_timeout(Duration::from_micros(200)));
    };
    let per_cpu = engine.workqueue("p").per_cpu().build().unwrap();
    let unbound = engine.workqueue("u").build().unwrap();
    for wq in [&per_cpu, &unbound] {
        for (how, pause) in [("sleep", sleep), ("declared", declared), ("wait", wait)] {
            let begun = Arc::new(Completion::new());
            let begins = begun.clone();
            let item = wq
                .spawn_on(0, move || {
                    begins.complete();
                    for _ in 0..15 {
                        compute_for(Duration::from_millis(3));
                        pause();
                    }
                })
                .unwrap();
            begun.wait();
            // Others wait, so that the monitor samples the pool.
            let others: Vec<_> = (0..4)
                .map(|_| {
                    wq.spawn_on(0, || compute_for(Duration::from_millis(1)))
                        .unwrap()
                })
                .collect();
            item.join().unwrap();
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(engine.stats().cpu_intensive, 0, "{} {how}", wq.name());
        }
    }
}

#[test]
fn a_hog_of_a_per_cpu_queue_is_counted_and_reported_though_nothing_waits_behind_it() {
    in_own_process(|| {
        let heard = crate::harness::Heard::warnings();
        let engine = engine("l3:1 core:2 pu:1");
        let _deadline = Deadline::new("alone", &engine);
        let wq = engine.workqueue("alone").per_cpu().build().unwrap();
        for count in 1..=4 {
            let stop = Arc::new(AtomicBool::new(false));
            let stopped = stop.clone();
            let hog = wq.spawn_on(1, move || while !stopped.load(Ordering::Relaxed) {});
            eventually(|| engine.stats().cpu_intensive == count);
            stop.store(true, Ordering::Relaxed);
            hog.unwrap().join().unwrap();
        }
        eventually(|| heard.count("workqueue alone") == 1);
        assert!(heard.with("workqueue alone")[0].contains(" 4 times"));
    });
}

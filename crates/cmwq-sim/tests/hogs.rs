//! How long computing items delay others on two CPUs: the times that the guide promises, in virtual time.

use cmwq_simulated::topology::Topology;
use cmwq_simulated::{Engine, Work, Workqueue};
use cmwq_vm::machine::preset;
use cmwq_vm::os;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

const SECOND: u64 = 1_000_000_000;

/// Runs `program` on a machine of two CPUs, with a queue of `max_active` 64. Returns what it returns: nanoseconds.
fn on_two_cpus(seed: u64, program: impl Fn(&Workqueue) -> u64 + 'static) -> u64 {
    // The library's statics are of the process: one machine at a time.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = preset("two-vcpus").expect("a preset").machine();
    let result = Rc::new(Cell::new(None));
    let of_run = result.clone();
    let outcome = cmwq_vm::run(&machine, seed, 60 * SECOND, move || {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("core:2").expect("a machine"))
            .build()
            .expect("a topology is given");
        let queue = engine.workqueue("hogs").max_active(64);
        of_run.set(Some(program(&queue.build().expect("legal"))));
    });
    outcome.expect("it ends");
    result.get().expect("the program has ended")
}

#[test]
fn sixty_four_items_that_spin_for_each_other_end_within_a_second() {
    for seed in 1..=4 {
        let took_ns = on_two_cpus(seed, |queue| {
            let begun = Arc::new(AtomicU64::new(0));
            let item = |_| {
                let begun = begun.clone();
                Work::new(move || {
                    begun.fetch_add(1, SeqCst);
                    while begun.load(SeqCst) < 64 {
                        os::work(10_000);
                    }
                })
            };
            let items: Vec<Work> = (0..64).map(item).collect();
            let from_ns = os::observe_ns();
            for item in &items {
                assert!(queue.queue(item).is_accepted());
            }
            queue.flush().expect("not from its own item");
            os::observe_ns() - from_ns
        });
        assert!(took_ns < SECOND, "seed {seed}: {took_ns} ns");
    }
}

#[test]
fn behind_eight_items_that_compute_for_a_second_a_short_one_starts_within_50_ms() {
    for seed in 1..=8 {
        let waited_ns = on_two_cpus(seed, |queue| {
            let long = |_| {
                Work::new(|| {
                    for _ in 0..1_000 {
                        os::work(SECOND / 1_000);
                    }
                })
            };
            let long: Vec<Work> = (0..8).map(long).collect();
            let started_ns = Arc::new(AtomicU64::new(0));
            let noted = started_ns.clone();
            let short = Work::new(move || noted.store(os::observe_ns(), SeqCst));
            for item in &long {
                assert!(queue.queue(item).is_accepted());
            }
            let queued_ns = os::observe_ns();
            assert!(queue.queue(&short).is_accepted());
            queue.flush().expect("not from its own item");
            started_ns.load(SeqCst) - queued_ns
        });
        assert!(waited_ns < 50_000_000, "seed {seed}: {waited_ns} ns");
    }
}

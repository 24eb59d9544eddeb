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

/// One pod of two CPUs, and two of one.
const ONE_POD: &str = "l3:1 core:2";
const TWO_PODS: &str = "l3:2 core:1";

/// Runs `program` on this machine of two CPUs, with a queue of `max_active` 64. Returns what it
/// returns: nanoseconds.
fn on_two_cpus(
    cpus: &'static str,
    seed: u64,
    program: impl Fn(&Workqueue) -> u64 + 'static,
) -> u64 {
    // The library's statics are of the process: one machine at a time.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = preset("two-vcpus").expect("a preset").machine();
    let result = Rc::new(Cell::new(None));
    let of_run = result.clone();
    let outcome = cmwq_vm::run(&machine, seed, 60 * SECOND, move || {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic(cpus).expect("a machine"))
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
    for (cpus, seed) in (1..=4).flat_map(|seed| [(ONE_POD, seed), (TWO_PODS, seed)]) {
        let took_ns = on_two_cpus(cpus, seed, |queue| {
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
        assert!(took_ns < SECOND, "{cpus}, seed {seed}: {took_ns} ns");
    }
}

#[test]
fn behind_eight_items_that_compute_for_a_second_a_short_one_starts_within_70_ms() {
    // With 78 of 80 seeds it is 36 ms on one pod and with the others 44: two ticks more. On two pods
    // it is 60 with all. The bounds leave room for one such step more.
    let runs = (1..=8).flat_map(|seed| [(ONE_POD, 60, seed), (TWO_PODS, 70, seed)]);
    for (cpus, within_ms, seed) in runs {
        let waited_ns = on_two_cpus(cpus, seed, |queue| {
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
        assert!(
            waited_ns < within_ms * 1_000_000,
            "{cpus}, seed {seed}: {waited_ns} ns"
        );
    }
}

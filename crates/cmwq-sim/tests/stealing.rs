//! How soon idle pods steal from a pod with a backlog.

use cmwq_simulated::topology::Topology;
use cmwq_simulated::{Engine, Work};
use cmwq_vm::machine::preset;
use cmwq_vm::{Cpus, os};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// CPUs of the pod that is flooded, the first.
const POD: usize = 8;
/// Items of each issuer in a flood.
const ITEMS: usize = 64;
/// From one flood to the next: all workers sleep in between.
const EVERY_NS: u64 = 50_000_000;
const FLOODS: usize = 4;

/// When a flood began, and when its first item began on a CPU of another pod.
struct Flood {
    begin_ns: AtomicU64,
    stolen_ns: AtomicU64,
}

/// Floods the first of nine pods of a Grace with items that compute for `item_ns`, from all its
/// CPUs at once. Returns for each flood how long it took from the first item queued until the first
/// one began on a CPU of another pod.
fn first_steals(item_ns: u64, seed: u64) -> Vec<u64> {
    let machine = preset("grace").expect("a preset").machine();
    let flood = |_| {
        Arc::new(Flood {
            begin_ns: AtomicU64::new(u64::MAX),
            stolen_ns: AtomicU64::new(u64::MAX),
        })
    };
    let floods: Rc<Vec<Arc<Flood>>> = Rc::new((0..FLOODS).map(flood).collect());
    let seen = floods.clone();
    let outcome = cmwq_vm::run(&machine, seed, 60_000_000_000, move || {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("core:72").expect("a machine"))
            .build()
            .expect("a topology is given");
        let queue = Arc::new(engine.workqueue("flooded").build().expect("legal"));
        for issuer in 0..POD {
            let (queue, floods) = (queue.clone(), floods.clone());
            let main = move || {
                for (number, flood) in floods.iter().enumerate() {
                    let item = |_| {
                        let flood = flood.clone();
                        Work::new(move || {
                            if os::current_cpu() >= POD {
                                flood.stolen_ns.fetch_min(os::observe_ns(), Relaxed);
                            }
                            os::work(item_ns);
                        })
                    };
                    let items: Vec<Work> = (0..ITEMS).map(item).collect();
                    let at_ns = EVERY_NS * (number as u64 + 1);
                    os::sleep(Duration::from_nanos(at_ns - os::observe_ns()));
                    flood.begin_ns.fetch_min(os::observe_ns(), Relaxed);
                    for item in &items {
                        assert!(queue.queue(item).is_accepted());
                    }
                }
            };
            let cpu = Cpus::from_iter([issuer]);
            os::spawn(&format!("issuer{issuer}"), Some(cpu), main).expect("memory for a stack");
        }
        os::sleep(Duration::from_nanos(EVERY_NS * (FLOODS as u64 + 1)));
    });
    outcome.expect("it ends");
    let took_ns = |flood: &Arc<Flood>| {
        let stolen_ns = flood.stolen_ns.load(Relaxed);
        stolen_ns.saturating_sub(flood.begin_ns.load(Relaxed))
    };
    seen.iter().map(took_ns).collect()
}

#[test]
fn idle_pods_begin_to_steal_within_150_us() {
    for item_ns in [5_000, 20_000, 200_000, 2_000_000] {
        for seed in 1..=20 {
            let took_ns = first_steals(item_ns, seed);
            // Before the first flood the engine knows nothing of the items' length, and its creator
            // creates all workers and the first thief, at 12 us each. If the creator was woken on a CPU
            // of the flooded pod (in one process of ten, as addresses decide), it waits there for an
            // item to end: the system of this machine moves no thread that waits.
            let first_ns = 350_000 + item_ns;
            let in_time =
                |(flood, &ns): (usize, &u64)| ns < if flood == 0 { first_ns } else { 150_000 };
            assert!(
                took_ns.iter().enumerate().all(in_time),
                "items of {item_ns} ns, seed {seed}: {took_ns:?}"
            );
        }
    }
}

//! What spinning costs, in virtual time.

use cmwq_simulated::topology::Topology;
use cmwq_simulated::{Engine, Work};
use cmwq_vm::machine::preset;
use cmwq_vm::os;
use std::time::Duration;

/// Short requests, one each 50 µs, on two CPUs: how long these are busy, in ns for each request.
fn busy_ns_for_a_request(seed: u64) -> u64 {
    const REQUESTS: u64 = 2_000;
    let machine = preset("two-vcpus").expect("a preset").machine();
    let run = |requests| {
        let outcome = cmwq_vm::run(&machine, seed, 60_000_000_000, move || {
            let engine = Engine::builder()
                .topology(Topology::from_synthetic("l3:2 core:1").expect("a machine"))
                .build()
                .expect("a topology is given");
            let queue = engine.workqueue("requests").build().expect("legal");
            for _ in 0..requests {
                let request = Work::new(|| os::work(2_000));
                assert!(queue.queue(&request).is_accepted());
                os::sleep(Duration::from_micros(50));
            }
            queue.flush().expect("not from its own item");
        });
        outcome.expect("it ends").busy_ns
    };
    (run(2 * REQUESTS) - run(REQUESTS)) / REQUESTS
}

#[test]
fn workers_do_not_spin_from_one_request_to_the_next_if_a_wake_up_costs_less() {
    for seed in 1..=4 {
        let busy_ns = busy_ns_for_a_request(seed);
        // The request, two wake-ups, and what is left of spinning.
        assert!(busy_ns < 10_000, "seed {seed}: {busy_ns}");
    }
}

//! What spinning costs below a CPU quota, in virtual time.

use cmwq_simulated::topology::Topology;
use cmwq_simulated::{CpuLimit, Engine, Work};
use cmwq_vm::machine::preset;
use cmwq_vm::os;
use std::num::NonZeroU32;
use std::time::Duration;

/// Short requests, one each 50 µs, on two CPUs: how long these are busy, in ns for each request.
fn busy_ns_for_a_request(limit: CpuLimit, seed: u64) -> u64 {
    const REQUESTS: u64 = 2_000;
    let machine = preset("two-vcpus").expect("a preset").machine();
    let run = |requests| {
        let outcome = cmwq_vm::run(&machine, seed, 60_000_000_000, move || {
            let engine = Engine::builder()
                .topology(Topology::from_synthetic("l3:2 core:1").expect("a machine"))
                .cpu_limit(limit)
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
fn workers_spin_from_request_to_request_without_a_quota_and_sleep_below_one() {
    for seed in 1..=4 {
        let one = CpuLimit::Workers(NonZeroU32::MIN);
        let [without, below] =
            [CpuLimit::None, one].map(|limit| busy_ns_for_a_request(limit, seed));
        assert!(without > 50_000, "seed {seed}: {without}");
        // The request, two wake-ups, and what is left of spinning.
        assert!(below < 10_000, "seed {seed}: {below}");
    }
}

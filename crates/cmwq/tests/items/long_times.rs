//! Times that are far too long mean "never": nothing overflows.
//!
//! Sabotage tried: taking the nanoseconds as they are fails both, by a panic of the service thread
//! in a debug build, and by workers that are let go in a release build.

use crate::harness::{Deadline, Door, eventually, held};
use cmwq::Engine;
use std::time::Duration;

/// What fits into 64 bits of nanoseconds, and what does not.
const LONG: [Duration; 4] = [
    Duration::from_nanos(u64::MAX),
    Duration::from_nanos(u64::MAX - 1),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];
const WORKERS: usize = 12;

/// Has workers made, two groups of them one after the other, each of a pool of its own: what the
/// service thread was asked for before that it has done then.
fn service_lives(engine: &Engine) {
    for nice in [1, 2] {
        let other = engine.workqueue("other").nice(nice).workers_only();
        other.build().unwrap().spawn(|| ()).join().unwrap();
    }
}

#[test]
fn workers_that_may_be_idle_for_ever_stay() {
    for timeout in LONG {
        let engine = Engine::builder().idle_timeout(timeout).build().unwrap();
        let _deadline = Deadline::new("idle for ever", &engine);
        let wq = engine.workqueue("t").workers_only().build().unwrap();
        let door = Door::new();
        let cpu = engine.topology().cpus().first().unwrap();
        let items = held(&wq, cpu, WORKERS, &door);
        door.wait_for(WORKERS);
        door.open.complete();
        items.iter().for_each(|item| {
            item.flush().unwrap();
        });
        // All of them are idle, which the service thread learns.
        eventually(|| engine.pool_states().iter().all(|pool| pool.running == 0));
        service_lives(&engine);
        let pools = engine.pool_states().into_iter();
        let own = pools.filter(|pool| pool.nice == 0);
        let workers: usize = own.map(|pool| pool.workers.len()).sum();
        assert!(
            workers >= WORKERS,
            "{timeout:?}: {workers} workers are left"
        );
    }
}

#[test]
fn a_watchdog_that_never_looks_lets_everything_go_on() {
    for threshold in LONG {
        let engine = Engine::builder()
            .watchdog_threshold(threshold)
            .build()
            .unwrap();
        let _deadline = Deadline::new("a watchdog for ever", &engine);
        service_lives(&engine);
        engine.set_watchdog_threshold(threshold);
        service_lives(&engine);
        // More than a century.
        assert!(engine.watchdog_threshold() > Duration::from_secs(100 * 365 * 24 * 3600));
    }
}

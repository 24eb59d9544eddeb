//! Waits with a deadline end at it, give or take a tick of the scheduler, beside threads that
//! compute: in virtual time.

use cmwq_simulated::topology::Topology;
use cmwq_simulated::{Completion, CompletionQueue, Engine, Work};
use cmwq_vm::machine::preset;
use cmwq_vm::os;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// The tick of the scheduler, and the time until another thread gives up its CPU.
const TICK_NS: u64 = 4_000_000;

#[test]
fn each_wait_ends_at_its_deadline_to_within_a_tick() {
    let machine = preset("two-vcpus").expect("a preset").machine();
    let latest = Arc::new(AtomicU64::new(0));
    let seen = latest.clone();
    let outcome = cmwq_vm::run(&machine, 1, 60_000_000_000, move || {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("core:2").expect("a machine"))
            .build()
            .expect("a topology is given");
        let queue = engine.workqueue("long").build().expect("legal");
        let (begun, end) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
        let item = |begun: &Arc<Completion>, end: &Arc<Completion>| {
            let (begun, end) = (begun.clone(), end.clone());
            move || {
                begun.complete();
                while !end.is_done() {
                    os::work(100_000);
                }
            }
        };
        let work = Work::new(item(&begun, &end));
        assert!(queue.queue(&work).is_accepted());
        begun.wait();
        let mut handle = queue.spawn(item(&begun, &end));
        let entries = CompletionQueue::<u32>::new();
        let never = Completion::new();
        let mut waits: [&mut dyn FnMut(Duration); 4] = [
            &mut |time| assert!(!never.wait_timeout(time)),
            &mut |time| assert!(handle.join_timeout(time).is_none()),
            &mut |time| assert!(work.flush_timeout(time).is_err()),
            &mut |time| assert_eq!(entries.wait_timeout(1, &mut Vec::new(), time), 0),
        ];
        for us in [1, 10, 50, 200, 1_000, 20_000] {
            for wait in &mut waits {
                let due_ns = os::observe_ns() + us * 1_000;
                wait(Duration::from_micros(us));
                let now_ns = os::observe_ns();
                assert!(now_ns >= due_ns, "{us} us: {} ns early", due_ns - now_ns);
                latest.fetch_max(now_ns - due_ns, SeqCst);
            }
        }
        end.complete();
        queue.flush().expect("not from its own item");
    });
    outcome.expect("it ends");
    // With each of 500 seeds 3.80 or 3.99 ms: a tick, less what is left of the wait when it begins. A
    // thread that misses its tick comes at the next one.
    let late_ns = seen.load(SeqCst);
    assert!(late_ns < TICK_NS * 3 / 2, "{late_ns} ns late");
}

//! Flushing an item that other threads queue at the same time.

use cmwq_simulated::topology::Topology;
use cmwq_simulated::{Completion, Engine, Work};
use cmwq_vm::machine::preset;
use cmwq_vm::{Faults, os};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const THREADS: u64 = 4;
const ROUNDS: u64 = 4_000;

/// An issuer that finds the item pending is owed a run that sees what the issuer did before, and a
/// flush waits for that run: also while the thread that claimed the item has not published it, and
/// an older instance runs. Found by exploration (seed 33346 of an earlier build).
#[test]
fn a_flush_waits_for_an_instance_on_its_way() {
    let machine = preset("3900x").expect("a preset").machine();
    let outcome = cmwq_vm::run(&machine, 1, 60_000_000_000, || {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic("pack:1 l3:4 core:3 pu:2").expect("a machine"))
            .build()
            .expect("a topology is given");
        let queue = Arc::new(engine.workqueue("flushed").build().expect("legal"));
        cmwq_vm::set_faults(Faults {
            delay_ppm: 20_000,
            delay_ns: 20_000,
            ..Faults::default()
        });
        let (flag, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let item = {
            let (flag, seen) = (flag.clone(), seen.clone());
            Work::new(move || {
                seen.fetch_max(flag.load(Relaxed), Relaxed);
                os::work(os::random(4_000));
            })
        };
        let left = Arc::new(AtomicU64::new(THREADS));
        let done = Arc::new(Completion::new());
        for thread in 0..THREADS {
            let (queue, item, flag, seen) =
                (queue.clone(), item.clone(), flag.clone(), seen.clone());
            let (left, done) = (left.clone(), done.clone());
            let main = move || {
                for _ in 0..ROUNDS {
                    let mine = flag.fetch_add(1, Relaxed) + 1;
                    let accepted = queue.queue(&item).is_accepted();
                    let waited = item.flush().expect("not from the item");
                    let saw = seen.load(Relaxed);
                    assert!(
                        saw >= mine,
                        "after a flush ({waited}) flag {saw} was seen, queued was {mine} (accepted: {accepted})"
                    );
                    os::work(os::random(2_000));
                }
                if left.fetch_sub(1, Relaxed) == 1 {
                    done.complete();
                }
            };
            os::spawn(&format!("flusher{thread}"), None, main).expect("memory for a stack");
        }
        done.wait();
    });
    outcome.expect("it ends");
}

//! How long items wait and run, as a queue's state shows it.
//!
//! Sabotages tried: the start of an item wants no sample; a cancelled sample keeps its slot; a
//! sample is published in a chunk.

use crate::harness::{Deadline, Door, counting, engine, eventually};
use cmwq::observe::QueueTimes;
use cmwq::{Engine, Work};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

fn times(engine: &Engine) -> QueueTimes {
    engine.queue_states().remove(0).times
}

#[test]
fn a_queue_of_few_items_has_most_of_them_measured() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("times", &engine);
    let wq = engine.workqueue("slow").workers_only().build().unwrap();
    const ITEMS: u64 = 40;
    for _ in 0..ITEMS {
        // Longer than a tick of the coarse clock.
        let slow = wq.spawn(|| std::thread::sleep(Duration::from_millis(12)));
        slow.join().unwrap();
    }
    let times = times(&engine);
    let counts = [&times.wait, &times.run].map(|histogram| histogram.count());
    assert!(
        counts
            .iter()
            .all(|&count| (ITEMS / 2..=ITEMS).contains(&count)),
        "{counts:?}"
    );
    assert!(times.run.quantile_ns(0.0) >= Some(12_000_000), "{times:?}");
    assert_eq!(times.longest_waiting_ns, None);
    // A handle is told before the worker has ended the measurement.
    eventually(|| self::times(&engine).longest_running_ns.is_none());
}

#[test]
fn what_waits_and_runs_now_is_shown_until_it_starts_ends_or_is_cancelled() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("longest times", &engine);
    let wq = engine.workqueue("held").max_active(1).build().unwrap();
    let door = Door::new();
    let own = door.clone();
    wq.execute(move || own.pass()).unwrap();
    door.wait_for(1);
    // Its start wants a sample.
    let work = counting(&Arc::new(AtomicUsize::new(0)));
    assert!(wq.queue(&work).is_accepted());
    let waits = || times(&engine).longest_waiting_ns;
    let runs = || times(&engine).longest_running_ns;
    eventually(|| waits() > Some(20_000_000) && runs() > Some(20_000_000));
    assert!(work.cancel());
    assert_eq!(waits(), None);
    assert!(wq.queue(&work).is_accepted());
    door.open.complete();
    wq.flush().unwrap();
    let times = times(&engine);
    assert_eq!(
        (times.longest_waiting_ns, times.longest_running_ns),
        (None, None)
    );
    assert!(times.run.quantile_ns(1.0) >= Some(20_000_000), "{times:?}");
}

#[test]
fn floods_batches_and_items_that_come_again_are_measured_too() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("times of floods", &engine);
    let wq = engine.workqueue("flood").build().unwrap();
    let works: Vec<Work> = (0..100).map(|_| Work::new(|| ())).collect();
    let measured = || {
        let times = times(&engine);
        [times.wait.count(), times.run.count()]
    };
    for round in 0..3 {
        let before = measured();
        eventually(|| {
            match round {
                0 => (0..1_000).for_each(|_| wq.execute(|| ()).unwrap()),
                1 => drop(wq.queue_batch(&works)),
                _ => drop(wq.execute_batch((0..1_000).map(|_| || ()))),
            }
            wq.flush().unwrap();
            let now = measured();
            now[0] > before[0] && now[1] > before[1]
        });
    }
    assert_eq!(times(&engine).longest_waiting_ns, None, "a sample was lost");
}

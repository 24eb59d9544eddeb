//! Deferred wake-ups: behind a backlog, sleepers are woken a little later, several completions at
//! once. No sleeper is left asleep, whatever the workers run next.
//!
//! Sabotage tried: a test here fails without both the wake-ups by a worker that finds nothing to do
//! and those by the monitor. Either alone suffices here, the monitor's some milliseconds later.

use crate::harness::{Deadline, engine};
use cmwq::{Completion, Work, Workqueue, blocking};
use std::hint::black_box;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

const WINDOW: usize = 64;
const ROUNDS: usize = 100;

struct Slot {
    done: Completion,
    acknowledged: Mutex<Receiver<()>>,
}

fn compute() {
    black_box((0..black_box(10_000_u64)).fold(1, |a, n| black_box(a ^ n)));
}

/// Keeps many items in flight and waits for the oldest. After its completion, one item in `every`
/// waits until its waiter has gone on: declared to the pool, or undeclared.
fn window(name: &str, wq: &Workqueue, every: usize, wait: fn(&Receiver<()>)) {
    let (acknowledge, items): (Vec<_>, Vec<_>) = (0..WINDOW)
        .map(|index| {
            let (acknowledge, acknowledged) = channel();
            let slot = Arc::new(Slot {
                done: Completion::new(),
                acknowledged: Mutex::new(acknowledged),
            });
            let its_own = slot.clone();
            let work = Work::new(move || {
                compute();
                its_own.done.complete();
                if (index + 1).is_multiple_of(every) {
                    wait(&its_own.acknowledged.lock().unwrap());
                }
            });
            (acknowledge, (slot, work))
        })
        .unzip();
    let mut runs = 0;
    for round in 0..=ROUNDS {
        for (index, (slot, work)) in items.iter().enumerate() {
            if round > 0 {
                slot.done.wait();
                runs += 1;
                if (index + 1).is_multiple_of(every) {
                    acknowledge[index].send(()).unwrap();
                    // It has not ended: its next run takes from the same channel.
                    work.flush().unwrap();
                }
                slot.done.reinit();
            }
            if round < ROUNDS {
                assert!(wq.queue(work).is_accepted(), "{name}");
            }
        }
    }
    assert_eq!(runs, WINDOW * ROUNDS, "{name}");
}

#[test]
fn nobody_is_left_asleep() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("a window", &engine);
    let wq = engine.workqueue("late").build().unwrap();
    let declared: fn(&Receiver<()>) = |door| blocking(|| door.recv().unwrap());
    let undeclared: fn(&Receiver<()>) = |door| door.recv().unwrap();
    window("no item waits", &wq, WINDOW + 1, undeclared);
    window("items block, and say so", &wq, 4, declared);
    window("items block", &wq, 16, undeclared);
}

#[test]
fn two_issuers_and_workers_that_complete_what_they_sleep_on() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("two windows", &engine);
    let wq = engine.workqueue("late").build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| window("one of two", &wq, 13, |door| door.recv().unwrap()));
        }
    });
}

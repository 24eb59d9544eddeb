//! The credits of a queue's limit, where several pods have its items. No credit is lost, so as many
//! items as the limit says may wait for each other; and the pods take turns.

use cmwq_simulated::topology::Topology;
use cmwq_simulated::{Completion, Engine, Workqueue};
use cmwq_vm::machine::{Costs, Machine};
use cmwq_vm::{Cpus, Faults, os};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

const PODS: usize = 2;
/// Pods take two credits at a time.
const LIMIT: usize = 16;
const ROUNDS: usize = 6;

/// Items that wait for each other.
struct Meeting {
    begun: AtomicUsize,
    all_have: Completion,
}

impl Meeting {
    fn come(&self) {
        if self.begun.fetch_add(1, Relaxed) + 1 == LIMIT {
            self.all_have.complete();
        }
        self.all_have.wait();
    }
}

/// From one pod: short items, as many of those that meet as its part is, and short ones again.
fn issue(queue: &Workqueue, meeting: &Arc<Meeting>, pod: usize, round: usize) {
    let short = |count: usize| {
        for _ in 0..count {
            queue.execute(|| os::work(2_000)).expect("it is open");
        }
    };
    short(7 * round % 23);
    // Now and then one of the pods has most of them.
    let first = 1 + 5 * round % (LIMIT - 1);
    let part = if pod == 0 { first } else { LIMIT - first };
    for _ in 0..part {
        let meeting = meeting.clone();
        queue.execute(move || meeting.come()).expect("it is open");
    }
    short(round % 3);
}

fn meets(seed: u64) {
    let machine = Machine::regular("two pods", 1, PODS, 2, 1, Costs::default());
    let outcome = cmwq_vm::run(&machine, seed, 60_000_000_000, || {
        let topology = Topology::from_synthetic("l3:2 core:2 pu:1").expect("a machine");
        let engine = Engine::builder().topology(topology).build();
        let engine = engine.expect("a topology is given");
        let queue = engine.workqueue("limited").max_active(LIMIT).build();
        let queue = Arc::new(queue.expect("legal attributes"));
        cmwq_vm::set_faults(Faults {
            delay_ppm: 20_000,
            delay_ns: 30_000,
            preempt_ppm: 5_000,
            ..Faults::default()
        });
        for round in 0..ROUNDS {
            let meeting = Arc::new(Meeting {
                begun: AtomicUsize::new(0),
                all_have: Completion::new(),
            });
            for pod in 0..PODS {
                let (queue, meeting) = (queue.clone(), meeting.clone());
                let main = move || issue(&queue, &meeting, pod, round);
                let cpus = Cpus::from_iter([2 * pod]);
                os::spawn("issuer", Some(cpus), main).expect("memory for a stack");
            }
            meeting.all_have.wait();
            queue.flush().expect("not from an item");
        }
    });
    outcome
        .unwrap_or_else(|stuck| panic!("seed {seed}: items that may be active are not: {stuck:?}"));
}

/// One machine at a time: the library's statics are those of the process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn as_many_items_as_the_limit_says_may_wait_for_each_other_from_several_pods() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    (0..200).for_each(meets);
}

const ITEMS: usize = 40;

/// Each pod gets its items at once; in which order do they run, by pods?
fn order(seed: u64, limit: usize) -> Vec<usize> {
    let machine = Machine::regular("two pods", 1, PODS, 2, 1, Costs::default());
    let ran: Arc<Mutex<Vec<usize>>> = Arc::default();
    let runs = ran.clone();
    let outcome = cmwq_vm::run(&machine, seed, 60_000_000_000, move || {
        let topology = Topology::from_synthetic("l3:2 core:2 pu:1").expect("a machine");
        let engine = Engine::builder().topology(topology).build();
        let engine = engine.expect("a topology is given");
        let queue = engine.workqueue("limited").max_active(limit).build();
        let queue = Arc::new(queue.expect("legal attributes"));
        let all = Arc::new((AtomicUsize::new(0), Completion::new()));
        for pod in 0..PODS {
            let (queue, runs, all) = (queue.clone(), runs.clone(), all.clone());
            let main = move || {
                for _ in 0..ITEMS {
                    let (runs, all) = (runs.clone(), all.clone());
                    let item = move || {
                        runs.lock().expect("no panic").push(pod);
                        os::work(5_000);
                        if all.0.fetch_add(1, Relaxed) + 1 == PODS * ITEMS {
                            all.1.complete();
                        }
                    };
                    queue.execute(item).expect("it is open");
                }
            };
            let cpus = Cpus::from_iter([2 * pod]);
            os::spawn("issuer", Some(cpus), main).expect("memory for a stack");
        }
        all.1.wait();
    });
    let ran = ran.lock().expect("no panic").clone();
    outcome.unwrap_or_else(|stuck| panic!("limit {limit}, seed {seed}: {stuck:?}, ran {ran:?}"));
    ran
}

#[test]
fn pods_whose_items_wait_for_credits_take_turns() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (limit, seed) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let ran = order(seed, limit);
        assert_eq!(ran.len(), PODS * ITEMS);
        // Both have items that wait, but in the beginning and in the end.
        let both = &ran[ITEMS / 2..ITEMS];
        let longest = both.chunk_by(|one, next| one == next).map(<[usize]>::len);
        let longest = longest.max().expect("some ran");
        assert!(longest <= 4, "limit {limit}, seed {seed}: {both:?}");
    }
}

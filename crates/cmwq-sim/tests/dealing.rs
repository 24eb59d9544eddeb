//! Where the items of one issuer run whose own pod has long items.

use cmwq_simulated::topology::Topology;
use cmwq_simulated::{Engine, Work, Workqueue, WorkqueueBuilder};
use cmwq_vm::machine::preset;
use cmwq_vm::{Cpus, os};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// CPUs of the machine and of a pod.
const MACHINE: usize = 72;
const POD: usize = 8;
/// Items of a burst.
const ITEMS: usize = 64;
/// From one burst to the next: all workers sleep in between.
const EVERY_NS: u64 = 50_000_000;
const BURSTS: usize = 4;

/// The number of an item, its CPU, and how long after the burst's begin it started.
type Started = (usize, usize, u64);

/// On a machine with nine pods below one cache, a thread on CPU 0 queues a burst of items that
/// compute for `item_ns`, by `queue_one`, and again and again. Returns for each burst in which order
/// its items started.
fn bursts(
    item_ns: u64,
    seed: u64,
    build: impl Fn(WorkqueueBuilder) -> WorkqueueBuilder + 'static,
    queue_one: impl Fn(&Workqueue, &Work) + Send + 'static,
) -> Vec<Vec<Started>> {
    bursts_beside(false, item_ns, seed, build, queue_one)
}

/// As [`bursts`]. `fed`: a thread of the second pod queues a burst of its own, which is over before.
fn bursts_beside(
    fed: bool,
    item_ns: u64,
    seed: u64,
    build: impl Fn(WorkqueueBuilder) -> WorkqueueBuilder + 'static,
    queue_one: impl Fn(&Workqueue, &Work) + Send + 'static,
) -> Vec<Vec<Started>> {
    let machine = preset("grace").expect("a preset").machine();
    let bursts: Rc<Vec<_>> = Rc::new(
        (0..BURSTS)
            .map(|_| Arc::new(Mutex::new(Vec::new())))
            .collect(),
    );
    let seen = bursts.clone();
    let outcome = cmwq_vm::run(&machine, seed, 60_000_000_000, move || {
        let engine = Engine::builder()
            .topology(Topology::from_synthetic(&format!("core:{MACHINE}")).expect("a machine"))
            .build()
            .expect("a topology is given");
        let queue = Arc::new(build(engine.workqueue("dealt")).build().expect("legal"));
        if fed {
            let queue = queue.clone();
            let feed = move || {
                for number in 1..=BURSTS as u64 {
                    let at_ns = EVERY_NS * number - 2_000_000;
                    os::sleep(Duration::from_nanos(at_ns - os::observe_ns()));
                    for _ in 0..ITEMS {
                        queue.execute(|| os::work(20_000)).expect("it is open");
                    }
                }
            };
            os::spawn("feeds", Some(Cpus::from_iter([POD])), feed).expect("memory for a stack");
        }
        let bursts = bursts.iter().cloned().collect::<Vec<_>>();
        let main = move || {
            for (number, burst) in bursts.iter().enumerate() {
                let at_ns = EVERY_NS * (number as u64 + 1);
                let begin_ns = Arc::new(AtomicU64::new(0));
                let item = |index| {
                    let (burst, begin_ns) = (burst.clone(), begin_ns.clone());
                    Work::new(move || {
                        let after_ns = os::observe_ns() - begin_ns.load(Relaxed);
                        let started = (index, os::current_cpu(), after_ns);
                        burst.lock().expect("no panic").push(started);
                        os::work(item_ns);
                    })
                };
                let items: Vec<Work> = (0..ITEMS).map(item).collect();
                os::sleep(Duration::from_nanos(at_ns - os::observe_ns()));
                begin_ns.store(os::observe_ns(), Relaxed);
                items.iter().for_each(|item| queue_one(&queue, item));
            }
            os::sleep(Duration::from_nanos(EVERY_NS));
        };
        os::spawn("issuer", Some(Cpus::from_iter([0])), main).expect("memory for a stack");
        os::sleep(Duration::from_nanos(EVERY_NS * (BURSTS as u64 + 2)));
    });
    outcome.expect("it ends");
    let taken = |burst: &Arc<Mutex<Vec<Started>>>| burst.lock().expect("no panic").clone();
    seen.iter().map(taken).collect()
}

fn queue(queue: &Workqueue, item: &Work) {
    assert!(queue.queue(item).is_accepted());
}

/// In how many pods items of the burst ran.
fn pods(burst: &[Started]) -> usize {
    let mut pods: Vec<usize> = burst.iter().map(|(_, cpu, _)| cpu / POD).collect();
    pods.sort_unstable();
    pods.dedup();
    pods.len()
}

fn a_burst_of_long_items_starts_at_once_in_all_pods() {
    // The latest of 350 seeds were 143, 245 and 236 us; the medians are 101, 220 and 158. Where nothing
    // is dealt they are 159, 525 and 2,300, and eight pods have items.
    for (item_ns, within_ns) in [(20_000, 150_000), (200_000, 400_000), (2_000_000, 400_000)] {
        let mut late = Vec::new();
        for seed in 1..=5 {
            // Before the first burst the engine does not know how long the items are, and other pods
            // get their workers in the next two.
            let bursts = bursts(item_ns, seed, |builder| builder, queue);
            let burst = bursts.last().expect("there are some");
            // A pod may take one too many, which waits until the monitor has it stolen.
            let mut starts: Vec<u64> = burst.iter().map(|&(_, _, after_ns)| after_ns).collect();
            starts.sort_unstable();
            let case = format!("items of {item_ns} ns, seed {seed}: {burst:?}");
            assert_eq!((burst.len(), pods(burst)), (ITEMS, MACHINE / POD), "{case}");
            if starts[ITEMS - 2] >= within_ns {
                late.push(case);
            }
        }
        // The own pod alone would run 64 items of 20 us in 160 us, so the bound is near to what one
        // seed of some hundreds comes to.
        let may_be = usize::from(item_ns == 20_000);
        assert!(late.len() <= may_be, "{late:?}");
    }
}

fn short_items_and_those_of_strict_queues_stay_in_their_pod() {
    for seed in 1..=5 {
        for burst in bursts(400, seed, |builder| builder, queue) {
            assert_eq!(pods(&burst), 1, "seed {seed}: {burst:?}");
        }
        let strict = |builder: WorkqueueBuilder| builder.affinity_strict(true);
        for burst in bursts(20_000, seed, strict, queue) {
            assert_eq!(pods(&burst), 1, "strict, seed {seed}: {burst:?}");
        }
    }
}

/// A kernel-shaped program that limits a queue to one active item relies on the order.
fn where_the_pod_can_run_all_that_may_run_items_start_in_order() {
    for max_active in [1, POD] {
        for seed in 1..=5 {
            let limited = move |builder: WorkqueueBuilder| builder.max_active(max_active);
            for burst in bursts(20_000, seed, limited, queue) {
                let order: Vec<usize> = burst.iter().map(|&(index, _, _)| index).collect();
                let late = |(at, &index): (usize, &usize)| at.abs_diff(index) < max_active;
                assert!(
                    order.iter().enumerate().all(late),
                    "{max_active} may be active, seed {seed}: {order:?}"
                );
            }
        }
    }
}

/// Its thread may soon have more items for it, and they would only change places.
fn a_pod_that_its_own_thread_has_fed_gets_none() {
    let there = [false, true].map(|fed| -> Vec<usize> {
        let of_seed = |seed| {
            let bursts = bursts_beside(fed, 20_000, seed, |builder| builder, queue);
            let burst = bursts.last().expect("there are some");
            burst.iter().filter(|(_, cpu, _)| cpu / POD == 1).count()
        };
        (1..=5).map(of_seed).collect()
    });
    // Of 64 items 8 to 13 are there with each of 350 seeds, and 0 to 3, which idle workers have
    // stolen, if the pod is fed. If it is dealt some all the same, 5 to 10.
    let [gets, fed] = [0, 1].map(|which: usize| there[which].iter().sum::<usize>());
    assert!(gets >= 5 * 7 && fed <= 5 * 4, "{there:?}");
}

/// One after the other: a process can run one simulated machine at a time.
#[test]
fn dealing() {
    a_burst_of_long_items_starts_at_once_in_all_pods();
    short_items_and_those_of_strict_queues_stay_in_their_pod();
    where_the_pod_can_run_all_that_may_run_items_start_in_order();
    a_pod_that_its_own_thread_has_fed_gets_none();
}

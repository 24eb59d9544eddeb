//! A limit of the workers that run at once, over all pools: it is kept, nothing starves below it,
//! and it can change at any time.
//!
//! Sabotages tried are listed at the end of `src/pool/SLOTS.md`.

use crate::harness::{Deadline, Door, eventually};
use cmwq::affinity::AffinityScope;
use cmwq::types::CpuLimit;
use cmwq::{Engine, Workqueue, WorkqueueBuilder};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

/// Eight caches of eight CPUs.
const MACHINE: &str = "l3:8 core:8 pu:1";

fn workers(limit: u32) -> CpuLimit {
    CpuLimit::Workers(NonZeroU32::new(limit).expect("not zero"))
}

fn limited(limit: CpuLimit) -> Engine {
    let topology = cmwq::topology::Topology::from_synthetic(MACHINE).expect("valid");
    let builder = Engine::builder().topology(topology).cpu_limit(limit);
    builder.build().expect("an engine")
}

fn pods(engine: &Engine) -> Workqueue {
    let queue = engine
        .workqueue("pods")
        .affinity_scope(AffinityScope::Cache);
    queue.max_active(512).build().expect("a queue")
}

/// Counts those that are inside at once.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Crowd {
    fn pass(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        // A few tens of microseconds: others have the time to come.
        for round in 0..2000_u32 {
            std::hint::black_box(round);
            std::hint::spin_loop();
        }
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
    }
}

/// Floods every pod, and returns how many items were inside at once.
fn crowd_of(wq: &Workqueue, items: usize) -> usize {
    let crowd = Arc::new(Crowd::default());
    for item in 0..items {
        let crowd = crowd.clone();
        let cpu = item % 64;
        drop(wq.spawn_on(cpu, move || crowd.pass()).expect("a CPU"));
    }
    eventually(|| crowd.all.load(Ordering::SeqCst) == items);
    crowd.most.load(Ordering::SeqCst)
}

#[test]
fn no_more_workers_run_at_once_than_the_limit_says_over_all_pods() {
    let engine = limited(workers(2));
    let _deadline = Deadline::new("limit", &engine);
    assert_eq!(engine.running_limit(), Some(2));
    let wq = pods(&engine);
    // Where the machine is overloaded a pool may wait for 100 ms, and then one more runs.
    eventually(|| crowd_of(&wq, 2000) <= 2);
    // The same without a limit: otherwise the count above proves nothing.
    engine.set_cpu_limit(CpuLimit::None).expect("ours");
    assert_eq!(engine.running_limit(), None);
    eventually(|| crowd_of(&wq, 2000) > 2);
    engine.set_cpu_limit(workers(1)).expect("ours");
    eventually(|| crowd_of(&wq, 500) <= 1);
}

#[test]
fn pools_of_every_kind_take_turns_below_a_limit_of_one() {
    let engine = limited(workers(1));
    let _deadline = Deadline::new("turns", &engine);
    type Kind = fn(WorkqueueBuilder) -> WorkqueueBuilder;
    let kinds: [(&str, Kind); 6] = [
        ("per_cpu", |b| b.per_cpu()),
        ("bh", |b| b.bh()),
        ("strict", |b| {
            b.affinity_scope(AffinityScope::Cpu).affinity_strict(true)
        }),
        ("shards", |b| b),
        ("ordered", |b| b.ordered()),
        ("reclaim", |b| b.mem_reclaim()),
    ];
    let queues = kinds.map(|(name, kind)| kind(engine.workqueue(name)).build().expect(name));
    let count = Arc::new(AtomicUsize::new(0));
    for round in 0..20 {
        for (nth, wq) in queues.iter().enumerate() {
            for cpu in 0..64 {
                let count = count.clone();
                let work = move || {
                    count.fetch_add(1, Ordering::SeqCst);
                };
                drop(wq.spawn_on((cpu + nth + round) % 64, work).expect("a CPU"));
            }
        }
    }
    for wq in &queues {
        wq.flush().expect("not an item");
    }
    assert_eq!(count.load(Ordering::SeqCst), 20 * 6 * 64);
}

#[test]
fn an_item_that_waits_in_whatever_way_for_one_of_another_pool_does_not_hang_below_one() {
    let engine = limited(workers(1));
    let _deadline = Deadline::new("waits", &engine);
    let wq = pods(&engine);
    // It blocks undeclared.
    let (tell, told) = mpsc::channel();
    let sleeps = wq
        .spawn_on(0, move || told.recv().expect("the other runs"))
        .expect("a CPU");
    drop(wq.spawn_on(8, move || tell.send(7)).expect("a CPU"));
    assert_eq!(sleeps.join().expect("no panic"), 7);
    // It blocks declared.
    let other = pods(&engine);
    let declares = wq.spawn_on(16, move || other.spawn_on(24, || 8).expect("a CPU").join());
    let inner = declares.expect("a CPU").join().expect("no panic");
    assert_eq!(inner.expect("no panic"), 8);
    // It computes until the other has run.
    let door = Door::new();
    let passes = door.clone();
    let computes = wq.spawn_on(32, move || passes.pass_awake()).expect("a CPU");
    door.wait_for(1);
    let opens = door.clone();
    drop(
        wq.spawn_on(40, move || opens.open.complete())
            .expect("a CPU"),
    );
    computes.join().expect("no panic");
}

#[test]
fn an_item_that_the_engine_cannot_tell_apart_from_work_holds_nobody_up_for_ever() {
    // A BH item is never a hog, and here nothing else is either.
    let topology = cmwq::topology::Topology::from_synthetic(MACHINE).expect("valid");
    let engine = Engine::builder()
        .topology(topology)
        .cpu_limit(workers(1))
        .cpu_intensive_threshold(std::time::Duration::ZERO)
        .build()
        .expect("an engine");
    let _deadline = Deadline::new("overdue", &engine);
    let bh = engine.workqueue("bh").bh().build().expect("a queue");
    let wq = pods(&engine);
    for first in [&bh, &wq] {
        let door = Door::new();
        let passes = door.clone();
        let computes = first
            .spawn_on(0, move || passes.pass_awake())
            .expect("a CPU");
        door.wait_for(1);
        let opens = door.clone();
        drop(
            wq.spawn_on(8, move || opens.open.complete())
                .expect("a CPU"),
        );
        computes.join().expect("no panic");
    }
}

#[test]
fn a_limit_that_changes_under_load_loses_nothing() {
    let engine = limited(CpuLimit::Auto);
    let progress = Arc::new(AtomicU64::new(0));
    let dumped = engine.clone();
    let dump = move || format!("{:?}\n{}", dumped.stats(), dumped.dump());
    let _deadline = Deadline::of_progress("changes", progress.clone(), dump);
    let queues = [
        pods(&engine),
        engine
            .workqueue("per_cpu")
            .per_cpu()
            .build()
            .expect("a queue"),
    ];
    let stop = AtomicBool::new(false);
    let queued = AtomicUsize::new(0);
    let run = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (wq, first) in queues.iter().zip([0, 3]) {
            let (stop, queued, run) = (&stop, &queued, &run);
            scope.spawn(move || {
                for item in first.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let run = run.clone();
                    let work = move || {
                        run.fetch_add(1, Ordering::SeqCst);
                    };
                    let handle = wq.spawn_on(item * 5 % 64, work).expect("a CPU");
                    queued.fetch_add(1, Ordering::SeqCst);
                    // Now and then it waits, so that pools become idle.
                    if item % 50 == 0 {
                        handle.join().expect("no panic");
                    }
                }
            });
        }
        let limits = [
            workers(1),
            workers(5),
            CpuLimit::None,
            workers(3),
            workers(64),
            workers(1),
        ];
        for limit in limits.iter().cycle().take(60) {
            engine.set_cpu_limit(*limit).expect("ours");
            let so_far = run.load(Ordering::SeqCst);
            eventually(|| run.load(Ordering::SeqCst) > so_far + 20);
            progress.fetch_add(1, Ordering::Relaxed);
        }
        stop.store(true, Ordering::SeqCst);
    });
    for wq in &queues {
        wq.flush().expect("not an item");
    }
    assert_eq!(run.load(Ordering::SeqCst), queued.load(Ordering::SeqCst));
}

#[test]
fn neighbours_help_with_slots_that_nobody_else_uses() {
    let topology = cmwq::topology::Topology::from_synthetic("l3:8 core:1 pu:1").expect("valid");
    let narrow = Engine::builder().topology(topology).cpu_limit(workers(3));
    let narrow = narrow.build().expect("an engine");
    let _deadline = Deadline::new("help", &narrow);
    let wq = pods(&narrow);
    // Three items of one pod of one CPU, each of which ends only when all have begun.
    let door = Door::new();
    let items: Vec<_> = (0..3)
        .map(|_| {
            let door = door.clone();
            wq.spawn_on(0, move || {
                door.arrived.fetch_add(1, Ordering::SeqCst);
                while door.arrived() < 3 {
                    std::thread::yield_now();
                }
            })
            .expect("a CPU")
        })
        .collect();
    eventually(|| items.iter().all(|item| item.is_finished()));
}

/// The pool whose worker the calling thread is, by its name.
fn own_pool() -> String {
    let name = std::fs::read_to_string("/proc/thread-self/comm").expect("it has a name");
    name.split(':').next().expect("a part").to_owned()
}

/// A thief is in an item that does not end: it blocks, declared or not, or computes. What its own
/// pool gets meanwhile must not wait for it.
#[test]
fn an_item_does_not_wait_for_a_worker_of_its_pool_that_is_held_in_another_pool() {
    let ways: [fn(&Door); 3] = [
        Door::pass,
        |door| {
            door.arrived.fetch_add(1, Ordering::SeqCst);
            while !door.open.is_done() {
                std::thread::park_timeout(std::time::Duration::from_secs(60));
            }
        },
        Door::pass_awake,
    ];
    for (way, pass) in ways.into_iter().enumerate() {
        let topology = cmwq::topology::Topology::from_synthetic("l3:2 core:1 pu:1").expect("valid");
        let engine = Engine::builder().topology(topology).cpu_limit(workers(2));
        let engine = engine.build().expect("an engine");
        let _deadline = Deadline::new("away", &engine);
        let wq = pods(&engine);
        let pools = Arc::new(Mutex::new(BTreeSet::new()));
        let door = Door::new();
        let threads = Arc::new(Mutex::new(Vec::new()));
        let queue_one = || {
            let (pools, door, threads) = (pools.clone(), door.clone(), threads.clone());
            let item = wq.spawn_on(0, move || {
                threads.lock().unwrap().push(std::thread::current());
                pools.lock().unwrap().insert(own_pool());
                // To the engine it computes, so that a thief comes.
                while pools.lock().unwrap().len() < 2 {
                    std::hint::spin_loop();
                }
                pass(&door);
            });
            drop(item.expect("a CPU"));
        };
        (0..4).for_each(|_| queue_one());
        let mut queued = 4;
        // The helpers come from one neighbour or from two: the pool of all CPUs is one as well.
        eventually(|| {
            let is_helped = pools.lock().unwrap().len() >= 2;
            // All have begun at home, beside CPU hogs: nothing waits that a helper could take.
            if !is_helped && threads.lock().unwrap().len() == queued {
                queue_one();
                queued += 1;
            }
            is_helped && door.arrived() >= 2
        });
        let probe = wq.spawn_on(1, || ()).expect("a CPU");
        eventually(|| probe.is_finished());
        assert!(!door.open.is_done(), "way {way}");
        door.open.complete();
        for thread in threads.lock().unwrap().iter() {
            thread.unpark();
        }
    }
}

#[test]
fn the_parameter_takes_what_it_shows_and_refuses_the_rest() {
    let engine = limited(workers(4));
    let shown = |name| engine.parameter(name).expect("a parameter");
    assert_eq!(
        (shown("cpu_limit"), shown("running_limit")),
        ("4".into(), "4".into())
    );
    for (text, limit) in [("1\n", "1"), ("none", "none"), ("65", "65")] {
        engine.set_parameter("cpu_limit", text).expect(text);
        assert_eq!(
            (shown("cpu_limit"), shown("running_limit")),
            (limit.into(), limit.into())
        );
    }
    for text in ["0", "", "-1", "+1", "1.5", "Auto", "4294967296", " 1"] {
        engine.set_parameter("cpu_limit", text).expect_err(text);
        assert_eq!(shown("cpu_limit"), "65");
    }
    assert!(engine.set_parameter("running_limit", "1").is_err());
    assert!(engine.set_parameter("cpu_quota", "1").is_err());
    assert!(!shown("cpu_quota").is_empty());
    engine.set_parameter("cpu_limit", "auto").expect("auto");
    assert_eq!(shown("cpu_limit"), "auto");
}

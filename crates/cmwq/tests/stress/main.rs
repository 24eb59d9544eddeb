//! Random operations from several threads against a simple model: queues of every kind are used,
//! changed, frozen, drained, destroyed and made while others use them; items of every make are
//! queued, delayed, moved, cancelled, disabled and flushed, and themselves queue others, block, and
//! panic; CPUs come and go; workers cannot be created. The operations and the model are those of
//! the exploration of simulated machines: `../programs/`, which says what must hold.
//!
//! A run prints its seed; `CMWQ_TEST_SEED` repeats its operations, `CMWQ_TEST_OPS` sets their
//! number. A million, in release mode, take about a quarter of a minute: `scripts/stress`, or
//! `CMWQ_TEST_OPS=1000000 cargo test --release -p cmwq --test stress -- --test-threads=1
//! --no-capture`.
//!
//! Faults put into the engine on purpose, one at a time, and the tests that caught them (q:
//! queues/queues.rs, m: conformance/, s: this test; "crash" and "hang" are failures too):
//!
//! | fault | caught by |
//! |---|---|
//! | PENDING cleared after the function instead of before | q, m 1, s |
//! | `next_task` does not look for a run of the same item | m (hang), s |
//! | `queue` does not look for a run on the last pool; the last pool is forgotten | m 3, s |
//! | the last pool's run is taken for the queue's own, whatever queue it is of | m 3 |
//! | an item behind its own run keeps the other queue's pool workqueue | m 3 (a run that follows one of another queue) |
//! | runs are told apart by address alone | m 4 (an address used again); unit test of `pool/busy.rs` |
//! | no grace period between replacing a slot and retiring what was there | s (crash) |
//! | a flush or a retirement does not accept what is in the inbox | q, m 4, 10, 14, s |
//! | a flush takes a busy colour for idle | q, m 1 and more, s |
//! | a new pool workqueue starts with colour 0 | m, s |
//! | a flush shares a generation that had begun before it | m 11, s |
//! | credits are not given back at an item's end, or lost when they are | q, m, s (hangs) |
//! | a waiting pool workqueue does not collect the others' unused credits | m 13, s |
//! | only one inactive item per pool workqueue is served | q, m, s (hangs) |
//! | inactive items are overtaken | m 14, s |
//! | a changed limit does not reach the nodes; new attributes do not settle the limits | m 14 |
//! | the new pool workqueue of an ordered queue is not plugged | q, m 15, s |
//! | the inbox gives items out newest first | q, m 14, 15, s |
//! | settling does not ask for a notification, a worker, or loses the wake-up | q, m, s (hangs) |
//! | a retired pool workqueue never goes | q, m, s (hangs) |
//! | a drain never ends the queue's being closed | m 12, 30 |
//! | a drain looks at each pool once | s (an item that hops) |
//! | a dropped item's reference is not given back | m 12 |
//! | declared blocking is not counted, so the monitor has to find it | m 20 |
//! | workers that leave count as busy | m 20 |
//! | a frozen queue's limit stays; one made while frozen is not; unused credits stay out when freezing begins | s |
//! | a thaw starts no item | s (hangs) |
//! | a cancelled item keeps its credit, also when it is scheduled behind its own run; an inactive one gives one back | s |
//! | what a cancellation ends is not told to flushes and waiters | s (hangs) |
//! | a credit for a pool workqueue whose last waiting item was cancelled is lost | m (a place), s (hangs) |
//! | a disabled item is accepted; `disable_sync` does not wait; `cancel_sync` undoes others' steps | s |
//! | `cancel_sync` does not find the run on the pool before the last | m (the pool before), s |
//! | `mod_delayed` drops an instance that is being disabled | m (moved and disabled) |
//! | an ordered queue's item goes where it runs | m (its turn), s |
//! | an ordered queue uses the slot of each CPU | m (one CPU after the other), s in a million operations |
//! | an item that goes where it runs overtakes what is in the inbox | m (sent to the CPU that runs it) |
//! | a BH pool runs two at a time; a per-CPU limit is one too high | s |
//! | a lowered limit that is overdrawn is not noticed | s |
//!
//! Got past all of them: PENDING cleared or tested by plain accesses, one phase flip instead of
//! two, and `close` without a grace period (each needs a reordering or a pause of a few
//! instructions: for the model checker); no spare worker asked for when an item starts (settling
//! asks for one as soon as it is needed, only later); a drain that looks twice but does not compare
//! what it saw (the single look is caught).

#[path = "../harness/mod.rs"]
mod harness;
mod os;
#[allow(unreachable_pub, reason = "the simulator's library shows some of it")]
#[path = "../programs/mod.rs"]
mod programs;
#[path = "../harness/thread_creation.rs"]
mod thread_creation;

use cmwq as library;
use harness::{broken, random};

use harness::{Deadline, engine, eventually, number, seed};
use programs::{
    Bounded, Issuer, KINDS, Kind, Known, Ledger, Random, Settings, World, drain_what_hops,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const ISSUERS: usize = 4;
const QUEUES: usize = 8;

fn run(test: &'static str, machine: &str, ops: u64, seed: u64, shortage: Option<usize>) {
    // What is done to the system's part is done to the whole process.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _shortage = shortage.map(thread_creation::Shortage::of_one_in);
    let all_cpus = os::my_cpus();
    let engine = engine(machine);
    let mut random = Random::new(seed);
    let progress: Arc<AtomicU64> = Arc::default();
    let known = Known::default();
    let settings = Settings {
        seed,
        queues: QUEUES,
        has_bounded: true,
        threads_are_short: shortage.is_some(),
        cpus_change: true,
        cpus_stay: false,
    };
    let world = World::new(&engine, &settings, &known);
    let _deadline = Deadline::of_progress(test, progress.clone(), {
        let (engine, machine, known) = (engine.clone(), machine.to_owned(), known.clone());
        move || {
            let (open, stats, dump) = (known.open(), engine.stats(), engine.dump());
            format!("machine {machine}, CMWQ_TEST_SEED={seed}, {stats:?}\n{open}\n{dump}")
        }
    });
    let seeds: Vec<u64> = (0..ISSUERS).map(|_| random.bits()).collect();
    let kinds = kinds();
    let total = kinds.iter().map(|(_, weight)| weight).sum::<u64>() as usize;
    std::thread::scope(|scope| {
        for (n, seed) in seeds.into_iter().enumerate() {
            let (world, kinds, progress) = (&world, &kinds, &progress);
            scope.spawn(move || {
                let cpu = world.cpus[n % world.cpus.len()];
                // Two declare their CPU, two queue from wherever they are.
                let _issuer = (n % 2 == 0).then(|| world.engine.become_issuer(cpu).unwrap());
                let (mut random, mut issuer) = (Random::new(seed), Issuer::new(world.clone()));
                for _ in 0..ops / ISSUERS as u64 {
                    let kind = programs::pick(kinds, random.below(total) as u64);
                    issuer.step(kind, random.bits());
                    progress.fetch_add(1, Ordering::Relaxed);
                }
                issuer.finish();
            });
        }
    });
    os::seem_to_have(all_cpus);
    world.ends.store(true, Ordering::Relaxed);
    settle(&world);
    eventually(|| world.shared.deliver_all(&known.broken) == 0);
    let ledgers = programs::lock(&known.ledgers);
    for ledger in ledgers.iter() {
        // What a timer was armed with when its queue went may still be under way, though the
        // account is right.
        eventually(|| ledger.is_settled());
        ledger.check(&known.broken);
    }
    drop(ledgers);
    if let Some(bounded) = &world.bounded {
        bounded.check_at_rest();
    }
    known.broken.none();
    (0..QUEUES).for_each(|which| world.queue(which).check_values(&known.broken));
    known.broken.none();
    let (results, own) = (world.shared.results(), world.own.clone());
    drop(world);
    eventually(|| {
        let stats = engine.stats();
        stats.pools == 0 && stats.workers == 0 && own.are_gone()
    });
    assert_eq!(Arc::strong_count(&results), 1, "results are left");
    let stats = engine.stats();
    eprintln!("{machine}: {stats:?}");
    assert_eq!(stats.started, stats.completed, "{stats:?}");
}

/// How often each kind of operation is drawn. A simulated machine sleeps for nothing; here it is
/// time that is lost.
fn kinds() -> Vec<(Kind, u64)> {
    let weights = KINDS.into_iter().map(|(kind, weight)| match kind {
        Kind::Rest => (kind, 2),
        Kind::Steady => (kind, 30),
        Kind::Batch => (kind, 10),
        Kind::Completions => (kind, 20),
        _ => (kind, weight),
    });
    weights
        .chain([(Kind::CpuLimit, 4), (Kind::Bounded, 60)])
        .collect()
}

/// Waits until the world is quiescent: all queues at the same time, since items queue on other queues.
fn settle(world: &World) {
    let state = || {
        let ledgers = programs::lock(&world.ledgers);
        let settled = world.steady.iter().all(|steady| steady.shots.is_settled())
            && world.bounded.as_ref().is_none_or(Bounded::is_settled)
            && ledgers.iter().all(Ledger::is_settled);
        let state: Vec<_> = ledgers.iter().map(Ledger::state).collect();
        (settled, state)
    };
    eventually(|| {
        world.empty_graveyard();
        for which in 0..world.queue_count() {
            let queue = world.queue(which);
            for item in queue.items.iter().filter(|item| item.class.is_delayed()) {
                item.flush();
            }
            queue.wq.flush().unwrap();
        }
        let (settled, before) = state();
        settled && {
            std::thread::yield_now();
            state() == (true, before)
        }
    });
}

const MACHINES: [&str; 6] = [
    "l3:1 core:1 pu:1",
    "l3:2 core:2 pu:1",
    "numa:2 l3:2 core:2 pu:1",
    "l3:4 core:1 pu:2",
    "l3:1 core:4 pu:1",
    "pack:2 numa:1 l3:3 core:2 pu:1",
];

#[test]
fn random_operations_keep_every_promise() {
    // Expected a thousand times: warnings of dropped items, sleepers, CPU hogs.
    cmwq::observe::set_warning_handler(|_| {});
    let seed = seed("random_operations_keep_every_promise");
    let ops = number("CMWQ_TEST_OPS", 20_000);
    for (n, machine) in MACHINES.iter().enumerate() {
        run(
            "random_operations_keep_every_promise",
            machine,
            ops / MACHINES.len() as u64,
            seed ^ n as u64,
            None,
        );
    }
}

/// Items of queues with a rescuer get on without a single new worker, the others when one comes.
#[test]
fn random_operations_keep_every_promise_while_workers_cannot_be_created() {
    const TEST: &str = "random_operations_keep_every_promise_while_workers_cannot_be_created";
    cmwq::observe::set_warning_handler(|_| {});
    let seed = seed(TEST);
    let ops = number("CMWQ_TEST_OPS", 20_000) / 40;
    for (n, machine) in MACHINES.iter().enumerate().take(2) {
        run(TEST, machine, ops / 2, seed ^ n as u64, Some(3));
    }
}

/// While an item hops from pod to pod the queue is never empty, though every single pool is at times.
#[test]
fn drain_does_not_miss_an_item_that_hops_between_pods() {
    const TEST: &str = "drain_does_not_miss_an_item_that_hops_between_pods";
    let mut random = Random::new(seed(TEST));
    let engine = engine("l3:16 core:1 pu:1");
    let _deadline = Deadline::new(TEST, &engine);
    let cpus: Vec<usize> = engine.topology().cpus().iter().collect();
    let broken = programs::Broken::default();
    for _ in 0..number("CMWQ_TEST_OPS", 20_000).min(20_000) / 50 {
        drain_what_hops(&engine, &cpus, &mut random, &broken);
    }
    broken.none();
    assert_eq!(engine.stats().panics, 0);
}

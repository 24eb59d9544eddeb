//! The dump of what is busy: how it shows lists, runs that wait for others, stalled pools.

use crate::harness::{Deadline, Door, engine, eventually, held};
use cmwq::observe::{PoolState, function_name};
use cmwq::raw::RawWork;
use cmwq::topology::Topology;
use cmwq::{Engine, Work, Workqueue};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

extern "C-unwind" fn one(_: NonNull<RawWork>) {
    black_box(1);
}

extern "C-unwind" fn two(_: NonNull<RawWork>) {
    black_box(2);
}

/// An engine of one CPU where an item that computes is left alone, and a per-CPU queue on it, which
/// such an item holds up.
fn stuck(max_active: usize) -> (Deadline, Engine, Workqueue, Arc<Door>) {
    let engine = engine("l3:1 core:1 pu:1");
    let deadline = Deadline::new("dump", &engine);
    engine.set_cpu_intensive_threshold(Duration::ZERO);
    let wq = engine.workqueue("stuck").per_cpu().max_active(max_active);
    let wq = wq.build().unwrap();
    let door = Door::new();
    let own = door.clone();
    drop(wq.spawn(move || own.pass_awake()));
    door.wait_for(1);
    (deadline, engine, wq, door)
}

fn pool(engine: &Engine) -> PoolState {
    let mut pools = engine.pool_states().into_iter();
    pools
        .find(|pool| !pool.runs.is_empty())
        .expect("one is busy")
}

#[test]
fn equal_functions_in_a_row_are_one_with_a_count() {
    // Three beside the one that runs are active; the others wait for a credit.
    let (_deadline, engine, wq, door) = stuck(4);
    let funcs = [one, one, two, two, two, one, one, one, one, two];
    let items: Vec<RawWork> = funcs.iter().map(|func| RawWork::new(*func)).collect();
    for item in &items {
        // SAFETY: the queue is flushed before they go.
        let _ = unsafe { wq.queue_raw(NonNull::from(item)) };
    }
    let dump = engine.dump().to_string();
    door.open.complete();
    wq.flush().unwrap();
    let [one, two] = [one, two].map(|func| function_name(func as *const () as usize));
    assert_ne!(one, two);
    for line in [
        format!("    pending: 2*{one}, {two}\n"),
        format!("    inactive: 2*{two}, 4*{one}, {two}\n"),
        " active=4 in_flight=11 refcnt=12\n".to_owned(),
    ] {
        assert!(dump.contains(&line), "{line}\n{dump}");
    }
}

#[test]
fn what_waits_for_its_own_run_is_behind_it() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("dump", &engine);
    let wq = engine.workqueue("again").build().unwrap();
    let door = Door::new();
    let own = door.clone();
    let work = Work::new(move || own.pass());
    assert!(wq.queue(&work).is_accepted());
    door.wait_for(1);
    assert!(!engine.dump().to_string().contains("BEHIND IT"));
    assert!(wq.queue(&work).is_accepted());
    // Another worker takes the instance, and leaves it to the running one.
    let func = function_name(pool(&engine).runs[0].func);
    let line = |dump: &str| {
        let line = dump.lines().find(|line| line.contains("in-flight:"));
        line.map(str::to_owned).unwrap_or_default()
    };
    eventually(|| line(&engine.dump().to_string()).ends_with(&format!("s BEHIND IT {func}")));
    let text = line(&engine.dump().to_string());
    assert_eq!(text.matches(&func).count(), 2, "{text}");
    door.open.complete();
    wq.flush().unwrap();
}

/// For how long a pool stood still when it was asked for the first time, after `wait`.
fn hung_when_asked_after(wait: Duration) -> u64 {
    let (_deadline, engine, wq, door) = stuck(10);
    assert_eq!(pool(&engine).hung_ns, None, "nothing waits");
    assert!(!engine.dump().to_string().contains(" hung="));
    // By the clock by which standstills begin: it is behind the other by a tick, and by more where
    // the host takes the CPU away.
    let begun = clock_gettime(ClockId::MonotonicCoarse);
    let elapsed = || {
        let passed = clock_gettime(ClockId::Monotonic) - begun;
        Duration::try_from(passed).expect("it was before")
    };
    drop(wq.spawn(|| ()));
    while elapsed() < wait {
        std::thread::park_timeout(wait);
    }
    let hung = pool(&engine).hung_ns.unwrap_or(0);
    let most = elapsed().as_nanos() as u64;
    let dump = engine.dump().to_string();
    door.open.complete();
    wq.flush().unwrap();
    assert!(hung <= most, "{hung} of {most} ns");
    // Behind "nice=0", or "(runs at 5)" in a process of that nice level.
    assert!(hung == 0 || dump.contains(" hung="), "{dump}");
    hung
}

#[test]
fn a_pool_that_stands_still_says_since_when_without_being_asked_before() {
    // The monitor samples every other millisecond, on a machine that has time for it: otherwise
    // once more, and longer.
    let waits = [100, 400, 1600, 6400].map(Duration::from_millis);
    assert!(
        waits
            .iter()
            .any(|&wait| hung_when_asked_after(wait) >= 20_000_000)
    );
}

#[test]
fn flags_say_which_pools_belong_to_a_cpu() {
    let engine = engine("l3:1 core:2 pu:1");
    let _deadline = Deadline::new("flags", &engine);
    let _queues = [
        engine.workqueue("unbound").build().unwrap(),
        engine.workqueue("percpu").per_cpu().build().unwrap(),
        engine.workqueue("bh").bh().build().unwrap(),
    ];
    use cmwq::observe::PoolFor::{Bh, PerCpu, Unbound};
    eventually(|| {
        engine
            .pool_states()
            .iter()
            .all(|pool| pool.manager.is_none())
    });
    let pools = engine.pool_states();
    for pool in &pools {
        let expected = match pool.kind {
            Unbound => 4,
            PerCpu(_) => 0,
            Bh(_) => 1,
        };
        assert_eq!(pool.flags, expected, "{pool:?}");
    }
    assert!(pools.len() >= 5, "{pools:?}");
}

#[test]
fn the_dump_of_freezable_queues_has_no_others() {
    let topology = Topology::from_synthetic("l3:1 core:2 pu:1").unwrap();
    let engine = Engine::builder().topology(topology).build().unwrap();
    let _deadline = Deadline::new("dump", &engine);
    let stays = engine.workqueue("stays").build().unwrap();
    let stops = engine.workqueue("stops").freezable().build().unwrap();
    let door = Door::new();
    let _items = (held(&stays, 0, 1, &door), held(&stops, 0, 1, &door));
    door.wait_for(2);
    engine.freeze_workqueues_begin();
    let waiting = Work::new(|| ());
    assert!(stops.queue(&waiting).is_accepted());
    assert!(engine.freeze_workqueues_busy());
    let dump = engine.dump_freezable();
    let text = dump.to_string();
    let head =
        "Showing freezable workqueues that are still busy:\nworkqueue stops: unbound freezable\n";
    assert!(text.starts_with(head), "{text}");
    assert!(
        text.contains("in-flight:") && text.contains("inactive:"),
        "{text}"
    );
    assert!(
        !text.contains("stays") && !text.contains("workers="),
        "{text}"
    );
    assert_eq!(
        dump.threads().matches(" kworker/u").count(),
        1,
        "{}",
        dump.threads()
    );
    let all = engine.dump();
    let text = all.to_string();
    assert!(
        text.contains("workqueue stays") && text.contains("workqueue stops"),
        "{text}"
    );
    assert_eq!(
        all.threads().matches(" kworker/u").count(),
        2,
        "{}",
        all.threads()
    );
    door.open.complete();
    stays.flush().unwrap();
    eventually(|| !engine.freeze_workqueues_busy());
    let text = engine.dump_freezable().to_string();
    assert!(
        text.contains("inactive:") && !text.contains("in-flight:"),
        "{text}"
    );
    engine.thaw_workqueues();
    stops.flush().unwrap();
    assert_eq!(engine.dump_freezable().to_string().lines().count(), 1);
}

//! Every part of a dump, of pools that never were. Functions are numbers at which nothing is loaded.

use super::*;
use crate::pool::queue::stats::PoolStats;
use crate::pool::report::snapshot::WorkerSnapshot;
use crate::topology::CpuSet;

fn pool(id: u32, kind: PoolKind) -> PoolSnapshot {
    let cpus = CpuSet::from_iter([id as usize]);
    PoolSnapshot {
        id,
        kind,
        cpus: cpus.clone(),
        node: None,
        strict: false,
        nice: 0,
        effective_nice: None,
        workers: Vec::new(),
        idle: Vec::new(),
        manager: None,
        flags: 0,
        hung_ns: None,
        binding: cpus,
        target: 1,
        running: 1,
        waiting: 0,
        stats: PoolStats::default(),
        runs: Vec::new(),
        pwqs: Vec::new(),
    }
}

fn pwq(place: u32, queue: &str) -> PwqSnapshot {
    PwqSnapshot {
        place,
        queue: queue.to_owned(),
        flags: "flagged".to_owned(),
        active: 1,
        in_flight: 1,
        references: 2,
        freezable: false,
        mayday: false,
        pending: Vec::new(),
        inactive: Vec::new(),
        nr_inactive: 0,
        admits: 1,
        group: None,
        plugged: false,
    }
}

fn run(pwq: u32, tid: i32) -> RunSnapshot {
    RunSnapshot {
        pwq,
        front: 0,
        tid,
        rescuer: false,
        func: 0x10,
        description: None,
        for_ns: 0,
        scheduled: Vec::new(),
    }
}

/// A pool in every trouble, one that gets on, and one where nothing is going on.
fn pools() -> Vec<PoolSnapshot> {
    let worker = |id| WorkerSnapshot {
        id,
        tid: 0,
        doing: "running",
    };
    let mut first = pool(3, PoolKind::Unbound);
    first.node = Some(1);
    first.strict = true;
    (first.nice, first.effective_nice) = (-20, Some(0));
    first.workers = (0..5).map(worker).collect();
    (first.idle, first.manager) = (vec![103, 101], Some(99));
    (first.flags, first.hung_ns) = (6, Some(31_999_999_999));
    let mut distressed = pwq(0, "b");
    (
        distressed.active,
        distressed.in_flight,
        distressed.references,
    ) = (3, 9, 10);
    distressed.mayday = true;
    distressed.pending = vec![0x20];
    distressed.inactive = vec![0x20, 0x20, 0x30];
    distressed.nr_inactive = 3;
    distressed.group = Some(("all".to_owned(), 4, 3));
    first.pwqs = vec![distressed, pwq(1, "a")];
    let mut long = run(0, 71);
    (long.rescuer, long.for_ns) = (true, 12_340_000_000);
    long.description = Some("tidies up".to_owned());
    let mut again = run(0, 72);
    (again.func, again.scheduled) = (0x40, vec![0x40, 0x50]);
    first.runs = vec![long, run(1, 73), again];

    let mut second = pool(4, PoolKind::PerCpu(4));
    second.pwqs = vec![pwq(0, "b")];
    second.runs = vec![run(0, 74)];
    second.manager = Some(0);
    let mut third = pool(5, PoolKind::Bh(5));
    third.pwqs = vec![pwq(0, "c")];
    third.pwqs[0].in_flight = 0;
    (third.manager, third.hung_ns) = (Some(98), Some(1));
    vec![first, second, third]
}

#[test]
fn a_dump_names_every_queue_and_pool_that_is_busy_with_all_that_is_known_of_them() {
    let expected = "\
Showing busy workqueues and worker pools:
workqueue a: flagged
  pwq: pool 3: cpus=3 node=1 flags=0x6 unbound strict nice=-20 (runs at 0) active=1 in_flight=1 refcnt=2
    in-flight: 73:0x10 for 0.0s
workqueue b: flagged
  pwq: pool 3: cpus=3 node=1 flags=0x6 unbound strict nice=-20 (runs at 0) active=3 in_flight=9 refcnt=10 MAYDAY; group all admits 4, 3 held
    in-flight: 71(RESCUER):0x10 (tidies up) for 12.3s, 72:0x40 for 0.0s BEHIND IT 0x40 0x50
    pending: 0x20
    inactive: 2*0x20, 0x30
  pwq: pool 4: cpus=4 flags=0x0 per-CPU nice=0 active=1 in_flight=1 refcnt=2
    in-flight: 74:0x10 for 0.0s
pool 3: cpus=3 node=1 flags=0x6 unbound strict nice=-20 (runs at 0) hung=31s workers=5 manager: 99 idle: 103 101
pool 4: cpus=4 flags=0x0 per-CPU nice=0 workers=0 manager: none yet
";
    assert_eq!(Dump::new(pools()).to_string(), expected);
}

#[test]
fn what_waits_says_why_by_its_pool_or_by_its_limit() {
    let mut pools = pools();
    (pools[0].running, pools[0].target) = (2, 3);
    pools[2].idle = vec![7];
    (pools[2].running, pools[2].target) = (0, 1);
    let dump = Dump::new(pools);
    let ready = |id| dump.why_it_waits(WaitList::Ready(id));
    assert_eq!(ready(4), "1 items run, as many as may");
    assert_eq!(ready(3), "no worker takes it", "one is idle");
    assert_eq!(ready(5), "no worker takes it");
    assert_eq!(ready(6), "the pool is gone");
    let mut pools = self::pools();
    (pools[1].running, pools[1].target) = (0, 1);
    let dump = Dump::new(pools);
    assert_eq!(
        dump.why_it_waits(WaitList::Ready(4)),
        "a worker is needed and has not been created"
    );
}

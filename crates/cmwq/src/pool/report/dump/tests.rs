//! Every part of a dump, of pools that never were. Functions are numbers at which nothing is loaded.

use super::*;
use crate::pool::{PoolCounts, PoolWorker, RunState};
use crate::topology::CpuSet;

fn pool(id: u32, kind: PoolFor) -> PoolSnapshot {
    let cpus = CpuSet::from_iter([id as usize]);
    let state = PoolState {
        id,
        kind,
        flags: 0,
        manager: None,
        hung_ns: None,
        users: 1,
        nice: 0,
        effective_nice: None,
        pod: cpus.clone(),
        cpus: cpus.clone(),
        strict: false,
        node: None,
        binding: cpus,
        target: 1,
        running: 1,
        waiting: 0,
        workers: Vec::new(),
        runs: Vec::new(),
        stats: PoolCounts::default(),
    };
    PoolSnapshot {
        state,
        idle: Vec::new(),
        runs: Vec::new(),
        pwqs: Vec::new(),
    }
}

fn pwq(index: u32, queue: &str) -> PwqSnapshot {
    PwqSnapshot {
        index,
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
        is_described: false,
        state: RunState {
            tid,
            rescuer: false,
            queue: 0,
            func: 0x10,
            description: "its queue".to_owned(),
            for_ns: 0,
            scheduled: Vec::new(),
        },
    }
}

/// A pool in every trouble, one that gets on, and one where nothing is going on.
fn pools() -> Vec<PoolSnapshot> {
    let worker = |id| PoolWorker {
        id,
        tid: 0,
        doing: "running",
    };
    let mut first = pool(3, PoolFor::Unbound);
    first.state.node = Some(1);
    first.state.strict = true;
    (first.state.nice, first.state.effective_nice) = (-20, Some(0));
    first.state.workers = (0..5).map(worker).collect();
    (first.idle, first.state.manager) = (vec![103, 101], Some(99));
    (first.state.flags, first.state.hung_ns) = (6, Some(31_999_999_999));
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
    (long.state.rescuer, long.state.for_ns) = (true, 12_340_000_000);
    (long.is_described, long.state.description) = (true, "tidies up".to_owned());
    let mut again = run(0, 72);
    (again.state.func, again.state.scheduled) = (0x40, vec![0x40, 0x50]);
    first.runs = vec![long, run(1, 73), again];

    let mut second = pool(4, PoolFor::PerCpu(4));
    second.pwqs = vec![pwq(0, "b")];
    second.runs = vec![run(0, 74)];
    second.state.manager = Some(0);
    let mut third = pool(5, PoolFor::Bh(5));
    third.pwqs = vec![pwq(0, "c")];
    third.pwqs[0].in_flight = 0;
    (third.state.manager, third.state.hung_ns) = (Some(98), Some(1));
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
fn names_of_any_characters_are_a_part_of_their_line() {
    let mut one = pool(3, PoolFor::Unbound);
    let mut odd = pwq(0, "a\nworkqueue b: flagged\u{1b}[2J é");
    odd.group = Some(("x\ty".to_owned(), 2, 1));
    one.pwqs = vec![odd];
    let dump = Dump::new(vec![one]).to_string();
    let lines: Vec<&str> = dump.lines().collect();
    assert_eq!(
        lines[1],
        r"workqueue a\nworkqueue b: flagged\u{1b}[2J é: flagged"
    );
    assert!(
        lines[2].ends_with(r"; group x\ty admits 2, 1 held"),
        "{dump}"
    );
    assert_eq!(lines.len(), 4, "{dump}");
}

#[test]
fn what_waits_says_why_by_its_pool_or_by_its_limit() {
    let mut pools = pools();
    (pools[0].state.running, pools[0].state.target) = (2, 3);
    pools[2].idle = vec![7];
    (pools[2].state.running, pools[2].state.target) = (0, 1);
    let dump = Dump::new(pools);
    let ready = |id| dump.why_it_waits(WaitList::Ready(id));
    assert_eq!(ready(4), "1 items run, as many as may");
    assert_eq!(ready(3), "no worker takes it", "one is idle");
    assert_eq!(ready(5), "no worker takes it");
    assert_eq!(ready(6), "the pool is gone");
    let mut pools = self::pools();
    (pools[1].state.running, pools[1].state.target) = (0, 1);
    let dump = Dump::new(pools);
    assert_eq!(
        dump.why_it_waits(WaitList::Ready(4)),
        "a worker is needed and has not been created"
    );
}

#[test]
fn a_report_knows_how_long_a_worklist_has_waited() {
    let mut hung = pool(7, PoolFor::Unbound);
    hung.state.hung_ns = Some(45);
    let dump = Dump::new(vec![pool(6, PoolFor::Unbound), hung]);
    let hung = [6, 7, 8].map(|id| dump.hung_ns(WaitList::Ready(id)));
    assert_eq!(hung, [None, Some(45), None]);
    let inactive = WaitList::Inactive(7, crate::pool::PwqKey::none());
    assert_eq!(dump.hung_ns(inactive), None);
}

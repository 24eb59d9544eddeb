//! The published block loads: items decipher, issuers verify.

use super::{MOST_WINDOWS, Parts, Plan, TOLERANCE_PERCENT};
use crate::kernel::Latencies;
use cmwq_loads::{Found, Latency};
use cmwq_simulated::{Completion, Work, Workqueue};
use cmwq_vm::machine::{Machine, OTHER_PACKAGE, SAME_PACKAGE};
use cmwq_vm::os::{self, Totals};
use cmwq_vm::{Access, Cpus};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Blocks that one issuer has in flight, as published.
const DEPTH: usize = 64;
/// Deciphering a block, and what its issuer does with it, alone on a core. Both follow from the
/// published rows of `system` on the 3900X (1.6: the slow-down by the SMT sibling). With 24 issuers
/// 23.8 busy CPUs make 74,200 blocks a second: 321 µs each, 200 without the slow-down. With four,
/// which are four busy CPUs at most, 63,600: 63 µs each of the issuers' time, 44 without.
const DECIPHER_NS: u64 = 156_000;
/// See `DECIPHER_NS`.
const VERIFY_NS: u64 = 44_000;
/// Lines of a block that come from another cache at a time: an estimate.
const BLOCK_LINES: u64 = 512;
/// See `BLOCK_LINES`.
const LINES_AT_A_TIME: u64 = 10;
/// Blocks of each issuer in a window.
const BLOCKS: usize = 500;

/// What an item signals, and where it ran last, on lines of their own.
#[repr(align(128))]
#[derive(Default)]
struct Target {
    done: Completion,
    cpu: AtomicUsize,
}

struct Shared {
    /// Blocks of a window, all issuers together.
    window: usize,
    ran: Cell<usize>,
    /// The first fill is the warm-up: the windows begin after so many blocks.
    from: usize,
    /// The ends of the windows.
    marks: RefCell<Vec<(u64, Totals)>>,
    enqueue_ns: RefCell<Vec<u32>>,
    left: Cell<usize>,
    all_done: Completion,
}

impl Shared {
    /// A block is done. `false`: two windows agree, or there were enough.
    fn go_on(&self) -> bool {
        let ran = self.ran.get() + 1;
        self.ran.set(ran);
        if ran >= self.from && (ran - self.from).is_multiple_of(self.window) {
            let mut marks = self.marks.borrow_mut();
            marks.push((os::observe_ns(), os::totals()));
        }
        let marks = self.marks.borrow();
        marks.len() <= MOST_WINDOWS as usize && !agree(&self.rates(&marks))
    }

    fn rates(&self, marks: &[(u64, Totals)]) -> Vec<f64> {
        let windows = marks.windows(2);
        let rates = windows.map(|ends| self.window as f64 * 1e9 / (ends[1].0 - ends[0].0) as f64);
        rates.collect()
    }
}

fn agree(rates: &[f64]) -> bool {
    let tolerance = f64::from(TOLERANCE_PERCENT) / 100.0;
    matches!(rates, [.., one, other] if (one - other).abs() <= tolerance * one.max(*other))
}

pub(super) fn run(plan: &Plan, issuers: usize, queue: Workqueue) -> Parts {
    let queue = Arc::new(queue);
    let shared = Rc::new(Shared {
        window: issuers * BLOCKS,
        ran: Cell::new(0),
        from: issuers * DEPTH,
        marks: RefCell::default(),
        enqueue_ns: RefCell::default(),
        left: Cell::new(issuers),
        all_done: Completion::new(),
    });
    for number in 0..issuers {
        let (queue, shared, machine) = (queue.clone(), shared.clone(), plan.machine.clone());
        // The threads of the published loads were free.
        let allowed: Cpus = (0..machine.cpus.len()).collect();
        let main = move || {
            issue(&machine, &queue, &shared);
            shared.left.set(shared.left.get() - 1);
            if shared.left.get() == 0 {
                shared.all_done.complete();
            }
        };
        os::spawn(&format!("issuer{number}"), Some(allowed), main).expect("memory for a stack");
    }
    shared.all_done.wait();
    let marks = shared.marks.take();
    let rates = shared.rates(&marks);
    let [.., (began, from), _, (ended, to)] = marks[..] else {
        unreachable!("two windows have three ends");
    };
    let did = to.since(&from);
    let items = 2 * shared.window as u64;
    let each = |total: u64| total as f64 / items as f64;
    let found = Found {
        items_per_s: items as f64 * 1e9 / (ended - began) as f64,
        is_steady: agree(&rates),
        window_rates: rates,
        measured_ns: ended - began,
        items,
        start: Latency::default(),
        done: Latency::default(),
        ended: Latency::default(),
        queue: Latency::default(),
        cpu_ns_per_item: each(did.busy_ns),
        wakeups_per_item: each(did.wakeups),
        switches_per_item: each(did.switches),
        peak_threads: to.threads,
        held_back: 0,
    };
    Parts {
        found,
        enqueue: Latencies::new(shared.enqueue_ns.take()),
        did,
        idled_ns: 0,
        ran: shared.ran.get() as u64,
    }
}

/// Each block has a completion, and its issuer waits for the oldest.
fn issue(machine: &Machine, queue: &Workqueue, shared: &Shared) {
    let slots: Vec<(Arc<Target>, Work)> = (0..DEPTH)
        .map(|_| {
            let target = Arc::new(Target::default());
            let at = target.clone();
            let item = Work::new(move || {
                os::work(DECIPHER_NS);
                at.cpu.store(os::current_cpu(), Relaxed);
                os::touch(std::ptr::from_ref(&at.cpu).addr(), Access::Write);
                at.done.complete();
            });
            (target, item)
        })
        .collect();
    for number in 0.. {
        let (target, item) = &slots[number % DEPTH];
        if number >= DEPTH {
            target.done.wait();
            os::work(verifying_ns(machine, target.cpu.load(Relaxed)));
            if !shared.go_on() {
                break;
            }
        }
        target.done.reinit();
        let before = os::now_ns();
        let _ = queue.queue(item);
        let ns = u32::try_from(os::now_ns() - before).unwrap_or(u32::MAX);
        shared.enqueue_ns.borrow_mut().push(ns);
    }
    for (target, _) in &slots {
        target.done.wait();
    }
}

/// What verifying a block takes here that was deciphered there: what was deciphered under another
/// last-level cache comes from there first.
fn verifying_ns(machine: &Machine, there: usize) -> u64 {
    let (here, there) = (machine.cpus[os::current_cpu()], machine.cpus[there]);
    let class = match () {
        () if here.llc == there.llc => return VERIFY_NS,
        () if here.package == there.package => SAME_PACKAGE,
        () => OTHER_PACKAGE,
    };
    VERIFY_NS + BLOCK_LINES * machine.costs.transfer_ns[class] / LINES_AT_A_TIME
}

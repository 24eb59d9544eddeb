//! Litmus tests of the weak memory: what RC11 forbids is never seen, and what it allows is.
//!
//! Each test is a few threads of a few accesses, run with thousands of seeds. Variables begin with 0. An outcome is what the loads
//! have returned, by thread, and then the last values of the variables.

use cmwq_vm::machine::preset;
use cmwq_vm::{Access, Cpus, WeakMemory, os, weak};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};

const SEEDS: u64 = 4_000;
/// All threads exist by then.
const START_NS: u64 = 500_000;

/// A variable, as the library's own back end for the machine has it.
#[derive(Default)]
struct Var(AtomicU64);

impl Var {
    fn touch(&self, access: Access) -> (usize, u64) {
        let address = std::ptr::from_ref(self).addr();
        os::touch(address, access);
        (address, self.0.load(Relaxed))
    }

    fn load(&self, order: Ordering) -> u64 {
        let (address, newest) = self.touch(Access::Read);
        weak::load(address, newest, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        let (address, newest) = self.touch(Access::Write);
        if weak::store(address, newest, value, order) {
            self.0.store(value, Relaxed);
        }
    }

    fn add(&self, value: u64, order: Ordering) -> u64 {
        let (address, newest) = self.touch(Access::Update);
        weak::update(address, newest, newest + value, order);
        self.0.fetch_add(value, Relaxed)
    }

    fn exchange(&self, from: u64, to: u64, success: Ordering, failure: Ordering) -> u64 {
        let (address, newest) = self.touch(Access::Update);
        if let Some(found) = weak::compare(address, newest, from, false, failure) {
            return found;
        }
        weak::update(address, newest, to, success);
        self.0.swap(to, Relaxed)
    }
}

/// A step of a thread; the variables are x, y and z.
#[derive(Clone, Copy)]
enum Step {
    Load(usize, Ordering),
    Store(usize, u64, Ordering),
    Add(usize, u64, Ordering),
    Exchange(usize, u64, u64, Ordering, Ordering),
    Fence(Ordering),
    /// The thread ends here unless its last load has returned this value.
    Unless(u64),
}

use Step::{Add, Exchange, Fence, Load, Store, Unless};

const X: usize = 0;
const Y: usize = 1;
/// What is not read.
const NONE: u64 = 99;

fn perform(steps: &[Step], vars: &[Var; 3]) -> Vec<u64> {
    // All begin at about the same time.
    os::work(START_NS - os::observe_ns() + os::random(600));
    let mut seen = Vec::new();
    let mut ends = false;
    for step in steps {
        if os::random(3) == 0 {
            os::work(os::random(300));
        }
        match *step {
            Load(..) | Add(..) | Exchange(..) if ends => seen.push(NONE),
            _ if ends => {}
            Load(var, order) => seen.push(vars[var].load(order)),
            Add(var, value, order) => seen.push(vars[var].add(value, order)),
            Exchange(var, from, to, success, failure) => {
                seen.push(vars[var].exchange(from, to, success, failure));
            }
            Store(var, value, order) => vars[var].store(value, order),
            Fence(order) => weak::fence(order),
            Unless(value) => ends = seen.last() != Some(&value),
        }
    }
    seen
}

/// The outcome of one run.
fn outcome(threads: &[Vec<Step>], seed: u64) -> Vec<u64> {
    let mut machine = preset("grace").expect("it is known").machine();
    machine.cpus.truncate(4);
    let (threads, result) = (threads.to_vec(), Rc::new(RefCell::new(Vec::new())));
    let told = result.clone();
    let main = move || {
        cmwq_vm::set_weak_memory(WeakMemory {
            seed,
            stale_ppm: 500_000,
            early_ppm: 500_000,
            spurious_ppm: 0,
            late_ns: 1_000_000,
        });
        let vars: Rc<[Var; 3]> = Rc::default();
        let seen = Rc::new(RefCell::new(vec![Vec::new(); threads.len()]));
        let left = Rc::new(AtomicUsize::new(threads.len()));
        let waiter = os::current();
        for (number, steps) in threads.iter().cloned().enumerate() {
            let (vars, seen, left) = (vars.clone(), seen.clone(), left.clone());
            let main = move || {
                let own = perform(&steps, &vars);
                seen.borrow_mut()[number] = own;
                left.fetch_sub(1, Relaxed);
                os::wake(waiter, None);
            };
            let cpu: Cpus = [number].into_iter().collect();
            os::spawn("thread", Some(cpu), main).expect("memory for a stack");
        }
        loop {
            os::prepare_sleep();
            if left.load(Relaxed) == 0 {
                break;
            }
            os::sleep_unless_woken();
        }
        let mut all: Vec<u64> = seen.borrow().iter().flatten().copied().collect();
        all.extend(vars.iter().map(|var| var.0.load(Relaxed)));
        *told.borrow_mut() = all;
    };
    cmwq_vm::run(&machine, seed, u64::MAX, main).expect("it ends");
    result.take()
}

fn outcomes(threads: &[Vec<Step>]) -> BTreeSet<Vec<u64>> {
    (0..SEEDS).map(|seed| outcome(threads, seed)).collect()
}

/// Whether there is an outcome that begins with `seen` and ends with these values of x and y, if they matter.
fn has(threads: &[Vec<Step>], seen: &[u64], end: Option<[u64; 2]>) -> bool {
    outcomes(threads).iter().any(|outcome| {
        let (reads, vars) = outcome.split_at(outcome.len() - 3);
        reads == seen && end.is_none_or(|end| vars[..2] == end)
    })
}

fn allows(name: &str, threads: &[Vec<Step>], seen: &[u64], end: Option<[u64; 2]>) {
    assert!(has(threads, seen, end), "{name}: allowed, and not seen");
}

fn forbids(name: &str, threads: &[Vec<Step>], seen: &[u64], end: Option<[u64; 2]>) {
    assert!(!has(threads, seen, end), "{name}: forbidden, and seen");
}

fn with_fences(first: Step, order: Ordering, second: Step) -> Vec<Step> {
    vec![first, Fence(order), second]
}

#[test]
fn store_buffering() {
    let sb = |store, load| {
        [
            vec![Store(X, 1, store), Load(Y, load)],
            vec![Store(Y, 1, store), Load(X, load)],
        ]
    };
    allows("SB relaxed", &sb(Relaxed, Relaxed), &[0, 0], None);
    allows("SB release, acquire", &sb(Release, Acquire), &[0, 0], None);
    allows("SB stores SeqCst", &sb(SeqCst, Relaxed), &[0, 0], None);
    allows("SB loads SeqCst", &sb(Relaxed, SeqCst), &[0, 0], None);
    forbids("SB SeqCst", &sb(SeqCst, SeqCst), &[0, 0], None);
    let fenced = |one, other| {
        [
            with_fences(Store(X, 1, Relaxed), one, Load(Y, Relaxed)),
            with_fences(Store(Y, 1, Relaxed), other, Load(X, Relaxed)),
        ]
    };
    forbids("SB fences", &fenced(SeqCst, SeqCst), &[0, 0], None);
    allows("SB AcqRel fences", &fenced(AcqRel, AcqRel), &[0, 0], None);
    allows("SB one fence", &fenced(SeqCst, AcqRel), &[0, 0], None);
    let mixed = [
        vec![Store(X, 1, SeqCst), Load(Y, SeqCst)],
        with_fences(Store(Y, 1, Relaxed), SeqCst, Load(X, Relaxed)),
    ];
    forbids("SB accesses and a fence", &mixed, &[0, 0], None);
    // As a reader that pins an epoch, and the writer that looks for it.
    let update = |order| {
        [
            vec![Add(X, 1, order), Load(Y, SeqCst)],
            vec![Store(Y, 1, SeqCst), Load(X, SeqCst)],
        ]
    };
    forbids("SB with an update", &update(SeqCst), &[0, 0, 0], None);
    allows("SB, an update AcqRel", &update(AcqRel), &[0, 0, 0], None);
}

/// Arm allows it for relaxed accesses, RC11 forbids it; here no load returns what is stored later.
#[test]
fn load_buffering_is_outside_of_the_model() {
    let lb = |order| {
        [
            vec![Load(X, order), Store(Y, 1, Relaxed)],
            vec![Load(Y, order), Store(X, 1, Relaxed)],
        ]
    };
    forbids("LB relaxed", &lb(Relaxed), &[1, 1], None);
    forbids("LB acquire", &lb(Acquire), &[1, 1], None);
    allows("LB one load", &lb(Relaxed), &[0, 1], None);
}

#[test]
fn message_passing() {
    let mp = |store, load| {
        [
            vec![Store(X, 1, Relaxed), Store(Y, 1, store)],
            vec![Load(Y, load), Load(X, Relaxed)],
        ]
    };
    forbids("MP", &mp(Release, Acquire), &[1, 0], None);
    forbids("MP SeqCst", &mp(SeqCst, SeqCst), &[1, 0], None);
    allows("MP relaxed", &mp(Relaxed, Relaxed), &[1, 0], None);
    allows("MP relaxed store", &mp(Relaxed, Acquire), &[1, 0], None);
    allows("MP relaxed load", &mp(Release, Relaxed), &[1, 0], None);
    let fenced = |release, acquire| {
        [
            with_fences(Store(X, 1, Relaxed), release, Store(Y, 1, Relaxed)),
            with_fences(Load(Y, Relaxed), acquire, Load(X, Relaxed)),
        ]
    };
    forbids("MP fences", &fenced(Release, Acquire), &[1, 0], None);
    forbids("MP SeqCst fences", &fenced(SeqCst, SeqCst), &[1, 0], None);
    allows(
        "MP fences swapped",
        &fenced(Acquire, Release),
        &[1, 0],
        None,
    );
    let half = |release: bool| {
        let store = if release { Release } else { Relaxed };
        [
            vec![Store(X, 1, Relaxed), Store(Y, 1, store)],
            with_fences(Load(Y, Relaxed), Acquire, Load(X, Relaxed)),
        ]
    };
    forbids("MP acquire fence", &half(true), &[1, 0], None);
    allows("MP acquire fence alone", &half(false), &[1, 0], None);
}

#[test]
fn release_sequences() {
    let through = |update| {
        [
            vec![Store(X, 1, Relaxed), Store(Y, 1, Release)],
            vec![Add(Y, 10, update)],
            vec![Load(Y, Acquire), Unless(11), Load(X, Relaxed)],
        ]
    };
    forbids("a relaxed update", &through(Relaxed), &[1, 11, 0], None);
    let own = [
        vec![
            Store(X, 1, Relaxed),
            Store(Y, 1, Release),
            Store(Y, 2, Relaxed),
        ],
        vec![Load(Y, Acquire), Unless(2), Load(X, Relaxed)],
    ];
    allows("C++20: a store of the same thread", &own, &[2, 0], None);
}

#[test]
fn independent_reads_of_independent_writes() {
    let iriw = |store, load| {
        [
            vec![Store(X, 1, store)],
            vec![Store(Y, 1, store)],
            vec![Load(X, load), Load(Y, load)],
            vec![Load(Y, load), Load(X, load)],
        ]
    };
    let seen = &[1, 0, 1, 0];
    allows("IRIW relaxed", &iriw(Relaxed, Relaxed), seen, None);
    allows("IRIW release, acquire", &iriw(Release, Acquire), seen, None);
    forbids("IRIW SeqCst", &iriw(SeqCst, SeqCst), seen, None);
    let fenced = |order| {
        [
            vec![Store(X, 1, Relaxed)],
            vec![Store(Y, 1, Relaxed)],
            with_fences(Load(X, Relaxed), order, Load(Y, Relaxed)),
            with_fences(Load(Y, Relaxed), order, Load(X, Relaxed)),
        ]
    };
    forbids("IRIW fences", &fenced(SeqCst), seen, None);
    allows("IRIW AcqRel fences", &fenced(AcqRel), seen, None);
}

#[test]
fn two_threads_of_two_writes() {
    let writes = |order| {
        [
            vec![Store(X, 1, order), Store(Y, 2, order)],
            vec![Store(Y, 1, order), Store(X, 2, order)],
        ]
    };
    allows("2+2W relaxed", &writes(Relaxed), &[], Some([1, 1]));
    allows("2+2W release", &writes(Release), &[], Some([1, 1]));
    forbids("2+2W SeqCst", &writes(SeqCst), &[], Some([1, 1]));
    let fenced = |order| {
        [
            with_fences(Store(X, 1, Relaxed), order, Store(Y, 2, Relaxed)),
            with_fences(Store(Y, 1, Relaxed), order, Store(X, 2, Relaxed)),
        ]
    };
    forbids("2+2W fences", &fenced(SeqCst), &[], Some([1, 1]));
    allows("2+2W AcqRel fences", &fenced(AcqRel), &[], Some([1, 1]));
}

#[test]
fn one_variable_is_coherent() {
    let reads = [
        vec![Store(X, 1, Relaxed)],
        vec![Load(X, Relaxed), Load(X, Relaxed)],
    ];
    forbids("CoRR", &reads, &[1, 0], None);
    allows("CoRR, both old", &reads, &[0, 0], None);
    let two = [
        vec![Store(X, 1, Relaxed), Store(X, 2, Relaxed)],
        vec![Load(X, Relaxed), Load(X, Relaxed)],
    ];
    forbids("CoRR of two stores", &two, &[2, 1], None);
    forbids("CoWW", &two, &[0, 0], Some([1, 0]));
    let own = [
        vec![Store(X, 1, Relaxed), Load(X, Relaxed)],
        vec![Store(X, 2, Relaxed)],
    ];
    forbids("CoWR", &own, &[0], None);
    forbids("CoWR of another", &own, &[2], Some([1, 0]));
    let before = [
        vec![Load(X, Relaxed), Store(X, 1, Relaxed)],
        vec![Store(X, 2, Relaxed)],
    ];
    forbids("CoRW", &before, &[2], Some([2, 0]));
    let through = |store, load| {
        [
            vec![Store(X, 1, Relaxed)],
            vec![Load(X, Relaxed), Unless(1), Store(Y, 1, store)],
            vec![Load(Y, load), Unless(1), Load(X, Relaxed)],
        ]
    };
    forbids("WRC", &through(Release, Acquire), &[1, 1, 0], None);
    allows("WRC relaxed", &through(Relaxed, Acquire), &[1, 1, 0], None);
}

#[test]
fn a_read_before_a_write() {
    let s = |store, load| {
        [
            vec![Store(X, 2, Relaxed), Store(Y, 1, store)],
            vec![Load(Y, load), Store(X, 1, Relaxed)],
        ]
    };
    allows("S relaxed", &s(Relaxed, Relaxed), &[1], Some([2, 1]));
    allows("S relaxed load", &s(Release, Relaxed), &[1], Some([2, 1]));
    forbids("S", &s(Release, Acquire), &[1], Some([2, 1]));
    let r = |store, load| {
        [
            vec![Store(X, 1, store), Store(Y, 1, store)],
            vec![Store(Y, 2, store), Load(X, load)],
        ]
    };
    allows("R relaxed", &r(Relaxed, Relaxed), &[0], Some([1, 2]));
    allows(
        "R release, acquire",
        &r(Release, Acquire),
        &[0],
        Some([1, 2]),
    );
    forbids("R SeqCst", &r(SeqCst, SeqCst), &[0], Some([1, 2]));
    let fenced = [
        with_fences(Store(X, 1, Relaxed), SeqCst, Store(Y, 1, Relaxed)),
        with_fences(Store(Y, 2, Relaxed), SeqCst, Load(X, Relaxed)),
    ];
    forbids("R fences", &fenced, &[0], Some([1, 2]));
}

#[test]
fn updates_follow_the_newest_store() {
    let adds = [vec![Add(X, 1, Relaxed)], vec![Add(X, 1, Relaxed)]];
    assert!(outcomes(&adds).iter().all(|outcome| outcome[2] == 2));
    forbids("two updates of one store", &adds, &[0, 0], None);
    // No store comes between an update and what it has read.
    let between = [
        vec![Store(X, 1, Relaxed)],
        vec![Add(X, 10, Relaxed)],
        vec![Store(X, 2, Relaxed)],
    ];
    for outcome in outcomes(&between) {
        assert!([1, 2, 10, 11, 12].contains(&outcome[1]), "{outcome:?}");
    }
    // One that fails is a load, which may return an older store.
    let fails = |order| {
        [
            vec![Store(X, 1, Relaxed), Store(Y, 1, Release)],
            vec![Load(Y, order), Exchange(X, 7, 8, Relaxed, Relaxed)],
        ]
    };
    allows("a failure that is late", &fails(Relaxed), &[1, 0], None);
    forbids("a failure that is not", &fails(Acquire), &[1, 0], None);
}

/// A store is seen at last, whatever the seed.
#[test]
fn a_loop_that_waits_ends() {
    for seed in 0..50 {
        let machine = preset("grace").expect("it is known").machine();
        let main = move || {
            cmwq_vm::set_weak_memory(WeakMemory {
                seed,
                stale_ppm: 1_000_000,
                early_ppm: 0,
                spurious_ppm: 0,
                late_ns: 10_000,
            });
            let var = Rc::new(Var::default());
            let other = var.clone();
            let stores = move || other.store(1, Relaxed);
            os::spawn("other", None, stores).expect("memory for a stack");
            let mut polls = 0;
            while var.load(Relaxed) == 0 {
                os::pause();
                polls += 1;
            }
            assert!(polls < 100_000, "{polls} polls");
        };
        cmwq_vm::run(&machine, seed, 1_000_000_000, main).expect("it ends");
    }
}

/// Plain memory that two threads use without order is a race, whatever the schedule, also if the
/// code that is tested catches the panic.
#[test]
fn races_of_plain_memory_are_found() {
    let race = |order: Ordering, caught: bool| {
        let machine = preset("grace").expect("it is known").machine();
        let main = move || {
            cmwq_vm::set_weak_memory(WeakMemory {
                seed: 1,
                stale_ppm: 0,
                early_ppm: 0,
                spurious_ppm: 0,
                late_ns: 10_000,
            });
            let vars: Rc<[Var; 2]> = Rc::default();
            let other = vars.clone();
            let plain =
                move |var: &Var, access| weak::access_plain(std::ptr::from_ref(var).addr(), access);
            let writes = move || {
                plain(&other[0], Access::Write);
                other[1].store(1, order);
            };
            os::spawn("other", None, writes).expect("memory for a stack");
            while vars[1].load(Acquire) == 0 {
                os::pause();
            }
            let reads = || plain(&vars[0], Access::Read);
            match caught {
                true => drop(std::panic::catch_unwind(AssertUnwindSafe(reads))),
                false => reads(),
            }
        };
        cmwq_vm::run(&machine, 1, 1_000_000_000, main).expect("it ends");
    };
    for caught in [false, true] {
        race(Release, caught);
        let why = std::panic::catch_unwind(|| race(Relaxed, caught)).expect_err("a race");
        let why = why.downcast_ref::<String>().expect("a message");
        assert!(why.starts_with("a race: Read at"), "{why}");
    }
}

//! Schedules by a plan: what they promise holds, they are the same from the same seed, and they end.

use cmwq_vm::machine::{Costs, Machine};
use cmwq_vm::{Access, Outcome, Plan, Steered, Stuck, os};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const MOST: u64 = 1_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;

/// Of one CPU: threads that are made begin when the one that makes them sleeps.
fn machine() -> Machine {
    Machine::regular("small", 1, 1, 1, 1, Costs::default())
}

/// An operation that others may come before.
fn step(word: &Cell<u32>) {
    os::touch(word.as_ptr().addr(), Access::Update);
}

/// Runs these threads by a plan, and returns what was done by it.
fn by_plan(plan: &Plan, seed: u64, threads: Vec<Box<dyn FnOnce()>>) -> (Outcome, Steered) {
    by_plan_over(plan, seed, threads, Some(&[]))
}

/// The same, passing over these places; `None`: it learns what another thread can notice.
fn by_plan_over(
    plan: &Plan,
    seed: u64,
    threads: Vec<Box<dyn FnOnce()>>,
    passed_over: Option<&[usize]>,
) -> (Outcome, Steered) {
    let (plan, passed_over) = (plan.clone(), passed_over.map(<[usize]>::to_vec));
    let steered = Rc::new(RefCell::new(Steered::default()));
    let tells = steered.clone();
    let outcome = cmwq_vm::run(&machine(), 1, HOUR_NS, move || {
        let left = Rc::new(Cell::new(threads.len()));
        let waiter = os::current();
        for (number, thread) in threads.into_iter().enumerate() {
            let left = left.clone();
            let main = move || {
                thread();
                left.set(left.get() - 1);
                os::wake(waiter, None);
            };
            os::spawn(&format!("thread{number}"), None, main).expect("memory for a stack");
        }
        cmwq_vm::steer(plan, seed, MOST);
        match passed_over {
            Some(places) => cmwq_vm::pass_over(&places),
            None => cmwq_vm::learn_sharing(),
        }
        loop {
            os::prepare_sleep();
            if left.get() == 0 {
                break;
            }
            os::sleep_unless_woken();
        }
        *tells.borrow_mut() = cmwq_vm::end_steering();
    });
    let steered = steered.borrow().clone();
    (outcome.expect("it ends"), steered)
}

/// Four threads of some steps; one holds a door open between two of them, and another one looks.
fn door(plan: &Plan, seed: u64) -> (bool, Steered) {
    let (open, seen) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let mut threads: Vec<Box<dyn FnOnce()>> = Vec::new();
    for thread in 0..4 {
        let (open, seen) = (open.clone(), seen.clone());
        threads.push(Box::new(move || {
            for round in 0..10 {
                step(&open);
                match (thread, round) {
                    (0, 7) => open.set(1),
                    (0, 8) => open.set(0),
                    (1, 4) => seen.set(open.get() == 1),
                    _ => {}
                }
            }
        }));
    }
    let (_, steered) = by_plan(plan, seed, threads);
    (seen.get(), steered)
}

#[test]
fn a_bug_of_depth_two_is_found_as_often_as_the_bound_says() {
    let length = door(
        &Plan::Priorities {
            depth: 1,
            length: 1,
        },
        1,
    )
    .1
    .steps();
    let plan = Plan::Priorities { depth: 2, length };
    const RUNS: u64 = 4_000;
    let found = (0..RUNS).filter(|&seed| door(&plan, seed).0).count() as f64;
    // Five threads with the one that waits. The seeds are fixed: nothing is left to chance.
    let bound = RUNS as f64 / (5 * length) as f64;
    assert!(found >= bound, "found {found} times, the bound is {bound}");
    // Priorities alone do not find it: one of the two threads runs to its end before the other.
    let alone = Plan::Priorities { depth: 1, length };
    assert!((0..RUNS).all(|seed| !door(&alone, seed).0));
}

/// As [`step`], of a word that no other thread uses.
fn own_step(word: &Cell<u32>) {
    os::touch(word.as_ptr().addr(), Access::Update);
}

/// As [`step`], of a word that nobody writes.
fn look(word: &Cell<u32>) {
    os::touch(word.as_ptr().addr(), Access::Read);
}

/// As [`step`], of a word that a lock guards.
fn guarded_step(word: &Cell<u32>) {
    os::touch(word.as_ptr().addr(), Access::Update);
}

/// As [`door`], with steps that no other thread can notice before and after each of the others.
fn private_door(plan: &Plan, seed: u64, passed_over: Option<&[usize]>) -> (bool, Steered) {
    let (open, seen) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (constant, guarded) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut threads: Vec<Box<dyn FnOnce()>> = Vec::new();
    for thread in 0..4 {
        let (open, seen) = (open.clone(), seen.clone());
        let (constant, guarded) = (constant.clone(), guarded.clone());
        let own = Rc::new(Cell::new(0));
        threads.push(Box::new(move || {
            for round in 0..10 {
                own_step(&own);
                look(&constant);
                step(&open);
                match (thread, round) {
                    (0, 7) => open.set(1),
                    (0, 8) => open.set(0),
                    (1, 4) => seen.set(open.get() == 1),
                    _ => {}
                }
                own_step(&own);
                // SAFETY: the word is there until the release.
                let held = unsafe { cmwq_vm::hold(guarded.as_ptr().addr(), 4) };
                guarded_step(&guarded);
                // SAFETY: as above.
                unsafe { cmwq_vm::release(held) };
            }
        }));
    }
    let (_, steered) = by_plan_over(plan, seed, threads, passed_over);
    (seen.get(), steered)
}

#[test]
fn what_no_other_thread_can_notice_is_no_step_and_the_bound_is_that_of_the_others() {
    let alone = Plan::Priorities {
        depth: 1,
        length: 1,
    };
    let learned = private_door(&alone, 1, None).1;
    let noticed = learned.places.iter().filter(|(_, noticed)| *noticed);
    assert_eq!((learned.places.len(), noticed.count()), (4, 1));
    let unnoticed = learned.places.iter().filter(|(_, noticed)| !noticed);
    let unnoticed: Vec<usize> = unnoticed.map(|(place, _)| *place).collect();
    let length = private_door(&alone, 1, Some(&unnoticed)).1.steps();
    assert!(
        length * 3 < learned.steps(),
        "{length} of {}",
        learned.steps()
    );
    let plan = Plan::Priorities { depth: 2, length };
    const RUNS: u64 = 4_000;
    let runs = 0..RUNS;
    let found = runs.filter(|&seed| private_door(&plan, seed, Some(&unnoticed)).0);
    let (found, bound) = (found.count() as f64, RUNS as f64 / (5 * length) as f64);
    assert!(found >= bound, "found {found} times, the bound is {bound}");
}

/// Two threads of three steps each: in which order they came.
fn order(plan: &Plan, seed: u64) -> (String, Steered) {
    let (word, order) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(String::new())));
    let thread = |name: char| -> Box<dyn FnOnce()> {
        let (word, order) = (word.clone(), order.clone());
        Box::new(move || {
            for _ in 0..3 {
                step(&word);
                order.borrow_mut().push(name);
            }
        })
    };
    let (_, steered) = by_plan(plan, seed, vec![thread('a'), thread('b')]);
    (order.take(), steered)
}

/// How often each order of the three steps is among all interleavings of two threads of so many
/// steps, of which the second to the fourth are the three.
fn all_orders(length: u32) -> BTreeMap<String, u32> {
    let mut orders = BTreeMap::new();
    for which in 0..1_u32 << (2 * length) {
        if which.count_ones() != length {
            continue;
        }
        let mut done = [0; 2];
        let mut order = String::new();
        for at in 0..2 * length {
            let thread = (which >> at & 1) as usize;
            if (1..4).contains(&done[thread]) {
                order.push(['a', 'b'][thread]);
            }
            done[thread] += 1;
        }
        *orders.entry(order).or_default() += 1;
    }
    orders
}

#[test]
fn a_walk_draws_each_interleaving_as_often() {
    let first = Plan::Walk {
        lengths: Vec::new(),
    };
    let lengths = order(&first, 1).1.lengths;
    assert_eq!(lengths[1], lengths[2], "{lengths:?}");
    let all = all_orders(lengths[1] as u32);
    let total: u32 = all.values().sum();
    const RUNS: u64 = 4_000;
    let plan = Plan::Walk { lengths };
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..RUNS {
        *seen.entry(order(&plan, seed).0).or_default() += 1;
    }
    // The seeds are fixed: nothing is left to chance.
    for (order, count) in all {
        let expected = RUNS as f64 * f64::from(count) / f64::from(total);
        let found = f64::from(seen.get(&order).copied().unwrap_or(0));
        let ratio = found / expected;
        assert!(
            (0.7..1.4).contains(&ratio),
            "{order}: {found} of {expected}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_run_by_every_plan() {
    let plans = [
        Plan::Priorities {
            depth: 3,
            length: 50,
        },
        Plan::Walk {
            lengths: vec![10; 5],
        },
    ];
    let run = |plan: &Plan, seed| {
        let word = Rc::new(Cell::new(0));
        let threads = (0..4).map(|number| -> Box<dyn FnOnce()> {
            let word = word.clone();
            Box::new(move || {
                for _ in 0..20 {
                    step(&word);
                    if number == 0 {
                        os::sleep(Duration::from_micros(3));
                    } else {
                        os::yield_now();
                    }
                }
            })
        });
        by_plan(plan, seed, threads.collect())
    };
    for plan in &plans {
        assert_eq!(run(plan, 5), run(plan, 5));
        assert_ne!(run(plan, 5).0.log_hash, run(plan, 6).0.log_hash);
    }
}

#[test]
fn a_thread_that_spins_for_another_one_goes_behind_it() {
    // Whichever has the higher priority: both orders are among the seeds.
    for seed in 0..20 {
        let word = Rc::new(Cell::new(0));
        let (sets, spins) = (word.clone(), word.clone());
        let threads: Vec<Box<dyn FnOnce()>> = vec![
            Box::new(move || {
                step(&sets);
                sets.set(1);
            }),
            Box::new(move || {
                while spins.get() == 0 {
                    os::pause();
                    step(&spins);
                }
            }),
        ];
        let plan = Plan::Priorities {
            depth: 1,
            length: 1,
        };
        by_plan(&plan, seed, threads);
    }
}

#[test]
fn a_walk_lets_the_thread_go_on_for_which_another_one_spins() {
    let word = Rc::new(Cell::new(0));
    let (sets, spins) = (word.clone(), word.clone());
    let threads: Vec<Box<dyn FnOnce()>> = vec![
        Box::new(move || {
            (0..100).for_each(|_| step(&sets));
            sets.set(1);
        }),
        Box::new(move || {
            while spins.get() == 0 {
                os::pause();
                step(&spins);
            }
        }),
    ];
    // The first thread does more than the walk knows, and the other one does much less.
    let plan = Plan::Walk {
        lengths: vec![1, 1, MOST],
    };
    by_plan(&plan, 1, threads);
}

#[test]
fn polls_of_a_thread_that_spins_are_one_step() {
    let word = Rc::new(Cell::new(0));
    let plan = Plan::Priorities {
        depth: 1,
        length: 1,
    };
    let spins: Box<dyn FnOnce()> = Box::new(move || {
        for _ in 0..100 {
            os::merge_pauses();
            os::pause();
            step(&word);
        }
    });
    let (_, steered) = by_plan(&plan, 1, vec![spins]);
    assert!(steered.lengths[1] < 5, "{steered:?}");
}

#[test]
fn a_run_that_does_not_end_is_one_that_hangs() {
    let result = cmwq_vm::run(&machine(), 1, HOUR_NS, || {
        cmwq_vm::steer(
            Plan::Walk {
                lengths: Vec::new(),
            },
            1,
            1_000,
        );
        let word = Cell::new(0);
        loop {
            step(&word);
        }
    });
    assert_eq!(result, Err(Stuck::TooManyOperations));
}

#[test]
fn a_standstill_is_told_of_and_may_end_the_run() {
    let longest = Rc::new(Cell::new(0));
    let sees = longest.clone();
    let sleep = || {
        let plan = Plan::Priorities {
            depth: 1,
            length: 1,
        };
        cmwq_vm::steer(plan, 1, MOST);
        os::sleep(Duration::from_micros(700));
        os::work(5_000_000);
        cmwq_vm::end_steering();
    };
    let ended = cmwq_vm::run(&machine(), 1, HOUR_NS, move || {
        cmwq_vm::watch_standstills(move |ns| sees.set(sees.get().max(ns)));
        sleep();
    });
    ended.expect("it ends");
    // Computing is no standstill.
    assert!(
        (600_000..800_000).contains(&longest.get()),
        "{}",
        longest.get()
    );
    let panics = || {
        cmwq_vm::run(&machine(), 1, HOUR_NS, move || {
            cmwq_vm::watch_standstills(|_| panic!("still"));
            sleep();
        })
    };
    assert!(std::panic::catch_unwind(panics).is_err());
}

/// What it is dropped with expects a machine.
struct NeedsAMachine;

impl Drop for NeedsAMachine {
    fn drop(&mut self) {
        os::yield_now();
    }
}

#[test]
fn a_thread_that_never_began_is_gone_with_the_machine() {
    let ended = cmwq_vm::run(&machine(), 1, HOUR_NS, || {
        // The one that waits has the lowest priority: the machine is switched off before it begins.
        for _ in 0..8 {
            let value = NeedsAMachine;
            os::spawn("late", None, move || drop(value)).expect("memory for a stack");
        }
    });
    ended.expect("it ends");
}

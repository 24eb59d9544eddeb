//! What the scheduler promises to threads that sleep and compute: a turn in time, and no CPU that
//! idles for long beside a thread that waits.

use cmwq_vm::machine::{Machine, Placement, preset};
use cmwq_vm::{Cpus, os};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const MS: u64 = 1_000_000;

fn machine(name: &str) -> Machine {
    preset(name).unwrap().machine()
}

fn on(cpus: &[usize]) -> Cpus {
    cpus.iter().copied().collect()
}

fn run<T: 'static>(machine: &Machine, seed: u64, main: impl FnOnce() -> T + 'static) -> T {
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    let main = move || *place.borrow_mut() = Some(main());
    cmwq_vm::run(machine, seed, 3_600_000 * MS, main).expect("it ends");
    result.take().unwrap()
}

fn sleep_ns(ns: u64) {
    os::sleep(Duration::from_nanos(ns));
}

/// The longest time that one of so many free threads waits on two CPUs, within a burst and after its timer.
fn longest_wait(seed: u64, threads: u64, sleeps: bool) -> u64 {
    run(&machine("two-vcpus"), seed, move || {
        let longest = Rc::new(Cell::new(0));
        for number in 0..threads {
            let longest = longest.clone();
            let main = move || {
                let timed = |ns: u64, what: fn(u64)| {
                    let before = os::observe_ns();
                    what(ns);
                    let late = (os::observe_ns() - before).saturating_sub(ns);
                    longest.set(longest.get().max(late));
                };
                // The first one has computed for long before the others come.
                sleep_ns(number * os::random(150 * MS));
                for _ in 0..30 {
                    for _ in 0..=os::random(50) {
                        timed(MS, os::work);
                    }
                    if sleeps {
                        timed(1 + os::random(50 * MS), sleep_ns);
                    }
                }
            };
            os::spawn("thread", None, main).unwrap();
        }
        sleep_ns(20_000 * MS);
        longest.get()
    })
}

#[test]
fn no_thread_waits_for_longer_than_a_slice_of_each_other_one() {
    let costs = machine("two-vcpus").costs;
    for threads in 2..6 {
        for seed in 1..5 {
            for sleeps in [false, true] {
                let longest = longest_wait(seed, threads, sleeps);
                let bound = (threads - 1) * (costs.slice_ns + costs.tick_ns) + MS;
                let what = format!("{threads} threads, seed {seed}, sleeping {sleeps}: {longest}");
                assert!(longest < bound, "{what}");
            }
        }
    }
}

#[test]
fn what_a_thread_has_run_on_one_cpu_does_not_count_on_another() {
    let waited = run(&machine("two-vcpus"), 1, || {
        let waited = Rc::new(Cell::new(0));
        let place = waited.clone();
        let moves = move || {
            os::work(300 * MS);
            let before = os::observe_ns();
            os::set_affinity(os::current(), on(&[0]));
            place.set(os::observe_ns() - before);
        };
        os::spawn("moves", Some(on(&[1])), moves).unwrap();
        os::spawn("burner", Some(on(&[0])), || {
            sleep_ns(290 * MS);
            (0..20).for_each(|_| os::work(50 * MS));
        })
        .unwrap();
        sleep_ns(2_000 * MS);
        waited.get()
    });
    assert!((1..5 * MS).contains(&waited), "{waited}");
}

#[test]
fn threads_that_give_the_cpu_up_before_a_tick_comes_are_balanced() {
    // CPU 6 of that machine is under another cache than 2.
    for other in [1, 6] {
        for pause in [os::yield_now, || sleep_ns(50_000)] {
            let took = run(&machine("3900x"), 1, move || {
                let took = Rc::new(RefCell::new(Vec::new()));
                for _ in 0..2 {
                    let took = took.clone();
                    let main = move || {
                        os::set_affinity(os::current(), on(&[2, other]));
                        let before = os::observe_ns();
                        for _ in 0..200 {
                            os::work(MS / 2);
                            pause();
                        }
                        took.borrow_mut().push(os::observe_ns() - before);
                    };
                    os::spawn("one of two", Some(on(&[2])), main).unwrap();
                }
                sleep_ns(1_000 * MS);
                took.take()
            });
            assert_eq!(took.len(), 2);
            assert!(took.iter().all(|&ns| ns < 130 * MS), "{other}: {took:?}");
        }
    }
}

#[test]
fn a_thread_leaves_the_cpu_that_it_may_no_longer_use() {
    let places = run(&machine("two-vcpus"), 1, || {
        os::set_affinity(os::current(), on(&[0]));
        let places = Rc::new(RefCell::new(Vec::new()));
        // One of them runs, the other waits behind it.
        let threads = [(); 2].map(|()| {
            let places = places.clone();
            let main = move || {
                os::work(10 * MS);
                places
                    .borrow_mut()
                    .push((os::current_cpu(), os::observe_ns() / MS));
            };
            os::spawn("moved", Some(on(&[1])), main).unwrap()
        });
        sleep_ns(MS);
        for thread in threads {
            os::set_affinity(thread, on(&[0]));
        }
        sleep_ns(50 * MS);
        places.take()
    });
    assert!(matches!(places[..], [(0, _), (0, _)]), "{places:?}");
}

#[test]
fn a_thread_has_used_what_it_has_used_until_now() {
    let used = run(&machine("two-vcpus"), 1, || {
        let burner = os::spawn("burner", Some(on(&[1])), || os::work(20 * MS)).unwrap();
        sleep_ns(5 * MS);
        [os::usage(burner).unwrap().ran_ns, os::process_cpu_ns()]
    });
    assert!(
        used.iter().all(|ns| (4 * MS..6 * MS).contains(ns)),
        "{used:?}"
    );
}

/// A thread that sleeps elsewhere is woken; returns the CPU that it goes on, and its waker's.
fn woken_on(placement: Placement) -> (usize, usize) {
    let machine = Machine {
        placement,
        ..machine("16-vcpus")
    };
    run(&machine, 1, move || {
        let on = Rc::new(Cell::new(usize::MAX));
        let noted = on.clone();
        let sleeper = move || {
            os::prepare_sleep();
            os::sleep_unless_woken();
            noted.set(os::current_cpu());
        };
        let sleeper = os::spawn("sleeper", None, sleeper).unwrap();
        sleep_ns(MS);
        let waker = os::current_cpu();
        os::wake(sleeper, Some((waker + 5) % 16));
        match placement {
            // A CPU that idles would take it.
            Placement::IdleFirst => os::work(MS),
            // It waits for this CPU.
            Placement::Waker => sleep_ns(MS),
        }
        (on.get(), waker)
    })
}

#[test]
fn a_thread_wakes_up_on_an_idle_cpu_or_on_its_wakers() {
    let (on, waker) = woken_on(Placement::IdleFirst);
    assert_eq!(on, (waker + 5) % 16);
    let (on, waker) = woken_on(Placement::Waker);
    assert_eq!(on, waker);
}

/// A stock kernel looks for a CPU on the whole machine when a program makes a thread, and below one
/// cache only when it wakes one. So threads that all began below one cache would stay there.
#[test]
fn new_threads_begin_under_all_caches() {
    let costs = machine("grace").costs;
    let machine = Machine::regular("l3:4 core:2", 1, 4, 2, 1, costs);
    let begun_on = run(&machine, 1, || {
        let begun: Rc<RefCell<Vec<usize>>> = Rc::default();
        for _ in 0..7 {
            let begun = begun.clone();
            let main = move || {
                begun.borrow_mut().push(os::current_cpu());
                os::work(MS);
            };
            os::spawn("new", None, main).unwrap();
        }
        begun.borrow_mut().push(os::current_cpu());
        sleep_ns(4 * MS);
        begun.take()
    });
    let caches: Vec<usize> = begun_on.iter().map(|cpu| cpu / 2).collect();
    for cache in 0..4 {
        let there = caches.iter().filter(|&&other| other == cache).count();
        assert_eq!(there, 2, "{begun_on:?}");
    }
}

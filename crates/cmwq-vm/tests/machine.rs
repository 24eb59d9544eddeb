//! What the machine promises: costs by distance, queues at lines and locks, time slices, and that
//! nothing is lost.

use cmwq_vm::machine::{Machine, preset};
use cmwq_vm::{Access, Cpus, Forked, SpinLock, Stuck, os};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const LIMIT: u64 = 3_600_000_000_000;

/// A preset without random variation.
fn exact(name: &str) -> Machine {
    let mut machine = preset(name).unwrap().machine();
    machine.costs.jitter_ppt = 0;
    machine
}

fn on(cpu: usize) -> Option<Cpus> {
    Some(Cpus::from_iter([cpu]))
}

fn run<T: 'static>(machine: &Machine, main: impl FnOnce() -> T + 'static) -> T {
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    cmwq_vm::run(machine, 1, LIMIT, move || {
        *place.borrow_mut() = Some(main())
    })
    .expect("it ends");
    result.take().unwrap()
}

/// Runs `main` on a CPU and waits for it.
fn there<T: 'static>(cpu: usize, main: impl FnOnce() -> T + 'static) -> T {
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    os::spawn("there", on(cpu), move || *place.borrow_mut() = Some(main())).unwrap();
    loop {
        if let Some(value) = result.borrow_mut().take() {
            return value;
        }
        os::sleep(Duration::from_micros(50));
    }
}

#[test]
fn a_line_comes_from_as_far_as_its_last_writer_is() {
    let machine = exact("9d64");
    let costs = machine.costs.clone();
    let times = run(&machine, || {
        let line = os::new_line();
        // CPU 88 is the sibling of 0, 1 is under the same cache, 8 is under the next.
        [0, 0, 88, 1, 8].map(|cpu| {
            there(cpu, move || {
                let before = os::observe_ns();
                os::access(line, Access::Update);
                os::observe_ns() - before
            })
        })
    });
    let [memory, sibling, llc, other] =
        [0, 1, 2, 3].map(|class| costs.transfer_ns[class] + (costs.update_ps / 1000));
    assert_eq!(
        times,
        [memory, (costs.update_ps / 1000), sibling, llc, other]
    );
}

#[test]
fn writers_of_one_line_queue_and_readers_share_it() {
    let machine = exact("grace");
    let transfer = machine.costs.transfer_ns[2];
    let spans = run(&machine, || {
        [Access::Update, Access::Read].map(|kind| {
            let line = os::new_line();
            os::access(line, Access::Write);
            let start = os::observe_ns() + 1_000_000;
            let ends = Rc::new(RefCell::new(Vec::new()));
            for cpu in 1..=40 {
                let ends = ends.clone();
                os::spawn("at once", on(cpu), move || {
                    os::work(start - os::observe_ns());
                    os::access(line, kind);
                    ends.borrow_mut().push(os::observe_ns() - start);
                })
                .unwrap();
            }
            os::sleep(Duration::from_millis(3));
            ends.take().into_iter().max().unwrap()
        })
    });
    assert!(spans[0] >= 40 * transfer, "{spans:?}");
    assert!(spans[1] < 20 * transfer, "{spans:?}");
}

#[test]
fn a_spinlock_excludes_and_goes_to_the_one_that_waits_longest() {
    let machine = exact("8321hc");
    run(&machine, || {
        let lock = SpinLock::new();
        let inside = Rc::new(Cell::new(false));
        let order = Rc::new(RefCell::new(Vec::new()));
        let start = os::observe_ns() + 1_000_000;
        for cpu in 1..20 {
            let (inside, order) = (inside.clone(), order.clone());
            os::spawn("holder", on(cpu), move || {
                os::work((start - os::observe_ns()) + 200 * cpu as u64);
                lock.lock();
                assert!(!inside.replace(true));
                os::work(5_000);
                order.borrow_mut().push(cpu);
                assert!(inside.replace(false));
                lock.unlock();
            })
            .unwrap();
        }
        os::sleep(Duration::from_millis(5));
        let order = order.take();
        assert_eq!(order.len(), 19);
        // CPUs 1 to 19 are cores of their own there, of which some share one with the main
        // thread's: all come in order.
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(lock.totals().taken, 19);
    });
}

#[test]
fn two_that_compute_on_one_cpu_get_slices_and_a_sleeper_misses_nothing() {
    let mut machine = exact("two-vcpus");
    machine.costs.tick_ns = 1;
    let slice = machine.costs.slice_ns;
    let longest_gap = run(&machine, move || {
        let gap = Rc::new(Cell::new(0));
        let left = Rc::new(Cell::new(2));
        for _ in 0..2 {
            let (gap, left) = (gap.clone(), left.clone());
            os::spawn("burner", on(1), move || {
                let mut last = os::observe_ns();
                for _ in 0..1000 {
                    os::work(50_000);
                    let now = os::observe_ns();
                    gap.set(gap.get().max(now - last));
                    last = now;
                }
                left.set(left.get() - 1);
            })
            .unwrap();
        }
        while left.get() > 0 {
            os::sleep(Duration::from_millis(1));
        }
        gap.get()
    });
    assert!((slice..2 * slice).contains(&longest_gap), "{longest_gap}");
}

#[test]
fn siblings_slow_each_other_down() {
    let machine = exact("8321hc");
    let [alone, beside_sibling, beside_core] = run(&machine, || {
        [None, Some(26), Some(2)].map(|other| {
            if let Some(other) = other {
                os::spawn("other", on(other), || os::work(3_000_000)).unwrap();
            }
            let span = there(0, || {
                let before = os::observe_ns();
                os::work(1_000_000);
                os::observe_ns() - before
            });
            os::sleep(Duration::from_millis(6));
            span
        })
    });
    assert!((1_000_000..1_010_000).contains(&alone), "{alone}");
    assert!(
        (1_500_000..1_700_000).contains(&beside_sibling),
        "{beside_sibling}"
    );
    assert!(
        (1_000_000..1_010_000).contains(&beside_core),
        "{beside_core}"
    );
}

#[test]
fn a_thread_that_was_woken_by_name_takes_no_wake_up_of_its_futex_from_another_one() {
    const WORD: usize = 0x1000;
    const PAUSE: Duration = Duration::from_millis(1);
    let woken = run(&exact("two-vcpus"), || {
        let woken = Rc::new(Cell::new(false));
        let first = os::spawn("first", None, || {
            os::futex_wait(WORD, || true, None);
            os::sleep(PAUSE * 10);
        });
        os::sleep(PAUSE);
        let own = woken.clone();
        let second = move || {
            os::futex_wait(WORD, || true, None);
            own.set(true);
        };
        os::spawn("second", None, second).unwrap();
        os::sleep(PAUSE);
        os::wake(first.unwrap(), None);
        os::sleep(PAUSE);
        assert_eq!(os::futex_wake(WORD, 1), 1);
        os::sleep(PAUSE);
        woken.get()
    });
    assert!(woken);
}

#[test]
fn a_deadlock_is_told_with_the_names_of_those_that_sleep() {
    let machine = exact("two-vcpus");
    let stuck = cmwq_vm::run(&machine, 1, LIMIT, || {
        os::spawn("sleeper", None, || {
            os::prepare_sleep();
            os::sleep_unless_woken();
        })
        .unwrap();
        os::prepare_sleep();
        os::sleep_unless_woken();
    });
    let Err(Stuck::Deadlock(mut names)) = stuck else {
        panic!("{stuck:?}")
    };
    names.sort();
    assert_eq!(names, ["main", "sleeper"]);
}

/// No timer is under way then, and a thread that is alone never waits for its turn.
#[test]
fn threads_that_spin_for_ever_reach_the_limit_of_virtual_time() {
    let machine = exact("two-vcpus");
    for threads in 1..4 {
        let spins = || loop {
            os::pause();
        };
        let stuck = cmwq_vm::run(&machine, 1, 1_000_000, move || {
            for _ in 1..threads {
                os::spawn("spins", None, spins).unwrap();
            }
            spins();
        });
        assert_eq!(stuck, Err(Stuck::TooLong), "{threads} threads");
    }
    // A thread whose timer comes later is in no deadlock.
    let sleeps = || os::sleep(Duration::from_secs(1));
    let stuck = cmwq_vm::run(&machine, 1, 1_000_000, sleeps);
    assert_eq!(stuck, Err(Stuck::TooLong));
}

#[test]
fn a_panic_of_a_virtual_thread_comes_out() {
    let machine = exact("two-vcpus");
    let result = std::panic::catch_unwind(|| {
        let _ = cmwq_vm::run(&machine, 1, LIMIT, || panic!("in here"));
    });
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"in here"));
    assert!(!cmwq_vm::is_inside());
}

/// Nanoseconds of a trip: `there` and `back` run on two threads, each so many times.
fn trips(
    cpus: [usize; 2],
    count: u32,
    there: impl Fn(u32) + 'static,
    back: impl Fn(u32) + 'static,
) -> f64 {
    let other = Rc::new(Cell::new(false));
    let ended = other.clone();
    os::spawn("back", on(cpus[1]), move || {
        os::sleep(Duration::from_millis(1));
        (0..count).for_each(back);
        ended.set(true);
    })
    .unwrap();
    let ns = there_on(cpus[0], count, there);
    while !other.get() {
        os::sleep(Duration::from_micros(50));
    }
    ns
}

fn there_on(cpu: usize, count: u32, trip: impl Fn(u32) + 'static) -> f64 {
    there(cpu, move || {
        os::sleep(Duration::from_millis(1));
        let start = os::observe_ns();
        (0..count).for_each(trip);
        (os::observe_ns() - start) as f64 / f64::from(count)
    })
}

/// One that sleeps until the word has come to a value, and one that says so.
fn futex_trips(cpus: [usize; 2]) -> f64 {
    let words = Rc::new([Cell::new(0_u32), Cell::new(0)]);
    let side = |mine: usize, words: Rc<[Cell<u32>; 2]>| {
        let address = |at: usize, words: &[Cell<u32>; 2]| std::ptr::from_ref(&words[at]).addr();
        let hand_over = move |words: &[Cell<u32>; 2], value| {
            words[mine].set(value);
            os::futex_wake(address(mine, words), 1);
        };
        let wait_for = move |words: &[Cell<u32>; 2], value| {
            let word = &words[1 - mine];
            while word.get() < value {
                let seen = word.get();
                os::futex_wait(address(1 - mine, words), || word.get() == seen, None);
            }
        };
        move |trip: u32| {
            if mine == 0 {
                hand_over(&words, trip + 1);
                wait_for(&words, trip + 1);
            } else {
                wait_for(&words, trip + 1);
                hand_over(&words, trip + 1);
            }
        }
    };
    trips(cpus, 500, side(0, words.clone()), side(1, words))
}

/// The preset of this project's machine comes out at what its costs were taken from.
#[test]
fn the_measured_machine_pays_what_its_floor_says() {
    let [one_cpu, two_cpus, yields] = run(&exact("two-vcpus"), || {
        let yields = trips([0, 0], 500, |_| os::yield_now(), |_| os::yield_now());
        [futex_trips([0, 0]), futex_trips([0, 1]), yields / 2.0]
    });
    for (what, simulated, measured) in [
        ("there and back, one CPU", one_cpu, 3_500.0),
        ("there and back, two CPUs", two_cpus, 47_600.0),
        ("a yield", yields, 1_100.0),
    ] {
        let ratio = simulated / measured;
        assert!(
            (0.85..1.15).contains(&ratio),
            "{what}: {simulated}, {measured}"
        );
    }
}

fn taking(what: impl FnOnce()) -> u64 {
    let before = os::observe_ns();
    what();
    os::observe_ns() - before
}

#[test]
fn stores_and_prefetches_are_not_waited_for_until_something_needs_them() {
    let machine = exact("grace");
    let (transfer, update) = (
        machine.costs.transfer_ns[2],
        (machine.costs.update_ps / 1000),
    );
    run(&machine, move || {
        let lines = [(); 3].map(|()| os::new_line());
        let memory = Rc::new([0_u64; 16]);
        let address = memory.as_ptr().addr();
        there(1, move || {
            lines
                .iter()
                .for_each(|&line| os::access(line, Access::Update));
            os::access(os::line_at(address), Access::Update);
        });
        let keeps_memory = memory.clone();
        there(2, move || {
            os::access(lines[2], Access::Update);
            assert_eq!(taking(|| os::access(lines[0], Access::Write)), 0);
            // A read-modify-write comes after the stores, also where its own line is there.
            let after_store = taking(|| os::access(lines[2], Access::Update));
            assert_eq!(after_store, transfer + update);
            os::prefetch(keeps_memory.as_ptr().addr(), true);
            os::work(transfer);
            let prefetched = taking(|| os::access(os::line_at(address), Access::Update));
            assert_eq!(prefetched, update);
            assert_eq!(taking(|| os::access(lines[1], Access::Read)), transfer);
        });
    });
}

#[test]
fn an_exchange_that_has_failed_can_be_repeated_before_the_next_cpu_has_the_line() {
    let mut machine = exact("grace");
    machine.costs.kept_ppt = 1000;
    let update = machine.costs.update_ps / 1000;
    let failures = run(&machine, move || {
        let line = os::new_line();
        let value = Rc::new(Cell::new(0_u64));
        let failures = Rc::new(Cell::new(0));
        let start = os::observe_ns() + 1_000_000;
        for cpu in 1..=40 {
            let (value, failures) = (value.clone(), failures.clone());
            os::spawn("at once", on(cpu), move || {
                os::work(start - os::observe_ns());
                let mut seen = 0;
                loop {
                    os::access(line, Access::Update);
                    if value.get() == seen {
                        return value.set(seen + 1);
                    }
                    seen = value.get();
                    failures.set(failures.get() + 1);
                    let again = taking(|| os::access(line, Access::Update));
                    assert_eq!(again, update);
                }
            })
            .unwrap();
        }
        os::sleep(Duration::from_millis(3));
        assert_eq!(value.get(), 40);
        failures.get()
    });
    assert_eq!(failures, 39);
}

#[test]
fn a_cpu_without_work_takes_a_thread_that_waits_for_another_one() {
    let ran_on = run(&exact("two-vcpus"), || {
        os::spawn("burner", on(1), || os::work(10_000_000)).unwrap();
        os::sleep(Duration::from_micros(600));
        let ran_on = Rc::new(Cell::new(None));
        let place = ran_on.clone();
        let main = move || place.set(Some(os::current_cpu()));
        let waiting = os::spawn("waiting", on(1), main).unwrap();
        os::set_affinity(waiting, Cpus::from_iter([0, 1]));
        // From here on this CPU has nothing to do.
        os::sleep(Duration::from_micros(100));
        ran_on.get()
    });
    assert_eq!(ran_on, Some(0));
}

#[test]
fn a_fork_leaves_one_thread_in_the_child() {
    let machine = exact("9d64");
    run(&machine, || {
        let lock = Rc::new(Cell::new(false));
        let count = Rc::new(Cell::new(0));
        // One that computes, one that sleeps, one that holds something, one that waits for a CPU.
        for cpu in [1, 2, 3, 3] {
            let (lock, count) = (lock.clone(), count.clone());
            let main = move || {
                lock.set(true);
                for _ in 0..100 {
                    count.set(count.get() + 1);
                    match cpu {
                        2 => os::sleep(Duration::from_micros(10)),
                        _ => os::work(10_000),
                    }
                }
                lock.set(false);
            };
            os::spawn("another", on(cpu), main).unwrap();
        }
        os::sleep(Duration::from_micros(100));
        assert!(lock.get());
        let before = count.get();
        match cmwq_vm::fork().unwrap() {
            Forked::Child => {
                os::sleep(Duration::from_millis(50));
                let alone = os::threads_named("another").is_empty();
                let is_as_it_was = lock.get() && count.get() == before;
                // Its own threads run, on CPUs where its parent's ran too.
                let own = there(3, os::current_cpu) == 3;
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(i32::from(!(alone && is_as_it_was && own))) }
            }
            Forked::Parent(pid) => {
                let mut status = 0;
                // SAFETY: waits for our own child; there is room for its status.
                unsafe { libc::waitpid(pid, &raw mut status, 0) };
                assert_eq!(status, 0);
            }
        }
        os::sleep(Duration::from_millis(50));
        assert!(!lock.get() && count.get() == 400, "the parent went on");
    });
}

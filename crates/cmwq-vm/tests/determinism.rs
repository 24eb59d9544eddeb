//! The same seed gives the same run on every machine, and another seed another one. All kinds of
//! operations take part.

use cmwq_vm::machine::{Machine, PRESETS};
use cmwq_vm::{Access, Cpus, Outcome, SpinLock, os};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

fn mixed(machine: &Machine, seed: u64) -> Outcome {
    let main = || {
        let threads = os::cpus() * 2;
        let lock = SpinLock::new();
        let line = os::new_line();
        let word = Rc::new(Cell::new(0_u32));
        let left = Rc::new(Cell::new(threads));
        for number in 0..threads {
            let (word, left) = (word.clone(), left.clone());
            let address = Rc::as_ptr(&word) as usize;
            let bound = number
                .is_multiple_of(3)
                .then(|| Cpus::from_iter([number % os::cpus()]));
            os::spawn(&format!("t{number}"), bound, move || {
                for round in 0..20 {
                    match os::random(6) {
                        0 => os::yield_now(),
                        1 => os::sleep(Duration::from_micros(os::random(50))),
                        2 => os::work(os::random(20_000)),
                        3 => os::access(line, Access::Update),
                        4 => {
                            let seen = word.get();
                            let timeout = Some(Duration::from_micros(30));
                            os::futex_wait(address, || word.get() == seen, timeout);
                        }
                        _ => {
                            lock.lock();
                            os::work(100 + round);
                            word.set(word.get() + 1);
                            lock.unlock();
                            os::futex_wake(address, 2);
                        }
                    }
                }
                left.set(left.get() - 1);
            })
            .unwrap();
        }
        while left.get() > 0 {
            os::sleep(Duration::from_micros(100));
        }
    };
    // A virtual hour: it takes some milliseconds, and something that hangs is not waited for.
    cmwq_vm::run(machine, seed, 3_600_000_000_000, main).expect("it ends")
}

#[test]
fn the_same_seed_gives_the_same_run_on_every_preset() {
    for preset in PRESETS {
        let machine = preset.machine();
        let first = mixed(&machine, 7);
        assert_eq!(first, mixed(&machine, 7), "{}", preset.name);
        assert_ne!(
            first.log_hash,
            mixed(&machine, 8).log_hash,
            "{}",
            preset.name
        );
    }
}

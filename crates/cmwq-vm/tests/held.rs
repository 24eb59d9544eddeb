//! Data behind a lock: the lines that a holder has written come to its CPU, and no others.

use cmwq_vm::machine::preset;
use cmwq_vm::{Access, Cpus, hold, os, release};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

#[repr(align(64))]
struct Data([u64; 4 * LINE]);
/// Words of a line.
const LINE: usize = 8;

/// Two CPUs take turns, as at a lock. How many lines are transferred when a turn writes these words.
fn transfers(words: &'static [usize]) -> u64 {
    let machine = preset("16-vcpus").unwrap().machine();
    let found = Rc::new(Cell::new(0));
    let place = found.clone();
    let main = move || {
        let data = Rc::new(Cell::new(
            Box::leak(Box::new(Data([0; 4 * LINE]))) as *mut Data
        ));
        let turn = move |data: *mut Data| {
            // SAFETY: the data are never freed, and the threads take turns.
            let held = unsafe { hold(data.addr(), size_of::<Data>()) };
            for &word in words {
                // SAFETY: as above.
                unsafe { (*data).0[word] += 1 };
            }
            // SAFETY: as above.
            unsafe { release(held) };
        };
        for cpu in [1, 2, 1] {
            let (data, place) = (data.clone(), place.clone());
            let one = move || {
                let before = os::totals().transfers;
                turn(data.get());
                place.set(os::totals().transfers - before);
            };
            os::spawn("holder", Some(Cpus::from_iter([cpu])), one).unwrap();
            os::sleep(Duration::from_millis(1));
        }
    };
    cmwq_vm::run(&machine, 1, 1_000_000_000, main).expect("it ends");
    found.get()
}

#[test]
fn lines_that_a_holder_writes_move_and_others_stay() {
    assert_eq!(transfers(&[]), 0);
    assert_eq!(transfers(&[0]), 1);
    assert_eq!(transfers(&[0, LINE - 1]), 1);
    assert_eq!(transfers(&[LINE - 1, LINE]), 2);
    assert_eq!(transfers(&[0, LINE, 2 * LINE, 3 * LINE]), 4);
}

/// The machine counts what a thread does while it holds a lock, and keeps the most.
#[test]
fn the_longest_hold_is_counted_in_operations() {
    let machine = preset("16-vcpus").unwrap().machine();
    let main = || {
        let word = 0_u64;
        let hold_for = |operations: u64, counts: bool| {
            // SAFETY: the word is this thread's.
            let mut held = unsafe { hold((&raw const word).addr(), size_of::<u64>()) };
            if counts {
                held.count();
            }
            (0..operations).for_each(|_| os::touch((&raw const word).addr(), Access::Read));
            // SAFETY: as above.
            unsafe { release(held) };
            os::totals().longest_hold
        };
        assert_eq!(os::totals().longest_hold, 0);
        assert_eq!(hold_for(5, false), 0);
        let one = hold_for(1, true);
        let nine = hold_for(9, true);
        assert_eq!(nine, one + 8);
        assert_eq!(hold_for(3, true), nine);
    };
    cmwq_vm::run(&machine, 1, 1_000_000_000, main).expect("it ends");
}

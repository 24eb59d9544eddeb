//! What the processor of the preset of this project's machine does with additions on two CPUs,
//! against small programs that were measured there.

use cmwq_vm::machine::{Machine, preset};
use cmwq_vm::{Access, Cpus, os};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const TIMES: usize = 20_000;
const PAIR: usize = 128;

/// The preset without random variation and instructions between accesses, and without a prefetcher.
fn bare() -> Machine {
    let mut machine = preset("two-vcpus").unwrap().machine();
    let costs = &mut machine.costs;
    (costs.jitter_ppt, costs.between_ps, costs.strides_ahead) = (0, 0, 0);
    machine
}

/// Nanoseconds of one of many calls of `body` with its number, on both CPUs at once. It gets its
/// CPU and the address of so many lines.
fn both(lines: usize, body: impl Fn(usize, usize, usize) + Copy + 'static) -> f64 {
    let result = Rc::new(Cell::new(0.0));
    let place = result.clone();
    let main = move || {
        let memory = vec![0_u8; (lines + 1) * PAIR];
        let base = memory.as_ptr().addr().next_multiple_of(PAIR);
        let start = os::observe_ns() + 1_000_000;
        let end = Rc::new(Cell::new(0));
        for cpu in 0..2 {
            let end = end.clone();
            let main = move || {
                os::work(start - os::observe_ns());
                (0..TIMES).for_each(|number| body(cpu, base, number));
                end.set(end.get().max(os::observe_ns()));
            };
            os::spawn("adder", Some(Cpus::from_iter([cpu])), main).unwrap();
        }
        os::sleep(Duration::from_millis(20));
        place.set((end.get() - start) as f64 / TIMES as f64);
    };
    cmwq_vm::run(&bare(), 1, 3_600_000_000_000, main).expect("it ends");
    result.get()
}

/// An addition to a line of both, and so many to lines of the CPU's own.
fn beside(own: usize) -> f64 {
    both(9, move |cpu, base, _| {
        os::touch(base, Access::Update);
        for number in 0..own {
            let line = 1 + cpu * 4 + number % 4;
            os::touch(base + line * PAIR, Access::Update);
        }
    })
}

#[test]
fn additions_of_two_cpus_take_what_was_measured() {
    let measured = [
        (0, 13.5),
        (1, 26.1),
        (2, 33.3),
        (3, 37.4),
        (4, 38.9),
        (8, 42.7),
        (16, 81.1),
    ];
    for (own, measured) in measured {
        let ratio = beside(own) / measured;
        assert!((0.7..1.4).contains(&ratio), "{own} of its own: {ratio}");
    }
}

/// What one of many additions takes to lines that the other CPU has written, and of loads of such lines.
#[test]
fn additions_are_sent_for_while_others_wait_and_loads_are_waited_for() {
    const LINES: usize = 64;
    let machine = bare();
    let transfer = machine.costs.transfer_ns[2] as f64;
    let times = Rc::new(Cell::new([0.0; 2]));
    let place = times.clone();
    let main = move || {
        let memory = vec![0_u8; (LINES + 1) * PAIR];
        let base = memory.as_ptr().addr().next_multiple_of(PAIR);
        let lines = move || (0..LINES).map(move |number| base + number * PAIR);
        let on = |cpu, main: Box<dyn FnOnce()>| {
            os::spawn("other", Some(Cpus::from_iter([cpu])), main).unwrap();
            os::sleep(Duration::from_millis(1));
        };
        let times = Rc::new(Cell::new([0.0; 2]));
        for (at, access) in [Access::Update, Access::Read].into_iter().enumerate() {
            let write = move || lines().for_each(|line| os::touch(line, Access::Update));
            on(0, Box::new(write));
            let times = times.clone();
            let timed = move || {
                let start = os::observe_ns();
                lines().for_each(|line| os::touch(line, access));
                let mut all = times.get();
                all[at] = (os::observe_ns() - start) as f64 / LINES as f64;
                times.set(all);
            };
            on(1, Box::new(timed));
        }
        place.set(times.get());
    };
    cmwq_vm::run(&machine, 1, 3_600_000_000_000, main).expect("it ends");
    let [additions, loads] = times.get();
    // Measured: 4.8 and, where each load's address depends on the one before, 24.5.
    assert!((4.3..5.5).contains(&additions), "{additions}");
    assert!((transfer..transfer + 2.0).contains(&loads), "{loads}");
}

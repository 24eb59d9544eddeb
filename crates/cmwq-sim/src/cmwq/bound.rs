//! What the CPUs of a machine bear of a load, and by what a load is judged.

use cmwq_loads::{Found, Load, Pause, Shape};
use cmwq_vm::machine::Machine;
use std::collections::BTreeSet;

/// As how many CPUs without siblings the machine computes.
fn computing_cpus(machine: &Machine) -> f64 {
    let cores: BTreeSet<u16> = machine.cpus.iter().map(|place| place.core).collect();
    let siblings = machine.cpus.len() - cores.len();
    let slower = 1.0 + machine.costs.smt_slowdown_ppt as f64 / 1000.0;
    let alone = cores.len() - siblings;
    alone as f64 + 2.0 * siblings as f64 / slower
}

/// By what rows of a load are compared: the more the better. The rate, if the issuers go on as fast
/// as they can; else how many rounds or items in a second their median time would allow.
#[must_use]
pub fn merit(load: &Load, found: &Found) -> f64 {
    match waits(load) {
        true if found.done.count == 0 => 0.0,
        true => 1e9 / found.done.p50_ns.max(1) as f64,
        false => found.items_per_s,
    }
}

/// Whether its rate is given, so that it is judged by its times.
fn waits(load: &Load) -> bool {
    match load.shape {
        Shape::Gather { pause, .. } => pause != Pause::None,
        Shape::Flow { .. } => false,
        Shape::Arrive { .. } => true,
    }
}

/// The merit that the CPUs would allow if queueing and waking took no time. Rounds with pauses in
/// between are taken to begin at the same time at all issuers; if they do not, the merit may be
/// better. `None`: items of no length have no such bound, and a machine that computes something
/// else neither.
#[must_use]
pub fn bound(load: &Load, machine: &Machine) -> Option<f64> {
    if load.item_ns == 0 || load.hogs || load.moving_ns > 0 {
        return None;
    }
    let cpus = computing_cpus(machine);
    let round = |items: u32, issuers: usize| {
        // A round with fewer items than CPUs takes as long as one item.
        let at_once = (cpus / issuers as f64).max(1.0);
        (f64::from(items) / at_once).max(1.0) * load.mean_ns()
    };
    let issuers = load.issuers.on(machine.cpus.len());
    Some(match load.shape {
        // Rounds of several issuers may meet.
        Shape::Gather { items, pause, .. } if pause != Pause::None => 1e9 / round(items, issuers),
        Shape::Gather { items, .. } => {
            f64::from(items) * issuers as f64 * 1e9 / round(items, issuers)
        }
        Shape::Flow { in_flight, stages } => {
            let most = f64::from(in_flight) * issuers as f64;
            cpus.min(most) * 1e9 / (load.mean_ns() * f64::from(stages))
        }
        Shape::Arrive { .. } => 1e9 / load.mean_ns(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cmwq_vm::machine::{Costs, Machine};

    #[test]
    fn the_cpus_bear_so_many_items() {
        let machine = |cores, threads| Machine::regular("", 1, 1, cores, threads, Costs::default());
        let of = |name: &str, machine: &Machine| bound(&Load::named(name).unwrap(), machine);
        let near = |found: Option<f64>, expected: f64| {
            assert!(
                (found.unwrap() / expected - 1.0).abs() < 1e-9,
                "{found:?} {expected}"
            );
        };
        near(of("window", &machine(16, 1)), 16.0 / 20e-6);
        near(of("window", &machine(16, 2)), 16.0 * 2.0 / 1.6 / 20e-6);
        near(of("scatter-8", &machine(4, 1)), 4.0 / 20e-6);
        near(of("scatter-8", &machine(64, 1)), 8.0 / 20e-6);
        near(of("burst-256", &machine(64, 1)), 1.0 / 20e-6);
        let bursts = Load {
            issuers: cmwq_loads::Issuers::All,
            ..Load::named("burst-256").unwrap()
        };
        // An issuer on each CPU: one CPU does each burst.
        near(bound(&bursts, &machine(64, 1)), 1.0 / (256.0 * 5e-6));
        near(of("trickle-1ms", &machine(64, 1)), 1.0 / 20e-6);
        assert_eq!(of("flood", &machine(2, 1)), None);
    }
}

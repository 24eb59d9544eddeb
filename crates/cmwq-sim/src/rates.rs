//! Oracles of rates: whatever the machine and the load, queueing on many CPUs must not be much
//! slower than one CPU that did all, and must not wake threads without end.
//!
//! Each seed is a load on a machine, without faults. What is demanded is far below what the library
//! does: it is there to find a collapse, not a few percent. How far it can be from the best is seen
//! in a matrix (`cmwq sim --matrix`).
#![forbid(unsafe_code)]

use crate::cmwq::{Doing, Failed, Measured, Plan, bound, merit, run, topology};
use crate::pods::Scope;
use cmwq_loads::{Issuers, Load, Mix, Pause, Shape};
use cmwq_simulated::affinity::AffinityScope;
use cmwq_vm::Random;
use cmwq_vm::machine::{Costs, Machine, Placement};
use serde::{Deserialize, Serialize};

/// Packages, last-level caches of each, cores of each, threads of each.
const SHAPES: [[usize; 4]; 11] = [
    [1, 1, 2, 1],
    [1, 1, 4, 1],
    [1, 1, 8, 2],
    [1, 1, 16, 1],
    [1, 1, 32, 1],
    [1, 1, 64, 1],
    [1, 1, 128, 1],
    [1, 4, 8, 1],
    [1, 8, 16, 1],
    [2, 2, 8, 2],
    [2, 4, 14, 1],
];
const ITEM_NS: [u64; 8] = [0, 200, 500, 1_000, 3_000, 20_000, 100_000, 500_000];
const ISSUERS: [Issuers; 5] = [
    Issuers::Number(1),
    Issuers::Number(2),
    Issuers::Number(4),
    Issuers::Half,
    Issuers::All,
];

/// More wake-ups for each item are a storm. Today's most in 150 seeds is 10.6: an issuer that joins
/// rounds of 64 items on two sockets of four caches, where thieves come that find nothing.
pub const MOST_WAKEUPS: f64 = 16.0;
/// More threads of the engine for each CPU, beside [`SERVICE_THREADS`], are a storm too, if all
/// items take equally long.
pub const MOST_THREADS: f64 = 4.0;
/// What the engine has beside its workers, and the machine's first thread.
const SERVICE_THREADS: usize = 8;
/// A job waited for so long, none began, and a CPU idled. Besides, it may wait for two items in
/// front of it: a worker that has taken several runs them one after the other, and a thread that
/// waits runs what it has spawned itself.
pub const MOST_IDLED_US: f64 = 200.0;
/// As long, where some items are much longer than others: what is promised beside items that
/// compute, and a tick.
const MOST_IDLED_UNEVEN_US: f64 = 12_000.0;
/// Visible operations for each item that is touched while a pool's lock is held. Today's most in 68
/// seeds is 2.6.
const HELD_FOR_AN_ITEM: u64 = 4;
/// So many nodes may be touched in one holding, and beside them the items of one chunk and of each
/// open batch: see the library's PROTOCOL.md.
const NODES_IN_A_HOLD: u64 = 256;
const ITEMS_IN_A_BATCH: u64 = 128;
/// CPUs of a pod, about.
const SHARD_SIZE: usize = 8;
/// Bytes that are in use after the load, more than before, for each item.
pub const MOST_GROWN: f64 = 8.0;
/// So much is no growth, and as much again for 32 CPUs: free blocks that are kept, and what each thread has.
const KEPT: i64 = 4 << 20;
/// So much of one CPU's rate is the least. The least that was seen in 80 seeds is 0.8.
pub const LEAST_RATE: f64 = 0.5;
/// Of what all CPUs bear so much is reached at least: pods that have nothing to do take from those
/// that have too much.
pub const LEAST_OF_BOUND: f64 = 0.05;
/// From so long items on it is asked.
const LONG_NS: u64 = 20_000;
/// If all issuers are in a quarter of the pods or less, the rate must be this many times what those
/// pods bear alone. Without stealing the rate is 1 time that, and 1.25 times if no thief is called;
/// the engine's least is 2.1.
pub const LEAST_OF_OWN_PODS: f64 = 1.6;
/// From so long items on that is asked.
const WORTH_A_STEAL_NS: u64 = 100_000;
/// What handing over an item takes one CPU that does nothing else, with some to spare.
const HAND_OVER_NS: f64 = 200.0;
/// A wake-up from a deep idle state.
const WAKE_NS: f64 = 25_000.0;

/// What a seed stands for.
#[derive(Clone, Debug)]
pub struct Case {
    /// The machine and the load.
    pub plan: Plan,
}

/// What a case came to.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Rated {
    /// The rate by that of one CPU which does all.
    pub to_one_cpu: f64,
    /// Wake-ups of each item.
    pub wakeups: f64,
    /// Threads that the engine has made for each CPU.
    pub threads: f64,
    /// For how long something waited, nothing began, and a CPU idled, in microseconds.
    pub idled_us: f64,
    /// The most visible operations while one lock was held.
    pub held: u64,
    /// Bytes for each item that stay in use.
    pub grown: f64,
    /// The part that was reached of what all CPUs bear, if items are [so long](LONG_NS) that
    /// handing them over is a small part.
    pub of_bound: Option<f64>,
}

impl Case {
    /// The case of this seed.
    ///
    /// # Errors
    /// The machine cannot be described to the library.
    pub fn new(seed: u64) -> Result<Case, Failed> {
        let mut random = Random::new(seed ^ 0x5bd1_e995_9c1b_37a5);
        let mut draw = |count: usize| random.below(count as u64) as usize;
        let [packages, llcs, cores, threads] = SHAPES[draw(SHAPES.len())];
        let name = format!("pack:{packages} l3:{llcs} core:{cores} pu:{threads}");
        let costs = Costs::default();
        let mut machine = Machine::regular(&name, packages, llcs, cores, threads, costs);
        if draw(2) == 0 {
            machine.placement = Placement::Waker;
        }
        // Round trips, floods and windows of the shortest items are where the pool itself is the load.
        let (loads, items) = match draw(3) {
            0 => (3, 3),
            _ => (Load::all().len(), ITEM_NS.len()),
        };
        let mut load = Load::all()[draw(loads)].clone();
        load.item_ns = ITEM_NS[draw(items)];
        if !load.hogs && load.place != cmwq_loads::Place::OneCpu {
            load.issuers = ISSUERS[draw(ISSUERS.len())];
        }
        Ok(Case {
            plan: Plan {
                topology: topology(&machine)?,
                machine,
                scope: AffinityScope::CacheShard,
                shard_size: SHARD_SIZE,
                strict: false,
                doing: Doing::Load(load),
                window_ns: 0,
                seed,
                probe_ns: 25_000,
            },
        })
    }

    fn load(&self) -> &Load {
        match &self.plan.doing {
            Doing::Load(load) => load,
            Doing::Blocks(_) => unreachable!("no case has them"),
        }
    }

    /// Visible operations while a pool's lock is held. Each worker of a pod may have an open batch,
    /// and the thread that takes the lock closes all of them.
    fn longest_hold(&self) -> u64 {
        let pods = Scope::CacheShard(SHARD_SIZE).pods(&self.plan.machine);
        let most = pods.pods.iter().map(|pod| pod.len()).max().unwrap_or(0);
        let batches = 1 + most as u64;
        HELD_FOR_AN_ITEM * (NODES_IN_A_HOLD + batches * ITEMS_IN_A_BATCH)
    }

    /// The part of what all CPUs bear that idle pods make possible, which take from the pods of the
    /// issuers. 0: those have no more than they bear.
    fn least_with_steals(&self) -> f64 {
        let (load, machine) = (self.load(), &self.plan.machine);
        let flows = match load.shape {
            Shape::Gather { pause, .. } => pause == Pause::None,
            Shape::Flow { .. } => true,
            Shape::Arrive { .. } => false,
        };
        let is_spread = load.place == cmwq_loads::Place::Spread;
        if !flows || !is_spread || load.item_ns < WORTH_A_STEAL_NS {
            return 0.0;
        }
        let pods = Scope::CacheShard(SHARD_SIZE).pods(machine);
        let issuers = load.issuers.on(machine.cpus.len());
        let last = pods.of_cpu[..issuers].iter().max();
        let own = 1 + last.copied().unwrap_or(0);
        if 4 * own > pods.pods.len() {
            return 0.0;
        }
        LEAST_OF_OWN_PODS * own as f64 / pods.pods.len() as f64
    }

    /// In one line.
    #[must_use]
    pub fn text(&self) -> String {
        let (load, machine) = (self.load(), &self.plan.machine);
        let (name, issuers) = (load.name, load.issuers.on(machine.cpus.len()));
        format!(
            "{name} of {} ns by {issuers} issuers on {}, placement {:?}",
            load.item_ns, machine.name, machine.placement
        )
    }

    /// Runs it.
    ///
    /// # Errors
    /// It has no end, or an item was lost.
    pub fn run(&self) -> Result<Rated, Failed> {
        Ok(self.rate(&run(&self.plan)?))
    }

    fn rate(&self, measured: &Measured) -> Rated {
        let (load, found) = (self.load(), &measured.found);
        let items = |count: u32| f64::from(count) * (load.mean_ns() + HAND_OVER_NS);
        // What one round, or all that is in flight, takes one CPU; and how long it took.
        let (alone_ns, took_ns) = match load.shape {
            Shape::Gather {
                items: count,
                pause,
                ..
            } if pause != Pause::None => (items(count), found.done.p50_ns as f64),
            Shape::Arrive { .. } => (items(1), found.start.p50_ns as f64 + load.mean_ns()),
            Shape::Gather { items: count, .. } => {
                let count = count.min(5_000);
                (items(count), f64::from(count) * 1e9 / found.items_per_s)
            }
            Shape::Flow { in_flight, stages } => {
                let alone_ns = items(in_flight) * f64::from(stages);
                (alone_ns, f64::from(in_flight) * 1e9 / found.items_per_s)
            }
        };
        let cpus = self.plan.machine.cpus.len();
        let others = load.issuers.on(cpus) + SERVICE_THREADS;
        let kept = KEPT + KEPT * cpus as i64 / 32;
        Rated {
            to_one_cpu: (alone_ns + 2.0 * WAKE_NS) / took_ns.max(1.0),
            wakeups: found.wakeups_per_item,
            threads: measured.outcome.threads.saturating_sub(others) as f64 / cpus as f64,
            idled_us: measured.idled_ns as f64 / 1e3,
            held: measured.did.longest_hold,
            grown: (measured.grown - kept).max(0) as f64 / (measured.ran as f64).max(1.0),
            of_bound: bound(load, &self.plan.machine)
                .filter(|_| load.item_ns >= LONG_NS)
                .map(|bound| merit(load, found) / bound),
        }
    }

    /// What the case must not come to.
    ///
    /// # Errors
    /// What it has come to.
    pub fn judge(&self, rated: Rated) -> Result<(), String> {
        let load = self.load();
        if rated.wakeups > MOST_WAKEUPS {
            let wakeups = rated.wakeups;
            return Err(format!("{wakeups:.1} wake-ups for each item"));
        }
        if rated.held > self.longest_hold() {
            return Err(format!("a lock was held for {} operations", rated.held));
        }
        // What sleeps takes no CPU.
        let is_awake = !matches!(load.mix, Mix::Sleeps { .. });
        if load.mix == Mix::Even && rated.threads > MOST_THREADS {
            let threads = rated.threads;
            return Err(format!("{threads:.1} threads of the engine for each CPU"));
        }
        // A load that arrives keeps its own account of each item.
        let is_borne = !matches!(load.shape, Shape::Arrive { .. });
        if is_borne && rated.grown > MOST_GROWN {
            let grown = rated.grown;
            return Err(format!("{grown:.1} bytes more are in use for each item"));
        }
        // Threads that compute have the CPUs, and a rate that the CPUs do not bear has no time.
        let is_free = !load.hogs && load.place != cmwq_loads::Place::OneCpu;
        let most_idled_us = match load.mix {
            Mix::Even => MOST_IDLED_US + 2.0 * load.mean_ns() / 1e3,
            _ => MOST_IDLED_UNEVEN_US,
        };
        if is_free && is_borne && is_awake && rated.idled_us > most_idled_us {
            let idled = rated.idled_us;
            return Err(format!(
                "something waited for {idled:.0} us while a CPU idled, and nothing began"
            ));
        }
        if let Some(part) = rated.of_bound
            && is_free
            && is_borne
            && is_awake
            && part < LEAST_OF_BOUND.max(self.least_with_steals())
        {
            return Err(format!("{part:.3} of what all CPUs bear"));
        }
        if is_free && is_borne && is_awake && rated.to_one_cpu < LEAST_RATE {
            let ratio = rated.to_one_cpu;
            return Err(format!("{ratio:.3} of the rate of one CPU that did all"));
        }
        Ok(())
    }
}

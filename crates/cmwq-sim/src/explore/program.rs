//! Random programs as data: what each issuer does, in order, on which machine, with which faults.
//! Everything follows from the seed, and any subset of the operations is a program too, which is
//! what shrinking needs.

use super::programs::{KINDS, pick};
use cmwq_vm::machine::{Costs, Machine, Place, Placement, preset};
use cmwq_vm::{Faults, Random, WeakMemory};

pub use super::programs::Kind;

/// One step of one issuer.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Its number in the unshrunk program.
    pub number: usize,
    /// Which issuer does it.
    pub issuer: usize,
    /// What.
    pub kind: Kind,
    /// The details.
    pub seed: u64,
}

/// Which kinds of faults may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSet(u32);

const FAULTS: [&str; 11] = [
    "preempt", "stop", "wakeups", "threads", "cpus", "clock", "fork", "quota", "lag", "steps",
    "weak",
];
/// The first so many are `all`: a weak memory takes longer, and is asked for by name.
const USUAL: usize = 10;

impl FaultSet {
    /// None.
    pub const NONE: FaultSet = FaultSet(0);

    /// All but the weak memory.
    #[must_use]
    pub fn all() -> FaultSet {
        FaultSet((1 << USUAL) - 1)
    }

    /// From a list such as `preempt,wakeups` or `all,weak`; `none` is known too.
    ///
    /// # Errors
    /// A sentence with the names that there are.
    pub fn parse(text: &str) -> Result<FaultSet, String> {
        if text == "none" {
            return Ok(FaultSet::NONE);
        }
        let mut set = 0;
        for name in text.split(',') {
            if name == "all" {
                set |= FaultSet::all().0;
                continue;
            }
            let at = FAULTS.iter().position(|known| *known == name);
            let known = || {
                format!(
                    "no fault {name:?}; there are {}, all, none",
                    FAULTS.join(", ")
                )
            };
            set |= 1 << at.ok_or_else(known)?;
        }
        Ok(FaultSet(set))
    }

    /// Whether this one is among them.
    #[must_use]
    pub fn has(self, name: &str) -> bool {
        let at = FAULTS.iter().position(|known| *known == name);
        self.0 & 1 << at.expect("a known name") != 0
    }

    /// Each set with one fault less.
    pub fn smaller(self) -> impl Iterator<Item = FaultSet> {
        let each = (0..FAULTS.len()).filter(move |at| self.0 >> at & 1 == 1);
        each.map(move |at| FaultSet(self.0 & !(1 << at)))
    }
}

impl std::fmt::Display for FaultSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == FaultSet::NONE {
            return f.write_str("none");
        }
        let all = FaultSet::all().0;
        let (has_all, from) = match self.0 & all == all {
            true => (Some("all"), USUAL),
            false => (None, 0),
        };
        let names = FAULTS.iter().enumerate().skip(from);
        let names = names.filter(|(at, _)| self.0 >> at & 1 == 1);
        let named: Vec<&str> = has_all
            .into_iter()
            .chain(names.map(|(_, name)| *name))
            .collect();
        f.write_str(&named.join(","))
    }
}

/// A machine: packages, nodes in each, caches in each, cores in each, threads of each.
pub type Shape = [usize; 5];

/// From 2 to 128 CPUs. Small ones are drawn more often: they take less time, and more of their threads meet.
pub const SHAPES: [Shape; 16] = [
    [1, 1, 1, 2, 1],
    [1, 1, 2, 1, 1],
    [1, 1, 1, 1, 2],
    [1, 1, 1, 3, 1],
    [1, 1, 1, 4, 1],
    [1, 1, 2, 2, 1],
    [1, 2, 1, 2, 1],
    [1, 1, 4, 1, 2],
    [2, 1, 2, 2, 1],
    [1, 1, 2, 3, 2],
    [1, 1, 1, 16, 1],
    [1, 1, 4, 3, 2],
    [1, 1, 1, 32, 1],
    [2, 1, 2, 8, 2],
    [1, 1, 1, 72, 1],
    [2, 2, 2, 8, 2],
];

/// The description of a shape in hwloc's syntax. The library numbers its CPUs depth first, as
/// [`machine`] does.
#[must_use]
pub fn description(shape: Shape) -> String {
    let [packages, nodes, llcs, cores, threads] = shape;
    format!("pack:{packages} numa:{nodes} l3:{llcs} core:{cores} pu:{threads}")
}

/// The machine of a shape.
///
/// # Panics
/// If the shape has more CPUs than a machine may have.
#[must_use]
pub fn machine(shape: Shape, costs: Costs) -> Machine {
    let [packages, nodes, llcs, cores, threads] = shape;
    let places = (0..shape.iter().product()).map(|cpu| {
        let core = cpu / threads;
        let llc = core / cores;
        let node = llc / llcs;
        Place {
            core: core as u16,
            llc: llc as u16,
            node: node as u16,
            package: (node / nodes) as u16,
        }
    });
    let cpus: Vec<Place> = places.collect();
    assert!(cpus.len() <= cmwq_vm::machine::MAX_CPUS && packages > 0);
    Machine {
        name: description(shape),
        cpus,
        costs,
        placement: Placement::default(),
    }
}

/// A whole program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where everything follows from, but the schedule.
    pub seed: u64,
    /// Which shape of [`SHAPES`].
    pub shape: usize,
    /// How often which fault happens.
    pub faults: Faults,
    /// CPUs may go and come back.
    pub cpus_change: bool,
    /// The process forks while the issuers go on.
    pub forks: bool,
    /// The process has a CPU quota, which changes, and the limit on running workers does.
    pub has_quota: bool,
    /// There is a queue with a bound on what waits.
    pub has_bounded: bool,
    /// How many issuers there are.
    pub issuers: usize,
    /// How many queues the issuers share.
    pub queues: usize,
    /// How long an idle worker that is one too many stays.
    pub idle_timeout_ms: u64,
    /// What the issuers do.
    pub ops: Vec<Op>,
    /// How weak the memory is, if it is.
    pub weak: Option<WeakMemory>,
    costs: Costs,
}

impl Program {
    /// The program of a seed, with faults of these kinds.
    #[must_use]
    pub fn new(seed: u64, allowed: FaultSet) -> Program {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d);
        // The smaller of two draws, most of the time.
        let draws = [random.below(16), random.below(16), random.below(16)];
        let shape = draws.iter().copied().min().unwrap_or(0) as usize;
        let cpus: usize = SHAPES[shape].iter().product();
        // The logarithm of a program's size is about uniform: many small ones take no longer than a
        // large one, and find more.
        let octave = random.below(7).min(random.below(8));
        let count = (4 << octave) + random.below(4 << octave);
        let issuers = match random.below(4) {
            0 => 1 + random.below(3),
            1 => cpus.min(8) as u64,
            _ => 2 + random.below(6),
        };
        let issuers = issuers.min(count / 2) as usize;
        let weights = draw_weights(&mut random);
        // Drawn whether it is allowed or not: the operations do not depend on the faults.
        let cpus_change = random.below(3) == 0 && allowed.has("cpus");
        let total: u64 = weights.iter().map(|(_, weight)| weight).sum::<u64>().max(1);
        let mut ops: Vec<Op> = (0..count as usize)
            .map(|number| Op {
                number,
                issuer: random.below(issuers as u64) as usize,
                kind: pick(&weights, random.below(total)),
                seed: random.bits(),
            })
            .collect();
        // Drawn apart: programs without a quota are what they were before there were quotas.
        let mut apart = Random::new(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x0915);
        let has_quota = apart.below(4) == 0 && allowed.has("quota");
        replace_some(&mut ops, || {
            (has_quota && apart.below(24) == 0).then_some(Kind::CpuLimit)
        });
        // Drawn apart, too.
        let mut apart = Random::new(seed.wrapping_mul(0xa076_1d64_78bd_642f) ^ 0xc8a5);
        let churns = apart.below(4) == 0;
        replace_some(&mut ops, || {
            (churns && apart.below(3) == 0).then_some(Kind::Churn)
        });
        // Of what is seldom drawn, several seldom meet: in some programs a few kinds are most of
        // the operations.
        let mut apart = Random::new(seed.wrapping_mul(0xe703_7ed1_a0b4_28db) ^ 0xf0c5);
        let favours = apart.below(4) == 0;
        let favoured: Vec<Kind> = (0..2 + apart.below(4))
            .map(|_| KINDS[apart.below(KINDS.len() as u64) as usize].0)
            .collect();
        replace_some(&mut ops, || {
            (favours && apart.below(3) > 0)
                .then(|| favoured[apart.below(favoured.len() as u64) as usize])
        });
        // Drawn apart, too.
        let mut apart = Random::new(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0xb0d0);
        let has_bounded = apart.below(8) == 0;
        replace_some(&mut ops, || {
            (has_bounded && apart.below(3) > 0).then_some(Kind::Bounded)
        });
        let mut faults = draw_faults(allowed, &mut random);
        if (churns || favours) && allowed.has("lag") {
            faults.lag_ppm = [0, 0, 50_000, 200_000][apart.below(4) as usize];
            faults.lag_ns = [0, 100_000, 300_000, 1_000_000][apart.below(4) as usize];
        }
        if allowed.has("steps") {
            draw_steps(seed, &mut faults);
        }
        let forks = random.below(16) == 0 && allowed.has("fork");
        // What a few operations do to many queues does not meet.
        let queues = 1 + random.below((2 + count / 16).min(8)) as usize;
        let idle_timeout_ms = [300_000, 5, 1][random.below(3) as usize];
        Program {
            seed,
            shape,
            faults,
            cpus_change,
            forks,
            has_quota,
            has_bounded,
            issuers,
            queues,
            idle_timeout_ms,
            ops,
            weak: allowed.has("weak").then(|| draw_weak(seed)),
            costs: draw_costs(&mut random),
        }
    }

    /// The machine that it runs on.
    #[must_use]
    pub fn machine(&self) -> Machine {
        machine(SHAPES[self.shape], self.costs.clone())
    }

    /// Whether work conservation can be expected: no CPU is taken away from what waits.
    #[must_use]
    pub fn conserves(&self) -> bool {
        !self.cpus_change
            && !self.has_quota
            && !self
                .ops
                .iter()
                .any(|op| matches!(op.kind, Kind::ChangeCpus))
    }
}

/// How often each kind is drawn: a program leaves out some, and has more of others.
fn draw_weights(random: &mut Random) -> [(Kind, u64); KINDS.len()] {
    let mut weights = KINDS;
    for (_, weight) in &mut weights {
        *weight = *weight * [0, 1, 1, 2, 4][random.below(5) as usize] / 2;
    }
    weights
}

/// Calls `other` for each operation, which becomes one of the kind that it returns.
fn replace_some(ops: &mut [Op], mut other: impl FnMut() -> Option<Kind>) {
    for op in ops {
        if let Some(kind) = other() {
            op.kind = kind;
        }
    }
}

/// Drawn apart. A memory whose stores are seen late by chance finds what needs two of them, one
/// with long times what needs other threads meanwhile.
pub(crate) fn draw_weak(seed: u64) -> WeakMemory {
    let mut apart = Random::new(seed.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ 0x3ea4);
    let mut one_of = |these: [u32; 4]| these[apart.below(4) as usize];
    WeakMemory {
        stale_ppm: one_of([20_000, 100_000, 300_000, 700_000]),
        early_ppm: one_of([0, 10_000, 100_000, 300_000]),
        spurious_ppm: one_of([0, 10_000, 100_000, 300_000]),
        late_ns: u64::from(one_of([5_000, 100_000, 1_000_000, 10_000_000])),
        seed: apart.bits(),
    }
}

/// Drawn apart, as all that came later.
fn draw_steps(seed: u64, faults: &mut Faults) {
    let mut apart = Random::new(seed.wrapping_mul(0x9fb2_1c65_1e98_df25) ^ 0x57e9);
    faults.step_ppm = [0, 0, 10_000, 50_000][apart.below(4) as usize];
    faults.step_ns = [10_000, 100_000, 300_000, 1_000_000][apart.below(4) as usize];
    faults.step_choice = apart.bits();
}

fn draw_faults(allowed: FaultSet, random: &mut Random) -> Faults {
    let mut faults = Faults::default();
    let mut draw = |name: &str, rates: [u32; 4]| {
        let rate = rates[random.below(4) as usize];
        if allowed.has(name) { rate } else { 0 }
    };
    faults.delay_ppm = draw("preempt", [0, 2_000, 20_000, 100_000]);
    faults.delay_ns = u64::from(draw("preempt", [300, 3_000, 30_000, 1_000_000]));
    faults.preempt_ppm = draw("preempt", [0, 1_000, 20_000, 100_000]);
    faults.stop_ppm = draw("stop", [0, 0, 5, 50]);
    faults.stop_ns = 1_000_000_000;
    faults.spurious_ppm = draw("wakeups", [0, 0, 20_000, 200_000]);
    faults.late_ppm = draw("wakeups", [0, 0, 20_000, 200_000]);
    faults.late_ns = u64::from(draw("wakeups", [1_000, 20_000, 1_000_000, 5_000_000]));
    faults.refuse_ppm = draw("threads", [0, 0, 300_000, 700_000]);
    faults.slow_ppm = draw("threads", [0, 0, 200_000, 800_000]);
    faults.slow_ns = u64::from(draw("threads", [10_000, 100_000, 1_000_000, 10_000_000]));
    faults.clock_ppm = draw("clock", [0, 0, 1_000, 20_000]);
    faults.clock_ns = u64::from(draw("clock", [1_000, 50_000, 1_000_000, 5_000_000]));
    faults
}

/// Costs of one of the presets, with more variation, since it is schedules that are explored.
fn draw_costs(random: &mut Random) -> Costs {
    let names = ["grace", "9d64", "two-vcpus"];
    let preset = preset(names[random.below(3) as usize]).expect("it is known");
    let mut costs = preset.machine().costs;
    costs.jitter_ppt = [0, 100, 500, 900][random.below(4) as usize];
    costs.between_ps = [1_000, 6_000, 40_000][random.below(3) as usize];
    // A spinning thread polls less often, and gives up sooner.
    costs.pause_ns *= [1, 40, 40, 40, 40, 40, 160, 160][random.below(8) as usize];
    costs
}

//! The options.

use super::machine;
use crate::Format;
use clap::{Args, ValueEnum};
use cmwq_command::whole;
use cmwq_loads::{Issuers, Load};
use cmwq_sim::cmwq::{Doing, topology};
use cmwq_sim::kernel::{Rows, WakeOrder};
use cmwq_sim::pods::Scope;
use cmwq_simulated::affinity::AffinityScope;
use cmwq_simulated::topology::Topology;
use cmwq_vm::machine::{Machine, Placement};
use std::path::PathBuf;

/// The shard size that the library takes unless it is told another.
pub(super) const DEFAULT_SIZE: usize = 8;

/// Shard sizes of a sweep, as far as a last-level cache has that many cores.
const SWEEP: [usize; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 64, 128];
/// What more items than these take is no more exact, and the virtual minute of a run would not do.
const MOST_ITEMS: usize = 1_000_000;
/// A second of virtual time.
const MOST_WINDOW_US: u64 = 1_000_000;
const MOST_SEEDS: u64 = 1000;
const MOST_JOBS: usize = 1024;
/// The published block loads, which are no load of real machines.
const BLOCKS: &str = "block-load";

#[derive(Args)]
pub(crate) struct Arguments {
    /// The machine to simulate: grace, 8321hc, 9d64, 3900x, d2191a, two-vcpus or 16-vcpus; a JSON
    /// file with name, synthetic and costs; or a copy of a machine's /sys
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "synthetic")]
    machine: Option<String>,
    /// The machine to simulate in hwloc's syntax, for example 'pack:1 l3:2 core:16 pu:2'; moving a
    /// cache line is assumed to cost what it costs in the presets
    #[arg(long, value_name = "TEXT")]
    synthetic: Option<String>,
    #[arg(long, value_delimiter = ',', value_name = "LIST", help = format!("Affinity scopes, of {} [default: all]", scopes().join(", ")))]
    scopes: Option<Vec<String>>,
    /// About how many cores make up a cache shard; several numbers give a row each [default: 8]
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "CORES",
        allow_hyphen_values = true
    )]
    shard_size: Option<Vec<String>>,
    /// What runs on the machine: the library itself (cmwq), a model of the kernel's workqueue for
    /// comparison (kernel), or both [default: cmwq; with --calibrate: kernel]
    #[arg(long, value_enum)]
    engine: Option<Engines>,
    /// With --engine kernel: when the thread that queues an item wakes a worker [default: under-lock]
    #[arg(long, value_enum)]
    wake: Option<Wake>,
    #[arg(long, alias = "loop", value_name = "NAME", default_value = "roundtrip", help = format!("The load, which says what the threads that queue items do: {}. NAME@ISSUERS also sets the number of these threads, NAME/US the time that an item computes. The kernel engine has roundtrip only", loads().join(", ")))]
    load: String,
    /// How long an item computes, in microseconds [default: what the load sets]
    #[arg(long, value_name = "US", value_parser = item_us)]
    item_us: Option<f64>,
    /// Where the machine's kernel puts a thread that wakes up
    #[arg(long, value_enum, value_name = "CPU")]
    pub(super) placement: Option<PlacementName>,
    /// Keep every item in the group of CPUs (pod) that it was queued from
    #[arg(long)]
    pub(super) strict: bool,
    /// Number of threads that queue items: a number, half (of the CPUs) or all [default: what the
    /// load sets; with --engine kernel: all]
    #[arg(long, value_name = "NUMBER", value_parser = issuers)]
    issuers: Option<Issuers>,
    /// How long the rate is measured each time, in simulated microseconds. A row ends when two such
    /// times agree within 5 %, and says so if none do [default: what the load needs, 2000 or more]
    #[arg(long, allow_hyphen_values = true, value_name = "US", value_parser = whole(1, MOST_WINDOW_US))]
    pub(super) window_us: Option<u64>,
    /// With --engine kernel: how many items each thread queues in the first run; the number is
    /// doubled until two runs agree [default: 200; with --published: 400]
    #[arg(long, allow_hyphen_values = true, value_parser = whole(1, MOST_ITEMS))]
    pub(super) items: Option<usize>,
    /// The seed of all random choices: the same seed gives the same result
    #[arg(long, default_value_t = 1, allow_hyphen_values = true, value_parser = whole(0, u64::MAX))]
    pub(super) seed: u64,
    /// Run each row with this many seeds, beginning with --seed, and print the mean rate
    #[arg(long, default_value_t = 3, allow_hyphen_values = true, value_parser = whole(1, MOST_SEEDS))]
    pub(super) seeds: u64,
    /// Number of processes that run at the same time, each simulating one row [default: the number
    /// of CPUs of this machine]
    #[arg(long, allow_hyphen_values = true, value_parser = whole(1, MOST_JOBS))]
    jobs: Option<usize>,
    /// Compare cache shards of many sizes, and say which size is best
    #[arg(long, conflicts_with_all = ["scopes", "shard_size"])]
    sweep: bool,
    /// Items per second that were measured with the kernel on that machine; the costs that the
    /// model of the kernel needs are chosen to match them
    #[arg(long, value_name = "cpu=X,cache=Y")]
    calibrate: Option<String>,
    /// Print every published measurement of the kernel beside the model's result, with the error of the ratio
    #[arg(long)]
    pub(super) published: bool,
    /// Run every load with every scope and shard size on every machine, and on half of it. The
    /// results are added to this file; those that it already has are not run again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["machine", "synthetic", "scopes", "shard_size", "engine", "sweep", "calibrate", "published", "issuers", "item_us"])]
    pub(super) matrix: Option<PathBuf>,
    /// With --matrix: the machines, as names or descriptions, separated by semicolons [default: all]
    #[arg(long, value_delimiter = ';', value_name = "LIST", requires = "matrix")]
    pub(super) machines: Option<Vec<String>>,
    /// With --matrix: the loads, each as NAME, NAME@ISSUERS, NAME/US or NAME@ISSUERS/US [default:
    /// those that programs have every day]
    #[arg(long, value_delimiter = ',', value_name = "LIST", requires = "matrix")]
    pub(super) loads: Option<Vec<String>>,
    /// With --matrix: begin no run after so many seconds, and show what is done by then; the same
    /// command goes on
    #[arg(long, value_name = "SECONDS", requires = "matrix")]
    pub(super) within: Option<u64>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Also write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Engines {
    Cmwq,
    Kernel,
    Both,
}

/// See [`WakeOrder`].
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Wake {
    /// While it holds the pool's lock, as kernels before 7.3
    UnderLock,
    /// After it has released the lock, as kernel 7.3 and later
    Deferred,
}

/// See [`Placement`].
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PlacementName {
    /// On an idle CPU under the same cache, if there is one, as stock kernels do
    Idle,
    /// On the CPU of the thread that wakes it, though others are idle
    Waker,
}

impl PlacementName {
    pub(super) fn placement(self) -> Placement {
        match self {
            PlacementName::Idle => Placement::IdleFirst,
            PlacementName::Waker => Placement::Waker,
        }
    }
}

pub(super) fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::IdleFirst => "idle",
        Placement::Waker => "waker",
    }
}

impl Wake {
    pub(super) fn name(self) -> &'static str {
        match self {
            Wake::UnderLock => "under-lock",
            Wake::Deferred => "deferred",
        }
    }

    pub(super) fn order(self) -> WakeOrder {
        match self {
            Wake::UnderLock => WakeOrder::UnderTheLock,
            Wake::Deferred => WakeOrder::AfterTheLock,
        }
    }
}

/// What is run.
pub(super) struct Plan {
    pub(super) machine: Machine,
    /// What the machine's description left open.
    pub(super) assumed: Vec<String>,
    topology: Topology,
    pub(super) engines: Engines,
    doing: Doing,
    strict: bool,
    window_ns: u64,
    pub(super) items: usize,
    pub(super) seed: u64,
    pub(super) seeds: u64,
    pub(super) jobs: usize,
    pub(super) is_sweep: bool,
    pub(super) calibrate: Rows,
    pub(super) wake: Wake,
    scopes: Vec<&'static str>,
    sizes: Vec<usize>,
}

/// The scopes in the order of the published rows: `cache_shard` before `cache`.
fn scopes() -> Vec<&'static str> {
    let mut order = AffinityScope::CONCRETE;
    order.sort_by_key(|scope| match scope {
        AffinityScope::Cache => (AffinityScope::CacheShard, true),
        scope => (*scope, false),
    });
    order.map(AffinityScope::name).into()
}

/// One row to be.
pub(super) struct Wanted {
    pub(super) is_kernel: bool,
    pub(super) scope: &'static str,
    pub(super) shard_size: usize,
}

impl Wanted {
    pub(super) fn label(&self) -> String {
        let engine = if self.is_kernel { "kernel" } else { "cmwq" };
        format!("{engine} {} {}", self.scope, self.shard_size)
    }
}

impl Arguments {
    /// Runs at a time.
    pub(super) fn jobs(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cpus)
    }

    pub(super) fn refuse_beside_published(&self) -> Result<(), String> {
        let others = [
            ("--machine", self.machine.is_some()),
            ("--synthetic", self.synthetic.is_some()),
            ("--scopes", self.scopes.is_some()),
            ("--shard-size", self.shard_size.is_some()),
            ("--engine", self.engine.is_some()),
            ("--wake", self.wake.is_some()),
            ("--strict", self.strict),
            ("--load", self.load != "roundtrip"),
            ("--item-us", self.item_us.is_some()),
            ("--placement", self.placement.is_some()),
            ("--window-us", self.window_us.is_some()),
            ("--issuers", self.issuers.is_some()),
            ("--sweep", self.sweep),
            ("--calibrate", self.calibrate.is_some()),
            ("--html", self.html.is_some()),
        ];
        if let Some((option, _)) = others.iter().find(|(_, given)| *given) {
            return Err(format!(
                "{option} beside --published: that has machines and scopes of its own; allowed are --items, --seed, --format"
            ));
        }
        Ok(())
    }
}

impl Plan {
    pub(super) fn new(arguments: &Arguments) -> Result<Plan, String> {
        let described = match (&arguments.machine, &arguments.synthetic) {
            (_, Some(text)) => machine::synthetic(text)?,
            (name, None) => machine::named(name.as_deref().unwrap_or("grace"))?,
        };
        let mut machine = described.machine;
        if let Some(placement) = arguments.placement {
            machine.placement = placement.placement();
        }
        let doing = doing(arguments, machine.cpus.len())?;
        let calibrate = calibration(arguments.calibrate.as_deref())?;
        let is_calibrated = calibrate != Rows::default();
        let default = if is_calibrated {
            Engines::Kernel
        } else {
            Engines::Cmwq
        };
        let engines = arguments.engine.unwrap_or(default);
        if is_calibrated && engines == Engines::Cmwq {
            return Err("--calibrate beside --engine cmwq: rows of the kernel fit the kernel engine; allowed are kernel and both".into());
        }
        if engines == Engines::Cmwq
            && let Some(wake) = arguments.wake
        {
            return Err(format!(
                "--wake {} with the cmwq engine, which always wakes after the lock; it needs --engine kernel or both",
                wake.name()
            ));
        }
        if engines != Engines::Cmwq {
            if arguments.strict {
                return Err("--strict with the kernel engine, whose workers have no items of other pods; it needs --engine cmwq".into());
            }
            if arguments.load != "roundtrip" {
                return Err(format!(
                    "--load {} with the kernel engine: it has roundtrip only; others need --engine cmwq",
                    arguments.load
                ));
            }
            if arguments
                .issuers
                .is_some_and(|issuers| issuers != Issuers::All)
            {
                return Err("--issuers with the kernel engine: it always has one on each CPU; others need --engine cmwq".into());
            }
        }
        let cores = cores_of_a_cache(&machine);
        let sizes = match (&arguments.shard_size, arguments.sweep) {
            (Some(texts), _) => texts
                .iter()
                .map(|text| shard_size(text))
                .collect::<Result<_, _>>()?,
            (None, true) => SWEEP.into_iter().filter(|&size| size <= cores).collect(),
            (None, false) => vec![8],
        };
        let scopes = match &arguments.scopes {
            Some(names) if *names != ["all"] => names
                .iter()
                .map(|name| scope(name))
                .collect::<Result<_, _>>()?,
            None if arguments.sweep => vec!["cache_shard"],
            _ => scopes(),
        };
        Ok(Plan {
            engines,
            doing,
            strict: arguments.strict,
            window_ns: arguments.window_us.map_or(0, |us| us * 1000),
            seeds: arguments.seeds,
            jobs: arguments.jobs(),
            items: arguments.items.unwrap_or(200),
            seed: arguments.seed,
            is_sweep: arguments.sweep,
            calibrate,
            wake: arguments.wake.unwrap_or(Wake::UnderLock),
            scopes,
            sizes,
            topology: topology(&machine).map_err(|failed| failed.to_string())?,
            machine,
            assumed: described.assumed,
        })
    }

    pub(super) fn load_name(&self) -> String {
        match &self.doing {
            Doing::Load(load) => load.name.to_owned(),
            Doing::Blocks(_) => BLOCKS.to_owned(),
        }
    }

    pub(super) fn issuers(&self) -> usize {
        match &self.doing {
            Doing::Load(load) => load.issuers.on(self.machine.cpus.len()),
            Doing::Blocks(issuers) => *issuers,
        }
    }

    /// A run of the library.
    pub(super) fn of_cmwq(&self, row: &Wanted, seed: u64) -> Result<cmwq_sim::cmwq::Plan, String> {
        let scope = row.scope.parse();
        Ok(cmwq_sim::cmwq::Plan {
            machine: self.machine.clone(),
            topology: self.topology.clone(),
            scope: scope.map_err(|_| format!("no scope {:?}", row.scope))?,
            shard_size: row.shard_size,
            strict: self.strict,
            doing: self.doing.clone(),
            window_ns: self.window_ns,
            seed,
            probe_ns: 0,
        })
    }

    /// In order. The shard size matters to one scope only.
    pub(super) fn rows(&self) -> Vec<Wanted> {
        let engines = match self.engines {
            Engines::Cmwq => [false].as_slice(),
            Engines::Kernel => &[true],
            Engines::Both => &[false, true],
        };
        let mut rows = Vec::new();
        for &is_kernel in engines {
            for &scope in &self.scopes {
                // The kernel engine has pods of its own, and not for every scope.
                if is_kernel && Scope::parse(scope, 1).is_none() {
                    continue;
                }
                let sizes = if scope == "cache_shard" {
                    &self.sizes
                } else {
                    &self.sizes[..1]
                };
                rows.extend(sizes.iter().map(|&shard_size| Wanted {
                    is_kernel,
                    scope,
                    shard_size,
                }));
            }
        }
        rows
    }
}

fn doing(arguments: &Arguments, cpus: usize) -> Result<Doing, String> {
    let name = arguments.load.as_str();
    if name == BLOCKS {
        if arguments.item_us.is_some() {
            return Err(format!(
                "--item-us with --load {BLOCKS}: its items take as long as the published ones"
            ));
        }
        let issuers = arguments.issuers.unwrap_or(Issuers::All);
        return Ok(Doing::Blocks(issuers.on(cpus)));
    }
    let mut load = load(name).map_err(|error| format!("--load: {error}"))?;
    if let Some(us) = arguments.item_us {
        load.item_ns = (us * 1000.0).round() as u64;
    }
    if let Some(issuers) = arguments.issuers {
        load.issuers = issuers;
    }
    Ok(Doing::Load(load))
}

/// All that `--load` may be.
fn loads() -> Vec<&'static str> {
    let names = Load::all().iter().map(|load| load.name);
    names.chain([BLOCKS]).collect()
}

/// `NAME`, `NAME@ISSUERS`, `NAME/US`, or `NAME@ISSUERS/US`.
pub(super) fn load(text: &str) -> Result<Load, String> {
    let (rest, us) = text
        .split_once('/')
        .map_or((text, None), |(rest, us)| (rest, Some(us)));
    let (name, number) = rest
        .split_once('@')
        .map_or((rest, None), |(name, n)| (name, Some(n)));
    let mut load = Load::named(name)
        .ok_or_else(|| format!("no load {name:?}: it must be of {}", loads().join(", ")))?;
    if let Some(us) = us {
        load.item_ns = (item_us(us).map_err(|e| format!("{text:?}: {e}"))? * 1000.0).round() as u64;
    }
    if let Some(number) = number {
        load.issuers = issuers(number).map_err(|error| format!("{text:?}: {error}"))?;
    }
    Ok(load)
}

fn issuers(text: &str) -> Result<Issuers, String> {
    Issuers::parse(text).ok_or_else(|| "it must be a number from 1 to 8192, half or all".to_owned())
}

fn item_us(text: &str) -> Result<f64, String> {
    let us: Option<f64> = text.parse().ok();
    let us = us.filter(|us| (0.0..=1e6).contains(us));
    us.ok_or_else(|| "it must be a number of microseconds from 0 to 1000000".to_owned())
}

/// Of the largest last-level cache.
pub(super) fn cores_of_a_cache(machine: &Machine) -> usize {
    let count = |llc: u16| {
        let cpus = machine.cpus.iter().filter(|place| place.llc == llc);
        let cores: std::collections::BTreeSet<u16> = cpus.map(|place| place.core).collect();
        cores.len()
    };
    machine
        .cpus
        .iter()
        .map(|place| count(place.llc))
        .max()
        .unwrap_or(1)
}

fn scope(name: &str) -> Result<&'static str, String> {
    let found = scopes().into_iter().find(|&scope| scope == name);
    found.ok_or_else(|| {
        format!(
            "--scopes: no scope {name:?}: it must be of {}",
            scopes().join(", ")
        )
    })
}

fn shard_size(text: &str) -> Result<usize, String> {
    let size: Option<usize> = text.parse().ok();
    size.filter(|size| (1..=u32::MAX as usize).contains(size)).ok_or_else(|| {
        format!("--shard-size: {text:?} is not a shard size: it must be a whole number of cores from 1 to {}", u32::MAX)
    })
}

fn calibration(text: Option<&str>) -> Result<Rows, String> {
    let mut rows = Rows::default();
    for part in text.into_iter().flat_map(|text| text.split(',')) {
        let refused = || {
            format!(
                "--calibrate: {part:?} is no row: allowed are cpu=ITEMS_PER_S and cache=ITEMS_PER_S, each once and above 0"
            )
        };
        let (scope, rate) = part.split_once('=').ok_or_else(refused)?;
        let rate: Option<f64> = rate.parse().ok();
        let rate = rate
            .filter(|rate| rate.is_finite() && *rate > 0.0)
            .ok_or_else(refused)?;
        let row = match scope {
            "cpu" => &mut rows.cpu,
            "cache" => &mut rows.cache,
            _ => return Err(refused()),
        };
        if row.replace(rate).is_some() {
            return Err(refused());
        }
    }
    Ok(rows)
}

//! The loads of every day, and the loops `roundtrip`, `flood`, `window` and `epoll`: `cmwq_loads`
//! defines and drives them, for cmwq's own benchmark and its simulator too.
//!
//! | mode | how an issuer learns that its items have run |
//! |---|---|
//! | `completion`, `park`, `channel`, `count`, `eventfd` | the last item of a round, or the first that finds none marked, wakes the issuer |
//! | `join` | handles, joined one after the other |
//! | `future` | handles that are futures, awaited one after the other |
//! | `scope` | the end of a scope |

use crate::job::{Job, Joining, Pool};
use crate::machine::peak_memory_kib;
use crate::options::Options;
use crate::report::Report;
use cmwq_loads::real::{Park, Threads};
use cmwq_loads::watch::{Placed, Watch};
use cmwq_loads::{Bell, Found, Issuers, Latency, Load, Machine, Shape, Span};
use std::sync::Arc;

/// The modes of a peer.
pub(crate) struct Everyday {
    /// In rounds whose items are joined.
    pub(crate) joins: &'static [&'static str],
    /// In rounds behind one wake-up.
    pub(crate) bursts: &'static [&'static str],
    /// Where items come and go one by one.
    pub(crate) flows: &'static [&'static str],
}

impl Everyday {
    /// Of a peer that does not take part.
    pub(crate) const NONE: Everyday = Everyday {
        joins: &[],
        bursts: &[],
        flows: &[],
    };

    /// Loads and modes.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        Load::everyday().flat_map(|load| {
            let modes = match load.shape {
                Shape::Gather { joins: true, .. } => self.joins,
                Shape::Gather { .. } => self.bursts,
                Shape::Flow { .. } | Shape::Arrive { .. } => self.flows,
            };
            modes.iter().map(|mode| (load.name, *mode))
        })
    }
}

/// A pool whose items carry no handle.
struct Counted<P>(P);

impl<P: Pool + Send + Sync + 'static> cmwq_loads::Pool for Counted<P>
where
    P::Item: Sync + 'static,
{
    type Item = P::Item;

    fn item(&self, job: Job) -> P::Item {
        self.0.item(job)
    }

    fn submit(&self, item: &P::Item) {
        self.0.submit(item);
    }
}

/// A pool that waits for the items of a round by its own means.
pub(crate) trait Gathering: Send + Sync + 'static {
    fn gather(&self, jobs: &[Job]);
}

struct Gathered<P>(P);

impl<P: Gathering> cmwq_loads::Pool for Gathered<P> {
    const ONLY_GATHERS: bool = true;
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, _: &Job) {
        unreachable!("its items are queued by gather only");
    }

    fn gather(&self, jobs: &[Job]) -> bool {
        self.0.gather(jobs);
        true
    }
}

/// Handles that are joined one after the other.
pub(crate) struct Joined<P>(pub(crate) P);

impl<P: Joining + Send + Sync + 'static> Gathering for Joined<P> {
    fn gather(&self, jobs: &[Job]) {
        // A round trip needs no list.
        if let &[job] = jobs {
            return self.0.join(self.0.spawn(job));
        }
        let handles: Vec<P::Handle> = jobs.iter().map(|&job| self.0.spawn(job)).collect();
        handles.into_iter().for_each(|handle| self.0.join(handle));
    }
}

/// Runs a load on a pool; the issuer waits by such a bell.
pub(crate) fn counted_by<B: Bell, P>(pool: P, options: &Options) -> Result<Report, String>
where
    P: Pool + Send + Sync + 'static,
    P::Item: Sync + 'static,
{
    run::<B, _>(Counted(pool), options)
}

/// Runs a load whose rounds end by the pool's own means.
pub(crate) fn gathered<P: Gathering>(pool: P, options: &Options) -> Result<Report, String> {
    if !matches!(load(options)?.shape, Shape::Gather { .. }) {
        return Err(options.unknown());
    }
    run::<Park, _>(Gathered(pool), options)
}

/// How long an item of the calibrated spin computes, in microseconds.
const SPIN_US: f64 = 20.0;

fn run<B: Bell, P: cmwq_loads::Pool>(pool: P, options: &Options) -> Result<Report, String> {
    let load = load(options)?;
    let span = Span {
        warm_up_ns: options.warmup.as_nanos() as u64,
        most_windows: 4,
        ..Span::of(options.time.as_nanos() as u64)
    };
    let mut machine = Threads::<B>::new(options.spin as f64 / SPIN_US);
    let watch = options.watch.then(Watch::default);
    if let Some(watch) = &watch {
        machine = machine.watched_by(watch.clone());
    }
    let found = cmwq_loads::run(&machine, &Arc::new(pool), &load, span)?;
    let ended_ns = machine.now_ns();
    let report = report(&options.lap, &found);
    Ok(match watch {
        // Items that ran in the last two windows, and those that were to be waited for.
        Some(watch) => {
            let placed_at = watch.placed(ended_ns - found.measured_ns);
            let report = placed(report, &placed_at);
            report.number("ideal_ns", ideal_ns(&load, machine.cpus()))
        }
        None => report,
    })
}

/// The load as it was asked for.
fn load(options: &Options) -> Result<Load, String> {
    let name = match options.lap.as_str() {
        // Its issuers wait in an event loop.
        "epoll" => "window",
        lap => lap,
    };
    let mut load = Load::named(name).ok_or("it is no load")?;
    let is_loop = !Load::everyday().any(|load| load.name == name);
    if is_loop || options.issuers_set {
        load.issuers = Issuers::Number(options.issuers);
    }
    load.item_ns = options.item_ns.unwrap_or(load.item_ns);
    if let ("flood", Shape::Gather { items, .. }) = (name, &mut load.shape) {
        *items = (options.items / options.issuers).max(1) as u32;
    }
    Ok(load)
}

/// How long a round would take if the CPUs did nothing but its items; 0: there are no rounds.
fn ideal_ns(load: &Load, cpus: usize) -> f64 {
    match load.shape {
        Shape::Gather { items, .. } => {
            load.mean_ns() * f64::from(items) / (items as usize).min(cpus) as f64
        }
        Shape::Flow { .. } | Shape::Arrive { .. } => 0.0,
    }
}

fn placed(report: Report, placed: &Placed) -> Report {
    let shares: Vec<String> = placed.shares.iter().map(percent_of).collect();
    report
        .number("cpus_at_once", placed.cpus_at_once)
        .number("by_issuers", placed.by_issuers)
        .number("ran_on", placed.threads as f64)
        .text("by_cpu", &shares.join(" "))
}

fn percent_of(&(cpu, share): &(usize, f64)) -> String {
    format!("{cpu}:{:.0}%", share * 100.0)
}

fn report(lap: &str, found: &Found) -> Report {
    let cpu_s = found.cpu_ns_per_item * found.items as f64 / 1e9;
    let report = Report::new()
        .number("items", found.items as f64)
        .number("seconds", found.measured_ns as f64 / 1e9)
        .number("cpu_s", cpu_s)
        .number("wakeups_per_item", found.wakeups_per_item)
        .number("switches_per_item", found.switches_per_item)
        .number("threads", found.peak_threads as f64)
        .number("held_back", found.held_back as f64)
        .number("windows", found.window_rates.len() as f64)
        .number("steady", f64::from(u8::from(found.is_steady)));
    let times = match lap {
        "roundtrip" => [("enqueue", found.queue), ("latency", found.done)],
        "flood" => [("enqueue", found.queue), ("done", found.done)],
        "window" | "epoll" => [("latency", found.ended), ("told", found.done)],
        _ => [("start", found.start), ("done", found.done)],
    };
    let report = times
        .into_iter()
        .fold(report, |report, (key, found)| latency(report, key, found));
    match lap {
        "flood" => report.number("peak_kib", peak_memory_kib() as f64),
        _ => report,
    }
}

fn latency(report: Report, key: &str, found: Latency) -> Report {
    if found.count == 0 {
        return report;
    }
    report
        .number(&format!("{key}_p50_ns"), found.p50_ns as f64)
        .number(&format!("{key}_p95_ns"), found.p95_ns as f64)
        .number(&format!("{key}_p99_ns"), found.p99_ns as f64)
        .number(&format!("{key}_p999_ns"), found.p999_ns as f64)
}

//! Carries out a load: starts the issuers, cuts the time into windows, adds up.

use crate::issuer::{Control, STOPPED, Tally, Times};
use crate::meet::Meet;
use crate::{Alone, Bell, Found, Latency, Load, Machine, Place, Pool, Shape, Usage};
use crate::{arrive, flow, gather};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How long a run takes.
///
/// ```
/// use cmwq_loads::Span;
///
/// let second = Span::of(1_000_000_000);
/// assert_eq!(second.window_ns, 500_000_000); // two windows are measured
/// let stricter = Span { tolerance_percent: 2, ..second };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Before the first window.
    pub warm_up_ns: u64,
    /// The length of a time window. The figures are of two.
    pub window_ns: u64,
    /// The run ends after so many windows, even if it is not steady; at least 2.
    pub most_windows: u32,
    /// By so many percent the rates of two windows may differ that agree.
    pub tolerance_percent: u32,
}

impl Span {
    /// The usual one of a real machine: two windows that together take `measured_ns`, and at most
    /// four times that.
    #[must_use]
    pub fn of(measured_ns: u64) -> Span {
        Span {
            warm_up_ns: measured_ns / 4,
            window_ns: measured_ns / 2,
            most_windows: 8,
            tolerance_percent: 10,
        }
    }
}

/// How often the number of threads is looked at.
const LOOK_EVERY_NS: u64 = 20_000_000;
/// How long a thread that only computes does so between two looks.
const HOG_NS: u64 = 50_000;

/// What an issuer is given.
pub(crate) struct Issuing<M: Machine, P: Pool> {
    pub(crate) machine: M,
    pub(crate) pool: Arc<P>,
    pub(crate) load: Load,
    pub(crate) control: Arc<Control>,
    /// If they begin their rounds together.
    pub(crate) meet: Option<Arc<Meet<M::Bell>>>,
    /// Its number, and how many there are.
    pub(crate) number: usize,
    pub(crate) issuers: usize,
    pub(crate) began_ns: u64,
}

impl<M: Machine, P: Pool> Issuing<M, P> {
    /// In a load that moves: when the time ends for which this issuer has nothing to do.
    pub(crate) fn rests_until(&self) -> Option<u64> {
        let length = self.load.moving_ns;
        if length == 0 || self.number == 0 {
            return None;
        }
        let since = self.machine.now_ns() - self.began_ns;
        let rests = (since / length) % 2 == 1;
        rests.then(|| self.began_ns + (since / length + 1) * length)
    }

    /// Sleeps until then, if that is still to come.
    pub(crate) fn sleep_until(&self, ns: u64) {
        let now = self.machine.now_ns();
        if now < ns {
            self.machine.sleep(ns - now);
        }
    }
}

/// Threads that compute on each CPU.
struct Hogs {
    stop: AtomicBool,
    /// CPU time of each.
    cpu_ns: Vec<Alone<AtomicU64>>,
}

/// The state at the end of a window.
#[derive(Clone, Copy)]
struct Mark {
    ns: u64,
    items: u64,
    usage: Usage,
    hogs_ns: u64,
}

/// What all threads of a load share.
struct Shared<M: Machine> {
    control: Arc<Control>,
    hogs: Hogs,
    tallies: Mutex<Vec<Tally>>,
    /// Threads that have not ended.
    running: AtomicUsize,
    all_ended: M::Bell,
}

impl<M: Machine> Shared<M> {
    fn end(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_ended.ring();
        }
    }

    fn mark(&self, machine: &M) -> Mark {
        let hogs = &self.hogs.cpu_ns;
        Mark {
            ns: machine.now_ns(),
            items: self.control.total(),
            usage: machine.usage(),
            hogs_ns: hogs.iter().map(|ns| ns.0.load(Ordering::Relaxed)).sum(),
        }
    }
}

/// Carries out the load on the pool. The calling thread measures.
///
/// # Errors
/// An item ran twice or was lost.
pub fn run<M: Machine, P: Pool>(
    machine: &M,
    pool: &Arc<P>,
    load: &Load,
    span: Span,
) -> Result<Found, String> {
    let cpus = machine.cpus();
    let issuers = load.issuers.on(cpus);
    let hogs = if load.hogs { cpus } else { 0 };
    let shared = Arc::new(Shared::<M> {
        control: Arc::new(Control::new(issuers)),
        hogs: Hogs {
            stop: AtomicBool::new(false),
            cpu_ns: (0..hogs).map(|_| Alone::default()).collect(),
        },
        tallies: Mutex::default(),
        running: AtomicUsize::new(issuers + hogs),
        all_ended: M::Bell::new(),
    });
    shared.all_ended.adopt();
    for number in 0..hogs {
        let (machine, shared) = (machine.clone(), shared.clone());
        let name = format!("hog{number}");
        machine.clone().start(
            &name,
            Some(number),
            Box::new(move || hog(&machine, &shared, number)),
        );
    }
    let meet = load.together.then(|| Arc::new(Meet::new(issuers)));
    let began_ns = machine.now_ns();
    for number in 0..issuers {
        let issuing = Issuing {
            machine: machine.clone(),
            pool: pool.clone(),
            load: load.clone(),
            control: shared.control.clone(),
            meet: meet.clone(),
            number,
            issuers,
            began_ns,
        };
        let shared = shared.clone();
        let cpu = match load.place {
            Place::Spread => Some(number % cpus),
            Place::OneCpu => Some(0),
            Place::Free => None,
        };
        let main = move || {
            let tally = match issuing.load.shape {
                Shape::Gather { .. } => gather::issue(&issuing),
                Shape::Flow { .. } => flow::issue(&issuing),
                Shape::Arrive { .. } => arrive::issue(&issuing),
            };
            let mut tallies = shared
                .tallies
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            tallies.push(tally);
            drop(tallies);
            drop(issuing);
            shared.end();
        };
        machine.start(&format!("issuer{number}"), cpu, Box::new(main));
    }
    let asked = match load.shape {
        Shape::Arrive { rate } => Some(1e9 / arrive::mean_gap_ns(load, rate, cpus)),
        _ => None,
    };
    let watched = watch(machine, &shared, span, asked);
    shared.control.window.0.store(STOPPED, Ordering::Relaxed);
    shared.hogs.stop.store(true, Ordering::Relaxed);
    while shared.running.load(Ordering::Acquire) > 0 {
        shared.all_ended.wait();
    }
    let tallies = shared
        .tallies
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    found(&tallies, &watched)
}

fn hog<M: Machine>(machine: &M, shared: &Shared<M>, number: usize) {
    while !shared.hogs.stop.load(Ordering::Relaxed) {
        machine.compute(HOG_NS);
        let ns = machine.own_cpu_ns();
        shared.hogs.cpu_ns[number].0.store(ns, Ordering::Relaxed);
    }
    shared.end();
}

/// What the measuring thread saw.
struct Watched {
    /// At the begin of the first window, and at the end of each.
    marks: Vec<Mark>,
    rates: Vec<f64>,
    is_steady: bool,
    peak_threads: usize,
}

/// Lets the windows pass until two agree.
fn watch<M: Machine>(machine: &M, shared: &Shared<M>, span: Span, asked: Option<f64>) -> Watched {
    machine.sleep(span.warm_up_ns);
    let mut watched = Watched {
        marks: vec![shared.mark(machine)],
        rates: Vec::new(),
        is_steady: false,
        peak_threads: 0,
    };
    for window in 1..=span.most_windows.max(2) {
        shared.control.window.0.store(window, Ordering::Relaxed);
        let end_ns = machine.now_ns() + span.window_ns;
        loop {
            watched.peak_threads = watched.peak_threads.max(machine.threads());
            let now = machine.now_ns();
            if now >= end_ns {
                break;
            }
            machine.sleep((end_ns - now).min(LOOK_EVERY_NS));
        }
        let (before, mark) = (watched.marks[window as usize - 1], shared.mark(machine));
        watched.marks.push(mark);
        let ns = (mark.ns - before.ns).max(1);
        watched
            .rates
            .push((mark.items - before.items) as f64 * 1e9 / ns as f64);
        watched.is_steady = is_steady(&watched.rates, asked, span.tolerance_percent);
        if watched.is_steady {
            break;
        }
    }
    watched
}

/// Whether the last two rates agree, with each other and with the rate that was asked for, if one
/// was.
fn is_steady(rates: &[f64], asked: Option<f64>, tolerance_percent: u32) -> bool {
    let agree = |one: f64, other: f64| {
        let tolerance = one.max(other) * f64::from(tolerance_percent) / 100.0;
        one.min(other) > 0.0 && (one - other).abs() <= tolerance
    };
    let [.., one, other] = *rates else {
        return false;
    };
    agree(one, other) && asked.is_none_or(|asked| agree(f64::midpoint(one, other), asked))
}

/// The figures of the last two windows.
fn found(tallies: &[Tally], watched: &Watched) -> Result<Found, String> {
    if let Some(wrong) = tallies.iter().find_map(|tally| tally.wrong.clone()) {
        return Err(wrong);
    }
    let last = watched.marks.len() - 1;
    let (from, to) = (watched.marks[last - 2], watched.marks[last]);
    let mut times = Times::new();
    for tally in tallies {
        for window in [last - 1, last] {
            if let Some(of_window) = tally.of_window(window) {
                times.add_all(of_window);
            }
        }
    }
    let items = to.items - from.items;
    let per_item = |to: u64, from: u64| to.saturating_sub(from) as f64 / items.max(1) as f64;
    let hogs_ns = to.hogs_ns - from.hogs_ns;
    Ok(Found {
        items_per_s: items as f64 * 1e9 / (to.ns - from.ns).max(1) as f64,
        window_rates: watched.rates.clone(),
        is_steady: watched.is_steady,
        measured_ns: to.ns - from.ns,
        items,
        start: Latency::of(&times.start),
        done: Latency::of(&times.done),
        ended: Latency::of(&times.ended),
        queue: Latency::of(&times.queue),
        cpu_ns_per_item: per_item(to.usage.cpu_ns.saturating_sub(hogs_ns), from.usage.cpu_ns),
        wakeups_per_item: per_item(to.usage.sleeps, from.usage.sleeps),
        switches_per_item: per_item(to.usage.switches, from.usage.switches),
        peak_threads: watched.peak_threads,
        held_back: tallies.iter().map(|tally| tally.held_back).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::is_steady;

    #[test]
    fn a_run_is_steady_when_its_last_two_windows_agree_with_each_other_and_with_what_was_asked_for()
    {
        assert!(is_steady(&[50.0, 100.0, 95.0], None, 10));
        assert!(!is_steady(&[100.0, 100.0, 80.0], None, 10));
        assert!(!is_steady(&[100.0], None, 10));
        assert!(!is_steady(&[0.0, 0.0], None, 10));
        assert!(is_steady(&[100.0, 100.0], Some(104.0), 10));
        // The pool cannot bear what comes: a backlog grows.
        assert!(!is_steady(&[100.0, 100.0], Some(120.0), 10));
    }
}

//! The driver on pools that are as they should be, and on pools that are not.
#![cfg(feature = "real")]

use cmwq_loads::real::{Park, Threads};
use cmwq_loads::{Found, Issuers, Job, Load, Mix, Pause, Pool, Shape, Span, run};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// So short that a test of all loads takes a second or two.
const SPAN: Span = Span {
    warm_up_ns: 1_000_000,
    window_ns: 10_000_000,
    most_windows: 2,
    tolerance_percent: 10,
};

/// On a machine that others use, the threads of a load may have no CPU in all of these windows.
/// Then longer ones are measured.
fn in_some_span<T>(mut measure: impl FnMut(Span) -> Result<T, String>) -> T {
    let mut span = SPAN;
    loop {
        match measure(span) {
            Ok(measured) => return measured,
            Err(why) => assert!(span.window_ns < 1_000_000_000, "{why}"),
        }
        span.window_ns *= 4;
    }
}

/// Few steps for a microsecond: items are shorter than they say.
fn machine() -> Threads<Park> {
    Threads::new(5.0)
}

/// Two threads that receive jobs; they end with the pool.
struct Channel(Mutex<Sender<Job>>);

impl Channel {
    fn new() -> Arc<Channel> {
        let (sender, receiver) = channel();
        let receiver: Arc<Mutex<Receiver<Job>>> = Arc::new(Mutex::new(receiver));
        for _ in 0..2 {
            let receiver = receiver.clone();
            let next = move || receiver.lock().unwrap().recv();
            thread::spawn(move || {
                while let Ok(job) = next() {
                    job.run();
                }
            });
        }
        Arc::new(Channel(Mutex::new(sender)))
    }
}

impl Pool for Channel {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        self.0.lock().unwrap().send(*job).unwrap();
    }
}

/// Runs items at once, so many times each.
struct Inline(usize);

impl Pool for Inline {
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, job: &Job) {
        (0..self.0).for_each(|_| job.run());
    }
}

/// The same by its own means.
struct Gathers(usize);

impl Pool for Gathers {
    const ONLY_GATHERS: bool = true;
    type Item = Job;

    fn item(&self, job: Job) -> Job {
        job
    }

    fn submit(&self, _: &Job) {
        panic!("it only gathers");
    }

    fn gather(&self, jobs: &[Job]) -> bool {
        for _ in 0..self.0 {
            jobs.iter().for_each(|job| job.run());
        }
        true
    }
}

fn gathers() -> impl Iterator<Item = Load> {
    let is_gather = |load: &&Load| matches!(load.shape, Shape::Gather { .. });
    Load::all().iter().filter(is_gather).cloned()
}

fn check(load: &Load, found: &Found) {
    let name = load.name;
    assert!(found.items > 0 && found.items_per_s > 0.0, "{name}");
    assert!(found.start.count > 0 && found.done.count > 0, "{name}");
    assert!(found.start.p50_ns <= found.start.p99_ns, "{name}");
    assert!(found.start.p99_ns <= found.start.p999_ns, "{name}");
    assert_eq!(found.window_rates.len(), 2, "{name}");
    assert!(found.measured_ns >= 2 * SPAN.window_ns, "{name}");
    assert!(found.cpu_ns_per_item > 0.0, "{name}");
    // The one that measures, the workers, and the issuers of those loads that have one.
    assert!(found.peak_threads >= 2, "{name}");
}

fn is_measured<P: Pool>(pool: impl Fn() -> Arc<P>, load: &Load) {
    let found = in_some_span(|span| {
        let found = run(&machine(), &pool(), load, span);
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", load.name));
        match found.items > 0 && found.start.count > 0 && found.done.count > 0 {
            true => Ok(found),
            false => Err(format!("{}: no item was measured", load.name)),
        }
    });
    check(load, &found);
}

#[test]
fn every_load_runs_on_a_pool_that_is_as_it_should_be() {
    Load::all()
        .iter()
        .for_each(|load| is_measured(Channel::new, load));
    gathers().for_each(|load| is_measured(|| Arc::new(Gathers(1)), &load));
}

fn is_refused<P: Pool>(pool: impl Fn() -> Arc<P>, load: &Load) {
    in_some_span(|span| match run(&machine(), &pool(), load, span) {
        Ok(_) => Err(format!("{}: nothing was noticed", load.name)),
        Err(_) => Ok(()),
    });
}

#[test]
fn a_pool_that_runs_items_twice_fails_in_every_load() {
    Load::all()
        .iter()
        .for_each(|load| is_refused(|| Arc::new(Inline(2)), load));
    gathers().for_each(|load| is_refused(|| Arc::new(Gathers(2)), &load));
}

#[test]
fn a_pool_that_loses_items_fails() {
    gathers().for_each(|load| is_refused(|| Arc::new(Gathers(0)), &load));
}

/// Each of the 4,096 items sleeps for 100 µs on one of two threads: a round takes 0.2 s at least, ten
/// times the two windows.
#[test]
fn items_of_a_round_that_is_longer_than_the_windows_count_as_they_run() {
    let mut load = Load::named("flood").unwrap();
    let (items, pause, joins) = (4096, Pause::None, false);
    load.shape = Shape::Gather {
        items,
        pause,
        joins,
    };
    load.mix = Mix::Sleeps {
        one_in: 1,
        ns: 100_000,
    };
    load.issuers = Issuers::Number(1);
    let found = run(&machine(), &Channel::new(), &load, SPAN).expect("it is right");
    assert!(found.items > 0, "{found:?}");
    // No round has ended, and one of the windows may have had no CPU.
    assert!(found.items < items.into(), "{found:?}");
    assert!(
        found.window_rates.iter().any(|&rate| rate > 0.0),
        "{found:?}"
    );
}

#[test]
fn names_are_unique_and_found_and_numbers_of_issuers_are_read() {
    for load in Load::all() {
        assert_eq!(Load::named(load.name).as_ref(), Some(load));
    }
    assert_eq!(Load::named("nothing"), None);
    assert_eq!(Issuers::parse("4"), Some(Issuers::Number(4)));
    for (text, on_six) in [("half", 3), ("all", 6), ("1", 1)] {
        assert_eq!(
            Issuers::parse(text).map(|issuers| issuers.on(6)),
            Some(on_six)
        );
    }
    for wrong in ["0", "", "-1", "many", "8193"] {
        assert_eq!(Issuers::parse(wrong), None, "{wrong}");
    }
    assert_eq!(Issuers::Half.on(1), 1);
}

//! The figures of each loop, in which units, and which of them are compared.

use cmwq_loads::{Load, Pause, Shape};

/// A figure that peers are compared by.
pub(crate) struct Metric {
    pub(crate) key: &'static str,
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) more_is_better: bool,
    /// Compared with the best peer, rather than only shown.
    pub(crate) judged: bool,
    /// Compared only with peers that are about as fast as the fastest: an idle pool has good latencies.
    pub(crate) among_fast: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Nanoseconds,
    Microseconds,
    /// Microseconds of CPU time that are told apart however few they are.
    Cost,
    MiB,
    /// A small number.
    Fraction,
    Number,
    Count,
}

impl Unit {
    /// Smaller figures are not told apart: a clock's step, a few microseconds of CPU time in ten seconds.
    pub(crate) fn least(self) -> f64 {
        match self {
            Unit::Nanoseconds | Unit::Microseconds => 10.0,
            _ => f64::MIN_POSITIVE,
        }
    }
}

const fn metric(key: &'static str, name: &'static str, unit: Unit, judged: bool) -> Metric {
    Metric {
        key,
        name,
        unit,
        more_is_better: false,
        judged,
        among_fast: false,
    }
}

/// The latency of items while the machine is kept busy.
const BUSY_P99: Metric = Metric {
    among_fast: true,
    ..metric("latency_p99_ns", "p99", Unit::Nanoseconds, true)
};

const RATE: Metric = Metric {
    key: "rate",
    name: "items/s",
    unit: Unit::PerSecond,
    more_is_better: true,
    judged: true,
    among_fast: false,
};
const CPU: Metric = metric("cpu_us_per_item", "CPU/item", Unit::Microseconds, false);
const E50: Metric = metric("enqueue_p50_ns", "enqueue p50", Unit::Nanoseconds, true);
const E95: Metric = metric("enqueue_p95_ns", "p95", Unit::Nanoseconds, true);
const E99: Metric = metric("enqueue_p99_ns", "p99", Unit::Nanoseconds, true);

const ROUND_TRIP: &[Metric] = &[
    RATE,
    CPU,
    E50,
    E95,
    E99,
    metric("latency_p50_ns", "round trip p50", Unit::Nanoseconds, false),
    metric("latency_p99_ns", "p99", Unit::Nanoseconds, false),
    metric("latency_ratio", "p99/p50", Unit::Number, true),
];
const FLOOD: &[Metric] = &[RATE, CPU, E50, E95, E99, MEMORY];
const WINDOW: &[Metric] = &[
    RATE,
    metric("ceiling_percent", "% of ceiling", Unit::Number, false),
    CPU,
    metric(
        "latency_p50_ns",
        "queue to end p50",
        Unit::Nanoseconds,
        false,
    ),
    BUSY_P99,
    metric("told_p50_ns", "queue to told p50", Unit::Nanoseconds, false),
    Metric {
        among_fast: true,
        ..metric("told_p99_ns", "p99", Unit::Nanoseconds, true)
    },
];
const IDLE: &[Metric] = &[
    metric(
        "latency_p50_ns",
        "submit to start p50",
        Unit::Nanoseconds,
        true,
    ),
    metric("latency_p95_ns", "p95", Unit::Nanoseconds, false),
    metric("latency_p99_ns", "p99", Unit::Nanoseconds, true),
    metric("idle_cpu_us", "CPU when idle", Unit::Microseconds, true),
];
const BLOCK: &[Metric] = &[
    RATE,
    metric("ceiling_percent", "% of ceiling", Unit::Number, false),
    CPU,
    metric(
        "latency_p50_ns",
        "computing items p50",
        Unit::Nanoseconds,
        false,
    ),
    BUSY_P99,
    metric(
        "sleeper_p99_ns",
        "sleeping items p99",
        Unit::Nanoseconds,
        false,
    ),
    THREADS,
];

const HOGGED: &[Metric] = &[
    metric(
        "latency_p99_ns",
        "submit to start p99",
        Unit::Nanoseconds,
        true,
    ),
    metric("latency_p50_ns", "p50", Unit::Nanoseconds, true),
    metric("latency_max_ns", "greatest", Unit::Nanoseconds, false),
    metric("after_hogs", "after a hog's end", Unit::Count, false),
    metric("items", "of", Unit::Count, false),
    metric("batch_p50_ns", "hogs took", Unit::Nanoseconds, false),
    THREADS,
];

/// Loops over elements, and trees.
const WHOLE: &[Metric] = &[
    RATE,
    metric("ceiling_percent", "% of ceiling", Unit::Number, false),
    CPU,
    metric("latency_p50_ns", "the whole p50", Unit::Nanoseconds, false),
    metric("latency_p99_ns", "p99", Unit::Nanoseconds, true),
];
const AWAIT: &[Metric] = &[
    RATE,
    CPU,
    metric(
        "told_p50_ns",
        "queue to awaited p50",
        Unit::Nanoseconds,
        false,
    ),
    metric("told_p99_ns", "p99", Unit::Nanoseconds, true),
];

const DONE50: Metric = metric("done_p50_ns", "done p50", Unit::Nanoseconds, true);
const DONE99: Metric = metric("done_p99_ns", "done p99", Unit::Nanoseconds, true);
const START50: Metric = metric("start_p50_ns", "start p50", Unit::Nanoseconds, true);
const START99: Metric = metric("start_p99_ns", "start p99", Unit::Nanoseconds, true);
const START999: Metric = metric("start_p999_ns", "start p99.9", Unit::Nanoseconds, false);
const COST: Metric = metric("cpu_us_per_item", "CPU/item", Unit::Cost, true);
/// Where the load itself says how many items there are.
const GIVEN_RATE: Metric = Metric {
    judged: false,
    ..RATE
};
const WAKEUPS: Metric = metric("wakeups_per_item", "wake-ups/item", Unit::Fraction, false);
const SWITCHES: Metric = metric("switches_per_item", "switches/item", Unit::Fraction, false);
const THREADS: Metric = metric("threads", "threads", Unit::Count, false);
const MEMORY: Metric = metric("peak_mib", "peak memory", Unit::MiB, false);

/// Reads that are awaited: the wait for a thread, the task's way back, and both with the read.
const READS: &[Metric] = &[
    START50,
    START99,
    START999,
    metric("wake_p50_ns", "wake-up p50", Unit::Nanoseconds, true),
    metric("wake_p99_ns", "wake-up p99", Unit::Nanoseconds, true),
    metric("wake_p999_ns", "wake-up p99.9", Unit::Nanoseconds, false),
    metric("told_p50_ns", "in all p50", Unit::Nanoseconds, true),
    metric("told_p99_ns", "in all p99", Unit::Nanoseconds, true),
    metric("told_p999_ns", "in all p99.9", Unit::Nanoseconds, false),
    COST,
    SWITCHES,
    THREADS,
    GIVEN_RATE,
];

/// Rounds that follow each other at once, and items that are always in flight.
const FULL: &[Metric] = &[
    RATE,
    COST,
    DONE50,
    Metric {
        among_fast: true,
        ..DONE99
    },
    WAKEUPS,
    SWITCHES,
    THREADS,
];
/// Rounds with pauses between them: the rate is mostly theirs.
const PAUSES: &[Metric] = &[
    DONE50, DONE99, COST, START50, WAKEUPS, SWITCHES, THREADS, GIVEN_RATE,
];
/// Items that come when they come.
const COMING: &[Metric] = &[
    START50, START99, START999, COST, DONE50, WAKEUPS, SWITCHES, THREADS, GIVEN_RATE,
];

/// The figures of a load of every day.
fn of_load(load: &Load) -> &'static [Metric] {
    match load.shape {
        Shape::Flow { .. } => FULL,
        Shape::Gather {
            pause: Pause::None, ..
        } => FULL,
        Shape::Gather { .. } => PAUSES,
        Shape::Arrive { .. } => COMING,
    }
}

/// What a run costs the machine, whatever it does.
const RESOURCES: &[Metric] = &[CPU, SWITCHES, THREADS, MEMORY];

/// The figures of a loop; the first is what its bars show, the last are what it cost.
pub(crate) fn metrics(lap: &str) -> Vec<&'static Metric> {
    let own = own_metrics(lap);
    let is_new = |metric: &&Metric| own.iter().all(|known| known.key != metric.key);
    own.iter()
        .chain(RESOURCES.iter().filter(is_new))
        .filter(|metric| !is_waiting(lap) || ![CPU.key, SWITCHES.key].contains(&metric.key))
        .collect()
}

/// Loops in which little or something else than items uses the CPUs.
fn is_waiting(lap: &str) -> bool {
    matches!(lap, "idle" | "hogged")
}

fn own_metrics(lap: &str) -> &'static [Metric] {
    match lap {
        "roundtrip" => ROUND_TRIP,
        "flood" => FLOOD,
        lap if lap.starts_with("batch-") => FLOOD,
        lap if lap.starts_with("loop-") => WHOLE,
        "fork" | "scope" => WHOLE,
        "await-reads" => READS,
        lap if lap.starts_with("await-") => AWAIT,
        "window" | "epoll" => WINDOW,
        "idle" => IDLE,
        "hogged" => HOGGED,
        "block" => BLOCK,
        lap => Load::named(lap).map_or(BLOCK, |load| of_load(&load)),
    }
}

/// Its name where no other stands before it.
pub(crate) fn full_name(metric: &Metric) -> String {
    match metric.key {
        "enqueue_p95_ns" => "enqueue p95".to_owned(),
        "enqueue_p99_ns" => "enqueue p99".to_owned(),
        "latency_p99_ns" => "latency p99".to_owned(),
        "latency_p50_ns" => "latency p50".to_owned(),
        "told_p99_ns" => "told p99".to_owned(),
        _ => metric.name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_says_once_what_it_costs() {
        let loops = [
            "roundtrip",
            "flood",
            "batch-10",
            "loop-1e5",
            "fork",
            "await-multi",
            "await-reads",
        ];
        let loops = loops.into_iter().chain(["window", "epoll", "block"]);
        let loads = Load::everyday().map(|load| load.name);
        for lap in loops.chain(loads) {
            for key in [
                "cpu_us_per_item",
                "switches_per_item",
                "threads",
                "peak_mib",
            ] {
                let shown = metrics(lap)
                    .iter()
                    .filter(|metric| metric.key == key)
                    .count();
                assert_eq!(shown, 1, "{key} of {lap}");
            }
        }
        for lap in ["idle", "hogged"] {
            let keys: Vec<_> = metrics(lap).iter().map(|metric| metric.key).collect();
            assert!(
                keys.contains(&"threads") && keys.contains(&"peak_mib"),
                "{keys:?}"
            );
            assert!(!keys.contains(&"cpu_us_per_item"), "{keys:?}");
        }
    }
}

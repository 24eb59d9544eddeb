//! What rows say, by rows with made-up figures.

use super::*;

/// An entry whose runs have these figures of a metric.
fn entry(peer: &str, mode: &str, key: &str, values: &[f64]) -> Entry {
    Entry {
        peer: peer.to_owned(),
        version: "1".to_owned(),
        mode: mode.to_owned(),
        runs: values
            .iter()
            .map(|&value| Figures::from([(key.to_owned(), value)]))
            .collect(),
        error: None,
    }
}

fn row(entries: Vec<Entry>) -> Row {
    Row {
        lap: "roundtrip".to_owned(),
        issuers: 2,
        item_us: None,
        entries,
    }
}

#[test]
fn a_spread_is_that_of_runs_that_all_have_the_figure() {
    let spread = entry("a", "park", "rate", &[3.0, 1.0, 2.0])
        .spread("rate")
        .unwrap();
    assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
    let median = |runs: &[f64]| Some(entry("a", "park", "rate", runs).spread("rate")?.median);
    assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    assert_eq!((median(&[7.0]), median(&[])), (Some(7.0), None));
    let mut some = entry("a", "park", "rate", &[1.0]);
    some.runs.push(Figures::new());
    assert!(some.spread("rate").is_none());
    assert!(entry("a", "park", "rate", &[]).spread("rate").is_none());
}

#[test]
fn the_best_is_the_greatest_rate_and_the_least_latency_and_a_ratio_above_one_is_better() {
    let rates = row(vec![
        entry("cmwq", "completion", "rate", &[30.0]),
        entry("a", "park", "rate", &[10.0]),
        entry("b", "park", "rate", &[20.0]),
    ]);
    let found = rates.comparisons();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].best_peer.as_str(), found[0].ratio),
        ("b park", 1.5)
    );
    let times = row(vec![
        entry("cmwq", "completion", "enqueue_p50_ns", &[300.0]),
        entry("a", "park", "enqueue_p50_ns", &[100.0]),
        entry("b", "park", "enqueue_p50_ns", &[200.0]),
    ]);
    let found = times.comparisons();
    assert_eq!(found[0].best_peer, "a park");
    assert!((found[0].ratio - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn waiters_that_help_are_compared_with_handles_only_and_other_shapes_with_nothing() {
    let rates = row(vec![
        entry("cmwq", "completion", "rate", &[10.0]),
        entry("cmwq", "join", "rate", &[10.0]),
        entry("a", "help", "rate", &[20.0]),
        entry("a", "unpinned", "rate", &[40.0]),
        entry("a", "park", "rate", &[5.0]),
    ]);
    let found: Vec<_> = rates
        .comparisons()
        .into_iter()
        .map(|c| (c.mode, c.best_peer, c.ratio))
        .collect();
    let expected = [
        ("completion", "a park", 2.0),
        ("join", "a park", 2.0),
        ("join", "a help", 0.5),
    ];
    assert_eq!(
        found,
        expected.map(|(mode, peer, ratio)| (mode.to_owned(), peer.to_owned(), ratio))
    );
}

#[test]
fn the_latency_of_a_busy_pool_is_compared_among_the_fast() {
    let busy = |peer: &str, rate: f64, p99: f64| {
        let mut entry = entry(peer, "count", "rate", &[rate]);
        entry.runs[0].insert("latency_p99_ns".to_owned(), p99);
        entry
    };
    let mut window = row(vec![
        busy("cmwq", 90.0, 400.0),
        busy("fastest", 100.0, 1_000.0),
        busy("fast", 91.0, 800.0),
        busy("slow", 50.0, 100.0),
    ]);
    window.lap = "window".to_owned();
    let found = window.comparisons();
    let p99 = found
        .iter()
        .find(|found| found.key == "latency_p99_ns")
        .unwrap();
    assert_eq!((p99.best_peer.as_str(), p99.ratio), ("fast count", 2.0));
}

#[test]
fn nothing_used_twice_over_is_equal() {
    let mut idle = row(vec![
        entry("cmwq", "start", "idle_cpu_us", &[0.0]),
        entry("a", "start", "idle_cpu_us", &[0.0]),
    ]);
    idle.lap = "idle".to_owned();
    assert_eq!(idle.comparisons()[0].ratio, 1.0);
}

#[test]
fn the_start_behind_hogs_is_compared_by_its_percentiles_and_the_least_ranks_first() {
    let hogged = |peer: &str, p99: f64| {
        let mut entry = entry(peer, "start", "latency_p99_ns", &[p99]);
        entry.runs[0].insert("latency_p50_ns".to_owned(), p99 / 2.0);
        entry.runs[0].insert("after_hogs".to_owned(), 100.0);
        entry
    };
    let mut row = row(vec![
        hogged("fixed", 4e9),
        hogged("cmwq", 40e6),
        hogged("threads", 20e6),
    ]);
    row.lap = "hogged".to_owned();
    let found: Vec<_> = row
        .comparisons()
        .into_iter()
        .map(|found| (found.key, found.best_peer, found.ratio))
        .collect();
    let expected =
        ["latency_p99_ns", "latency_p50_ns"].map(|key| (key, "threads start".to_owned(), 0.5));
    assert_eq!(found, expected);
    let ranks: Vec<&str> = row
        .ranked()
        .iter()
        .map(|entry| entry.peer.as_str())
        .collect();
    assert_eq!(ranks, ["threads", "cmwq", "fixed"]);
}

#[test]
fn files_are_joined_row_by_row_and_peer_by_peer() {
    let mut all = Results {
        tool: String::new(),
        machine: String::new(),
        date: String::new(),
        cpus: 2,
        runs: 1,
        time_ms: 1,
        idle_ms: 1,
        item_ns: 1.0,
        floor: Figures::new(),
        missing: Vec::new(),
        rows: vec![row(vec![entry("cmwq", "join", "rate", &[1.0])])],
        comparisons: Vec::new(),
    };
    let mut other = row(vec![]);
    other.issuers = 4;
    let again = row(vec![
        entry("cmwq", "join", "rate", &[9.0]),
        entry("a", "park", "rate", &[2.0]),
    ]);
    all.add(vec![again, other]);
    assert_eq!(all.rows.len(), 2);
    assert_eq!(all.rows[0].entries.len(), 2);
    assert_eq!(all.rows[0].entries[0].runs[0]["rate"], 1.0);
}

#[test]
fn the_ceiling_is_what_was_computed_without_a_pool_and_is_compared_with_nothing() {
    let mut window = row(vec![
        entry("cmwq", "count", "rate", &[80.0, 90.0]),
        entry("a", "count", "rate", &[60.0]),
    ]);
    window.lap = "window".to_owned();
    window.compare_with_ceiling();
    assert!(window.entries[0].spread("ceiling_percent").is_none());
    let bare = entry(NO_POOL, "compute", "rate", &[100.0, 110.0, 90.0]);
    window.entries.push(bare);
    window.compare_with_ceiling();
    let share = window.entries[0].spread("ceiling_percent").unwrap();
    assert_eq!((share.min, share.max), (80.0, 90.0));
    let best: Vec<_> = window
        .comparisons()
        .into_iter()
        .map(|found| found.best_peer)
        .collect();
    assert_eq!(best, ["a count"]);
}

#[test]
fn figures_are_derived_from_items_and_time() {
    let mut figures = Figures::from(
        [
            ("items", 100.0),
            ("seconds", 0.5),
            ("cpu_s", 1.0),
            ("peak_kib", 2048.0),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    derive(&mut figures);
    assert_eq!(figures["rate"], 200.0);
    assert_eq!(figures["cpu_us_per_item"], 10_000.0);
    assert_eq!(figures["peak_mib"], 2.0);
}

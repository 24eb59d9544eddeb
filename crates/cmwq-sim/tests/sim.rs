//! `cmwq sim`: what it prints is a contract, and what it refuses is said in one line.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cmwq-sim"))
        .arg("sim")
        .args(arguments)
        .output()
        .unwrap()
}

fn table(arguments: &[&str]) -> Value {
    let output = sim(&[arguments, &["--format", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// As `cmwq topology` says it of the same machine.
#[test]
fn what_a_description_leaves_open_is_said_once() {
    let more = ["--scopes", "cache", "--window-us", "50", "--seeds", "1"];
    let tree = tempfile::tempdir().unwrap();
    let cpus = tree.path().join("devices/system/cpu");
    std::fs::create_dir_all(&cpus).unwrap();
    std::fs::write(cpus.join("online"), "0-1\n").unwrap();
    let file = tree.path().join("machine.json");
    std::fs::write(&file, r#"{"synthetic": "core:2"}"#).unwrap();
    let (tree, file) = (tree.path().to_str().unwrap(), file.to_str().unwrap());
    for machine in [
        ["--synthetic", "core:2"],
        ["--machine", file],
        ["--machine", tree],
    ] {
        let arguments = [&machine[..], &more].concat();
        let text = String::from_utf8(sim(&arguments).stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let assumed = "Assumed: ";
        assert!(lines[1].starts_with(assumed), "{text}");
        assert!(lines[1].contains("no cache information: "), "{text}");
        assert_eq!(text.matches(assumed).count(), 1, "{text}");
        let table = table(&arguments);
        let all: Vec<&str> = table["assumed"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        assert_eq!(lines[1], format!("{assumed}{}", all.join("; ")));
    }
    let whole = ["--synthetic", "numa:1 l3:1 core:2 pu:1"];
    let whole = [&whole[..], &more].concat();
    assert_eq!(table(&whole)["assumed"].as_array().unwrap().len(), 0);
    let text = String::from_utf8(sim(&whole).stdout).unwrap();
    assert!(!text.contains("Assumed"), "{text}");
}

/// Short windows and few items: what is tested is the command.
const SMALL: [&str; 8] = [
    "--synthetic",
    "l3:2 core:4 pu:2",
    "--window-us",
    "50",
    "--items",
    "20",
    "--seeds",
    "1",
];

#[test]
fn a_table_has_its_machine_and_a_row_for_each_scope_and_engine() {
    let more = [
        "--engine",
        "both",
        "--scopes",
        "cache_shard,cache",
        "--shard-size",
        "2,4",
    ];
    let table = table(&[&SMALL[..], &more].concat());
    assert_eq!(table["machine"], "l3:2 core:4 pu:2");
    assert_eq!(
        (&table["engine"], &table["seed"]),
        (&"both".into(), &1.into())
    );
    let rows = table["rows"].as_array().unwrap();
    let pods: Vec<u64> = rows
        .iter()
        .map(|row| row["pods"].as_u64().unwrap())
        .collect();
    assert_eq!(pods, [4, 2, 2, 4, 2, 2]);
    for row in rows {
        assert!(row["items_per_s"].as_f64().unwrap() > 0.0, "{row}");
        let at = |p: &str| row["enqueue_ns"][p].as_u64().unwrap();
        assert!(
            at("p50") <= at("p90") && at("p90") <= at("p95") && at("p95") <= at("p99"),
            "{row}"
        );
    }
}

#[test]
fn every_load_runs_and_the_same_seed_gives_the_same_run() {
    let all = cmwq_loads::Load::all().iter().map(|load| load.name);
    for kind in all.chain(["block-load", "window@1/0.5", "scatter-8@half/3"]) {
        // Windows as long as the load needs would take a minute, and shorter ones have no round.
        let window = ["--window-us", "12000"];
        let run = || {
            let load = ["--load", kind, "--scopes", "cache"];
            table(
                &[
                    &["--synthetic", "core:4", "--seeds", "1"],
                    &window[..],
                    &load,
                ]
                .concat(),
            )
        };
        let first = run();
        assert!(
            first["rows"][0]["items_per_s"].as_f64().unwrap() > 0.0,
            "{kind}"
        );
        assert_eq!(first, run(), "{kind}");
    }
}

#[test]
fn the_kernel_engine_is_faster_when_it_wakes_after_the_lock() {
    let rate = |wake| {
        let more = ["--engine", "kernel", "--scopes", "cache", "--wake", wake];
        let table = table(&[&["--machine", "grace", "--items", "40"], &more[..]].concat());
        assert_eq!(table["wake"], wake);
        table["rows"][0]["items_per_s"].as_f64().unwrap()
    };
    // Means of three seeds. From each of 14 first seeds it is 1.13 to 1.18 times as fast; exactly as
    // fast if the option is not heeded.
    let (under_lock, deferred) = (rate("under-lock"), rate("deferred"));
    assert!(deferred > 1.05 * under_lock, "{under_lock} {deferred}");
}

#[test]
fn a_sweep_names_a_size_that_it_has_run() {
    let table = table(&[&SMALL[..], &["--sweep"]].concat());
    let sizes: Vec<&Value> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["shard_size"])
        .collect();
    assert_eq!(sizes, [1, 2, 3, 4]);
    assert!(sizes.contains(&&table["best"][0]["shard_size"]));
}

#[test]
fn a_sweep_says_of_larger_sizes_only_what_it_has_seen() {
    let said = |machine| {
        let more = ["--engine", "kernel", "--sweep", "--items", "20"];
        let output = sim(&[&["--synthetic", machine], &more[..]].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let all = said("l3:1 core:1");
    assert!(all.ends_with("items/s; no larger ones were run\n"), "{all}");
    let lost = said("l3:1 core:16");
    assert!(
        lost.ends_with("; larger ones lose more than a twentieth\n"),
        "{lost}"
    );
}

#[test]
fn a_sweep_compares_the_times_of_a_load_whose_rate_is_given() {
    let more = ["--load", "burst-4", "--sweep", "--seeds", "1"];
    let output = sim(&[&["--synthetic", "l3:1 core:2"], &more[..]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("cores, median time to the end "), "{said}");
}

#[test]
fn calibrated_rows_come_out_as_they_were_measured() {
    let more = [
        "--scopes",
        "cpu,cache_shard,cache",
        "--calibrate",
        "cpu=800000,cache=300000",
    ];
    let table = table(&[&["--synthetic", "l3:1 core:16", "--items", "60"], &more[..]].concat());
    let rows = table["rows"].as_array().unwrap();
    let roles: Vec<&Value> = rows.iter().map(|row| &row["role"]).collect();
    assert_eq!(roles, ["calibrate", "predict", "calibrate"]);
    for (row, target) in [(0, 800_000.0), (2, 300_000.0)] {
        let ratio = rows[row]["items_per_s"].as_f64().unwrap() / target;
        assert!((0.85..1.15).contains(&ratio), "{row}: {ratio}");
    }
}

#[test]
fn rows_that_no_costs_give_are_named() {
    // Four CPUs cannot do 80 million round trips a second.
    let more = [
        "--scopes",
        "cpu,cache",
        "--calibrate",
        "cpu=80000000,cache=300000",
    ];
    let output = sim(&[&["--synthetic", "core:4", "--items", "20"], &more[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("--calibrate") && said.contains("no costs"),
        "{said}"
    );
}

#[test]
fn the_page_has_its_three_plots_and_nothing_from_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    table(&[&SMALL[..], &["--html", page.to_str().unwrap()]].concat());
    let text = std::fs::read_to_string(page).unwrap();
    assert_eq!(text.matches("<h2>").count(), 3);
    assert!(
        text.matches("<circle").count() == 6 && !text.contains("http") && !text.contains("NaN")
    );
}

#[test]
fn what_is_wrong_is_named_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("machine.json");
    std::fs::write(
        &file,
        r#"{"synthetic": "core:4", "costs": {"wake_ns": "much"}}"#,
    )
    .unwrap();
    let file = file.to_str().unwrap();
    for (arguments, named) in [
        (&["--machine", "mars"][..], ["mars", "grace"]),
        (&["--machine", file], ["much", "whole number"]),
        (&["--synthetic", "l9:3"], ["l9", "pack"]),
        (&["--synthetic", "core:300"], ["300", "256"]),
        (&["--scopes", "cache,moon"], ["moon", "cache_shard"]),
        (&["--shard-size", "0"], ["0", "from 1"]),
        (&["--calibrate", "cpu=x"], ["cpu=x", "cache=ITEMS_PER_S"]),
        (&["--calibrate", "cpu=1,cpu=2"], ["cpu=2", "once"]),
        (
            &["--engine", "kernel", "--load", "flood"],
            ["flood", "roundtrip"],
        ),
        (&["--wake", "deferred"], ["deferred", "--engine kernel"]),
        (&["--wake", "never"], ["never", "under-lock"]),
        (
            &["--engine", "kernel", "--strict"],
            ["--strict", "--engine cmwq"],
        ),
        (&["--items", "0"], ["0", "from 1"]),
        (&["--items", "-1"], ["-1", "from 1"]),
        (&["--issuers", "9000"], ["9000", "8192"]),
        (&["--window-us", "0"], ["0", "from 1"]),
        (&["--seeds", "0"], ["0", "from 1"]),
        (&["--placement", "moon"], ["moon", "waker"]),
        (&["--load", "window@x"], ["window@x", "half"]),
        (&["--load", "window/x"], ["window/x", "microseconds"]),
        (
            &["--load", "block-load", "--item-us", "3"],
            ["--item-us", "block-load"],
        ),
        (&["--loads", "window"], ["required", "--matrix"]),
        (
            &["--matrix", "/nowhere/at/all"],
            ["/nowhere/at/all", "No such"],
        ),
        (
            &["--matrix", "/dev/null", "--machines", "mars"],
            ["mars", "grace"],
        ),
        (
            &["--matrix", "/dev/null", "--loads", "moon"],
            ["moon", "scatter-8"],
        ),
        (&["--seed", "x"], ["'x'", "from 0"]),
        (
            &["--published", "--items", "2000000"],
            ["2000000", "1000000"],
        ),
        (&["--load", "walk"], ["walk", "block-load"]),
        (&["--published", "--sweep"], ["--sweep", "--seed"]),
        (
            &["--html", "/nowhere/at/all.html"],
            ["/nowhere/at/all.html", "can be written"],
        ),
    ] {
        let output = sim(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            named.iter().all(|part| said.contains(part)),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let ended = |arguments: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = Command::new(env!("CARGO_BIN_EXE_cmwq-sim"))
            .args(arguments)
            .stdout(full.unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("cannot write"), "{said}");
    };
    let small = [
        "sim",
        "--synthetic",
        "core:2",
        "--scopes",
        "cpu",
        "--window-us",
        "20",
    ];
    ended(&small);
    ended(&[&small[..], &["--format", "json"]].concat());
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["sim", "--help"],
        &["explore", "--help"],
        &["explore", "--seeds", "1"],
        &["explore", "--seed", "1", "--show"],
    ] {
        ended(arguments);
    }
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let output = Command::new("sh")
        .args(["-c", "exec \"$0\" --help >&-"])
        .arg(env!("CARGO_BIN_EXE_cmwq-sim"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("it is closed"), "{said}");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    for arguments in [
        &["sim", "--help"][..],
        &["explore", "--seed", "1", "--show"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cmwq-sim"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
    }
}

#[test]
fn a_row_is_the_same_alone_and_among_others() {
    let rows = |scopes: &str, sizes: &str| {
        let machine = [
            "--synthetic",
            "l3:2 core:4",
            "--items",
            "20",
            "--window-us",
            "50",
            "--engine",
            "both",
        ];
        let wanted = ["--scopes", scopes, "--shard-size", sizes];
        table(&[&machine[..], &wanted].concat())["rows"].take()
    };
    let among = rows("cpu,smt,cache_shard,cache", "1,2");
    for alone in [
        rows("cache", "1"),
        rows("cache_shard", "2"),
        rows("cache_shard,cpu", "1"),
    ] {
        for row in alone.as_array().unwrap() {
            let same = ["engine", "scope", "shard_size"];
            let other = among
                .as_array()
                .unwrap()
                .iter()
                .find(|other| same.iter().all(|field| other[field] == row[field]));
            let other = other.expect("the same row");
            assert_eq!(row, other);
        }
    }
}

/// Items come at random to eight caches, 90 % of what all CPUs bear, so now and then more than one
/// pod gets to. If more workers steal than their own pods have CPUs for, each pod makes others in
/// their place, which steal as well, and hundreds sleep for the lock of one pool: with two of eight
/// seeds the median is 2.7 and 3.8 ms, and with the others, as without that, 32 to 67 us.
#[test]
fn arrivals_at_eight_caches_are_kept_up_with() {
    for seed in ["1", "2", "3", "4", "5", "6"] {
        let result = table(&[
            "--synthetic",
            "l3:8 core:8",
            "--load",
            "open-90",
            "--scopes",
            "cache_shard",
            "--seeds",
            "1",
            "--seed",
            seed,
        ]);
        let done = &result["rows"][0]["done_ns"];
        let median = done["p50"].as_u64().expect("a time");
        assert!(median < 500_000, "seed {seed}: {done}");
    }
}

/// The small matrix of the tests.
fn matrix<'a>(file: &'a str, more: &[&'a str]) -> Value {
    let small = [
        "--matrix",
        file,
        "--machines",
        "core:2;l3:2 core:2",
        "--loads",
        "window@1,burst-4",
        "--seeds",
        "2",
        "--window-us",
        "12000",
    ];
    let output = sim(&[&small, more, &["--format", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_matrix_goes_on_where_it_has_ended_and_jobs_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (one, two, page) = (file("one"), file("two"), file("page.html"));
    let whole = matrix(&one, &["--jobs", "1"]);
    assert_eq!(whole.as_array().unwrap().len(), 4);
    let cell = &whole[0];
    assert_eq!(
        (&cell["machine"], &cell["load"]),
        (&"core:2".into(), &"window@1".into())
    );
    let assumed = cell["assumed"][0].as_str().unwrap();
    assert!(assumed.contains("no cache information: "), "{cell}");
    for ratio in ["to_best", "to_bound", "to_half"] {
        assert!(cell[ratio].as_f64().unwrap() > 0.0, "{cell}");
    }
    // No time for a run: what is done is shown, and how much is left.
    let output = sim(&["--matrix", &two, "--machines", "core:2", "--within", "0"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("0 of "), "{said}");
    std::fs::remove_file(&two).unwrap();
    // Cut off in the middle of a line, as by an end of the program.
    let text = std::fs::read_to_string(&one).unwrap();
    std::fs::write(&two, &text[..text.len() / 2]).unwrap();
    assert_eq!(matrix(&two, &["--jobs", "4", "--html", &page]), whole);
    let lines = |file: &str| {
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&one), lines(&two));
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(
        page.matches("<h2>").count(),
        page.matches("<table>").count()
    );
    assert!(page.contains("l3:2 core:2") && !page.contains("http") && !page.contains("NaN"));
    // Another build would be another library.
    let other = text.replacen("\"program\":\"", "\"program\":\"x", 1);
    std::fs::write(&two, other).unwrap();
    let output = sim(&[
        "--matrix",
        &two,
        "--machines",
        "core:2",
        "--loads",
        "window@1",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another build"), "{said}");
}

#[test]
fn a_rate_that_goes_on_changing_is_not_steady_and_one_that_stays_is() {
    let steady = |load: &str, window: &str| {
        let more = ["--scopes", "cache", "--load", load, "--window-us", window];
        let machine = ["--synthetic", "l3:1 core:16", "--seeds", "1"];
        let table = table(&[&machine, &more[..]].concat());
        table["rows"][0]["is_steady"].as_bool().unwrap()
    };
    // What arrives sets this rate; windows of 20 us items swing by more than the tolerance.
    assert!(steady("open-30", "20000"));
    // One item in a millisecond: of two neighbouring windows of 0.4 ms, one at most has an item.
    assert!(!steady("trickle-1ms", "400"));
}

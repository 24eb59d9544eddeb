//! `cmwq bench` from outside: the built command, tiny counts, good and bad input.
//!
//! No test checks durations.
//!
//! Broken on purpose, and what noticed:
//!
//! | sabotage | caught by |
//! |---|---|
//! | the completion is not reset before queueing | every test that measures |
//! | a page shorter than the file it replaces is written over it | `the_page_is_written_and_replaces_what_was_there` |
//! | the file of a page that never came is not removed | `threads_that_cannot_be_created_are_an_error_and_leave_no_page` |
//! | percentile index taken from N-1 | `percentiles_are_the_published_elements` (in the command's own tests) |
//! | progress does not reset the stall watch | `a_watch_tells_standing_still_from_slow` |
//! | a slow machine's plan is not cut | `a_machine_that_turns_slow_ends_within_the_limit` |
//! | the scopes always run in one order | `scopes_take_turns_and_every_other_round_is_reversed` |
//! | a single spoiled turn cuts all that follow | `a_single_spoiled_turn_cuts_nothing` |
//! | scopes with the same pods are measured one by one | `scopes_with_the_same_pods_are_measured_once`, and by the plan's tests |
//! | an interval reaches one rank too far in, or out | `ranks_are_those_of_the_binomial_tables`, `the_interval_covers_as_often_as_it_says` |
//! | a ratio whose interval contains 1 is printed | `what_the_runs_cannot_tell_has_no_ratio`, `the_same_thing_measured_twice_gives_no_ratio` |
//! | text in the page is not escaped | `text_from_outside_is_escaped` |

use crate::common::{cmwq, said};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Those of the published runs, in their order; others come behind.
const SCOPES: [&str; 6] = ["cpu", "smt", "cache_shard", "cache", "numa", "system"];
const TWO_LLCS: &str = "l3:2 core:1 pu:1";
const TWO_CPUS: &str = "l3:1 core:2 pu:1";

fn bench(args: &[&str]) -> Command {
    let mut command = cmwq(&["bench"]);
    command.args(args);
    command
}

fn output(args: &[&str]) -> Output {
    bench(args).output().expect("the command starts")
}

/// What a run prints that must succeed.
fn succeed(args: &[&str]) -> String {
    said(&mut bench(args))
}

/// The one line of a run that must be refused.
fn refused(args: &[&str]) -> String {
    crate::common::refused(&mut bench(args))
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&succeed(args)).expect("JSON")
}

fn labels(report: &Value) -> Vec<String> {
    let results = report["results"].as_array().expect("results");
    results
        .iter()
        .map(|result| result["label"].as_str().expect("label").to_owned())
        .collect()
}

/// A path in the tests' own directory, where nothing is yet.
fn fresh(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    if path.is_dir() {
        std::fs::remove_dir_all(&path).expect("removable");
    } else if path.exists() {
        std::fs::remove_file(&path).expect("removable");
    }
    path
}

/// The lines that begin with a scope's name.
fn rows<'a>(text: &'a str, scope: &str) -> Vec<&'a str> {
    let is_row = |line: &&str| line.split_whitespace().next() == Some(scope);
    text.lines().filter(is_row).collect()
}

#[test]
fn scopes_with_the_same_pods_are_measured_once() {
    let args = ["--items", "20", "--runs", "8", "--synthetic", TWO_CPUS];
    let report = json(&[&args[..], &["--format", "json"]].concat());
    assert_eq!(labels(&report)[..SCOPES.len()], SCOPES);
    let result = |scope: &str| {
        let results = report["results"].as_array().unwrap();
        results.iter().find(|r| r["scope"] == scope).unwrap()
    };
    for scope in ["cache_shard", "numa", "system"] {
        assert_eq!(result(scope)["same_pods_as"], "cache");
        assert_eq!(result(scope)["pods"], 1);
        assert_eq!(result(scope)["runs"], result("cache")["runs"]);
        assert_eq!(result(scope)["ratio_to_cache"]["median"], 1.0);
    }
    assert_eq!(result("smt")["same_pods_as"], "cpu");
    for scope in ["cpu", "cache"] {
        assert!(result(scope)["same_pods_as"].is_null());
    }
    assert_eq!(result("cpu")["pods"], 2);
    let interval = &result("cpu")["ratio_to_cache"]["interval"];
    assert_eq!(interval["confidence"], 1.0 - 2.0 / 256.0);
    let bound = |name: &str| interval[name].as_f64().unwrap();
    assert!(bound("low") <= bound("high"), "{interval}");
    assert!(result("cache")["ratio_to_cache"]["interval"].is_null());

    let text = succeed(&args);
    assert_eq!(rows(&text, "numa"), ["numa         same pods as cache"]);
    assert_eq!(rows(&text, "smt"), ["smt          same pods as cpu"]);
    assert_eq!(rows(&text, "cpu").len(), 3, "{text}");
}

#[test]
fn too_few_runs_give_no_ratio() {
    let text = succeed(&[
        "--items",
        "5",
        "--runs",
        "2",
        "--scopes",
        "cpu,cache",
        "--synthetic",
        TWO_CPUS,
    ]);
    assert!(rows(&text, "cpu")[0].ends_with('?'), "{text}");
    assert!(text.contains("--runs 8 or more"), "{text}");
}

#[test]
fn without_a_count_the_items_are_what_fits() {
    let report = json(&[
        "--scopes",
        "cpu",
        "--threads",
        "1",
        "--runs",
        "2",
        "--format",
        "json",
    ]);
    assert_eq!(report["settings"]["items_calibrated"], true);
    assert!(report["settings"]["items"].as_u64().unwrap() >= 100);
    assert_eq!(report["results"][0]["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn text_names_the_machine_the_items_and_every_scope() {
    let text = succeed(&["--items", "20", "--runs", "1"]);
    assert!(text.contains("20 items each, 1 run, non-strict"), "{text}");
    for scope in SCOPES {
        assert!(!rows(&text, scope).is_empty(), "{scope} in {text}");
    }
    if let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
        // A short name may be part of an innocent word.
        assert!(
            name.trim().len() < 8 || !text.contains(name.trim()),
            "the host name is in {text}"
        );
    }
}

#[test]
fn json_has_every_figure_for_two_last_level_caches() {
    let report = json(&[
        "--items",
        "30",
        "--runs",
        "2",
        "--synthetic",
        TWO_LLCS,
        "--format",
        "json",
    ]);
    assert_eq!(report["format"], "cmwq-bench");
    assert_eq!(report["machine"]["cpus"], 2);
    assert_eq!(report["settings"]["threads"], 2);
    assert_eq!(report["settings"]["items"], 30);
    assert_eq!(report["settings"]["items_calibrated"], false);
    assert_eq!(labels(&report)[..SCOPES.len()], SCOPES);
    for result in report["results"].as_array().unwrap() {
        assert_eq!(result["runs"].as_array().unwrap().len(), 2);
        assert!(
            result["workers_created"]["min"].as_f64().unwrap() >= 1.0,
            "{result}"
        );
        for run in result["runs"].as_array().unwrap() {
            assert_eq!(run["items"], 30);
            let p = |kind: &str, p: &str| run[kind][p].as_u64().unwrap();
            for kind in ["enqueue_ns", "round_trip_ns"] {
                let all = ["p50", "p90", "p95", "p99"].map(|name| p(kind, name));
                assert!(all.is_sorted() && all[0] > 0, "{run}");
            }
            for name in ["p50", "p90", "p95", "p99"] {
                assert!(
                    p("enqueue_ns", name) <= p("round_trip_ns", name),
                    "queue() is part of the round trip: {run}"
                );
            }
        }
    }
}

#[test]
fn scopes_run_in_the_order_asked_for_with_the_threads_asked_for() {
    let args = [
        "--items",
        "10",
        "--runs",
        "1",
        "--threads",
        "3",
        "--scopes",
        "numa,cpu",
        "--strict",
    ];
    let report = json(&[&args[..], &["--format", "json"]].concat());
    assert_eq!(labels(&report), ["numa", "cpu"]);
    assert_eq!(report["settings"]["threads"], 3);
    assert_eq!(report["settings"]["strict"], true);
    assert!(report["results"][0]["ratio_to_cache"].is_null());
}

#[test]
fn a_sweep_runs_cache_shard_once_per_size() {
    let report = json(&[
        "--items",
        "10",
        "--runs",
        "1",
        "--synthetic",
        TWO_LLCS,
        "--scopes",
        "cache_shard,cache",
        "--shard-size",
        "1,2,4,8,16,32",
        "--format",
        "json",
    ]);
    let mut expected: Vec<_> = [1, 2, 4, 8, 16, 32]
        .iter()
        .map(|size| format!("cache_shard/{size}"))
        .collect();
    expected.push("cache".to_owned());
    assert_eq!(labels(&report), expected);
    assert_eq!(report["results"][5]["shard_size"], 32);
}

#[test]
fn a_shard_size_of_zero_is_one_and_said_once() {
    let args = [
        "--items",
        "5",
        "--runs",
        "1",
        "--scopes",
        "cache_shard",
        "--shard-size",
        "0",
        "--format",
        "json",
    ];
    let output = output(&args);
    assert!(output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("cmwq: --shard-size"), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["results"][0]["shard_size"], 1);
}

#[test]
fn the_page_is_written_and_replaces_what_was_there() {
    let path = fresh("page.html");
    std::fs::write(&path, "x".repeat(1 << 20)).expect("writable");
    let file = path.to_str().expect("UTF-8");
    let text = succeed(&[
        "--items",
        "50",
        "--runs",
        "2",
        "--synthetic",
        TWO_LLCS,
        "--html",
        file,
    ]);
    assert!(text.contains("cache_shard"), "the table is printed too");
    let page = std::fs::read_to_string(&path).expect("written");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    for outside in ["http:", "https:", "src=", "href=", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(
        page.contains("synthetic &#39;l3:2") || page.contains("synthetic 'l3:2"),
        "the machine in words"
    );
    std::fs::remove_file(&path).expect("removable");
}

#[test]
fn bad_input_gives_one_line_that_names_it_and_status_2() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--threads", "0"], &["--threads", "\"0\"", "from 1"]),
        (&["--threads", "many"], &["\"many\""]),
        (&["--threads", "1000000"], &["--threads", "\"1000000\""]),
        (&["--items", "0"], &["--items", "\"0\"", "from 1"]),
        (&["--items", "-5"], &["\"-5\""]),
        (
            &["--items", "99999999999999999999"],
            &["\"99999999999999999999\""],
        ),
        (
            &["--threads", "64", "--items", "1000000"],
            &["1000000", "64 threads", "524288"],
        ),
        (&["--runs", "0"], &["--runs", "\"0\""]),
        (
            &["--scopes", "l3"],
            &["\"l3\"", "one of cpu, smt, cache_shard, cache, numa, "],
        ),
        (&["--scopes", "CPU"], &["\"CPU\""]),
        (&["--scopes", ""], &["--scopes"]),
        (&["--shard-size", "eight"], &["\"eight\"", "whole number"]),
        (&["--shard-size", "-1"], &["\"-1\""]),
        (&["--shard-size", "1,,2"], &["--shard-size"]),
        (
            &["--shard-size", "1,2", "--scopes", "cpu"],
            &["cache_shard"],
        ),
        (&["--format", "yaml"], &["\"yaml\"", "text or json"]),
        (&["--synthetic", "l3"], &["l3"]),
        (&["--synthetic", "l3:x"], &["x"]),
        (&["--sysfs-root", "/nonexistent"], &["/nonexistent"]),
    ];
    for page in ["/nonexistent/page.html", "/"] {
        let line = crate::common::failed(&mut bench(&["--html", page]));
        assert!(line.contains(&format!("--html {page}")), "{line}");
    }
    for (args, parts) in cases {
        let line = refused(args);
        for part in *parts {
            assert!(line.contains(part), "{args:?}: `{part}` is not in {line}");
        }
    }
}

#[test]
fn threads_that_cannot_be_created_are_an_error_and_leave_no_page() {
    let page = fresh("never.html");
    // 5000 stacks of 256 KiB do not fit in 800 MB of address space.
    let script =
        "ulimit -v 800000 && exec \"$0\" bench --items 2 --threads 5000 --scopes cpu --html \"$1\"";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_cmwq")])
        .arg(&page)
        .env_remove("CMWQ_TOPOLOGY")
        .output()
        .expect("a shell");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("cmwq: ") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert!(
        stderr.contains("issuer thread") && stderr.contains("5000"),
        "{stderr}"
    );
    assert!(!page.exists());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = bench(&[
        "--items", "5", "--runs", "1", "--scopes", "cpu", "--format", "json",
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("the command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn nothing_is_measured_that_nobody_will_read() {
    for reads_the_head in [false, true] {
        ends_without_a_reader(reads_the_head);
    }
}

fn ends_without_a_reader(reads_the_head: bool) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // Hours, if it did not notice; each turn is short.
    let args = ["--items", "20000", "--runs", "10000", "--threads", "1"];
    let mut child = bench(&args)
        .stdout(writer)
        .spawn()
        .expect("the command starts");
    let mut reader = std::io::BufReader::new(reader);
    if reads_the_head {
        let mut line = String::new();
        reader.read_line(&mut line).expect("text");
        assert!(line.contains("CPU"), "{line}");
    }
    drop(reader);
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("ours") {
            break Some(status);
        }
        if since.elapsed() > Duration::from_secs(60) {
            child.kill().expect("ours");
            child.wait().expect("ours");
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
}

#[test]
fn standard_output_that_cannot_be_written_is_an_error() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let output = bench(&["--items", "5", "--runs", "1", "--scopes", "cpu"])
        .stdout(full)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("cmwq: cannot write"));
}

/// The measurement may have taken hours.
#[test]
fn results_are_printed_though_their_page_cannot_be_written() {
    let run = ["--items", "5", "--runs", "1", "--scopes", "cpu"];
    let output = bench(&run)
        .args(["--format", "json", "--html", "/dev/full"])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("--html /dev/full"), "{complaint}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(results["results"][0]["label"], "cpu");
}

#[test]
fn help_has_an_example_and_the_json_contract() {
    let help = succeed(&["--help"]);
    for part in [
        "Examples:",
        "cmwq bench --scopes",
        "round_trip_ns",
        "same_pods_as",
        "ratio_to_cache.interval",
        "Exit status",
    ] {
        assert!(help.contains(part), "{part}");
    }
}

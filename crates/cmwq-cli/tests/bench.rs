//! `cmwq bench` from outside: the built command, tiny counts, good and bad input.
//!
//! No test looks at how long anything took.
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
//! | the wake-up protocols always run in one order | `the_two_protocols_alternate_and_swap_places_every_run` |
//! | text in the page is not escaped | `text_from_outside_is_escaped` |

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SCOPES: [&str; 6] = ["cpu", "smt", "cache_shard", "cache", "numa", "system"];
const TWO_LLCS: &str = "l3:2 core:1 pu:1";

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command
        .arg("bench")
        .args(args)
        .env_remove("CMWQ_TOPOLOGY")
        .stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    bench(args).output().expect("the command starts")
}

/// Standard output of a run that must succeed and say nothing on standard error.
fn succeed(args: &[&str]) -> String {
    let output = output(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    assert_eq!(stderr, "", "{args:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The one line on standard error of a run that must be refused.
fn refused(args: &[&str]) -> String {
    let output = output(args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(stderr.starts_with("cmwq: "), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}");
    stderr
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

#[test]
fn text_names_the_machine_the_items_and_every_scope() {
    let text = succeed(&["--items", "20", "--runs", "1"]);
    assert!(text.contains("20 items each, 1 run, non-strict"), "{text}");
    for scope in SCOPES {
        let rows = text
            .lines()
            .filter(|line| line.split_whitespace().next() == Some(scope));
        assert_eq!(rows.count(), 2, "{scope} in {text}");
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
    assert_eq!(labels(&report), SCOPES);
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
fn both_wake_up_protocols_are_measured_and_compared() {
    let args = [
        "--items",
        "10",
        "--runs",
        "2",
        "--scopes",
        "cpu,cache",
        "--wake-under-lock",
    ];
    let report = json(&[&args[..], &["--format", "json"]].concat());
    assert_eq!(labels(&report), ["cpu", "cpu", "cache", "cache"]);
    assert_eq!(report["results"][1]["wake"], "under_lock");
    assert_eq!(report["wake_ratios"].as_array().unwrap().len(), 2);
    assert!(succeed(&args).contains("deferred / under lock"));
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
            &[
                "\"l3\"",
                "one of cpu, smt, cache_shard, cache, numa, system",
            ],
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
        (
            &["--html", "/nonexistent/page.html"],
            &["/nonexistent/page.html"],
        ),
        (&["--html", "/"], &["--html /"]),
        (&["--synthetic", "l3"], &["l3"]),
        (&["--synthetic", "l3:x"], &["x"]),
        (&["--sysfs-root", "/nonexistent"], &["/nonexistent"]),
    ];
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
    assert_eq!(output.status.code(), Some(2), "{stderr}");
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
fn standard_output_that_cannot_be_written_is_an_error() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let output = bench(&["--items", "5", "--runs", "1", "--scopes", "cpu"])
        .stdout(full)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("cmwq: cannot write"));
}

#[test]
fn help_has_an_example_and_the_json_contract() {
    let help = succeed(&["--help"]);
    for part in [
        "Examples:",
        "cmwq bench --scopes",
        "round_trip_ns",
        "Exit status",
    ] {
        assert!(help.contains(part), "{part}");
    }
}

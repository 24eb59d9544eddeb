//! `cmwq bench --loop` from outside: short runs, good and bad input. No test checks durations or rates.

use crate::common::{cmwq, said};
use serde_json::Value;

fn refused(args: &[&str]) -> String {
    let mut command = cmwq(&["bench"]);
    crate::common::refused(command.args(args))
}

fn json(args: &[&str]) -> Value {
    let mut command = cmwq(&["bench", "--format", "json"]);
    serde_json::from_str(&said(command.args(args))).expect("JSON")
}

/// The report of one run in which items ended: on a machine that others use none may end in a short one.
fn measured(args: &[&str]) -> Value {
    let report = ["40", "400", "4000"].into_iter().find_map(|time_ms| {
        let own = ["--time-ms", time_ms, "--runs=1", "--scopes=cache"];
        let report = json(&[args, &own[..]].concat());
        let rate = report["results"][0]["items_per_s"]["median"].as_f64();
        (rate > Some(0.0)).then_some(report)
    });
    report.unwrap_or_else(|| panic!("{args:?}: no item ended in 4 s"))
}

#[test]
fn every_load_is_listed_and_is_run_by_name() {
    let list = said(&mut cmwq(&["bench", "--loop", "list"]));
    let names: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 20 && names.contains(&"open"), "{names:?}");
    for name in names {
        let report = measured(&["--loop", name]);
        assert_eq!(report["format"], "cmwq-bench-loop");
        assert_eq!(report["settings"]["loop"], name);
        let first = &report["results"][0];
        assert!(first["peak_threads"]["min"].as_f64() > Some(1.0), "{name}");
        let words = report["verdict"].as_str().expect("words");
        assert!(
            words.starts_with("too few runs") || words.starts_with("keep the default: every scope"),
            "{name}: {words}"
        );
    }
}

#[test]
fn items_issuers_and_the_load_are_as_asked_for_and_the_default_comes_first() {
    let asked = ["--loop=open", "--load=30", "--item-us=1.5", "--issuers=3"];
    let short = ["--time-ms=10", "--runs=8", "--scopes=cpu", "--shard-size=1"];
    let report = json(&[&asked[..], &short[..]].concat());
    let settings = &report["settings"];
    assert_eq!(settings["item_us"], 1.5);
    assert_eq!(
        (&settings["issuers"], &settings["runs"]),
        (&3.into(), &8.into())
    );
    let results = report["results"].as_array().expect("a list");
    assert_eq!(results[0]["label"], "cache_shard");
    assert_eq!(results[1]["label"], "cpu");
    for of in results.iter().filter(|of| of["same_pods_as"].is_null()) {
        let runs = of["runs"].as_array().expect("runs");
        assert_eq!(runs.len(), 8);
        for run in runs {
            let windows = run["window_rates"].as_array().expect("windows").len();
            assert!((2..=8).contains(&windows), "{windows}");
        }
    }
    let text = said(cmwq(&["bench"]).args(asked).args(short));
    assert!(text.contains("\nVerdict: "), "{text}");
    assert!(text.contains("items of 1.5 us"), "{text}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scopes.csv");
    let mut command = cmwq(&["bench"]);
    command.arg("--csv").arg(&file).args(asked).args(short);
    assert!(said(&mut command).contains("\nVerdict: "));
    let csv = std::fs::read_to_string(&file).expect("a table");
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().expect("a head").split(',').collect();
    assert_eq!(head[..4], ["loop", "issuers", "item_us", "peer"]);
    let rates: Vec<&str> = lines.filter(|line| line.contains(",rate,")).collect();
    let measured = results.iter().filter(|of| of["same_pods_as"].is_null());
    assert_eq!(rates.len(), measured.count(), "{csv}");
    assert!(
        rates[0].starts_with("open,3,1.5,cmwq,cache_shard,"),
        "{csv}"
    );
}

#[test]
fn an_issuer_waits_for_what_it_spawned_by_handles_a_scope_or_futures() {
    let short = ["--time-ms=10", "--runs=1", "--scopes=cache"];
    for (wait, words) in [
        ("join", "join all of them; 1 issuer"),
        ("scope", "join all of them by the end of a scope; 1 issuer"),
        ("future", "join all of them as futures that are awaited; 1"),
    ] {
        let asked = ["--loop=scatter-8".to_owned(), format!("--wait={wait}")];
        let said = said(cmwq(&["bench"]).args(&asked).args(short));
        assert!(said.contains(words), "{said}");
        let report = measured(&asked.each_ref().map(String::as_str));
        assert_eq!(report["settings"]["wait"], wait);
    }
    let report = json(&[&["--loop=window"][..], &short].concat());
    assert!(report["settings"]["wait"].is_null());
}

#[test]
fn what_is_no_load_and_what_does_not_go_with_one_is_refused() {
    assert!(refused(&["--loop", "nothing"]).contains("window"));
    for (option, value, named) in [
        ("--item-us", "-1", "from 0 to"),
        ("--item-us", "x", "from 0 to"),
        ("--issuers", "0", "half or all"),
        ("--time-ms", "1", "from 10 to"),
        ("--load", "60", "--loop open"),
        ("--wait", "scope", "scatter-64"),
        ("--runs", "0", "from 1 to"),
        ("--scopes", "l3", "cache_shard"),
    ] {
        let said = refused(&["--loop=window", &format!("{option}={value}")]);
        assert!(said.contains(option) && said.contains(named), "{said}");
    }
    assert!(refused(&["--csv=x"]).contains("--loop"));
    let mut elsewhere = cmwq(&["bench", "--loop=window", "--csv=/nowhere/x"]);
    assert!(crate::common::failed(&mut elsewhere).contains("--csv"));
    assert!(refused(&["--loop=scatter-8", "--wait=await"]).contains("join, scope or future"));
    assert!(refused(&["--loop=open", "--load=0"]).contains("from 1 to"));
    let elsewhere = refused(&["--loop=window", "--synthetic=l3:1 core:2 pu:1"]);
    assert!(elsewhere.contains("this machine"), "{elsewhere}");
    for option in [
        "--item-us=1",
        "--issuers=1",
        "--load=1",
        "--time-ms=10",
        "--wait=scope",
    ] {
        assert!(refused(&[option]).contains("--loop"));
    }
    for option in ["--items=1", "--threads=1", "--html=x", "--control"] {
        assert!(refused(&["--loop=window", option]).contains("cannot be used with"));
    }
}

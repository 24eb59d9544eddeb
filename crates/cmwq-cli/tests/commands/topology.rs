//! `cmwq topology` as a user runs it: what it prints, and how it refuses.
//!
//! Sabotage tried: renaming a JSON key, numbering pods from 1 and printing clap's usage lines each
//! fail a test here.

use crate::common::{cmwq, failed, refused, said};
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use cmwq::affinity::AffinityScope;
use serde_json::{Value, json};

fn json_of(command: &mut Command) -> Value {
    serde_json::from_str(&said(command)).expect("JSON")
}

/// The line of a run that must be refused, without the command's name.
fn refusal(command: &mut Command) -> String {
    let line = refused(command);
    line.trim_end()["cmwq: ".len()..].to_owned()
}

#[test]
fn the_json_form_is_what_was_promised() {
    let machine = "numa:2 l3:1 core:2 pu:2";
    let value = json_of(&mut cmwq(&[
        "topology",
        "--synthetic",
        machine,
        "--shard-size",
        "1",
        "--format",
        "json",
    ]));
    let cpu = |cpu: u32| json!({"cpu": cpu, "core": cpu / 2, "llc": cpu / 4, "node": cpu / 4});
    assert_eq!(value["cpus"], (0..8).map(cpu).collect::<Value>());
    assert_eq!(value["default_scope"], "cache_shard");
    assert_eq!(value["cache_shard_size"], 1);
    let ones: Value = (0..8)
        .map(|cpu| json!({"cpus": [cpu], "node": cpu / 4}))
        .collect();
    let pairs: Value = (0..4)
        .map(|core| json!({"cpus": [core * 2, core * 2 + 1], "node": core / 2}))
        .collect();
    let halves = json!([{"cpus": [0, 1, 2, 3], "node": 0}, {"cpus": [4, 5, 6, 7], "node": 1}]);
    let system = json!([{"cpus": [0, 1, 2, 3, 4, 5, 6, 7], "node": null}]);
    for (scope, pods) in [
        ("cpu", ones),
        ("smt", pairs.clone()),
        ("cache", halves.clone()),
        ("cache_shard", pairs),
        ("numa", halves),
        ("system", system),
    ] {
        assert_eq!(value["scopes"][scope], json!({ "pods": pods }), "{scope}");
    }
}

#[test]
fn the_json_keys_come_in_the_promised_order() {
    let text = said(&mut cmwq(&[
        "topology",
        "--synthetic",
        "pu:1",
        "--format",
        "json",
    ]));
    assert!(
        text.starts_with(
            r#"{"cpus":[{"cpu":0,"core":0,"llc":0,"node":0}],"default_scope":"cache_shard","cache_shard_size":8,"scopes":{"cpu":{"pods":[{"cpus":[0],"node":0}]},"smt":"#
        ),
        "{text}"
    );
    assert!(text.ends_with("}\n"));
}

/// A line in the library's table of scopes is enough for all of these.
#[test]
fn every_scope_of_the_table_is_in_the_drawing_the_json_the_help_and_the_benchmark() {
    let machine = ["topology", "--synthetic", "l3:2 core:2 pu:2"];
    let json = json_of(&mut cmwq(&[&machine[..], &["--format", "json"]].concat()));
    let drawn = said(&mut cmwq(&machine));
    let helps = ["topology", "bench"].map(|name| said(&mut cmwq(&[name, "--help"])));
    let bench = ["bench", "--items", "5", "--runs", "1", "--format", "json"];
    let measured = json_of(&mut cmwq(&bench));
    let measured = measured["results"].as_array().expect("a list");
    assert_eq!(measured.len(), AffinityScope::CONCRETE.len());
    for name in AffinityScope::CONCRETE.map(AffinityScope::name) {
        assert!(json["scopes"][name]["pods"].is_array(), "{name}: {json}");
        assert!(
            drawn.contains(&format!("\n{}", name.to_uppercase())),
            "{name}: {drawn}"
        );
        assert!(
            helps.iter().all(|help| help.contains(name)),
            "{name}: {helps:?}"
        );
        assert!(measured.iter().any(|row| row["scope"] == name), "{name}");
        said(&mut cmwq(&[&machine[..], &["--scope", name]].concat()));
    }
}

#[test]
fn the_environment_sets_machine_shard_size_and_default_scope() {
    let value = json_of(
        cmwq(&["topology", "--format", "json", "--scope", "cpu"])
            .env("CMWQ_TOPOLOGY", "l3:1 core:16")
            .env("CMWQ_CACHE_SHARD_SIZE", "4")
            .env("CMWQ_DEFAULT_AFFINITY_SCOPE", "numa"),
    );
    assert_eq!(value["cpus"].as_array().expect("CPUs").len(), 16);
    assert_eq!(value["cache_shard_size"], 4);
    assert_eq!(value["default_scope"], "numa");
    assert_eq!(
        value["scopes"]["cache_shard"]["pods"]
            .as_array()
            .expect("pods")
            .len(),
        4
    );
    // What an engine takes from the environment.
    let text = said(
        cmwq(&["topology", "--synthetic", "core:4"])
            .env("CMWQ_UNBOUND_CPUS", "1-2,9")
            .env("CMWQ_MIX_CORE_KINDS", "1"),
    );
    assert!(text.contains("wq_unbound_cpumask=6 (1-2)"), "{text}");
    let text = said(cmwq(&["topology", "--synthetic", "core:4"]).env("CMWQ_UNBOUND_CPUS", "8191"));
    assert!(text.contains("wq_unbound_cpumask=f (0-3)"), "{text}");
    // Options go before variables.
    let value = json_of(
        cmwq(&[
            "topology",
            "--format",
            "json",
            "--synthetic",
            "core:2",
            "--shard-size",
            "2",
        ])
        .env("CMWQ_TOPOLOGY", "/nowhere")
        .env("CMWQ_CACHE_SHARD_SIZE", "none"),
    );
    assert_eq!(value["cache_shard_size"], 2);
}

#[test]
fn a_sysfs_tree_is_a_machine() {
    let root = std::env::temp_dir().join(format!("cmwq-cli-sysfs-{}", std::process::id()));
    let cpu = root.join("devices/system/cpu");
    fs::create_dir_all(&cpu).expect("directory");
    fs::write(cpu.join("online"), "0,2-3\n").expect("file");
    fs::write(cpu.join("possible"), "0-7\n").expect("file");
    let path = root.to_str().expect("UTF-8");
    let value = json_of(&mut cmwq(&[
        "topology",
        "--sysfs-root",
        path,
        "--format",
        "json",
    ]));
    let drawn = said(cmwq(&["topology", "--sysfs-root", path]).env("COLUMNS", "200"));
    fs::write(cpu.join("online"), "0,2-banana\n").expect("file");
    let without = said(cmwq(&["topology", "--sysfs-root", path]).env("COLUMNS", "200"));
    fs::remove_file(cpu.join("possible")).expect("removed");
    let refused = refusal(cmwq(&["topology"]).env("CMWQ_TOPOLOGY", path));
    fs::remove_dir_all(&root).expect("removed");
    assert_eq!(value["online"], json!([0, 2, 3]));
    assert_eq!(
        value["cpus"][1],
        json!({"cpu": 2, "core": 1, "llc": 0, "node": 0})
    );
    assert_eq!(
        value["assumed"],
        json!([
            "no SMT siblings: each CPU is taken for a core",
            "no nodes: all CPUs are taken to be on node 0",
            "no cache information: each node is taken for a last-level cache",
        ])
    );
    assert!(
        drawn.contains("\nAssumed: no SMT siblings: each CPU is taken for a core; no nodes: "),
        "{drawn}"
    );
    assert!(
        drawn.contains("Not online, and so in no pod: CPUs 1,4-7"),
        "{drawn}"
    );
    assert!(
        without.contains("\nTaken as missing: cannot make sense of"),
        "{without}"
    );
    assert!(
        refused.starts_with("CMWQ_TOPOLOGY: cannot make sense of"),
        "{refused}"
    );
    assert!(
        refused.contains("cpu/online") && refused.contains("2-banana"),
        "{refused}"
    );
}

#[test]
fn kinds_of_cores_are_mixed_if_the_environment_says_so() {
    let root = tempfile::tempdir().expect("directory");
    let cpus = root.path().join("devices/system/cpu");
    for (number, capacity) in [1024, 400, 1024].iter().enumerate() {
        let dir = cpus.join(format!("cpu{number}"));
        fs::create_dir_all(&dir).expect("directory");
        fs::write(dir.join("cpu_capacity"), format!("{capacity}\n")).expect("file");
    }
    let path = root.path().to_str().expect("UTF-8");
    let arguments = ["topology", "--sysfs-root", path, "--scope", "cache_shard"];
    let kinds = ["0", "1"].map(|mix| said(cmwq(&arguments).env("CMWQ_MIX_CORE_KINDS", mix)));
    assert!(kinds[0].contains("[0]=0,2 [1]=1\n"), "{}", kinds[0]);
    assert!(kinds[1].contains("[0]=0-2\n"), "{}", kinds[1]);
}

#[test]
fn the_text_draws_the_machine_and_lists_every_scope() {
    let machine = "pack:2 [numa] l3:1 core:12 pu:2";
    let shown = said(cmwq(&["topology", "--synthetic", machine]).env("COLUMNS", "80"));
    assert!(!shown.contains("Assumed"), "{shown}");
    for part in [
        "Described machine: 48 CPUs, 24 cores,",
        "┌ package 0 · node 0 · CPUs 0-23 ─",
        "┌ LLC 1 · CPUs 24-47 ─",
        "┌ shard 1 · CPUs 12-23 ─",
        "│ 0-1 2-3 4-5 6-7 8-9 10-11 │",
        "wq_unbound_cpumask=ffff,ffffffff (0-47)\n",
        "\nCACHE_SHARD (default)\n  nr_pods  4\n  pod_cpus [0]=0-11 [1]=12-23 [2]=24-35 [3]=36-47\n",
        "  pod_node [0-1]=0 [2-3]=1\n  cpu_pod  [0-11]=0 [12-23]=1 [24-35]=2 [36-47]=3\n",
        "\nSYSTEM\n  nr_pods  1\n  pod_cpus [0]=0-47\n  pod_node [0]=none\n  cpu_pod  [0-47]=0\n",
    ] {
        assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
    }
    for scope in ["\nCPU\n", "\nSMT\n", "\nCACHE\n", "\nNUMA\n"] {
        assert!(shown.contains(scope), "{scope:?} is not in:\n{shown}");
    }
    let widest = shown.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns:\n{shown}");
}

/// Sub-NUMA clustering, and what is assumed where nothing is said of caches.
#[test]
fn caches_are_cut_at_nodes_and_assumed_ones_are_told() {
    for (machine, assumed) in [
        ("pack:1 l3:1 numa:2 core:12 pu:1", json!([])),
        (
            "pack:1 numa:2 core:12 pu:1",
            json!([
                "no cache information: the CPUs of a package on one node are taken to share a last-level cache"
            ]),
        ),
    ] {
        let arguments = ["topology", "--synthetic", machine];
        let value = json_of(&mut cmwq(&[&arguments[..], &["--format", "json"]].concat()));
        assert_eq!(value["assumed"], assumed, "{machine}");
        let firsts = |scope: &str| {
            let pods = value["scopes"][scope]["pods"].as_array().expect("pods");
            let firsts = pods.iter().map(|pod| pod["cpus"][0].clone());
            firsts.collect::<Value>()
        };
        assert_eq!(firsts("cache"), json!([0, 12]), "{machine}");
        assert_eq!(firsts("cache_shard"), json!([0, 6, 12, 18]), "{machine}");
        let shown = said(&mut cmwq(&arguments));
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in assumed.as_array().expect("a list") {
            let line = format!("Assumed: {}", line.as_str().expect("text"));
            assert!(shown.contains(&line), "{shown}");
        }
        assert_eq!(shown.contains("Assumed: "), assumed != json!([]), "{shown}");
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for machine in ["pack:2 core:1 pu:1", "l3:4 core:4 pu:8"] {
        for columns in [40, 60, 61, 62] {
            let mut command = cmwq(&["topology", "--synthetic", machine]);
            let shown = said(command.env("COLUMNS", columns.to_string()));
            let widest = shown.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns), "{widest:?} of {columns}:\n{shown}");
        }
    }
}

#[test]
fn alike_parts_of_a_large_machine_are_drawn_once() {
    let shown = said(&mut cmwq(&[
        "topology",
        "--synthetic",
        "pack:2 l3:8 core:8 pu:2",
    ]));
    assert!(
        shown.contains("… and 7 more like it: LLC 1-7 · CPUs 16-127"),
        "{shown}"
    );
    assert!(
        shown.contains("… and 1 more like it: package 1 · CPUs 128-255"),
        "{shown}"
    );
    let drawing = shown.split("Affinity Scopes").next().expect("a drawing");
    assert!(drawing.lines().count() < 15, "{drawing}");
    let largest = said(&mut cmwq(&[
        "topology",
        "--synthetic",
        "pack:16 numa:4 l3:4 core:16 pu:2",
    ]));
    assert!(largest.contains("8192 CPUs"));
}

#[test]
fn one_scope_may_be_asked_for() {
    let shown = said(&mut cmwq(&[
        "topology",
        "--synthetic",
        "l3:2 core:2",
        "--scope",
        "cache",
    ]));
    assert_eq!(
        shown,
        "CACHE\n  nr_pods  2\n  pod_cpus [0]=0-1 [1]=2-3\n  pod_node [0-1]=0\n  cpu_pod  [0-1]=0 [2-3]=1\n"
    );
    let default = said(&mut cmwq(&[
        "topology",
        "--synthetic",
        "core:2",
        "--scope",
        "default",
    ]));
    assert!(default.starts_with("CACHE_SHARD (default)\n"), "{default}");
}

#[test]
fn this_machine_is_shown() {
    assert!(said(&mut cmwq(&["topology"])).starts_with("This machine: "));
}

#[test]
fn a_shard_size_of_0_becomes_1_with_one_warning() {
    let output = cmwq(&[
        "topology",
        "--synthetic",
        "l3:1 core:4",
        "--shard-size",
        "0",
        "--format",
        "json",
    ])
    .output()
    .expect("the command starts");
    assert_eq!(output.status.code(), Some(0));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["cache_shard_size"], 1);
    assert_eq!(
        value["scopes"]["cache_shard"]["pods"]
            .as_array()
            .expect("pods")
            .len(),
        4
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "cmwq: --shard-size: a shard of 0 cores is impossible, 1 is used\n"
    );
}

#[test]
fn every_bad_argument_is_refused_in_one_line_that_names_it() {
    let cases: [(&[&str], &str); 21] = [
        (&["topolgy"], "'topolgy'"),
        (&["--nope"], "'--nope'"),
        (&["topology", "--nope"], "'--nope'"),
        (&["topology", "extra"], "'extra'"),
        (
            &["topology", "--format", "xml"],
            "'xml' for '--format <FORMAT>' [possible values: text, json]",
        ),
        (&["topology", "--synthetic"], "'--synthetic <TEXT>'"),
        (
            &["topology", "--synthetic", "pu:1", "--sysfs-root", "/"],
            "cannot be used with",
        ),
        (&["topology", "--synthetic", "pack:2 cor:8"], "\"cor:8\""),
        (&["topology", "--synthetic", ""], "no level given"),
        (&["topology", "--synthetic", "core:0"], "\"core:0\""),
        (&["topology", "--synthetic", "new\nline"], "\"new\""),
        (
            &["topology", "--sysfs-root", "/no/such/dir"],
            "\"/no/such/dir\"",
        ),
        (&["topology", "--sysfs-root", "/dev/null"], "\"/dev/null\""),
        (
            &["topology", "--scope", "Cache"],
            "\"Cache\": it must be default, cpu, smt, cache, cache_shard, numa",
        ),
        (&["topology", "--scope", "cache\n\n"], "\"cache\\n\\n\""),
        (&["topology", "--scope", ""], "\"\""),
        (
            &["topology", "--shard-size", "many"],
            "\"many\" is not a shard size: it must be a whole number of cores from 1 to 4294967295",
        ),
        (&["topology", "--shard-size", "-1"], "\"-1\""),
        (&["topology", "--shard-size", "4.5"], "\"4.5\""),
        (
            &["topology", "--shard-size", "4294967296"],
            "\"4294967296\"",
        ),
        (&["topology", "--shard-size", ""], "\"\""),
    ];
    for (arguments, named) in cases {
        let line = refusal(&mut cmwq(arguments));
        assert!(line.contains(named), "{arguments:?}: {line}");
        assert!(!line.ends_with('.') && !line.contains("Usage"), "{line}");
    }
}

#[test]
fn a_closed_standard_output_is_an_error() {
    for arguments in [
        &["topology"][..],
        &["--help"],
        &["completions", "bash"],
        &["sim", "--synthetic", "core:2"],
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" >&-"]);
        let line = failed(command.arg(env!("CARGO_BIN_EXE_cmwq")).args(arguments));
        assert!(line.contains("standard output: it is closed"), "{line}");
    }
    // Not so a process that writes nothing to it.
    let mut null = cmwq(&["topology"]);
    assert!(
        null.stdout(Stdio::null())
            .status()
            .expect("it starts")
            .success()
    );
}

#[test]
fn every_bad_variable_is_refused_in_one_line_that_names_it() {
    for (name, value, named) in [
        ("CMWQ_TOPOLOGY", "/no/such/dir", "\"/no/such/dir\""),
        ("CMWQ_TOPOLOGY", "banana", "\"banana\""),
        ("CMWQ_CACHE_SHARD_SIZE", "1e3", "\"1e3\""),
        ("CMWQ_DEFAULT_AFFINITY_SCOPE", "default", "\"default\""),
        ("CMWQ_DEFAULT_AFFINITY_SCOPE", "NUMA", "\"NUMA\""),
        ("CMWQ_MIX_CORE_KINDS", "yes", "\"yes\""),
        ("CMWQ_CPU_LIMIT", "0", "\"0\""),
        ("CMWQ_UNBOUND_CPUS", "3-1", "\"3-1\""),
    ] {
        let line = refusal(cmwq(&["topology"]).env(name, value));
        assert!(line.starts_with(&format!("{name}: ")), "{line}");
        assert!(line.contains(named), "{line}");
    }
}

#[test]
fn help_has_an_example_and_succeeds() {
    for arguments in [
        &["--help"][..],
        &["topology", "--help"],
        &["help", "topology"],
        &["--version"],
    ] {
        let help = said(&mut cmwq(arguments));
        assert!(
            arguments[0] != "topology" || help.contains("Examples:\n  cmwq topology"),
            "{help}"
        );
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let mut child = cmwq(&["topology", "--synthetic", "core:8192"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    // Much more than a pipe holds is to come.
    let mut first = [0; 1];
    let mut reader = child.stdout.take().expect("a pipe");
    reader.read_exact(&mut first).expect("a byte");
    drop(reader);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

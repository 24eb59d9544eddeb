//! How the command answers what it is asked for: rightly, nearly rightly, wrongly, or for nothing at all.

use crate::common::{cmwq, complaint, refused, said, serve};
use std::process::Command;

/// What it writes: to standard output, to standard error, and its exit status.
fn ran(command: &mut Command) -> (String, String, Option<i32>) {
    let output = command.output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

#[test]
fn without_arguments_it_shows_its_help_where_errors_are_shown() {
    let (out, help, status) = ran(&mut cmwq(&[]));
    assert_eq!((&*out, status), ("", Some(2)));
    assert_eq!(help, said(&mut cmwq(&["--help"])));
}

#[test]
fn what_is_nearly_right_is_named() {
    for (args, meant) in [
        (&["topolgy"][..], "topology"),
        (&["tpo"], "top"),
        (&["bench", "--scop", "x"], "--scopes"),
        (&["list", "--fromat", "json"], "--format"),
        (&["list", "--format", "jsn"], "json"),
        (&["bench", "--thread", "2"], "--threads"),
    ] {
        let line = refused(&mut cmwq(args));
        assert!(
            line.contains(&format!("; did you mean '{meant}'? See --help")),
            "{line}"
        );
    }
    let line = refused(&mut cmwq(&["nothing-like-it"]));
    assert!(!line.contains("did you mean"), "{line}");
}

#[test]
fn names_that_are_nearly_right_are_named() {
    let served = serve();
    let comm = std::fs::read_to_string("/proc/self/comm").expect("a name");
    let own = comm.trim_end();
    let slip = format!("{own}x");
    for (args, status, meant) in [
        (&["bench", "--scopes", "cach"][..], 2, "cache"),
        (&["bench", "--loop", "windw"], 2, "window"),
        (&["topology", "--scope", "cache-shard"], 2, "cache_shard"),
        (&["get", "-p", "PID", "oi"], 2, "io"),
        (&["get", "-p", "PID", "io", "max_actve"], 2, "max_active"),
        (&["set", "-p", "PID", "oi", "nice", "0"], 2, "io"),
        (&["set", "-p", "PID", "io", "ncie", "0"], 2, "nice"),
        (
            &["set", "-p", "PID", "io", "affinity_scope", "Cache"],
            2,
            "cache",
        ),
        (&["param", "-p", "PID", "cpu_limt"], 2, "cpu_limit"),
        (
            &["param", "-p", "PID", "default_affinity_scope", "nmua"],
            2,
            "numa",
        ),
        (&["dump", "-p", &slip], 1, own),
    ] {
        let line = complaint(&mut served.command(args), status);
        assert!(
            line.ends_with(&format!("; did you mean '{meant}'?\n")),
            "{line}"
        );
    }
    let line = complaint(
        &mut served.command(&["get", "-p", "PID", "nothing-like-it"]),
        2,
    );
    assert!(!line.contains("did you mean"), "{line}");
}

#[test]
fn the_exit_status_tells_what_failed_from_what_was_asked_wrongly() {
    let served = serve();
    let own = std::process::id().to_string();
    for (args, status) in [
        (&["dump", "-p", "4000000"][..], 1),
        (&["dump", "-p", "no-such-name"], 1),
        (&["get", "-p", &own, "no-such-queue"], 2),
        (&["set", "-p", &own, "io", "max_active", "many"], 2),
        (&["set", "-p", &own, "io", "max_active"], 2),
        (&["param", "-p", &own, "watchdog_thresh", "soon"], 2),
        (&["monitor", "-p", &own, "--interval", "-1"], 2),
        (&["trace", "-p", &own, "--output", "/nowhere/a"], 1),
        (&["man", "/nowhere"], 1),
        (&["mount", "/nowhere"], 1),
        (&["top", "-p", &own], 1),
    ] {
        complaint(&mut served.command(args), status);
    }
}

#[test]
fn colours_are_for_those_who_ask() {
    let escape = "\u{1b}[";
    let help = |args: &[&str]| ran(&mut cmwq(args)).0;
    // It writes into a pipe here.
    assert!(!help(&["--help"]).contains(escape));
    assert!(help(&["--color", "always", "--help"]).contains(escape));
    assert!(help(&["topology", "--help", "--color=always"]).contains(escape));
    assert!(!help(&["--color", "never", "--help"]).contains(escape));
    let (_, line, _) = ran(&mut cmwq(&["--color=always", "topolgy"]));
    assert!(
        line.starts_with("\u{1b}[1;31mcmwq:\u{1b}[0m unrecognized"),
        "{line:?}"
    );
    let line = refused(&mut cmwq(&["--color", "sometimes", "list"]));
    assert!(
        line.contains("[possible values: auto, always, never]"),
        "{line}"
    );
}

#[test]
fn set_and_param_take_a_name_and_a_value_in_the_same_two_ways() {
    let served = serve();
    for (set, shown) in [
        (&["set", "-p", "PID", "io", "max_active", "7"][..], "7\n"),
        (&["set", "-p", "PID", "io", "max_active=9"], "9\n"),
    ] {
        assert_eq!(served.ok(set), "");
        assert_eq!(served.ok(&["get", "-p", "PID", "io", "max_active"]), shown);
    }
    for (set, shown) in [
        (&["param", "-p", "PID", "watchdog_thresh", "60"][..], "60\n"),
        (&["param", "-p", "PID", "watchdog_thresh=50"], "50\n"),
    ] {
        assert_eq!(served.ok(set), "");
        assert_eq!(served.ok(&["param", "-p", "PID", "watchdog_thresh"]), shown);
    }
}

#[test]
fn every_json_is_lines_of_one_value_each() {
    let served = serve();
    for args in [
        &["list"][..],
        &["dump", "-p", "PID"],
        &["busy", "-p", "PID"],
        &["get", "-p", "PID", "io"],
        &["param", "-p", "PID"],
        &["monitor", "-p", "PID", "--interval", "0"],
        &["topology"],
    ] {
        let text = served.ok(&[args, &["--format", "json"]].concat());
        // Only `busy` has nothing to say here.
        assert_eq!(text.is_empty(), args[0] == "busy", "{args:?}");
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).expect(line);
            assert!(value.is_object(), "{args:?}: {line}");
        }
    }
}

#[test]
fn a_large_machine_takes_a_screen_and_full_writes_everything_out() {
    let machine = ["topology", "--synthetic", "pack:2 l3:8 core:8 pu:1"];
    let short = said(&mut cmwq(&machine));
    assert!(short.lines().count() < 56, "{short}");
    let cpu = "CPU\n  nr_pods  128\n  pod_cpus [0]=0 [1]=1 … [127]=127\n  pod_node [0-127]=0\n  cpu_pod  [0]=0 [1]=1 … [127]=127\n";
    assert!(short.contains(cpu), "{short}");
    // Hardware threads, with neighbouring numbers.
    let threads = said(&mut cmwq(&[
        "topology",
        "--synthetic",
        "pack:2 l3:8 core:4 pu:2",
    ]));
    assert!(threads.lines().count() < 56, "{threads}");
    let smt = "SMT\n  nr_pods  64\n  pod_cpus [0]=0-1 [1]=2-3 … [63]=126-127\n  pod_node [0-63]=0\n  cpu_pod  [0-1]=0 [2-3]=1 … [126-127]=63\n";
    assert!(threads.contains(smt), "{threads}");
    let full = said(cmwq(&machine).arg("--full"));
    assert!(full.contains(" [126]=126 [127]=127\n"), "{full}");
    assert!(!full.contains("more like it"), "{full}");
    // What is no stretch is written out in both.
    let few = said(&mut cmwq(&[
        "topology",
        "--synthetic",
        "core:9 pu:2",
        "--scope",
        "smt",
    ]));
    assert!(few.contains(" [7]=14-15 [8]=16-17\n"), "{few}");
}

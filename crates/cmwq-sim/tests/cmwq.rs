//! The library itself on virtual machines.

use std::process::Command;

/// The first row by the command: what the process has once begins anew with each run.
fn row(arguments: &[&str]) -> serde_json::Value {
    rows(arguments)[0].clone()
}

/// All rows by the command.
fn rows(arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-sim"))
        .args(["sim", "--format", "json"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    table["rows"].clone()
}

#[test]
fn cmwq_does_the_loops_on_72_cpus() {
    for kind in ["roundtrip", "flood"] {
        for (scope, pods) in [("cache_shard", 9), ("cache", 1)] {
            let arguments = "--machine grace --seeds 1 --window-us 100 --scopes";
            let arguments = arguments.split(' ').chain([scope, "--load", kind]);
            let row = row(&arguments.collect::<Vec<_>>());
            assert_eq!(row["pods"], pods);
            assert!(row["items_per_s"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_of_cmwq() {
    let run = |seed| {
        let arguments = "--machine 3900x --scopes cache --seeds 1 --window-us 50 --seed";
        let arguments: Vec<&str> = arguments.split(' ').chain([seed]).collect();
        row(&arguments)["log_hash"].clone()
    };
    assert_eq!(run("3"), run("3"));
    assert_ne!(run("3"), run("4"));
}

/// The published scenario 3: four issuers on 24 CPUs. Which of them lie under one cache changes
/// with the seed, and where they do, strict pods leave CPUs idle: with 13 of 30 seeds their rate is
/// 0.69 to 0.92 of that of one pool for all, and with the others about 1.06. So the slowest seeds
/// are compared. A cache has three cores here: the pods of `cache_shard` are those of `cache`.
#[test]
fn pods_that_are_not_strict_leave_no_cpu_idle_that_one_pool_for_all_would_use() {
    let slowest = |more: &[&str]| -> Vec<f64> {
        let arguments = "--machine 3900x --load block-load --issuers 4";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let rows = rows(&[&arguments, more].concat());
        let rows = rows.as_array().unwrap().iter();
        let rate = |row: &serde_json::Value| row["items_per_s_min"].as_f64().unwrap();
        rows.map(rate).collect()
    };
    let least = slowest(&["--seeds", "12", "--scopes", "cache,system"]);
    let [cache, system] = least[..] else {
        panic!("{least:?}")
    };
    // 1.00 and 1.02 in two builds. Without steals 5 of 12 seeds come to 0.80 to 0.92.
    let bound = 0.93 * system;
    assert!(cache > bound, "{cache} against {system}");
    // Strict pods are slow with some seed: the first one that is ends the search.
    let is_slow = |seed: u64| {
        let seed = seed.to_string();
        let one = ["--strict", "--scopes", "cache", "--seeds", "1", "--seed"];
        slowest(&[&one[..], &[seed.as_str()]].concat())[0] < bound
    };
    assert!(
        (1..=40).any(is_slow),
        "strict pods are as fast with 40 seeds"
    );
}

/// More than forty times as many items as may be active: nine pods pass the credits on to each
/// other. A pod that fetched them one at a time for a chunk while another pod waited did not get out
/// of that again: with four of ten seeds the rate was 0.35 to 0.41 of one pool's. Now it is 1.06 to
/// 1.16 with ten.
#[test]
fn nine_pods_that_share_the_credits_do_not_wait_for_each_other() {
    let rate = |more: &str| {
        let arguments = format!("--machine grace --load flood {more}");
        let row = row(&arguments.split(' ').collect::<Vec<_>>());
        row["items_per_s_min"].as_f64().unwrap()
    };
    let shards = rate("--seeds 2 --scopes cache_shard");
    let cache = rate("--seeds 1 --scopes cache");
    assert!(shards > 0.9 * cache, "{shards} against {cache}");
}

/// Eight times as many items as may be active. The pods whose items are published and not accepted
/// gave back the credit of each item that ended, and the others began with one credit each, with a
/// wake-up for each item: 0.69 of what the CPUs bear. Now it is 0.91 to 0.93 with ten seeds.
#[test]
fn pods_with_items_that_wait_pass_few_credits_on() {
    let arguments = "--load window --seeds 2 --scopes cache_shard";
    let machine = ["--synthetic", "pack:2 l3:4 core:14 pu:1"];
    let arguments: Vec<&str> = machine.into_iter().chain(arguments.split(' ')).collect();
    let row = row(&arguments);
    let bound = 112.0 / 20e-6;
    let rate = row["items_per_s_min"].as_f64().unwrap();
    assert!(rate > 0.82 * bound, "{rate} of {bound}: {row}");
    let wakeups = row["item"]["wakeups"].as_f64().unwrap();
    assert!(wakeups < 0.15, "{wakeups}");
}

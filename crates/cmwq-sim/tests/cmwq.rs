//! The library itself on virtual machines.

use std::process::Command;

/// One row by the command: what the process has once begins anew with each run.
fn row(arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-sim"))
        .args(["sim", "--format", "json"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    table["rows"][0].clone()
}

#[test]
fn cmwq_does_the_loops_on_72_cpus() {
    for (kind, items) in [("roundtrip", "20"), ("flood", "100")] {
        for (scope, pods) in [("cache_shard", 9), ("cache", 1)] {
            let row = row(&[
                "--machine",
                "grace",
                "--loop",
                kind,
                "--scopes",
                scope,
                "--items",
                items,
            ]);
            assert_eq!(row["pods"], pods);
            assert!(row["items_per_s"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run_of_cmwq() {
    let run = |seed| {
        let arguments = [
            "--machine",
            "3900x",
            "--scopes",
            "cache",
            "--items",
            "30",
            "--seed",
            seed,
        ];
        row(&arguments)["log_hash"].clone()
    };
    assert_eq!(run("3"), run("3"));
    assert_ne!(run("3"), run("4"));
}

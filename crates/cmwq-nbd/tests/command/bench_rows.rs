//! What the rows of `cmwq-nbd bench` are about.

use std::process::Command;

use crate::bench::{bench, has_fio, labels, report, text};
use crate::common::Deadline;

#[test]
fn each_request_of_a_row_that_is_compared_is_a_work_item() {
    let _deadline = Deadline::long("rows of work items");
    if !has_fio("each_request_of_a_row_that_is_compared_is_a_work_item") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().to_str().expect("text");
    let media: [&[&str]; 2] = [&[], &["--file", file, "--io-uring"]];
    for medium in media {
        let args = [
            "--runs",
            "1",
            "--runtime",
            "1",
            "--scenarios",
            "4k",
            "--format",
            "json",
        ];
        let output = bench(&[&args[..], medium].concat())
            .output()
            .expect("it starts");
        if text(&output.stderr).contains("--io-uring: ") {
            println!("by io_uring: skipped, because {}", text(&output.stderr));
            continue;
        }
        let report = report(&output);
        for table in report["tables"].as_array().expect("tables") {
            let expected = [
                "cache",
                "cache_shard",
                "cache, inline",
                "plain",
                "plain, inline",
            ];
            assert_eq!(labels(table), expected);
            for outcome in table["outcomes"].as_array().expect("outcomes") {
                let name = outcome["subject"].as_str().expect("a name");
                for run in outcome["runs"].as_array().expect("runs") {
                    let items = run["items_per_request"].as_f64().expect("counted");
                    let is_inline = name.ends_with("inline");
                    assert!(items >= 1.0 || is_inline, "{name}: {run}");
                    assert!(
                        items < 1.0 || !is_inline || !medium.is_empty(),
                        "{name}: {run}"
                    );
                }
            }
            let delta = &table["outcomes"][1]["delta"];
            assert_eq!(
                delta["per_run"].as_array().map(Vec::len),
                Some(1),
                "{delta}"
            );
            assert_eq!(
                delta["tells"].as_bool(),
                Some(false),
                "of a single run: {delta}"
            );
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
    }
}

#[test]
fn job_files_are_printed_without_measuring() {
    let output = bench(&["--print-jobs", "--scenarios", "1,nfs"])
        .output()
        .expect("it starts");
    let jobs = text(&output.stdout);
    assert!(output.status.success());
    assert_eq!(jobs.matches("[load]").count(), 1 + 12, "{jobs}");
    for line in [
        "verify=sha512",
        "iodepth=64",
        "numjobs=24",
        "bs=512",
        "direct=1",
        "numjobs=200",
    ] {
        assert!(jobs.lines().any(|each| each == line), "{line}: {jobs}");
    }
}

#[test]
fn a_disk_that_does_not_fit_into_memory_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
        .args([
            "bench",
            "--print-jobs",
            "--scenarios",
            "3",
            "--size",
            "1000T",
        ])
        .output()
        .expect("it starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("cmwq-nbd: --size: 1099511627776000 is too large for a disk in memory"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

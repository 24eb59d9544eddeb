//! Commands that ask a process which has made no workqueue yet. They say so in words, and end with
//! status 1 (it failed), not 2 (it was asked wrongly).

use crate::common::{cmwq, failed, said};
use cmwq_control::ControlBuilder;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// The folder in which the process that this test starts serves.
const FOLDER: &str = "CMWQ_TEST_IDLE_FOLDER";

/// Serves without a workqueue until its standard input ends.
fn idle(folder: &Path) {
    let _control = ControlBuilder::new()
        .dir(folder)
        .serve()
        .expect("it serves");
    println!("\nserves");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("open");
}

#[test]
fn a_process_without_a_workqueue_is_not_answered_with_silence() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return idle(Path::new(&folder));
    }
    let dir = tempfile::tempdir().expect("a folder");
    let mut process = Command::new(std::env::current_exe().expect("it has a path"));
    let name = "before::a_process_without_a_workqueue_is_not_answered_with_silence";
    process
        .args(["--exact", name, "--nocapture"])
        .env(FOLDER, dir.path().join("cmwq"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut process = process.spawn().expect("it starts");
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    let is_ready = |line: std::io::Result<String>| line.expect("UTF-8") == "serves";
    assert!(lines.by_ref().any(is_ready), "it never serves");
    let pid = process.id().to_string();
    let command = |args: &[&str]| {
        let mut command = cmwq(args);
        command.env("XDG_RUNTIME_DIR", dir.path());
        command
    };

    let yet = format!("({pid}) has made no workqueue yet: it has no pools and no workers.\n");
    let asked: [&[&str]; 4] = [
        &["dump"],
        &["monitor", "--interval", "0"],
        &["busy"],
        &["busy", "--freezable"],
    ];
    for args in asked {
        let text = said(&mut command(args));
        assert!(text.ends_with(&yet), "{args:?}: {text}");
    }
    let picture = dir.path().join("top.svg");
    let picture = picture.to_str().expect("text");
    said(&mut command(&[
        "top",
        "--interval=0.1",
        "--snapshot",
        picture,
    ]));
    let picture = std::fs::read_to_string(picture).expect("it is written");
    assert!(picture.contains("no workqueue yet"), "{picture}");
    assert!(!picture.contains("items/s"), "{picture}");
    // For programs no line is the right number of lines.
    for args in [["monitor", "--interval=0"], ["busy", "--freezable"]] {
        let mut command = command(&args);
        assert_eq!(said(command.arg("--format=json")), "", "{args:?}");
    }
    let asked: [&[&str]; 5] = [
        &["param"],
        &["param", "cpumask"],
        &["param", "cpumask", "1"],
        &["get", "io"],
        &["set", "io", "max_active", "1"],
    ];
    for args in asked {
        let line = failed(&mut command(args));
        assert!(line.contains("has made no workqueue yet"), "{line}");
    }
    drop(process.stdin.take());
    assert!(lines.all(|line| line.is_ok()));
    assert!(process.wait().expect("it ends").success());
}

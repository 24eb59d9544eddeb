//! `cmwq sim` passes all its arguments to the simulator, which is a program of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

/// One test at a time: what one writes cannot be executed while a child that another one starts has it open.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder with `cmwq` in it, and nothing else.
fn installed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(env!("CARGO_BIN_EXE_cmwq"), dir.path().join("cmwq")).unwrap();
    dir
}

fn put_simulator(dir: &Path, says: &str) {
    let program = dir.join("cmwq-sim");
    fs::write(&program, format!("#!/bin/sh\necho {says} \"$@\"\nexit 7\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

fn sim(dir: &Path, path: &Path, arguments: &[&str]) -> Output {
    Command::new(dir.join("cmwq"))
        .arg("sim")
        .args(arguments)
        .env("PATH", path)
        .output()
        .unwrap()
}

#[test]
fn without_a_simulator_it_says_what_is_missing() {
    let _alone = ALONE.lock();
    let dir = installed();
    let empty = tempfile::tempdir().unwrap();
    let output = sim(dir.path(), empty.path(), &["--published"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("cmwq-sim") && said.contains("PATH"), "{said}");
    let install = "cargo install --path crates/cmwq-sim";
    assert!(said.contains(install), "{said}");
    for option in ["--help", "-h"] {
        let output = sim(dir.path(), empty.path(), &[option]);
        assert_eq!(output.status.code(), Some(0), "{option}");
        assert!(output.stderr.is_empty(), "{option}");
        let help = String::from_utf8(output.stdout).unwrap();
        let help: Vec<&str> = help.split_whitespace().collect();
        let help = help.join(" ");
        assert!(
            help.contains(install)
                && help.contains("Usage: cmwq sim")
                && help.contains("Examples:"),
            "{help}"
        );
    }
}

#[test]
fn the_help_of_the_command_says_that_the_simulator_is_a_package_of_its_own() {
    let _alone = ALONE.lock();
    let dir = installed();
    let output = Command::new(dir.path().join("cmwq"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let help: Vec<&str> = help.split_whitespace().collect();
    assert!(help.join(" ").contains("(needs the package cmwq-sim)"));
}

#[test]
fn the_simulator_beside_it_is_run_with_all_options_and_its_status_is_kept() {
    let _alone = ALONE.lock();
    let (dir, elsewhere) = (installed(), tempfile::tempdir().unwrap());
    put_simulator(elsewhere.path(), "from-the-path");
    let arguments = ["--machine", "grace", "--help", "-x", "--", "a b"];
    let expected = " sim --machine grace --help -x -- a b\n";
    let output = sim(dir.path(), elsewhere.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, format!("from-the-path{expected}"));
    put_simulator(dir.path(), "beside");
    let output = sim(dir.path(), elsewhere.path(), &arguments);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, format!("beside{expected}"));
    assert_eq!(output.status.code(), Some(7));
}

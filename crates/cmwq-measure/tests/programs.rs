//! The programs that take no time and that scripts rely on. (Cargo builds all programs of a crate
//! that has such a test, so `.ci/run` and `scripts/places` find them in the target folder.)

use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    output.expect("cargo has built the program")
}

#[test]
fn each_way_of_the_counted_load_ends() {
    let instructions = env!("CARGO_BIN_EXE_instructions");
    for way in ["work", "quiet", "spawn", "join"] {
        let output = run(instructions, &[way, "2000"]);
        assert!(output.status.success(), "{way}: {output:?}");
    }
    for wrong in [&["work"][..], &["other", "1"]] {
        let output = run(instructions, wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
}

#[test]
fn refused_calls_fail_with_the_number_that_was_asked_for() {
    let refuse = env!("CARGO_BIN_EXE_refuse");
    // `nice` prints the level by getpriority().
    let output = run(refuse, &["EPERM", "getpriority", "--", "nice"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("not permitted"),
        "{output:?}"
    );
    let output = run(refuse, &["EPERM", "io_uring_setup", "--", "nice"]);
    assert!(output.status.success(), "{output:?}");
}

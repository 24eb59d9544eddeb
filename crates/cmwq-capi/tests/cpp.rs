//! cmwq.hpp, by every C++ compiler that is here, with every warning on.
//!
//! Sabotage tried: leaving out the join when the function of a scope throws, not freeing a refused item, not waiting in the destructor of a
//! work, and letting an exception of a future's function through each fail the program.

mod common;

use common::{STRICT, crate_dir, folder, has_or_says, includes, run, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

const WARNINGS: [&str; 5] = [
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wnon-virtual-dtor",
    "-pthread",
];

fn compilers() -> Vec<&'static str> {
    let found: Vec<_> = ["g++", "clang++"]
        .into_iter()
        .filter(|c| has_or_says(c))
        .collect();
    assert!(
        !found.is_empty(),
        "no C++ compiler; on Debian: apt-get install g++"
    );
    found
}

fn build(folder: &Path, compiler: &str, source: &str, args: &[&str]) -> PathBuf {
    let program = folder.join(format!("program-{compiler}"));
    let mut command = Command::new(compiler);
    command.args(STRICT).args(WARNINGS).args(args);
    command.args(includes()).arg(crate_dir().join(source));
    command.arg("-L").arg(folder).arg("-lcmwq");
    command.arg(format!("-Wl,-rpath,{}", folder.display()));
    succeeds(command.arg("-o").arg(&program));
    program
}

#[test]
fn the_wrapper_keeps_its_promises() {
    let folder = folder("wrapper");
    for compiler in compilers() {
        for standard in ["-std=c++17", "-std=c++20"] {
            let program = build(
                &folder,
                compiler,
                "tests/cpp/wrapper.cpp",
                &[standard, "-O1"],
            );
            // What is refused is also warned of, on standard error, which follows.
            let text = run::<&str>(&program, &[]);
            assert!(text.starts_with("all holds\n"), "{text}");
        }
    }
}

#[test]
fn the_example_in_cpp() {
    let folder = folder("cpp-example");
    for compiler in compilers() {
        let program = build(
            &folder,
            compiler,
            "examples/cpp/futures.cpp",
            &["-std=c++17"],
        );
        assert_eq!(run::<&str>(&program, &[]), "5050\n1 4\n1000 events\nabc\n");
    }
}

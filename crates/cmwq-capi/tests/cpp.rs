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

/// Each of these is a mistake that beginners make. What a compiler says of it must be one error that is in our words.
#[test]
fn a_function_of_the_wrong_shape_is_one_clear_error() {
    let folder = folder("shapes");
    let cases = [
        (
            "queue.submit([](int) {}, \"text\");",
            "calls function(arguments...)",
        ),
        ("queue.submit([](int &n) { n++; }, number);", "std::ref(x)"),
        (
            "queue.execute([](int) {});",
            "calls its function without arguments",
        ),
        (
            "cmwq::work item([](int) {});",
            "calls its function without arguments",
        ),
        ("cmwq::scope(queue, [] {});", "calls function(items)"),
        (
            "cmwq::scope(queue, [](auto &s) { s.spawn([](int) {}); });",
            "without arguments",
        ),
        (
            "cmwq::blocking([](int) {});",
            "calls function(), without arguments",
        ),
    ];
    for (number, (line, said)) in cases.iter().enumerate() {
        let source = folder.join(format!("{number}.cpp"));
        let program = format!(
            "#include <cmwq.hpp>\nint main() {{ cmwq::workqueue queue(\"a\"); int number = 0; (void)number; {line} }}\n"
        );
        std::fs::write(&source, program).unwrap();
        for compiler in compilers() {
            let mut command = Command::new(compiler);
            command
                .args(["-std=c++17", "-fsyntax-only"])
                .args(includes());
            let output = command.arg(&source).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{compiler}: {line}");
            // Where it was, as compilers tell it, may be many lines.
            let ours = errors.lines().filter(|line| line.contains("error:"));
            let ours: Vec<&str> = ours.collect();
            assert!(
                ours[0].contains("cmwq: ") && ours[0].contains(said),
                "{compiler}: {errors}"
            );
            assert!(ours.len() <= 3, "{compiler}: {line}: {errors}");
        }
    }
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
            let shown = text
                .lines()
                .filter(|line| line.contains("named(cmwq::workqueue&)::"));
            assert!(shown.count() >= 2, "items have no names: {text}");
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

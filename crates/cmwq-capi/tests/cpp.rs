//! cmwq.hpp, by every C++ compiler that is here, with every warning on.
//!
//! Sabotage tried: leaving out the join when the function of a scope throws, not freeing a refused
//! item, not waiting in the destructor of a work, and letting an exception of a future's function
//! through each fail the program.

mod common;

use common::{DECLARING, STRICT, crate_dir, folder, has_or_says, includes, run, succeeds};
use std::collections::BTreeSet;
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

/// Each of these is a mistake that beginners make. What a compiler says of it must be one error
/// that is in our words.
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
            "auto future = queue.submit([](int) {}, \"text\"); future.get();",
            "calls function(arguments...)",
        ),
        (
            "auto future = queue.try_submit([](int) {}, \"text\"); future->get();",
            "calls function(arguments...)",
        ),
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
        (
            "entries.execute(queue, [] { return std::string(\"x\"); }, 1);",
            "an integer or nothing",
        ),
        (
            "entries.execute(queue, [](int) { return 1; }, 1);",
            "calls function(), without arguments",
        ),
        (
            "if (entries.try_execute(queue, number, 1)) number++;",
            "calls function(), without arguments",
        ),
    ];
    for (number, (line, said)) in cases.iter().enumerate() {
        let source = folder.join(format!("{number}.cpp"));
        let program = format!(
            "#include <cmwq.hpp>\n#include <string>\nint main() {{ cmwq::workqueue queue(\"a\"); cmwq::completion_queue entries; int number = 0; (void)number; {line} }}\n"
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
            // clang may add what follows from it.
            let most = if compiler == "g++" { 1 } else { 3 };
            assert!(ours.len() <= most, "{compiler}: {line}: {errors}");
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
            let shown: Vec<&str> = shown.collect();
            assert!(shown.len() >= 3, "items have no names: {text}");
            let is_function = |line: &&str| !line.contains("detail::") && !line.contains("void, ");
            assert!(shown.iter().all(is_function), "{shown:#?}");
        }
    }
}

#[test]
fn what_is_beside_queues_keeps_its_promises() {
    let folder = folder("beside");
    for compiler in compilers() {
        let program = build(
            &folder,
            compiler,
            "tests/cpp/beside.cpp",
            &["-std=c++17", "-O1"],
        );
        // What is refused is also warned of, on standard error, which follows.
        let text = run::<&str>(&program, &[]);
        assert!(text.starts_with("all holds\n"), "{text}");
    }
}

#[test]
fn macros_of_the_program_may_have_short_names() {
    let folder = folder("short-names");
    for compiler in compilers() {
        let source = "tests/cpp/short_names.cpp";
        let program = build(&folder, compiler, source, &["-std=c++17", "-O1"]);
        run::<&str>(&program, &[]);
    }
}

#[test]
fn a_handler_of_warnings_may_wait_for_items_of_the_scope_that_warns() {
    let folder = folder("scope-warns");
    for compiler in compilers() {
        let source = "tests/cpp/scope_warns.cpp";
        let program = build(&folder, compiler, source, &["-std=c++17", "-O1"]);
        run::<&str>(&program, &[]);
    }
}

/// Functions of `cmwq.h` that C++ programs call as they are, and why; `_` at the end stands for all
/// that begin so.
const AS_THEY_ARE: &[(&str, &str)] = &[
    (
        "cmwq_task_",
        "threads as the kernel-shaped headers have them; C++ has std::thread",
    ),
    ("cmwq_current_task", "the same"),
    (
        "cmwq_flush_work_as_kernel",
        "for the kernel-shaped headers only; flush() refuses what would never end",
    ),
    ("cmwq_flush_delayed_work_as_kernel", "the same"),
    (
        "cmwq_rcu_",
        "plain calls without errors or memory; what waits is embedded, as in C",
    ),
    ("cmwq_call_rcu", "the same"),
    ("cmwq_synchronize_rcu", "the same"),
    (
        "cmwq_queue_delayed_work_ns",
        "queue_after() tells all fates apart",
    ),
    (
        "cmwq_mod_delayed_work_ns",
        "requeue_after() tells all fates apart",
    ),
    ("cmwq_queue_work", "queue() tells all fates apart"),
    (
        "cmwq_schedule_on_each_cpu",
        "it takes a plain function: there is no place for a closure",
    ),
    (
        "cmwq_current_is_rescuer",
        "a plain call without errors or memory",
    ),
    ("cmwq_current_is_mem_reclaim", "the same"),
    ("cmwq_current_cpu", "the same"),
    ("cmwq_reset_signal_mask", "the same"),
    ("cmwq_now_ns", "the same"),
    (
        "cmwq_serve_control_if_asked",
        "the same; its answer is no error of the program",
    ),
    (
        "cmwq_freeze_workqueues_",
        "of the whole process; plain calls",
    ),
    ("cmwq_thaw_workqueues", "the same"),
    ("cmwq_show_all_workqueues", "the same"),
    ("cmwq_show_freezable_workqueues", "the same"),
    (
        "cmwq_set_warning_handler",
        "it is called for the whole life of the process: there is no place for a closure",
    ),
    ("cmwq_set_run_hooks", "the same; for tools"),
];

/// A developer who adds a function to the C headers also decides how C++ programs call it.
#[test]
fn each_function_of_the_c_headers_is_wrapped_or_called_as_it_is() {
    let include = crate_dir().join("include");
    let read = |name: &str| std::fs::read_to_string(include.join(name)).unwrap();
    let wrappers: String = std::fs::read_dir(&include)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".hpp"))
        .map(|name| common::without_comments(&read(&name)))
        .collect();
    // What stands between quotation marks are messages.
    let wrappers: String = wrappers.split('"').step_by(2).collect();
    let called: BTreeSet<&str> = wrappers
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .collect();
    let means = |entry: &str, name: &str| match entry.strip_suffix('_') {
        Some(_) => name.starts_with(entry),
        None => name == entry,
    };
    let listed = |name: &str| AS_THEY_ARE.iter().any(|(entry, _)| means(entry, name));
    let declared: BTreeSet<String> = DECLARING
        .iter()
        .flat_map(|name| common::declared(&read(name)))
        // The symbols of the workqueues that workqueue::system() has too.
        .filter(|name| !name.ends_with("_wq"))
        .collect();
    let is_called = |name: &str| called.contains(name);
    let (mut forgotten, mut twice) = (Vec::new(), Vec::new());
    for name in &declared {
        match (is_called(name), listed(name)) {
            (false, false) => forgotten.push(name),
            (true, true) => twice.push(name),
            _ => {}
        }
    }
    let stale = AS_THEY_ARE
        .iter()
        .filter(|(entry, _)| !declared.iter().any(|name| means(entry, name)));
    let stale: Vec<&str> = stale.map(|(entry, _)| *entry).collect();
    assert!(
        forgotten.is_empty() && twice.is_empty() && stale.is_empty(),
        "neither wrapped nor listed: {forgotten:?}; both: {twice:?}; listed and not declared: {stale:?}"
    );
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

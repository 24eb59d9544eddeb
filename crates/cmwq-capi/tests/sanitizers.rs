//! Programs under race detectors: these see what the library orders, and what it does not; and
//! under memcheck.

mod common;

use common::{cc, compile, crate_dir, folder, has, said, succeeds};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Memory and arithmetic, beside which the library runs as it is.
const MEMORY: [&str; 3] = [
    "-std=gnu11",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
];

/// The small programs, by name: a family of the kernel-shaped headers each, and batches and
/// completion queues.
fn small_programs() -> Vec<String> {
    let dir = crate_dir().join("tests/c/kernel");
    let names = fs::read_dir(dir).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.ends_with(".c")
            .then(|| format!("tests/c/kernel/{name}"))
    });
    let mut names: Vec<String> = names.collect();
    names.push("tests/c/programs/waits.c".into());
    names.sort_unstable();
    names
}

#[test]
fn the_small_programs_use_no_memory_wrongly_and_lose_none() {
    let probe = folder("asan-probe");
    fs::write(probe.join("probe.c"), "int main(void) { return 0; }\n").unwrap();
    let mut command = Command::new(cc());
    command.args(MEMORY).arg("-o").arg(probe.join("probe"));
    let built = command.arg(probe.join("probe.c")).output();
    if !built.is_ok_and(|output| output.status.success()) {
        println!("skipped, because the C compiler has no address sanitizer here");
        return;
    }
    let programs = small_programs();
    let half = programs.len() / 2;
    std::thread::scope(|scope| {
        for part in [&programs[..half], &programs[half..]] {
            scope.spawn(move || {
                for source in part {
                    let folder = folder(&format!("asan-{}", source.replace('/', "-")));
                    let program = compile(&folder, source, &cc(), &MEMORY);
                    let mut command = Command::new("timeout");
                    command.arg("300").arg(program);
                    command.env("ASAN_OPTIONS", "detect_stack_use_after_return=1");
                    succeeds(&mut command);
                }
            });
        }
    });
}

/// The sanitizer wants its addresses where they are without randomisation.
fn run(program: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["300", "setarch", "-R"]).arg(program);
    // Fewer rounds, and what to read.
    match program.file_stem().unwrap().to_str().unwrap() {
        "bench_wq" => command.arg("500"),
        "checksum" => command.arg(crate_dir()),
        _ => &mut command,
    };
    let suppressions = crate_dir().join("tests/c/sanitizers/exceptions.supp");
    // Without the second that it waits before a program ends. A worker may end then before the
    // thread that started it has let go of it.
    let options = "exitcode=66 report_bugs=1 atexit_sleep_ms=0 report_thread_leaks=0";
    let options = format!("{options} suppressions={}", suppressions.display());
    command.env("TSAN_OPTIONS", options).output().unwrap()
}

/// The compilers that have it here.
fn compilers(test: &str) -> Vec<String> {
    let folder = folder(&format!("tsan-probe-{test}"));
    let source = folder.join("probe.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let works = |compiler: &String| {
        let program = folder.join("probe");
        let mut command = Command::new(compiler);
        command.args(["-fsanitize=thread", "-o"]).arg(&program);
        command.arg(&source).output().is_ok_and(|output| {
            output.status.success() && has("setarch") && run(&program).status.success()
        })
    };
    let mut compilers = vec![cc(), "clang".into()];
    compilers.retain(|compiler| {
        let works = works(compiler);
        if !works {
            println!("skipped, because {compiler} has no thread sanitizer that runs here");
        }
        works
    });
    compilers
}

/// The programs, and how many races each can be told to have.
const PROGRAMS: [(&str, u32); 4] = [("threads", 3), ("others", 4), ("shared", 3), ("freed", 1)];

fn program(program: &str, compiler: &str, race: u32) -> Output {
    run(&built(program, compiler, race))
}

fn built(program: &str, compiler: &str, race: u32) -> PathBuf {
    let folder = folder(&format!("tsan-{program}-{race}-{compiler}"));
    let source = format!("tests/c/sanitizers/{program}.c");
    let race = format!("-DRACE={race}");
    let beside = crate_dir().join("tests/c/sanitizers/beside.c");
    let beside = beside.to_str().unwrap();
    let args = ["-std=gnu11", "-fsanitize=thread", &race, beside];
    compile(&folder, &source, compiler, &args)
}

/// A detector misses a race in a run where it has forgotten the first access when the second comes:
/// the rarest is found in two runs of five.
const ATTEMPTS: usize = 50;

#[test]
fn what_the_library_orders_is_no_race() {
    for compiler in compilers("ok") {
        for (name, _) in PROGRAMS {
            let output = program(name, &compiler, 0);
            let text = said(&output);
            assert!(
                output.status.success() && !text.contains("ThreadSanitizer"),
                "{name}, {compiler}: {}\n{text}",
                output.status
            );
        }
    }
}

#[test]
fn a_race_of_the_programs_own_is_found() {
    for compiler in compilers("race") {
        for (name, races) in PROGRAMS {
            for race in 1..=races {
                let built = built(name, &compiler, race);
                let finds = |_| said(&run(&built)).contains("WARNING: ThreadSanitizer: data race");
                assert!(
                    (0..ATTEMPTS).any(finds),
                    "{name}, {compiler}, {race}: no report in {ATTEMPTS} runs"
                );
            }
        }
    }
}

/// What is not run by itself, and why.
const NOT_RUN: [(&str, &str); 8] = [
    ("no_allocation", "replaces malloc(), as the sanitizer does"),
    ("fork", CHILD),
    ("fork_in_work", CHILD),
    ("fork_storm", CHILD),
    ("plugin", "is loaded by host"),
    ("host", "is linked without the library"),
    ("two_libraries", "is linked with another one"),
    ("own_tree", "has arguments: below"),
];
const CHILD: &str =
    "has a child that makes threads: the sanitizer knows that of none whose parent has some";

/// Programs with what they are compiled with besides; those in C++ by the compiler's other half.
const OTHERS: [(&str, &[&str]); 7] = [
    (
        "examples/libuv/from_libuv.c",
        &["-Wl,--no-as-needed", "-luv"],
    ),
    ("examples/libuv/server.c", &["-Wl,--no-as-needed", "-luv"]),
    (
        "tests/c/libuv/queue.c",
        &[
            "examples/libuv/uv_on_cmwq.c",
            "-Wl,-u,uv_getaddrinfo,-u,uv_random",
            "-l:libuv_a.a",
        ],
    ),
    (
        "tests/c/programs/own_tree.c",
        &["-DCMWQ_NO_NEIGHBOURS", "-Itests/c/programs/own"],
    ),
    ("tests/c/programs/plain_names.cpp", &[]),
    ("examples/cpp/futures.cpp", &[]),
    ("tests/cpp/wrapper.cpp", &[]),
];

/// All examples and test programs, and what they are compiled with.
fn every_program() -> Vec<(String, &'static [&'static str])> {
    let mut programs: Vec<_> = OTHERS
        .map(|(source, args)| (source.to_owned(), args))
        .into();
    for dir in ["examples", "measure", "tests/c/kernel", "tests/c/programs"] {
        for entry in fs::read_dir(crate_dir().join(dir)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let alone = NOT_RUN.iter().all(|(not_run, _)| *not_run != name);
            if alone && path.extension().is_some_and(|extension| extension == "c") {
                programs.push((format!("{dir}/{name}.c"), &[]));
            }
        }
    }
    programs
}

/// Compiles and runs it, unless it needs a library that is not here.
fn has_no_race(source: &str, args: &[&str], compiler: &str) {
    let folder = folder(&format!("tsan-{}-{compiler}", source.replace('/', "-")));
    let is_cpp = source.ends_with(".cpp");
    let there = |args: &[&str]| {
        let mut command = Command::new(compiler);
        command.args(["-x", "c", "/dev/null", "-shared", "-o"]);
        let output = command.arg(folder.join("probe")).args(args).output();
        output.is_ok_and(|output| output.status.success())
    };
    let libraries: Vec<_> = args
        .iter()
        .copied()
        .filter(|arg| arg.starts_with("-l"))
        .collect();
    let compiler = match (compiler, is_cpp) {
        ("clang", true) => "clang++",
        (_, true) => "c++",
        _ => compiler,
    };
    if !there(&libraries) || !has(compiler) {
        println!("skipped: {source}, because {libraries:?} or {compiler} is not here");
        return;
    }
    let mut flags = vec!["-fsanitize=thread".to_owned()];
    flags.push(if is_cpp { "-std=c++17" } else { "-std=gnu11" }.to_owned());
    flags.extend(
        args.iter()
            .map(|arg| match arg.find("tests/").or(arg.find("examples/")) {
                // Below the crate's folder, as the program itself.
                Some(at) => format!("{}{}/{}", &arg[..at], crate_dir().display(), &arg[at..]),
                None => (*arg).to_owned(),
            }),
    );
    let program = compile(&folder, source, compiler, &flags);
    let output = run(&program);
    let text = said(&output);
    assert!(
        output.status.success() && !text.contains("ThreadSanitizer"),
        "{source}, {compiler}: {}\n{text}",
        output.status
    );
}

#[test]
fn no_program_has_a_race() {
    let programs = every_program();
    for compiler in compilers("programs") {
        let half = programs.len() / 2;
        std::thread::scope(|scope| {
            for part in [&programs[..half], &programs[half..]] {
                let compiler = &compiler;
                scope.spawn(move || {
                    for (source, args) in part {
                        has_no_race(source, args, compiler);
                    }
                });
            }
        });
    }
}

#[test]
fn a_program_may_have_suppressions_of_its_own() {
    for compiler in compilers("own") {
        for (own, races) in [("-DNONE", true), ("-DCMWQ_OWN_SUPPRESSIONS", false)] {
            let folder = folder(&format!("tsan-own-{races}-{compiler}"));
            let args = ["-std=gnu11", "-fsanitize=thread", own];
            let source = "tests/c/sanitizers/own_suppressions.c";
            let text = said(&run(&compile(&folder, source, &compiler, &args)));
            let warned = text.contains("WARNING: ThreadSanitizer: data race");
            assert_eq!(warned, races, "{compiler}, {own}: {text}");
            // The library's own calls are not looked at.
            assert!(!text.contains("in free"), "{compiler}, {own}: {text}");
        }
    }
}

/// A program, compiled to be run by valgrind.
fn for_valgrind(tool: &str, race: u32) -> PathBuf {
    let folder = folder(&format!("valgrind-{tool}-{race}"));
    let race = format!("-DRACE={race}");
    let args = ["-std=gnu11", "-DCMWQ_VALGRIND", "-DROUNDS=20", &race];
    compile(&folder, "tests/c/sanitizers/threads.c", &cc(), &args)
}

/// Runs it by one of valgrind's tools, with the suppressions that are installed for that tool.
fn by_valgrind(tool: &str, program: &Path, args: &[&str]) -> Output {
    let suppressions = crate_dir().join(format!("valgrind/{tool}.supp"));
    let mut command = Command::new("timeout");
    command.args(["300", "valgrind", "--fair-sched=yes", "--error-exitcode=99"]);
    command.arg(format!("--tool={tool}")).args(args);
    command.arg(format!("--suppressions={}", suppressions.display()));
    command.arg(program).output().unwrap()
}

fn valgrind_is_here() -> bool {
    let here = has("valgrind") && Path::new("/usr/include/valgrind/drd.h").exists();
    if !here {
        println!("skipped, because valgrind and its headers are not here");
    }
    here
}

#[test]
fn helgrind_and_drd_find_the_races_of_the_program_and_no_others() {
    if !valgrind_is_here() {
        return;
    }
    for tool in ["helgrind", "drd"] {
        for race in 0..=2 {
            let output = by_valgrind(tool, &for_valgrind(tool, race), &[]);
            let text = said(&output);
            let expected = if race == 0 { 0 } else { 99 };
            assert_eq!(
                output.status.code(),
                Some(expected),
                "{tool}, {race}: {text}"
            );
            // What was found is in the program's own functions.
            assert!(race == 0 || text.contains("threads.c:"), "{tool}: {text}");
        }
    }
}

/// Requests have the same numbers in both tools: drd took helgrind's, one for each address, as well
/// as its own, and ended at one for NULL.
#[test]
fn a_program_that_makes_wrong_calls_goes_on_under_helgrind_and_drd() {
    if !valgrind_is_here() {
        return;
    }
    for tool in ["helgrind", "drd"] {
        let folder = folder(&format!("valgrind-wrong-{tool}"));
        // More are too many for drd beside other processes: it has each suppressed report's stack.
        let args = ["-std=gnu11", "-DCMWQ_VALGRIND", "-DROUNDS=5"];
        let program = compile(&folder, "tests/c/programs/waits.c", &cc(), &args);
        let output = by_valgrind(tool, &program, &[]);
        assert!(output.status.success(), "{tool}: {}", said(&output));
    }
}

#[test]
fn nothing_is_lost_to_memcheck_but_what_the_program_loses() {
    if !valgrind_is_here() {
        return;
    }
    let leaks = [
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,possible",
    ];
    for (lose, expected) in [(0, 0), (1, 99)] {
        let folder = folder(&format!("memcheck-{lose}"));
        let define = format!("-DLOSE={lose}");
        let source = "tests/c/sanitizers/leaks.c";
        let program = compile(&folder, source, &cc(), &["-std=gnu11", &define]);
        let output = by_valgrind("memcheck", &program, &leaks);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(expected), "{lose}: {text}");
    }
}

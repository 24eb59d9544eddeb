//! The C examples, and programs that do what a process may do with the library: all are compiled with every warning on, and run.

mod common;

use common::{built, cc, compile, folder, has, includes, run, succeeds};
use std::process::Command;

const GNU11: [&str; 1] = ["-std=gnu11"];

fn example(name: &str, args: &[&str]) -> String {
    let folder = folder(name);
    let program = compile(&folder, &format!("examples/{name}.c"), &cc(), &GNU11);
    run(&program, args)
}

#[test]
fn hello() {
    assert_eq!(example("hello", &[]), "hello from a worker\n");
}

#[test]
fn a_device_with_embedded_work() {
    assert_eq!(
        example("device", &[]),
        "eth0: 40000 interrupts handled, polled\n"
    );
}

#[test]
fn an_ordered_log() {
    assert_eq!(example("ordered_log", &[]), "2000 lines in order\n");
}

#[test]
fn checksums_in_every_scope() {
    let text = example("checksum", &[env!("CARGO_MANIFEST_DIR")]);
    for scope in ["cpu", "smt", "cache", "cache_shard", "numa", "system"] {
        assert!(text.lines().any(|line| line.starts_with(scope)), "{text}");
    }
}

#[test]
fn the_published_loop() {
    let text = example("bench_wq", &["500"]);
    assert_eq!(text.matches("items/sec").count(), 6, "{text}");
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn the_loop_that_measures_enqueueing() {
    let text = example("enqueue_cost", &[]);
    assert!(text.trim().parse::<f64>().is_ok(), "{text}");
}

#[test]
fn a_fork_in_the_middle() {
    for name in ["fork", "fork_in_work", "fork_storm"] {
        let folder = folder(name);
        let source = format!("tests/c/programs/{name}.c");
        run::<&str>(&compile(&folder, &source, &cc(), &GNU11), &[]);
    }
}

#[test]
fn queueing_allocates_nothing() {
    let folder = folder("no_allocation");
    run::<&str>(
        &compile(&folder, "tests/c/programs/no_allocation.c", &cc(), &GNU11),
        &[],
    );
}

#[test]
fn a_driver_with_the_kernels_includes() {
    for compiler in [cc(), "clang".into()].iter().filter(|name| has(name)) {
        let folder = folder("module");
        let program = compile(&folder, "tests/c/programs/module.c", compiler, &GNU11);
        let text = run::<&str>(&program, &[]);
        assert_eq!(text, "toynet: 500 packets, 44950 bytes\n");
    }
}

#[test]
fn a_program_may_bring_its_own_of_everything() {
    let folder = folder("steps_aside");
    run::<&str>(
        &compile(&folder, "tests/c/programs/steps_aside.c", &cc(), &GNU11),
        &[],
    );
}

#[test]
fn a_tool_may_have_a_linux_tree_of_its_own() {
    let folder = folder("own_tree");
    let [ours] = includes();
    let dir = common::crate_dir().join("tests/c/programs/own");
    let own = format!("-I{}", dir.display());
    for first in [&ours, &own] {
        let args = ["-std=gnu11", "-DCMWQ_NO_NEIGHBOURS", first, &own];
        let source = "tests/c/programs/own_tree.c";
        run::<&str>(&compile(&folder, source, &cc(), &args), &[]);
    }
}

#[test]
fn the_headers_work_in_cpp() {
    for compiler in ["c++", "clang++"]
        .into_iter()
        .filter(|compiler| has(compiler))
    {
        let folder = folder(&format!("cpp-{compiler}"));
        let source = "tests/c/programs/plain_names.cpp";
        run::<&str>(&compile(&folder, source, compiler, &["-std=c++17"]), &[]);
    }
}

#[test]
fn shared_objects_come_and_go() {
    let folder = folder("plugins");
    let plugins = ["a", "b", "c"].map(|name| {
        let plugin = folder.join(format!("plugin-{name}.so"));
        let mut command = Command::new(cc());
        command
            .args(["-shared", "-fPIC", "-std=gnu11"])
            .args(includes());
        command.arg(format!("-DNAME=\"plugin-{name}\""));
        command.arg(common::crate_dir().join("tests/c/programs/plugin.c"));
        command
            .arg("-L")
            .arg(&folder)
            .arg(format!("-Wl,-rpath,{}", folder.display()));
        command.args(["-lcmwq", "-o"]).arg(&plugin);
        succeeds(&mut command);
        plugin
    });
    let host = folder.join("host");
    let source = common::crate_dir().join("tests/c/programs/host.c");
    succeeds(
        Command::new(cc())
            .arg(source)
            .args(["-ldl", "-o"])
            .arg(&host),
    );
    run(&host, &plugins);
}

#[test]
fn the_static_library_links_alone() {
    let folder = folder("static");
    let program = folder.join("hello");
    let mut command = Command::new(cc());
    command.args(includes());
    command.arg(common::crate_dir().join("examples/hello.c"));
    command.arg(built().join("libcmwq_capi.a"));
    command
        .args([
            "-lgcc_s",
            "-lutil",
            "-lrt",
            "-lpthread",
            "-lm",
            "-ldl",
            "-lc",
            "-o",
        ])
        .arg(&program);
    succeeds(&mut command);
    assert_eq!(run::<&str>(&program, &[]), "hello from a worker\n");
}

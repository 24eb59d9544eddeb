//! Small C programs, each about one family of the kernel-shaped headers or one promise of the
//! interface: compiled with every warning on, in the GNU dialect that kernel code is written in,
//! and run.

mod common;

use common::{STRICT, cc, compile, crate_dir, folder, has_or_says, includes, run, succeeds};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

fn check(name: &str) {
    let folder = folder(&format!("kernel-{name}"));
    let program = compile(
        &folder,
        &format!("tests/c/kernel/{name}.c"),
        &cc(),
        &["-std=gnu11", "-O2"],
    );
    run::<&str>(&program, &[]);
}

/// What the headers' macros come to is also without a warning of clang's.
#[test]
fn clang_compiles_every_program() {
    if !has_or_says("clang") {
        return;
    }
    for entry in fs::read_dir(crate_dir().join("tests/c/kernel")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let mut command = Command::new("clang");
        command.args(STRICT).args(["-std=gnu11", "-fsyntax-only"]);
        succeeds(command.args(includes()).arg(path));
    }
}

/// One test for each program.
macro_rules! programs {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn every_program_is_a_test() {
            let listed: BTreeSet<String> = [$(stringify!($name)),*].map(str::to_owned).into();
            let there = fs::read_dir(crate_dir().join("tests/c/kernel")).unwrap();
            let there: BTreeSet<String> = there
                .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().strip_suffix(".c").map(str::to_owned))
                .collect();
            assert_eq!(listed, there);
        }
    };
}

programs! {
    async_runner
    atomics
    attributes
    attrs
    bench_module
    cancelled
    closures
    cpus
    families
    flush_behind
    fs_queues
    groups
    helpers
    hooks
    kthread_workers
    layout
    lists
    neighbours
    nodes
    notifiers
    only_workqueue
    own_places
    parallel_engine
    percpu
    rcu_within
    reinit
    reserves
    system
    tasklets
    threads
    timers
    unknown_cpu
    values
}
